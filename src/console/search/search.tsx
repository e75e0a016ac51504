/**
 * The search: a text names an address, perhaps with a chain and a token; or it is a part of a name or a symbol; or nothing
 * that can be found here, and then the screen says what to do.
 */
import { useEffect, useState } from "preact/hooks";
import { CHAIN_NAMES, type Client } from "../../client/index.ts";
import { AddressOn } from "../address/address.tsx";
import { KnownCollections } from "../parts/collection-table.tsx";
import { plain } from "../parts/format.ts";
import { Panel, StatusLine } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { KnownTokenTable } from "../price/tokens.tsx";
import { linkTo } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { OtherMeaning } from "./other-meaning.tsx";
import { type PastedAddress, pastedAddress, searchedWords } from "./pasted.ts";

/** Rows of a search. */
const MOST_FOUND = 50;

export function SearchScreen({ text }: { readonly text: string }) {
  const { client } = useSession();
  const named = pastedAddress(text);
  const query = named?.address ?? searchedWords(text.trim());
  const token =
    named?.chain === undefined || named.id === undefined
      ? undefined
      : linkTo.token(named.chain, named.address, named.id);
  // In place of the search, so that Back leads to the screen before.
  useEffect(() => {
    if (token !== undefined) location.replace(token);
  }, [token]);
  const tokens = useQuery(["search", "tokens", query], (signal) =>
    client.findTokens(query, { limit: MOST_FOUND, signal }),
  );
  if (token !== undefined) return <StatusLine>Looking for the token…</StatusLine>;
  return (
    <>
      <h1>Search: {plain(text.trim())}</h1>
      {named === undefined ? <OtherMeaning text={query} /> : <AddressPanel {...named} />}
      <Panel title="Known collections">
        <KnownCollections text={query} none="No collection has this in its address, name or symbol." />
      </Panel>
      <Panel title="ERC-20 tokens">
        <QueryView of={tokens} loading="Looking among the known tokens…">
          {(rows) => <KnownTokenTable rows={rows} />}
        </QueryView>
      </Panel>
    </>
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

/** What an address is: on the chain that the text names, else on those in use. The others are asked on demand. */
function AddressPanel({ address, chain: named, id }: PastedAddress) {
  const { client, scope } = useSession();
  const [more, setMore] = useState<readonly string[]>([]);
  const chains = useQuery(["search", "chains", address, named], async (signal) => {
    const { first, others } = await chainsToAsk(client, scope === "operate", address, signal);
    return named === undefined ? { first, others } : { first: [named], others: [...first, ...others] };
  });
  return (
    <Panel title="This address">
      <QueryView of={chains} loading="Asking which chains are in use…">
        {({ first, others }) => (
          <>
            <ul>
              {[...first, ...more].map((chain) => (
                <li key={chain}>
                  <strong>{chain}</strong> <AddressOn {...{ chain, address, id }} />
                </li>
              ))}
            </ul>
            <details>
              <summary>Look on another chain</summary>
              <p class="row">
                {others
                  .filter((chain) => ![...first, ...more].includes(chain))
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
