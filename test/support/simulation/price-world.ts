/**
 * A simulated world of prices: a market that moves, forks, and three processes over one slow log, of which any may follow,
 * read, fall silent or start again. Every answer for a block that stays must be the chain's price there, whichever
 * process gave it, from memory, from the node or from the log.
 */
import { createRandom, type Random } from "../../../scripts/local-chain/random.ts";
import { AppError, Refusal } from "../../../src/core/errors.ts";
import type { Address } from "../../../src/core/hex.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import type { PriceAnswer } from "../../../src/prices/price-computer.ts";
import { MemoryLog } from "../memory-log.ts";
import { Process } from "../prices/cluster.ts";
import { addressOf, FakeChain, type FakePool } from "../prices/fake-chain.ts";
import { DAI, placeTokens, TOKEN, UNI2, USDC, WBTC, WETH } from "../prices/world.ts";
import { FaultCounter } from "./fault-kinds.ts";

const LINKED = addressOf("linked");
const TOKENS = [TOKEN, LINKED, WETH, WBTC, USDC];
const STEPS = 120;
const PROCESSES = 3;
const PLAIN = { percentChange: false, provenance: false } as const;

interface Given {
  readonly token: Address;
  readonly block: number;
  readonly hash: string;
  readonly record: string;
  readonly origin: string;
}

/** A log whose answers take some turns of the event loop, so that processes meet in every order. */
function slow(log: MemoryLog, random: Random): EventLog {
  const isSlow = new Set(["append", "appendAll", "read", "head", "heads", "readBackwards"]);
  return new Proxy(log, {
    get: (target, name) => {
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== "function") return value;
      const call = value.bind(target) as (...values: unknown[]) => unknown;
      if (!isSlow.has(String(name))) return call;
      return async (...values: unknown[]) => {
        for (let turn = random.below(3); turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve));
        return call(...values);
      };
    },
  });
}

class PriceWorld {
  readonly chain = new FakeChain();
  readonly #log: EventLog;
  readonly #random: Random;
  readonly #pools: [pool: FakePool, a: Address, amountA: bigint, amountB: bigint][] = [];
  readonly #given: Given[] = [];
  readonly faults = new FaultCounter();
  processes: Process[] = [];

  constructor(seed: number) {
    this.#random = createRandom(seed);
    this.#log = slow(new MemoryLog(), createRandom(seed + 1_000_000));
    placeTokens(this.chain);
    this.chain.token({ address: LINKED, name: "Linked", symbol: "LNK", decimals: 9 });
    this.#add(WETH, 1_000n, USDC, 2_000_000n);
    this.#add(USDC, 3_000_000n, DAI, 3_000_000n);
    this.#add(WBTC, 100n, WETH, 3_000n);
    this.#add(TOKEN, 10_000n, WETH, 100n);
    this.#add(TOKEN, 9_000n, USDC, 190_000n);
    this.#add(LINKED, 500n, WBTC, 50n);
  }

