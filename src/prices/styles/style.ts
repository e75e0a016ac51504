/**
 * What a style of exchange must tell: how its pools are found and read at a block, which events move them, and how one
 * trades with them. A style is one file, held by the suite in `test/prices/styles`. Prices and depths follow from the
 * reading, in `market/pools`.
 */
import type { Chain } from "../../chains/chains.ts";
import type { Launchpad } from "../../chains/launchpads.ts";
import { type Address, type Hash, ZERO_ADDRESS } from "../../core/hex.ts";
import { addressWord } from "../../rpc/calls.ts";
import type { Call, CallResult, ChainLog } from "../../rpc/port.ts";
import type { HookTrade, Observation, Pool, PoolId, Reading } from "../market/pools.ts";
import { addressAnswer, answer, type CallPlan, call } from "./abi.ts";
import type { ReadTiers } from "./tiers.ts";

/** A factory and how to find pools through it. */
export interface Venue {
  readonly name: string;
  readonly rank: number;
  readonly style: Pool["style"];
  readonly factory: Address;
  /** The fees to ask for, or the one that all pools have, in hundredths of a basis point; empty if pools tell theirs. */
  readonly fees: readonly number[];
  /** The tick spacings to ask for. */
  readonly spacings: readonly number[];
  /** The chain's wrapped coin, which stands for the coin itself where a pool holds that. */
  readonly wrapped: Address;
  /** Of a contract that holds many pools: those that make pools with hooks of their own. */
  readonly launchpads?: readonly Launchpad[];
}

/** A pool as a node returned it: its settings, its state and its token balances. */
export interface PoolRead {
  readonly pool: Pool;
  /** Undefined when the pool does not answer like a pool of its style, or was never initialised. */
  readonly reading: Reading | undefined;
  readonly balance0: bigint | undefined;
  readonly balance1: bigint | undefined;
  readonly given?: Observation["given"];
  readonly traded?: HookTrade;
  /** Unix seconds of the last change of the reading, where the contract tells it; below 2^32. */
  readonly changedAt?: number;
}

/** The change of a pool's price or depth by one log. */
export type PoolChange =
  | { readonly kind: "state"; readonly reading: Reading }
  /** A position of a concentrated pool has changed by this liquidity. */
  | {
      readonly kind: "liquidity";
      readonly delta: bigint;
      readonly tickLower: number;
      readonly tickUpper: number;
    };

type DecodeChange = (log: ChainLog) => PoolChange | undefined;

/** Reserves, or the units of decimals, of the token that is sold and of the other one. */
export interface BothSides {
  readonly own: bigint;
  readonly other: bigint;
}

/** What a pair adds to its reserve, and what it gives. */
export interface PairSale {
  readonly kept: bigint;
  readonly given: bigint;
}

/** A sale to a pair that isn't on the curve of a constant product. */
export interface StableSide {
  readonly units: BothSides;
  /** The contract's order of the tokens, which its rounding follows. */
  readonly isToken0: boolean;
}

/** What a swap of token0 and one of token1 cost, in hundredths of a basis point. */
export type SwapFees = readonly [bigint, bigint];

/** A pool as a node returned it, and how its ticks are read. */
export interface TickedRead extends PoolRead {
  readonly ticks: {
    readonly spacing: number;
    readonly fees: SwapFees;
    /** Reads a word of the tick bitmap. */
    word(index: number): Call;
    tick(tick: number): Call;
    /** What crossing the tick upwards adds to the liquidity. */
    netIn(result: CallResult | undefined): bigint | undefined;
  };
}

/** How trades with a pool are computed to the last digit. */
export type ExactTrades = {
  /** Why trades with this pool can't be computed; undefined if they can. */
  refusal?(pool: Pool): string | undefined;
  /** The amounts of both tokens that a trade moved, by the first topic of its log. */
  readonly swaps: Readonly<Record<Hash, (log: ChainLog) => readonly [bigint, bigint] | undefined>>;
} & (
  | {
      readonly kind: "reserves";
      /** @throws UnknownTrade */
      sale(reserves: BothSides, paid: bigint, fee: bigint, stable: StableSide | undefined): PairSale;
      /** True if a pair's fee never changes. */
      readonly hasConstantFee: boolean;
      /**
       * Asks the pair what it gives for an amount, where only such answers tell its fee. Its fee is then the one that makes
       * the very same amounts.
       */
      quote?(pool: Pool, paid: bigint, isToken0: boolean): Call;
    }
  | {
      readonly kind: "ranges";
      /** Reads a pool's state for its ticks. */
      read(pool: Pool): CallPlan<TickedRead>;
      /** First topics of the logs that tell the ticks of a past block, and what a swap cost there by them. */
      readonly past?: {
        readonly topics: readonly Hash[];
        /** Undefined if no log tells it. */
        fees(pool: Pool, logs: readonly ChainLog[]): SwapFees | undefined;
      };
    }
);

