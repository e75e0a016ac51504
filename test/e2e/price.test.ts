/**
 * Prices over HTTP from the running service: every refusal and invalid parameter, an answer recomputed from itself
 * alone, reorgs while pools are followed, restarts, and two services over one log. The pools' own state is the truth.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, prepare } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { createV2Pair, type Pool, swapV2, swapV3, V2_PAIR_ABI } from "../../scripts/local-chain/pools.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { depthUsd, nearest, recompute } from "../support/recompute.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { schemaFaults } from "../support/schemas.ts";
import {
  type Answer,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const ETHER = 10n ** 18n;
const USD = 10n ** 6n;
const NO_PRICE = "No pools found with enough liquidity, to calculate the price";

let anvil: Anvil;
let market: Market;
let service: TestService;

const tip = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
const pathOf = (address: string, query = ""): string => `/api/v2/erc20/${address}/price${query}`;
const price = (address: string, query = "", from = service): Promise<Answer> => from.get(pathOf(address, query));

/** Deploys a token with one pair, against ether or dollars. */
async function newToken(quote: string, amountB: bigint): Promise<{ token: string; pool: Pool }> {
  const { address: token } = await deploy(anvil, await contractArtifact("TestToken"), ["Demo", "DEMO", 18]);
  const factory = MAINNET.uniswapV2Factory;
  const pool = await createV2Pair(anvil, { factory, tokenA: token, amountA: 1_000n * ETHER, tokenB: quote, amountB });
  return { token, pool };
}

/** Wei for one whole token, from the reserves of its pair with WETH at a block. */
async function wei({ token, pool }: { token: string; pool: Pool }, block: number): Promise<string> {
  const call = { to: pool.address, data: "0x0902f1ac" };
  const returned = (await anvil.send("eth_call", [call, `0x${block.toString(16)}`])) as string;
  const [r0, r1] = [0, 1].map((index) => BigInt(`0x${returned.slice(2 + index * 64, 66 + index * 64)}`));
  const [own, weth] = pool.token0.toLowerCase() === token.toLowerCase() ? [r0!, r1!] : [r1!, r0!];
  return ((weth * ETHER) / own).toString();
}

const hashOf = async (block: number): Promise<string> =>
  ((await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false])) as { hash: string }).hash;
/** A block's time in the format of `x-as-of-time`. */
const timeOf = async (block: number): Promise<string> => {
  const header = await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false]);
  return new Date(Number((header as { timestamp: string }).timestamp) * 1_000).toISOString();
};

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 27 * 3_600 - 60 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

