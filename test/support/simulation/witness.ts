/**
 * Invariants of every append, checked against the truth with no code under test except the codec: ranges are
 * contiguous, lie on one branch and hold exactly its transfers, no revert goes below the finalised block, headers are
 * real, and no collection is in doubt if no node contradicts itself.
 */
import type { Address } from "../../../src/core/hex.ts";
import { decodeTransfers, wordsToBigInt } from "../../../src/events/columns.ts";
import type { BlockRef, DomainEvent, StreamName, TransfersCommitted } from "../../../src/events/types.ts";
import type { ModelTransfer } from "../naive-ledger.ts";
import type { SimChain } from "./chain.ts";

export class Violation extends Error {}

export function check(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Violation(message);
}

interface StreamTruth {
  startBlock: number | undefined;
  end: BlockRef | undefined;
  completed: boolean;
}

const REQUESTS: readonly DomainEvent["type"][] = ["IndexingRequested", "ReindexRequested", "CollectionRemoved"];

export class Witness {
  readonly #chain: SimChain;
  readonly #mayDoubt: boolean;
  readonly #streams = new Map<StreamName, StreamTruth>();
  #head: BlockRef | undefined;
  #finalized: BlockRef | undefined;

  /** @param mayDoubt true if a node of the world lies, or loses blocks. Lags and refusals are no contradiction. */
  constructor(chain: SimChain, mayDoubt: boolean) {
    this.#chain = chain;
    this.#mayDoubt = mayDoubt;
  }

  /** The newest finalised block in the log. */
  get finalized(): number {
    return this.#finalized?.number ?? -1;
  }

  /** @param isEntitled true if the writer has held the lease for this work. Any process may append the requests of clients. */
  see(stream: StreamName, events: readonly DomainEvent[], isEntitled: boolean): void {
    for (const event of events) {
      check(
        isEntitled || REQUESTS.includes(event.type),
        `${event.type} in ${stream} by a process that never held its lease`,
      );
      if (stream.startsWith("chain/")) this.#chainEvent(event);
      else this.#nftEvent(stream, event);
    }
  }

  #isReal({ number, hash }: BlockRef, what: string): void {
    check(this.#chain.blocks.get(hash)?.number === number, `${what}: block ${number} ${hash} never existed`);
  }

  #chainEvent(event: DomainEvent): void {
    switch (event.type) {
      case "HeadAdvanced":
        for (const header of event.headers) {
          const real = this.#chain.blocks.get(header.hash);
          this.#isReal(header, "a header");
          check(real?.parentHash === header.parentHash && real.timestamp === header.timestamp, "a header is invented");
          const follows = this.#head?.number !== header.number - 1 || this.#head.hash === header.parentHash;
          check(follows, `the head ${header.number} does not follow ${this.#head?.number} ${this.#head?.hash}`);
          this.#head = header;
        }
        return;
      case "ChainReverted":
        this.#isReal(event.ancestor, "an ancestor");
        check(event.ancestor.number >= this.finalized, "the chain was reverted below its finalised block");
        this.#head = event.ancestor;
        return;
      case "ChainFinalized":
        this.#isReal(event.block, "a finalised block");
        check(event.block.number >= this.finalized, "the finalised block moved back");
        this.#finalized = event.block;
        return;
      case "FollowingBegan":
        return;
      case "ChainCheckpointed":
        check(event.headers.at(-1)?.hash === this.#head?.hash, "a checkpoint has another head");
        return;
      default:
        throw new Violation(`${event.type} does not belong in a chain's stream`);
    }
  }

  #nftEvent(stream: StreamName, event: DomainEvent): void {
    const truth = this.#streams.get(stream) ?? { startBlock: undefined, end: undefined, completed: false };
    this.#streams.set(stream, truth);
    const address = stream.split("/")[2] as Address;
    switch (event.type) {
      case "ContractIdentified":
        this.#identified(truth, address, event);
        return;
      case "TransfersCommitted":
        this.#committed(truth, address, event);
        return;
      case "BlocksReverted":
        check(event.ancestor.number >= this.finalized, `${address} was reverted below the finalised block`);
        if (truth.end !== undefined && truth.end.number > event.ancestor.number) truth.end = event.ancestor;
        return;
      case "IndexingCompleted":
        this.#isReal({ number: event.block, hash: event.hash }, "a completion");
        check(
          (truth.end?.number ?? -1) >= event.block || truth.startBlock! > event.block,
          `${address} is not complete`,
        );
        truth.completed = true;
        return;
      case "LogsDoubted":
      case "OwnersDoubted":
        check(this.#mayDoubt, `${address} is in doubt from block ${event.block} on: ${event.reason}`);
        return;
      case "ReindexRequested":
      case "CollectionRemoved":
        // What was recorded before counts no longer.
        this.#streams.delete(stream);
        return;
      default:
    }
  }

  #identified(truth: StreamTruth, address: Address, event: Extract<DomainEvent, { type: "ContractIdentified" }>): void {
    check(truth.end === undefined, `${address} was identified again after it was read`);
    truth.startBlock = event.startBlock;
    const early = this.#chain.canonical.slice(0, event.startBlock).some((block) => block.facts.has(address));
    check(event.kind !== "nft" || !early, `${address} is read from ${event.startBlock} on, but had logs before`);
  }

  #committed(truth: StreamTruth, address: Address, event: TransfersCommitted): void {
    const { fromBlock, toBlock, toHash } = event;
    const range = `${address} ${fromBlock} to ${toBlock}`;
    const expected = truth.end === undefined ? truth.startBlock : truth.end.number + 1;
    check(fromBlock === expected, `${range} does not start at ${expected}`);
    this.#isReal({ number: toBlock, hash: toHash }, range);
    const branch = this.#chain.branchOf(toHash);
    if (truth.end !== undefined) {
      check(
        branch[truth.end.number]?.hash === truth.end.hash,
        `${range} lies on another branch than the range before it`,
      );
    }
    const real = branch.slice(fromBlock).flatMap((block) => block.facts.get(address) ?? []);
    const said = transfersOf(event);
    const print = (list: readonly ModelTransfer[]) => list.map((t) => Object.values(t).join()).join(" ");
    check(print(said) === print(real.map(plain)), `${range} holds\n${print(said)}\nnot\n${print(real.map(plain))}`);
    truth.end = { number: toBlock, hash: toHash };
  }
}

const plain = ({ kind, block, from, to, id, amount }: ModelTransfer): ModelTransfer => ({
  kind,
  block,
  from,
  to,
  id,
  amount,
});

function transfersOf({ transfers }: TransfersCommitted): ModelTransfer[] {
  const columns = decodeTransfers(transfers);
  const owner = (index: number) =>
    Number(`0x${Buffer.from(columns.addresses.subarray(index * 20, index * 20 + 20)).toString("hex")}`);
  return Array.from({ length: columns.count }, (_, i) => ({
    kind: columns.kinds[i] as ModelTransfer["kind"],
    block: columns.blocks[i]!,
    from: owner(columns.from[i]!),
    to: owner(columns.to[i]!),
    id: wordsToBigInt(columns.ids, i),
    amount: wordsToBigInt(columns.amounts, i),
  }));
}