export interface Style {
  /** The event by which a factory announces a pool, and the place of the first of two tokens in its topics. */
  readonly created: {
    readonly topic: Hash;
    readonly tokensAt: 1 | 2;
    /** False for an announced pool that `find` does not look for. Default: true. */
    readonly isFound?: (log: ChainLog) => boolean;
    /** True for one that `find` or another read of state may find. */
    readonly mayBeFound?: (log: ChainLog, chain: Chain) => boolean;
  };
  /** The first topic of the log with which a pool begins. Without it only its factory tells when it did. */
  readonly begins?: Hash;
  /** Decoders by first topic. */
  readonly events: Readonly<Record<Hash, DecodeChange>>;
  /** The call that only factories of this style answer; without it the style can't be told so. */
  readonly probe?: { readonly signature: string; readonly words: readonly string[] };
  /** The kinds of pools that a factory makes, where they differ by a number that it tells. */
  readonly tiers?: {
    readonly by: "fees" | "spacings";
    /** Those that known factories have: what one is asked for if it doesn't tell its own. */
    readonly usual: readonly number[];
    readonly read: ReadTiers;
    /** First topic of the log with which a factory adds one. */
    readonly added: Hash;
  };
  /** How `depth/sale-probe.sol` trades with a pool. */
  readonly sale: "reserves" | "quoted" | "callback" | "manager";
  /** How `liquidity-meter.sol` walks a pool's ticks; absent for pairs. */
  readonly meter?: {
    readonly kind: "keyed" | "contract" | "algebra" | "algebra-integral";
    /** How far apart ticks are at least. Default: 1. */
    leastSpacing?(pool: Pool): number;
  };
  /** Without it the depth of a trade is not computed. */
  readonly exact?: ExactTrades;
  /** Finds the pools of two tokens. */
  find(venue: Venue, tokenA: Address, tokenB: Address): CallPlan<Pool[]>;
  /** Reads a pool's settings, state and balances. */
  state(pool: Pool): CallPlan<PoolRead>;
}

export const ofState = (reading: Reading | undefined): PoolChange | undefined => reading && { kind: "state", reading };

/** Both addresses, the lower one first. */
export const inAddressOrder = (a: Address, b: Address): readonly [Address, Address] => (a < b ? [a, b] : [b, a]);

interface Lookup extends Partial<Pick<Pool, "fee" | "stableCurve">> {
  readonly signature: string;
  readonly words?: readonly string[];
}

/** Asks a factory for the pools of two tokens, by one call for each kind of pool. */
export function findByCalls(
  venue: Venue,
  [tokenA, tokenB]: readonly [Address, Address],
  lookups: readonly Lookup[],
): CallPlan<Pool[]> {
  const [token0, token1] = inAddressOrder(tokenA, tokenB);
  const pair = [addressWord(token0), addressWord(token1)];
  return {
    calls: lookups.map(({ signature, words = [] }) => call(venue.factory, signature, ...pair, ...words)),
    read: (results) =>
      lookups.flatMap(({ fee = 0, stableCurve = false }, index) => {
        const found = addressAnswer(results[index]);
        if (found === undefined || found === ZERO_ADDRESS) return [];
        return [poolOf(venue, { id: found, fee, stableCurve, token0, token1 })];
      }),
  };
}

/** A pool of a venue. */
export const poolOf = (
  { name: exchange, rank, style, factory }: Venue,
  found: Pick<Pool, "id" | "fee" | "token0" | "token1" | "stableCurve"> & Pick<Partial<Pool>, "key">,
): Pool => ({ ...found, factory, style, exchange, rank });

/** The contract of a pool that has its own. */
export const poolContract = ({ id }: { readonly id: PoolId }): Address => id as Address;

/** Reads a pool that is a contract: its balances, and what `decode` makes of the results of these calls. */
export function readContract(
  pool: Pool,
  signatures: readonly string[],
  decode: (results: readonly CallResult[]) => Pick<PoolRead, "reading" | "changedAt"> & { readonly pool?: Pool },
): CallPlan<PoolRead> {
  const contract = poolContract(pool);
  const holder = addressWord(contract);
  const balances = [pool.token0, pool.token1].map((token) => call(token, "balanceOf(address)", holder));
  return {
    calls: [...balances, ...signatures.map((signature) => call(contract, signature))],
    read([held0, held1, ...results]) {
      const balance = { balance0: answer(held0), balance1: answer(held1) };
      return { pool, ...decode(results), ...balance };
    },
  };
}
