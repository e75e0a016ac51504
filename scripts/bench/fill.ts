/**
 * Fills a log with a synthetic collection's events, without a node: mints in order of id, then moves of random tokens,
 * of which one in fifty is burned. For benches that read.
 */

import type { Address, Hash } from "../../src/core/hex.ts";
import { encodeTransfers, TransferKind } from "../../src/events/columns.ts";
import { metadataStream, type NftEvent, nftStream } from "../../src/events/types.ts";
import type { Append, EventLog } from "../../src/log/event-log.ts";
import { REQUESTED, toHeadline } from "../../src/nft/collections/headline.ts";
import { RULES_VERSION } from "../../src/nft/indexing/word-rules.ts";
import { createRandom } from "../local-chain/random.ts";

export interface FillOptions {
  readonly chainId: number;
  readonly address: Address;
  readonly kind: typeof TransferKind.erc721 | typeof TransferKind.erc1155;
  readonly tokens: number;
  /** Average number of transfers per token after its mint. */
  readonly moves: number;
  /** Average number of holders per token. */
  readonly people?: number;
  /** Holders that receive `WHALES_SHARE` of all transfers together; 0 by default. */
  readonly whales?: number;
}

/** Part of the transfers that go to whales, if there are any. */
const WHALES_SHARE = 0.2;

export const BURNED_ONE_IN = 50;
/** Transfers per event, as in a backfill: the logs of one answer. */
const PER_EVENT = 10_000;
const PER_BLOCK = 50;
const STREAMS_AT_ONCE = 500;

const hashOf = (block: number) => `0x${block.toString(16).padStart(64, "0")}` as Hash;

export const transfersOf = ({ tokens, moves }: Pick<FillOptions, "tokens" | "moves">): number =>
  Math.round(tokens * (1 + moves));

/** The collection's events, with `PER_EVENT` transfers per range. */
function* history(options: FillOptions): Generator<NftEvent> {
  const { tokens, moves, kind, people: share = 0.1, whales = 0 } = options;
  const random = createRandom(1);
  const holders = Math.ceil(tokens * share);
  yield { type: "IndexingRequested" };
  yield {
    type: "ContractIdentified",
    kind: "nft",
    forms: formsOf(kind),
    name: "Bench",
    symbol: "B",
    startBlock: 0,
    block: 0,
  };
  const owners = new Uint32Array(tokens);
  // The square makes a few holders busy, as in the synthetic node's histories.
  const randomHolder = () => {
    const isWhale = whales > 0 && random.below(1_000_000) < 1_000_000 * WHALES_SHARE;
    if (isWhale) return 1 + random.below(whales);
    return 1 + Math.floor((random.below(1_000_000) / 1_000_000) ** 2 * holders);
  };
  const total = transfersOf(options);
  let fromBlock = 0;
  for (let done = 0; done < total; done += PER_EVENT) {
    const count = Math.min(PER_EVENT, total - done);
    const people = new Map<number, number>([[0, 0]]);
    const column = () => new Uint32Array(count);
    const [from, to, ids, blocks] = [column(), column(), column(), column()];
    const indexOf = (person: number) => {
      const index = people.get(person) ?? people.size;
      people.set(person, index);
      return index;
    };
    for (let i = 0; i < count; i++) {
      const id = done + i < tokens ? done + i : random.below(tokens);
      const owner = owners[id] as number;
      const isBurned = owner !== 0 && random.below(Math.max(1, Math.ceil(BURNED_ONE_IN * moves))) === 0;
      const next = isBurned ? 0 : randomHolder();
      owners[id] = next;
      ids[i] = id;
      from[i] = indexOf(owner);
      to[i] = indexOf(next);
      blocks[i] = Math.floor((done + i) / PER_BLOCK);
    }
    const toBlock = blocks[count - 1] as number;
    const transfers = encodeTransfers({
      count,
      addressCount: people.size,
      addresses: addressesOf(people),
      kinds: new Uint8Array(count).fill(kind),
      blocks,
      logIndexes: Uint32Array.from(ids, (_, i) => i % PER_BLOCK),
      from,
      to,
      ids: { words: 1, values: ids },
      amounts: { words: 1, values: column().fill(1) },
    });
    yield { type: "TransfersCommitted", fromBlock, toBlock, toHash: hashOf(toBlock), count, transfers };
    fromBlock = toBlock + 1;
  }
  yield { type: "IndexingCompleted", block: fromBlock - 1, hash: hashOf(fromBlock - 1) };
}

