/**
 * The parameters that today's hosted price has, over HTTP: blocks by other forms and by time, the floor's other name, the
 * last trade's age, facts about the token, and the placeholders of the native coin. The node's own blocks are the truth.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, latestTimestamp, setNextTimestamp, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { createV2Pair, swapV2 } from "../../scripts/local-chain/pools.ts";
import { schemaFaults } from "../support/schemas.ts";
import {
  type Answer,
  type Body,
  eventually,
  startTestService,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const ETHER = 10n ** 18n;
const HOUR = 3_600;
const PLACEHOLDERS = [`0x${"e".repeat(40)}`, `0x${"0".repeat(40)}`];

let anvil: Anvil;
let market: Market;
let service: TestService;

const tip = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
const timeOf = async (block: number): Promise<number> => {
  const header = await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false]);
  return Number((header as { timestamp: string }).timestamp);
};
const price = (address: string, query = ""): Promise<Answer> => service.get(`/api/v2/erc20/${address}/price${query}`);
const prices = async (tokens: readonly object[], query = ""): Promise<Body> => {
  const init = { method: "POST", body: JSON.stringify({ tokens }) };
  return (await service.fetch(`/api/v2/erc20/prices${query}`, init)).json();
};

async function newToken(name: string, symbol: string) {
  const { address: token } = await deploy(anvil, await contractArtifact("TestToken"), [name, symbol, 18]);
  const amounts = { amountA: 1_000n * ETHER, amountB: 100n * ETHER };
  const pair = { factory: MAINNET.uniswapV2Factory, tokenA: token, tokenB: MAINNET.weth, ...amounts };
  return { token, pool: await createV2Pair(anvil, pair) };
}

/** Mines a block that many seconds after the newest one. */
async function mineAfter(seconds: number): Promise<void> {
  await setNextTimestamp(anvil, (await latestTimestamp(anvil)) + seconds);
  await anvil.mine();
}

/** Awaits that the service shows the newest block. */
const shown = (token: string): Promise<true> =>
  eventually("the price is at the head", async () =>
    (await price(token)).body.toBlock === String(await tip()) ? true : undefined,
  );

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 60 * HOUR });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

describe("the block of a price", () => {
  test("may be written in decimal, in hex, or as latest", async () => {
    await shown(market.demo.address);
    const block = (await tip()) - 5;
    const decimal = await price(market.demo.address, `?to_block=${block}`);
    const hex = await price(market.demo.address, `?to_block=0x${block.toString(16)}`);
    expect([decimal.status, hex.status]).toEqual([200, 200]);
    expect(hex.body).toEqual(decimal.body);
    expect(decimal.body.toBlock).toBe(String(block));
    const [latest, none] = [await price(market.demo.address, "?to_block=latest"), await price(market.demo.address)];
    expect(latest.body).toEqual(none.body);
    const [one, other] = await prices([
      { token_address: market.demo.address, to_block: `0x${block.toString(16)}` },
      { token_address: market.demo.address, to_block: "latest" },
    ]);
    expect([one, other]).toEqual([decimal.body, none.body]);
  });

  test("may be named by a time: the last block at or before it", async () => {
    const block = await tip();
    for (let after = 0; after < 3; after++) await mineAfter(13);
    // The newest block of that second, as several may have the same time.
    const time = await timeOf(block);
    let last = block;
    while ((await timeOf(last + 1)) === time) last++;
    const wanted = (await price(market.demo.address, `?to_block=${last}`)).body;
    const between = (await timeOf(last + 1)) - 1;
    for (const text of [`${time}`, `${time}000`, new Date(time * 1_000).toISOString(), `${between}`]) {
      const { status, body } = await price(market.demo.address, `?to_time=${text}`);
      expect([text, status, body.toBlock]).toEqual([text, 200, String(last)]);
      expect(body).toEqual(wanted);
    }
  });

  test("is the newest one for a time that is still to come", async () => {
    await shown(market.demo.address);
    const { body } = await price(market.demo.address, "?to_time=2100-01-01");
    expect(body.toBlock).toBe(String(await tip()));
  });

  test("is refused before the chain began, and when both a block and a time name it", async () => {
    const before = await price(market.demo.address, "?to_time=2001-09-09T01:46:40Z");
    expect([before.status, before.body.code]).toEqual([404, "no_price_at_block"]);
    expect(before.body.message).toBe("to_time: the chain eth began later");
    const both = await price(market.demo.address, "?to_time=1000000000&to_block=3");
    expect([both.status, both.body.details.parameter]).toEqual([400, "to_time"]);
  });
});

