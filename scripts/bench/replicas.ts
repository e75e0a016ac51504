/**
 * Counts what replicas ask of a node for the same prices, and measures stored prices. Three replicas over PostgreSQL, each
 * with a proxy of its own that counts, are asked for all tokens; then one alone. Prints the calls of each, whether two
 * replicas ever answered a block differently, the bytes of a price, and the speed of replay and of a stored series.
 * `bun scripts/bench/replicas.ts [tokens] [seconds] [seconds a block]`.
 */
import { toHash } from "../../src/core/hex.ts";
import { decodeEvent, encodeEvent } from "../../src/events/codec.ts";
import { encodePrice } from "../../src/events/price-columns.ts";
import type { PriceEvent } from "../../src/events/types.ts";
import { PriceHistory } from "../../src/prices/stored/price-history.ts";
import { sharedPostgres } from "../../test/support/postgres.ts";
import { startRpcProxy } from "../../test/support/rpc-proxy.ts";
import { startTestService } from "../../test/support/service.ts";
import { type Anvil, startAnvil } from "../local-chain/anvil.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { deploy } from "../local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../local-chain/mainnet.ts";
import { seedMarket } from "../local-chain/market.ts";
import { createV2Pair, type Pool, swapV2 } from "../local-chain/pools.ts";
import { median } from "./load.ts";
import { machine } from "./machine.ts";

const [tokenCount = 50, seconds = 60, blockSeconds = 2] = process.argv.slice(2).map(Number);
const ETHER = 10n ** 18n;
/** Where the bought tokens go. */
const TRADER = `0x${"7".repeat(40)}`;
/** Pools that trade in each block. */
const TRADES = 5;
const say = (text = ""): boolean => process.stdout.write(`${text}\n`);

interface Traded {
  readonly token: string;
  readonly pool: Pool;
}

async function tokensOn(anvil: Anvil): Promise<Traded[]> {
  const all: Traded[] = [];
  for (let index = 0; index < tokenCount; index++) {
    const { address: token } = await deploy(anvil, await contractArtifact("TestToken"), [`T${index}`, "T", 18]);
    const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: token, amountB: 1_000n * ETHER };
    all.push({ token, pool: await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts }) });
  }
  return all;
}

interface Outcome {
  readonly calls: readonly number[];
  readonly answers: number;
  readonly refused: number;
  /** Blocks and tokens that two replicas answered, and how many of them differ. */
  readonly compared: number;
  readonly different: number;
  readonly seriesMs: number;
}

/** Starts replicas on a new log, asks each of them for all tokens while blocks come, and counts after a warm-up. */
async function run(anvil: Anvil, traded: readonly Traded[], replicas: number): Promise<Outcome> {
  const logUrl = await (await sharedPostgres()).createDatabase();
  const nodes = await Promise.all(
    Array.from({ length: replicas }, async () => {
      const proxy = await startRpcProxy(anvil.url);
      return { proxy, service: await startTestService({ rpcUrl: proxy.url, logUrl }) };
    }),
  );
  const given = new Map<string, string>();
  const counts = { answers: 0, refused: 0, compared: 0, different: 0 };
  const askAll = async () => {
    await Promise.all(
      nodes.map(async ({ service }) => {
        for (const { token } of traded) {
          const { status, body } = await service.get(`/api/v2/erc20/${token}/price`);
          if (status !== 200) {
            counts.refused++;
            continue;
          }
          counts.answers++;
          const key = `${token} ${body.toBlock}`;
          const before = given.get(key);
          given.set(key, String(body.usdPrice));
          if (before === undefined) continue;
          counts.compared++;
          if (before !== String(body.usdPrice)) counts.different++;
        }
      }),
    );
  };
  const block = async (number: number) => {
    for (let trade = 0; trade < TRADES; trade++) {
      const { pool } = traded[(number * TRADES + trade) % traded.length]!;
      await swapV2(anvil, { pool: pool.address, tokenIn: MAINNET.weth, amountIn: ETHER / 100n, to: TRADER });
    }
    await Promise.all([Bun.sleep(blockSeconds * 1_000), askAll()]);
  };
  await askAll();
  const blocks = Math.ceil(seconds / blockSeconds);
  for (let number = 0; number < 5; number++) await block(number);
  for (const { proxy } of nodes) proxy.reset();
  Object.assign(counts, { answers: 0, refused: 0, compared: 0, different: 0 });
  for (let number = 0; number < blocks; number++) await block(number);
  const calls = nodes.map(({ proxy }) => proxy.count());
  const times: number[] = [];
  for (const { token } of traded.slice(0, 20)) {
    const began = performance.now();
    await nodes.at(-1)!.service.get(`/api/prices/eth/${token}/series?stored=true&points=200`);
    times.push(performance.now() - began);
  }
  for (const { service, proxy } of nodes) {
    await service.stop();
    await proxy.stop();
  }
  return { ...counts, calls, seriesMs: median(times) };
}

/** Folds a million stored prices from their bytes. */
function replay(): void {
  const large = 10n ** 24n;
  const bytes = Array.from({ length: 10_000 }, (_, at) =>
    encodeEvent({
      type: "TokenPriced",
      price: encodePrice({
        ...{
          block: at + 1,
          hash: toHash(`0x${at.toString(16).padStart(64, "0")}`),
          rules: 1,
          usd: 1.5,
          confidence: 0.9,
        },
        ...{ native: 10n ** 15n, flags: 3, nativePool: undefined },
        legs: [
          {
            ...{ pool: 0, decimals0: 18, decimals1: 18, balance0: large, balance1: large, given: [large, large] },
            state: { style: "v3", sqrtPriceX96: 2n ** 96n + BigInt(at), liquidity: large, tick: 7 },
            parts: undefined,
          },
        ],
      }),
    }),
  );
  const history = new PriceHistory();
  const began = performance.now();
  for (let version = 1; version <= 1_000_000; version++) {
    history.evolve(decodeEvent("TokenPriced", bytes[version % bytes.length]!) as PriceEvent, version);
  }
  const perSecond = 1_000_000 / ((performance.now() - began) / 1_000);
  say(
    `replay: ${(perSecond / 1e6).toFixed(2)} million prices a second; ${bytes[0]!.length} bytes a price of one v3 pool,`,
  );
  say(`${Math.round(history.bytes / 1_000_000)} bytes a price in memory`);
}

replay();
const anvil = await startAnvil();
await placeMainnet(anvil);
await seedMarket(anvil);
const traded = await tokensOn(anvil);
say(`${tokenCount} tokens, blocks of ${blockSeconds} s for ${seconds} s, ${TRADES} trades a block; ${machine()}`);
const one = await run(anvil, traded, 1);
const three = await run(anvil, traded, 3);
await anvil.stop();
const sum = (calls: readonly number[]): number => calls.reduce((total, count) => total + count, 0);
for (const [name, outcome] of Object.entries({ one, three })) {
  const { calls, answers, refused, compared, different, seriesMs } = outcome;
  say(`${name}: calls ${calls.join(" + ")} = ${sum(calls)}; ${answers} answers, ${refused} refused;`);
  say(`  ${different} of ${compared} answers for one block differ; stored series ${seriesMs.toFixed(1)} ms (median)`);
}
say(`calls of three replicas / of one: ${(sum(three.calls) / sum(one.calls)).toFixed(2)}`);
process.exit(0);
