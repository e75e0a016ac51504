/** A price: what it is, the pools that it comes from, and what it was before. */

import { useLayoutEffect } from "preact/hooks";
import { type AsOf, ServiceError, type SkippedPool, type TokenPrice } from "../../client/index.ts";
import { AddressOn } from "../address/address.tsx";
import { ContractForm } from "../parts/address-form.tsx";
import { useChains } from "../parts/chain-menu.tsx";
import { Twin } from "../parts/curl.tsx";
import { brief, isAddress, plain } from "../parts/format.ts";
import { AddressLink } from "../parts/identifier.tsx";
import { LongHeading } from "../parts/long-heading.tsx";
import { ChainNotice } from "../parts/notice.tsx";
import { Panel } from "../parts/parts.tsx";
import { Failure, QueryView } from "../parts/query-view.tsx";
import { Table } from "../parts/table.tsx";
import { blockIn, goTo, linkTo, useParameters, type Where } from "../state/place.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { quoted } from "../state/requests.ts";
import { useSession } from "../state/session.ts";
import { BlockForm } from "./block-form.tsx";
import { PriceAmount, PriceFacts } from "./price-facts.tsx";
import { PastPrices } from "./price-history.tsx";
import { Origin } from "./route.tsx";
import { noteToken } from "./seen-tokens.ts";
import { TokenChoice } from "./tokens.tsx";
import { TradePanel } from "./trade.tsx";

interface ScreenOptions {
  /** The chain of the link; undefined for the first one that is enabled. */
  readonly chain: string | undefined;
  readonly address: string;
}

export function PriceScreen({ chain, address }: ScreenOptions) {
  const chains = useChains();
  const isChosen = chain !== undefined && isAddress(address);
  const form = (
    <ContractForm
      {...{ id: "token", label: "Token", action: "Show", chains, chain }}
      wrong="A token's address has 0x and 40 hexadecimal digits. The search finds tokens by symbol."
      onContract={(token) => goTo(linkTo.price(token.chain, token.address))}
    />
  );
  if (!isChosen) {
    return (
      <>
        <h1>Prices</h1>
        {chain === undefined ? null : <ChainNotice chain={chain} />}
        {form}
        <TokenChoice {...{ chains, chain }} />
      </>
    );
  }
  return (
    <>
      <PriceOf chain={chain} address={address} />
      <Panel title="Another token">{form}</Panel>
    </>
  );
}

function PriceOf({ chain, address }: Where) {
  const { client } = useSession();
  const [parameters, change] = useParameters();
  const block = blockIn(parameters);
  const query = { chain, include: ["provenance", "percent_change"], to_block: block };
  const price = useQuery(["price", chain, address, block], (signal) => client.price(address, { ...query, signal }), {
    keepsFormer: true,
  });
  const command = `price ${address} --chain ${quoted(chain)}${block === undefined ? "" : ` --block ${block}`}`;
  const show = (chosen: number | undefined) => change({ block: chosen?.toString() });
  const token = readyValue(price);
  return (
    <>
      <LongHeading name={token?.tokenName ?? ""} none={`Price of ${brief(address)}`} symbol={token?.tokenSymbol} />
      <p>
        {chain} · <AddressLink value={address} chain={chain} />
      </p>
      <BlockForm key={block ?? "newest"} {...{ chain, address, block }} onBlock={show} />
      <ChainNotice chain={chain} />
      <QueryView
        of={price}
        loading="Asking for the price…"
        refused={(error) => <Refused {...{ error, chain, address }} />}
      >
        {(value) => <Shown price={value} {...{ chain, address, block }} onBlock={show} />}
      </QueryView>
      <Twin commands={[command]} />
    </>
  );
}

interface ShownOptions extends Where {
  readonly price: TokenPrice & { readonly asOf: AsOf | null };
  readonly block: number | undefined;
  readonly onBlock: (block: number) => void;
}

function Shown({ price, chain, address, block, onBlock }: ShownOptions) {
  const { tokenSymbol: symbol, tokenName: name, provenance, asOf } = price;
  useLayoutEffect(() => noteToken({ chain, address, symbol, name }), [chain, address, symbol, name]);
  return (
    <>
      <article>
        <PriceAmount price={price} />
        {asOf?.time == null ? null : <PastPrices {...{ chain, address, onBlock }} until={asOf.time} />}
        <PriceFacts price={price} />
      </article>
      {provenance === undefined || provenance.route.length === 0 ? null : <Origin price={price} chain={chain} />}
      <TradePanel {...{ chain, address, block }} />
    </>
  );
}

/** Why there is no price, with what the service found at each pool. */
function Refused({ error, chain, address }: Where & { readonly error: Error }) {
  const { code, details } = error instanceof ServiceError ? error : { code: undefined, details: undefined };
  // The failure itself says why a token has no price, and the notice what is wrong with the chain.
  const isOther = code === "not_a_token" || code === "not_a_contract" || code === "chain_not_enabled";
  return (
    <>
      <Failure error={error} />
      {isOther ? <AddressOn {...{ chain, address }} /> : null}
      <Table
        label="Pools that were refused"
        columns={[
          { title: "Exchange", cell: ({ exchange }) => plain(exchange) },
          { title: "Pool", cell: ({ pool }) => <AddressLink value={pool} chain={chain} /> },
          { title: "Why it is not used", cell: reasonText },
        ]}
        rows={details?.pools ?? []}
        keyOf={({ pool, reason }) => `${pool} ${reason}`}
        none={null}
      />
    </>
  );
}

function reasonText({ reason, liquidityUsd, minLiquidityUsd }: SkippedPool): string {
  const depth = liquidityUsd === undefined ? "" : `: its smaller side has $${liquidityUsd}`;
  return `${reason.replaceAll("_", " ")}${depth}${minLiquidityUsd === undefined ? "" : `, the least is $${minLiquidityUsd}`}`;
}
