/** What a text could mean: a contract or a token by its address, a known collection by its name or symbol. */
import type { ListedCollection } from "../client/index.ts";
import { isAddress, plain } from "./format.ts";
import { useAnswer, useSession } from "./hooks.ts";
import { Curl, Failure, linkTo, Panel } from "./parts.tsx";
import { CollectionTable } from "./tables.tsx";

const MOST = 50;

export function SearchScreen({ text }: { readonly text: string }) {
  const { client, scope } = useSession();
  const query = text.trim();
  const found = useAnswer<readonly ListedCollection[]>(
    async (signal) =>
      scope === "operate" ? (await client.collectionPage({ text: query, limit: MOST, signal })).result : [],
    [query],
  );
  return (
    <>
      <h1>Search: {plain(query)}</h1>
      {isAddress(query) ? <Meanings address={query.toLowerCase()} /> : null}
      {scope === "operate" ? (
        <Panel title="Known collections">
          <Failure error={found.error} />
          {found.value?.length === 0 ? <p>No collection has this in its address, name or symbol.</p> : null}
          {found.value === undefined || found.value.length === 0 ? null : <CollectionTable rows={found.value} />}
        </Panel>
      ) : null}
      {!isAddress(query) && scope === "read" ? (
        <p>A key of scope read finds contracts by their address. Only an operator may list what is known.</p>
      ) : null}
      <Curl requests={[{ path: `/api/collections?text=${encodeURIComponent(query)}&limit=${MOST}` }]} />
    </>
  );
}

/** The chain of an address can't be told from it, so each common one has a link. */
function Meanings({ address }: { readonly address: string }) {
  const { client, scope } = useSession();
  const chains = useAnswer(
    async (signal) =>
      scope === "operate" ? (await client.status({ signal })).chains.map(({ name }) => name) : ["eth"],
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
