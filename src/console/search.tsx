/** What a text could mean: a contract by its address, a collection or an ERC-20 token by its name or symbol. */
import { CHAIN_NAMES, type KnownToken, type ListedCollection } from "../client/index.ts";
import { isAddress, plain } from "./format.ts";
import { useAnswer, useSession } from "./hooks.ts";
import { Address, Curl, Failure, linkTo, Panel, Scroll } from "./parts.tsx";
import { CollectionTable } from "./tables.tsx";

const MOST = 50;

export function SearchScreen({ text }: { readonly text: string }) {
  const { client, scope } = useSession();
  const query = text.trim();
  const isOperator = scope === "operate";
  const collections = useAnswer<readonly ListedCollection[]>(
    async (signal) => (isOperator ? (await client.collectionPage({ text: query, limit: MOST, signal })).result : []),
    [query],
  );
  const tokens = useAnswer((signal) => client.findTokens(query, { limit: MOST, signal }), [query]);
  const asked = `text=${encodeURIComponent(query)}&limit=${MOST}`;
  return (
    <>
      <h1>Search: {plain(query)}</h1>
      {isAddress(query) ? <Meanings address={query.toLowerCase()} /> : null}
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
        {tokens.value === undefined || tokens.value.length === 0 ? null : <TokenTable rows={tokens.value} />}
      </Panel>
      {!isAddress(query) && !isOperator ? (
        <p>This key finds collections by their address. Only a key of scope operate may list what is known.</p>
      ) : null}
      <Curl
        requests={[...(isOperator ? [{ path: `/api/collections?${asked}` }] : []), { path: `/api/tokens?${asked}` }]}
      />
    </>
  );
}

function TokenTable({ rows }: { readonly rows: readonly KnownToken[] }) {
  return (
    <Scroll label="ERC-20 tokens">
      <table>
        <thead>
          <tr>
            <th scope="col">Token</th>
            <th scope="col">Chain</th>
            <th scope="col">Address</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ chain, address, symbol, name }) => (
            <tr key={`${chain}/${address}`}>
              <th scope="row">
                <a href={linkTo.price(chain, address)}>{plain(symbol, 20)}</a> <small>{plain(name ?? "", 60)}</small>
              </th>
              <td>{chain}</td>
              <td>
                <Address value={address} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** The chain of an address can't be told from it, so each has a link. A key of scope read can't know which are enabled. */
function Meanings({ address }: { readonly address: string }) {
  const { client, scope } = useSession();
  const chains = useAnswer(
    async (signal) =>
      scope === "operate"
        ? (await client.status({ signal })).chains.map(({ name }) => name)
        : Object.values(CHAIN_NAMES),
    [],
  );
  return (
    <Panel title="This address">
      <ul class="choices">
        {(chains.value ?? []).map((chain) => (
          <li key={chain}>
            <strong>{chain}</strong> <a href={linkTo.collection(chain, address)}>NFT collection</a>{" "}
            <a href={linkTo.price(chain, address)}>Token price</a>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
