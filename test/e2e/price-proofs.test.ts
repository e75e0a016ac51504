/** Proofs of prices over the API, on a local market of v2 and v3: each proof gives the very price of its answer. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { verifyProof } from "../../src/proof/verifier/verify.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { schemaFaults } from "../support/schemas.ts";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let proxy: RpcProxy;
let market: Market;
let service: TestService;
/** States of older blocks are missing. */
let oldest = 0;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 5 * 3_600 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil, { hours: 4 });
  proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      const tag = { eth_getProof: params[2], eth_getCode: params[1], eth_call: params[1] }[method as "eth_call"];
      const block = typeof tag === "string" && tag.startsWith("0x") ? Number(tag) : oldest;
      return block < oldest ? { error: { code: -32_000, message: "missing trie node" } } : undefined;
    },
  });
  service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await proxy?.stop();
  await anvil?.stop();
});

const priced = (address: string, query = "") => service.get(`/api/v2/erc20/${address}/price?include=proof${query}`);

test("the proof of an answer gives its price in dollars and in the coin, over one hop, two hops and none", async () => {
  const cases = [market.demo.address, MAINNET.weth, MAINNET.dai];
  for (const address of cases) {
    for (const exchange of ["", "&exchange=uniswapv3", "&exchange=uniswapv2"]) {
      const { status, body, headers } = await priced(address, exchange);
      expect({ address, exchange, status }).toEqual({ address, exchange, status: 200 });
      expect(await schemaFaults(service, "TokenPrice", body)).toEqual([]);
      expect(body.provenance).toBeUndefined();
      const { result, block } = await verifyProof(JSON.stringify(body.proof), {
        hash: headers.get("x-as-of-hash") ?? "",
      });
      expect({ ...result, block: String(block.number) }).toMatchObject({
        ...{ usdPrice: body.usdPriceFormatted, nativePrice: body.nativePrice.value, block: body.toBlock },
      });
    }
  }
});

test("a proof comes beside the other fields that are asked for, and of a past block while the node has its state", async () => {
  const head = Number(await anvil.send("eth_blockNumber"));
  const { status, body } = await priced(market.demo.address, `,provenance&to_block=${head - 30}`);
  expect([status, body.toBlock]).toEqual([200, String(head - 30)]);
  expect(body.provenance.route.length).toBe(2);
  expect((await verifyProof(body.proof)).result["usdPrice"]).toBe(body.usdPriceFormatted);
});

test("a price that rests on logs of a block without state has no proof, and says which blocks have one", async () => {
  const head = Number(await anvil.send("eth_blockNumber"));
  oldest = head - 5;
  const block = head - 40;
  expect((await service.get(`/api/v2/erc20/${market.demo.address}/price?to_block=${block}`)).status).toBe(200);
  const { status, body } = await priced(market.demo.address, `&to_block=${block}`);
  oldest = 0;
  expect([status, body.code]).toEqual([409, "state_unavailable"]);
  expect(body.details).toMatchObject({ block, from: head - 5 });
});
