/** Many prices in one request, on a real EVM: one read of the node at one head, and the answers that each token gets alone. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, placeCode, queue } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair, swapV2 } from "../../scripts/local-chain/pools.ts";
import { parseExchange } from "../../src/chains/exchanges.ts";
import { Refusal } from "../../src/core/errors.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import type { PriceRequest } from "../../src/prices/price-computer.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { KNOWN } from "../support/known-chains.ts";
import { roundProxy } from "../support/latency.ts";
import { HandFollower, type LocalChain, pricesOf, startLocalChain } from "../support/prices/anvil.ts";
import { placeV2Factory } from "../support/prices/exchanges.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const COUNT = 100;
const UNLISTED = toAddress("0x00000000000000000000000000000000000f0001");
const factory = MAINNET.uniswapV2Factory;
const plain = { percentChange: false, provenance: false };

let chain: LocalChain;
let anvil: Anvil;
const tokens: Address[] = [];
/** The pair of the first token. */
let first: string;

beforeAll(async () => {
  chain = await startLocalChain();
  anvil = chain.anvil;
  const dollars = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(anvil, { factory, ...dollars });
  const { abi, deployedBytecode } = await contractArtifact("TestToken");
  for (let at = 0; at < COUNT; at++) {
    const token = toAddress(`0x${(0x1000 + at).toString(16).padStart(40, "b")}`);
    tokens.push(token);
    await placeCode(anvil, token, deployedBytecode);
    await queue(anvil, contractAt(anvil, token, abi), "init", [`T${at}`, `T${at}`, 18]);
  }
  await anvil.mine();
  for (const [at, token] of tokens.entries()) {
    const amounts = {
      tokenA: MAINNET.weth,
      amountA: 10n * ETHER,
      tokenB: token,
      amountB: BigInt(at + 1) * 30n * ETHER,
    };
    const { address } = await createV2Pair(anvil, { factory, ...amounts });
    if (at === 0) first = address;
  }
  await placeV2Factory(anvil, UNLISTED);
  const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: tokens[0]!, amountB: 300n * ETHER };
  await createV2Pair(anvil, { factory: UNLISTED, ...amounts });
});
afterAll(() => anvil?.stop());

const requests = (addresses: readonly Address[] = tokens): PriceRequest[] =>
  addresses.map((address) => ({ address, ...plain }));

/** The answers as records, or as codes. */
const answersOf = async (prices: Prices, asked: readonly PriceRequest[]): Promise<(PriceRecord | string)[]> =>
  (await prices.answers(asked)).map((one) => (one instanceof Refusal ? one.code : one.record));

const usd = async (prices: Prices, asked: readonly PriceRequest[]) =>
  (await answersOf(prices, asked)).map((one) => (typeof one === "string" ? one : one.usdPrice));

/** The requests of one round trip are written in slices, each of which takes less than this, also on a loaded machine. */
const LATENCY_MS = 500;

describe(`a hundred cold tokens behind ${LATENCY_MS} ms of latency`, () => {
  test("take at most four round trips together, and get the answers that each gets alone", async () => {
    const proxy = await roundProxy(anvil.url, LATENCY_MS);
    const records = await answersOf(pricesOf(proxy.url), requests());
    expect(proxy.depth()).toBeLessThanOrEqual(4);
    await proxy.stop();
    const alone = pricesOf(anvil.url);
    const expected = await Promise.all(tokens.map((address) => alone.price({ address, ...plain })));
    expect(records).toEqual(expected);
    expect(expected[0]?.usdPrice).toBe(1_000);
  });

  test("take at most four if the node refuses all state except the newest", async () => {
    const proxy = await roundProxy(anvil.url, LATENCY_MS, ({ method, params }) =>
      method === "eth_call" && params[1] !== "latest"
        ? { error: { code: -32_000, message: "missing trie node" } }
        : undefined,
    );
    expect((await usd(pricesOf(proxy.url), requests())).slice(0, 2)).toEqual([1_000, 500]);
    expect(proxy.depth()).toBeLessThanOrEqual(4);
    await proxy.stop();
  });
});

describe("tokens of one request", () => {
  test("are priced at one head, also if some of them were read at an older one", async () => {
    const follower = new HandFollower(anvil.url);
    const prices = pricesOf(anvil.url, follower);
    await follower.poll(prices);
    await prices.answers(requests(tokens.slice(0, 2)));
    await swapV2(anvil, { pool: first, tokenIn: MAINNET.weth, amountIn: 10n * ETHER });
    const answers = await prices.answers(requests(tokens.slice(0, 3)));
    const blocks = answers.map((one) => (one instanceof Refusal ? one.code : one.asOf.hash));
    expect(new Set(blocks).size).toBe(1);
    const [moved] = answers;
    expect(moved instanceof Refusal ? 0 : moved?.record.usdPrice).toBeGreaterThan(3_500);
    // The head that shows the swap has the same answers, from memory.
    await follower.poll(prices);
    const shown = await prices.answers(requests(tokens.slice(0, 3)));
    expect(shown.map((one) => (one instanceof Refusal ? one.code : one.asOf.hash))).toEqual(blocks);
  });

  test("cost no request at a head that was read", async () => {
    const proxy = await startRpcProxy(anvil.url);
    const follower = new HandFollower(anvil.url);
    const prices = pricesOf(proxy.url, follower);
    await follower.poll(prices);
    const before = await answersOf(prices, requests());
    await anvil.mine();
    await follower.poll(prices);
    proxy.reset();
    const after = await answersOf(prices, requests());
    expect(proxy.calls).toEqual([]);
    const head = String(follower.head()?.number);
    expect(after).toEqual(before.map((one) => (typeof one === "string" ? one : { ...one, toBlock: head })));
    await proxy.stop();
  });

  test("may name exchanges, listed or not, and blocks, and may be repeated", async () => {
    const prices = pricesOf(anvil.url);
    const [token, other] = tokens as [Address, Address];
    const before = Number(await anvil.send("eth_blockNumber"));
    const exchange = (name: string) => ({ exchange: parseExchange(name, KNOWN.all)! });
    const asked: PriceRequest[] = [
      { address: other, ...plain },
      { address: token, ...plain, ...exchange("uniswapv2") },
      { address: token, ...plain, ...exchange(UNLISTED) },
      { address: token, ...plain, ...exchange("sushiswapv2") },
      { address: token, ...plain, ...exchange(MAINNET.weth) },
      { address: token, ...plain, toBlock: before - 1 },
      { address: token, ...plain, toBlock: 1 },
      { address: toAddress(anvil.accounts[2]!), ...plain },
      { address: other, ...plain },
    ];
    const alone = pricesOf(anvil.url);
    const expected = await Promise.all(
      asked.map((one) => alone.price(one).catch(({ code }: { code: string }) => code)),
    );
    expect(expected.map((one) => (typeof one === "string" ? one : one.usdPrice > 0))).toEqual([
      ...[true, true, true, "no_pool", "invalid_parameter", true, "no_price_at_block", "not_a_token", true],
    ]);
    expect(await answersOf(prices, asked)).toEqual(expected);
    expect(await prices.answers([])).toEqual([]);
  });
});
