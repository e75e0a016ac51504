/**
 * The claim about a price: the states of the pools from a token to a dollar, and the price that follows from them, exactly.
 * Each call goes to the pool itself or, of a pool that a manager holds, to the slot that follows from the pool's key.
 *
 * The calls also say what kind of pool it is. A getter that only some kinds have is tried, and may fail.
 */
import { keccak256 } from "ethers/crypto";
import { type Address, type Hash, ZERO_ADDRESS } from "../../core/hex.ts";
import {
  abiAddress,
  abiNumber,
  addressResult,
  type CallOutcome,
  type ProvenCall,
  type StateClaim,
  wordAt,
} from "./claim.ts";
import { addressText, amongst, hashText, listOf, nullOr, objectOf, type Parse, wholeNumberUpTo } from "./parse.ts";
import { demand } from "./refusal.ts";

/** Selectors of the getters. */
const GETTERS = {
  token0: "0x0dfe1681",
  token1: "0xd21220a7",
  decimals: "0x313ce567",
  getReserves: "0x0902f1ac",
  /** Of Solidly's pairs and Camelot's: whether the pair is on the curve of x³y + y³x. */
  stable: "0x22be3de1",
  stableSwap: "0x9e548b7f",
  /** Of Uniswap v3 and its forks, and of Algebra: the root of the price is the first word of both. */
  slot0: "0x3850c7bd",
  globalState: "0xe76c01e4",
  extsload: "0x1e2eaeaf",
} as const;

/** Slot of the mapping of pools in the storage of Uniswap v4's manager (v4-core, StateLibrary). */
const POOLS_SLOT = 6n;
/** Square of the unit of sqrtPriceX96. */
const TWO_192 = 1n << 192n;
/** Steps of a route: two pools of the token's, and the coin's dollar. */
const MAX_STEPS = 6;
const MAX_DECIMALS = 255n;
/** Places of the native coin, in whose smallest unit its price is given. */
const COIN_UNIT = 10n ** 18n;

/** What makes the id of a Uniswap v4 pool. */
interface ManagerPoolKey {
  /** Zero for the coin itself, which the wrapped coin stands for. */
  readonly currency0: Address;
  readonly currency1: Address;
  readonly fee: number;
  readonly spacing: number;
  readonly hooks: Address;
}

/** A pool whose price is the ratio of its reserves or the slope of its curve, or the square of its root. */
interface PoolContract {
  readonly by: "reserves" | "root";
  readonly pool: Address;
}

/** A pool inside a manager. */
interface ManagedPool {
  readonly by: "manager";
  readonly pool: Hash;
  readonly manager: Address;
  readonly key: ManagerPoolKey;
}

export type PricedPool = PoolContract | ManagedPool;

export interface PriceSubject {
  readonly token: Address;
  /** The wrapped native coin. */
  readonly coin: Address;
  /** From the token to what counts as a dollar. */
  readonly route: readonly PricedPool[];
  /** From the coin to what counts as a dollar, if the route doesn't pass the coin. Null if no price of the coin is claimed. */
  readonly coinRoute: readonly PricedPool[] | null;
  /** Each token that these pools trade, once. */
  readonly tokens: readonly Address[];
}

const poolContract = objectOf<PoolContract>({ by: amongst("reserves", "root"), pool: addressText });
const managedPool = objectOf<ManagedPool>({
  by: amongst("manager"),
  pool: hashText,
  manager: addressText,
  key: objectOf<ManagerPoolKey>({
    currency0: addressText,
    currency1: addressText,
    fee: wholeNumberUpTo(0xff_ffff),
    spacing: wholeNumberUpTo(0x7f_ffff),
    hooks: addressText,
  }),
});
const pricedPool: Parse<PricedPool> = (value, at) =>
  (value as { by?: unknown } | null)?.by === "manager" ? managedPool(value, at) : poolContract(value, at);

/** A call of a getter, and a part of the data after its selector. */
const getter = (to: Address, name: keyof typeof GETTERS, data = ""): ProvenCall => ({
  to,
  data: `${GETTERS[name]}${data}`,
});
/** A getter that the contract may lack. */
const probe = (to: Address, name: keyof typeof GETTERS): ProvenCall => ({ ...getter(to, name), isProbe: true });

/** A pool's two tokens, and how many raw units of token1 one of token0 is worth. */
interface ProvenPool {
  readonly token0: Address;
  readonly token1: Address;
  /** @param units of whole tokens */
  rate(units: readonly [bigint, bigint]): ExactRate;
}

interface ExactRate {
  readonly over: bigint;
  readonly under: bigint;
}