describe("a refusal", () => {
  const refusal = async (address: string, query = "") => {
    const { status, body } = await price(address, query);
    return { status, ...body };
  };
  const deployed = async (name: string, args: unknown[] = []) =>
    (await deploy(anvil, await contractArtifact(name), args)).address;

  test("has a code and a fixed message, and shows the pools with their numbers", async () => {
    const lonely = await deployed("TestToken", ["Lonely", "LONE", 18]);
    const common = { status: 404, message: NO_PRICE };
    expect(await refusal(lonely)).toEqual({ ...common, code: "no_pool", details: { pools: [] } });
    const noToken = { status: 404, code: "not_a_token", details: { pools: [] } };
    const account = anvil.accounts[7]!.toLowerCase();
    expect(await refusal(account)).toEqual({ ...noToken, message: `${account} is an account without code` });
    const nft = (await deployed("PlainNft", ["N", "N"])).toLowerCase();
    const listing = `its listing is GET /api/v2/nft/${nft}?chain=eth`;
    const message = `${nft} is an NFT contract (ERC-721); ${listing}`;
    expect(await refusal(nft)).toEqual({ ...noToken, message });
    expect((await service.get(`/api/v2/nft/${nft}?chain=eth`)).status).toBe(200);
    const mute = await deployed("NoDecimalsToken");
    expect(await refusal(mute)).toEqual({ ...common, code: "unknown_decimals", details: { pools: [] } });
    const { token, pool } = await newToken(MAINNET.usdc, 499n * USD);
    const thin = { pool: pool.address.toLowerCase(), exchange: "Uniswap v2", reason: "low_liquidity" };
    expect(await refusal(token)).toEqual({
      ...common,
      code: "low_liquidity",
      details: { pools: [{ ...thin, liquidityUsd: "499", minLiquidityUsd: "500" }] },
    });
    expect(await refusal(token, "?min_liquidity_usd=499.01")).toMatchObject({
      details: { pools: [{ ...thin, minLiquidityUsd: "499.01" }] },
    });
    expect((await price(token, "?min_liquidity_usd=499")).body.usdPrice).toBe(0.499);
    expect(await refusal(token, "?to_block=3")).toEqual({
      ...common,
      code: "no_price_at_block",
      details: { pools: [{ ...thin, reason: "no_state_at_block" }] },
    });
    expect(await refusal(token, "?exchange=dexa_v3")).toEqual({ ...common, code: "no_pool", details: { pools: [] } });
  });

  test("of a block above the head names to_block and the head", async () => {
    const head = await tip();
    for (const block of [head + 1_000, Number.MAX_SAFE_INTEGER]) {
      const { status, code, message } = await refusal(market.demo.address, `?to_block=${block}`);
      expect([status, code]).toEqual([400, "invalid_parameter"]);
      expect(message).toBe(`to_block: at most the chain's head, which is ${head}`);
    }
  });

  test("of an exchange distinguishes an exchange on another chain from an unknown one", async () => {
    const elsewhere = await refusal(market.demo.address, "?exchange=dexi_v2");
    expect([elsewhere.status, elsewhere.code]).toEqual([400, "invalid_parameter"]);
    expect(elsewhere.message).toBe(
      "exchange: camelotv2 is not on eth; there are uniswapv2, uniswapv3, sushiswapv2, pancakeswapv2, uniswapv4, pancakeswapv3, sushiswapv3, supernovacl",
    );
    for (const name of ["nobody", "uniswap", "", `0x${"12".repeat(20)}`, "0x12", "%00", "uniswapv2,uniswapv3"]) {
      const { status, code, message } = await refusal(market.demo.address, `?exchange=${name}`);
      expect([status, code]).toEqual([400, "invalid_parameter"]);
      expect(message).toStartWith("exchange: one of uniswapv2, uniswapv3, sushiswapv2, pancakeswapv1, pancakeswapv2");
    }
  });

  const BAD: Readonly<Record<string, readonly string[]>> = {
    include: ["", "all", "percent_change,", ",provenance", "percent_change;provenance", "PROVENANCE", "24hr", "%F0%28"],
    to_block: [
      "",
      "-1",
      "+1",
      "1.0",
      "1e3",
      "0x",
      "0xg",
      "LATEST",
      "pending",
      "%20",
      "１",
      "9007199254740992",
      "1".repeat(400),
      "null",
    ],
    min_liquidity_usd: ["", "-1", "+1", "1e3", "0x1", "NaN", "Infinity", ".5", "5.", "1,000", "9".repeat(400), "%00"],
    min_pair_side_liquidity_usd: ["", "-1", "1e3"],
    max_token_inactivity: ["", "-1", "1.5", "100001", "1e2", "many"],
    to_time: ["", "-1", "yesterday", "2026-02-30", "2026-01-31T25:00:00Z", "1e9", "99999999999999999"],
    chain: ["", "ethereal", "0x01", "01", "eip155:", "eip155:01", "eip156:1", "constructor"],
    exchange: ["__proto__", "%F0%28", "a".repeat(5_000)],
  };
  for (const [parameter, values] of Object.entries(BAD)) {
    test(`of a bad ${parameter} names it, and is never a 5xx`, async () => {
      for (const value of values) {
        const { status, code, message } = await refusal(market.demo.address, `?${parameter}=${value}`);
        expect({ value, status, code }).toEqual({ value, status: 400, code: "invalid_parameter" });
        expect(message).toStartWith(`${parameter}:`);
      }
      const twice = await refusal(market.demo.address, `?${parameter}=1&${parameter}=1`);
      expect([twice.status, twice.message.split(":")[0]]).toEqual([400, parameter]);
    });
  }
});

