/** A price with what is known of it: its block, its change, and how far it can be trusted. */
import type { AsOf, TokenPrice } from "../../client/index.ts";
import { clock, exactly, percent, plain, sentenceOf, shortened, whole } from "../parts/format.ts";
import { Fact } from "../parts/parts.tsx";

interface PriceOptions {
  readonly price: TokenPrice & { readonly asOf: AsOf | null };
}

/** The price itself, and the block that it is of. */
export function PriceAmount({ price: { usdPriceFormatted, toBlock, asOf } }: PriceOptions) {
  return (
    <>
      <p class="amount">${shortened(usdPriceFormatted)}</p>
      <p class="exact quiet">exactly ${usdPriceFormatted}</p>
      <p class="exact">
        Block {whole(Number(toBlock))}
        {asOf?.time == null ? "" : `, ${clock(asOf.time)}`}
      </p>
    </>
  );
}

export function PriceFacts({ price }: PriceOptions) {
  const { nativePrice, exchangeName, provenance } = price;
  const change = price["24hrPercentChange"];
  return (
    <>
      <dl>
        <Fact name="In the native coin">
          {nativePrice === null
            ? "not known"
            : `${exactly(`${nativePrice.value}e-${nativePrice.decimals}`)} ${plain(nativePrice.symbol, 12)}`}
        </Fact>
        <Fact name="Exchange">{plain(exchangeName, 60) || "none"}</Fact>
        <Fact name="Change over 24 hours">
          {change === undefined ? "no price then" : <span title={`${change} %`}>{changeText(change)}</span>}
        </Fact>
        <Fact name="30-minute average">
          {provenance?.twap30m == null ? (
            "not known"
          ) : (
            <span title={`$${provenance.twap30m}`}>${shortened(provenance.twap30m)}</span>
          )}
        </Fact>
      </dl>
      {provenance === undefined ? null : <Trust provenance={provenance} />}
    </>
  );
}

/** What spread, depth and confidence mean, in a sentence each. */
function Trust({ provenance }: { readonly provenance: NonNullable<TokenPrice["provenance"]> }) {
  const { confidence, spreadPercent, liquidityUsd, factsOf, limitedBy, disputedStablecoins = [] } = provenance;
  return (
    <p>
      The pool with the least liquidity on the route holds ${shortened(liquidityUsd)} on its smaller side. The prices of
      other routes differ by {percent(Number(spreadPercent) / 100)}. Confidence: {percent(Number(confidence))}
      {Number(confidence) <= 0.5 ? ": treat this price with care." : "."}
      {limitedBy === undefined ? "" : ` ${sentenceOf(plain(limitedBy, 300))}`}
      {factsOf === "newest" ? " The node lacks the state of this block: name, symbol and decimals are today's." : ""}
      {disputedStablecoins.length === 0
        ? ""
        : ` ${disputedStablecoins.map(({ symbol }) => plain(symbol, 12)).join(", ")}: off the dollar by more than other stablecoins.`}
    </p>
  );
}

/** `+11.42 %`. */
const changeText = (text: string): string =>
  new Intl.NumberFormat("en-US", { style: "percent", maximumFractionDigits: 2, signDisplay: "exceptZero" }).format(
    Number(text) / 100,
  );
