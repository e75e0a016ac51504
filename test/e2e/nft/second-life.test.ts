/**
 * Contracts that are destroyed and deployed again at their address, on a chain whose fork still lets a contract destroy
 * itself: indexed afterwards, and followed through their end and their return.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, deploy, read, transact } from "../../../scripts/local-chain/contracts.ts";
import { type RpcProxy, startRpcProxy } from "../../support/rpc-proxy.ts";
import {
  type Answer,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../../support/service.ts";

const KEY = "operator-key-of-the-test";
const key = { "x-api-key": KEY };
let anvil: Anvil;
let proxy: RpcProxy;
let alice: string;
let bob: string;
let logUrl: string;
let service: TestService | undefined;
/** Addresses of which the node has said that there is no code. */
const gone = new Set<string>();

beforeAll(async () => {
  anvil = await startAnvil({
    genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400,
    slotsInAnEpoch: 4,
    hardfork: "shanghai",
  });
  [alice, bob] = anvil.accounts.slice(1, 3) as [string, string];
  proxy = await startRpcProxy(anvil.url, {
    onResult: ({ method, params }, result) => {
      if (method === "eth_getCode" && result === "0x") gone.add(String(params[0]));
      return result;
    },
  });
}, 300_000);

afterEach(async () => {
  await service?.stop();
  service = undefined;
});

afterAll(async () => {
  await proxy?.stop();
  await anvil?.stop();
});

const head = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

/** Starts a service on a new log, or again on the last one. */
async function start(url = temporaryLogUrl()): Promise<TestService> {
  logUrl = url;
  service = await startTestService({ rpcUrl: proxy.url, logUrl, auditMs: 50, env: { OPERATOR_KEYS: KEY } });
  return service;
}

/** A factory, and its contract at the one address. */
async function makePhoenix() {
  const factory = await deploy(anvil, await contractArtifact("Phoenix"));
  const address = (await read<string>(factory.contract, "place")).toLowerCase();
  const nft = contractAt(anvil, address, (await contractArtifact("Destructible")).abi);
  const rise = async () => Number((await transact(anvil, factory.contract, "rise")).blockNumber);
  const destroy = async () => Number((await transact(anvil, nft, "destroy")).blockNumber);
  const mint = async (to: string, id: number) => Number((await transact(anvil, nft, "mint", [to, id])).blockNumber);
  return { address, nft, rise, destroy, mint };
}

type Phoenix = Awaited<ReturnType<typeof makePhoenix>>;

const rowsOf = ({ body }: Answer): string[][] =>
  body.result.map((row: Record<string, string>) => [row["token_id"], row["owner_of"]]);

const rowsAt = async (of: TestService, address: string, block: number): Promise<string[][]> =>
  rowsOf(await of.get(`/api/v2/nft/${address}?as_of_block=${block}`));

const described = async (of: TestService, address: string) =>
  (await of.get(`/api/collections/eth/${address}`, key)).body;

/** Waits until the row of a collection has this end, while the chain goes on. */
const hasEnded = (of: TestService, address: string, block: number | null) =>
  eventually(`${address} is destroyed at ${block}`, async () => {
    await anvil.mine();
    // The audit draws collections in memory.
    await of.get(`/api/v2/nft/${address}`);
    const { destroyedAt, status } = await described(of, address);
    return destroyedAt === block && status === "following" ? true : undefined;
  });

const THREE = () => [
  ["1", alice],
  ["2", bob],
  ["3", alice],
];

/** The first life: three tokens, of which one moves. */
async function firstLife({ rise, mint, nft }: Phoenix): Promise<number> {
  await rise();
  for (const id of [1, 2, 3]) await mint(alice, id);
  return Number((await transact(anvil, nft, "transferFrom", [alice, bob, 2], { from: alice })).blockNumber);
}

