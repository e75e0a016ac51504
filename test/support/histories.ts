/** Random histories of every kind of transfer with reorgs, as events and as the transfers that survive them. */
import fc from "fast-check";
import type { Hash } from "../../src/core/hex.ts";
import { TransferKind } from "../../src/events/columns.ts";
import type { ContractIdentified, NftEvent } from "../../src/events/types.ts";
import { columnsOf, type ModelTransfer } from "./naive-ledger.ts";

export const hash = (n: number) => `0x${n.toString(16).padStart(64, "0")}` as Hash;
export const identified: ContractIdentified = {
  type: "ContractIdentified",
  kind: "nft",
  forms: ["erc721"],
  name: "",
  symbol: "",
  startBlock: 0,
  block: 0,
};

/** An event that mints a token with the block's number as its id. */
export const committed = (block: number): NftEvent => ({
  type: "TransfersCommitted",
  fromBlock: block,
  toBlock: block,
  toHash: hash(block),
  count: 1,
  transfers: columnsOf([{ kind: 0, block, from: 0, to: 1, id: BigInt(block), amount: 1n }]),
});

const LARGE_IDS = [0n, 1n, 2n ** 32n, 2n ** 64n - 1n, 2n ** 64n, 2n ** 255n + 7n, 2n ** 256n - 1n];
const LARGE_AMOUNTS = [2n ** 53n, 2n ** 63n, 2n ** 64n - 2n ** 32n, 2n ** 64n, 2n ** 200n];

/** A step of a history: the transfers of one block, or a revert of some blocks. */
export type Step = { transfers: Omit<ModelTransfer, "block">[] } | { back: number };

const owner = fc.integer({ min: 0, max: 5 });
const id = fc.oneof(
  { weight: 6, arbitrary: fc.bigInt(0n, 12n) },
  { weight: 1, arbitrary: fc.constantFrom(...LARGE_IDS) },
);
export const single = fc.record({
  kind: fc.constantFrom(TransferKind.erc721, TransferKind.cryptopunks, TransferKind.mooncats),
  from: owner,
  to: owner,
  id,
  amount: fc.constant(1n),
});
export const multi = fc.record({
  kind: fc.constantFrom(TransferKind.erc1155, TransferKind.erc1155, TransferKind.erc6909),
  from: owner,
  to: owner,
  id,
  amount: fc.oneof(
    { weight: 8, arbitrary: fc.bigInt(0n, 4n) },
    { weight: 1, arbitrary: fc.constantFrom(...LARGE_AMOUNTS) },
  ),
});
export const range = fc.record({
  kind: fc.constant(TransferKind.range),
  from: fc.constantFrom(0, 0, 0, 1),
  to: owner,
  id: fc.bigInt(0n, 40n),
  amount: fc.bigInt(1n, 9n),
});
export const stepOf = (transfer: fc.Arbitrary<Omit<ModelTransfer, "block">>): fc.Arbitrary<Step> =>
  fc.oneof(
    { weight: 8, arbitrary: fc.record({ transfers: fc.array(transfer, { maxLength: 6 }) }) },
    { weight: 1, arbitrary: fc.record({ back: fc.integer({ min: 0, max: 6 }) }) },
  );

/** Turns steps into events. Returns the events and the surviving transfers. */
export function play(steps: readonly Step[]): { events: NftEvent[]; transfers: ModelTransfer[]; head: number } {
  const events: NftEvent[] = [{ type: "IndexingRequested" }, identified];
  let transfers: ModelTransfer[] = [];
  let head = -1;
  for (const step of steps) {
    if ("back" in step) {
      if (head < 0) continue;
      const ancestor = Math.max(0, head - step.back);
      events.push({ type: "BlocksReverted", ancestor: { number: ancestor, hash: hash(ancestor) } });
      transfers = transfers.filter((t) => t.block <= ancestor);
      head = ancestor;
      continue;
    }
    const block = head + 1;
    const added = step.transfers.map((t) => ({ ...t, block }));
    // A contract may do the same in several branches. The ids of a range stay below 2^256.
    transfers.push(...added);
    events.push({
      type: "TransfersCommitted",
      fromBlock: block,
      toBlock: block,
      toHash: hash(block),
      count: added.length,
      transfers: columnsOf(added),
    });
    head = block;
  }
  return { events, transfers, head };
}
