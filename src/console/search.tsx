/**
 * The search: a text is the address of a contract, on each chain; or a part of a name or a symbol; or nothing that can be
 * found here, and then the screen says what to do.
 */
import { useState } from "preact/hooks";
import { CHAIN_NAMES, type Client, type ListedCollection } from "../client/index.ts";
import { AddressOn } from "./address.tsx";
import { explorerOf, useAnswer } from "./hooks.ts";
import { apiPath, CollectionTable, Curl, Failure, isAddress, Panel, plain } from "./parts.tsx";
import { useSession } from "./session.ts";
import { KnownTokenTable } from "./tokens.tsx";

/** Rows of a search. */
const MOST_FOUND = 50;

export function SearchScreen({ text }: { readonly text: string }) {
  const { client, scope } = useSession();
  const query = text.trim();
  const isOperator = scope === "operate";
  const asked = { text: query, limit: MOST_FOUND };
  const collections = useAnswer<readonly ListedCollection[]>(
    async (signal) => (isOperator ? (await client.collectionPage({ ...asked, signal })).result : []),
    [query],
  );
  const tokens = useAnswer((signal) => client.findTokens(query, { limit: MOST_FOUND, signal }), [query]);
  return (
    <>
      <h1>Search: {plain(query)}</h1>
      {isAddress(query) ? <AddressPanel address={query.toLowerCase()} /> : <OtherMeaning text={query} />}
      {isOperator ? (
        <Panel title="Known collections">
          <Failure error={collections.error} />
          {collections.value?.length === 0 ? <p>No collection has this in its address, name or symbol.</p> : null}
          {collections.value === undefined || collections.value.length === 0 ? null : (
            <CollectionTable rows={collections.value} />
          )}
        </Panel>
      ) : null}
      <Panel title="ERC-20 tokens">
        <Failure error={tokens.error} />
        {tokens.value?.length === 0 ? (
          <p>No well-known token has this in its address, name or symbol. Any token is found by its whole address.</p>
        ) : null}
        {tokens.value === undefined || tokens.value.length === 0 ? null : <KnownTokenTable rows={tokens.value} />}
      </Panel>
      {!isAddress(query) && !isOperator ? (
        <p>This key finds collections by their address. Only a key of scope operate may list what is known.</p>
      ) : null}
      <Curl
        requests={[...(isOperator ? ["collections"] : []), "tokens"].map((list) => ({ path: apiPath([list], asked) }))}
      />
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

/** What an address is on the chains in use. The others are asked on demand: a chain can't be told from an address. */
function AddressPanel({ address }: { readonly address: string }) {
  const { client, scope } = useSession();
  const [more, setMore] = useState<readonly string[]>([]);
  const chains = useAnswer((signal) => chainsToAsk(client, scope === "operate", address, signal), [address]);
  const { first = [], others = [] } = chains.value ?? {};
  return (
    <Panel title="This address">
      <Failure error={chains.error} />
      <ul class="choices">
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
    </Panel>
  );
}

/** A name of ENS, or of another domain. */
const isDomain = (text: string): boolean => /^[^\s./]+(?:\.[^\s./]+)*\.\p{L}{2,}$/u.test(text);
const HEX = /^0x[0-9a-f]*$/i;
const HASH_LENGTH = 66;

/** What a text means that can't be the address, the name or the symbol of something; null if it may be one. */
function OtherMeaning({ text }: { readonly text: string }) {
  const explorer = explorerOf("eth");
  if (isDomain(text)) {
    return (
      <Panel title="This name">
        <p>
          {plain(text)} looks like a name of ENS. This service does not resolve such names: it knows addresses, and the
          names and symbols of collections and tokens. Look up the address of the name, in a wallet
          {explorer === undefined ? "" : <ExplorerSearch explorer={explorer} text={text} />}, and search for the
          address.
        </p>
      </Panel>
    );
  }
  if (!HEX.test(text) || isAddress(text)) return null;
  return (
    <Panel title="This text">
      <p>
        {text.length === HASH_LENGTH
          ? "The hash of a transaction or a block has 64 hexadecimal digits, as this has. The service has no page for one. Search for the address of the contract."
          : `An address has 40 hexadecimal digits after 0x, and this has ${text.length - 2}. Parts of an address are found among what the service knows, below.`}
      </p>
    </Panel>
  );
}

function ExplorerSearch({ explorer, text }: { readonly explorer: string; readonly text: string }) {
  return (
    <>
      {" or at "}
      <a href={`${explorer}/search?q=${encodeURIComponent(text)}`} target="_blank" rel="noreferrer">
        {new URL(explorer).host}
      </a>
    </>
  );
}
