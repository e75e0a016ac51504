/**
 * The log of each release, as its own service wrote it (`scripts/freeze-log.ts`). Today's service starts on it without a
 * node, answers as that release did, and takes the key of its first start: over SQLite, and over PostgreSQL after a copy.
 */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { BASE, type Frozen } from "../../scripts/freeze-log.ts";
import { MIGRATIONS } from "../../src/log/sqlite-schema.ts";
import { runCli } from "../support/cli.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { spawnService } from "../support/process.ts";

const FOLDER = join(import.meta.dir, "../fixtures/logs");
const versions = readdirSync(FOLDER).flatMap((file) => /^(.+)\.json$/.exec(file)?.[1] ?? []);
/** No node listens there. */
const NODE = { RPC_URL_ETH: "http://127.0.0.1:1", RPC_URLS_ONLY: "true" };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "released-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** An answer without the text of its cursor, which each release writes in its own way. */
const withoutText = (body: object) => ({ ...body, cursor: (body as { cursor: string | null }).cursor !== null });

/** Compares the answers of a service on the log with the frozen ones. */
async function expectSameAnswers(logUrl: string, { key, answers }: Frozen): Promise<void> {
  const service = spawnService({ ...NODE, EVENT_LOG_URL: logUrl });
  try {
    const base = await service.serving;
    const headers = { "x-api-key": key };
    for (const { path, block, body } of answers) {
      const answer = await fetch(`${base}${path}`, { headers });
      const answered = JSON.parse((await answer.text()).replaceAll(base, BASE));
      expect([path, answer.status, withoutText(answered)]).toEqual([path, 200, withoutText(body)]);
      expect([path, answer.headers.get("x-as-of-block")]).toEqual([path, block]);
    }
    // The key of the first start operates the service.
    expect((await fetch(`${base}/api/status`, { headers })).status).toBe(200);
  } finally {
    service.kill("SIGTERM");
    expect(await service.exited).toBe(0);
  }
}

test("there is a log of every release in the changelog, today's among them", async () => {
  const changelog = await Bun.file(join(import.meta.dir, "../../CHANGELOG.md")).text();
  const { version } = await Bun.file(join(import.meta.dir, "../../package.json")).json();
  const released = [...changelog.matchAll(/^## \[(\d[^\]]*)\]/gm)].map((match) => match[1] as string);
  expect(released).toContain(version);
  expect(versions.toSorted()).toEqual(released.toSorted());
});

describe.each(versions)("the log of %s", (version) => {
  let frozen: Frozen;
  let file: string;
  beforeAll(async () => {
    frozen = await Bun.file(join(FOLDER, `${version}.json`)).json();
    file = join(folder, `${version}.db`);
    await Bun.write(file, gunzipSync(await Bun.file(join(FOLDER, `${version}.db.gz`)).bytes()));
  });

  test("is served as by its own release, and is at today's schema afterwards", async () => {
    expect(frozen.answers.length).toBeGreaterThan(5);
    await expectSameAnswers(`sqlite://${file}`, frozen);
    const db = new Database(file, { readonly: true });
    expect(db.query<{ schema: number }, []>("SELECT max(id) AS schema FROM migrations").get()).toEqual({
      schema: MIGRATIONS.length,
    });
    db.close();
  });

  test("has every checksum and version in order", async () => {
    const { code, out } = await runCli(["verify", "--json"], { EVENT_LOG_URL: `sqlite://${file}` });
    expect([code, JSON.parse(out).damaged ?? []]).toEqual([0, []]);
  });

  test("is served from PostgreSQL after a copy", async () => {
    const target = await (await sharedPostgres()).createDatabase();
    const copied = await runCli(["copy", `sqlite://${file}`, target, "--with-secrets"], {});
    expect([copied.code, copied.err]).toEqual([0, ""]);
    await expectSameAnswers(target, frozen);
  });
});
