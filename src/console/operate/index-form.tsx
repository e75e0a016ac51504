/** Requests for the indexing of contracts: the form for one, and the contracts of a request. */
import { useState } from "preact/hooks";
import type { IndexAnswer } from "../../client/index.ts";
import { COLLECTION_WORDS, statusWord } from "../../status-words.ts";
import { ContractForm } from "../parts/address-form.tsx";
import { linkTo, type Where } from "../state/place.ts";
import { useSession } from "../state/session.ts";

/** Requests the indexing of one contract, and links to it. */
export function IndexForm({ chains }: { readonly chains: readonly string[] }) {
  const { client, reload } = useSession();
  const [items, setItems] = useState<IndexAnswer["items"]>([]);
  const index = async (contract: Where) => {
    setItems((await client.index([contract])).items);
    reload("overview");
    reload("collections");
    return "Requested.";
  };
  return (
    <>
      <ContractForm id="first" label="Contract" {...{ chains }} action="Index" onContract={index} />
      <RequestedList items={items} />
    </>
  );
}

/** The contracts of a request, with what the service had of them before. */
export function RequestedList({ items }: { readonly items: IndexAnswer["items"] }) {
  if (items.length === 0) return null;
  return (
    <ul aria-label="Requested contracts">
      {items.map(({ chain, address, before }) => (
        <li key={`${chain}/${address}`}>
          <a href={linkTo.collection(chain, address)}>
            {chain} <code>{address}</code>
          </a>{" "}
          {before === null ? "is new" : `was known: ${statusWord(COLLECTION_WORDS, before)}`}
        </li>
      ))}
    </ul>
  );
}
