/**
 * The search: a text is the address of a contract, on each chain; or a part of a name or a symbol; or nothing that can be
 * found here, and then the screen says what to do.
 */
import { useState } from "preact/hooks";
import { CHAIN_NAMES, type Client } from "../../client/index.ts";
import { AddressOn } from "../address/address.tsx";
import { CollectionTable } from "../parts/collection-table.tsx";
import { isAddress, plain } from "../parts/format.ts";
import { Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { KnownTokenTable } from "../price/tokens.tsx";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { OtherMeaning } from "./other-meaning.tsx";

/** Rows of a search. */
const MOST_FOUND = 50;

export function SearchScreen({ text }: { readonly text: string }) {
  const { client, scope } = useSession();
  const query = text.trim();
  const isOperator = scope === "operate";
  const tokens = useQuery(["search", "tokens", query], (signal) =>
    client.findTokens(query, { limit: MOST_FOUND, signal }),
  );
  return (
    <>
      <h1>Search: {plain(query)}</h1>
      {isAddress(query) ? <AddressPanel address={query.toLowerCase()} /> : <OtherMeaning text={query} />}
      {isOperator ? <CollectionsPanel query={query} /> : null}
      <Panel title="ERC-20 tokens">
        <QueryView of={tokens} loading="Looking among the known tokens…">
          {(rows) => <KnownTokenTable rows={rows} />}
        </QueryView>
      </Panel>
      {!isAddress(query) && !isOperator ? (
        <p>This key finds collections by their address. Only a key of scope operate may list what is known.</p>
      ) : null}
    </>
  );
}

function CollectionsPanel({ query }: { readonly query: string }) {
  const { client } = useSession();
  const collections = useQuery(["search", "collections", query], (signal) =>
    client.collectionPage({ text: query, limit: MOST_FOUND, signal }),
  );
  return (
    <Panel title="Known collections">
      <QueryView of={collections} loading="Looking among the known collections…">
        {({ result }) => (
          <CollectionTable rows={result} none="No collection has this in its address, name or symbol." />
        )}
      </QueryView>
    </Panel>
  );
}

/** The chains to ask about an address without a question, and the others. */
interface ChainsToAsk {
  readonly first: readonly string[];
  readonly others: readonly string[];
}

/** Only chains in use are asked: a question would wake the published endpoints of the others. */
async function chainsToAsk(client: Client, isOperator: boolean, address: string, signal: AbortSignal) {
  const all = Object.values(CHAIN_NAMES);
  const split = (first: readonly string[], known: readonly string[]): ChainsToAsk => ({
    first,
    others: [...new Set([...known, ...all])].filter((chain) => !first.includes(chain)),
  });
  if (!isOperator) {
    const tokens = await client.findTokens(address, { signal });
    return split([...new Set([...tokens.map(({ chain }) => chain), "eth"])], []);
  }
  const { chains } = await client.status({ signal });
  const known = chains.map(({ name }) => name);
  const used = chains.filter(({ head }) => head !== null).map(({ name }) => name);
  return split(used.length > 0 ? used : known.slice(0, 1), known);
}

/** What an address is on the chains in use. The others are asked on demand: a chain can't be told from an address. */
function AddressPanel({ address }: { readonly address: string }) {
  const { client, scope } = useSession();
  const [more, setMore] = useState<readonly string[]>([]);
  const chains = useQuery(["search", "chains", address], (signal) =>
    chainsToAsk(client, scope === "operate", address, signal),
  );
  return (
    <Panel title="This address">
      <QueryView of={chains} loading="Asking which chains are in use…">
        {({ first, others }) => (
          <>
            <ul>
              {[...first, ...more].map((chain) => (
                <li key={chain}>
                  <strong>{chain}</strong> <AddressOn {...{ chain, address }} />
                </li>
              ))}
            </ul>
            <details>
              <summary>Look on another chain</summary>
              <p class="row">
                {others
                  .filter((chain) => !more.includes(chain))
                  .map((chain) => (
                    <button key={chain} type="button" onClick={() => setMore([...more, chain])}>
                      {chain}
                    </button>
                  ))}
              </p>
            </details>
          </>
        )}
      </QueryView>
    </Panel>
  );
}
