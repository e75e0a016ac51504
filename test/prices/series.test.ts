/** Series of prices: each point is the answer for its block, from few requests for logs, with and without old state. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { schemaFaults } from "../support/schemas.ts";
import { eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const KEY = "operator-key-0123456789";
/** The local chain calls blocks final at this depth. */
const FINAL_DEPTH = 64;

let anvil: Anvil;
let market: Market;
let head: number;
beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 28 * 3_600 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  await anvil.mine(10);
  head = Number(await anvil.send("eth_blockNumber"));
});
afterAll(() => anvil?.stop());

interface World {
  readonly service: TestService;
  readonly proxy: RpcProxy;
  /** Requests for logs so far. */
  logRequests(): number;
  stop(): Promise<void>;
}

/** @param mostBlocks blocks per request for logs */
async function world({ hasState, mostBlocks = Infinity }: { hasState: boolean; mostBlocks?: number }): Promise<World> {
  let count = 0;
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      if (method === "eth_getLogs") {
        count++;
        const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
        if (Number(toBlock) - Number(fromBlock) >= mostBlocks)
          return { error: { code: -32_000, message: `block range is too large, the limit is ${mostBlocks} blocks` } };
      }
      const isOld = ["eth_call", "eth_getBalance"].includes(method) && Number(params[1]) <= head - 3;
      return isOld && !hasState ? { error: { code: -32_000, message: "missing trie node" } } : undefined;
    },
  });
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env: { OPERATOR_KEYS: KEY } });
  const stop = async () => {
    await service.stop();
    await proxy.stop();
  };
  return { service, proxy, logRequests: () => count, stop };
}

interface Point {
  readonly block: number;
  readonly time: string;
  readonly usdPrice: number | null;
  readonly pool: string | null;
}

const pathOf = (query: string) => `/api/prices/eth/${market.demo.address}/series?${query}`;

test.each([true, false])(
  "each point is the answer for its block, with the state of old blocks: %p",
  async (hasState) => {
    const one = await world({ hasState });
    const other = await world({ hasState });
    try {
      const { status, body } = await one.service.get(pathOf(`from=0&to=${head}&points=60`));
      expect(status).toBe(200);
      expect(await schemaFaults(one.service, "PriceSeries", body)).toEqual([]);
      // The announcements of the token's v4 pools take four, whatever the state.
      expect(one.logRequests()).toBeLessThanOrEqual(hasState ? 4 : 16);
      const points = body.result as Point[];
      expect([points.length, points[0]?.block, points.at(-1)?.block]).toEqual([60, 0, head]);
      for (const { block, usdPrice, pool, time } of points) {
        const path = `/api/v2/erc20/${market.demo.address}/price?to_block=${block}&include=provenance`;
        const single = await other.service.get(path);
        expect([block, usdPrice]).toEqual([block, single.status === 200 ? single.body.usdPrice : null]);
        expect([block, pool]).toEqual([block, single.status === 200 ? single.body.provenance.route[0].pool : null]);
        if (single.status === 200)
          expect(new Date(time).getTime()).toBe(Date.parse(single.headers.get("x-as-of-time")!));
      }
      expect(points.filter(({ usdPrice }) => usdPrice !== null).length).toBeGreaterThan(20);
      // What was computed once for a final block comes from memory. The follower knows what is final.
      await eventually("the chain is followed", async () => {
        const { headers } = await one.service.get(`/api/v2/erc20/${market.demo.address}/price`);
        const { body: status } = await one.service.get("/api/status", { "x-api-key": KEY });
        const isFollowed = headers.get("x-as-of-block") === String(head) && status.chains[0].finalized !== null;
        return isFollowed ? true : undefined;
      });
      const priced = points.filter(({ usdPrice }) => usdPrice !== null);
      const again = pathOf(`from=${priced[0]?.block}&to=${head - FINAL_DEPTH}&points=9`);
      const first = (await one.service.get(again)).body.result;
      const before = one.proxy.count("eth_call") + one.logRequests();
      expect((await one.service.get(again)).body.result).toEqual(first);
      // One call asks for the newest facts, which stand in for those of blocks without state.
      expect(one.proxy.count("eth_call") + one.logRequests()).toBe(hasState ? before : before + 1);
    } finally {
      await one.stop();
      await other.stop();
    }
  },
);