/** The last four bytes of a person's address. */
const tailOf = (person: number): number => Math.imul(person, 2_654_435_761) >>> 0;

/** The address of a person, from 1 on. Whales have the lowest numbers. */
export const personAddress = (person: number) => `0x${tailOf(person).toString(16).padStart(40, "0")}` as Address;

/** The dictionary of an event: the zero address, and addresses that end on their own number. */
function addressesOf(people: ReadonlyMap<number, number>): Uint8Array {
  const addresses = new Uint8Array(people.size * 20);
  const view = new DataView(addresses.buffer);
  for (const [person, index] of people) {
    if (person !== 0) view.setUint32(index * 20 + 16, tailOf(person));
  }
  return addresses;
}

/**
 * Appends the history range by range, like a backfill. Resolves with the ms of the appends, without building the
 * events.
 */
export async function fill(log: EventLog, options: FillOptions): Promise<number> {
  const stream = nftStream(options.chainId, options.address);
  let version = 0;
  let ms = 0;
  let batch: NftEvent[] = [];
  const flush = async () => {
    const started = performance.now();
    version = await log.append({
      stream,
      events: batch,
      expectedVersion: version,
      headline: headlineOf(batch, options.kind),
    });
    ms += performance.now() - started;
    batch = [];
  };
  for (const event of history(options)) {
    batch.push(event);
    if (event.type === "TransfersCommitted") await flush();
  }
  if (batch.length > 0) await flush();
  return ms;
}

const formsOf = (kind: FillOptions["kind"]) => [
  kind === TransferKind.erc721 ? ("erc721" as const) : ("erc1155" as const),
];

/** A time that no run reaches. */
const NEVER_DUE = Date.parse("2100-01-01");

/**
 * Writes many small collections, each with the whole history of `options` at its own address, and with settled
 * metadata: the state of a service that has run for a while.
 */
export async function fillMany(log: EventLog, count: number, options: Omit<FillOptions, "address">): Promise<void> {
  for (let done = 0; done < count; done += STREAMS_AT_ONCE) {
    const settled: Append[] = [];
    const appends = Array.from({ length: Math.min(STREAMS_AT_ONCE, count - done) }, (_, i) => {
      const address = `0x${(done + i + 1).toString(16).padStart(40, "0")}` as Address;
      const events = [...history({ ...options, address })];
      settled.push(settledAppend(options.chainId, address, events.length));
      return {
        stream: nftStream(options.chainId, address),
        events,
        expectedVersion: 0,
        headline: headlineOf(events, options.kind),
      };
    });
    for (const outcome of await log.appendAll([...appends, ...settled])) if ("error" in outcome) throw outcome.error;
  }
}

/**
 * The append of a metadata worker that has finished a collection whose stream is at version `collection`.
 */
function settledAppend(chainId: number, address: Address, collection: number): Append {
  return {
    stream: metadataStream(chainId, address),
    events: [{ type: "MetadataSettled", collection, dueAt: NEVER_DUE }],
    expectedVersion: 0,
    headline: { at: 1, collection, dueAt: NEVER_DUE, sampleAt: NEVER_DUE, sampleWait: 1 },
  };
}

/** The headline of the stream: after the last event, nothing is left to do. */
function headlineOf(events: readonly NftEvent[], kind: FillOptions["kind"]): ReturnType<typeof toHeadline> {
  const last = events.at(-1);
  if (last?.type !== "IndexingCompleted") return toHeadline({ ...REQUESTED, status: "backfilling" });
  const { block: end, hash: endHash } = last;
  const judged = { forms: formsOf(kind), rulesVersion: RULES_VERSION };
  return toHeadline({ ...REQUESTED, ...judged, status: "following", end, endHash });
}
