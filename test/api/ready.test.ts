/**
 * The answer cache: a repeated request gets the same answer, through the same checks of key and rate, for as long as
 * the answer is true. The tests run against a real chain, so new blocks invalidate the answers.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { gunzipSync } from "node:zlib";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { cachedResponse, ResponseCache } from "../../src/api/wire/response-cache.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

let anvil: Anvil;
let service: TestService;
let nft: Deployed;
let path: string;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 16 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Ready", "RDY"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 30]);
  await anvil.mine(40);
  service = await startTestService({
    rpcUrl: anvil.url,
    logUrl: temporaryLogUrl(),
    env: { API_KEYS: `${TEST_KEY},other-key-1`, RATE_LIMIT_PER_MINUTE: "100000" },
  });
  path = `/api/v2/nft/${nft.address.toLowerCase()}?limit=30`;
  await synced(service, nft.address, await height());
});

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

const metric = async (name: string): Promise<number> => {
  const text = await (await service.fetch("/metrics")).text();
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
};

/** Repeats the request until the cache answers it, that is, until no metadata of the page is pending. */
async function settled(): Promise<string> {
  return eventually("the page is in the answer cache", async () => {
    const etag = (await service.get(path)).headers.get("etag")!;
    const before = await metric("answer_cache_bytes");
    return before > 0 && (await service.get(path)).headers.get("etag") === etag ? etag : undefined;
  });
}

test("repeats the same answer with a new request id", async () => {
  await settled();
  const answers = [];
  for (let i = 0; i < 3; i++) answers.push(await service.get(path));
  const [first] = answers;
  for (const { status, headers, body } of answers) {
    expect([status, body]).toEqual([200, first!.body]);
    for (const name of ["etag", "vary", "content-type", "cache-control", "x-as-of-block", "x-as-of-hash"]) {
      expect(headers.get(name)).toBe(first!.headers.get(name)!);
    }
    expect(headers.get("vary")).toBe("accept-encoding");
  }
  expect(new Set(answers.map(({ headers }) => headers.get("x-request-id"))).size).toBe(3);
});

test("checks keys, conditions, encodings and HEAD for cached answers too", async () => {
  const etag = await settled();
  const url = `http://127.0.0.1:${service.port}${path}`;
  expect((await fetch(url)).status).toBe(401);
  expect((await fetch(url, { headers: { "x-api-key": "wrong-key-1" } })).status).toBe(401);
  expect((await fetch(url, { headers: { "x-api-key": "other-key-1" } })).status).toBe(200);

  const plain = new Uint8Array(
    await (await service.fetch(path, { headers: { "accept-encoding": "identity" } })).arrayBuffer(),
  );
  const unchanged = await service.fetch(path, { headers: { "if-none-match": etag } });
  expect([unchanged.status, await unchanged.text(), unchanged.headers.get("etag")]).toEqual([304, "", etag]);
  for (let i = 0; i < 3; i++) {
    const zipped = await service.fetch(path, {
      headers: { "accept-encoding": "gzip" },
      decompress: false,
    } as RequestInit);
    expect(zipped.headers.get("content-encoding")).toBe("gzip");
    expect(new Uint8Array(gunzipSync(new Uint8Array(await zipped.arrayBuffer())))).toEqual(plain);
  }
  const again = await service.fetch(path, { headers: { "accept-encoding": "identity" } });
  expect(again.headers.get("content-encoding")).toBe(null);
  const head = await service.fetch(path, { method: "HEAD", headers: { "accept-encoding": "identity" } });
  expect([head.status, head.headers.get("etag"), head.headers.get("content-length")]).toEqual([
    200,
    etag,
    String(plain.length),
  ]);
});

test("counts cached answers against the rate limit", async () => {
  const limited = await startTestService({
    rpcUrl: anvil.url,
    logUrl: temporaryLogUrl(),
    env: { RATE_LIMIT_PER_MINUTE: "40" },
  });
  const statuses: number[] = [];
  for (let i = 0; i < 42; i++) statuses.push((await limited.get(path)).status);
  await limited.stop();
  expect(statuses.slice(0, 40).every((status) => status === 200)).toBe(true);
  expect(statuses.at(-1)).toBe(429);
});

test("shows a transfer and its reorg at once, and ends a walk at an orphaned block", async () => {
  await settled();
  const before = (await service.get(path)).body.result[0];
  const since = await height();
  await transact(anvil, nft.contract, "move", [anvil.accounts[1], anvil.accounts[2], 1]);
  const moved = await eventually("the transfer is listed", async () => {
    const answer = await service.get(path);
    return answer.body.result[0].owner_of === before.owner_of ? undefined : answer;
  });
  expect(moved.body.result[0].owner_of).toBe(anvil.accounts[2]!.toLowerCase());
  const { cursor } = (await service.get(`${path.replace("limit=30", "limit=10")}`)).body;
  const walk = `${path}&cursor=${encodeURIComponent(cursor)}`;
  // By now the page is cached.
  for (let i = 0; i < 3; i++) expect((await service.get(walk)).status).toBe(200);

  await reorg(anvil, (await height()) - since);
  await anvil.mine(1);
  await eventually("the listing has lost the transfer", async () => {
    const answer = await service.get(path);
    return answer.body.result[0].owner_of === before.owner_of ? true : undefined;
  });
  const gone = await service.get(walk);
  expect([gone.status, gone.headers.get("cache-control")]).toEqual([410, "no-store"]);
});

test("counts the bytes of the request line as well as of the answer, because a query may be longer than its page", () => {
  const ready = new ResponseCache(1_000_000);
  const questions = Array.from({ length: 200 }, (_, i) => `/api/v2/nft/0x1?${i}=${"x".repeat(8_000)}`);
  for (const question of questions) {
    ready.put(question, { answer: cachedResponse("{}", 200, new Headers()), isCurrent: () => true }, "one");
  }
  expect(questions.filter((question) => ready.get(question, "one") !== undefined).length).toBeLessThan(120);
});
