/** `copy` between both engines by the real program: there and back, after a kill, and its refusals. */
import { Database } from "bun:sqlite";
import { beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { keysStream, type NftEvent, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { REQUESTED, toHeadline } from "../../src/nft/collections/headline.ts";
import { runCli } from "../support/cli.ts";
import { hashOf } from "../support/log-contract.ts";
import { columnsOf, type ModelTransfer } from "../support/naive-ledger.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { eventually, startTestService, temporaryLogUrl } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
const TIME = 1_700_000_000_000;
const address = (index: number) => `0x${index.toString(16).padStart(40, "0")}` as Address;
let source: string;

const transfersOf = (count: number, salt: number): ModelTransfer[] =>
  Array.from({ length: count }, (_, i) => ({
    kind: TransferKind.erc721,
    block: 1 + Math.floor(i / 10),
    ...{ from: 0, to: 1 + ((i + salt) % 7), id: BigInt(i), amount: 1n },
  }));

/** Writes collections with many events, metadata with blobs, keys and settings. */
async function fill(url: string, collections: number): Promise<void> {
  const log = await openLog(url, { ...systemClock, now: () => TIME }, silentLogger);
  for (let index = 0; index < collections; index++) {
    const stream = nftStream(1, address(index));
    const ranges: NftEvent[] = Array.from({ length: 40 }, (_, at) => ({
      ...{ type: "TransfersCommitted", fromBlock: at * 100, toBlock: at * 100 + 99, toHash: hashOf(at), count: 50 },
      transfers: columnsOf(
        transfersOf(50, index).map((one) => ({ ...one, id: one.id + BigInt(at * 50), block: at * 100 })),
      ),
    }));
    const events: NftEvent[] = [{ type: "IndexingRequested" }, ...ranges];
    await log.append({ stream, events, expectedVersion: 0, headline: toHeadline({ ...REQUESTED, end: 3_999 }) });
  }
  await Promise.all(Array.from({ length: 50 }, (_, index) => log.putBlob(Buffer.from(`{"body":null,"n":${index}}`))));
  await log.append({
    stream: keysStream,
    expectedVersion: 0,
    events: [{ type: "KeyRevoked", name: "nobody" }],
  });
  await log.setting("cursor-secret", () => "secret-of-the-source");
  await log.close();
}

beforeAll(async () => {
  source = temporaryLogUrl();
  await fill(source, 20);
});

const copy = (from: string, to: string, ...words: string[]) => runCli(["copy", from, to, "--json", ...words], {});
const database = async () => (await sharedPostgres()).createDatabase();

test("moves a log to PostgreSQL and back with equal hashes, and leaves secrets behind", async () => {
  const [postgres, back] = [await database(), temporaryLogUrl()];
  const there = await copy(source, postgres);
  expect([there.code, there.err]).toEqual([0, ""]);
  const report = JSON.parse(there.out);
  expect(report).toMatchObject({
    streams: 20,
    events: 820,
    blobs: 50,
    copiedEvents: 820,
    copiedBlobs: 50,
    damaged: [],
  });
  const returned = JSON.parse((await copy(postgres, back)).out);
  expect(returned).toEqual(report);
  for (const url of [postgres, back]) {
    const log = await openLog(url, systemClock, silentLogger);
    expect(await log.findSetting("cursor-secret")).toBeUndefined();
    expect((await log.head(keysStream)).version).toBe(0);
    const stream = nftStream(1, address(3));
    expect((await log.read(stream)).map(({ time, version }) => [time, version]).at(-1)).toEqual([TIME, 41]);
    expect((await log.head(stream)).headline).toMatchObject({ end: 3_999 });
    await log.close();
  }
  // Once more: all is there already.
  expect(JSON.parse((await copy(source, postgres)).out)).toEqual({ ...report, copiedEvents: 0, copiedBlobs: 0 });
});

test("copies keys and the cursor secret on request", async () => {
  const target = temporaryLogUrl();
  expect(JSON.parse((await copy(source, target, "--with-secrets")).out)).toMatchObject({ streams: 21, events: 821 });
  const log = await openLog(target, systemClock, silentLogger);
  expect(await log.findSetting("cursor-secret")).toBe("secret-of-the-source");
  expect((await log.head(keysStream)).version).toBe(1);
  await log.close();
});

test("goes on after a kill, over both engines", async () => {
  const large = temporaryLogUrl();
  await fill(large, 300);
  for (const target of [temporaryLogUrl(), await database()]) {
    const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), "copy", large, target], {
      ...{ cwd: ROOT, env: { PATH: process.env["PATH"] ?? "" }, stdout: "ignore", stderr: "ignore" },
    });
    const log = await openLog(target, systemClock, silentLogger);
    await eventually("some streams are copied", async () =>
      (await log.streams("nft/", { limit: 10 })).length >= 10 ? true : undefined,
    );
    child.kill("SIGKILL");
    await child.exited;
    const copied = (await log.streams("nft/", { limit: 1_000 })).length;
    expect(copied).toBeLessThan(300);
    const started = startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: target });
    await expect(started).rejects.toThrow("a copy into this log has not ended");
    // The lease of the killed copy runs out.
    await eventually("no lease is alive", async () => ((await log.leases()).length === 0 ? true : undefined));
    await log.close();
    const { code, out } = await copy(large, target);
    const report = JSON.parse(out);
    expect([code, report.events]).toEqual([0, 300 * 41]);
    expect(report.copiedEvents).toBeLessThan(report.events);
    await (await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: target })).stop();
  }
});

