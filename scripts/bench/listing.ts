/**
 * Measures pages of a large collection: a million NFTs from synthetic transfers through the real log and projection,
 * then pages at the front, deep inside, in the past and with a total, in turns within one run. Prints a table, and the
 * memory per token and transfer. `bun scripts/bench/listing.ts [tokens]`
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { createLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { openLog } from "../../src/log/open.ts";
import type { Collection } from "../../src/nft/collections/collection.ts";
import { HotCollections } from "../../src/nft/collections/hot-collections.ts";
import { type FirstPage, openCursor, type PageFrom } from "../../src/nft/walks/cursor.ts";
import type { PageChain } from "../../src/nft/walks/snapshot.ts";
import { BURNED_ONE_IN, fill } from "./fill.ts";
import { first, LIMIT, page, SECRET, stillChain } from "./listing-page.ts";
import { median, percentile } from "./load.ts";
import { machine } from "./machine.ts";

const TOKENS = Number(process.argv[2] ?? 1_000_000);
/** Transfers after the mint, per token. */
const MOVES = 2;
const ROUNDS = 400;
const address = `0x${"be".repeat(20)}` as Address;

const say = (text = ""): boolean => process.stdout.write(`${text}\n`);

/** The page in the middle of the listing, reached by a walk. */
function deep(collection: Collection, chain: PageChain, fields: Partial<FirstPage>) {
  const half = first({ ...fields, part: { range: 1, totalRanges: 2 } });
  const { cursor } = JSON.parse(new TextDecoder().decode(page(collection, address, chain, half))) as { cursor: string };
  const opened = openCursor(cursor, SECRET);
  if (opened === undefined) throw new Error("the cursor does not open");
  return { cursor: opened };
}

function measure(name: string, collection: Collection): void {
  const { chain, end } = stillChain(collection);
  // At this block all tokens are minted, and half of the moves are made.
  const past = Math.floor((end.number * (1 + MOVES / 2)) / (1 + MOVES));
  const early = Math.floor(end.number / (1 + MOVES) / 2);
  const pages: [string, PageFrom][] = [
    ["first page", first()],
    ["deep page", deep(collection, chain, {})],
    ["first page as of the middle", first({ asOfBlock: past })],
    ["deep page as of the middle", deep(collection, chain, { asOfBlock: past })],
    ["first page as of an early block", first({ asOfBlock: early })],
    ["deep page as of an early block", deep(collection, chain, { asOfBlock: early })],
    ["first page with total", first({ withTotal: true })],
    ["first page with total, as of the middle", first({ withTotal: true, asOfBlock: past })],
    ["first page of the last of 10 ranges", first({ part: { range: 9, totalRanges: 10 } })],
    ["first page of holders", first({ holders: true })],
    ["deep page of holders", deep(collection, chain, { holders: true })],
    ["first page of the last of 10 ranges of holders", first({ holders: true, part: { range: 9, totalRanges: 10 } })],
    ["deep page of holders as of the middle", deep(collection, chain, { holders: true, asOfBlock: past })],
  ];
  const times = pages.map((): number[] => []);
  for (let round = -20; round < ROUNDS; round++) {
    for (const [index, [, from]] of pages.entries()) {
      const started = performance.now();
      const body = page(collection, address, chain, from);
      const took = performance.now() - started;
      if (body.length < 1_000) throw new Error(`a page is empty: ${body}`);
      if (round >= 0) times[index]?.push(took * 1_000);
    }
  }
  const base = median(times[0] as number[]);
  say(`${name}, pages of ${LIMIT} records, ${ROUNDS} turns`);
  say("| page | median µs | p99 µs | to the first page |");
  say("|---|---|---|---|");
  for (const [index, [what]] of pages.entries()) {
    const list = times[index] as number[];
    const middle = median(list);
    say(`| ${what} | ${middle.toFixed(0)} | ${percentile(list, 99).toFixed(0)} | ${(middle / base).toFixed(2)} |`);
  }
}

function memory({ ledger }: Collection): void {
  const transfers = ledger.owners.count + ledger.balances.count;
  const histories = ledger.owners.bytes + ledger.balances.bytes;
  const rows: [string, number, number][] = [
    ["ids, kinds and their index, per NFT", ledger.tokens.bytes, ledger.tokens.count],
    ["history, per transfer", histories, transfers],
    ["addresses and their index, per address", ledger.addresses.bytes, ledger.addresses.count],
    ["all together, per NFT", ledger.bytes, ledger.tokens.count],
  ];
  say("| memory | bytes |");
  say("|---|---|");
  for (const [what, bytes, count] of rows) say(`| ${what} | ${(bytes / count).toFixed(1)} |`);
}

const folder = mkdtempSync(join(tmpdir(), "bench-"));
const log = await openLog(`sqlite://${join(folder, "events.db")}`, systemClock, createLogger("warn"));
const projections = new HotCollections({ log, logger: createLogger("warn"), maxBytes: 2 ** 32 });
try {
  say(machine());
  for (const [name, kind, chainId] of [
    ["ERC-721", TransferKind.erc721, 1],
    ["ERC-1155", TransferKind.erc1155, 2],
  ] as const) {
    await fill(log, { chainId, address, kind, tokens: TOKENS, moves: MOVES });
    Bun.gc(true);
    const before = process.memoryUsage().rss;
    const started = performance.now();
    const collection = await projections.get(chainId, address);
    const seconds = (performance.now() - started) / 1_000;
    Bun.gc(true);
    const grown = (process.memoryUsage().rss - before) / 2 ** 20;
    const transfers = TOKENS * (1 + MOVES);
    say();
    say(
      `${TOKENS} ${name} tokens, ${transfers} transfers, one in ${BURNED_ONE_IN} burned: replayed from the log in ${seconds.toFixed(1)} s ` +
        `(${Math.round(transfers / seconds)} transfers/s), the process grew by ${grown.toFixed(0)} MiB`,
    );
    say();
    memory(collection);
    say();
    measure(name, collection);
  }
} finally {
  projections.close();
  await log.close();
  rmSync(folder, { recursive: true, force: true });
}
