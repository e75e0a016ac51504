/** Where a price comes from: its pools with what they hold, and the same number computed by this browser. */
import { useState } from "preact/hooks";
import type { PoolState, TokenPrice } from "../../client/index.ts";
import { brief, exactly, percent, plain, shortened, whole } from "../parts/format.ts";
import { AddressLink, Transaction } from "../parts/identifier.tsx";
import { Panel } from "../parts/parts.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { linkTo } from "../state/place.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { leadingDigits, nearest, type PriceStep, reservesOf, stepsOf, times, usdOf } from "./recompute.ts";

/** Digits shown of the recomputed fraction. */
const PLACES = 30;

export function Origin({ price, chain }: { readonly price: TokenPrice; readonly chain: string }) {
  const route = price.provenance?.route ?? [];
  const nameOf = useCoinNames(price, chain);
  let steps: PriceStep[] = [];
  try {
    steps = stepsOf(price.tokenAddress, route);
  } catch {
    // A route that can't be followed is told by the check.
  }
  const shares = sharesOf(steps);
  return (
    <Panel title="Where this price comes from">
      <ol class="route" aria-label="Route from the token to the dollar">
        {steps.map(({ pool, from, to, rate }, at) => (
          <li key={pool.pool}>
            <span class="coin">{nameOf(from)}</span>
            <span class="pool">
              <strong>{plain(pool.exchange, 30)}</strong>
              <span>
                1 {nameOf(from)} = {shortened(leadingDigits(rate, 12))} {nameOf(to)}
              </span>
              <small>{heldText(pool, nameOf)}</small>
              <small>
                {steps.length === 1 ? "all of the route's depth" : `${percent(shares[at] ?? 0)} of the route's depth`}
              </small>
            </span>
          </li>
        ))}
        <li>
          <span class="coin">$</span>
        </li>
      </ol>
      {steps.length === 0 ? null : (
        <p class="quiet">
          {nameOf(steps.at(-1)?.to ?? "")} counts as one dollar. The pool with the least liquidity decides how far the
          price can be trusted.
        </p>
      )}
      <Recomputed price={price} />
      <Table
        label="States of the pools"
        columns={columnsOf(chain, nameOf)}
        rows={[...route, ...(price.provenance?.nativeRoute ?? [])]}
        keyOf={({ pool }) => pool}
        none={null}
      />
    </Panel>
  );
}

/** The price as this browser computes it, beside the one of the service. */
function Recomputed({ price }: { readonly price: TokenPrice }) {
  const [check, setCheck] = useState<string>();
  const isSame = check === price.usdPriceFormatted;
  const compute = () => {
    try {
      setCheck(exactly(String(nearest(usdOf(price)))));
    } catch (error) {
      setCheck((error as Error).message);
    }
  };
  return (
    <p class="row">
      <button type="button" onClick={compute}>
        Recompute here
      </button>
      {check === undefined ? (
        <span class="quiet">Your browser computes the price again from the pool states below, in whole numbers.</span>
      ) : (
        <span role="status" class={isSame ? "good" : "bad"} data-check={isSame ? "same" : "different"}>
          {isSame ? "✓ the same to the last digit: " : "✗ it differs: "}
          {isSame ? `$${check} (${leadingDigits(usdOf(price), PLACES)}…)` : check}
        </span>
      )}
    </p>
  );
}

type CoinName = (address: string) => string;

/** Names the tokens of a route: the priced one by its own symbol, and well-known ones by theirs. */
function useCoinNames({ tokenAddress, tokenSymbol, provenance }: TokenPrice, chain: string): CoinName {
  const { client } = useSession();
  const pools = [...(provenance?.route ?? []), ...(provenance?.nativeRoute ?? [])];
  const others = new Set(pools.flatMap(({ token0, token1 }) => [token0, token1]));
  others.delete(tokenAddress);
  const addresses = [...others].sort();
  const symbols = useQuery(["symbols", chain, ...addresses], async (signal) => {
    const found = await Promise.all(addresses.map((address) => client.findTokens(address, { signal })));
    return new Map(found.flat().flatMap((one) => (one.chain === chain ? [[one.address, one.symbol]] : [])));
  });
  const known = readyValue(symbols);
  return (address) => plain(address === tokenAddress ? tokenSymbol : (known?.get(address) ?? ""), 12) || brief(address);
}

/**
 * The share of each pool in the depth of the whole route. The depth of a pool is what it holds of the token that it gives, in
 * dollars by the rates of the steps after it.
 */
function sharesOf(steps: readonly PriceStep[]): number[] {
  const depths = steps.map(({ pool, from }, at) => {
    const [first, second] = reservesOf(pool);
    const held = pool.token0 === from ? second : first;
    if (held === undefined) return 0;
    const inDollars = steps.slice(at + 1).reduce((sum, { rate }) => times(sum, rate), held);
    return nearest(inDollars);
  });
  const all = depths.reduce((sum, depth) => sum + depth, 0);
  return depths.map((depth) => (all === 0 ? 0 : depth / all));
}

/** What a pool holds of its two tokens; with concentrated liquidity, what it would hold at this price over all prices. */
function heldText(pool: PoolState, nameOf: CoinName): string {
  const [first, second] = reservesOf(pool);
  if (first === undefined || second === undefined) return "";
  const [held0, held1] = [first, second].map((held) => shortened(leadingDigits(held, 6)));
  return `holds ${held0} ${nameOf(pool.token0)} and ${held1} ${nameOf(pool.token1)}`;
}

function columnsOf(chain: string, nameOf: CoinName): readonly TableColumn<PoolState>[] {
  const link = (token: string) => (
    <a href={linkTo.price(chain, token)} title={token}>
      {nameOf(token)}
    </a>
  );
  return [
    { title: "Exchange", cell: ({ exchange }) => plain(exchange, 40) },
    { title: "Pool", cell: ({ pool }) => <AddressLink value={pool} chain={chain} /> },
    { title: "Fee", cell: ({ fee }) => `${fee / 10_000} %` },
    {
      title: "Tokens",
      cell: ({ token0, token1 }) => (
        <>
          {link(token0)} / {link(token1)}
        </>
      ),
    },
    {
      title: "State",
      cell: ({ reserve0, reserve1, sqrtPriceX96, liquidity }) => (
        <code>
          {sqrtPriceX96 === undefined
            ? `${reserve0} / ${reserve1}`
            : `sqrtPriceX96 ${sqrtPriceX96}, liquidity ${liquidity ?? "?"}`}
        </code>
      ),
    },
    { title: "Block", cell: ({ block }) => whole(block) },
    {
      title: "Transaction",
      cell: ({ transactionHash: hash }) =>
        hash === undefined ? "read from the pool" : <Transaction value={hash} chain={chain} />,
    },
  ];
}
