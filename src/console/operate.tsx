/** What an operator changes: keys, lists of contracts to index, single collections. Each with its twin on the command line. */
import { useState } from "preact/hooks";
import type { Contract, IndexAnswer, Key, ServiceStatus } from "../client/index.ts";
import { ENDPOINT_WORDS } from "../status-words.ts";
import { CollectionActions, Confirmed, RequestedList, Twin } from "./actions.tsx";
import { ChainMenu, useChainChoice, useChains } from "./chain-menu.tsx";
import { useAction, useAnswer, usePolled } from "./hooks.ts";
import {
  ago,
  bytes,
  Curl,
  clock,
  commandLine,
  Failure,
  Field,
  isAddress,
  Panel,
  plain,
  quoted,
  short,
  Table,
  whole,
} from "./parts.tsx";
import { useSession } from "./session.ts";

export function OperateScreen() {
  const { scope } = useSession();
  if (scope === "read") {
    return (
      <>
        <h1>Operate</h1>
        <p>
          This key has scope read. Changes need a key of scope operate: an operator adds one with{" "}
          <code>bun run cli keys add &lt;name&gt; --scope operate</code>.
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
      <Keys />
      <IndexList chains={chains} />
      <OneCollection chains={chains} />
      <EndpointsPanel />
    </>
  );
}

// The keys of the service: a table of them, and their changes.

const KEY_COLUMNS = [
  ...["Name", "Scope", "Requests a minute", "New collections an hour", "Subscriptions"],
  ...["Requests today", "Added", "Last use", ""],
];

interface NewKey {
  readonly name: string;
  readonly scope: "read" | "operate";
  /** As typed; "" for the default. */
  readonly rate: string;
}

const NO_KEY: NewKey = { name: "", scope: "read", rate: "" };

/** The rate of a new key; undefined for the default, and for a text that is no rate. */
const rateOf = ({ rate }: NewKey): number | undefined =>
  /^[1-9]\d{0,8}$/.test(rate.trim()) ? Number(rate) : undefined;

const bodyOf = (key: NewKey) => {
  const requestsPerMinute = rateOf(key);
  return { name: key.name.trim(), scope: key.scope, ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }) };
};

function Keys() {
  const { client } = useSession();
  const keys = useAnswer((signal) => client.keys({ signal }), []);
  const [wish, setWish] = useState(NO_KEY);
  const [made, setMade] = useState<{ readonly name: string; readonly key: string }>();
  const [state, run, isBusy] = useAction();
  const change = (work: () => Promise<string>) =>
    run(async () => {
      const words = await work();
      keys.reload();
      return words;
    });
  const add = () =>
    change(async () => {
      setMade(await client.addKey(bodyOf(wish)));
      setWish({ ...NO_KEY, scope: wish.scope });
      return "";
    });
  const rotate = (name: string) =>
    change(async () => {
      setMade(await client.rotateKey(name));
      return `The former text of ${plain(name)} stays valid for a day.`;
    });
  const revoke = (name: string) =>
    change(async () => {
      await client.revokeKey(name);
      return `${plain(name)} is revoked.`;
    });
  return (
    <Panel title="Keys">
      <Failure error={keys.error} />
      <KeyForm wish={wish} onWish={setWish} isBusy={isBusy} state={state} onAdd={add} />
      {made === undefined ? null : (
        <p class="made" role="status">
          The key {plain(made.name)}, shown this once: <code>{made.key}</code>{" "}
          <button type="button" onClick={() => setMade(undefined)}>
            I have it
          </button>
        </p>
      )}
      <KeyTable keys={keys.value ?? []} isBusy={isBusy} onRotate={rotate} onRevoke={revoke} />
      <KeyLines wish={wish} />
    </Panel>
  );
}

/** The changes of keys as lines for a shell. */
function KeyLines({ wish }: { readonly wish: NewKey }) {
  const name = /^[\w.-]+$/.test(wish.name.trim()) ? wish.name.trim() : "<name>";
  const rate = rateOf(wish);
  const options = `${wish.scope === "operate" ? " --scope operate" : ""}${rate === undefined ? "" : ` --rpm ${rate}`}`;
  return (
    <>
      <Twin
        command={`keys add ${name}${options}`}
        requests={[
          { path: "/api/keys" },
          { method: "POST", path: "/api/keys", body: { ...bodyOf(wish), name } },
          { method: "POST", path: "/api/keys/<name>/rotate", body: {} },
          { method: "DELETE", path: "/api/keys/<name>" },
        ]}
      />
      <p class="quiet">
        Rotate and Revoke: <code>{commandLine("keys rotate <name> --grace 24h")}</code>,{" "}
        <code>{commandLine("keys revoke <name>")}</code>
      </p>
    </>
  );
}

