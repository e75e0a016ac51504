/**
 * A snapshot of a collection's holders at a block, as CSV for an airdrop. With an amount in wei, each line has the
 * holder's share of it in proportion to what it holds; the shares add up to the amount exactly.
 *
 *     SERVICE_KEY=… bun scripts/examples/airdrop.ts 0xbc4c… --block 21000000 --amount 1000000000000000000 --exclude burn
 */
import type { AsOf, Client, Contract } from "../../src/client/index.ts";
import { runExample, UsageError, whenIndexed } from "./command-line.ts";

const USAGE = `usage: SERVICE_KEY=… bun scripts/examples/airdrop.ts ADDRESS [--block N] [--amount WEI] [--exclude LIST]
  --block    the snapshot's block; default: the newest one that the service shows
  --amount   wei to share out in proportion to what each holder holds
  --exclude  addresses that get nothing, comma-separated; "burn" stands for the zero address and 0x…dead
  Further options: --chain eth, --url URL. Lines go to standard output, notes to standard error.`;

const BURN = [`0x${"0".repeat(40)}`, "0x000000000000000000000000000000000000dead"];
const PAGE = 500;

export interface AirdropOptions {
  readonly client: Client;
  readonly contract: Contract;
  /** Default: the newest block that the service shows. */
  readonly block?: number;
  /** To share out, in wei. */
  readonly amount?: bigint;
  /** Addresses that get nothing. */
  readonly exclude?: readonly string[];
  /** Called with the snapshot's block before the first line. */
  readonly onBlock?: (asOf: AsOf) => void;
}

/** What an owner holds: token ids, or pieces of ERC-1155 tokens. */
interface Held {
  readonly owner: string;
  readonly units: bigint;
}

/** Yields the lines of the CSV. @throws ServiceError; Error if the block left the chain meanwhile */
export async function* airdropLines(options: AirdropOptions): AsyncGenerator<string> {
  const { client, contract, amount, onBlock } = options;
  const asOf = await snapshotBlock(options);
  onBlock?.(asOf);
  const at = { as_of_block: asOf.block, limit: PAGE };
  const excluded = new Set((options.exclude ?? []).map((address) => address.toLowerCase()));
  if (amount === undefined) {
    yield "address,amount";
    for await (const { owner, units } of client.holders(contract, at))
      if (!excluded.has(owner)) yield `${owner},${units}`;
  } else {
    // Shares depend on all holders, so all are read before the first line.
    const held: Held[] = [];
    for await (const { owner, units } of client.holders(contract, at))
      if (!excluded.has(owner)) held.push({ owner, units: BigInt(units) });
    const shares = proRata(
      held.map(({ units }) => units),
      amount,
    );
    yield "address,amount,share";
    for (const [place, { owner, units }] of held.entries()) yield `${owner},${units},${shares[place]}`;
  }
  // All pages were of one block. It may have been replaced after the first question, which named its hash.
  if (asOf.finality !== "finalized" && (await snapshotBlock({ ...options, block: asOf.block })).hash !== asOf.hash)
    throw new Error(`block ${asOf.block} was replaced while it was read: take the snapshot again`);
}

async function snapshotBlock({ client, contract, block }: AirdropOptions): Promise<AsOf> {
  const { asOf } = await client.holderPage(contract, {
    limit: 1,
    ...(block === undefined ? {} : { as_of_block: block }),
  });
  if (asOf === null) throw new Error("the service did not say of which block its answer is");
  return asOf;
}

/**
 * Shares an amount in proportion to the parts, in whole wei: each part gets the rounded-down share, and one wei more
 * goes to the parts with the largest remainders until nothing is left.
 */
export function proRata(parts: readonly bigint[], amount: bigint): bigint[] {
  const total = parts.reduce((sum, part) => sum + part, 0n);
  if (total === 0n) throw new Error("no holder is left to share the amount among");
  const shares = parts.map((part) => (amount * part) / total);
  const remainders = parts.map((part) => (amount * part) % total);
  // Fewer wei than parts: each rounding took less than one.
  const left = Number(amount - shares.reduce((sum, share) => sum + share, 0n));
  const order = remainders.map((remainder, place) => ({ remainder, place }));
  // The sort is stable: of equal remainders the one of the earlier holder counts first, on every run.
  order.sort((a, b) => (a.remainder === b.remainder ? 0 : a.remainder > b.remainder ? -1 : 1));
  for (const { place } of order.slice(0, left)) shares[place] = (shares[place] as bigint) + 1n;
  return shares;
}

function amountFrom(text: string | undefined): bigint | undefined {
  if (text === undefined || /^[1-9]\d{0,77}$/.test(text)) return text === undefined ? undefined : BigInt(text);
  throw new UsageError(`--amount: "${text}" must be a whole number of wei above 0, without a unit`);
}

function excludedFrom(text: string | undefined): string[] {
  const words = text?.split(",").map((word) => word.trim()) ?? [];
  return words.flatMap((word) => {
    if (word === "burn") return BURN;
    if (!/^0x[0-9a-f]{40}$/i.test(word)) throw new UsageError(`--exclude: "${word}" must be an address or "burn"`);
    return [word];
  });
}

if (import.meta.main) {
  await runExample(USAGE, ["block", "amount", "exclude"], async (line) => {
    const contract = { chain: line.chain, address: line.address(0, "ADDRESS") };
    const block = line.number("block", { min: 0, max: Number.MAX_SAFE_INTEGER });
    const amount = amountFrom(line.option("amount"));
    const exclude = excludedFrom(line.option("exclude"));
    await whenIndexed(line.client, contract, (percent) => console.error(`indexing: ${percent} %`));
    const lines = airdropLines({
      ...{ client: line.client, contract, exclude },
      ...(block === undefined ? {} : { block }),
      ...(amount === undefined ? {} : { amount }),
      onBlock: (asOf) => {
        console.error(`block ${asOf.block}, hash ${asOf.hash}`);
        if (asOf.finality !== "finalized") console.error("The block is not final yet, and may still be replaced.");
      },
    });
    const out = Bun.stdout.writer();
    for await (const text of lines) {
      out.write(`${text}\n`);
      // A million lines must not wait in memory for a slow reader.
      await out.flush();
    }
    await out.end();
  });
}
