/** The overview: chains and endpoints, what is being indexed, what failed and why, log, memory and disk. */
import { useState } from "preact/hooks";
import { troubleOfReport } from "../chains/trouble.ts";
import type { ChainStatus, Client, ListedCollection, ServiceStatus } from "../client/index.ts";
import { CHAIN_WORDS, ENDPOINT_WORDS } from "../status-words.ts";
import { ContractForm, IndexForm } from "./actions.tsx";
import { useChains } from "./chain-menu.tsx";
import { useAction, usePolled } from "./hooks.ts";
import { TroubleWords } from "./notice.tsx";
import {
  AddressLink,
  ago,
  bytes,
  CollectionTable,
  Curl,
  clock,
  Fact,
  Failure,
  Filter,
  isAddress,
  linkTo,
  Panel,
  plain,
  short,
  type Where,
  whole,
} from "./parts.tsx";
import { useSession } from "./session.ts";

const PAUSE_MS = 1_000;
/** Rows of each table. The filter finds the rest. */
const MOST = 200;
const BUSY = ["requested", "indexing", "joining"] as const;

interface Seen {
  readonly status: ServiceStatus;
  readonly busy: readonly ListedCollection[];
  readonly failing: readonly ListedCollection[];
  readonly listed: readonly ListedCollection[];
  readonly hasMore: boolean;
}

/** Asks for the status, and only for those lists that have entries. */
async function look(client: Client, text: string, signal: AbortSignal): Promise<Seen> {
  const status = await client.status({ signal });
  const listOf = async (one: ListedCollection["status"]) =>
    status.collections[one] === 0 ? [] : (await client.collectionPage({ status: one, limit: MOST, signal })).result;
  const [failing, ...busy] = await Promise.all([listOf("failing"), ...BUSY.map(listOf)]);
  const { result, cursor } = await client.collectionPage({ text, limit: MOST, signal });
  return { status, busy: busy.flat(), failing, listed: result, hasMore: cursor !== null };
}

export function OverviewScreen({ offers }: { readonly offers: readonly string[] }) {
  const { scope } = useSession();
  return scope === "read" ? <ReadOnly offers={offers} /> : <Everything offers={offers} />;
}

function Everything({ offers }: { readonly offers: readonly string[] }) {
  const { client } = useSession();
  const [text, setText] = useState("");
  const seen = usePolled((signal) => look(client, text, signal), PAUSE_MS, [text]);
  const { value, error } = seen;
  if (value === undefined) return error === undefined ? <p>Loading…</p> : <Failure error={error} />;
  const { status, busy, failing, listed, hasMore } = value;
  const isEmpty = Object.values(status.collections).every((count) => count === 0);
  return (
    <>
      <h1>Overview</h1>
      <Failure error={error} />
      <IndexPanel {...{ isEmpty, offers }} chains={status.chains} onDone={seen.reload} />
      <Panel title="Chains">
        <div class="cards">
          {status.chains.map((chain) => (
            <Chain key={chain.chainId} {...{ chain, status }} />
          ))}
        </div>
      </Panel>
      {busy.length === 0 ? null : (
        <Panel title="Being indexed">
          <CollectionTable rows={busy} />
        </Panel>
      )}
      {failing.length === 0 ? null : <FailingPanel rows={failing} onDone={seen.reload} />}
      {isEmpty ? null : (
        <Panel title="Collections">
          <Filter id="known-collections" value={text} onInput={setText} />
          {listed.length === 0 ? (
            <p>
              No collection has this in its address, name or symbol. Change the filter, or index the contract above.
            </p>
          ) : (
            <CollectionTable rows={listed} />
          )}
          {hasMore ? <p class="quiet">These are the first {MOST}. The filter finds the others.</p> : null}
        </Panel>
      )}
      <Health status={status} />
      <Curl
        requests={[{ path: "/api/status" }, { path: `/api/collections?limit=${MOST}` }]}
        commands={["status --watch"]}
      />
    </>
  );
}

/** A key of scope `read` sees collections and prices, but not the state of the service. */
function ReadOnly({ offers }: { readonly offers: readonly string[] }) {
  const chains = useChains();
  const open = async ({ chain, address }: Where) => {
    location.hash = linkTo.collection(chain, address);
    return "";
  };
  return (
    <>
      <h1>Look something up</h1>
      <Panel title="Open a collection">
        <ContractForm id="first" {...{ chains }} action="Open" onContract={open} />
        <p class="quiet">
          A collection that is new to the service is indexed when you open it. Another screen has the{" "}
          <a href="#/price">prices of tokens</a>.
        </p>
        <Offers offers={offers} />
      </Panel>
      <p>
        This key has scope read: it may read collections and prices. The state of the service, and changes of
        collections, need a key of scope operate.
      </p>
    </>
  );
}

interface FirstOptions {
  readonly isEmpty: boolean;
  readonly offers: readonly string[];
  readonly chains: readonly ChainStatus[];
  readonly onDone: () => void;
}

/** Requests the indexing of a contract. The demo's address offers its contracts as `?try=chain:address`. */
function IndexPanel({ isEmpty, offers, chains, onDone }: FirstOptions) {
  const names = chains.map(({ name }) => name);
  const shown = offers.length > 0 || !isEmpty || !names.includes("eth") ? offers : EXAMPLES;
  return (
    <Panel title={isEmpty ? "Begin here" : "Index a collection"}>
      {isEmpty ? (
        <p>Enter the address of an NFT contract. The service reads its history from the chain, and shows it below.</p>
      ) : null}
      <IndexForm chains={names} onDone={onDone} />
      <Offers offers={shown} />
    </Panel>
  );
}

