/**
 * The hosted service's client, unmodified, asks for what stands around a price: facts of tokens, the pair of two tokens and
 * its reserves, blocks by time, the version. The contracts and the node's blocks are the truth.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import packageFacts from "../../package.json" with { type: "json" };
import { type Anvil, latestTimestamp, setNextTimestamp, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { swapV2 } from "../../scripts/local-chain/pools.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { schemaFaults } from "../support/schemas.ts";
import { sdkAnswers } from "../support/sdk-calls.ts";
import {
  type Body,
  eventually,
  startTestService,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const ETHER = 10n ** 18n;
const CHAIN = "0x1";
let anvil: Anvil;
let market: Market;
let service: TestService;
let demo: string;
let pair: string;

const ask = async (method: string, request: Record<string, unknown>) => {
  const [answer] = await sdkAnswers(service.url, TEST_KEY, [{ method, request }]);
  expect(answer!.error).toBeUndefined();
  return answer!.pages![0]!;
};
const tip = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
const headerOf = async (block: number) =>
  (await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false])) as Record<
    "hash" | "parentHash" | "timestamp",
    string
  >;
/** What the pair's contract says at a block. */
async function reservesAt(block: number) {
  const call = { to: pair, data: "0x0902f1ac" };
  const returned = (await anvil.send("eth_call", [call, `0x${block.toString(16)}`])) as string;
  const [reserve0, reserve1] = [0, 1].map((at) => BigInt(`0x${returned.slice(2 + at * 64, 66 + at * 64)}`).toString());
  return { reserve0, reserve1 };
}

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 28 * 3_600 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  demo = market.demo.address.toLowerCase();
  pair = market.v2.DEMO.address.toLowerCase();
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

test("facts of tokens are what their contracts tell, in the order of the request, null for what is no token", async () => {
  const { address: nft } = await deploy(anvil, await contractArtifact("PlainNft"), ["N", "N"]);
  const addresses = [demo, MAINNET.usdc, nft, anvil.accounts[7]!];
  const { raw, parsed } = await ask("token.getTokenMetadata", { addresses, chain: CHAIN });
  expect((raw as Body[]).map(({ address, name, symbol, decimals }) => [address, name, symbol, decimals])).toEqual([
    [demo, "Demo Token", "DEMO", "18"],
    [MAINNET.usdc.toLowerCase(), expect.any(String), "USDC", "6"],
    [nft.toLowerCase(), "N", "N", null],
    [anvil.accounts[7]!.toLowerCase(), null, null, null],
  ]);
  expect([raw[1].verified_contract, raw[0].verified_contract]).toEqual([true, false]);
  expect(parsed).toHaveLength(4);
  expect(await schemaFaults(service, "TokenMetadataList", raw)).toEqual([]);
  for (const query of [`addresses=${demo},${MAINNET.usdc}`, `addresses=${demo}&addresses=${MAINNET.usdc}`]) {
    expect((await service.get(`/api/v2/erc20/metadata?${query}`)).body).toEqual(raw.slice(0, 2));
  }
  const missing = await service.get("/api/v2/erc20/metadata");
  expect([missing.status, missing.body.details.parameter]).toEqual([400, "addresses"]);
  const many = Array.from({ length: 101 }, (_, i) => `0x${i.toString(16).padStart(40, "0")}`);
  expect((await service.get(`/api/v2/erc20/metadata?addresses=${many}`)).body.details.parameter).toBe("addresses");
});

