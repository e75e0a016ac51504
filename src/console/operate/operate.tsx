/** What an operator changes: keys, lists of contracts to index, single collections; and the endpoints. */

import { useState } from "preact/hooks";
import { CollectionActions } from "../collection/collection-actions.tsx";
import { ChainMenu, useChainChoice, useChains } from "../parts/chain-menu.tsx";
import { Field } from "../parts/fields.tsx";
import { Panel } from "../parts/parts.tsx";
import { SERVICE_PROGRAM } from "../state/base.ts";
import { useSession } from "../state/session.ts";
import { EndpointsPanel } from "./endpoints.tsx";
import { IndexListPanel } from "./index-list.tsx";
import { KeysPanel } from "./keys.tsx";

export function OperateScreen() {
  const { scope } = useSession();
  if (scope === "read") {
    return (
      <>
        <h1>Operate</h1>
        <p>
          This key has scope read. Changes need a key of scope operate: an operator adds one with{" "}
          <code>{SERVICE_PROGRAM} keys add &lt;name&gt; --scope operate</code>.
        </p>
      </>
    );
  }
  return <Panels />;
}

function Panels() {
  const chains = useChains();
  return (
    <>
      <h1>Operate</h1>
      <KeysPanel />
      <IndexListPanel chains={chains} />
      <OneCollection chains={chains} />
      <EndpointsPanel />
    </>
  );
}

/** The changes of a collection that the operator names. */
function OneCollection({ chains }: { readonly chains: readonly string[] }) {
  const [chain, setChain] = useChainChoice(chains);
  const [address, setAddress] = useState("");
  return (
    <Panel title="One collection">
      <p class="row">
        <ChainMenu id="on" {...{ chains, chain }} onChain={setChain} />
        <Field id="which" label="Contract" value={address} placeholder="0x…" onInput={setAddress} />
      </p>
      <CollectionActions chain={chain} address={address.trim().toLowerCase()} />
    </Panel>
  );
}
