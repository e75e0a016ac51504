/**
 * A history from an archive that is not trusted: what it tells is what the node would have told, whatever the archive
 * does. A real chain with a node that takes ten blocks per request, and a server of the Portal's protocol made from it.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import type { Deployed } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { decodeTransfers } from "../../src/events/columns.ts";
import { type NftEvent, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { linesByBlock } from "../../src/nft/indexing/omissions.ts";
import {
  type ArchiveFault,
  type ArchiveOptions,
  type ArchiveQuery,
  archiveOfNode,
  STALLS,
  startArchive,
  type TestArchive,
  TROUBLES,
} from "../support/archive.ts";
import { ARCHIVED, seedArchivedCollection } from "../support/archived-collection.ts";
import { recordingLogger } from "../support/logged.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
  walkListing,
} from "../support/service.ts";

const CAP = 10;
const OPERATOR_KEY = "operator-key-0123456789";

let anvil: Anvil;
let nft: Deployed;
let truth: Body[];
const started: { stop(): Promise<void> }[] = [];

/** Runs something that is stopped after the test. */
function untilTheEnd<T extends { stop(): Promise<void> }>(one: T): T {
  started.push(one);
  return one;
}

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  ({ nft } = await seedArchivedCollection(anvil));
  const service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  await synced(service, nft.address);
  truth = await walkListing(service, nft.address, "limit=100");
  expect(truth).toHaveLength(ARCHIVED.tokens - 1);
  await service.stop();
}, 300_000);
afterAll(() => anvil.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

interface Indexed {
  readonly service: TestService;
  readonly logUrl: string;
  readonly archive: TestArchive;
  readonly proxy: RpcProxy;
  readonly row: Body;
  readonly listed: Body[];
}

/** A node that takes ten blocks per request, and has no logs before `prunedTo`. */
async function narrowNode(prunedTo = 0, target = anvil.url): Promise<RpcProxy> {
  const proxy = await startRpcProxy(target, {
    onRequest: ({ method, params }) => {
      if (method !== "eth_getLogs") return undefined;
      const { fromBlock, toBlock } = params[0] as { fromBlock?: string; toBlock?: string };
      if (Number(fromBlock) < prunedTo) return { error: { code: 4444, message: "pruned history unavailable" } };
      const blocks = Number(toBlock) - Number(fromBlock) + 1;
      return blocks > CAP ? { error: { code: -32600, message: `up to a ${CAP} block range` } } : undefined;
    },
  });
  return untilTheEnd(proxy);
}

/** Indexes the collection by an archive, behind a node that takes ten blocks per request. */
async function indexed(
  options: ArchiveOptions,
  {
    env = {},
    prunedTo = 0,
    target = anvil.url,
    done = (row: Body) => row.proof?.block !== null,
  }: { env?: Record<string, string>; prunedTo?: number; target?: string; done?: (row: Body) => boolean } = {},
): Promise<Indexed> {
  const archive = untilTheEnd(await startArchive(archiveOfNode(target), options));
  const proxy = await narrowNode(prunedTo, target);
  const logUrl = temporaryLogUrl();
  const service = untilTheEnd(
    await startTestService({
      rpcUrl: proxy.url,
      logUrl,
      env: { ARCHIVE_URL_ETH: archive.url, OPERATOR_KEYS: OPERATOR_KEY, ARCHIVE_PER_10S: "100000", ...env },
    }),
  );
  await service.get(`/api/v2/nft/${nft.address}`);
  const row = await eventually(
    "the collection is complete, and its owners are proven",
    async () => {
      const { body, status } = await service.get(`/api/collections/eth/${nft.address}`);
      return status === 200 && body.status === "following" && done(body) ? body : undefined;
    },
    60_000,
  );
  // The headline may be ahead of the pages.
  await synced(service, nft.address);
  return { service, logUrl, archive, proxy, row, listed: await walkListing(service, nft.address, "limit=100") };
}

/** A hash over all transfers of the collection's stream, in order. */
async function streamHash({ service, logUrl }: Indexed): Promise<string> {
  await service.stop();
  const log = await openLog(logUrl, systemClock, silentLogger);
  const stream = nftStream(1, nft.address.toLowerCase() as Address);
  const hasher = new Bun.CryptoHasher("sha256");
  const events = (await log.read(stream, { from: 1, limit: 10_000 })).map(({ event }) => event as NftEvent);
  for (const event of events) {
    if (event.type !== "TransfersCommitted") continue;
    for (const [block, lines] of linesByBlock(decodeTransfers(event.transfers))) hasher.update(`${block} ${lines}\n`);
  }
  await log.close();
  return hasher.digest("hex");
}

const withoutTimes = (records: readonly Body[]) =>
  records.map(({ last_token_uri_sync: _a, last_metadata_sync: _b, ...record }) => record);

describe("a history from an archive", () => {
  test("is the node's own, with owners proven and blocks sampled, for a fraction of the calls", async () => {
    const { listed, row, proxy, archive } = await indexed({});
    expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    expect(row.history).toMatch(/^archive, owners proven, 64 of 441 blocks sampled$/);
    expect(row.proof).toMatchObject({ holdings: ARCHIVED.tokens, of: ARCHIVED.tokens, contradicted: 0 });
    expect(row.proof.sampled).toBe(row.proof.byRoot);
    expect(row.proof.hashed).toBe(row.proof.touched);
    expect(archive.queries.length).toBeGreaterThan(0);
    expect(proxy.count("eth_getLogs")).toBeLessThan(20);
  });

  for (const trouble of TROUBLES) {
    test(`is whole although answers suffer from: ${trouble}`, async () => {
      const { listed, archive } = await indexed({ faults: [trouble], rate: 0.5, mostBlocks: 20, seed: 3 });
      expect(archive.committed.get(trouble) ?? 0).toBeGreaterThan(0);
      expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    });
  }

  for (const stall of STALLS) {
    test(`is the node's within 20 s of an archive that stalls: ${stall}`, async () => {
      const begun = performance.now();
      const { listed, archive, proxy } = await indexed({ faults: [stall], rate: 1 }, { done: () => true });
      const seconds = (performance.now() - begun) / 1_000;
      expect(archive.committed.get(stall) ?? 0).toBeGreaterThan(0);
      expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
      expect(seconds).toBeLessThan(30);
      expect(proxy.count()).toBeLessThan(1_500);
    });
  }

  test("waits for an archive that is down for seconds, where the node has the blocks pruned", async () => {
    const { listed, row, archive } = await indexed({ faults: ["down"], rate: 1, stalls: 6 }, { prunedTo: 500 });
    expect(archive.committed.get("down")).toBe(6);
    expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    expect(row.history).toMatch(/^archive, owners proven/);
  });

  for (const lie of ["omit", "forge", "forge well", "another branch"] as const satisfies readonly ArchiveFault[]) {
    test(`is right although the archive lies: ${lie}`, async () => {
      const { listed, archive } = await indexed({
        faults: [lie],
        rate: lie === "another branch" ? 0.3 : 0.05,
        mostBlocks: 50,
        seed: 5,
      });
      expect(archive.committed.get(lie) ?? 0).toBeGreaterThan(0);
      expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    });
  }

  test("has each block with a log proven under VERIFY=receipts", async () => {
    const { listed, row } = await indexed({}, { env: { VERIFY: "receipts" } });
    expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    expect(row.history).toBe("archive, owners proven, all 441 blocks with a log proven by receipts");
  });

  test("has no forged log under VERIFY=receipts", async () => {
    const { listed, archive } = await indexed(
      { faults: ["forge"], rate: 0.003, seed: 9 },
      { env: { VERIFY: "receipts" } },
    );
    expect(archive.committed.get("forge") ?? 0).toBeGreaterThan(0);
    expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
  });

  test("is proven by receipts from the block on at which headers no longer make their hash, and says so", async () => {
    // Like the next fork: a field of each header from here on is not the one that makes its hash.
    const fork = ARCHIVED.tokens + 20;
    const forked = untilTheEnd(
      await startRpcProxy(anvil.url, {
        onResult: ({ method }, result) => {
          if (method !== "eth_getBlockByNumber" || result === null) return result;
          const header = result as { readonly number: string };
          return Number(header.number) < fork ? header : { ...header, extraData: "0x6e65787420666f726b" };
        },
      }),
    );
    // Pairs of transfers that cancel out, which the owners can't show.
    const lies: ArchiveOptions = { faults: ["omit pair"], rate: 0.05, seed: 11 };
    const honest = await indexed({}, { target: forked.url });
    expect(honest.row.history).toContain(`headers from block ${fork} on prove nothing`);
    const { body: status } = await honest.service.get("/api/status", { "x-api-key": OPERATOR_KEY });
    expect(status.chains[0].inDoubt).toMatchObject({ block: fork });
    const metrics = await (await honest.service.fetch("/metrics")).text();
    expect(metrics).toContain(`chain_headers_changed_block{chain="eth"} ${fork}`);
    const told = await indexed(lies, { target: forked.url, done: () => true });
    expect(told.archive.committed.get("omit pair") ?? 0).toBeGreaterThan(0);
    expect(await streamHash(told)).toBe(await streamHash(honest));
  }, 300_000);

  test("begins with the node where the data set begins later", async () => {
    const { listed, row } = await indexed({ startBlock: 200 });
    expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    expect(row.proof.touched).toBeLessThan(400);
  });

  test("goes on with the node when the archive vanishes half-way", async () => {
    const gone = (_query: unknown, index: number) => (index > 2 ? new Response("gone", { status: 404 }) : undefined);
    const { listed, row } = await indexed({ mostBlocks: 60, onRequest: gone });
    expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    expect(row.proof.touched).toBe(180);
  });

  const blocks = [990, 999].map((number) => ({ number, hash: `0x${"ab".repeat(32)}` }));
  const json = (body: unknown, status: number) => new Response(JSON.stringify(body), { status });
  /** What the archive says in place of its first two answers, and whether the third one counts. */
  const ANSWERS: readonly (readonly [string, () => Response, boolean])[] = [
    ["204, its head is behind", () => new Response(null, { status: 204 }), true],
    ["429 without a body", () => new Response(null, { status: 429 }), true],
    [
      "429 with a date",
      () => new Response("", { status: 429, headers: { "retry-after": new Date().toUTCString() } }),
      true,
    ],
    ["500", () => new Response("worker failure", { status: 500 }), true],
    ["529 with Retry-After", () => new Response("overload", { status: 529, headers: { "retry-after": "0" } }), true],
    ["200 with nothing", () => new Response(""), true],
    ["200 with half a line", () => new Response('{"header":{"numb'), true],
    [
      "400 for an answer that is too large",
      () => new Response("Bad request: Query is too large", { status: 400 }),
      true,
    ],
    ["409 with older blocks first", () => json({ previousBlocks: blocks }, 409), false],
    ["409 with newer blocks first", () => json({ previousBlocks: [...blocks].reverse() }, 409), false],
    ["404 for an unknown data set", () => new Response("Unknown dataset: x", { status: 404 }), false],
    ["403 for the key", () => json({ error: { type: "auth", code: "forbidden" } }, 403), false],
    ["400 for a bad query", () => new Response("Bad request: unknown field", { status: 400 }), false],
    ["200 with a page", () => new Response("<html>hello</html>\n"), false],
    ["a redirect", () => new Response(null, { status: 302, headers: { location: "http://169.254.169.254/" } }), true],
  ];
  for (const [name, answer, counts] of ANSWERS) {
    test(`is whole although the archive answers ${name}`, async () => {
      const onRequest = (_query: unknown, index: number) => (index < 2 ? answer() : undefined);
      const { listed, row } = await indexed({ onRequest }, { done: () => true });
      expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
      expect(row.history?.startsWith("archive")).toBe(counts);
    });
  }

  test("asks for no field that a part of the data set lacks", async () => {
    const refusal = "Bad request: column 'requests_hash' is not found in 'blocks'";
    const onRequest = ({ fields }: ArchiveQuery) =>
      fields.block["requestsHash"] === true ? new Response(refusal, { status: 400 }) : undefined;
    const { listed, row, archive } = await indexed({ onRequest });
    expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    expect(row.history).toMatch(/^archive, owners proven, 64 of 441 blocks sampled$/);
    expect(archive.queries.length).toBeLessThan(4);
  });

  test("fills what a node has pruned", async () => {
    const { listed, row } = await indexed({}, { prunedTo: 300 });
    expect(withoutTimes(listed)).toEqual(withoutTimes(truth));
    expect(row.history).toMatch(/^archive, owners proven/);
  });

  test("is said to be pruned, with the block and the way out, where no archive has it", async () => {
    const proxy = await narrowNode(300);
    const service = untilTheEnd(
      await startTestService({
        rpcUrl: proxy.url,
        logUrl: temporaryLogUrl(),
        env: { OPERATOR_KEYS: OPERATOR_KEY, ARCHIVE_URL_ETH: "off" },
      }),
    );
    await service.get(`/api/v2/nft/${nft.address}`);
    const error = await eventually("the collection has failed", async () => {
      const { body } = await service.get(`/api/collections/eth/${nft.address}`);
      return (body.lastError as string | null | undefined) ?? undefined;
    });
    expect(error).toContain("no logs before block 300");
    expect(error).toContain("RPC_URL_ETH");
    expect(error).toContain("ARCHIVE_URL_ETH");
    const status = await service.fetch("/api/status", { headers: { "x-api-key": OPERATOR_KEY } });
    expect(((await status.json()) as Body).chains[0].historyFrom).toBe(300);
  });

  test("has the transfers that the node would have given, log by log", async () => {
    const archived = await streamHash(await indexed({}));
    const read = await streamHash(await indexed({}, { env: { ARCHIVE_URL_ETH: "off" }, done: () => true }));
    expect(archived).toBe(read);
  });

  test("sends the key in its header, and tells neither key nor address to anyone", async () => {
    const { logger, lines } = recordingLogger("debug");
    let seen: string | null = null;
    const archive = untilTheEnd(
      await startArchive(archiveOfNode(anvil.url), {
        onRequest: (_query, _index, headers) => {
          seen = headers.get("x-portal-key");
          return new Response("no access with secret-archive-key", { status: 403 });
        },
      }),
    );
    const service = untilTheEnd(
      await startTestService({
        rpcUrl: anvil.url,
        logUrl: temporaryLogUrl(),
        logger,
        env: {
          ARCHIVE_URL_ETH: archive.url,
          ARCHIVE_KEY_ETH: "X-Portal-Key: secret-archive-key",
          OPERATOR_KEYS: OPERATOR_KEY,
        },
      }),
    );
    await synced(service, nft.address);
    const status = await service.fetch("/api/status", { headers: { "x-api-key": OPERATOR_KEY } });
    const text = JSON.stringify(lines) + (await status.text());
    expect(seen as string | null).toBe("secret-archive-key");
    expect(text).toContain("an archive is not asked for a while");
    expect(text).not.toContain("secret-archive-key");
    expect(text).not.toContain(new URL(archive.url).host);
  });
});
