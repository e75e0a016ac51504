/** What an operator changes: keys, lists of contracts to index, single collections. Each with its twin on the command line. */
import { useState } from "preact/hooks";
import { type Contract, type IndexAnswer, ServiceError, type ServiceStatus } from "../client/index.ts";
import { useAction, usePolled } from "./hooks.ts";
import { Confirmed, Keys, Twin } from "./keys.tsx";
import {
  bytes,
  Curl,
  clock,
  Failure,
  isAddress,
  linkTo,
  Panel,
  plain,
  quoted,
  type Request,
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
  return (
    <>
      <h1>Operate</h1>
      <Keys />
      <IndexList />
      <OneCollection />
      <EndpointsPanel />
    </>
  );
}

/** Contracts per request. */
const AT_ONCE = 500;

function IndexList() {
  const { client } = useSession();
  const [text, setText] = useState("");
  const [answers, setAnswers] = useState<IndexAnswer["items"]>([]);
  const [state, run, isBusy] = useAction();
  const listed = shownContracts(text);
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      const contracts = contractsOf(text);
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
        <label for="list">One address, or chain,address, per line</label>
        <textarea id="list" rows={4} value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />
        <p class="row">
          <button type="submit" disabled={isBusy || text.trim() === ""}>
            Index
          </button>
          <span role="status">{state}</span>
        </p>
      </form>
      {answers.length === 0 ? null : (
        <ul class="plain-list">
          {answers.map(({ chain, address, before }) => (
            <li key={`${chain}/${address}`}>
              <a href={linkTo.collection(chain, address)}>
                {chain} <code>{address}</code>
              </a>{" "}
              {before === null ? "was unknown" : `was ${before.replaceAll("_", " ")}`}
            </li>
          ))}
        </ul>
      )}
      <Twin
        command={indexCommand(listed)}
        requests={[{ method: "POST", path: "/api/collections", body: { items: listed } }]}
      />
    </Panel>
  );
}

/** Contracts that the lines for a shell show: those of the list, or an example while it is empty or wrong. */
function shownContracts(text: string): Contract[] {
  try {
    const contracts = contractsOf(text).slice(0, AT_ONCE);
    if (contracts.length > 0) return contracts;
  } catch {
    // The button says what is wrong.
  }
  return [{ chain: "eth", address: "<address>" }];
}

/** A few contracts of one chain are arguments, and more are a file of lines like those of the list. */
function indexCommand(contracts: readonly Contract[]): string {
  const [{ chain = "eth" } = {}] = contracts;
  const isShort = contracts.length <= 3 && contracts.every((one) => one.chain === chain);
  if (!isShort) return "index --file contracts.txt --wait";
  return `index ${contracts.map(({ address }) => address).join(" ")} --chain ${quoted(chain)} --wait`;
}

/** @throws Error that names the line which is none */
function contractsOf(text: string): Contract[] {
  const lines = text.split(/\r?\n/).map((line) => line.replace(/#.*/, "").trim());
  return lines.flatMap((line, at) => {
    if (line === "") return [];
    const parts = line.split(",").map((part) => part.trim());
    const [chain, address] = parts.length === 1 ? ["eth", parts[0]] : parts;
    if (chain === undefined || address === undefined || !isAddress(address))
      throw new Error(`Line ${at + 1} is no address: ${plain(line, 60)}`);
    return [{ chain, address }];
  });
}

const CHANGES = {
  reindex: "Indexes it anew from its first block. Repairs a damaged stream.",
  refresh: "Fetches the metadata of all its tokens again.",
  remove: "Stops following it, until a client requests it again.",
} as const;

function OneCollection() {
  const { client } = useSession();
  const [chain, setChain] = useState("eth");
  const [address, setAddress] = useState("");
  const [change, setChange] = useState<Change>("reindex");
  const [state, run, isBusy] = useAction();
  const shown = isAddress(address.trim()) ? address.trim() : "<address>";
  const perform = () =>
    run(async () => {
      const contract = { chain: chain.trim() || "eth", address: address.trim() };
      if (!isAddress(contract.address)) return "An address has 0x and 40 hexadecimal digits.";
      try {
        await client[change](contract);
      } catch (error) {
        if (error instanceof ServiceError && error.status === 404) return "This collection was never requested.";
        throw error;
      }
      return "Done.";
    });
  const submit = (event: Event) => {
    event.preventDefault();
    if (change !== "remove") perform();
  };
  return (
    <Panel title="One collection">
      <form class="row" onSubmit={submit}>
        <ChangeChoice change={change} onChange={setChange} />
        <label for="on">Chain</label>
        <input id="on" class="narrow" value={chain} onInput={({ currentTarget }) => setChain(currentTarget.value)} />
        <label for="which">Contract</label>
        <input
          id="which"
          value={address}
          placeholder="0x…"
          onInput={({ currentTarget }) => setAddress(currentTarget.value)}
        />
        {change === "remove" ? (
          <Confirmed name="Do it" label="Remove the collection" isDisabled={isBusy} onConfirm={perform} />
        ) : (
          <button type="submit" disabled={isBusy}>
            Do it
          </button>
        )}
        <span role="status">{state}</span>
      </form>
      <p>{CHANGES[change]}</p>
      <Twin
        command={`${change} ${shown} --chain ${quoted(chain.trim() || "eth")}`}
        requests={[requestOf(change, `/api/collections/${encodeURIComponent(chain.trim() || "eth")}/${shown}`)]}
      />
    </Panel>
  );
}

type Change = keyof typeof CHANGES;

function ChangeChoice({ change, onChange }: { readonly change: Change; readonly onChange: (change: Change) => void }) {
  return (
    <>
      <label for="what">Change</label>
      <select id="what" value={change} onChange={({ currentTarget }) => onChange(currentTarget.value as Change)}>
        {Object.keys(CHANGES).map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </>
  );
}

const requestOf = (change: Change, path: string): Request =>
  change === "remove" ? { method: "DELETE", path } : { method: "POST", path: `${path}/${change}`, body: {} };

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
      <Curl requests={[{ path: "/api/status" }]} command="status" />
    </Panel>
  );
}

function EndpointTable({ status }: { readonly status: ServiceStatus }) {
  const titles = ["Endpoint", "State", "Median, 99 of 100", "Calls in an hour", "In 24 hours", "Units", "Bytes"];
  return (
    <Table label="Endpoints" titles={titles}>
      {status.chains.flatMap(({ name, endpoints }) =>
        endpoints.map(({ label, state, reason, restsUntil, latencyMs, calls, units, bytes: read }) => (
          <tr key={`${name}/${label}`}>
            <th scope="row">
              {label} <small>{name}</small>
            </th>
            <td>
              {state.replace("_", " ")}
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
  return (
    <ul class="plain-list">
      {methods.map(([method, count]) => (
        <li key={method}>
          {short(count)} <code>{plain(method, 40)}</code>
        </li>
      ))}
    </ul>
  );
}