/** The contracts of the API's examples. They are on Ethereum, and the demo's local chain has contracts at their addresses. */
const EXAMPLES = [
  "eth:0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d",
  "eth:0x1f9840a85d5af5bf1d1762f925bdaddc4201f984:price",
];

function Offers({ offers }: { readonly offers: readonly string[] }) {
  const places = offers.map((offer) => offer.split(":")).filter(([, address = ""]) => isAddress(address));
  if (places.length === 0) return null;
  return (
    <>
      <p>{offers === EXAMPLES ? "Or try an example:" : "The link that you opened suggests:"}</p>
      <ul class="choices">
        {places.map(([chain = "eth", address = "", kind]) => (
          <li key={address}>
            <a href={kind === "price" ? linkTo.price(chain, address) : linkTo.collection(chain, address)}>
              {kind === "price" ? "the price of a token" : "an NFT collection"}
            </a>{" "}
            <AddressLink value={address} chain={chain} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Health({ status }: { readonly status: ServiceStatus }) {
  const { log, memory, version, startedAt, queue, inDoubt } = status;
  return (
    <Panel title="Service">
      <dl class="facts">
        <Fact name="Stored data">
          {bytes(log.bytes)} in {log.engine}
          {log.writable ? "" : " · not writable"}
        </Fact>
        <Fact name="Free disk space">{log.freeBytes === null ? "not known" : bytes(log.freeBytes)}</Fact>
        <Fact name="Replication lag">{log.behindSeconds < 1 ? "none" : `${Math.round(log.behindSeconds)} s`}</Fact>
        <Fact name="Memory">
          {bytes(memory.rss)}, {bytes(memory.collections + memory.metadata)} of it for collections
        </Fact>
        <Fact name="Collections in the queue">{whole(queue)}</Fact>
        <Fact name="Collections in doubt">{inDoubt === 0 ? "none" : whole(inDoubt)}</Fact>
        <Fact name="Version">
          {version}, started {ago(startedAt)}
        </Fact>
      </dl>
    </Panel>
  );
}

interface ChainOptions {
  readonly chain: ChainStatus;
  readonly status: ServiceStatus;
}

function Chain({ chain, status: { leases, instance } }: ChainOptions) {
  const { name, chainId, head, finalized, settled, inDoubt, state, since, endpoints } = chain;
  const leader = leases.find(({ what }) => what === `follow/${chainId}`);
  const trouble = troubleOfReport(chain);
  const isElsewhere = leader !== undefined && leader.holder !== instance;
  return (
    <article class="card">
      <h3>
        {name}{" "}
        <span class={`state ${state}`} title={CHAIN_WORDS[state].meaning}>
          {CHAIN_WORDS[state].word}
        </span>
      </h3>
      <p>
        {head === null
          ? "no block seen yet"
          : `newest block ${whole(head.number)}${head.time === null ? "" : `, ${ago(head.time)}`}`}
        {finalized === null ? "" : ` · final up to block ${whole(finalized)}`}
        {settled === null ? "" : ` · logs confirmed by headers up to block ${whole(settled)}`}
        <br />
        <small>
          in this state since {clock(since)}
          {isElsewhere ? " · another process of the service reads its blocks" : ""}
        </small>
      </p>
      {trouble === undefined ? null : (
        <div class="failure">
          <TroubleWords chain={name} trouble={trouble} />
        </div>
      )}
      {inDoubt === null ? null : (
        <p class="failure">
          In doubt from block {whole(inDoubt.block)} on: {plain(inDoubt.reason, 400)}
        </p>
      )}
      <ul class="endpoints">
        {endpoints.map((endpoint) => (
          <Endpoint key={endpoint.label} endpoint={endpoint} />
        ))}
      </ul>
    </article>
  );
}

function Endpoint({ endpoint }: { readonly endpoint: ChainStatus["endpoints"][number] }) {
  const { label, state, reason, latencyMs, calls, units, bytes: read } = endpoint;
  const count = Object.values(calls.day).reduce((sum, one) => sum + one, 0);
  return (
    <li>
      <strong>{label}</strong> {ENDPOINT_WORDS[state].word}
      {reason === null ? "" : `: ${plain(reason, 200)}`}
      {latencyMs === null ? "" : ` · ${latencyMs.p50} ms`}
      <br />
      <small>
        last 24 hours: {short(count)} calls, {short(units.day)} compute units, {bytes(read.day)}
      </small>
    </li>
  );
}

function FailingPanel({ rows, onDone }: { readonly rows: readonly ListedCollection[]; readonly onDone: () => void }) {
  const { client } = useSession();
  const [state, run, isBusy] = useAction();
  const again = ({ chain, address }: ListedCollection) =>
    run(async () => {
      await client.reindex({ chain, address });
      onDone();
      return `${plain(address)} is tried again.`;
    });
  return (
    <Panel title="Failed">
      <ul class="plain-list">
        {rows.map((row) => (
          <li key={`${row.chain}/${row.address}`}>
            <a href={linkTo.collection(row.chain, row.address)}>{plain(row.name ?? "", 40) || row.address}</a> on{" "}
            {row.chain}: {plain(row.lastError ?? "no reason is known", 200)} ({row.attempts} attempts
            {row.nextTry === null ? "" : `, next ${row.nextTry.slice(11, 19)} UTC`}){" "}
            <button type="button" disabled={isBusy} onClick={() => again(row)}>
              Try again from the beginning
            </button>
          </li>
        ))}
      </ul>
      <p role="status">{state}</p>
    </Panel>
  );
}
