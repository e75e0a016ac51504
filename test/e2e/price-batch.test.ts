/** Many prices in one request over HTTP: the order, tokens without a price, each refusal, and the client. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { Client } from "../../src/client/index.ts";
import { schemaFaults } from "../support/schemas.ts";
import { type Answer, startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const PATH = "/api/v2/erc20/prices";
const [WETH, USDC] = [MAINNET.weth.toLowerCase(), MAINNET.usdc.toLowerCase()];

let anvil: Anvil;
let market: Market;
let service: TestService;
let demo: string;
let nobody: string;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 27 * 3_600 - 60 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  demo = market.demo.address.toLowerCase();
  nobody = anvil.accounts[7]!.toLowerCase();
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

async function post(body: unknown, query = "", from = service): Promise<Answer> {
  const response = await from.fetch(PATH + query, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}
const tokens = (...addresses: string[]) => ({ tokens: addresses.map((token_address) => ({ token_address })) });
const alone = (address: string, query = "") => service.get(`/api/v2/erc20/${address}/price${query}`);

test("answers in the order of the request, with the records and headers that each token gets alone", async () => {
  for (const query of ["", "?include=percent_change,provenance,pair,depth&size_usd=250&min_liquidity_usd=1"]) {
    const { status, body, headers } = await post(tokens(USDC, demo, WETH, demo), query);
    const expected = await Promise.all([USDC, demo, WETH, demo].map((address) => alone(address, query)));
    expect([status, body]).toEqual([200, expected.map((one) => one.body)]);
    const names = ["x-as-of-block", "x-as-of-hash", "x-as-of-time", "x-finality"];
    for (const name of names) expect([name, headers.get(name)]).toEqual([name, expected[0]!.headers.get(name)]);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(await schemaFaults(service, "TokenPrices", body)).toEqual([]);
  }
});

test("leaves tokens without a price out, or says why in their place", async () => {
  const asked = tokens(demo, nobody, USDC);
  expect((await post(asked)).body.map((one: { tokenAddress: string }) => one.tokenAddress)).toEqual([demo, USDC]);
  const { body } = await post(asked, "?include=errors");
  expect(body[1]).toEqual({ tokenAddress: nobody, ...(await alone(nobody)).body });
  expect(body.map((one: { code?: string }) => one.code)).toEqual([undefined, "not_a_token", undefined]);
  expect(await schemaFaults(service, "TokenPrices", body)).toEqual([]);
  expect((await post({ tokens: [] })).body).toEqual([]);
});

test("takes an exchange and a block for each token, the block as a number too", async () => {
  const toBlock = Number(await anvil.send("eth_blockNumber")) - 20;
  const { body, headers } = await post({
    tokens: [
      { token_address: demo, exchange: "uniswapv3", to_block: String(toBlock) },
      { token_address: demo, to_block: toBlock },
      { token_address: demo, exchange: "uniswapv2" },
    ],
  });
  const expected = [`?exchange=uniswapv3&to_block=${toBlock}`, `?to_block=${toBlock}`, "?exchange=uniswapv2"];
  expect(body).toEqual(await Promise.all(expected.map(async (query) => (await alone(demo, query)).body)));
  // Its records are of two blocks.
  expect(headers.get("x-as-of-block")).toBeNull();
});

test("refuses a wrong body or parameter in words that name the field", async () => {
  const long = { tokens: Array.from({ length: 101 }, () => ({ token_address: demo })) };
  const three = tokens(demo, demo, demo).tokens;
  const head = Number(await anvil.send("eth_blockNumber"));
  const cases: [unknown, string, string][] = [
    [{}, "", "tokens: is missing"],
    [long, "", "tokens: must have at most 100 entries"],
    [{ tokens: [...three, {}] }, "", "tokens.3.token_address: is missing"],
    [tokens(demo, "0x12"), "", "tokens.1.token_address: must be 0x and 40 hex digits"],
    [tokens(demo, MAINNET.weth.replace("C", "c")), "", "tokens.1.token_address: must be 0x and 40 hex digits"],
    [{ tokens: [{ token_address: demo, exchange: "nowhere" }] }, "", "tokens.0.exchange: one of"],
    [{ tokens: [{ token_address: demo, exchange: "quickswap" }] }, "", "tokens.0.exchange: quickswap is not on eth"],
    [{ tokens: [{ token_address: demo, exchange: WETH }] }, "", "tokens.0.exchange: one of"],
    [{ tokens: [{ token_address: demo, to_block: -1 }] }, "", "tokens.0.to_block: must be a block number"],
    [
      { tokens: [...three, { token_address: demo, to_block: head + 9_999 }] },
      "",
      `tokens.3.to_block: at most the chain's head, which is ${head}`,
    ],
    [{ tokens: [{ address: demo }] }, "", "tokens.0.token_address: is missing"],
    [{ tokens: [{ token_address: demo, block: 1 }] }, "", "tokens.0.block: is not known here"],
    ["{", "", "body: must be JSON in UTF-8"],
    [tokens(demo), "?include=everything", "include: percent_change, provenance"],
    [tokens(demo), "?min_liquidity_usd=-1", "min_liquidity_usd: US dollars"],
    [tokens(demo), "?chain=polygon", "chain"],
  ];
  for (const [body, query, message] of cases) {
    const answer = await post(body, query);
    expect([answer.status, answer.body.message.slice(0, message.length)]).toEqual([400, message]);
  }
  expect(await post(" ".repeat(70_000))).toMatchObject({ status: 413, body: { code: "too_large" } });
  const { status, headers } = await service.fetch(PATH);
  expect([status, headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
  expect((await service.fetch(PATH, { method: "POST", headers: { "x-api-key": "" } })).status).toBe(401);
});

test("is one method of the client, whose answer is a list with its block", async () => {
  const client = new Client({ url: `http://127.0.0.1:${service.port}`, key: TEST_KEY });
  const prices = await client.prices(tokens(demo, nobody).tokens, { include: ["errors", "percent_change"] });
  expect([...prices]).toEqual((await post(tokens(demo, nobody), "?include=errors,percent_change")).body);
  const [first, second] = prices;
  expect(first !== undefined && "usdPrice" in first && first.usdPrice > 0).toBe(true);
  expect(second !== undefined && "code" in second && second.code).toBe("not_a_token");
  expect(prices.asOf?.block).toBe(Number(await anvil.send("eth_blockNumber")));
});

test("is answered 503 for all tokens while no endpoint answers", async () => {
  const silent = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl() });
  const { status, body, headers } = await post(tokens(demo), "?include=errors", silent);
  expect([status, body.code, headers.get("retry-after")]).toEqual([503, "chain_unavailable", "5"]);
  await silent.stop();
});