describe("the floor", () => {
  test("has the hosted service's name beside its own, and both give the same answer", async () => {
    const { token } = await newToken("Thin", "THIN");
    const [own, hosted] = await Promise.all(
      ["min_liquidity_usd", "min_pair_side_liquidity_usd"].map((name) => price(token, `?${name}=1000000000`)),
    );
    expect([hosted!.status, hosted!.body.code]).toEqual([404, "low_liquidity"]);
    expect(hosted!.body).toEqual(own!.body);
    expect(await prices([{ token_address: token }], "?min_pair_side_liquidity_usd=1000000000")).toEqual([]);
    expect((await price(token, "?min_pair_side_liquidity_usd=1")).status).toBe(200);
  });
});

describe("a token without a trade", () => {
  test("has no price once its last trade is older than the request allows, and the refusal names that trade", async () => {
    const { token, pool } = await newToken("Sleepy", "SLEEP");
    await swapV2(anvil, { pool: pool.address, tokenIn: MAINNET.weth, amountIn: ETHER });
    const traded = await tip();
    const tradedAt = new Date((await timeOf(traded)) * 1_000).toISOString();
    await mineAfter(3 * HOUR);
    await shown(token);
    expect((await price(token, "?max_token_inactivity=3")).status).toBe(200);
    const idle = await price(token, "?max_token_inactivity=2");
    expect([idle.status, idle.body.code]).toEqual([404, "low_liquidity"]);
    expect(idle.body.details).toMatchObject({
      ...{ pool: pool.address.toLowerCase(), maxTokenInactivity: 2 },
      lastTrade: { block: traded, time: tradedAt },
    });
    // At the trade's own block there was no pause, and a later trade ends it.
    expect((await price(token, `?max_token_inactivity=0&to_block=${traded}`)).status).toBe(200);
    const asked = [{ token_address: token }];
    const [refused] = await prices(asked, "?max_token_inactivity=2&include=errors");
    expect(refused).toMatchObject({ code: "low_liquidity", details: { lastTrade: { block: traded } } });
    await swapV2(anvil, { pool: pool.address, tokenIn: MAINNET.weth, amountIn: ETHER });
    await shown(token);
    expect(await prices(asked, "?max_token_inactivity=1")).toHaveLength(1);
  });

  test("has no price with max_token_inactivity if its pool never had one, however new the pool is", async () => {
    const { token } = await newToken("Fresh", "FRESH");
    await shown(token);
    const { status, body } = await price(token, "?max_token_inactivity=1000");
    expect([status, body.code, body.details.lastTrade]).toEqual([404, "low_liquidity", null]);
    expect(body.details.searched.why).toBe("the pool has had no trade");
  });
});

describe("include=info", () => {
  test("says when the priced block was, and what is known of the token", async () => {
    const { status, body } = await price(MAINNET.usdc, "?include=info");
    expect([status, body.possibleSpam, body.verifiedContract]).toEqual([200, false, true]);
    expect(body.blockTimestamp).toBe(`${(await timeOf(Number(body.toBlock))) * 1_000}`);
    expect(await schemaFaults(service, "TokenPrice", body)).toEqual([]);
    const { token } = await newToken("Visit airdrop.example to claim rewards", "LURE");
    const lure = (await price(token, "?include=info,provenance")).body;
    expect([lure.possibleSpam, lure.verifiedContract]).toEqual([true, false]);
    const [own] = await prices([{ token_address: token }], "?include=info");
    expect([own.possibleSpam, own.blockTimestamp]).toEqual([true, lure.blockTimestamp]);
    expect((await price(token)).body.possibleSpam).toBeUndefined();
  });
});

describe("a placeholder of the native coin", () => {
  test("is priced as the wrapped coin, keeps its own address, and the provenance names the other", async () => {
    await shown(MAINNET.weth);
    const wrapped = (await price(MAINNET.weth, "?include=provenance")).body;
    for (const placeholder of PLACEHOLDERS) {
      const { status, body } = await price(placeholder, "?include=provenance");
      expect([status, body.tokenAddress]).toEqual([200, placeholder]);
      expect(body.provenance.pricedAs).toBe(MAINNET.weth.toLowerCase());
      const { pricedAs: _, ...provenance } = body.provenance;
      expect({ ...body, provenance }).toEqual({ ...wrapped, tokenAddress: placeholder });
      expect(await schemaFaults(service, "TokenPrice", body)).toEqual([]);
    }
    const many = await prices(PLACEHOLDERS.map((token_address) => ({ token_address })));
    expect(many.map((one: Body) => one.tokenAddress)).toEqual(PLACEHOLDERS);
    expect(new Set(many.map((one: Body) => one.usdPrice))).toEqual(new Set([wrapped.usdPrice]));
    const series = await service.get(`/api/prices/eth/${PLACEHOLDERS[0]}/series?points=1`);
    expect([series.body.address, series.body.result[0].usdPrice]).toEqual([PLACEHOLDERS[0], wrapped.usdPrice]);
  });
});
