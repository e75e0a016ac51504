/**
 * What clients ask of tokens and pairs beside prices: names and decimals, the pool of two tokens at an exchange, and the
 * reserves of a pair at a block. By the same reads as prices.
 */
import type { Chain } from "../chains/chains.ts";
import { type Deployment, deploymentOf, type ExchangeChoice } from "../chains/exchanges.ts";
import { Refusal } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { FairSlots, Requester } from "../core/work.ts";
import type { CallResult, ChainReader } from "../rpc/port.ts";
import type { PricedBlock, TokenFacts } from "./market/market.ts";
import type { Pool, Reading } from "./market/pools.ts";
import { pastQueue } from "./past-queue.ts";
import { selectPools } from "./price-record.ts";
import { planFacts, planPairs, planProbe, planUnlisted, venueOf } from "./search/discovery.ts";
import { seenAt } from "./search/history.ts";
import { boundOf, isTooManyLogs, type PastSource, type Sought } from "./search/past-source.ts";
import { addressAnswer, answer, type CallPlan, call, together } from "./styles/abi.ts";
import { STYLES } from "./styles/styles.ts";

interface PairsOptions {
  readonly chain: Chain;
  readonly reader: ChainReader;
  /** The exchanges whose pools rank. */
  readonly exchanges: readonly Deployment[];
  /** Reads past blocks. */
  readonly pastSource: () => PastSource;
}

/** Both reserves of a pair, in smallest units. */
export interface PairReserves {
  readonly reserve0: bigint;
  readonly reserve1: bigint;
}

/** A rank after that of every listed exchange: nobody vouches for the pair, so its calls run apart. */
const UNLISTED_RANK = 1_000;

export class Pairs {
  readonly #options: PairsOptions;
  readonly #queue: FairSlots;

  constructor(options: PairsOptions) {
    this.#options = options;
    this.#queue = pastQueue(options.chain);
  }

  /** Name, symbol and decimals of tokens, as their contracts tell them now. @throws AppError `chain_unavailable` */
  facts(tokens: readonly Address[], requester: Requester): Promise<ReadonlyMap<Address, TokenFacts>> {
    return this.#queue.run(requester, async () => (await this.#read(planFacts(tokens, []))).facts);
  }

  /**
   * The pool of two tokens at an exchange; of several the one with the most liquidity. Undefined if there is none, or none
   * with a state at the block.
   * @throws Refusal `invalid_parameter` for an exchange that is not on the chain, `not_found` for a block that is too far
   * back; AppError `chain_unavailable`
   */
  poolOf(
    [a, b]: readonly [Address, Address],
    { exchange, block }: { readonly exchange: ExchangeChoice; readonly block: PricedBlock | undefined },
    requester: Requester,
  ): Promise<Pool | undefined> {
    return this.#queue.run(requester, async () => {
      const pools = await this.#poolsAt(exchange, [a, b]);
      const seen = block && (await this.#statesAt({ token: a, pools }, block));
      const states = await this.#read(together(pools.map((pool) => STYLES[pool.style].state(pool))));
      const found = pools.flatMap((pool, at) => {
        const reading = block === undefined ? states[at]?.reading : seen?.get(pool.id)?.reading;
        if (reading !== undefined) return { pool, weight: weightOf(reading) };
        return block === undefined ? { pool, weight: 0n } : [];
      });
      return found.reduce<(typeof found)[number] | undefined>(
        (best, one) => (best === undefined || one.weight > best.weight ? one : best),
        undefined,
      )?.pool;
    });
  }

  async #poolsAt(exchange: ExchangeChoice, pair: readonly [Address, Address]): Promise<readonly Pool[]> {
    const { chain, exchanges } = this.#options;
    // Refuses an exchange that is not here.
    selectPools(chain, exchange, exchanges);
    if (exchange.kind === "listed") {
      return this.#read(planPairs([venueOf(chain, deploymentOf(exchange.exchange, chain)!)], [pair]));
    }
    const { factory } = exchange;
    const style = await this.#read(planProbe(chain, factory));
    return style === undefined ? [] : this.#read(planUnlisted(chain, { factory, style }, [pair]));
  }

  /**
   * The reserves of a pair, now or at the end of a block.
   * @throws Refusal `not_found` if the contract is no pair, had no reserves, or the block is too far back; AppError
   * `chain_unavailable`
   */
  reservesOf(pair: Address, block: PricedBlock | undefined, requester: Requester): Promise<PairReserves> {
    return this.#queue.run(requester, async () => {
      const { chain } = this.#options;
      const now = await this.#read(planPair(pair));
      if (now === undefined) {
        throw new Refusal(
          "not_found",
          `address: ${pair} on ${chain.name} has no two tokens with reserves, so it is no pair`,
        );
      }
      if (block === undefined) return now;
      const { token0, token1 } = now;
      const pool: Pool = {
        ...{ id: pair, factory: pair, style: "v2", fee: 0, token0, token1 },
        ...{ exchange: "", rank: UNLISTED_RANK, stableCurve: false },
      };
      const reading = (await this.#statesAt({ token: token0, pools: [pool] }, block)).get(pair)?.reading;
      if (reading?.style === "v2") return reading;
      throw new Refusal("not_found", `to_block: no reserves of ${pair} are known at block ${block.number}`);
    });
  }

  /** The states of pools at the end of a block, by the pools' ids. @throws Refusal `not_found` if it is too far back */
  async #statesAt(sought: Sought, block: PricedBlock) {
    try {
      return (await seenAt(this.#options.pastSource(), sought, block)).states;
    } catch (error) {
      if (!isTooManyLogs(error)) throw error;
      throw new Refusal("not_found", `to_block: block ${block.number} is too far back: ${boundOf(error)}`);
    }
  }

  async #read<T>({ calls, read }: CallPlan<T>): Promise<T> {
    if (calls.length === 0) return read([]);
    return read((await this.#options.reader.callsAtHead(calls)).results);
  }
}

/** What pools of one pair compare by. */
const weightOf = (reading: Reading): bigint =>
  reading.style === "v3" ? reading.liquidity : reading.reserve0 * reading.reserve1;

interface NamedPair extends PairReserves {
  readonly token0: Address;
  readonly token1: Address;
}

function planPair(pair: Address): CallPlan<NamedPair | undefined> {
  return {
    calls: ["token0()", "token1()", "getReserves()"].map((signature) => ({ ...call(pair, signature), apart: pair })),
    read([first, second, reserves]: readonly CallResult[]) {
      const [token0, token1] = [addressAnswer(first), addressAnswer(second)];
      const [reserve0, reserve1] = [answer(reserves, 0), answer(reserves, 1)];
      if (token0 === undefined || token1 === undefined || reserve0 === undefined || reserve1 === undefined)
        return undefined;
      return { token0, token1, reserve0, reserve1 };
    },
  };
}
