/** A log whose blobs are in an S3 store: the contract suite on both engines, and the store's failures. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { systemClock } from "../../src/core/clock.ts";
import { BlobsUnavailable } from "../../src/core/errors.ts";
import type { Hash } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { BLOB_STORE } from "../../src/log/blob-binding.ts";
import { openLog } from "../../src/log/open.ts";
import { startForwardProxy } from "../support/forward-proxy.ts";
import { describeLogContract } from "../support/log-contract.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { S3_KEY, S3_SECRET, type S3Server, sharedS3, startS3 } from "../support/s3.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const open = async (url: string, prefix: string) =>
  openLog(url, systemClock, silentLogger, { blobs: (await sharedS3()).place(prefix) });

const sqlite = temporaryLogUrl();
describeLogContract("SQLite with blobs in S3", () => open(sqlite, "sqlite"));

let database: Promise<string> | undefined;
describeLogContract("PostgreSQL with blobs in S3", async () => {
  database ??= sharedPostgres().then((postgres) => postgres.createDatabase());
  return open(await database, "postgres");
});

const bytesOf = (text: string) => new TextEncoder().encode(text);
const failureOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "no failure",
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );

describe("blobs in S3", () => {
  let s3: S3Server;
  beforeAll(async () => {
    s3 = await startS3();
  });
  afterAll(() => s3.stop());

  test("are objects named by their content, and the log's own table has none", async () => {
    const url = temporaryLogUrl();
    const log = await openLog(url, systemClock, silentLogger, { blobs: s3.place("named") });
    const hash = await log.putBlob(bytesOf("one"));
    const digits = hash.slice(2);
    const bound = await log.findSetting(BLOB_STORE);
    const name = `blobs/${digits.slice(0, 2)}/${digits.slice(2, 4)}/${digits}`;
    expect(s3.objects("named")).toEqual([name, `logs/${bound}`]);
    // The same content again is not sent again.
    const before = s3.requests.length;
    expect(await log.putBlob(bytesOf("one"))).toBe(hash);
    expect(s3.requests.length).toBe(before);
    await log.close();
  });

  test("are not looked for without the store, or in another one", async () => {
    const url = temporaryLogUrl();
    const log = await openLog(url, systemClock, silentLogger, { blobs: s3.place("bound") });
    const hash = await log.putBlob(bytesOf("two"));
    await log.close();
    expect(await failureOf(openLog(url, systemClock, silentLogger))).toBe(
      "BLOB_URL: this log has its blobs in an S3 store; name it as it was named before",
    );
    expect(await failureOf(openLog(url, systemClock, silentLogger, { blobs: s3.place("other") }))).toBe(
      "BLOB_URL: this is not the store of this log's blobs; name the bucket and prefix of before",
    );
    const again = await openLog(url, systemClock, silentLogger, { blobs: s3.place("bound") });
    expect(await again.getBlob(hash)).toEqual(bytesOf("two"));
    await again.close();
  });

  test("that the table has from before are still read there", async () => {
    const url = temporaryLogUrl();
    const before = await openLog(url, systemClock, silentLogger);
    const [old, other] = [await before.putBlob(bytesOf("old")), await before.putBlob(bytesOf("older"))];
    await before.close();
    const log = await openLog(url, systemClock, silentLogger, { blobs: s3.place("moved") });
    const fresh = await log.putBlob(bytesOf("fresh"));
    const { blobs, read } = await log.getBlobs([old, fresh, other]);
    expect([read, [...blobs.values()].map((bytes) => new TextDecoder().decode(bytes))]).toEqual([
      3,
      ["old", "fresh", "older"],
    ]);
    await log.close();
  });

  test("fail with the variable and the way out, and are repeated where that may help", async () => {
    const place = s3.place("failing");
    const log = await openLog(temporaryLogUrl(), systemClock, silentLogger, { blobs: place });
    const hash = await log.putBlob(bytesOf("kept"));
    const missing = `0x${"00".repeat(32)}` as Hash;
    const failures = async (status: number, body: string) => {
      const fresh = await openLog(temporaryLogUrl(), systemClock, silentLogger, { blobs: place });
      s3.answer(() => new Response(body, { status, headers: { location: "http://127.0.0.1:9/" } }));
      const before = s3.requests.length;
      const text = await failureOf(fresh.getBlob(missing));
      const tries = s3.requests.length - before;
      s3.answer(undefined);
      await fresh.close();
      return [tries, text];
    };
    const xml = (code: string) => `<Error><Code>${code}</Code><Message>${S3_SECRET} ${s3.endpoint}</Message></Error>`;
    expect(await failures(503, xml("SlowDown"))).toEqual([
      2,
      "BLOB_URL: the store answered 503: it is busy or at fault (SlowDown)",
    ]);
    expect(await failures(404, "not here")).toEqual([
      1,
      "BLOB_URL: the answer is not that of an S3 store: check S3_ENDPOINT; its status is 404",
    ]);
    expect(await failures(404, xml("NoSuchBucket"))).toEqual([
      1,
      "BLOB_URL: there is no such bucket: create it, or correct the name in BLOB_URL (NoSuchBucket)",
    ]);
    expect(await failures(307, "")).toEqual([1, "BLOB_URL: the bucket is elsewhere: check S3_ENDPOINT and AWS_REGION"]);
    expect((await failures(403, xml("AccessDenied")))[1]).toContain("check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY");
    expect(await failures(200, "x".repeat(33 * 1024 * 1024))).toEqual([
      1,
      "BLOB_URL: the store sent an object that is too large to be a blob",
    ]);
    await s3.down();
    const down = await log.putBlob(bytesOf("new")).catch((error: unknown) => error);
    expect(down).toBeInstanceOf(BlobsUnavailable);
    expect((down as Error).message).toMatch(/^BLOB_URL: the store can't be reached: \w+; check S3_ENDPOINT/);
    s3.up();
    const kept = await eventually("the store is asked again", () => log.getBlob(hash).catch(() => undefined));
    expect(kept).toEqual(bytesOf("kept"));
    await log.close();
  });

  test("that another content has replaced are refused", async () => {
    const url = temporaryLogUrl();
    const log = await openLog(url, systemClock, silentLogger, { blobs: s3.place("damaged") });
    const hash = await log.putBlob(bytesOf("right"));
    const [name = ""] = s3.objects("damaged");
    writeFileSync(s3.fileOf(`damaged/${name}`), "wrong");
    expect(await failureOf(log.getBlob(hash))).toBe(`BLOB_URL: blob ${hash} is not what its name says: put it back`);
    await log.close();
  });

  test("go through the operator's proxy, and with the token of temporary keys", async () => {
    const { port } = new URL(s3.endpoint);
    const proxy = await startForwardProxy({ "store.example:80": Number(port) });
    const place = { ...s3.place("proxied"), sessionToken: "a/token+of=some+hours" };
    const direct = await openLog(temporaryLogUrl(), systemClock, silentLogger, { blobs: place });
    const hash = await direct.putBlob(bytesOf("by a token"));
    await direct.close();
    const proxied = { ...place, endpoint: "http://store.example", proxy: proxy.url };
    const log = await openLog(temporaryLogUrl(), systemClock, silentLogger, { blobs: proxied });
    expect(await log.getBlob(hash)).toEqual(bytesOf("by a token"));
    expect(proxy.requests).toEqual(["GET store.example:80"]);
    await log.close();
    await proxy.stop();
  });

  test("refuse a start with wrong keys, and name neither them nor the endpoint", async () => {
    const wrong = { ...s3.place("wrong"), secretAccessKey: "another/secret+0123456789" };
    const options = { blobs: wrong, bindsStore: true };
    const text = await failureOf(openLog(temporaryLogUrl(), systemClock, silentLogger, options));
    expect(text).toStartWith("BLOB_URL: the store refuses the keys: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY");
    for (const secret of [S3_KEY, S3_SECRET, wrong.secretAccessKey, s3.endpoint]) expect(text).not.toContain(secret);
  });

  test("let a start go on while the store can't be reached, but no blob be written", async () => {
    await s3.down();
    const options = { blobs: s3.place("later"), bindsStore: true };
    const log = await openLog(temporaryLogUrl(), systemClock, silentLogger, options);
    expect(await failureOf(log.putBlob(bytesOf("later")))).toContain("the store can't be reached");
    s3.up();
    expect(await log.findSetting(BLOB_STORE)).toBeUndefined();
    await log.close();
  });
});
