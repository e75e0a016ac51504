/**
 * Walks over HTTP: complete at one block despite transfers meanwhile, ended by a reorg of that block, continued after a
 * restart and on another process. Also ranges and listings of the past. `ownerOf` at the walk's block is the truth.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, inOneBlock, reorg, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { type AmountCollection, type Collections, seedCollections } from "../../../scripts/local-chain/collections.ts";
import { queue, read, transact } from "../../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../../scripts/local-chain/random.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import {
  type Answer,
  eventually,
  metadataKnown,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
  walkListing,
} from "../../support/service.ts";

const SEED = Number(process.env["NFT_SEED"] ?? 11);
const random = createRandom(SEED);
const logUrl = temporaryLogUrl();
let anvil: Anvil;
let collections: Collections;
let service: TestService;
let plain: string;

const latest = async () =>
  (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { number: string; hash: string };
const path = (query: string, address = plain) => `/api/v2/nft/${address}?${query}`;
const withCursor = (cursor: string, address = plain) => path(`cursor=${encodeURIComponent(cursor)}`, address);
const idsOf = (body: Answer["body"]): string[] => body.result.map((record: { token_id: string }) => record.token_id);

/** Waits until the service has followed to the chain's head, and returns the head. */
async function caughtUp(to: TestService = service): Promise<number> {
  const { number, hash } = await latest();
  await eventually(`the service is at block ${Number(number)}`, async () => {
    const { headers } = await to.get(path("limit=1"));
    return headers.get("x-as-of-hash") === hash ? true : undefined;
  });
  return Number(number);
}

async function ownersAt(ids: readonly string[], block: number): Promise<string[]> {
  const { contract } = collections.plain;
  const owners = ids.map((id) => contract.getFunction("ownerOf").staticCall(id, { blockTag: block }));
  return (await Promise.all(owners)).map((owner) => String(owner).toLowerCase());
}

/** Mines a block with a few random transfers, a mint and a burn. */
async function movingBlock(mintId: number): Promise<void> {
  const { contract, owners } = collections.plain;
  const live = [...owners.keys()];
  await inOneBlock(anvil, async () => {
    for (let i = 0; i < 5; i++) {
      const id = random.pick(live);
      const holder = (await read<string>(contract, "ownerOf", [id]).catch(() => "")).toLowerCase();
      if (holder !== "") await queue(anvil, contract, "move", [holder, random.pick(anvil.accounts), id]);
    }
    await queue(anvil, contract, "burn", [random.pick(live)]);
    await queue(anvil, contract, "mint", [random.pick(anvil.accounts), mintId]);
  });
}

beforeAll(async () => {
  console.log(`NFT_SEED=${SEED}`);
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 4 });
  collections = await seedCollections(anvil);
  plain = collections.plain.address;
  service = await startTestService({ rpcUrl: anvil.url, logUrl });
  await synced(service, plain);
  await synced(service, collections.multi.address);
  await metadataKnown(service, plain, collections.multi.address);
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

describe("a walk", () => {
  test("is true at its first page's block despite later transfers, with any limit", async () => {
    let mintId = 10_000;
    for (let round = 0; round < 4; round++) {
      await caughtUp();
      const limit = 1 + random.below(60);
      const records: { token_id: string; owner_of: string }[] = [];
      let page = await service.get(path(`limit=${limit}&disable_total=false`));
      const block = Number(page.headers.get("x-as-of-block"));
      const { total } = page.body;
      for (let number = 0; ; number++) {
        expect(page.status).toBe(200);
        expect(page.body).toMatchObject({ page: String(number), page_size: String(limit), total });
        expect(Number(page.headers.get("x-as-of-block"))).toBe(block);
        records.push(...page.body.result);
        if (page.body.cursor === null) break;
        if (number < 4) {
          await movingBlock(mintId++);
          await caughtUp();
        }
        page = await service.get(withCursor(page.body.cursor));
      }
      const ids = records.map(({ token_id }) => token_id);
      expect(new Set(ids).size).toBe(ids.length);
      expect(String(ids.length)).toBe(total);
      expect(records.map(({ owner_of }) => owner_of)).toEqual(await ownersAt(ids, block));
      // No record is missing: the listing of that block in one page is the same.
      const whole = await service.get(path(`limit=500&as_of_block=${block}`));
      expect(ids).toEqual(idsOf(whole.body));
    }
  }, 300_000);

  test("keeps the options of its first page, whatever later queries say", async () => {
    const first = await service.get(path("limit=7&format=hex&holders=true&disable_total=false"));
    const { cursor } = first.body;
    const plainly = await service.get(withCursor(cursor));
    const distracted = await service.get(
      `${withCursor(cursor)}&limit=3&format=decimal&holders=false&disable_total=true&totalRanges=4&range=9&as_of_block=1`,
    );
    expect(distracted.body).toEqual(plainly.body);
    expect(plainly.body).toMatchObject({ page: "1", page_size: "7", total: first.body.total });
    expect(plainly.body.result[0].token_id).toMatch(/^0x[0-9a-f]+$/);
    const normalized = await service.get(`${withCursor(cursor)}&normalizeMetadata=true&media_items=true`);
    const fields = ["name", "description", "image", "external_link", "external_url", "animation_url", "attributes"];
    expect(Object.keys(normalized.body.result[0].normalized_metadata)).toEqual(fields);
    expect(normalized.body.result[0].media).toHaveProperty("original_media_url");
  });

  test("ends with 410 if its block is orphaned, but not on a reorg above it", async () => {
    await anvil.mine(3);
    const head = await caughtUp();
    const { cursor } = (await service.get(path("limit=10"))).body;
    const older = (await service.get(path(`limit=10&as_of_block=${head - 3}`))).body;
    await movingBlock(20_000);
    await caughtUp();
    expect((await service.get(withCursor(cursor))).status).toBe(200);
    await reorg(anvil, 3);
    await caughtUp();
    const gone = await service.get(withCursor(cursor));
    expect([gone.status, gone.body.code]).toEqual([410, "cursor_reorged"]);
    const still = await service.get(withCursor(older.cursor));
    expect(still.status).toBe(200);
    expect(idsOf(still.body)).toEqual(idsOf((await service.get(path("limit=20"))).body).slice(10));
  });

  test("continues after a restart, and on a second process over the same log", async () => {
    await caughtUp();
    const { cursor } = (await service.get(path("limit=50&disable_total=false"))).body;
    const before = (await service.get(withCursor(cursor))).body;
    const second = await startTestService({ rpcUrl: anvil.url, logUrl });
    try {
      expect((await second.get(withCursor(cursor))).body).toEqual(before);
    } finally {
      await second.stop();
    }
    await service.stop();
    service = await startTestService({ rpcUrl: anvil.url, logUrl });
    expect((await service.get(withCursor(cursor))).body).toEqual(before);
    // A cursor of the new process works on the next one as well, because its secret is in the log.
    await caughtUp();
  });
});

