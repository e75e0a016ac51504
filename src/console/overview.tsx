/** The overview: chains and endpoints, what is being indexed, what failed and why, log, memory and disk. And a search. */
import { useState } from "preact/hooks";
import { troubleOfReport } from "../chains/trouble.ts";
import type { ChainStatus, Client, KnownToken, ListedCollection, ServiceStatus } from "../client/index.ts";
import { useAction, useAnswer, usePolled } from "./hooks.ts";
import { AddressPanel, OtherMeaning } from "./meaning.tsx";
import { TroubleWords } from "./notice.tsx";
import {
  AddressLink,
  ago,
  bytes,
  CollectionTable,
  Curl,
  Fact,
  Failure,
  isAddress,
  linkTo,
  Panel,
  plain,
  short,
  Table,
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
      {isEmpty || offers.length > 0 ? <First offers={offers} chains={status.chains} onDone={seen.reload} /> : null}
      <Health status={status} />
      <Panel title="Chains">
        <div class="cards">
          {status.chains.map((chain) => (
            <Chain key={chain.chainId} chain={chain} leases={status.leases} />
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
          <label class="filter">
            Filter{" "}
            <input
              type="search"
              value={text}
              placeholder="Address, name or symbol"
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          </label>
          {listed.length === 0 ? (
            <p>No collection has this in its address, name or symbol.</p>
          ) : (
            <CollectionTable rows={listed} />
          )}
          {hasMore ? <p class="quiet">These are the first {MOST}. The filter finds the others.</p> : null}
        </Panel>
      )}
      <Curl requests={[{ path: "/api/status" }, { path: `/api/collections?limit=${MOST}` }]} command="status --watch" />
    </>
  );
}

/** A key of scope `read` sees collections and prices, but not the state of the service. */
function ReadOnly({ offers }: { readonly offers: readonly string[] }) {
  return (
    <>
      <h1>Look something up</h1>
      <p>
        This key may read collections and prices. Search for the address of a contract above. The state of the service
        needs a key of scope operate.
      </p>
      <Offers offers={offers} />
    </>
  );
}

interface FirstOptions {
  readonly offers: readonly string[];
  readonly chains: readonly ChainStatus[];
  readonly onDone: () => void;
}

/** What to do first. The demo's address offers its contracts as `?try=chain:address`. */
function First({ offers, chains, onDone }: FirstOptions) {
  const { client } = useSession();
  const [address, setAddress] = useState("");
  const [chain, setChain] = useState(chains[0]?.name ?? "eth");
  const [state, run, isBusy] = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      if (!isAddress(address.trim())) return "An address has 0x and 40 hexadecimal digits.";
      await client.index([{ chain, address: address.trim() }]);
      onDone();
      return "Requested.";
    });
  };
  return (
    <Panel title="Begin here">
      <p>Enter the address of an NFT contract. The service reads its history from the chain, and shows it below.</p>
      <form class="row" onSubmit={submit}>
        <label for="first-chain">Chain</label>
        <select id="first-chain" value={chain} onChange={({ currentTarget }) => setChain(currentTarget.value)}>
          {chains.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
        <label for="first">Contract</label>
        <input
          id="first"
          value={address}
          placeholder="0x…"
          onInput={({ currentTarget }) => setAddress(currentTarget.value)}
        />
        <button type="submit" disabled={isBusy}>
          Index
        </button>
        <span role="status">{state}</span>
      </form>
      <Offers offers={offers.length > 0 || !chains.some(({ name }) => name === "eth") ? offers : EXAMPLES} />
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
  const { log, memory, version, startedAt, queue } = status;
  return (
    <dl class="facts">
      <Fact name="Event log">
        {log.engine}, {bytes(log.bytes)}
        {log.writable ? "" : " · not writable"}
      </Fact>
      <Fact name="Disk left">{log.freeBytes === null ? "not known" : bytes(log.freeBytes)}</Fact>
      <Fact name="Delay behind the event log">
        {log.behindSeconds < 1 ? "none" : `${Math.round(log.behindSeconds)} s`}
      </Fact>
      <Fact name="Memory">
        {bytes(memory.rss)}, of it {bytes(memory.collections + memory.metadata)} of collections
      </Fact>
      <Fact name="Collections with work to do">{whole(queue)}</Fact>
      <Fact name="Version">
        {version}, started {ago(startedAt)}
      </Fact>
    </dl>
  );
}

function Chain({ chain, leases }: { readonly chain: ChainStatus; readonly leases: ServiceStatus["leases"] }) {
  const { name, chainId, head, finalized, state, since, endpoints } = chain;
  const leader = leases.find(({ what }) => what === `follow/${chainId}`);
  const trouble = troubleOfReport(chain);
  return (
    <article class="card">
      <h3>
        {name} <span class={`state ${state}`}>{state.replace("_", " ")}</span>
      </h3>
      <p>
        {head === null ? "no block seen yet" : `head ${whole(head.number)}, ${ago(head.time)}`}
        {finalized === null ? "" : ` · final up to ${whole(finalized)}`}
        <br />
        <small>
          since {ago(since)} ·{" "}
          {leader === undefined ? "nothing is followed" : `followed by process ${leader.holder.slice(0, 8)}`}
        </small>
      </p>
      {trouble === undefined ? null : (
        <div class="failure">
          <TroubleWords chain={name} trouble={trouble} />
        </div>
      )}
      <ul class="endpoints">
        {endpoints.map((endpoint) => {
          const calls = Object.values(endpoint.calls.day).reduce((sum, count) => sum + count, 0);
          return (
            <li key={endpoint.label}>
              <strong>{endpoint.label}</strong> {endpoint.state.replace("_", " ")}
              {endpoint.reason === null ? "" : `: ${plain(endpoint.reason, 200)}`}
              {endpoint.latencyMs === null ? "" : ` · ${endpoint.latencyMs.p50} ms`}
              <br />
              <small>
                in 24 hours {short(calls)} calls, {short(endpoint.units.day)} units of the provider's price list,{" "}
                {bytes(endpoint.bytes.day)}
              </small>
            </li>
          );
        })}
      </ul>
    </article>
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

// What a text could mean: a contract by its address, a collection or an ERC-20 token by its name or symbol.

/** Rows of a search. */
const MOST_FOUND = 50;

export function SearchScreen({ text }: { readonly text: string }) {
  const { client, scope } = useSession();
  const query = text.trim();
  const isOperator = scope === "operate";
  const collections = useAnswer<readonly ListedCollection[]>(
    async (signal) =>
      isOperator ? (await client.collectionPage({ text: query, limit: MOST_FOUND, signal })).result : [],
    [query],
  );
  const tokens = useAnswer((signal) => client.findTokens(query, { limit: MOST_FOUND, signal }), [query]);
  const asked = `text=${encodeURIComponent(query)}&limit=${MOST_FOUND}`;
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
    <Table label="ERC-20 tokens" titles={["Token", "Chain", "Address"]}>
      {rows.map(({ chain, address, symbol, name }) => (
        <tr key={`${chain}/${address}`}>
          <th scope="row">
            <a href={linkTo.price(chain, address)}>{plain(symbol, 20)}</a> <small>{plain(name ?? "", 60)}</small>
          </th>
          <td>{chain}</td>
          <td>
            <AddressLink value={address} chain={chain} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