function callsOfPool(pool: PricedPool): readonly ProvenCall[] {
  if (pool.by === "manager") return [getter(pool.manager, "extsload", slotOf(pool).slice(2))];
  const tokens = [getter(pool.pool, "token0"), getter(pool.pool, "token1")];
  return pool.by === "reserves"
    ? [...tokens, getter(pool.pool, "getReserves"), probe(pool.pool, "stable"), probe(pool.pool, "stableSwap")]
    : [...tokens, probe(pool.pool, "slot0"), probe(pool.pool, "globalState")];
}

/** The first slot of a pool's state. @throws ProofRefused unless the key makes the pool's id */
function slotOf({ pool, key }: ManagedPool): string {
  const { currency0, currency1, fee, spacing, hooks } = key;
  const words = [abiAddress(currency0), abiAddress(currency1), abiNumber(BigInt(fee)), abiNumber(BigInt(spacing))];
  demand(keccak256(`0x${words.join("")}${abiAddress(hooks)}`) === pool, `the key of pool ${pool} makes another id`);
  return keccak256(`0x${pool.slice(2)}${abiNumber(POOLS_SLOT)}`);
}

/** Reads a pool's state from the results of its calls. @throws ProofRefused if it answers like no such pool */
function stateOf(pool: PricedPool, outcomes: readonly CallOutcome[], coin: Address): ProvenPool {
  const named = `pool ${pool.pool}`;
  if (pool.by === "manager") {
    const { currency0, currency1 } = pool.key;
    const root = BigInt.asUintN(160, wordAt(outcomes[0], 0, named));
    return { token0: currency0 === ZERO_ADDRESS ? coin : currency0, token1: currency1, rate: rateOfRoot(root, named) };
  }
  const [token0, token1] = [addressResult(outcomes[0], named), addressResult(outcomes[1], named)];
  const [, , state, other, last] = outcomes;
  if (pool.by === "root") return { token0, token1, rate: rateOfRoot(rootIn(state, other, named), named) };
  const [reserve0, reserve1] = [wordAt(state, 0, named), wordAt(state, 1, named)];
  demand(reserve0 > 0n && reserve1 > 0n, `${named} is empty`);
  const isStable = [other, last].some((said) => said?.ok === true && said.result === `0x${abiNumber(1n)}`);
  const rate = isStable ? stableRate : ratioRate;
  return { token0, token1, rate: (units) => rate([reserve0, reserve1], units) };
}

/** The root is the first word of whichever getter the pool has. */
function rootIn(slot0: CallOutcome | undefined, globalState: CallOutcome | undefined, named: string): bigint {
  const isSlot = slot0?.ok === true && slot0.result.length >= 66;
  return wordAt(isSlot ? slot0 : globalState, 0, named);
}

/** sqrtPriceX96 is the square root of the price, times 2^96 (Uniswap v3 core, `slot0`). */
function rateOfRoot(root: bigint, named: string): ProvenPool["rate"] {
  demand(root > 0n && root < 1n << 160n, `${named} has no price`);
  return ([unit0, unit1]) => ({ over: root * root * unit0, under: TWO_192 * unit1 });
}

const ratioRate = (
  [reserve0, reserve1]: readonly [bigint, bigint],
  [unit0, unit1]: readonly [bigint, bigint],
): ExactRate => ({
  over: reserve1 * unit0,
  under: reserve0 * unit1,
});

/** The slope of x³y + y³x at the reserves, in whole tokens (Solidly's stable pair): (3x²y + y³) / (x³ + 3xy²). */
function stableRate(
  [reserve0, reserve1]: readonly [bigint, bigint],
  [unit0, unit1]: readonly [bigint, bigint],
): ExactRate {
  const [x, y] = [reserve0 * unit1, reserve1 * unit0];
  return { over: 3n * x * x * y + y ** 3n, under: x ** 3n + 3n * x * y * y };
}

const poolsOf = ({ route, coinRoute }: PriceSubject): readonly PricedPool[] => [...route, ...(coinRoute ?? [])];

/** What the calls showed. */
class ProvenPools {
  readonly #states = new Map<PricedPool, ProvenPool>();
  readonly #units = new Map<Address, bigint>();

  constructor(subject: PriceSubject, outcomes: readonly CallOutcome[]) {
    let at = 0;
    for (const pool of poolsOf(subject)) {
      const count = callsOfPool(pool).length;
      this.#states.set(pool, stateOf(pool, outcomes.slice(at, at + count), subject.coin));
      at += count;
    }
    for (const token of subject.tokens) {
      const decimals = wordAt(outcomes[at++], 0, `decimals of ${token}`);
      demand(decimals <= MAX_DECIMALS, `${token} has more decimals than a token may have`);
      this.#units.set(token, 10n ** decimals);
    }
  }

