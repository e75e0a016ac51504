/** A wallet has no page. What it holds is in the collections that the service knows. */
import type { Client } from "../../client/index.ts";
import { AddressForm } from "../parts/address-form.tsx";
import { counted, plain } from "../parts/format.ts";
import { QueryView } from "../parts/query-view.tsx";
import { goTo, linkTo, type Where } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";

/** Collections in which a wallet is looked for without a question, and tokens that are counted in each. */
const [MOST_COLLECTIONS, MOST_COUNTED] = [20, 50];

interface Holding {
  readonly collection: string;
  readonly name: string;
  readonly count: string;
}

interface Holdings {
  readonly found: readonly Holding[];
  readonly searched: number;
  /** True if the chain has more collections than were searched. */
  readonly hasMore: boolean;
}

/** Looks for a wallet in the complete collections of a chain, one after the other, since each may be loaded into memory. */
async function holdingsOf(client: Client, { chain, address }: Where, signal: AbortSignal): Promise<Holdings> {
  const query = { chain, status: "following", limit: MOST_COLLECTIONS, signal } as const;
  const { result: collections, cursor } = await client.collectionPage(query);
  const found: Holding[] = [];
  for (const { address: collection, name } of collections) {
    const tokens = { owner: address, limit: MOST_COUNTED, signal };
    const { result, cursor: next } = await client.tokenPage({ chain, address: collection }, tokens);
    if (result.length === 0) continue;
    const count = `${next === null ? "" : "more than "}${counted(result.length, "token")}`;
    found.push({ collection, name: plain(name ?? "", 60) || collection, count });
  }
  return { found, searched: collections.length, hasMore: cursor !== null };
}

/** A wallet on a chain. Only a key of scope operate may list the collections to look in. */
export function Wallet({ chain, address }: Where) {
  const { scope } = useSession();
  return (
    <>
      <p>
        A wallet: an account without code. Wallets have no page, because the service keeps what is in a collection. A
        collection shows what a wallet holds in it.
      </p>
      {scope === "operate" ? <HeldTokens {...{ chain, address }} /> : null}
      <AddressForm
        {...{ id: `collection-on-${chain}`, label: "What it holds in the collection", action: "Show" }}
        wrong="The address of a collection has 0x and 40 hexadecimal digits."
        onAddress={(collection) => goTo(linkTo.owned(chain, collection, address))}
      />
    </>
  );
}

function HeldTokens({ chain, address }: Where) {
  const { client } = useSession();
  const holdings = useQuery(["wallet", chain, address], (signal) => holdingsOf(client, { chain, address }, signal));
  return (
    <QueryView of={holdings} loading="Looking for its tokens in the complete collections…">
      {(value) => (
        <>
          <p role="status">{heldText(value, chain)}</p>
          <ul>
            {value.found.map(({ collection, name, count }) => (
              <li key={collection}>
                <a href={linkTo.owned(chain, collection, address)}>{name}</a>: {count}
              </li>
            ))}
          </ul>
        </>
      )}
    </QueryView>
  );
}

function heldText({ found, searched, hasMore }: Holdings, chain: string): string {
  if (searched === 0) return `The service has no complete collection of ${chain} yet.`;
  const where = `${hasMore ? "the first " : ""}${counted(searched, "complete collection")} of ${chain}`;
  return found.length === 0 ? `It holds nothing in ${where}.` : `It holds tokens in ${found.length} of ${where}.`;
}
