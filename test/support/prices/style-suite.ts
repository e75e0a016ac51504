/**
 * The contract that every style of pool keeps, against real bytecode: its pools are found, its state is read as the
 * contract tells it, and its events alone give the same state after each of many random moves.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Anvil } from "../../../scripts/local-chain/anvil.ts";
import { createRandom } from "../../../scripts/local-chain/random.ts";
import { AppError } from "../../../src/core/errors.ts";
import type { Address } from "../../../src/core/hex.ts";
import { type Observation, type Pool, priceOfToken0, type Reading } from "../../../src/prices/market/pools.ts";
import { planMarket } from "../../../src/prices/search/discovery.ts";
import { seenAt } from "../../../src/prices/search/history.ts";
import { Origins, type PastReader, type PastSource } from "../../../src/prices/search/past-source.ts";
import { seriesBetween } from "../../../src/prices/search/state-series.ts";
import { announced, applyLog, emitterOf, poolIdOf, STATE_TOPICS, STYLES } from "../../../src/prices/styles/styles.ts";
import type { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { newToken, startPoolChain } from "./exchanges.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange, type MadePool } from "./styles.ts";
import { eth } from "./world.ts";

const SEED = 20261125;

/** Declares the suite. @param moves random moves of each pool */
export function holdStyles(moves: number): void {
  let anvil: Anvil;
  let reader: RpcChainReader;
  let wrapped: Address;

  beforeAll(async () => {
    ({ anvil, reader, wrapped } = await startPoolChain());
  });

  afterAll(() => anvil.stop());

  async function found({ venue }: MadeExchange, a: Address, b: Address): Promise<Pool[]> {
    const plan = STYLES[venue.style].find(venue, a, b);
    return plan.read(await reader.calls(plan.calls, "latest"));
  }

  async function stateOf(pool: Pool): Promise<Reading | undefined> {
    const plan = planMarket(eth, [], [pool]);
    return plan.read((await reader.callsAtHead(plan.calls)).results).reads[0]?.reading;
  }

  /** The price of token0 by the textbook, in raw units. */
  function model(reading: Reading, isStable: boolean): { n: bigint; d: bigint } {
    if (reading.style === "v3") return { n: reading.sqrtPriceX96 ** 2n, d: 2n ** 192n };
    const [x, y] = [reading.reserve0, reading.reserve1];
    return isStable ? { n: y * (3n * x * x + y * y), d: x * (x * x + 3n * y * y) } : { n: y, d: x };
  }

  describe.each(EXCHANGES_OF_STYLES)("%s", (_, make) => {
    let exchange: MadeExchange;
    let made: MadePool;
    let pool: Pool;

    beforeAll(async () => {
      exchange = await make(anvil, wrapped);
      const tokens = [await newToken(anvil), await newToken(anvil)] as const;
      made = await exchange.create({ tokenA: tokens[0], tokenB: tokens[1], price: [3n, 2n] });
      const all = await found(exchange, made.token1, made.token0);
      pool = all[0]!;
      expect(all.map(({ id }) => id)).toEqual([made.id]);
    });

    test("finds a pool by its tokens in any order, and none where there is none", async () => {
      expect(await found(exchange, made.token0, made.token1)).toEqual([pool]);
      expect([pool.token0, pool.token1]).toEqual([made.token0, made.token1]);
      expect(await found(exchange, made.token0, await newToken(anvil))).toEqual([]);
    });

    test("hears of a new pool from the factory", async () => {
      const [a, b] = [await newToken(anvil), await newToken(anvil)];
      const { number } = await reader.head();
      await exchange.create({ tokenA: a, tokenB: b });
      const { factory, style } = exchange.venue;
      const { topic } = STYLES[style].created;
      const to = (await reader.head()).number;
      const logs = await reader.logs({ addresses: [factory], topics: [topic], fromBlock: number + 1, toBlock: to });
      expect(
        logs.map((log) =>
          announced(STYLES[style], log, { ...eth, wrappedNative: { ...eth.wrappedNative, address: wrapped } }),
        ),
      ).toEqual([{ tokens: a < b ? [a, b] : [b, a], isFound: true }]);
    });

    test(`reads ${moves} random states, and gets the same from events alone`, async () => {
      const random = createRandom(SEED);
      const first = (await reader.head()).number;
      const states = new Map<number, Reading>();
      for (let move = 0; move < moves; move++) {
        await made.move(random);
        const [{ number }, truth] = [await reader.head(), await made.truth()];
        expect(await stateOf(pool)).toEqual(truth);
        const price = priceOfToken0(pool, truth, { decimals0: 18, decimals1: 18 })!;
        const { n, d } = model(truth, pool.stableCurve);
        expect(price.n * d).toBe(n * price.d);
        states.set(number, truth);
      }
      const { number: last } = await reader.head();
      const topics = pool.key === undefined ? STATE_TOPICS.ofContracts : STATE_TOPICS.ofKeyed;
      const logs = await reader.logs({ addresses: [emitterOf(pool)], topics, fromBlock: 0, toBlock: last });
      let state: Observation | undefined;
      const byBlock = new Map<number, Reading>();
      for (const log of logs.filter((one) => poolIdOf(one) === pool.id)) {
        state = applyLog(state, log, 0);
        if (state !== undefined) byBlock.set(log.blockNumber, state.reading);
      }
      for (const [block, truth] of states) {
        const at = [...byBlock.keys()].filter((number) => number <= block).at(-1)!;
        expect([block, byBlock.get(at)]).toEqual([block, truth]);
      }
      expect(first).toBeLessThan(last);
    });

    test("gets a past state from a node without old state", async () => {
      const head = await reader.head();
      const past = await reader.header(head.number - 40);
      const before = { number: past!.number, hash: past!.hash, timestamp: past!.timestamp };
      const source: PastSource = { chain: eth, reader, origins: new Origins(), finalized: -1 };
      const withState = await seenAt(source, { token: pool.token0, pools: [pool] }, before);
      const stateless: PastReader = {
        calls: () => Promise.reject(new AppError("pruned", { code: "state_unavailable" })),
        callsAtHead: (calls) => reader.callsAtHead(calls),
        head: () => reader.head(),
        header: (number) => reader.header(number),
        headers: (numbers) => reader.headers(numbers),
        logs: (filter) => reader.logs(filter),
      };
      const fromLogs = await seenAt({ ...source, reader: stateless }, { token: pool.token0, pools: [pool] }, before);
      expect(fromLogs.states.get(pool.id)?.reading).toEqual(withState.states.get(pool.id)!.reading);
      const { states: series } = await seriesBetween(source, { token: pool.token0, pools: [pool] }, before, head);
      expect(series.get(pool.id)?.at(-1)?.reading).toEqual((await stateOf(pool))!);
    });
  });
}
