/** ERC-20 tokens to choose from: those that the service knows, and those that this browser looked at last. */
import { useState } from "preact/hooks";
import { ChainMenu, useChainChoice } from "../parts/chain-menu.tsx";
import { Filter } from "../parts/fields.tsx";
import { brief, plain } from "../parts/format.ts";
import { AddressLink } from "../parts/identifier.tsx";
import { Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { linkTo } from "../state/place.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { seenTokens, type ViewedToken } from "./seen-tokens.ts";

const COLUMNS: readonly TableColumn<ViewedToken>[] = [
  {
    title: "Token",
    isName: true,
    cell: ({ chain, address, symbol, name }) => (
      <>
        <a href={linkTo.price(chain, address)}>{plain(symbol, 20)}</a> <small>{plain(name ?? "", 60)}</small>
      </>
    ),
  },
  { title: "Chain", cell: ({ chain }) => chain },
  { title: "Address", cell: ({ address, chain }) => <AddressLink value={address} chain={chain} /> },
];

/** The tokens with their addresses. */
export const KnownTokenTable = ({ rows }: { readonly rows: readonly ViewedToken[] }) => (
  <Table
    label="ERC-20 tokens"
    columns={COLUMNS}
    rows={rows}
    keyOf={({ chain, address }) => `${chain}/${address}`}
    none="No known token has this in its address, name or symbol. Any token is found by its whole address."
  />
);

interface TokenChoiceOptions {
  /** The enabled chains. */
  readonly chains: readonly string[];
  /** The chain of the link; undefined for the first one. */
  readonly chain: string | undefined;
}

/** Where the prices begin: the tokens that were looked at last, and those that the service knows. */
export function TokenChoice(options: TokenChoiceOptions) {
  const seen = seenTokens();
  return (
    <>
      {seen.length === 0 ? null : (
        <Panel title="Recently viewed">
          <TokenGrid label="Recently viewed tokens" tokens={seen} hasChain={true} />
        </Panel>
      )}
      <KnownTokens {...options} />
    </>
  );
}

/** The most that the service lists at once. */
const MOST_LISTED = 500;

/** The well-known tokens of a chain, and those of the operator's token lists. */
function KnownTokens({ chains, chain: first }: TokenChoiceOptions) {
  const { client } = useSession();
  const [chain, setChain] = useChainChoice(chains, first);
  const [text, setText] = useState("");
  const known = useQuery(["tokens", text], (signal) => client.findTokens(text, { limit: MOST_LISTED, signal }));
  return (
    <Panel title="Known tokens">
      <p class="row">
        <ChainMenu id="known-chain" {...{ chains, chain }} onChain={setChain} />
        <Filter id="known-text" value={text} onInput={setText} />
      </p>
      <QueryView of={known} loading="Asking for the known tokens…">
        {(all) => <TokensOfChain tokens={all.filter((one) => one.chain === chain)} chain={chain} />}
      </QueryView>
      {readyValue(known)?.length === MOST_LISTED ? (
        <p class="quiet">The service lists {MOST_LISTED} tokens of all chains at once. The filter finds the others.</p>
      ) : null}
    </Panel>
  );
}

function TokensOfChain({ tokens, chain }: { readonly tokens: readonly ViewedToken[]; readonly chain: string }) {
  if (tokens.length > 0) return <TokenGrid label="Known tokens" tokens={tokens} />;
  return (
    <p>
      No known token of {plain(chain)} has this in its address, name or symbol. Enter its address above: any token has
      its price there.
    </p>
  );
}

interface GridOptions {
  readonly label: string;
  readonly tokens: readonly ViewedToken[];
  /** True for tokens of several chains. */
  readonly hasChain?: boolean;
}

/** Links to the prices of tokens. */
function TokenGrid({ label, tokens, hasChain = false }: GridOptions) {
  return (
    <ul class="tokens" aria-label={label}>
      {tokens.map(({ chain, address, symbol, name }) => (
        <li key={`${chain}/${address}`}>
          <a href={linkTo.price(chain, address)}>
            <strong>{plain(symbol, 20)}</strong> <small>{hasChain ? chain : ""}</small>
            <br />
            <small>{plain(name ?? "", 40) || brief(address)}</small>
          </a>
        </li>
      ))}
    </ul>
  );
}
