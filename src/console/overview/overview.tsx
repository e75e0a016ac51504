/** The overview: chains and endpoints, what is being indexed, what failed and why, log, memory and disk. */
import { useState } from "preact/hooks";
import type { ChainStatus, Client, ListedCollection, ServiceStatus } from "../../client/index.ts";
import { IndexForm } from "../operate/index-form.tsx";
import { Action } from "../parts/action.tsx";
import { CollectionTable, KnownCollections } from "../parts/collection-table.tsx";
import { Twin } from "../parts/curl.tsx";
import { Filter } from "../parts/fields.tsx";
import { plain } from "../parts/format.ts";
import { Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { linkTo } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { ChainCard } from "./chain-card.tsx";
import { EXAMPLES, Offers } from "./offers.tsx";
import { ServiceFacts } from "./service-facts.tsx";

const [PAUSE_MS, LIST_PAUSE_MS] = [1_000, 3_000];
/** Rows of each table of collections that are not complete. */
const MOST = 200;
const BUSY = ["requested", "indexing", "joining"] as const;

interface OverviewAnswers {
  readonly status: ServiceStatus;
  readonly busy: readonly ListedCollection[];
  readonly failing: readonly ListedCollection[];
}

/** Asks for the status, and only for those lists that have entries. */
async function look(client: Client, signal: AbortSignal): Promise<OverviewAnswers> {
  const status = await client.status({ signal });
  const listOf = async (one: ListedCollection["status"]) =>
    status.collections[one] === 0 ? [] : (await client.collectionPage({ status: one, limit: MOST, signal })).result;
  const [failing, ...busy] = await Promise.all([listOf("failing"), ...BUSY.map(listOf)]);
  return { status, busy: busy.flat(), failing };
}

export function OverviewScreen({ offers }: { readonly offers: readonly string[] }) {
  const { client } = useSession();
  const seen = useQuery(["overview"], (signal) => look(client, signal), { everyMs: PAUSE_MS });
  return (
    <>
      <h1>Overview</h1>
      <QueryView of={seen} loading="Asking for the state of the service…">
        {(value) => <Overview {...value} offers={offers} />}
      </QueryView>
    </>
  );
}

function Overview({ status, busy, failing, offers }: OverviewAnswers & { readonly offers: readonly string[] }) {
  const [text, setText] = useState("");
  const { not_a_contract: _, ...counts } = status.collections;
  const isEmpty = Object.values(counts).every((count) => count === 0);
  return (
    <>
      <IndexPanel {...{ isEmpty, offers }} chains={status.chains} />
      <Panel title="Chains">
        <div class="cards">
          {status.chains.map((chain) => (
            <ChainCard key={chain.chainId} {...{ chain, status }} />
          ))}
        </div>
      </Panel>
      {busy.length === 0 ? null : (
        <Panel title="Being indexed">
          <CollectionTable rows={busy} none={null} />
        </Panel>
      )}
      {failing.length === 0 ? null : <FailingPanel rows={failing} />}
      {isEmpty ? null : (
        <Panel title="Collections">
          <Filter id="known-collections" value={text} onInput={setText} />
          <KnownCollections
            text={text}
            none="No collection has this in its address, name or symbol. Change the filter, or index the contract above."
            everyMs={LIST_PAUSE_MS}
          />
        </Panel>
      )}
      <ServiceFacts status={status} />
      <Twin commands={["status --watch"]} />
    </>
  );
}

interface FirstOptions {
  readonly isEmpty: boolean;
  readonly offers: readonly string[];
  readonly chains: readonly ChainStatus[];
}

/** Requests the indexing of a contract. The demo's address offers its contracts as `?try=chain:address`. */
function IndexPanel({ isEmpty, offers, chains }: FirstOptions) {
  const names = chains.map(({ name }) => name);
  const shown = offers.length > 0 || !isEmpty || !names.includes("eth") ? offers : EXAMPLES;
  return (
    <Panel title={isEmpty ? "Begin here" : "Index a collection"}>
      {isEmpty ? (
        <p>Enter the address of an NFT contract. The service reads its history from the chain, and shows it below.</p>
      ) : null}
      <IndexForm chains={names} />
      <Offers offers={shown} />
    </Panel>
  );
}

function FailingPanel({ rows }: { readonly rows: readonly ListedCollection[] }) {
  const { client, reload } = useSession();
  const again = async (contract: ListedCollection) => {
    await client.reindex(contract);
    reload("overview");
    return "It is tried again.";
  };
  return (
    <Panel title="Failed">
      <ul>
        {rows.map((row) => (
          <li key={`${row.chain}/${row.address}`}>
            <a href={linkTo.collection(row.chain, row.address)}>{plain(row.name ?? "", 40) || row.address}</a> on{" "}
            {row.chain}: {plain(row.lastError ?? "no reason is known", 200)} ({row.attempts} attempts
            {row.nextTry === null ? "" : `, next ${row.nextTry.slice(11, 19)} UTC`}){" "}
            <Action name="Try again from the beginning" work={() => again(row)} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}