test.each([
  ["with a short first life", 30, 0, 5, 30],
  ["with a long first life", 0, 120, 5, 10],
  ["with a long gap", 3, 3, 120, 3],
  ["with a long second life", 3, 3, 3, 200],
])(
  "lists the tokens of each life in its time if it is indexed afterwards, %s",
  async (_what, before, within, gap, after) => {
    const phoenix = await makePhoenix();
    const { address, destroy, rise, mint } = phoenix;
    await anvil.mine(before);
    const last = await firstLife(phoenix);
    await anvil.mine(within);
    const end = await destroy();
    await anvil.mine(gap);
    const again = await rise();
    const minted = await mint(bob, 1);
    await anvil.mine(after + 10);
    const of = await start();
    const { body } = await synced(of, address, await head());
    expect(rowsOf({ body } as Answer)).toEqual([["1", bob]]);
    expect(body.result[0]).toMatchObject({ block_number_minted: String(minted), minter_address: bob });
    for (const block of [last, end - 1]) expect(await rowsAt(of, address, block)).toEqual(THREE());
    for (const block of [end, again]) expect(await rowsAt(of, address, block)).toEqual([]);
    expect(await rowsAt(of, address, minted)).toEqual([["1", bob]]);
    expect((await described(of, address)).destroyedAt).toBeNull();
    const { body: token } = await of.get(`/api/collections/eth/${address}/tokens/1`, key);
    expect(token.history.map((one: { block: number }) => one.block)).toEqual([minted]);
    const transfersAt = async (query: string) => {
      const blocks: number[] = [];
      for (let cursor = ""; ; ) {
        const path = `/api/collections/eth/${address}/transfers?limit=1${query}${cursor}`;
        const { body: page } = await of.get(path, key);
        blocks.push(...page.result.map((one: { block: number }) => one.block));
        if (page.cursor === null) return blocks;
        cursor = `&cursor=${encodeURIComponent(page.cursor)}`;
      }
    };
    expect(await transfersAt("")).toEqual([minted, last, last - 1, last - 2, last - 3]);
    expect(await transfersAt(`&to=${bob}`)).toEqual([minted, last]);
    expect(await transfersAt("&tokenId=1")).toEqual([minted, last - 3]);
    for (const block of [end - 1, end, again]) {
      expect(await transfersAt(`&as_of_block=${block}`)).toEqual([last, last - 1, last - 2, last - 3]);
    }
  },
);

test("looks for earlier lives with at most 64 requests for logs", async () => {
  const phoenix = await makePhoenix();
  const { address, mint, rise } = phoenix;
  await anvil.mine(200);
  const deployed = await rise();
  await mint(alice, 1);
  await anvil.mine(10);
  const narrow = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock?: string; toBlock?: string };
      const isRefused = method === "eth_getLogs" && Number(toBlock) > Number(fromBlock);
      return isRefused ? { error: { code: -32_602, message: "exceed maximum block range: 1" } } : undefined;
    },
  });
  const of = await startTestService({ rpcUrl: narrow.url, logUrl: temporaryLogUrl() });
  try {
    expect(rowsOf(await synced(of, address, await head()))).toEqual([["1", alice]]);
    const below = narrow.calls.filter(({ method, params }) => {
      return method === "eth_getLogs" && Number((params[0] as { toBlock: string }).toBlock) < deployed;
    });
    expect(below.length).toBeGreaterThan(1);
    expect(below.length).toBeLessThanOrEqual(64);
  } finally {
    await of.stop();
    await narrow.stop();
  }
});