interface KeyFormOptions {
  readonly wish: NewKey;
  readonly onWish: (wish: NewKey) => void;
  readonly isBusy: boolean;
  readonly state: string | undefined;
  readonly onAdd: () => void;
}

function KeyForm({ wish, onWish, isBusy, state, onAdd }: KeyFormOptions) {
  const isWrongRate = wish.rate.trim() !== "" && rateOf(wish) === undefined;
  const add = (event: Event) => {
    event.preventDefault();
    onAdd();
  };
  return (
    <form class="row" onSubmit={add}>
      <Field
        {...{ id: "name", label: "New key", class: "narrow", placeholder: "name" }}
        value={wish.name}
        onInput={(name) => onWish({ ...wish, name })}
      />
      <span class="field">
        <label for="scope">Scope</label>{" "}
        <select
          id="scope"
          value={wish.scope}
          onChange={({ currentTarget }) => onWish({ ...wish, scope: currentTarget.value as NewKey["scope"] })}
        >
          <option value="read">read</option>
          <option value="operate">operate</option>
        </select>
      </span>
      <Field
        {...{ id: "rate", label: "Requests a minute", class: "narrow", inputMode: "numeric", placeholder: "default" }}
        value={wish.rate}
        onInput={(rate) => onWish({ ...wish, rate })}
      />
      <button type="submit" disabled={isBusy || wish.name.trim() === "" || isWrongRate}>
        Add
      </button>
      <span role="status">{state}</span>
    </form>
  );
}

interface KeyTableOptions {
  readonly keys: readonly Key[];
  readonly isBusy: boolean;
  readonly onRotate: (name: string) => void;
  readonly onRevoke: (name: string) => void;
}

function KeyTable({ keys, isBusy, onRotate, onRevoke }: KeyTableOptions) {
  return (
    <Table label="Keys" titles={KEY_COLUMNS}>
      {keys.map((key) => (
        <tr key={`${key.source} ${key.name}`}>
          <th scope="row">{plain(key.name)}</th>
          <td>{key.scope}</td>
          <td>{whole(key.requestsPerMinute)}</td>
          <td>{key.collectionsPerHour === null ? "no limit" : whole(key.collectionsPerHour)}</td>
          <td>{key.subscriptions === null ? "no limit" : whole(key.subscriptions)}</td>
          <td>
            {whole(key.requestsToday)}
            {key.cost === null ? null : <small> {whole(key.cost.calls.day)} node calls</small>}
          </td>
          <td>{key.createdAt === null ? "–" : ago(key.createdAt)}</td>
          <td>{key.lastUse === null ? "–" : ago(key.lastUse)}</td>
          <td>
            <KeyActions of={key} isBusy={isBusy} onRotate={onRotate} onRevoke={onRevoke} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function KeyActions({ of, isBusy, onRotate, onRevoke }: Omit<KeyTableOptions, "keys"> & { readonly of: Key }) {
  if (of.source === "environment") return <>set in the environment</>;
  const name = plain(of.name);
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => onRotate(of.name)} aria-label={`Rotate ${name}`}>
        Rotate
      </button>{" "}
      <Confirmed
        name="Revoke"
        label={`Revoke ${name}`}
        effect="The key stops working at once, and its connections are closed."
        isDisabled={isBusy}
        onConfirm={() => onRevoke(of.name)}
      />
    </>
  );
}

// Collections: a list of them to index, and the changes of one.

interface ChainsOptions {
  /** The enabled chains. */
  readonly chains: readonly string[];
}

/** Contracts per request. */
const AT_ONCE = 500;

function IndexList({ chains }: ChainsOptions) {
  const { client } = useSession();
  const [chain, setChain] = useChainChoice(chains);
  const [text, setText] = useState("");
  const [answers, setAnswers] = useState<IndexAnswer["items"]>([]);
  const [state, run, isBusy] = useAction();
  const listed = shownContracts(text, chain);
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      const contracts = contractsOf(text, chain);
      const items: IndexAnswer["items"][number][] = [];
      for (let at = 0; at < contracts.length; at += AT_ONCE)
        items.push(...(await client.index(contracts.slice(at, at + AT_ONCE))).items);
      setAnswers(items);
      return `${whole(items.length)} requested.`;
    });
  };
  return (
    <Panel title="Index a list">
      <form onSubmit={submit}>
        <p class="row">
          <ChainMenu id="list-chain" {...{ chains, chain }} onChain={setChain} />
        </p>
        <label for="list">One address per line. For another chain: chain,address</label>
        <textarea id="list" rows={4} value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />
        <p class="row">
          <button type="submit" disabled={isBusy || text.trim() === ""}>
            Index
          </button>
          <span role="status">{state}</span>
        </p>
      </form>
      <RequestedList items={answers} />
      <Twin
        command={indexCommand(listed)}
        requests={[{ method: "POST", path: "/api/collections", body: { items: listed } }]}
      />
    </Panel>
  );
}