describe("an answer with its provenance", () => {
  /** Checks each field from the answer alone. */
  function check(record: Required<PriceRecord>): void {
    const { usd, native } = recompute(record);
    expect(record.usdPrice).toBe(nearest(usd));
    expect(Number(record.usdPriceFormatted)).toBe(record.usdPrice);
    expect(record.usdPriceFormatted).toMatch(/^\d+(\.\d+)?$/);
    expect(record.nativePrice!.value).toBe(((native.n * 10n ** 18n) / native.d).toString());
    const { liquidityUsd, confidence, route } = record.provenance;
    if (route.length === 0) return;
    const depth = depthUsd(record);
    expect(Number(liquidityUsd)).toBe(nearest(depth));
    const share = { n: depth.n, d: depth.n + 100_000n * depth.d };
    expect(Number(confidence)).toBe(nearest(share));
    for (const text of [liquidityUsd, confidence, record.provenance.spreadPercent])
      expect(text).toMatch(/^\d+(\.\d+)?$/);
  }

  test("is recomputed to the last digit, on v2 and v3, at the head and at a block", async () => {
    const block = (await tip()) - 3;
    for (const exchange of ["uniswapv2", "uniswapv3"]) {
      for (const at of ["", `&to_block=${block}`]) {
        const query = `?include=provenance&exchange=${exchange}${at}`;
        const { body } = await price(market.demo.address, query);
        check(body);
        expect(await schemaFaults(service, "TokenPrice", body)).toEqual([]);
        expect(body.provenance.route).toHaveLength(2);
        const state = exchange === "uniswapv2" ? ["reserve0", "reserve1"] : ["sqrtPriceX96", "liquidity"];
        for (const field of state) expect(body.provenance.route[0][field]).toMatch(/^\d+$/);
      }
    }
  });

  test("is recomputed for the native coin, each stablecoin and over a connector", async () => {
    for (const token of [MAINNET.weth, MAINNET.usdc, MAINNET.usdt, MAINNET.dai]) {
      check((await price(token, "?include=provenance")).body);
    }
    const factory = MAINNET.uniswapV2Factory;
    const pair = { factory, tokenA: MAINNET.wbtc, amountA: 10n ** 9n, tokenB: MAINNET.weth, amountB: 150n * ETHER };
    await createV2Pair(anvil, pair);
    // Only the factories know a connector's new pool. A fresh service asks them at once.
    const { token } = await newToken(MAINNET.wbtc, 10n ** 8n);
    const fresh = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
    const { body } = await price(token, "?include=provenance", fresh);
    expect(body.provenance.route).toHaveLength(3);
    check(body);
    await fresh.stop();
  });

  test("has less confidence if old balances are unavailable, and shows that they are missing", async () => {
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: ({ method, params }) =>
        method === "eth_call" && params[1] !== "latest"
          ? { error: { code: -32_000, message: "missing trie node" } }
          : undefined,
    });
    const pruned = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    const query = `?include=provenance&to_block=${(await tip()) - 3}`;
    const [full, bare] = [await price(market.demo.address, query), await price(market.demo.address, query, pruned)];
    expect(bare.body.usdPriceFormatted).toBe(full.body.usdPriceFormatted);
    expect(bare.body.nativePrice).toEqual(full.body.nativePrice);
    expect(Number(full.body.provenance.confidence)).toBeGreaterThan(0.5);
    expect(Number(bare.body.provenance.confidence)).toBe(0.5);
    expect(full.body.provenance.route[0].balance0).toBeString();
    expect(bare.body.provenance.route[0]).not.toHaveProperty("balance0");
    await pruned.stop();
    await proxy.stop();
  });

  test("uses logs for a past block if the node refuses old state in any words, and otherwise is a retryable 503", async () => {
    const refusals = [
      { code: -32_002, message: "No state available for block 7 (0xab…12)" },
      { code: -32_602, message: `BlockOutOfRangeError: block height is ${await tip()} but requested was 7` },
      { code: -32_602, message: "the moon is in the wrong house" },
    ];
    let refusal = refusals[0];
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: ({ method, params }) =>
        method === "eth_call" && params[1] !== "latest" ? { error: refusal! } : undefined,
    });
    const query = `?to_block=${(await tip()) - 3}`;
    const full = await price(market.demo.address, query);
    const answers: Answer[] = [];
    for (refusal of refusals) {
      const own = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
      answers.push(await price(market.demo.address, query, own));
      await own.stop();
    }
    await proxy.stop();
    const told = answers.map(({ status, body, headers }) => [
      status,
      body.usdPrice ?? body.code,
      headers.get("retry-after"),
    ]);
    expect(told).toEqual([
      [200, full.body.usdPrice, null],
      [200, full.body.usdPrice, null],
      [503, "chain_unavailable", "5"],
    ]);
  });

  test("states the spread between the cheapest and the dearest usable pool", async () => {
    const ask = async (query: string) => (await price(market.demo.address, query)).body;
    const best = await ask("?include=provenance");
    const prices = [(await ask("?exchange=dexa_v2")).usdPrice, (await ask("?exchange=dexa_v3")).usdPrice];
    const spread = ((Math.max(...prices) - Math.min(...prices)) / best.usdPrice) * 100;
    expect(Number(best.provenance.spreadPercent)).toBeCloseTo(spread, 9);
    expect(spread).toBeGreaterThan(0);
  });
});

