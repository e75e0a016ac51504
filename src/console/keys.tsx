/** The keys of the service: a table of them, and their changes. */
import { useState } from "preact/hooks";
import type { Key } from "../client/index.ts";
import { Confirmed, Twin } from "./actions.tsx";
import { useAction, useAnswer } from "./hooks.ts";
import { ago, commandLine, Failure, Field, Panel, plain, Table, whole } from "./parts.tsx";
import { useSession } from "./session.ts";

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

export function Keys() {
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
  const rate = rateOf(wish);
  const options = `${wish.scope === "operate" ? " --scope operate" : ""}${rate === undefined ? "" : ` --rpm ${rate}`}`;
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
      <Twin
        command={`keys add ${quotedName(wish.name)}${options}`}
        requests={[
          { path: "/api/keys" },
          { method: "POST", path: "/api/keys", body: { ...bodyOf(wish), name: quotedName(wish.name) } },
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
          <td>{whole(key.requestsToday)}</td>
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

const quotedName = (name: string): string => (/^[\w.-]+$/.test(name.trim()) ? name.trim() : "<name>");
