/**
 * Proofs of prices on pools of every style with their real bytecode, over one and two hops: what follows from a proof is
 * the price that the service computes from the pools' states, to the last digit.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { createRandom } from "../../scripts/local-chain/random.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { type Pool, priceOfToken0, type Reading } from "../../src/prices/market/pools.ts";
import { divide, format, invert, multiply, ONE, type Rational, truncate } from "../../src/prices/market/rational.ts";
import { STYLES } from "../../src/prices/styles/styles.ts";
import type { StateDocument } from "../../src/proof/verifier/document.ts";
import type { PricedPool, PriceSubject } from "../../src/proof/verifier/price-claim.ts";
import { verifyProof } from "../../src/proof/verifier/verify.ts";
import type { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { createCamelotPair, newToken, placeV2Factory, startPoolChain } from "../support/prices/exchanges.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange, type PoolWish } from "../support/prices/styles.ts";
import { proverOver, type TestProver } from "../support/proofs.ts";

let anvil: Anvil;
let reader: RpcChainReader;
let wrapped: Address;
let tested: TestProver;

beforeAll(async () => {
  ({ anvil, reader, wrapped } = await startPoolChain());
  tested = proverOver(anvil.url);
});

afterAll(async () => {
  tested?.close();
  await anvil?.stop();
});

/** A pool as the service found it, with its state. */
interface Found {
  readonly pool: Pool;
  readonly reading: Reading;
}

/** Makes a pool, moves it at random, and finds it as the service does. */
async function placed({ venue, create }: MadeExchange, wish: PoolWish): Promise<Found> {
  const { id, move, sell } = await create(wish);
  // A stable pair begins with equal sides, at which its curve has the price of any other.
  if (wish.stable === true) await sell(wish.tokenA, 7n * 10n ** 20n);
  const random = createRandom(50);
  // The helpers trade no coin, and pairs of few units may refuse a random amount.
  const isMoved = wish.tokenB !== wrapped && wish.tokenA !== wrapped && !venue.style.startsWith("solidly");
  for (let moves = 0; isMoved && moves < 3; moves++) await move(random);
  const plan = STYLES[venue.style].find(venue, wish.tokenA, wish.tokenB);
  const pools = plan.read(await reader.calls(plan.calls, "latest"));
  return stateOf(pools.find((one) => one.id === id) as Pool);
}

async function stateOf(pool: Pool): Promise<Found> {
  const plan = STYLES[pool.style].state(pool);
  const { reading, pool: read } = plan.read(await reader.calls(plan.calls, "latest"));
  return { pool: read, reading: reading as Reading };
}

function pricedPool({ pool: { id, key, factory, token1 }, reading }: Found): PricedPool {
  if (key !== undefined) {
    return { by: "manager", pool: id as Hash, manager: factory, key: { ...key, currency1: token1 } };
  }
  return { by: reading.style === "v2" ? "reserves" : "root", pool: id as Address };
}

/** Whole tokens at the end of the route for one whole `from`, as the service computes it. */
function priceAlong(from: Address, route: readonly Found[], places: ReadonlyMap<Address, number>): Rational {
  let [price, own] = [ONE, from];
  for (const { pool, reading } of route) {
    const [decimals0, decimals1] = [pool.token0, pool.token1].map((token) => places.get(token) as number) as [
      number,
      number,
    ];
    const forward = priceOfToken0(pool, reading, { decimals0, decimals1 }) as Rational;
    price = multiply(price, own === pool.token0 ? forward : invert(forward));
    own = own === pool.token0 ? pool.token1 : pool.token0;
  }
  return price;
}

interface Proven {
  readonly subject: PriceSubject;
  readonly document: StateDocument;
}

async function prove(token: Address, route: readonly Found[], coinRoute: readonly Found[] | null): Promise<Proven> {
  const traded = [...route, ...(coinRoute ?? [])].flatMap(({ pool }) => [pool.token0, pool.token1]);
  const subject = {
    ...{ token, coin: wrapped, route: route.map(pricedPool), coinRoute: coinRoute?.map(pricedPool) ?? null },
    tokens: [...new Set(traded)],
  };
  const block = Number(await anvil.send("eth_blockNumber"));
  const document = await tested.prover.prove({ kind: "price", subject, block, hash: undefined });
  return { subject, document };
}

/** Pools of one exchange: a token against a dollar and against the coin, and the coin against the dollar. */
interface Placed {
  readonly token: Address;
  readonly direct: Found;
  readonly toCoin: Found;
  readonly coinDollar: Found;
  readonly places: ReadonlyMap<Address, number>;
}

async function placeAll(exchange: MadeExchange, stable = false): Promise<Placed> {
  const [token, dollar] = [await newToken(anvil), await newToken(anvil, stable ? 18 : 6)];
  const wish = stable
    ? ({ price: [1n, 1n], liquidity: 10n ** 21n, stable } as const)
    : ({ price: [3n, 2n], liquidity: 10n ** 23n } as const);
  return {
    token,
    direct: await placed(exchange, { ...wish, tokenA: token, tokenB: dollar }),
    toCoin: await placed(exchange, { ...wish, tokenA: token, tokenB: wrapped }),
    coinDollar: await placed(exchange, { ...wish, tokenA: wrapped, tokenB: dollar }),
    places: new Map([
      ...([token, wrapped] as const).map((one) => [one, 18] as const),
      [dollar, stable ? 18 : 6] as const,
    ]),
  };
}

