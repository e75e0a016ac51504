/**
 * A token that changes its name, symbol and decimals, on a real EVM. A price depends on the chain alone: a server that
 * knew the token before and one that sees it for the first time give the same answer, at the head and at past blocks.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { HandFollower, type LocalChain, pricesOf, setNextTimestamp, startLocalChain } from "../support/prices/anvil.ts";
import { parsePriceQuery, type RawPriceQuery } from "../support/prices/query.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
/** More than the depth at which a block of Ethereum is final. */
const FINAL = 100;

let chain: LocalChain;
/** Refuses all state but the newest. */
let pruned: RpcProxy;
let deployed: Deployed;
let token: Address;

beforeAll(async () => {
  chain = await startLocalChain();
  pruned = await startRpcProxy(chain.anvil.url, {
    onRequest: ({ method, params }) =>
      method === "eth_call" && params[1] !== "latest"
        ? { error: { code: -32_000, message: "missing trie node" } }
        : undefined,
  });
  const dollars = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(chain.anvil, { factory: MAINNET.uniswapV2Factory, ...dollars });
});
afterAll(async () => {
  await pruned?.stop();
  await chain?.anvil.stop();
});

/** Three thousand "Old" tokens of 18 decimals, for 10 ether: ten dollars each. */
beforeEach(async () => {
  const { anvil } = chain;
  deployed = await deploy(anvil, await contractArtifact("UpgradedToken"), ["Old", "OLD", 18]);
  token = toAddress(deployed.address);
  const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: token, amountB: 3_000n * ETHER };
  await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts });
});

const upgrade = async (...said: [name: string, symbol: string, decimals: number]): Promise<void> =>
  void (await transact(chain.anvil, deployed.contract, "upgrade", said));

const tip = async (): Promise<number> => Number(await chain.anvil.send("eth_blockNumber"));

const ask = (prices: Prices, query: RawPriceQuery = {}): Promise<PriceRecord> =>
  prices.price({ address: token, ...parsePriceQuery({ include: "provenance", ...query }) });

const said = ({ tokenName, tokenSymbol, tokenDecimals, usdPrice }: PriceRecord) => [
  tokenName,
  tokenSymbol,
  tokenDecimals,
  usdPrice,
];

describe("an upgraded token", () => {
  for (const node of ["an archive node", "a node that refuses past state"]) {
    test(`has one price on warm and cold servers, on ${node}`, async () => {
      const url = node === "an archive node" ? chain.anvil.url : pruned.url;
      const follower = new HandFollower(url);
      const warm = pricesOf(url, follower);
      await follower.poll(warm);
      expect(said(await ask(warm))).toEqual(["Old", "OLD", "18", 10]);
      for (const [name, symbol, decimals, usd] of [
        ["New", "NEW", 15, 0.01],
        ["Newer", "NEWER", 19, 100],
      ] as const) {
        await upgrade(name, symbol, decimals);
        await follower.poll(warm);
        const answer = await ask(warm);
        expect(said(answer)).toEqual([name, symbol, String(decimals), usd]);
        expect(answer).toEqual(await ask(pricesOf(url)));
        expect(answer.toBlock).toBe(String(await tip()));
      }
    });
  }

  test("has at a past block the facts of that block, if the node has its state", async () => {
    const before = await tip();
    await upgrade("New", "NEW", 15);
    await chain.anvil.mine(FINAL);
    const warm = pricesOf(chain.anvil.url);
    for (let times = 0; times < 2; times++) {
      expect(said(await ask(warm))).toEqual(["New", "NEW", "15", 0.01]);
      const then = await ask(warm, { to_block: String(before) });
      expect(said(then)).toEqual(["Old", "OLD", "18", 10]);
      expect(then.provenance).not.toHaveProperty("factsOf");
      expect(said(await ask(warm, { to_block: String(before + 1) }))).toEqual(["New", "NEW", "15", 0.01]);
    }
    await upgrade("Newer", "NEWER", 19);
    const query = { to_block: String(before) };
    expect(await ask(warm, query)).toEqual(await ask(pricesOf(chain.anvil.url), query));
  });

  test("has at a past block today's facts with half the confidence, if the node lacks its state", async () => {
    const query = { to_block: String(await tip()) };
    await upgrade("New", "NEW", 15);
    await chain.anvil.mine(FINAL);
    const follower = new HandFollower(pruned.url);
    const warm = pricesOf(pruned.url, follower);
    await follower.poll(warm);
    const first = await ask(warm, query);
    expect(said(first)).toEqual(["New", "NEW", "15", 0.01]);
    expect(first.provenance!.factsOf).toBe("newest");
    expect(Number(first.provenance!.confidence)).toBeLessThanOrEqual(0.5);
    // The block is final, so its answer is kept for as long as the token says the same.
    pruned.reset();
    expect(await ask(warm, query)).toEqual(first);
    expect(pruned.count("eth_getLogs")).toBe(0);
    await upgrade("Newer", "NEWER", 19);
    await follower.poll(warm);
    const again = await ask(warm, query);
    expect(said(again)).toEqual(["Newer", "NEWER", "19", 100]);
    expect(again).toEqual(await ask(pricesOf(pruned.url), query));
  });

  test("has a change over a day that counts whole tokens of each time", async () => {
    const { anvil } = chain;
    const { timestamp } = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { timestamp: string };
    await setNextTimestamp(anvil, Number(timestamp) + 12);
    await upgrade("New", "NEW", 15);
    await setNextTimestamp(anvil, Number(timestamp) + 86_400);
    await anvil.mine();
    const { usdPrice, "24hrPercentChange": change } = await ask(pricesOf(anvil.url), { include: "percent_change" });
    expect([usdPrice, change]).toEqual([0.01, "-99.9"]);
  });
});