test("ends the tokens of a followed contract that is destroyed, and follows it when it returns", async () => {
  const phoenix = await makePhoenix();
  const { address, destroy, rise, mint } = phoenix;
  const last = await firstLife(phoenix);
  const of = await start();
  expect(rowsOf(await synced(of, address, last))).toEqual(THREE());
  const page = await of.get(`/api/v2/nft/${address}?limit=1`);
  await anvil.mine(3);
  const end = await destroy();
  const unread = await of.get(`/api/v2/nft/${address}?limit=1&as_of_block=${(await synced(of, address, end)) && end}`);
  await hasEnded(of, address, end);
  expect(rowsOf(await synced(of, address, await head()))).toEqual([]);
  expect(await rowsAt(of, address, end - 1)).toEqual(THREE());
  expect(await rowsAt(of, address, end)).toEqual([]);
  // A walk at a block before the end goes on. One that listed the tokens after it does not.
  const next = (cursor: string) => of.get(`/api/v2/nft/${address}?limit=1&cursor=${encodeURIComponent(cursor)}`);
  expect(rowsOf(await next(page.body.cursor))).toEqual([["2", bob]]);
  expect((await next(unread.body.cursor)).body.code).toBe("cursor_reorged");

  await rise();
  const minted = await mint(bob, 3);
  expect(rowsOf(await synced(of, address, minted))).toEqual([["3", bob]]);
  await hasEnded(of, address, null);
  // A third life ends as well.
  const secondEnd = await destroy();
  await hasEnded(of, address, secondEnd);
  const blocks = [last, end - 1, end, minted, secondEnd - 1, secondEnd];
  const live = await Promise.all(blocks.map((block) => rowsAt(of, address, block)));
  expect(live).toEqual([THREE(), THREE(), [], [["3", bob]], [["3", bob]], []]);
  await of.stop();
  const replayed = await start(logUrl);
  await synced(replayed, address, secondEnd);
  expect(await Promise.all(blocks.map((block) => rowsAt(replayed, address, block)))).toEqual(live);
});

test("reads again what was followed of the second life before the end of the first one was final", async () => {
  const phoenix = await makePhoenix();
  const { address, destroy, rise, mint } = phoenix;
  const of = await start();
  await synced(of, address, await firstLife(phoenix));
  gone.clear();
  const end = await destroy();
  await eventually("the audit has seen the end", async () => {
    await of.get(`/api/v2/nft/${address}`);
    return gone.has(address) ? true : undefined;
  });
  await rise();
  const minted = await mint(bob, 9);
  await synced(of, address, minted);
  await eventually("the first life has ended", async () => {
    await anvil.mine();
    const { body } = await of.get(`/api/v2/nft/${address}?as_of_block=${end}`);
    return body.result?.length === 0 ? true : undefined;
  });
  expect(rowsOf(await synced(of, address, await head()))).toEqual([["9", bob]]);
  expect(await rowsAt(of, address, end - 1)).toEqual(THREE());
  expect(await rowsAt(of, address, minted)).toEqual([["9", bob]]);
  await hasEnded(of, address, null);
});

test("keeps the tokens if a reorg takes the end back", async () => {
  const phoenix = await makePhoenix();
  const { address, destroy } = phoenix;
  const of = await start();
  await synced(of, address, await firstLife(phoenix));
  await anvil.mine(2);
  gone.clear();
  await destroy();
  await eventually("the audit has seen the end", async () => {
    await of.get(`/api/v2/nft/${address}`);
    return gone.has(address) ? true : undefined;
  });
  await reorg(anvil, 1);
  // The block at which the end was seen becomes final.
  for (let i = 0; i < 15; i++) {
    await anvil.mine();
    await synced(of, address, await head());
  }
  expect(rowsOf(await synced(of, address, await head()))).toEqual(THREE());
  expect((await described(of, address)).destroyedAt).toBeNull();
});

test("lists the tokens of a destroyed contract as they were, until there is another contract", async () => {
  const phoenix = await makePhoenix();
  const { address, destroy, rise, mint } = phoenix;
  await firstLife(phoenix);
  await destroy();
  await anvil.mine(12);
  const of = await start();
  expect(rowsOf(await synced(of, address))).toEqual(THREE());
  expect((await described(of, address)).destroyedAt).toBe(await head());
  await rise();
  const minted = await mint(bob, 1);
  await hasEnded(of, address, null);
  expect(rowsOf(await synced(of, address, await head()))).toEqual([["1", bob]]);
  expect(await rowsAt(of, address, minted)).toEqual([["1", bob]]);
});
