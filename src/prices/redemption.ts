/**
 * What a token can be redeemed for by its own contract: a vault's share (ERC-4626), Lido's wstETH, Rocket Pool's rETH. It
 * is shown beside the market's price and never ranks, since redeeming may take days, or be closed.
 */
import type { Chain } from "../chains/chains.ts";
import { AppError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Call, CallResult, ChainReader } from "../rpc/port.ts";
import { dollars } from "./market/market.ts";
import type { Quote } from "./market/quote.ts";
import { multiply, ONE, powerOfTen, type Rational, rational } from "./market/rational.ts";
import { addressAnswer, answer, call, signedWord } from "./styles/abi.ts";

export interface Redemption {
  readonly standard: "ERC-4626" | "wstETH" | "rETH";
  readonly asset: Address;
  /** Whole units of the asset for one whole token. */
  readonly assets: Rational;
  /** US dollars for one whole token; undefined if the asset is neither a dollar nor the native coin. */
  readonly usd: Rational | undefined;
}

/** What a contract says of itself, in raw units of the asset for raw units of the token. */
interface RedemptionRate {
  readonly standard: Redemption["standard"];
  readonly asset: Address;
  readonly rate: Rational;
}

/** Lido's `stEthPerToken` and Rocket Pool's `getExchangeRate` are for one whole token of 18 decimals. */
const PER_WHOLE = 10n ** 18n;

function rateIn(
  [asset, assets, perToken, steth, exchangeRate]: readonly CallResult[],
  shares: bigint,
  chain: Chain,
): RedemptionRate | undefined {
  const [vaultAsset, inAssets] = [addressAnswer(asset), answer(assets)];
  if (vaultAsset !== undefined && inAssets !== undefined) {
    return { standard: "ERC-4626", asset: vaultAsset, rate: rational(inAssets, shares) };
  }
  const [lido, inSteth, inCoin] = [addressAnswer(steth), answer(perToken), answer(exchangeRate)];
  if (lido !== undefined && inSteth !== undefined) {
    return { standard: "wstETH", asset: lido, rate: rational(inSteth, PER_WHOLE) };
  }
  if (inCoin === undefined) return undefined;
  return { standard: "rETH", asset: chain.wrappedNative.address, rate: rational(inCoin, PER_WHOLE) };
}

/** Reads what the quoted token says at the quote's block; undefined if it says nothing, or the state is not there. */
export async function redemptionOf(
  reader: ChainReader,
  { market, token, usd, native }: Quote,
): Promise<Redemption | undefined> {
  const { chain, block, facts } = market;
  if (facts.decimals === undefined) return undefined;
  // One whole share: a vault may refuse more than it has, and rounds a small part of a share away.
  const shares = 10n ** BigInt(facts.decimals);
  const read = (calls: readonly Call[]) => reader.callsAtBlock(calls, block).then(({ results }) => results);
  try {
    const said = await read([
      call(token, "asset()"),
      call(token, "convertToAssets(uint256)", signedWord(shares)),
      call(token, "stEthPerToken()"),
      call(token, "stETH()"),
      call(token, "getExchangeRate()"),
    ]);
    const rate = rateIn(said, shares, chain);
    if (rate === undefined) return undefined;
    const known = market.decimals.get(rate.asset);
    const places = known === undefined ? answer((await read([call(rate.asset, "decimals()")]))[0]) : BigInt(known);
    if (places === undefined || places > MAX_PLACES) return undefined;
    const assets = multiply(rate.rate, powerOfTen(facts.decimals - Number(places)));
    const isDollar = dollars(market).some(({ address }) => address === rate.asset);
    const isCoin = rate.asset === chain.wrappedNative.address && native !== undefined && native.n > 0n;
    const assetUsd = isDollar ? ONE : isCoin ? multiply(usd, rational(native.d, native.n)) : undefined;
    return { standard: rate.standard, asset: rate.asset, assets, usd: assetUsd && multiply(assets, assetUsd) };
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

/** More decimals than any token has. */
const MAX_PLACES = 77n;