test("ends on a signal without its lease, and goes on later", async () => {
  const [large, target] = [temporaryLogUrl(), temporaryLogUrl()];
  await fill(large, 300);
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), "copy", large, target], {
    ...{ cwd: ROOT, env: { PATH: process.env["PATH"] ?? "" }, stdout: "ignore", stderr: "ignore" },
  });
  const log = await openLog(target, systemClock, silentLogger);
  await eventually("some streams are copied", async () =>
    (await log.streams("nft/", { limit: 10 })).length >= 10 ? true : undefined,
  );
  child.kill("SIGINT");
  expect(await child.exited).toBe(130);
  expect(await log.leases()).toEqual([]);
  await log.close();
  expect((await copy(large, target)).code).toBe(0);
});

test("refuses a target with a living lease or with other events, and a source that is none", async () => {
  const target = temporaryLogUrl();
  const log = await openLog(target, systemClock, silentLogger);
  await log.acquireLease("follow/1", "someone", 60_000);
  const held = await copy(source, target);
  expect([held.code, held.err]).toEqual([1, expect.stringContaining("in use (follow/1): stop the service")]);
  await log.releaseLease("follow/1", "someone");
  await log.append({ stream: nftStream(1, address(1)), events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  await log.close();
  const other = await copy(source, target);
  expect([other.code, other.err]).toEqual([1, expect.stringContaining("holds other events")]);
  const none = await copy(temporaryLogUrl(), target);
  expect([none.code, none.err]).toEqual([69, expect.stringContaining("there is no event log at")]);
  expect((await copy(source, source)).code).toBe(64);
});

test("copies damaged records as they are, and fails only for those that are still read", async () => {
  const damaged = temporaryLogUrl();
  await fill(damaged, 2);
  const db = new Database(damaged.slice("sqlite://".length));
  const change = (version: number) =>
    db.run(
      `UPDATE events SET data = zeroblob(length(data)) WHERE version = ${version}
       AND stream_id = (SELECT id FROM streams WHERE name = '${nftStream(1, address(0))}')`,
    );
  change(5);
  const rebase = (base: number) =>
    db.run(`UPDATE streams SET headline = json_set(headline, '$.base', ${base}) WHERE name LIKE 'nft/1/%00'`);
  rebase(10);
  const past = await copy(damaged, temporaryLogUrl());
  expect([past.code, JSON.parse(past.out).damaged]).toEqual([
    0,
    [expect.objectContaining({ where: nftStream(1, address(0)), version: 5, isPast: true })],
  ]);
  rebase(0);
  const live = await copy(damaged, await database());
  expect([live.code, JSON.parse(live.out).damaged[0].isPast]).toEqual([1, false]);
  db.close();
});

test("shows its progress in a terminal only", async () => {
  let shown = "";
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), "copy", source, temporaryLogUrl()], {
    env: { PATH: process.env["PATH"] ?? "", TERM: "xterm" },
    terminal: {
      data: (_terminal, bytes) => {
        shown += Buffer.from(bytes).toString();
      },
    },
  });
  expect(await child.exited).toBe(0);
  expect(shown).toContain("\x1b[2Kblobs");
  expect(shown).toMatch(/20 streams · 820 events · 50 blobs/);
  expect(shown).toMatch(/equal in both logs: sha256 [0-9a-f]{64}/);
});
