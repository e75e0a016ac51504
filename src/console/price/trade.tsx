/** What a trade of a token gives, by the depth of its pools. */
import type { TokenPrice } from "../../client/index.ts";
import { percent, plain, sentenceOf, shortened, whole } from "../parts/format.ts";
import { Fact, Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import type { Where } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";

/** The size of the trade that is shown, in US dollars. */
const TRADE_USD = 1_000;

/** What a holder would get. Asked for apart, because it takes the service more requests than the price. */
export function TradePanel({ chain, address, block }: Where & { readonly block: number | undefined }) {
  const { client } = useSession();
  const query = { chain, include: ["depth"], size_usd: TRADE_USD, to_block: block };
  const trade = useQuery(["trade", chain, address, block], (signal) => client.price(address, { ...query, signal }));
  return (
    <Panel title={`Trading $${whole(TRADE_USD)} of it`}>
      <QueryView of={trade} loading="Computing what a trade gives…">
        {(value) => <Trade {...value} />}
      </QueryView>
    </Panel>
  );
}

function Trade({ depth, why, tokenSymbol }: Pick<TokenPrice, "depth" | "why" | "tokenSymbol">) {
  if (depth == null) return <p>Not known{why === undefined ? "" : `: ${plain(why, 300)}`}.</p>;
  const { sell, buy, impactPercent, move2PercentUsd, sellable, why: more } = depth;
  const sale = sellable === null ? "not known" : sellable ? "went through" : "failed";
  return (
    <>
      <dl>
        <Fact name="A sale gives">
          {sell === null ? (
            "not known"
          ) : (
            <span title={`$${sell}`}>
              ${shortened(sell)}, {percent(Number(impactPercent) / 100)} less
            </span>
          )}
        </Fact>
        <Fact name="A purchase gives">
          {buy === null ? (
            "not known"
          ) : (
            <span title={buy}>
              {shortened(buy)} {plain(tokenSymbol, 20)}
            </span>
          )}
        </Fact>
        <Fact name="Moving the price by 2 % takes">${shortened(move2PercentUsd)}</Fact>
        <Fact name="A simulated sale">{sale}</Fact>
      </dl>
      {more === undefined ? null : <p class="quiet">{sentenceOf(plain(more, 300))}</p>}
    </>
  );
}
