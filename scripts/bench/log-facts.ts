/** Reads facts about a collection from the log of a stopped service: its listing, and the times of its events. */

import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { HotCollections } from "../../src/nft/collections/hot-collections.ts";
import { readSlice, type Slice } from "../../src/nft/ledger/listing.ts";
import { type Position, START } from "../../src/nft/ledger/rows.ts";

async function withLog<T>(url: string, use: (log: EventLog) => Promise<T>): Promise<T> {
  const log = await openLog(url, systemClock, silentLogger);
  try {
    return await use(log);
  } finally {
    await log.close();
  }
}

const PAGE = 1_000;

/** A hash of the listing: every NFT with its owner and blocks, at the end and in the middle of the history. */
export function listingHash(logUrl: string, address: string): Promise<string> {
  return withLog(logUrl, async (log) => {
    const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 2 ** 34 });
    const { ledger, end, identified } = await projections.get(1, address as Address);
    const hasher = new Bun.CryptoHasher("sha256");
    const [first, last] = [identified?.startBlock ?? 0, end?.number ?? 0];
    for (const block of [last, Math.floor((first + last) / 2)]) {
      for (let from: Position | undefined = START; from !== undefined; ) {
        const slice: Slice = readSlice(ledger, { block, holders: false, from, limit: PAGE });
        for (const { id, owner, block, blockMinted } of slice.entries) {
          hasher.update(`${id} ${ledger.addresses.hex(owner)} ${block} ${blockMinted}\n`);
        }
        from = slice.next;
      }
    }
    projections.close();
    return hasher.digest("hex");
  });
}

/** Time of the last event of a type, in ms since the epoch. */
export function timeOf(logUrl: string, address: string, type: string): Promise<number> {
  return withLog(logUrl, (log) => lastTime(log, address, type));
}

async function lastTime(log: EventLog, address: string, type: string): Promise<number> {
  const stream = nftStream(1, address as Address);
  for (let before: number | undefined; ; ) {
    const page = await log.readBackwards(stream, { limit: 20, ...(before === undefined ? {} : { before }) });
    const found = page.find(({ event }) => event.type === type);
    if (found !== undefined) return found.time;
    before = page.at(-1)?.version;
    if (before === undefined) throw new Error(`${stream} has no ${type}`);
  }
}

/** Ms between a collection's identification and its completion. */
export function historyTime(logUrl: string, address: string): Promise<number> {
  return withLog(logUrl, async (log) => {
    const from = await lastTime(log, address, "ContractIdentified");
    return (await lastTime(log, address, "IndexingCompleted")) - from;
  });
}

/** Moves the WAL that a killed service left into the file. */
export const checkpoint = (logUrl: string): Promise<void> => withLog(logUrl, async () => undefined);