/** Contracts that the lines for a shell show: those of the list, or an example while it is empty or wrong. */
function shownContracts(text: string, chain: string): Contract[] {
  try {
    const contracts = contractsOf(text, chain).slice(0, AT_ONCE);
    if (contracts.length > 0) return contracts;
  } catch {
    // The button says what is wrong.
  }
  return [{ chain, address: "<address>" }];
}

/** A few contracts of one chain are arguments, and more are a file of lines like those of the list. */
function indexCommand(contracts: readonly Contract[]): string {
  const [{ chain = "eth" } = {}] = contracts;
  const isShort = contracts.length <= 3 && contracts.every((one) => one.chain === chain);
  if (!isShort) return "index --file contracts.txt --wait";
  return `index ${contracts.map(({ address }) => address).join(" ")} --chain ${quoted(chain)} --wait`;
}

/** @param on the chain of lines without one @throws Error that names the line which is none */
function contractsOf(text: string, on: string): Contract[] {
  const lines = text.split(/\r?\n/).map((line) => line.replace(/#.*/, "").trim());
  return lines.flatMap((line, at) => {
    if (line === "") return [];
    const parts = line.split(",").map((part) => part.trim());
    const [chain, address] = parts.length === 1 ? [on, parts[0]] : parts;
    if (chain === undefined || address === undefined || !isAddress(address))
      throw new Error(`Line ${at + 1} is no address: ${plain(line, 60)}`);
    return [{ chain, address }];
  });
}

/** The changes of a collection that the operator names. */
function OneCollection({ chains }: ChainsOptions) {
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

// The endpoints of each chain: their state and why they rest, how quick they are, and what they cost.

const PAUSE_MS = 2_000;

function EndpointsPanel() {
  const { client } = useSession();
  const { value, error } = usePolled((signal) => client.status({ signal }), PAUSE_MS, []);
  return (
    <Panel title="Endpoints">
      <Failure error={error} />
      {value === undefined ? null : <EndpointTable status={value} />}
      <p class="quiet">
        Endpoints are set by <code>RPC_URL_…</code> in the environment of the service. A start checks them, and so does{" "}
        <code>bun run cli doctor</code>.
      </p>
      <Curl requests={[{ path: "/api/status" }]} commands={["status"]} />
    </Panel>
  );
}

function EndpointTable({ status }: { readonly status: ServiceStatus }) {
  const titles = [
    ...["Endpoint", "State", "Latency: median, 99th percentile", "Calls in the last hour", "Calls in 24 hours"],
    ...["Compute units in 24 hours", "Data in 24 hours"],
  ];
  return (
    <Table label="Endpoints" titles={titles}>
      {status.chains.flatMap(({ name, endpoints }) =>
        endpoints.map(({ label, state, reason, restsUntil, latencyMs, calls, units, bytes: read }) => (
          <tr key={`${name}/${label}`}>
            <th scope="row">
              {label} <small>{name}</small>
            </th>
            <td>
              {ENDPOINT_WORDS[state].word}
              {reason === null ? "" : `: ${plain(reason, 200)}`}
              {restsUntil === null ? "" : `, until ${clock(restsUntil)}`}
            </td>
            <td>{latencyMs === null ? "–" : `${latencyMs.p50} ms, ${latencyMs.p99} ms`}</td>
            <td>
              <Calls counts={calls.hour} />
            </td>
            <td>
              <Calls counts={calls.day} />
            </td>
            <td>{short(units.day)}</td>
            <td>{bytes(read.day)}</td>
          </tr>
        )),
      )}
    </Table>
  );
}

/** The calls by method, most frequent first. */
function Calls({ counts }: { readonly counts: Readonly<Record<string, number>> }) {
  const methods = Object.entries(counts).sort(([, a], [, b]) => b - a);
  if (methods.length === 0) return <>none</>;
  return (
    <ul class="plain-list calls">
      {methods.map(([method, count]) => (
        <li key={method}>
          {short(count)} <code>{plain(method, 40)}</code>
        </li>
      ))}
    </ul>
  );
}
