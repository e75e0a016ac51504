/** Where a key of scope `read` begins: it sees collections and prices, but not the state of the service. */
import { useState } from "preact/hooks";
import { ContractForm } from "../parts/address-form.tsx";
import { useChains } from "../parts/chain-menu.tsx";
import { KnownCollections } from "../parts/collection-table.tsx";
import { Filter } from "../parts/fields.tsx";
import { Panel } from "../parts/parts.tsx";
import { goTo, linkTo, type Where } from "../state/place.ts";
import { Offers } from "./offers.tsx";

export function LookUpScreen({ offers }: { readonly offers: readonly string[] }) {
  const chains = useChains();
  const [text, setText] = useState("");
  const open = ({ chain, address }: Where) => goTo(linkTo.collection(chain, address));
  return (
    <>
      <h1>Look something up</h1>
      <Panel title="Open a collection">
        <ContractForm id="first" label="Contract" {...{ chains }} action="Open" onContract={open} />
        <p class="quiet">
          A collection that is new to the service is indexed when you open it. Another screen has the{" "}
          <a href="#/price">prices of tokens</a>.
        </p>
        <Offers offers={offers} />
      </Panel>
      <Panel title="Collections">
        <Filter id="known-collections" value={text} onInput={setText} />
        <KnownCollections text={text} none="No known collection has this in its address, name or symbol." />
      </Panel>
      <p>
        This key has scope read: it may read collections and prices. The state of the service, and changes of
        collections, need a key of scope operate.
      </p>
    </>
  );
}
