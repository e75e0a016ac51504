/**
 * Past prices and series from an archive's logs, where the node takes ten blocks per request and has no old state: equal
 * to those of a node with everything, or of the node's own road if the archive lies.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { seedMarket } from "../../scripts/local-chain/market.ts";
import { createV2Pair, swapV2 } from "../../scripts/local-chain/pools.ts";
import { type ArchiveOptions, archiveOfNode, startArchive } from "../support/archive.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const ETHER = 10n ** 18n;
const CAP = 10;

let anvil: Anvil;
let token: string;
/** Blocks at which the token is priced: before, between and after its trades. */
let blocks: number[];
const started: { stop(): Promise<void> }[] = [];
const untilTheEnd = <T extends { stop(): Promise<void> }>(one: T): T => {
  started.push(one);
  return one;
};
const tip = async () => Number(await anvil.send("eth_blockNumber"));

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 27 * 3_600 });
  await placeMainnet(anvil);
  await seedMarket(anvil);
  ({ address: token } = await deploy(anvil, await contractArtifact("TestToken"), ["Old", "OLD", 18]));
  const factory = MAINNET.uniswapV2Factory;
  const { address: pool } = await createV2Pair(anvil, {
    ...{ factory, tokenA: token, amountA: 1_000n * ETHER },
    ...{ tokenB: MAINNET.weth, amountB: 400n * ETHER },
  });
  blocks = [await tip()];
  for (let trade = 0; trade < 3; trade++) {
    await anvil.mine(250);
    await swapV2(anvil, { pool, tokenIn: token, amountIn: BigInt(trade + 1) * ETHER });
    blocks.push(await tip());
  }
  await anvil.mine(300);
}, 120_000);
afterAll(() => anvil?.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

/** A service behind a node that takes ten blocks per request and has the newest states only. */
async function narrow(options: ArchiveOptions | undefined) {
  const archive = options && untilTheEnd(await startArchive(archiveOfNode(anvil.url), options));
  const head = await tip();
  const proxy = untilTheEnd(
    await startRpcProxy(anvil.url, {
      onRequest: ({ method, params }) => {
        const [first, second] = params as [{ fromBlock?: string; toBlock?: string }, string];
        if (method === "eth_call" || method === "eth_getBalance" || method === "eth_getCode") {
          const isOld = /^0x/.test(second) && Number(second) < head - 100;
          return isOld ? { error: { code: -32000, message: "missing trie node" } } : undefined;
        }
        if (method !== "eth_getLogs") return undefined;
        const span = Number(first.toBlock) - Number(first.fromBlock) + 1;
        return span > CAP ? { error: { code: -32600, message: `up to a ${CAP} block range` } } : undefined;
      },
    }),
  );
  const env = archive === undefined ? {} : { ARCHIVE_URL_ETH: archive.url, ARCHIVE_PER_10S: "100000" };
  const service = untilTheEnd(await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env }));
  return { service, archive, proxy };
}

const pricesOf = (service: TestService) =>
  Promise.all(
    blocks.map(async (block) => {
      const { body } = await service.get(`/api/v2/erc20/${token}/price?to_block=${block}`);
      return [body.usdPrice as unknown, body.nativePrice?.value as unknown];
    }),
  );

describe("a past price from an archive's logs", () => {
  test("is the price by the node's old states, for few calls", async () => {
    const whole = untilTheEnd(await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() }));
    const truth = await pricesOf(whole);
    expect(new Set(truth.map(String)).size).toBe(blocks.length);
    const { service, archive, proxy } = await narrow({});
    expect(await pricesOf(service)).toEqual(truth);
    expect(archive?.queries.length).toBeGreaterThan(0);
    expect(proxy.count("eth_getLogs")).toBeLessThan(120);
    const range = `from=${blocks[0]}&to=${blocks.at(-1)}&points=20`;
    const [series, right] = await Promise.all(
      [service, whole].map((one) => one.get(`/api/prices/eth/${token}/series?${range}`)),
    );
    expect(series?.body.result).toEqual(right?.body.result);
    expect(right?.body.result.every(({ usdPrice }: { usdPrice: unknown }) => usdPrice !== null)).toBe(true);
  });

  test("is right, or said not to be known, although the archive forges", async () => {
    const whole = untilTheEnd(await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() }));
    const { service, archive } = await narrow({ faults: ["forge"], rate: 1 });
    const truth = await pricesOf(whole);
    const told = await pricesOf(service);
    // Without the archive, 64 requests for logs of this node reach the newest of these blocks only.
    const unknown = [undefined, undefined];
    for (const [at, price] of told.entries()) expect([truth[at], unknown]).toContainEqual(price);
    expect(told[0]).toEqual(truth[0]!);
    expect(archive?.committed.get("forge") ?? 0).toBeGreaterThan(0);
  });
});