  /** Walks a route. @returns the tokens on it, and the whole tokens at its end for one at its start, step by step */
  walk(
    from: Address,
    route: readonly PricedPool[],
  ): { readonly tokens: readonly Address[]; readonly prices: readonly ExactRate[] } {
    const tokens = [from];
    const prices: ExactRate[] = [ONE];
    for (const pool of route) {
      const { token0, token1, rate } = this.#states.get(pool) as ProvenPool;
      const own = tokens.at(-1) as Address;
      demand(own === token0 || own === token1, `pool ${pool.pool} does not trade ${own}`);
      const forward = rate([this.#unitOf(token0), this.#unitOf(token1)]);
      const step = own === token0 ? forward : { over: forward.under, under: forward.over };
      tokens.push(own === token0 ? token1 : token0);
      prices.push(times(prices.at(-1) as ExactRate, step));
    }
    return { tokens, prices };
  }

  #unitOf(token: Address): bigint {
    const unit = this.#units.get(token);
    demand(unit !== undefined, `the decimals of ${token} are not shown`);
    return unit;
  }

  /** @throws ProofRefused if decimals of tokens are shown that no pool trades */
  assertAllUsed(walked: readonly Address[]): void {
    const extra = [...this.#units.keys()].find((token) => !walked.includes(token));
    demand(extra === undefined, `no pool of the route trades ${extra}`);
  }
}

const ONE: ExactRate = { over: 1n, under: 1n };
const times = (a: ExactRate, b: ExactRate): ExactRate => ({ over: a.over * b.over, under: a.under * b.under });

/** Digits after which the nearest double can't change: more than the 767 that a double can need are never near. */
const SPARE_DIGITS = 60;

/** The double nearest to a fraction, as its shortest decimal without an exponent. */
function nearestText({ over, under }: ExactRate): string {
  const places = SPARE_DIGITS + under.toString().length;
  const text = String(Number(`${(over * 10n ** BigInt(places)) / under}e-${places}`));
  const match = /^(\d+)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
  if (match === null) return text;
  const [, whole = "", fraction = "", power = "0"] = match;
  const digits = `${whole}${fraction}`;
  const point = whole.length + Number(power);
  return point <= 0 ? `0.${"0".repeat(-point)}${digits}` : digits.padEnd(point, "0");
}

/** The price of the coin in its smallest unit, truncated. */
const inCoins = ({ over, under }: ExactRate): string => ((over * COIN_UNIT) / under).toString();

export const PRICE_CLAIM: StateClaim<PriceSubject> = {
  subject: objectOf<PriceSubject>({
    token: addressText,
    coin: addressText,
    route: listOf(pricedPool, MAX_STEPS),
    coinRoute: nullOr(listOf(pricedPool, MAX_STEPS)),
    tokens: listOf(addressText, 2 * MAX_STEPS),
  }),
  calls: (subject) => [
    ...poolsOf(subject).flatMap(callsOfPool),
    ...subject.tokens.map((token) => getter(token, "decimals")),
  ],
  result(subject, outcomes) {
    const { token, coin, route, coinRoute } = subject;
    demand(route.length > 0, "the route has no pool");
    demand(new Set(subject.tokens).size === subject.tokens.length, "a token is listed twice");
    const shown = new ProvenPools(subject, outcomes);
    const own = shown.walk(token, route);
    const coins = shown.walk(coin, coinRoute ?? []);
    shown.assertAllUsed([...own.tokens, ...coins.tokens]);
    const usd = own.prices.at(-1) as ExactRate;
    const at = own.tokens.indexOf(coin);
    demand(at < 0 || coinRoute === null, "the route passes the coin, so that no other price of the coin counts");
    const dollar = coins.prices.at(-1) as ExactRate;
    const byOwn = at < 0 ? undefined : (own.prices[at] as ExactRate);
    const byDollar = coinRoute === null ? undefined : times(usd, { over: dollar.under, under: dollar.over });
    const native = byOwn ?? byDollar;
    return {
      usdPrice: nearestText(usd),
      nativePrice: native === undefined ? null : inCoins(native),
      dollar: own.tokens.at(-1) as Address,
      coinDollar: coinRoute === null ? null : (coins.tokens.at(-1) as Address),
    };
  },
  words({ token, coin, route, coinRoute }, { usdPrice, nativePrice, dollar, coinDollar }) {
    const list = (pools: readonly PricedPool[]) => pools.map(({ pool }) => pool).join(", then ");
    const inDollars = `one whole token ${token} is worth ${usdPrice} US dollars by ${list(route)}, if one ${dollar} is a dollar`;
    const coinWords = coinRoute === null ? "" : ` by ${list(coinRoute)}, if one ${coinDollar} is a dollar`;
    const inNative =
      nativePrice === null ? "" : ` It is worth ${nativePrice} of 10^18 parts of the coin ${coin}${coinWords}.`;
    return `${inDollars}.${inNative} That these are the pools to choose is not proven, nor that a sale would give as much.`;
  },
};
