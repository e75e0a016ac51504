/**
 * Metadata as the service runs it, on a real log with real collections, fetching from real servers on loopback. Only
 * the chain is a table of answers per contract. For tests of the whole that need no node.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fill } from "../../../scripts/bench/fill.ts";
import { Leases } from "../../../src/chain/lease.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { Lifecycle } from "../../../src/core/lifecycle.ts";
import { type Logger, silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { nftStream } from "../../../src/events/types.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { HotCollections } from "../../../src/nft/collections/hot-collections.ts";
import type { Entry } from "../../../src/nft/ledger/entries.ts";
import type { RecordFacts } from "../../../src/nft/listings/record.ts";
import { type ChainMetadata, Metadata } from "../../../src/nft/metadata/metadata.ts";
import { systemWire, type Wire } from "../../../src/nft/metadata/resolve/wire.ts";
import type { Call } from "../../../src/rpc/port.ts";
import type { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { KNOWN } from "../known-chains.ts";
import { eventually } from "../service.ts";

export interface RunningOptions {
  /** URIs of each collection, from token 0. */
  readonly stories: Readonly<Record<Address, readonly string[]>>;
  readonly wire?: Wire;
  readonly clock?: Clock;
  readonly cacheBytes?: number;
  readonly maxStoredBytes?: number;
  /** Called before each batch of calls to the chain. A test may throw from it. */
  readonly onCalls?: () => void;
  /** Wraps the log for the parts under test, for example to make it fail. */
  readonly wrapLog?: (log: EventLog) => EventLog;
  /** Folder of the log, which is kept at the end; without it a new one, which is removed. */
  readonly folder?: string;
  readonly logger?: Logger;
  /** Entry point of the preview process. */
  readonly previewEntry?: string;
}

export interface RunningMetadata {
  readonly metadata: Metadata;
  readonly chain: ChainMetadata;
  readonly log: EventLog;
  /** Number of outcomes by reason. `pictures` counts examined media by status. */
  readonly outcomes: ReadonlyMap<string, number>;
  readonly pictures: ReadonlyMap<string, number>;
  /** Adds another complete collection to the log. */
  add(address: Address, uris: readonly string[]): Promise<void>;
  /** Reads a page of `count` tokens from `from` (default 0), with normalised metadata. */
  page(
    address: Address,
    count: number,
    options?: { readonly mediaItems?: boolean; readonly from?: number },
  ): Promise<readonly RecordFacts[]>;
  /** Resolves when `count` tokens of the collection have an outcome. */
  settled(address: Address, count: number): Promise<void>;
  stop(): Promise<void>;
}

const CHAIN_ID = 1;

export const addressOf = (digit: string): Address => `0x${digit.repeat(40)}` as Address;

const entryOf = (id: number): Entry =>
  ({ kind: TransferKind.erc721, id, owner: 0, amount: 1, block: 0, blockMinted: 0, minter: 0 }) as Entry;

/** A string as a contract returns it. */
function encoded(text: string): string {
  const hex = Buffer.from(text).toString("hex");
  const word = (value: number) => value.toString(16).padStart(64, "0");
  return `0x${word(32)}${word(hex.length / 2)}${hex.padEnd(Math.ceil(hex.length / 64) * 64, "0")}`;
}

/** A chain with contracts that return these URIs. */
const readerOf = (stories: ReadonlyMap<Address, readonly string[]>, onCalls: () => void): RpcChainReader =>
  ({
    silentMs: () => 0,
    calls: async (calls: readonly Call[]) => {
      onCalls();
      return calls.map(({ to, data }) => {
        // Calls without an id are for the document about the collection, which these contracts lack.
        const uri = data.length === 10 ? undefined : stories.get(to!)?.[Number(BigInt(`0x${data.slice(10)}`))];
        return uri === undefined ? { ok: false, data: "0x" } : { ok: true, data: encoded(uri) };
      });
    },
  }) as unknown as RpcChainReader;

export async function startMetadata(options: RunningOptions): Promise<RunningMetadata> {
  const {
    wire = systemWire,
    clock = systemClock,
    cacheBytes = 16 * 1024 * 1024,
    maxStoredBytes = Number.POSITIVE_INFINITY,
    onCalls = () => undefined,
    wrapLog = (log) => log,
    folder = mkdtempSync(join(tmpdir(), "metadata-")),
    logger = silentLogger,
    previewEntry,
  } = options;
  const opened = await openLog(`sqlite://${join(folder, "events.db")}`, systemClock, logger);
  const stories = new Map<Address, readonly string[]>();
  const add = async (address: Address, uris: readonly string[]): Promise<void> => {
    stories.set(address, uris);
    if ((await opened.head(nftStream(CHAIN_ID, address))).version > 0) return;
    await fill(opened, { chainId: CHAIN_ID, address, kind: TransferKind.erc721, tokens: uris.length, moves: 0 });
  };
  for (const [address, uris] of Object.entries(options.stories)) await add(address as Address, uris);
  const log = wrapLog(opened);
  const projections = new HotCollections({ log, logger, maxBytes: 2 ** 26 });
  const outcomes = new Map<string, number>();
  const pictures = new Map<string, number>();
  const metadata = new Metadata({
    log,
    clock,
    logger,
    projections,
    wire,
    gateways: { ipfs: [], arweave: [] },
    allowPrivate: true,
    publicUrl: () => "http://service.example",
    cacheBytes,
    maxStoredBytes,
    ...(previewEntry === undefined ? {} : { previewEntry }),
    observer: {
      outcome: (_chainId, outcome) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1),
      media: (_chainId, status) => pictures.set(status, (pictures.get(status) ?? 0) + 1),
    },
  });
  const found = KNOWN.byId(CHAIN_ID);
  if (found === undefined) throw new Error("the chain does not exist");
  const chain = metadata.chain({
    chain: found,
    reader: readerOf(stories, onCalls),
    view: {
      version: 0,
      head: () => undefined,
      finalized: () => undefined,
      header: () => undefined,
      isCanonical: () => true,
    },
    leases: new Leases({ log, clock, holder: "test" }),
    onRefresh: () => undefined,
    followed: () => [...stories.keys()],
  });
  const unsubscribe = log.subscribe((stream, _version, appended) => chain.onWakeUp(stream, appended));
  const lifecycle = new Lifecycle(logger);
  chain.start(lifecycle);
  return {
    metadata,
    chain,
    log,
    outcomes,
    pictures,
    add,
    page: async (address, count, { mediaItems = false, from = 0 } = {}) => {
      const entries = Array.from({ length: count }, (_, index) => entryOf(from + index));
      const { facts } = await chain.factsOf(address, entries, { normalizeMetadata: true, mediaItems, asOf: undefined });
      return facts;
    },
    settled: async (address, count) => {
      await eventually(`${count} tokens of ${address} have an outcome`, async () => {
        const { resolved, failed } = await metadata.books.get(CHAIN_ID, address);
        return resolved + failed >= count ? true : undefined;
      });
    },
    stop: async () => {
      await lifecycle.stop();
      unsubscribe();
      await metadata.close();
      await projections.close();
      await opened.close();
      if (options.folder === undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}