  #add(a: Address, amountA: bigint, b: Address, amountB: bigint): void {
    this.#pools.push([
      this.chain.pool({ factory: UNI2, style: "v2", fee: 3_000, tokens: [a, b] }),
      a,
      amountA,
      amountB,
    ]);
    this.#set(this.#pools.length - 1, amountA);
  }

  #set(at: number, amountA: bigint): void {
    const [pool, a, , amountB] = this.#pools[at]!;
    const b = pool.token0 === a ? pool.token1 : pool.token0;
    const unit = (token: Address) => 10n ** BigInt(this.chain.tokens.get(token)!.decimals!);
    const [rawA, rawB] = [amountA * unit(a), amountB * unit(b)];
    if (pool.token0 === a) this.chain.sync(pool, rawA, rawB);
    else this.chain.sync(pool, rawB, rawA);
  }

  async start(): Promise<void> {
    const first = new Process(this.chain, this.#log);
    await first.follow();
    for (let index = 0; index < PROCESSES; index++) this.processes.push(await this.#process());
  }

  #process(): Promise<Process> {
    const process = new Process(this.chain, this.#log);
    process.clock.ms = this.#random.below(1_000_000_000);
    return process.start();
  }

  #move(): void {
    this.chain.mine(1 + this.#random.below(2));
    for (const at of this.#pools.keys()) {
      if (this.#random.below(4) === 0) {
        const [, , amountA] = this.#pools[at]!;
        this.#set(at, amountA + BigInt(this.#random.below(Number(amountA / 10n) + 2)));
      }
    }
  }

  async #ask(process: Process, toBlock?: number): Promise<void> {
    const token = this.#random.pick(TOKENS);
    const request = { ...PLAIN, address: token, ...(toBlock === undefined ? {} : { toBlock }) };
    const answer = await process.prices.answer(request).catch((error: unknown) => {
      // A reorganisation came between, or the block is gone.
      if (error instanceof AppError || error instanceof Refusal) return undefined;
      throw error;
    });
    if (answer !== undefined) this.#note(token, answer);
  }

  #note(token: Address, { record, asOf, origin }: PriceAnswer): void {
    this.#given.push({ token, block: asOf.number, hash: asOf.hash, record: JSON.stringify(record), origin });
  }

  async step(): Promise<void> {
    const random = this.#random;
    const process = random.pick(this.processes);
    const kinds = [
      "move",
      "move",
      "follow",
      "follow",
      "show",
      "all",
      "all",
      "ask",
      "ask",
      "ask",
      "past",
      "fork",
      "restart",
    ];
    switch (random.pick(kinds)) {
      case "move":
        this.#move();
        break;
      case "follow":
        await process.follow().catch(() => undefined);
        await process.show();
        break;
      case "show":
        await process.show();
        break;
      case "all": {
        await process.follow().catch(() => undefined);
        const some = this.processes.filter(() => random.below(3) > 0);
        await Promise.all(some.flatMap((one) => [one.show(), this.#ask(one)]));
        break;
      }
      case "ask":
        await Promise.all(this.processes.filter(() => random.below(2) > 0).map((one) => this.#ask(one)));
        break;
      case "past":
        await this.#ask(process, random.below(this.chain.tip.number + 1));
        break;
      case "fork":
        if (random.below(2) > 0 || this.chain.tip.number < 4) break;
        this.chain.fork(this.chain.tip.number - 1 - random.below(3));
        this.chain.mine(3);
        this.faults.hit("fork");
        break;
      default:
        this.faults.hit("crash");
        this.processes[this.processes.indexOf(process)] = await this.#process();
    }
    if (random.below(30) === 0) process.clock.ms += 61_000;
  }

  /** Compares each answer for a block that stayed with what an archive node gives. @throws Error naming the first that differs */
  async assertTrue(): Promise<number> {
    const oracle = new Process(this.chain, new MemoryLog());
    await oracle.follow();
    await oracle.start();
    const truths = new Map<string, string>();
    let compared = 0;
    for (const { token, block, hash, record, origin } of this.#given) {
      if (this.chain.blocks[block]?.hash !== hash) continue;
      const key = `${token} ${block}`;
      const truth =
        truths.get(key) ?? JSON.stringify(await oracle.prices.price({ ...PLAIN, address: token, toBlock: block }));
      truths.set(key, truth);
      if (truth !== record) throw new Error(`${origin} at block ${block}: ${record}, and the chain gives ${truth}`);
      compared++;
    }
    return compared;
  }
}

/** Runs the world of a seed. @throws Error where an answer differs from the chain's price */
export async function simulatePrices(seed: number): Promise<{ blocks: number; steps: number; faults: FaultCounter }> {
  const world = new PriceWorld(seed);
  await world.start();
  for (let step = 0; step < STEPS; step++) await world.step();
  const compared = await world.assertTrue();
  return { blocks: world.chain.tip.number, steps: compared, faults: world.faults };
}
