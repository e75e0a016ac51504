/** `restore` and a damaged backup: it is refused wherever bytes were changed or lost, and `--force` says what is lost. */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fill } from "../../scripts/bench/fill.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { encodeTokens } from "../../src/events/token-columns.ts";
import { metadataStream } from "../../src/events/types.ts";
import { backUpSqlite, restoreSqlite } from "../../src/log/backup.ts";
import { openLog } from "../../src/log/open.ts";
import { hashOf, storeText } from "../../src/nft/metadata/outcome-documents.ts";
import { runCli } from "../support/cli.ts";

const ADDRESS = `0x${"12".repeat(20)}` as Address;
const TEXT = JSON.stringify({ name: "a text that is a blob of the log", value: "x".repeat(20_000) });
const root = mkdtempSync(join(tmpdir(), "damaged-backup-"));
const path = join(root, "events.db");
const backup = join(root, "backup.db");
let whole: Buffer;

beforeAll(async () => {
  const log = await openLog(`sqlite://${path}`, systemClock, silentLogger);
  await fill(log, { chainId: 1, address: ADDRESS, kind: TransferKind.erc721, tokens: 300, moves: 300 });
  const { hash } = await storeText(log, { uri: "https://host.example/1", text: TEXT }, []);
  const tokens = encodeTokens([{ kind: TransferKind.erc721, id: 1n, hash }]);
  await log.append({
    stream: metadataStream(1, ADDRESS),
    events: [{ type: "MetadataResolved", count: 1, since: 0, bytes: 0, tokens }],
    expectedVersion: 0,
  });
  await log.setting("cursor-secret", () => "the secret that signs cursors");
  await log.close();
  backUpSqlite(path, backup);
  whole = readFileSync(backup);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** What the log says, without its leases. Its bytes also change when it is opened. */
function contentOf(): string {
  const db = new Database(path);
  const rows = [
    "SELECT * FROM events ORDER BY 1, 2",
    "SELECT * FROM blobs ORDER BY 1",
    "SELECT * FROM settings",
    "SELECT name FROM streams",
  ];
  const all = rows.map((query) => db.query(query).values());
  db.close();
  return Bun.hash(JSON.stringify(all)).toString();
}

let files = 0;
/** Writes a changed copy of the backup. */
function changed(change: (bytes: Buffer) => unknown): string {
  const bytes = Buffer.from(whole);
  const file = join(root, `changed-${++files}`);
  change(bytes);
  writeFileSync(file, bytes);
  return file;
}

const flip = (bytes: Buffer, at: number, count = 3) => {
  for (let i = at; i < Math.min(bytes.length, at + count); i++) bytes[i] = (bytes[i] as number) ^ 0xff;
};
/** As a release without seals made it. */
const unseal = (bytes: Buffer) => [60, 68].forEach((at) => void bytes.fill(0, at, at + 4));

const restore = (file: string, ...words: string[]) =>
  runCli(["restore", file, ...words], { EVENT_LOG_URL: `sqlite://${path}` });

test("a backup that nobody has changed is restored, with or without a seal", async () => {
  for (const file of [changed(() => undefined), changed((bytes) => void unseal(bytes))]) {
    expect(await restore(file)).toMatchObject({ code: 0, err: "" });
    // A log has no seal, so a copy of it is no damaged backup.
    const copy = join(root, `copy-${++files}`);
    copyFileSync(path, copy);
    expect(await restore(copy)).toMatchObject({ code: 0, err: "" });
  }
});

test("a backup that was opened as a log is still restored", async () => {
  const file = changed(() => undefined);
  expect((await runCli(["verify"], { EVENT_LOG_URL: `sqlite://${file}` })).code).toBe(0);
  expect(await restore(file)).toMatchObject({ code: 0, err: "" });
});

test("three changed bytes anywhere, or lost ones, are noticed, and nothing is replaced", async () => {
  const before = contentOf();
  const names = readdirSync(root).length;
  const places = [0, 16, 24, 57, 65, 92, 97, 100, 200, whole.length - 3];
  for (let at = 1_001; at < whole.length; at += Math.ceil(whole.length / 50)) places.push(at);
  const damaged: [string, Buffer][] = places.map((at) => {
    const bytes = Buffer.from(whole);
    flip(bytes, at);
    return [`changed at ${at}`, bytes];
  });
  for (const length of [whole.length - 1, whole.length - 4_096, whole.length >> 1, 100, 10, 0]) {
    damaged.push([`cut to ${length}`, whole.subarray(0, length)]);
  }
  damaged.push(["longer", Buffer.concat([whole, Buffer.alloc(1)])]);
  const file = join(root, "one-damaged");
  for (const [name, bytes] of damaged) {
    writeFileSync(file, bytes);
    const outcome = await restoreSqlite({ file, path, now: 0, verify: async () => undefined }).then(
      () => "restored",
      () => "refused",
    );
    expect([name, outcome]).toEqual([name, "refused"]);
  }
  rmSync(file);
  expect(contentOf()).toBe(before);
  expect(readdirSync(root)).toHaveLength(names);
});

test("the command refuses a damaged backup, and names the way out", async () => {
  const before = contentOf();
  const { code, out, err } = await restore(changed((bytes) => flip(bytes, bytes.length >> 1)));
  expect([code, out]).toEqual([69, ""]);
  expect(err).toMatch(/checksum doesn't match: bytes were changed or lost; take another backup, or restore .* --force/);
  expect(contentOf()).toBe(before);
});

describe("without a seal, the log's own checksums", () => {
  /** Changes a row as SQLite would not notice. */
  const withChangedRow = (statement: string): string => {
    const file = changed((bytes) => void unseal(bytes));
    const db = new Database(file);
    db.run(statement);
    db.run("PRAGMA user_version = 0");
    db.close();
    return file;
  };
  const CASES: readonly (readonly [string, string, RegExp])[] = [
    [
      "a record",
      "UPDATE events SET data = zeroblob(length(data)) WHERE version = 2",
      /nft\/1\/0x12.* WRONG: a record of the event log is damaged/,
    ],
    [
      "a blob",
      `UPDATE blobs SET bytes = zeroblob(length(bytes)) WHERE length(bytes) > 10000`,
      /metadata\/1\/0x12.* WRONG: blob .* is not what its name says/,
    ],
    [
      "a missing blob",
      "DELETE FROM blobs WHERE length(bytes) > 10000",
      /metadata\/1\/0x12.* WRONG: blob .* is missing/,
    ],
    ["a missing record", "DELETE FROM events WHERE version = 2", /nft\/1\/0x12.* WRONG/],
  ];
  test.each(CASES)("refuse %s, and with --force say what is lost", async (_name, statement, says) => {
    const file = withChangedRow(statement);
    const before = contentOf();
    const refused = await restore(file);
    expect([refused.code, refused.err]).toEqual([1, expect.stringMatching(says)]);
    expect(refused.err).toContain("--force");
    expect(contentOf()).toBe(before);
    expect(existsSync(`${path}.restoring`)).toBe(false);
    const forced = await restore(file, "--force", "--json");
    expect([forced.code, JSON.parse(forced.out).lost]).toEqual([0, [expect.stringMatching(says)]]);
    expect(forced.err).toMatch(/^lost: /);
    expect((await restore(backup)).code).toBe(0);
  });
});

test("--force restores what SQLite can read, and no file that it can't", async () => {
  const record = whole.indexOf(Buffer.from(TEXT.slice(0, 40)));
  expect(record).toBeGreaterThan(0);
  const readable = await restore(
    changed((bytes) => flip(bytes, record)),
    "--force",
  );
  expect([readable.code, readable.err]).toEqual([0, expect.stringContaining(hashOf(Buffer.from(TEXT)))]);
  const unreadable = await restore(
    changed((bytes) => flip(bytes, 0)),
    "--force",
  );
  expect([unreadable.code, unreadable.err]).toEqual([69, expect.stringContaining("can't be restored")]);
  expect((await restore(backup)).code).toBe(0);
});
