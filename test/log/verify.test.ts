/**
 * `scripts/verify.ts` checks a whole log, gives two copies the same hashes, and finds every kind of damage: a record's
 * bytes, a missing record, a blob, a headline, a truncated file, a file that is no log.
 */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cp, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { encodeTokens } from "../../src/events/token-columns.ts";
import { metadataStream, type NftEvent, nftStream, proofStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { REQUESTED, toHeadline } from "../../src/nft/collections/headline.ts";
import { requestIdentification } from "../../src/nft/collections/requests.ts";
import { toBlob } from "../../src/nft/metadata/outcome-documents.ts";
import { freshStream, hashOf } from "../support/log-contract.ts";
import { columnsOf, type ModelTransfer } from "../support/naive-ledger.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { OPERATOR } from "../support/requesters.ts";

const ROOT = join(import.meta.dir, "../..");
const streams = [freshStream(), freshStream()];
let folder: string;
let whole: string;

/** The events of a requested collection with these transfers up to a block. */
const historyOf = (transfers: readonly ModelTransfer[], block: number): NftEvent[] => [
  { type: "IndexingRequested" },
  { type: "ContractIdentified", kind: "nft", forms: ["erc721"], name: "N", symbol: "S", startBlock: 0, block },
  {
    type: "TransfersCommitted",
    fromBlock: 0,
    toBlock: block,
    toHash: hashOf(block),
    count: transfers.length,
    transfers: columnsOf(transfers),
  },
];

async function fill(url: string): Promise<void> {
  const log = await openLog(url, { ...systemClock, now: () => 1_700_000_000_000 }, silentLogger);
  for (const [index, stream] of streams.entries()) {
    const transfers: ModelTransfer[] = Array.from({ length: 3_000 }, (_, i) => ({
      kind: TransferKind.erc721,
      block: 1 + Math.floor(i / 10),
      from: 0,
      to: 1 + (i % 7),
      id: BigInt(i + index),
      amount: 1n,
    }));
    const events: NftEvent[] = [
      ...historyOf(transfers, 400),
      { type: "IndexingCompleted", block: 400, hash: hashOf(400) },
    ];
    await log.append({ stream, events, expectedVersion: 0 });
  }
  await log.close();
}

async function run(url: string): Promise<{ code: number; lines: string[] }> {
  const child = Bun.spawn([process.execPath, "scripts/verify.ts", url], { cwd: ROOT, stdout: "pipe", stderr: "pipe" });
  const text = await new Response(child.stdout).text();
  return { code: await child.exited, lines: text.trimEnd().split("\n") };
}

async function copy(name: string): Promise<string> {
  const path = join(folder, name);
  await cp(whole, path);
  return path;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "verify-"));
  whole = join(folder, "whole.db");
  await fill(`sqlite://${whole}`);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("verify", () => {
  test("passes a whole log, with the same output on both engines", async () => {
    const sqlite = await run(`sqlite://${whole}`);
    expect(sqlite).toMatchObject({ code: 0, lines: { length: 3 } });
    expect(sqlite.lines.at(-1)).toBe("2 streams, 0 wrong");
    expect(sqlite.lines[0]).toMatch(new RegExp(`^${streams[0]} v4 [0-9a-f]{64} synced end=400 listing=[0-9a-f]{16}$`));
    const postgresUrl = await (await sharedPostgres()).createDatabase();
    await fill(postgresUrl);
    expect(await run(postgresUrl)).toEqual(sqlite);
  }, 300_000);

  test("names the stream and version of a record with changed bytes, and checks the other streams", async () => {
    const path = await copy("flipped.db");
    const database = new Database(path);
    database.run("UPDATE events SET data = CAST(data || x'00' AS BLOB) WHERE version = 3 AND stream_id = 1");
    database.close();
    const { code, lines } = await run(`sqlite://${path}`);
    expect(code).toBe(1);
    expect(lines[0]).toContain(`${streams[0]} WRONG: a record of the event log is damaged`);
    expect(lines[0]).toContain("(version 3)");
    expect(lines[1]).toContain(`${streams[1]} v4 `);
    expect(lines.at(-1)).toBe("2 streams, 1 wrong");
  });

  test("finds a missing record, in the middle and at the end", async () => {
    for (const version of [2, 4]) {
      const path = await copy(`missing-${version}.db`);
      const database = new Database(path);
      database.run(`DELETE FROM events WHERE version = ${version} AND stream_id = 2`);
      database.close();
      const { code, lines } = await run(`sqlite://${path}`);
      expect([code, lines.at(-1)]).toEqual([1, "2 streams, 1 wrong"]);
      expect(lines[1]).toContain(`${streams[1]} WRONG`);
    }
  });

  test("names a stream with a malformed headline, and checks the other streams", async () => {
    for (const [index, stream] of streams.entries()) {
      for (const [name, headline] of Object.entries({ cut: '{"status":', list: "[]", nothing: "null" })) {
        const path = await copy(`headline-${index}-${name}.db`);
        const database = new Database(path);
        database.run(`UPDATE streams SET headline = '${headline}' WHERE name = '${stream}'`);
        database.close();
        const { code, lines } = await run(`sqlite://${path}`);
        expect([code, lines.at(-1)]).toEqual([1, "2 streams, 1 wrong"]);
        expect(lines[index]).toStartWith(`${stream} WRONG: the headline of a stream is damaged`);
        expect(lines[1 - index]).toStartWith(`${streams[1 - index]} v4 `);
      }
    }
  }, 300_000);

  describe("finds damage that a walk over the listed streams cannot see:", () => {
    const damages = {
      "records after the version in the stream's row": "UPDATE streams SET version = 3 WHERE name = ?",
      "records of a stream whose row has version 0": "UPDATE streams SET version = 0 WHERE name = ?",
      "records of a stream without a row": "DELETE FROM streams WHERE name = ?",
      "a stream of an unknown kind": "UPDATE streams SET name = 'N' || substr(name, 2) WHERE name = ?",
    };
    for (const [index, [what, statement]] of Object.entries(damages).entries()) {
      test(what, async () => {
        const path = await copy(`strays-${index}.db`);
        const database = new Database(path);
        database.run(statement, [streams[1]!]);
        database.close();
        const { code, lines } = await run(`sqlite://${path}`);
        expect(code).toBe(1);
        expect(lines.at(-1)).toEndWith(" streams, 1 wrong");
      });
    }

    test("on PostgreSQL as well", async () => {
      const url = await (await sharedPostgres()).createDatabase();
      await fill(url);
      const sql = new SQL(url, { max: 1 });
      await sql`DELETE FROM streams WHERE name = ${streams[0]!}`;
      await sql`UPDATE streams SET name = 'N' || substr(name, 2) WHERE name = ${streams[1]!}`;
      await sql.close();
      const { code, lines } = await run(url);
      expect([code, lines.at(-1)]).toEqual([1, "0 streams, 2 wrong"]);
      expect(lines.join()).toContain("4 events are of stream number");
    });
  });

  test("finds changed bytes, a truncated file, a file that is no database, and a missing file", async () => {
    const flipped = await copy("bytes.db");
    const database = new Database(flipped, { readonly: true });
    const newest = database
      .query<{ data: Uint8Array }, []>("SELECT data FROM events ORDER BY rowid DESC LIMIT 1")
      .get();
    database.close();
    const bytes = Buffer.from(await Bun.file(flipped).arrayBuffer());
    // The data of the newest record stand in one place of the file.
    const at = bytes.indexOf(newest!.data);
    expect([at > 0, newest!.data.length > 0]).toEqual([true, true]);
    for (let i = 0; i < Math.min(16, newest!.data.length); i++) bytes[at + i]! ^= 0xff;
    await writeFile(flipped, bytes);
    expect((await run(`sqlite://${flipped}`)).code).toBe(1);
    const cut = await copy("cut.db");
    await truncate(cut, Bun.file(whole).size >> 1);
    expect((await run(`sqlite://${cut}`)).code).toBe(1);
    const text = join(folder, "text.db");
    await writeFile(text, "no database at all, but long enough to look like one\n".repeat(100));
    expect((await run(`sqlite://${text}`)).code).toBe(1);
    const none = join(folder, "none.db");
    expect(await run(`sqlite://${none}`)).toMatchObject({ code: 1 });
    expect(await Bun.file(none).exists()).toBe(false);
  });

  test("finishes although one event stands for 2^40 ids, and its listing hash depends on the owner of each id", async () => {
    const MINTED: ModelTransfer = { kind: TransferKind.range, block: 1, from: 0, to: 1, id: 100n, amount: 2n ** 40n };
    const single = (block: number, from: number, to: number, id: bigint): ModelTransfer => {
      return { kind: TransferKind.erc721, block, from, to, id, amount: 1n };
    };
    const before = [single(1, 0, 3, 1n), MINTED, single(2, 0, 4, 2n)];
    const histories = [
      [...before, single(3, 1, 2, 100n)],
      [...before, single(3, 1, 2, 100n)],
      [...before, single(3, 1, 2, 101n)],
      [...before, single(3, 1, 3, 100n)],
      [...before, single(3, 1, 2, 100n), single(3, 2, 1, 100n)],
      [...before, single(3, 1, 2, 100n), single(3, 0, 5, 3n)],
      [before[0]!, { ...MINTED, to: 9 }, ...before.slice(2), single(3, 1, 2, 100n)],
      before,
    ];
    const path = join(folder, "range.db");
    const log = await openLog(`sqlite://${path}`, systemClock, silentLogger);
    for (const [index, transfers] of histories.entries()) {
      const stream = nftStream(1, `0x${String(index).repeat(40)}` as Address);
      await log.append({ stream, events: historyOf(transfers, 4), expectedVersion: 0 });
    }
    await log.close();
    const { code, lines } = await run(`sqlite://${path}`);
    expect([code, lines.at(-1)]).toEqual([0, `${histories.length} streams, 0 wrong`]);
    const listings = lines.slice(0, -1).map((line) => /listing=(\w+)$/.exec(line)?.[1]);
    expect(listings[1]).toBe(listings[0]!);
    expect(new Set(listings).size).toBe(histories.length - 1);
  });

  test("passes a contract that is marked for a new identification", async () => {
    const url = `sqlite://${join(folder, "anew.db")}`;
    const log = await openLog(url, systemClock, silentLogger);
    const address = `0x${"cd".repeat(20)}` as Address;
    const nothing = { kind: "not_nft", forms: [], name: "", symbol: "", startBlock: 7, block: 9 } as const;
    const events: NftEvent[] = [{ type: "IndexingRequested" }, { type: "ContractIdentified", ...nothing }];
    const headline = toHeadline({ ...REQUESTED, status: "not_nft", startBlock: 7 });
    await log.append({ stream: nftStream(1, address), events, expectedVersion: 0, headline });
    await requestIdentification({ log, clock: systemClock }, { chainId: 1, address }, 2, OPERATOR);
    await log.close();
    expect(await run(url)).toMatchObject({ code: 0, lines: [expect.stringContaining(" v3 "), "1 streams, 0 wrong"] });
  });

  test("finds missing blobs, blobs that do not match their hash, and headlines that contradict the events", async () => {
    const path = join(folder, "blobs.db");
    const log = await openLog(`sqlite://${path}`, systemClock, silentLogger);
    const address = `0x${"ab".repeat(20)}` as Address;
    const body = await log.putBlob(Buffer.from('{"name":"One"}'));
    const hash = await log.putBlob(toBlob({ uri: "https://a.example/1", body }));
    const tokens = encodeTokens([{ kind: TransferKind.erc721, id: 1n, hash }]);
    const resolved = { type: "MetadataResolved", since: 4, count: 1, bytes: 100, tokens } as const;
    await log.append({ stream: metadataStream(1, address), events: [resolved], expectedVersion: 0 });
    const stream = nftStream(1, address);
    const events: NftEvent[] = [
      { type: "IndexingRequested" },
      { type: "ContractIdentified", kind: "nft", forms: ["erc721"], name: "N", symbol: "S", startBlock: 7, block: 9 },
    ];
    const state = { ...REQUESTED, status: "backfilling", forms: ["erc721"], startBlock: 7 } as const;
    await log.append({ stream, events, expectedVersion: 0, headline: toHeadline(state) });
    await log.close();
    expect((await run(`sqlite://${path}`)).lines.at(-1)).toBe("2 streams, 0 wrong");
    const damages = {
      "UPDATE blobs SET bytes = CAST('{}' AS BLOB) WHERE hash = ?": `blob ${body} is not what its name says`,
      "DELETE FROM blobs WHERE hash = ?": `blob ${body} is missing`,
      "UPDATE streams SET headline = replace(headline, '\"end\":-1', '\"end\":8')":
        "its headline says end=8, its events -1",
      "UPDATE streams SET headline = replace(headline, 'erc721', 'erc1155')": "its headline says forms=erc1155",
    };
    for (const [index, [statement, said]] of Object.entries(damages).entries()) {
      const damaged = join(folder, `damaged-${index}.db`);
      await cp(path, damaged);
      const database = new Database(damaged);
      const { changes } = database.run(statement, statement.includes("?") ? [Buffer.from(body.slice(2), "hex")] : []);
      database.close();
      expect(changes).toBeGreaterThan(0);
      const { code, lines } = await run(`sqlite://${damaged}`);
      expect([code, lines.at(-1)]).toEqual([1, "2 streams, 1 wrong"]);
      expect(lines.join()).toContain(said);
    }
  });

  test("reads kept proofs, and finds the documents that are missing", async () => {
    const path = join(folder, "proofs.db");
    const log = await openLog(`sqlite://${path}`, systemClock, silentLogger);
    const blob = await log.putBlob(Buffer.from("{}"));
    const documents = [{ blob, tokenIds: ["1"] }];
    const kept = { type: "ProofsKept", block: 9, hash: `0x${"09".repeat(32)}` as Hash, documents } as const;
    const stream = proofStream(1, `0x${"ab".repeat(20)}` as Address);
    await log.append({ stream, events: [kept], expectedVersion: 0 });
    await log.close();
    const { code, lines } = await run(`sqlite://${path}`);
    expect([code, lines.at(-1), lines[0]?.endsWith(" documents=1")]).toEqual([0, "1 streams, 0 wrong", true]);
    const database = new Database(path);
    database.run("DELETE FROM blobs");
    database.close();
    const damaged = await run(`sqlite://${path}`);
    expect([damaged.code, damaged.lines[0]]).toEqual([1, `${stream} WRONG: blob ${blob} is missing`]);
  });
});