describe("ranges", () => {
  const walkRanges = async (n: number, query: string) => {
    const parts: { token_id: string; owner_of: string }[][] = [];
    for (let range = 0; range < n; range++) {
      parts.push(await walkListing(service, plain, `totalRanges=${n}&range=${range}&${query}`));
    }
    return parts;
  };

  test.each([1, 2, 3, 7, 31, 100, 241, 1_000])(
    "of which there are %d together contain each record of the snapshot once",
    async (n) => {
      const query = "limit=40&as_of_block=30";
      const whole = await walkListing(service, plain, query);
      const parts = await walkRanges(n, query);
      expect(parts.flat()).toEqual(whole);
      const sizes = parts.map((part) => part.length);
      expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
    },
  );

  test("have cursors of their own, each to its end", async () => {
    const parts = await walkRanges(3, "limit=9&as_of_block=30&holders=true");
    expect(parts.flat()).toEqual(await walkListing(service, plain, "limit=500&as_of_block=30&holders=true"));
  });
});

describe("as_of_block", () => {
  test("gives the listing after that block", async () => {
    const head = await caughtUp();
    for (const block of [0, 1, collections.plain.blockNumber, collections.plain.blockNumber + 3, head]) {
      const { body, headers } = await service.get(path(`limit=500&as_of_block=${block}`));
      expect(headers.get("x-as-of-block")).toBe(String(block));
      const ids = idsOf(body);
      const owners = body.result.map((record: { owner_of: string }) => record.owner_of);
      expect(owners).toEqual(await ownersAt(ids, block));
      const { hash } = (await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false])) as {
        hash: string;
      };
      expect(headers.get("x-as-of-hash")).toBe(hash);
    }
  });

  test("above the head is refused with the head's number", async () => {
    const head = await caughtUp();
    for (const block of [head + 1, 2 ** 40]) {
      const { status, body } = await service.get(path(`as_of_block=${block}`));
      expect([status, body.code, body.details]).toEqual([400, "invalid_parameter", { parameter: "as_of_block" }]);
      expect(body.message).toContain(String(head));
    }
  });

  test("above the indexed blocks is a 409 while the backfill runs", async () => {
    // The history is never read: every log request waits until the test is over.
    const { promise: delayUntil, resolve } = Promise.withResolvers<void>();
    const onRequest = ({ method }: { method: string }) => (method === "eth_getLogs" ? { delayUntil } : undefined);
    const proxy = await startRpcProxy(anvil.url, { onRequest });
    const other = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    try {
      const first = await other.get(path("as_of_block=20"));
      expect([first.status, first.body.code]).toEqual([409, "not_indexed_yet"]);
      expect((await other.get(path("disable_total=false"))).body).toMatchObject({ status: "SYNCING", result: [] });
    } finally {
      resolve();
      await other.stop();
      await proxy.stop();
    }
  });
});

test("walks holders of amounts as completely as tokens", async () => {
  const { address, contract, balances }: AmountCollection = collections.multi;
  const records = await walkListing(service, address, `limit=${1 + random.below(40)}&holders=true`);
  const listed = records.map(({ token_id, owner_of, amount }) => `${token_id}/${owner_of}/${amount}`);
  const held = [...balances].flatMap(([id, owners]) =>
    [...owners].map(([owner, amount]) => `${id}/${owner}/${amount}`),
  );
  expect(listed.toSorted()).toEqual(held.toSorted());
  await transact(anvil, contract, "mint", [anvil.accounts[0], 999, 1]);
  await caughtUp();
});
