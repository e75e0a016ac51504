/**
 * What one question's end, or its spent budget, does to another question, and what odd tokens cost their own price. On a
 * real EVM behind a proxy.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, placeCode } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { Budget } from "../../src/core/budget.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { Requester } from "../../src/core/work.ts";
import type { PriceRequest } from "../../src/prices/price-computer.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { HandFollower, type LocalChain, pricesOf, startLocalChain } from "../support/prices/anvil.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";

setDefaultTimeout(120_000);

const ETHER = 10n ** 18n;
const factory = MAINNET.uniswapV2Factory;
const plain = { percentChange: false, provenance: false };
const BOUNDS = { calls: 100, logs: 64 };
const ONE: Requester = { key: "one", isOperator: false };

let chain: LocalChain;
let priced: Address;

const pairOf = async (token: Address) =>
  createV2Pair(chain.anvil, {
    ...{ factory, tokenA: MAINNET.weth, amountA: 10n * ETHER },
    ...{ tokenB: token, amountB: 3_000n * ETHER },
  });

beforeAll(async () => {
  chain = await startLocalChain();
  const { anvil } = chain;
  await anvil.mine(400);
  const dollars = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(anvil, { factory, ...dollars });
  priced = await chain.token();
  await pairOf(priced);
  await anvil.mine(20);
});
afterAll(() => chain?.anvil.stop());

async function scene(proxy: RpcProxy): Promise<{ prices: Prices; follower: HandFollower }> {
  const follower = new HandFollower(proxy.url);
  const prices = pricesOf(proxy.url, follower);
  await follower.poll(prices);
  return { prices, follower };
}

interface Asking {
  readonly requester?: Requester;
  readonly signal?: AbortSignal;
  readonly bounds?: { readonly calls: number; readonly logs: number };
}

/** Asks as a key of scope `read` does. */
function ask(prices: Prices, request: PriceRequest, { requester = ONE, signal, bounds = BOUNDS }: Asking = {}) {
  const question = new Budget({ bounds, isQuestion: true, signal });
  return question
    .run(() => prices.answer(request, requester))
    .then(
      ({ record }) => record as unknown,
      (error: unknown) => error,
    );
}

test("a token whose unknown functions take all gas has a price, the second time, too", async () => {
  const { anvil } = chain;
  const token = toAddress((await deploy(anvil, await contractArtifact("OldToken"))).address);
  await pairOf(token);
  await anvil.mine();
  const proxy = await startRpcProxy(anvil.url);
  const { prices, follower } = await scene(proxy);
  const answers: unknown[] = [];
  for (let at = 0; at < 3; at++) {
    answers.push(await ask(prices, { address: token, ...plain }));
    await anvil.mine();
    await follower.poll(prices);
  }
  expect(answers).toMatchObject(answers.map(() => ({ usdPrice: 10 })));
});

test("a token whose getter takes more gas than usual has a price beside one that burns its gas", async () => {
  const { anvil } = chain;
  const heavy = toAddress((await deploy(anvil, await contractArtifact("HeavyToken"))).address);
  await pairOf(heavy);
  const burning = ["b", "c", "d"].map((digit) => toAddress(`0x${digit.repeat(40)}`));
  const { deployedBytecode } = await contractArtifact("BurningToken");
  for (const token of burning) await placeCode(anvil, token, deployedBytecode);
  await anvil.mine();
  const { prices } = await scene(await startRpcProxy(anvil.url));
  const question = new Budget({ bounds: BOUNDS, isQuestion: true });
  question.grow(4);
  const requests = [...burning, heavy].map((address) => ({ address, ...plain }));
  const answer = (await question.run(() => prices.answers(requests, ONE))).at(-1);
  expect(answer).toMatchObject({ record: { usdPrice: 10 } });
});
