/** The proof of a price: what it is about, from the provenance of the answer, and that it says the same as the answer. */
import type { Chain } from "../../chains/chains.ts";
import { Refusal } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { PriceRecord, RouteLeg } from "../../prices/models.ts";
import type { PriceAnswer } from "../../prices/price-computer.ts";
import type { TokenProofs } from "../../proof/token-proofs.ts";
import type { StateDocument } from "../../proof/verifier/document.ts";
import type { PricedPool, PriceSubject } from "../../proof/verifier/price-claim.ts";

/**
 * @throws Refusal `state_unavailable` if the price rests on no pool, the state can't be proven, or gives another price: a
 *   price of the past may rest on logs alone
 */
export async function proofOfPrice(
  { record, asOf }: Pick<PriceAnswer, "record" | "asOf">,
  chain: Chain,
  proofs: Pick<TokenProofs, "prove">,
): Promise<StateDocument> {
  const subject = subjectOf(record, chain);
  if (subject.route.length === 0) throw refused("no pool measures this price, so there is no state to prove it by");
  const document = await proofs.prove({ kind: "price", subject, block: asOf.number, hash: asOf.hash });
  const { usdPrice, nativePrice } = document.result;
  const isSame = usdPrice === record.usdPriceFormatted && nativePrice === (record.nativePrice?.value ?? null);
  if (isSame) return document;
  throw refused("the state of the pools at this block gives another price than the answer, which rests on their logs");
}

const refused = (reason: string): Refusal =>
  new Refusal("state_unavailable", `include=proof: this can't be proven: ${reason}`);

function subjectOf({ tokenAddress, nativePrice, provenance }: PriceRecord, chain: Chain): PriceSubject {
  const coin = chain.wrappedNative.address;
  const route = provenance?.route ?? [];
  const passesCoin = tokenAddress === coin || route.some(({ token0, token1 }) => token0 === coin || token1 === coin);
  const coinRoute = passesCoin || nativePrice === null ? [] : (provenance?.nativeRoute ?? []);
  const traded = [...route, ...coinRoute].flatMap(({ token0, token1 }) => [token0, token1]);
  return {
    token: tokenAddress as Address,
    coin,
    route: route.map(pooled),
    coinRoute: coinRoute.length === 0 ? null : coinRoute.map(pooled),
    tokens: [...new Set(traded)] as Address[],
  };
}

function pooled({ pool, factory, key, reserve0, token1 }: RouteLeg): PricedPool {
  if (key === undefined) return { by: reserve0 === undefined ? "root" : "reserves", pool: pool as Address };
  const { currency0, fee, spacing, hooks } = key;
  const keyed = {
    currency0: currency0 as Address,
    currency1: token1 as Address,
    fee,
    spacing,
    hooks: hooks as Address,
  };
  return { by: "manager", pool: pool as Hash, manager: factory as Address, key: keyed };
}
