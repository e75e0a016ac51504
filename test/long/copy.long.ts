/**
 * A log with two million transfers and as many small records as a followed chain writes in a day, copied from SQLite to
 * PostgreSQL and back. Then an export of its larger collection, over the log, of all tokens and of all holders.
 */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { fill } from "../../scripts/bench/fill.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { chainStream, type HeaderRef } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { temporaryLogUrl } from "../support/service.ts";

const LARGE = `0x${"21".repeat(20)}` as Address;
const AMOUNTS = `0x${"55".repeat(20)}` as Address;
const BLOCKS = 20_000;

const hashOf = (number: number) => createHash("sha256").update(String(number)).digest("hex");
const header = (number: number): HeaderRef => ({
  ...{ number, hash: `0x${hashOf(number)}` as Hash, parentHash: `0x${hashOf(number - 1)}` as Hash, timestamp: number },
});

test("copies two million transfers to PostgreSQL and back with equal hashes, within a minute", async () => {
  const [source, back] = [temporaryLogUrl(), temporaryLogUrl()];
  const postgres = await (await sharedPostgres()).createDatabase();
  const log = await openLog(source, systemClock, silentLogger);
  await fill(log, { chainId: 1, address: LARGE, kind: TransferKind.erc721, tokens: 100_000, moves: 9 });
  await fill(log, { chainId: 1, address: AMOUNTS, kind: TransferKind.erc1155, tokens: 50_000, moves: 19, people: 3 });
  for (let at = 0; at < BLOCKS; at += 1_000) {
    const events = Array.from(
      { length: 1_000 },
      (_, i) => ({ type: "HeadAdvanced", fromBlock: at + i, headers: [header(1 + at + i)] }) as const,
    );
    await log.append({ stream: chainStream(1), events, expectedVersion: at });
  }
  await log.close();
  const started = performance.now();
  const copied = await runCli(["copy", source, postgres, "--json"], {});
  const there = performance.now();
  const returned = await runCli(["copy", postgres, back, "--json"], {});
  const ended = performance.now();
  expect([copied.err, returned.err]).toEqual(["", ""]);
  expect(JSON.parse(returned.out)).toEqual(JSON.parse(copied.out));
  console.log(`copy: to PostgreSQL ${Math.round(there - started)} ms, back ${Math.round(ended - there)} ms`);
  expect(ended - started).toBeLessThan(60_000);

  const files: string[] = [];
  for (const url of [source, back]) {
    for (const words of [["--format", "jsonl"], ["--holders"]]) {
      const at = performance.now();
      const { code, err, out } = await runCli(["export", LARGE, ...words], { EVENT_LOG_URL: url });
      const said = words.includes("--holders") ? "" : "metadata 0 of 99,787 when the export began\n";
      expect([code, err]).toEqual([0, said]);
      console.log(`export ${words.join(" ")}: ${out.length} bytes in ${Math.round(performance.now() - at)} ms`);
      files.push(createHash("sha256").update(out).digest("hex"));
    }
  }
  expect(files.slice(2)).toEqual(files.slice(0, 2));
});