describe("a reorg while pools are followed", () => {
  for (const node of ["an archive node", "a node that refuses past state"]) {
    test(`leaves the winning branch's prices, on ${node}`, async () => {
      const proxy = await startRpcProxy(anvil.url, {
        onRequest: ({ method, params }) =>
          node !== "an archive node" && method === "eth_call" && params[1] !== "latest"
            ? { error: { code: -32_000, message: "missing trie node" } }
            : undefined,
      });
      const asked = await newToken(MAINNET.weth, 100n * ETHER);
      const { token, pool } = asked;
      const own = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
      const atHead = async () => {
        const answer = await price(token, "", own);
        const block = Number(answer.body.toBlock);
        return block === (await tip()) && answer.headers.get("x-as-of-hash") === (await hashOf(block))
          ? answer
          : undefined;
      };
      const value = (answer: Answer): string => answer.body.nativePrice.value;
      await eventually("the price is at the head", atHead);
      for (const amount of [1n, 2n, 3n, 4n]) {
        await swapV2(anvil, { pool: pool.address, tokenIn: MAINNET.weth, amountIn: amount * ETHER });
      }
      const orphaned = value(await eventually("the head's price", atHead));
      expect(orphaned).toBe(await wei(asked, await tip()));
      const pair = contractAt(anvil, pool.address, V2_PAIR_ABI);
      const tokens = contractAt(anvil, token, (await contractArtifact("TestToken")).abi);
      const from = anvil.accounts[0]!;
      // Each swap had two blocks of funding before it. The reorg removes some of them.
      await reorg(anvil, 5, [
        { block: 1, from, ...(await prepare(tokens, "mint", [pool.address, 500n * ETHER])) },
        { block: 1, from, ...(await prepare(pair, "sync")) },
        { block: 3, from, ...(await prepare(tokens, "mint", [pool.address, 250n * ETHER])) },
        { block: 3, from, ...(await prepare(pair, "sync")) },
      ]);
      await anvil.mine();
      const head = await eventually("the price is at the winning head", atHead);
      expect(value(head)).toBe(await wei(asked, await tip()));
      expect(value(head)).not.toBe(orphaned);
      for (let block = (await tip()) - 8; block <= (await tip()); block++) {
        const then = await price(token, `?to_block=${block}`, own);
        expect(then.body.toBlock).toBe(String(block));
        expect(then.headers.get("x-as-of-hash")).toBe(await hashOf(block));
        expect(then.headers.get("x-as-of-time")).toBe(await timeOf(block));
        expect(value(then)).toBe(await wei(asked, block));
      }
      await own.stop();
      await proxy.stop();
    });
  }
});

