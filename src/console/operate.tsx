/** What an operator changes: keys, lists of contracts to index, single collections. Each with its twin on the command line. */
import { useState } from "preact/hooks";
import { type Contract, type IndexAnswer, type Key, ServiceError } from "../client/index.ts";
import { EndpointsPanel } from "./endpoints.tsx";
import { ago, isAddress, plain, whole } from "./format.ts";
import { useAction, useAnswer, useSession } from "./hooks.ts";
import { Curl, commandLine, Failure, linkTo, Panel, quoted, type Request, Scroll } from "./parts.tsx";

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

/** An action on the command line, and its requests. */
function Twin({ command, requests }: { readonly command: string; readonly requests: readonly Request[] }) {
  return (
    <>
      <p class="quiet">
        On the command line: <code>{commandLine(command)}</code>
      </p>
      <Curl requests={requests} />
    </>
  );
}

const KEY_COLUMNS = [
  ...["Name", "Scope", "Requests a minute", "New collections an hour", "Subscriptions"],
  ...["Requests today", "Added", "Last use", ""],
];

function Keys() {
  const { client } = useSession();
  const keys = useAnswer((signal) => client.keys({ signal }), []);
  const [name, setName] = useState("");
  const [scope, setScope] = useState<"read" | "operate">("read");
  const [rate, setRate] = useState("");
  const [made, setMade] = useState<{ readonly name: string; readonly key: string }>();
  const [state, run, isBusy] = useAction();
  const change = (work: () => Promise<string>) =>
    run(async () => {
      const words = await work();
      keys.reload();
      return words;
    });
  const perMinute = /^[1-9]\d{0,8}$/.test(rate.trim()) ? Number(rate) : undefined;
  const asked = { name: name.trim(), scope, ...(perMinute === undefined ? {} : { requestsPerMinute: perMinute }) };
  const add = (event: Event) => {
    event.preventDefault();
    change(async () => {
      setMade(await client.addKey(asked));
      setName("");
      setRate("");
      return "";
    });
  };
  const rotate = (of: Key) =>
    change(async () => {
      setMade(await client.rotateKey(of.name));
      return `The former text of ${plain(of.name)} stays valid for a day.`;
    });
  const revoke = (of: Key) =>
    change(async () => {
      await client.revokeKey(of.name);
      return `${plain(of.name)} is revoked.`;
    });
  return (
    <Panel title="Keys">
      <Failure error={keys.error} />
      <form class="row" onSubmit={add}>
        <label for="name">New key</label>
        <input
          id="name"
          class="narrow"
          value={name}
          placeholder="name"
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
        <label for="scope">Scope</label>
        <select
          id="scope"
          value={scope}
          onChange={({ currentTarget }) => setScope(currentTarget.value as typeof scope)}
        >
          <option value="read">read</option>
          <option value="operate">operate</option>
        </select>
        <label for="rate">Requests a minute</label>
        <input
          id="rate"
          class="narrow"
          inputMode="numeric"
          value={rate}
          placeholder="default"
          onInput={({ currentTarget }) => setRate(currentTarget.value)}
        />
        <button
          type="submit"
          disabled={isBusy || name.trim() === "" || (rate.trim() !== "" && perMinute === undefined)}
        >
          Add
        </button>
        <span role="status">{state}</span>
      </form>
      {made === undefined ? null : (
        <p class="made" role="status">
          The key {plain(made.name)}, shown this once: <code>{made.key}</code>{" "}
          <button type="button" onClick={() => setMade(undefined)}>
            I have it
          </button>
        </p>
      )}
      <Scroll label="Keys">
        <table>
          <thead>
            <tr>
              {KEY_COLUMNS.map((title) => (
                <th scope="col" key={title}>
                  {title === "" ? <span class="hidden">Changes</span> : title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(keys.value ?? []).map((key) => (
              <tr key={`${key.source} ${key.name}`}>
                <th scope="row">{plain(key.name)}</th>
                <td>{key.scope}</td>
                <td>{whole(key.requestsPerMinute)}</td>
                <td>{key.collectionsPerHour === null ? "no limit" : whole(key.collectionsPerHour)}</td>
                <td>{key.subscriptions === null ? "no limit" : whole(key.subscriptions)}</td>
                <td>{whole(key.requestsToday)}</td>
                <td>{key.createdAt === null ? "–" : ago(key.createdAt)}</td>
                <td>{key.lastUse === null ? "–" : ago(key.lastUse)}</td>
                <td>
                  {key.source === "environment" ? (
                    "set by the environment"
                  ) : (
                    <>
                      <button
                        type="button"
                        disabled={isBusy}
                        onClick={() => rotate(key)}
                        aria-label={`Rotate ${plain(key.name)}`}
                      >
                        Rotate
                      </button>{" "}
                      <Confirmed
                        name="Revoke"
                        label={`Revoke ${plain(key.name)}`}
                        isDisabled={isBusy}
                        onConfirm={() => revoke(key)}
                      />
                    </>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Twin
        command={`keys add ${quotedName(name)}${scope === "operate" ? " --scope operate" : ""}${perMinute === undefined ? "" : ` --rpm ${perMinute}`}`}
        requests={[
          { path: "/api/keys" },
          { method: "POST", path: "/api/keys", body: { ...asked, name: quotedName(name) } },
          { method: "POST", path: "/api/keys/<name>/rotate", body: {} },
          { method: "DELETE", path: "/api/keys/<name>" },
        ]}
      />
      <p class="quiet">
        Rotate and Revoke: <code>{commandLine("keys rotate <name> --grace 24h")}</code>,{" "}
        <code>{commandLine("keys revoke <name>")}</code>
      </p>
    </Panel>
  );
}

const quotedName = (name: string): string => (/^[\w.-]+$/.test(name.trim()) ? name.trim() : "<name>");

interface ConfirmedOptions {
  readonly name: string;
  readonly label: string;
  readonly isDisabled: boolean;
  readonly onConfirm: () => void;
}

/** A button whose change can't be taken back: it asks once more. */
function Confirmed({ name, label, isDisabled, onConfirm }: ConfirmedOptions) {
  const [isAsking, setAsking] = useState(false);
  if (!isAsking) {
    return (
      <button type="button" disabled={isDisabled} onClick={() => setAsking(true)} aria-label={label}>
        {name}
      </button>
    );
  }
  const confirm = () => {
    setAsking(false);
    onConfirm();
  };
  return (
    <span class="confirm">
      Sure?{" "}
      <button type="button" disabled={isDisabled} onClick={confirm} aria-label={`${label}, confirmed`}>
        {name}
      </button>{" "}
      <button type="button" onClick={() => setAsking(false)} aria-label={`${label}, not now`}>
        Keep
      </button>
    </span>
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
  const [change, setChange] = useState<keyof typeof CHANGES>("reindex");
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
        <label for="what">Change</label>
        <select
          id="what"
          value={change}
          onChange={({ currentTarget }) => setChange(currentTarget.value as keyof typeof CHANGES)}
        >
          {Object.keys(CHANGES).map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
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

const requestOf = (change: keyof typeof CHANGES, path: string): Request =>
  change === "remove" ? { method: "DELETE", path } : { method: "POST", path: `${path}/${change}`, body: {} };
