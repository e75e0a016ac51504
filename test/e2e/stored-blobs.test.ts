/**
 * A service that keeps metadata and pictures in an S3 store: through an outage of the store, a restart, copies to other logs and
 * a backup. No event ever names a blob that is not there.
 */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import { toAddress } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { decodeTokens } from "../../src/events/token-columns.ts";
import { metadataStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { recordingWire } from "../support/metadata/wire.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { S3_KEY, S3_SECRET, type S3Server, startS3 } from "../support/s3.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const PUBLIC = "93.184.215.14";
const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>';
const TOKENS = 12;

const folder = mkdtempSync(join(tmpdir(), "stored-blobs-"));
const logUrl = temporaryLogUrl();
let anvil: Anvil;
let nft: Deployed;
let s3: S3Server;
let web: ReturnType<typeof Bun.serve>;
let service: TestService | undefined;

/** Starts the service, in place of the one that runs. */
async function start(url = logUrl, env = s3.env("first")): Promise<TestService> {
  await service?.stop();
  const metadataWire = recordingWire({
    names: { "content.example": [PUBLIC] },
    ports: { [PUBLIC]: web.port as number },
  });
  service = await startTestService({ rpcUrl: anvil.url, logUrl: url, metadataWire, env });
  return service;
}

beforeAll(async () => {
  web = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch: ({ url }) =>
      url.endsWith(".svg")
        ? new Response(SVG)
        : Response.json({ name: new URL(url).pathname, image: "https://content.example/picture.svg" }),
  });
  [anvil, s3] = await Promise.all([startAnvil(), startS3()]);
  nft = await deploy(anvil, await contractArtifact("StoryNft"), ["Stored", "STO"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, TOKENS]);
  await transact(anvil, nft.contract, "setBase", ["https://content.example/", ".json"]);
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  await s3?.stop();
  await web?.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

const page = async (of: TestService): Promise<Body[]> => {
  const { status, body } = await of.get(`/api/v2/nft/${nft.address}?limit=100&media_items=true`);
  expect(status).toBe(200);
  return body.result;
};

/** Resolves with the records once each has its metadata and its picture. */
const whole = (of: TestService): Promise<Body[]> =>
  eventually(
    "each token has its metadata and its picture",
    async () => {
      const records = await page(of);
      const isWhole = records.every(({ metadata, media }) => metadata !== null && media.status === "success");
      return isWhole && records.length === TOKENS ? records : undefined;
    },
    60_000,
  );

const previewPath = ([record]: Body[]): string => new URL(record.media.media_collection.low.url).pathname;

const failures = async (of: TestService): Promise<number> => {
  const text = await (await of.fetch("/metrics")).text();
  return Number(/^blob_requests_total\{outcome="failed"\} (\d+)/m.exec(text)?.[1] ?? 0);
};

test("stores nothing that no blob stands behind while the store is down, and everything once it is back", async () => {
  await s3.down();
  const running = await start();
  await synced(running, nft.address);
  await eventually("a write was tried", async () => ((await failures(running)) > 0 ? true : undefined));
  const log = await openLog(logUrl, systemClock, silentLogger, { blobs: s3.place("first") });
  const named = await log.read(metadataStream(1, toAddress(nft.address)));
  // The contract has no document of its own, which is an outcome without a blob.
  const hashes = named.flatMap(({ event }) =>
    "tokens" in event && event.tokens instanceof Uint8Array ? [...decodeTokens(event.tokens).hashes] : [],
  );
  expect(hashes.filter((byte) => byte !== 0)).toEqual([]);
  await log.close();
  expect((await page(running)).map(({ metadata }) => metadata)).toEqual(Array(TOKENS).fill(null));
  s3.up();
  const records = await whole(running);
  expect((await running.fetch(previewPath(records))).headers.get("content-type")).toBe("image/webp");
  const database = new Database(logUrl.slice("sqlite://".length), { readonly: true });
  expect(database.query("SELECT count(*) AS count FROM blobs").get()).toEqual({ count: 0 });
  database.close();
}, 180_000);

test("has few reads of the store at once for those who ask for pictures without a key", async () => {
  const running = await start();
  const records = await whole(running);
  const gate = Promise.withResolvers<void>();
  let [reads, atOnce, most] = [0, 0, 0];
  s3.answer(async () => {
    reads++;
    most = Math.max(most, ++atOnce);
    await gate.promise;
    atOnce--;
    return new Response("<Error><Code>NoSuchKey</Code></Error>", { status: 404 });
  });
  const root = `http://127.0.0.1:${running.port}`;
  const leaving = new AbortController();
  const ask = (at: number, signal?: AbortSignal) =>
    fetch(`${root}/media/${at.toString(16).padStart(64, "e")}/100`, { ...(signal && { signal }) }).then(
      ({ status }) => status,
      () => "gone",
    );
  const asked = Array.from({ length: 60 }, (_, at) => ask(at));
  await eventually("the reads have begun", async () => (reads >= 16 ? true : undefined));
  const gone = Array.from({ length: 60 }, (_, at) => ask(99 + at, leaving.signal));
  // A page of the collection in memory waits for none of them.
  expect((await page(running)).length).toBe(TOKENS);
  leaving.abort();
  await Promise.all(gone);
  gate.resolve();
  expect(await Promise.all(asked)).toEqual(asked.map(() => 404));
  expect([most, reads]).toEqual([16, 60]);
  s3.answer(undefined);
  expect((await running.fetch(previewPath(records))).status).toBe(200);
}, 120_000);

test("serves the same after a restart, and pages without the store, whose pictures are 503", async () => {
  const before = await whole(await start());
  const path = previewPath(before);
  await s3.down();
  const restarted = await start();
  await synced(restarted, nft.address);
  const records = await page(restarted);
  const owners = (all: Body[]) => all.map(({ token_id, owner_of }) => [token_id, owner_of]);
  expect(owners(records)).toEqual(owners(before));
  expect(records.map(({ metadata, media }) => [metadata, media.status])).toEqual(
    Array(TOKENS).fill([null, "temporarily_unavailable"]),
  );
  const refused = await restarted.fetch(path);
  expect([refused.status, refused.headers.get("retry-after"), await refused.json()]).toEqual([
    503,
    "5",
    {
      message: "the store of metadata and pictures can't be reached at the moment; pages are served on; try again",
      code: "log_unavailable",
    },
  ]);
  const ofCollection = `/api/collections/eth/${nft.address}`;
  const traits = await restarted.get(`${ofCollection}/traits`);
  expect([traits.status, traits.body.code]).toEqual([503, "log_unavailable"]);
  const exported = restarted.fetch(`${ofCollection}/export?format=jsonl`).then((response) => response.text());
  expect(await exported.catch(() => "broken off")).toBe("broken off");
  s3.up();
  const after = await whole(restarted);
  expect((await restarted.get(`${ofCollection}/traits`)).status).toBe(200);
  expect(after.map(({ metadata }) => metadata)).toEqual(before.map(({ metadata }) => metadata));
  expect((await restarted.fetch(path)).status).toBe(200);
}, 180_000);

test("moves to PostgreSQL with a store of its own, and back into one file, with nothing lost", async () => {
  await service?.stop();
  service = undefined;
  const { BLOB_URL: first, ...keys } = s3.env("first") as Record<"BLOB_URL", string>;
  const { BLOB_URL: second } = s3.env("second") as Record<"BLOB_URL", string>;
  const postgres = await (await sharedPostgres()).createDatabase();
  const back = `sqlite://${join(folder, "back.db")}`;
  const refused = await runCli(["copy", logUrl, postgres], keys);
  expect([refused.code, refused.err]).toEqual([
    1,
    "--from-blobs: this log has its blobs in an S3 store; name it as it was named before\n",
  ]);
  const there = await runCli(["copy", logUrl, postgres, "--from-blobs", first, "--to-blobs", second, "--json"], keys);
  expect([there.code, there.err]).toEqual([0, ""]);
  const returned = await runCli(["copy", postgres, back, "--from-blobs", second, "--json"], keys);
  expect(returned.code).toBe(0);
  const [one, two] = [JSON.parse(there.out), JSON.parse(returned.out)];
  expect(two).toEqual(one);
  expect(one.copiedBlobs).toBeGreaterThan(TOKENS * 2);
  const blobs = (prefix: string) => s3.objects(prefix).filter((name) => name.startsWith("blobs/"));
  expect(blobs("second")).toEqual(blobs("first"));
  const verified = async (url: string, env: Record<string, string>) =>
    (await runCli(["verify"], { EVENT_LOG_URL: url, ...env })).out.split("\n").at(-2);
  expect(await verified(logUrl, s3.env("first"))).toMatch(/^\d+ streams, 0 wrong$/);
  expect(await verified(postgres, s3.env("second"))).toMatch(/^\d+ streams, 0 wrong$/);
  expect(await verified(back, {})).toMatch(/^\d+ streams, 0 wrong$/);
  const before = (await whole(await start(postgres, s3.env("second")))).map(({ metadata }) => metadata);
  expect((await whole(await start(back, {}))).map(({ metadata }) => metadata)).toEqual(before);
}, 180_000);

test("is backed up without its blobs, which the restored log finds again; a lost blob is found by verify", async () => {
  await service?.stop();
  service = undefined;
  const env = { EVENT_LOG_URL: logUrl, ...s3.env("first") };
  const file = join(folder, "backup.db");
  const backup = await runCli(["backup", file], env);
  expect([backup.code, backup.err]).toEqual([
    0,
    "metadata and pictures are not in it: they stay in s3://blobs/first/, which is to be kept, too\n",
  ]);
  const restored = `sqlite://${join(folder, "restored.db")}`;
  const restore = (change: Record<string, string>) =>
    runCli(["restore", file], { ...env, EVENT_LOG_URL: restored, ...change });
  const other = await restore(s3.env("other"));
  expect([other.code, other.err]).toEqual([
    1,
    "BLOB_URL: this is not the store of this log's blobs; name the bucket and prefix of before\n",
  ]);
  await s3.down();
  const [down, unverified] = [await restore({}), await runCli(["verify"], env)];
  expect([down.code, unverified.code]).toEqual([69, 69]);
  for (const { err } of [down, unverified]) expect(err).toContain("BLOB_URL: the store can't be reached: ");
  s3.up();
  expect((await restore({})).code).toBe(0);
  expect((await whole(await start(restored))).length).toBe(TOKENS);
  const [lost = ""] = s3.objects("first").filter((name) => name.startsWith("blobs/"));
  rmSync(s3.fileOf(`first/${lost}`));
  const verified = await runCli(["verify"], env);
  expect(verified.code).toBe(1);
  expect(verified.out).toContain(`WRONG: blob 0x${lost.slice(-64)} is missing`);
}, 180_000);

test("is tried by doctor, whose words name the variable and no secret", async () => {
  const env = { RPC_URL_ETH: anvil.url, RPC_URLS_ONLY: "true", PORT: "0", EVENT_LOG_URL: temporaryLogUrl() };
  const line = async (change: Record<string, string>) => {
    const { out } = await runCli(["doctor"], { ...env, ...s3.env("doctor"), ...change });
    for (const secret of [S3_KEY, S3_SECRET, "another-secret-0123456789", new URL(s3.endpoint).host]) {
      for (const form of [secret, encodeURIComponent(secret), btoa(secret)]) expect(out).not.toContain(form);
    }
    return /^. blobs: .*(?:\n {4}.*)?/m.exec(out)?.[0];
  };
  expect(await line({})).toBe("✓ blobs: s3://blobs/doctor/ takes, returns, lists and deletes a probe");
  expect(s3.objects("doctor")).toEqual([]);
  expect(await line({ AWS_SECRET_ACCESS_KEY: "another-secret-0123456789" })).toStartWith(
    "✗ blobs: BLOB_URL: the store refuses the keys: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION",
  );
  expect(await line({ BLOB_URL: "s3://nowhere/doctor" })).toStartWith("✗ blobs: BLOB_URL: there is no such bucket");
  expect(await line({ S3_ENDPOINT: `http://127.0.0.1:${web.port}` })).toStartWith("✗ blobs: ");
  await s3.down();
  expect(await line({})).toStartWith("✗ blobs: BLOB_URL: the store can't be reached: ");
  s3.up();
}, 180_000);

test("lets a log be rid of a chain, and leaves the store as it is", async () => {
  await service?.stop();
  service = undefined;
  const before = s3.objects("first");
  const forget = async (env: Record<string, string>) => {
    const script = Bun.spawn([process.execPath, "scripts/forget-chain.ts", "eth", logUrl], {
      ...{ stdout: "pipe", stderr: "pipe", env: { PATH: process.env["PATH"] ?? "", ...env } },
    });
    const [code, out, err] = await Promise.all([script.exited, script.stdout.text(), script.stderr.text()]);
    return [code, `${out}${err}`.trim()] as const;
  };
  const [code, text] = await forget({});
  expect([code === 0, text.includes("BLOB_URL")]).toEqual([false, true]);
  expect(await forget(s3.env("first"))).toEqual([0, expect.stringMatching(/^eth: \d+ streams forgotten$/)]);
  expect(s3.objects("first")).toEqual(before);
});