const COIN_UNIT = { n: 10n ** 18n, d: 1n };

async function assertPrices({ token, direct, toCoin, coinDollar, places }: Placed): Promise<void> {
  const oneHop = await prove(token, [direct], [coinDollar]);
  const usd = priceAlong(token, [direct], places);
  const coin = priceAlong(wrapped, [coinDollar], places);
  const native = truncate(multiply(divide(usd, coin), COIN_UNIT)).toString();
  const verified = await verifyProof(JSON.stringify(oneHop.document));
  expect(verified.result).toMatchObject({ usdPrice: format(usd), nativePrice: native });
  expect(verified.claim).toContain(`is worth ${format(usd)} US dollars by ${direct.pool.id}`);

  const twoHops = await prove(token, [toCoin, coinDollar], null);
  const way = priceAlong(token, [toCoin, coinDollar], places);
  const inCoin = truncate(multiply(priceAlong(token, [toCoin], places), COIN_UNIT)).toString();
  const { result } = await verifyProof(JSON.stringify(twoHops.document));
  expect(result).toMatchObject({ usdPrice: format(way), nativePrice: inCoin, coinDollar: null });
}

describe.each(EXCHANGES_OF_STYLES)("%s", (name, make) => {
  test("has prices that follow from their proof to the last digit, over one and two hops", async () => {
    const exchange = await make(anvil, wrapped);
    await assertPrices(await placeAll(exchange));
    if (name.startsWith("Solidly")) await assertPrices(await placeAll(exchange, true));
  });
});

test("a pair that sets its own curve, as Camelot's, is proven with it", async () => {
  const [tokenA, tokenB] = [await newToken(anvil), await newToken(anvil)];
  await placeV2Factory(anvil, `0x${"ca".repeat(20)}` as Address, "v2-camelot");
  const amounts = { tokenA, tokenB, amountA: 3_000n * 10n ** 18n, amountB: 2_000n * 10n ** 18n };
  const { address, token0, token1 } = await createCamelotPair(anvil, `0x${"ca".repeat(20)}`, amounts);
  const [first, second] = [token0, token1].map((one) => one.toLowerCase()) as [Address, Address];
  const made = { id: address.toLowerCase() as Address, factory: `0x${"ca".repeat(20)}` as Address, stableCurve: false };
  const pool: Pool = {
    ...made,
    ...{ style: "v2-camelot", fee: 0, token0: first, token1: second, exchange: "", rank: 0 },
  };
  const found = await stateOf(pool);
  const { document } = await prove(tokenA, [found], null);
  const expected = priceAlong(
    tokenA,
    [found],
    new Map([
      [first, 18],
      [second, 18],
    ]),
  );
  expect((await verifyProof(document)).result["usdPrice"]).toBe(format(expected));
});

describe("a forged price", () => {
  let placedPools: Placed;
  let honest: Proven;

  beforeAll(async () => {
    const [, make] = EXCHANGES_OF_STYLES[0] as (typeof EXCHANGES_OF_STYLES)[number];
    placedPools = await placeAll(await make(anvil, wrapped));
    honest = await prove(placedPools.token, [placedPools.direct], [placedPools.coinDollar]);
  });

  const refusalOf = (document: unknown): Promise<string> =>
    verifyProof(document).then(
      () => "accepted",
      (error: Error) => error.message,
    );

  test("can't name one pool and carry another's state", async () => {
    const { document, subject } = honest;
    const other = pricedPool(placedPools.toCoin);
    expect(await refusalOf({ ...document, subject: { ...subject, route: [other] } })).not.toBe("accepted");
    const calls = document.calls.map((call) => ({
      ...call,
      to: call.to === subject.route[0]?.pool ? other.pool : call.to,
    }));
    expect(await refusalOf({ ...document, calls })).toContain("calls differs");
  });

  test("can't give a managed pool a key that makes another id", async () => {
    const key = { currency0: wrapped, currency1: placedPools.token, fee: 1, spacing: 1, hooks: `0x${"00".repeat(20)}` };
    const managed = { by: "manager", pool: `0x${"12".repeat(32)}`, manager: wrapped, key };
    const subject = { ...honest.subject, route: [managed] };
    expect(await refusalOf({ ...honest.document, subject })).toContain("makes another id");
  });

  test("can't claim another price or other words", async () => {
    const { document } = honest;
    expect(await refusalOf({ ...document, result: { ...document.result, usdPrice: "2" } })).toContain("result differs");
    expect(await refusalOf({ ...document, claim: document.claim.replace("US dollars", "euros") })).toContain(
      "claim differs",
    );
  });

  test("can't walk through pools that don't trade the token, or list tokens that no pool trades", async () => {
    const { document, subject } = honest;
    const { route } = subject;
    expect(await refusalOf({ ...document, subject: { ...subject, token: wrapped, route } })).toContain(
      "does not trade",
    );
    const tokens = [...subject.tokens, subject.tokens[0]];
    expect(await refusalOf({ ...document, subject: { ...subject, tokens } })).not.toBe("accepted");
  });
});