describe("the service", () => {
  test("gives true prices after a restart over SQLite, at the head and at blocks before, during and after", async () => {
    const logUrl = temporaryLogUrl();
    const asked = await newToken(MAINNET.weth, 100n * ETHER);
    const swap = () => swapV2(anvil, { pool: asked.pool.address, tokenIn: MAINNET.weth, amountIn: ETHER });
    let own = await startTestService({ rpcUrl: anvil.url, logUrl });
    const first = await tip();
    const isRight = async () => {
      const { body } = await price(asked.token, "", own);
      return Number(body.toBlock) === (await tip()) && body.nativePrice.value === (await wei(asked, await tip()))
        ? true
        : undefined;
    };
    await eventually("the price is at the head", isRight);
    await swap();
    await eventually("the price is followed", isRight);
    await own.stop();
    await swap();
    await anvil.mine(5);
    const between = await tip();
    await swap();
    own = await startTestService({ rpcUrl: anvil.url, logUrl });
    for (const block of [first, between, await tip()]) {
      const { body } = await price(asked.token, `?to_block=${block}`, own);
      expect([body.toBlock, body.nativePrice.value]).toEqual([String(block), await wei(asked, block)]);
    }
    await eventually("the price is at the head after the restart", isRight);
    await swap();
    await eventually("the price is followed after the restart", isRight);
    await own.stop();
  });

  test("agrees with a second one over the same PostgreSQL log at every head, and in the past", async () => {
    const logUrl = await (await sharedPostgres()).createDatabase();
    const services = [
      await startTestService({ rpcUrl: anvil.url, logUrl }),
      await startTestService({ rpcUrl: anvil.url, logUrl }),
    ];
    const asked = await newToken(MAINNET.weth, 100n * ETHER);
    for (let round = 0; round < 4; round++) {
      await swapV2(anvil, { pool: asked.pool.address, tokenIn: MAINNET.weth, amountIn: ETHER });
      const block = await tip();
      const expected = await wei(asked, block);
      const bodies = await eventually("both services are at the head", async () => {
        const answers = await Promise.all(services.map((one) => price(asked.token, "", one)));
        const both = answers.map(({ body }) => body);
        return both.every((body) => body.toBlock === String(block)) ? both : undefined;
      });
      expect(bodies[0].nativePrice.value).toBe(expected);
      expect(bodies[1]).toEqual(bodies[0]);
      const then = await Promise.all(services.map((one) => price(asked.token, `?to_block=${block - 1}`, one)));
      expect(then[1]!.body).toEqual(then[0]!.body);
    }
    for (const one of services) await one.stop();
  });

  test("is warm in a replica, for which an idle follower follows the chain again", async () => {
    const logUrl = await (await sharedPostgres()).createDatabase();
    const key = "operator-key-of-the-test";
    const headers = { "x-api-key": key };
    const follower = await startTestService({ rpcUrl: anvil.url, logUrl, env: { OPERATOR_KEYS: key } });
    const state = async () => (await follower.get("/api/status", headers)).body.chains[0].state;
    // The first service follows the chain for a collection, until that is removed. It keeps the lease.
    const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Quiet", "Q"]);
    await synced(follower, nft.address, await tip());
    await follower.fetch(`/api/collections/eth/${nft.address}`, { method: "DELETE", headers });
    await eventually("the chain is idle", async () => ((await state()) === "idle" ? true : undefined));
    const proxy = await startRpcProxy(anvil.url);
    const replica = await startTestService({ rpcUrl: proxy.url, logUrl });
    const asked = await newToken(MAINNET.weth, 100n * ETHER);
    for (let round = 0; round < 3; round++) {
      await swapV2(anvil, { pool: asked.pool.address, tokenIn: MAINNET.weth, amountIn: ETHER });
      await eventually("the replica prices at the head without a request", async () => {
        proxy.reset();
        const { body } = await price(asked.token, `?min_liquidity_usd=${round}`, replica);
        const isWarm = body.toBlock === String(await tip()) && proxy.count("eth_call") === 0;
        return isWarm && body.nativePrice.value === (await wei(asked, await tip())) ? true : undefined;
      });
    }
    expect(await state()).toBe("following");
    await replica.stop();
    await follower.stop();
    await proxy.stop();
  });

  test("reads a warm price once at each head, and asks nothing of the node at an unchanged head", async () => {
    const proxy = await startRpcProxy(anvil.url);
    const own = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    const asked = { token: market.demo.address, pool: market.v2.DEMO };
    const atHead = async () => {
      const { body } = await price(asked.token, "?exchange=dexa_v2", own);
      return Number(body.toBlock) === (await tip()) ? body : undefined;
    };
    await eventually("the price is at the head", atHead);
    await anvil.mine();
    await eventually("the price has followed an empty block", atHead);
    await swapV3(anvil, { pool: market.v3.DEMO.address, tokenIn: MAINNET.weth, amountIn: ETHER });
    await eventually("the price has followed a swap", atHead);
    for (let round = 0; round < 3; round++) {
      const before = await tip();
      proxy.reset();
      await swapV2(anvil, { pool: asked.pool.address, tokenIn: MAINNET.weth, amountIn: ETHER });
      const body = await eventually("the price is at the head", atHead);
      expect(body.nativePrice.value).toBe(await wei(asked, await tip()));
      // At each head one call reads states, and one without a target measures liquidity.
      const heads = (await tip()) - before;
      const calls = proxy.calls.filter(({ method }) => method === "eth_call");
      const [reads, measures] = [true, false].map((hasTarget) =>
        calls.filter(({ params }) => "to" in (params[0] as object) === hasTarget),
      );
      expect(reads!.length).toBeLessThanOrEqual(heads);
      expect(measures!.length).toBeLessThanOrEqual(heads);
      proxy.reset();
      for (const query of ["", "?exchange=dexa_v2", "?min_liquidity_usd=1"]) {
        const { body: again } = await price(asked.token, query, own);
        expect(again.toBlock).toBe(String(await tip()));
      }
      // The follower still polls for the next block.
      expect(proxy.calls.filter(({ method }) => method !== "eth_getBlockByNumber")).toEqual([]);
    }
    await own.stop();
    await proxy.stop();
  });
});