describe("a pair", () => {
  test("is the one that the exchange's factory tells, whichever token comes first", async () => {
    for (const [token0Address, token1Address] of [
      [demo, MAINNET.weth],
      [MAINNET.weth, demo],
    ]) {
      const { raw } = await ask("defi.getPairAddress", {
        token0Address,
        token1Address,
        exchange: "uniswapv2",
        chain: CHAIN,
      });
      expect([raw.pairAddress, [raw.token0.symbol, raw.token1.symbol].toSorted()]).toEqual([pair, ["DEMO", "WETH"]]);
      expect(await schemaFaults(service, "Pair", raw)).toEqual([]);
    }
    const v3 = await service.get(`/api/v2/${demo}/${MAINNET.weth}/pairAddress?exchange=uniswapv3`);
    expect(v3.body.pairAddress).toBe(market.v3.DEMO.address.toLowerCase());
    const none = await service.get(`/api/v2/${demo}/${MAINNET.usdc}/pairAddress?exchange=uniswapv2`);
    expect([none.status, none.body.code]).toEqual([404, "not_found"]);
    for (const query of ["", "?exchange=nobody", "?exchange=quickswap"]) {
      const { status, body } = await service.get(`/api/v2/${demo}/${MAINNET.weth}/pairAddress${query}`);
      expect([query, status, body.details.parameter]).toEqual([query, 400, "exchange"]);
    }
  });

  test("has no address before it had a state", async () => {
    const path = `/api/v2/${demo}/${MAINNET.weth}/pairAddress?exchange=uniswapv2`;
    expect((await service.get(`${path}&to_block=1`)).status).toBe(404);
    expect((await service.get(`${path}&to_block=${await tip()}`)).body.pairAddress).toBe(pair);
  });

  test("has the reserves of its contract, now, at a block and at a time", async () => {
    const before = await tip();
    await setNextTimestamp(anvil, (await latestTimestamp(anvil)) + 30);
    await swapV2(anvil, { pool: pair, tokenIn: MAINNET.weth, amountIn: ETHER });
    const { raw } = await ask("defi.getPairReserves", { pairAddress: pair, chain: CHAIN });
    expect(raw).toEqual(await reservesAt(await tip()));
    const then = await ask("defi.getPairReserves", { pairAddress: pair, chain: CHAIN, toBlock: String(before) });
    expect(then.raw).toEqual(await reservesAt(before));
    expect(then.raw).not.toEqual(raw);
    const toDate = Number((await headerOf(before)).timestamp) * 1_000;
    expect((await ask("defi.getPairReserves", { pairAddress: pair, chain: CHAIN, toDate })).raw).toEqual(then.raw);
    const none = await service.get(`/api/v2/${demo}/reserves`);
    expect([none.status, none.body.code]).toEqual([404, "not_found"]);
    const above = await service.get(`/api/v2/${pair}/reserves?to_block=${(await tip()) + 1_000}`);
    expect([above.status, above.body.details.parameter]).toEqual([400, "to_block"]);
  });
});

test("a block that no endpoint tells is a 503 below the head, and a 400 above it", async () => {
  const time = (await latestTimestamp(anvil)) + 100;
  for (const at of [time, time + 100]) {
    await setNextTimestamp(anvil, at);
    await anvil.mine();
  }
  const block = (await tip()) - 1;
  let hidden = block;
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) =>
      method === "eth_getBlockByNumber" && Number(params[0]) === hidden ? { result: null } : undefined,
  });
  const own = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  await eventually("the chain is followed", async () =>
    (await own.get(`/api/v2/erc20/${demo}/price`)).status === 200 ? true : undefined,
  );
  const paths = (at: number) => [
    `/api/v2/erc20/${demo}/price?to_block=${at}`,
    `/api/v2/${pair}/reserves?to_block=${at}`,
    `/api/v2/${demo}/${MAINNET.weth}/pairAddress?exchange=uniswapv2&to_block=${at}`,
    `/api/prices/eth/${demo}/series?from=1&to=${at}&points=2`,
  ];
  const timed = (at: number) => [
    `/api/v2/dateToBlock?date=${at}`,
    `/api/v2/erc20/${demo}/price?to_time=${at}`,
    `/api/v2/${pair}/reserves?to_date=${at}`,
  ];
  const areUnavailable = async (...asked: readonly string[]) => {
    for (const path of asked) {
      const { status, headers, body } = await own.get(path);
      expect([path, status, body.code, headers.has("retry-after")]).toEqual([path, 503, "chain_unavailable", true]);
    }
  };
  await areUnavailable(...paths(block), ...timed(time));
  // The node gives its newest block as such, and not by its number.
  hidden = block + 1;
  await areUnavailable(...timed(time + 1_000));
  for (const path of paths(1_000_000)) {
    const { status, body } = await own.get(path);
    expect([path, status, body.code]).toEqual([path, 400, "invalid_parameter"]);
  }
  await own.stop();
  await proxy.stop();
}, 300_000);

test("a date has the last block at or before it", async () => {
  const block = await tip();
  for (let after = 0; after < 2; after++) {
    await setNextTimestamp(anvil, (await latestTimestamp(anvil)) + 20);
    await anvil.mine();
  }
  const { hash, parentHash, timestamp } = await headerOf(block + 1);
  const seconds = Number(timestamp);
  for (const date of [seconds * 1_000, seconds * 1_000 + 19_000]) {
    const { raw, parsed } = await ask("block.getDateToBlock", { date: new Date(date).toISOString(), chain: CHAIN });
    expect(raw).toEqual({
      ...{ date: new Date(date).toISOString(), block: block + 1, timestamp: seconds, hash, parent_hash: parentHash },
      block_timestamp: new Date(seconds * 1_000).toISOString(),
    });
    expect(parsed.data.block).toBe(block + 1);
  }
  const before = await service.get("/api/v2/dateToBlock?date=2001-01-01");
  expect([before.status, before.body.code]).toEqual([404, "not_found"]);
  const missing = await service.get("/api/v2/dateToBlock");
  expect([missing.status, missing.body.details.parameter]).toEqual([400, "date"]);
});

test("the version is the program's", async () => {
  const { raw } = await ask("utils.web3ApiVersion", {});
  expect(raw).toEqual({ version: packageFacts.version });
});
