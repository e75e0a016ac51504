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
import { type ArchiveOptions, archiveOfNode, startArchive, type TestArchive } from "../support/archive.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { type Body, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const ETHER = 10n ** 18n;
const CAP = 10;
const OPERATOR_KEY = "operator-key-0123456789";

let anvil: Anvil;
let token: string;
/** Its only pool, with ether. */
let pair: string;
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
  pair = pool;
  blocks = [await tip()];
  for (let trade = 0; trade < 3; trade++) {
    await anvil.mine(250);
    await swapV2(anvil, { pool, tokenIn: token, amountIn: BigInt(trade + 1) * ETHER });
    blocks.push(await tip());
  }
  await anvil.mine(300);
}, 300_000);
afterAll(() => anvil?.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

/**
 * A service behind a node that takes ten blocks per request and has the newest states only.
 * @param options of an archive, or of two
 * @param cap most blocks per request for logs
 * @param hasReceipts false for a node without `eth_getBlockReceipts`
 * @param prunedTo the first block of which the node has logs and receipts
 */
async function narrow(
  options: ArchiveOptions | readonly ArchiveOptions[],
  {
    cap = CAP,
    prunedTo = 0,
    hasReceipts = true,
  }: { readonly cap?: number; readonly prunedTo?: number; readonly hasReceipts?: boolean } = {},
) {
  const archives: TestArchive[] = [];
  for (const one of [options].flat()) archives.push(untilTheEnd(await startArchive(archiveOfNode(anvil.url), one)));
  const [archive] = archives;
  const head = await tip();
  const proxy = untilTheEnd(
    await startRpcProxy(anvil.url, {
      onRequest: ({ method, params }) => {
        const [first, second] = params as [{ fromBlock?: string; toBlock?: string }, string];
        if (method === "eth_call" || method === "eth_getBalance" || method === "eth_getCode") {
          const isOld = /^0x/.test(second) && Number(second) < head - 100;
          return isOld ? { error: { code: -32000, message: "missing trie node" } } : undefined;
        }
        if (method === "eth_getBlockReceipts" && !hasReceipts) {
          return { error: { code: -32601, message: "the method eth_getBlockReceipts does not exist" } };
        }
        const isOld = method === "eth_getBlockReceipts" && Number(first) < prunedTo;
        if (isOld || (method === "eth_getLogs" && Number(first.fromBlock) < prunedTo)) {
          return { error: { code: 4444, message: "pruned history unavailable" } };
        }
        if (method !== "eth_getLogs") return undefined;
        const span = Number(first.toBlock) - Number(first.fromBlock) + 1;
        return span > cap ? { error: { code: -32600, message: `up to a ${cap} block range` } } : undefined;
      },
    }),
  );
  const env = {
    ...{ ARCHIVE_URL_ETH: archives.map(({ url }) => url).join(), ARCHIVE_PER_10S: "100000" },
    OPERATOR_KEYS: OPERATOR_KEY,
  };
  const service = untilTheEnd(await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env }));
  return { service, archive, archives, proxy };
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
    expect(proxy.count("eth_getLogs")).toBeLessThan(160);
    const range = `from=${blocks[0]}&to=${blocks.at(-1)}&points=20`;
    const [series, right] = await Promise.all(
      [service, whole].map((one) => one.get(`/api/prices/eth/${token}/series?${range}`)),
    );
    const points: Body[] = series?.body.result;
    expect(points.map(({ source: _source, limitedBy: _limit, ...point }) => point)).toEqual(right?.body.result);
    expect(points.filter(({ source }) => source === "archive")).toHaveLength(20);
    // The gaps between the trades have 76 windows of ten blocks. 64 of them are compared with the node.
    const limited = points.filter(({ limitedBy }) => limitedBy !== undefined);
    expect(limited.length).toBeLessThan(14);
    for (const { limitedBy } of limited) expect(limitedBy).toMatch(/^only the archive eth#1 says that the pool /);
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

  /** Leaves out all logs of the pair in one block. */
  const withoutTrade = (left: number | undefined): ArchiveOptions => ({
    omits: ({ address }, block) => block === left && address.toLowerCase() === pair.toLowerCase(),
  });
  const priceAt = async (service: TestService, block: number): Promise<Body> =>
    (await service.get(`/api/v2/erc20/${token}/price?to_block=${block}&include=provenance`)).body;
  const trueAt = async (block: number): Promise<Body> =>
    priceAt(untilTheEnd(await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() })), block);

  test("is not that of an older trade although the archive leaves out the last one, where the node's logs are in reach", async () => {
    const block = blocks[2]! + 100;
    const { service, proxy } = await narrow(withoutTrade(blocks[2]));
    const told = await priceAt(service, block);
    // The node's own road may take more requests than a question has left.
    expect([(await trueAt(block)).usdPrice, undefined]).toContain(told.usdPrice);
    expect(told.code ?? "no_price_at_block").toBe("no_price_at_block");
    expect(proxy.count()).toBeLessThanOrEqual(100);
    const { body } = await service.get("/api/status", { "x-api-key": OPERATOR_KEY });
    expect(body.chains[0].archives[0]).toMatchObject({ state: "resting" });
    expect(body.chains[0].archives[0].reason).toContain(`contradicts the node at block ${blocks[2]}`);
  });

  test("needs no confirmation where the node's own logs have all blocks since the last trade", async () => {
    const { service } = await narrow({});
    const { provenance } = await priceAt(service, blocks[1]! + 100);
    expect(provenance).toMatchObject({ source: "archive", confidence: "0.5" });
    expect(provenance.limitedBy).toBeUndefined();
    // The average reaches back beyond the last trade, if the question has calls left for it.
    expect(["twap30m"]).toEqual(expect.arrayContaining(provenance.unconfirmed ?? []));
  });

  test("says what an archive alone says, with less confidence, where the node's own logs are out of reach", async () => {
    const block = blocks[1]! + 200;
    const { service, proxy } = await narrow(withoutTrade(blocks[1]), { cap: 2 });
    const { provenance, usdPrice } = await priceAt(service, block);
    expect(usdPrice).toBeGreaterThan((await trueAt(block)).usdPrice);
    expect(provenance).toMatchObject({ source: "archive", confidence: "0.25", unconfirmed: ["usdPrice"] });
    const said = `only the archive eth#1 says that the pool ${pair.toLowerCase()} had no other trade in blocks ${blocks[0]} to `;
    expect(provenance.limitedBy).toStartWith(said);
    expect(proxy.count()).toBeLessThanOrEqual(100);
  });

  test("is confirmed by a second archive where the node's own logs are out of reach", async () => {
    const { service } = await narrow([{}, {}], { cap: 2 });
    const { provenance } = await priceAt(service, blocks[1]! + 200);
    expect(provenance).toMatchObject({ source: "archive", confidence: "0.5" });
    expect(provenance.limitedBy).toBeUndefined();
  });

  for (const liar of [0, 1]) {
    test(`is right although archive ${liar + 1} of two leaves out a trade`, async () => {
      const block = blocks[1]! + 200;
      const options = [{}, {}].with(liar, withoutTrade(blocks[1]));
      const { service } = await narrow(options, { cap: 2 });
      expect((await priceAt(service, block)).usdPrice).toBe((await trueAt(block)).usdPrice);
      const { body } = await service.get("/api/status", { "x-api-key": OPERATOR_KEY });
      const states = body.chains[0].archives.map(({ state }: Body) => state);
      expect(states).toEqual(["ready", "ready"].with(liar, "resting"));
    });
  }

  test("is no archive's where two archives differ and the node has no receipts to tell which one is right", async () => {
    const block = blocks[1]! + 200;
    const { service } = await narrow([withoutTrade(blocks[1]), {}], { cap: 2, hasReceipts: false });
    expect((await priceAt(service, block)).code).toBe("no_price_at_block");
    const { body } = await service.get("/api/status", { "x-api-key": OPERATOR_KEY });
    for (const { state, reason } of body.chains[0].archives) {
      expect(state).toBe("resting");
      expect(reason).toContain(`two archives differ about block ${blocks[1]}`);
    }
  });

  test("is confirmed by the blooms of headers where the node has dropped its logs, except in the block of the trade", async () => {
    const pruned = { prunedTo: blocks[3]! + 100 };
    const { service } = await narrow({}, pruned);
    const block = blocks[1]! + 40;
    const { provenance, usdPrice } = await priceAt(service, block);
    expect(usdPrice).toBe((await trueAt(block)).usdPrice);
    expect(provenance.limitedBy).toEndWith(`had no other trade in blocks ${blocks[1]} to ${blocks[1]}`);
    const lying = await narrow(withoutTrade(blocks[1]), pruned);
    const told = await priceAt(lying.service, block);
    expect(told.provenance.limitedBy).toEndWith(`had no other trade in blocks ${blocks[0]} to ${blocks[1]}`);
  });
});