test("gives the prices that the log has without asking the node, and says where there are none", async () => {
  const { service, proxy, logRequests, stop } = await world({ hasState: true });
  try {
    const read = async () => (await service.get(pathOf("from=0&points=200&stored=true"))).body;
    expect(await read()).toMatchObject({ result: [] });
    expect(logRequests()).toBe(0);
    await eventually("the chain is followed, and its head read", async () => {
      await service.get(`/api/v2/erc20/${market.demo.address}/price`);
      const { result } = await read();
      return result.length > 0 ? true : undefined;
    });
    const before = proxy.count("eth_call") + logRequests();
    const { result, gaps, toBlock } = await read();
    expect(proxy.count("eth_call") + logRequests()).toBe(before);
    const { body: single } = await service.get(`/api/v2/erc20/${market.demo.address}/price?to_block=${head}`);
    expect(result).toMatchObject([{ block: head, usdPrice: single.usdPrice, origin: "stored" }]);
    expect([toBlock, gaps]).toEqual([head, [{ fromBlock: 0, toBlock: head - 1 }]]);
  } finally {
    await stop();
  }
});

test("makes at most 64 requests for logs, and shows the newest prices that they reach", async () => {
  const { service, logRequests, stop } = await world({ hasState: false, mostBlocks: 2 });
  try {
    const { body } = await service.get(pathOf(`from=0&to=${head}&points=200`));
    expect(logRequests()).toBeLessThanOrEqual(64);
    const points = body.result as Point[];
    const priced = points.filter(({ usdPrice }) => usdPrice !== null);
    expect(priced.length).toBeGreaterThan(0);
    expect(priced.length).toBeLessThan(points.length);
  } finally {
    await stop();
  }
});

test("takes times as well as blocks, by default the last day", async () => {
  const { service, stop } = await world({ hasState: true });
  try {
    const timeOf = async (block: number) =>
      Number(
        ((await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false])) as { timestamp: string })
          .timestamp,
      );
    const [from, to] = [await timeOf(head - 20), await timeOf(head - 5)];
    const iso = (seconds: number) => new Date(seconds * 1_000).toISOString();
    const { body } = await service.get(pathOf(`from=${iso(from)}&to=${iso(to)}&points=16`));
    expect(body.result.at(-1).time).toBe(iso(to));
    expect(body.result[0].time).toBe(iso(from));
    const day = (await service.get(pathOf("points=5"))).body.result as Point[];
    expect([day.length, day.at(-1)?.block]).toEqual([5, head]);
    expect(Date.parse(day[0]!.time)).toBeLessThanOrEqual(Date.parse(day.at(-1)!.time) - 86_400_000);
  } finally {
    await stop();
  }
});

test("refuses ranges that are none, and addresses that are no token", async () => {
  const { service, stop } = await world({ hasState: true });
  const refusal = async (path: string) => {
    const { status, body } = await service.get(path);
    return [status, body.code, body.details?.parameter];
  };
  try {
    expect(await refusal(pathOf("from=x"))).toEqual([400, "invalid_parameter", "from"]);
    expect(await refusal(pathOf("to=2026-13-45"))).toEqual([400, "invalid_parameter", "to"]);
    expect(await refusal(pathOf(`to=${head + 9}`))).toEqual([400, "invalid_parameter", "to"]);
    expect(await refusal(pathOf(`from=${head}&to=3`))).toEqual([400, "invalid_parameter", "from"]);
    expect(await refusal(pathOf("points=201"))).toEqual([400, "invalid_parameter", "points"]);
    expect(await refusal("/api/prices/nope/0x/series")).toEqual([400, "invalid_parameter", "chain"]);
    const noToken = `/api/prices/eth/0x${"12".repeat(20)}/series`;
    expect(await refusal(noToken)).toEqual([404, "not_a_token", undefined]);
  } finally {
    await stop();
  }
});
