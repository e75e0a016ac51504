/** The keys of the service: a table of them, and their changes. */
import { useState } from "preact/hooks";
import type { Key } from "../../client/index.ts";
import { Action, Form } from "../parts/action.tsx";
import { Twin } from "../parts/curl.tsx";
import { Choice, Field } from "../parts/fields.tsx";
import { ago, plain, whole } from "../parts/format.ts";
import { Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { Table } from "../parts/table.tsx";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";

interface NewKey {
  readonly name: string;
  readonly scope: "read" | "operate";
  /** As typed; "" for the default. */
  readonly rate: string;
}

const SCOPES = (["read", "operate"] as const).map((value) => ({ value, name: value }));
const NO_KEY: NewKey = { name: "", scope: "read", rate: "" };

/** The rate of a new key; undefined for the default, and for a text that is no rate. */
const rateOf = ({ rate }: NewKey): number | undefined =>
  /^[1-9]\d{0,8}$/.test(rate.trim()) ? Number(rate) : undefined;

const bodyOf = (key: NewKey) => {
  const requestsPerMinute = rateOf(key);
  return { name: key.name.trim(), scope: key.scope, ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }) };
};

/** A key with its text, which the service tells once. */
interface MadeKey {
  readonly name: string;
  readonly key: string;
}

export function KeysPanel() {
  const { client, reload } = useSession();
  const keys = useQuery(["keys"], (signal) => client.keys({ signal }));
  const [wish, setWish] = useState(NO_KEY);
  const [made, setMade] = useState<MadeKey>();
  const add = async () => {
    setMade(await client.addKey(bodyOf(wish)));
    setWish({ ...NO_KEY, scope: wish.scope });
    reload("keys");
    return "";
  };
  return (
    <Panel title="Keys">
      <KeyForm {...{ wish, add }} onWish={setWish} />
      {made === undefined ? null : (
        <p class="made" role="status">
          The key {plain(made.name)}, shown this once: <code>{made.key}</code>{" "}
          <button type="button" onClick={() => setMade(undefined)}>
            I have it
          </button>
        </p>
      )}
      <QueryView of={keys} loading="Asking for the keys…">
        {(rows) => <KeyTable keys={rows} onMade={setMade} />}
      </QueryView>
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
    <Twin
      calls={[
        (client) => client.addKey({ ...bodyOf(wish), name }),
        (client) => client.rotateKey("<name>"),
        (client) => client.revokeKey("<name>"),
      ]}
      commands={[`keys add ${name}${options}`, "keys rotate <name> --grace 24h", "keys revoke <name>"]}
    />
  );
}

interface KeyFormOptions {
  readonly wish: NewKey;
  readonly onWish: (wish: NewKey) => void;
  readonly add: () => Promise<string>;
}

function KeyForm({ wish, onWish, add }: KeyFormOptions) {
  const isWrongRate = wish.rate.trim() !== "" && rateOf(wish) === undefined;
  return (
    <Form action="Add" isDisabled={wish.name.trim() === "" || isWrongRate} work={add}>
      <Field
        {...{ id: "name", label: "New key", class: "narrow", placeholder: "name" }}
        value={wish.name}
        onInput={(name) => onWish({ ...wish, name })}
      />
      <Choice
        {...{ id: "scope", label: "Scope", options: SCOPES }}
        value={wish.scope}
        onChoose={(scope) => onWish({ ...wish, scope })}
      />
      <Field
        {...{ id: "rate", label: "Requests a minute", class: "narrow", inputMode: "numeric", placeholder: "default" }}
        value={wish.rate}
        onInput={(rate) => onWish({ ...wish, rate })}
      />
    </Form>
  );
}

interface KeyTableOptions {
  readonly keys: readonly Key[];
  readonly onMade: (made: MadeKey) => void;
}

const limitText = (limit: number | null): string => (limit === null ? "no limit" : whole(limit));
const ageText = (time: string | null): string => (time === null ? "–" : ago(time));

const KeyTable = ({ keys, onMade }: KeyTableOptions) => (
  <Table
    label="Keys"
    columns={[
      { title: "Name", isName: true, cell: ({ name }) => plain(name) },
      { title: "Scope", cell: ({ scope }) => scope },
      { title: "Requests a minute", cell: ({ requestsPerMinute }) => whole(requestsPerMinute) },
      { title: "New collections an hour", cell: ({ collectionsPerHour }) => limitText(collectionsPerHour) },
      { title: "Subscriptions", cell: ({ subscriptions }) => limitText(subscriptions) },
      {
        title: "Requests today",
        cell: ({ requestsToday, cost }) => (
          <>
            {whole(requestsToday)}
            {cost === null ? null : <small> {whole(cost.calls.day)} node calls</small>}
          </>
        ),
      },
      { title: "Added", cell: ({ createdAt }) => ageText(createdAt) },
      { title: "Last use", cell: ({ lastUse }) => ageText(lastUse) },
      { title: "", cell: (key) => <KeyActions of={key} onMade={onMade} /> },
    ]}
    rows={keys}
    keyOf={({ source, name }) => `${source} ${name}`}
    none="There is no key."
  />
);

function KeyActions({ of, onMade }: Pick<KeyTableOptions, "onMade"> & { readonly of: Key }) {
  const { client, reload } = useSession();
  if (of.source === "environment") return <>set in the environment</>;
  const name = plain(of.name);
  const rotate = async () => {
    onMade(await client.rotateKey(of.name));
    reload("keys");
    return "The former text stays valid for a day.";
  };
  const revoke = async () => {
    await client.revokeKey(of.name);
    reload("keys");
    return "Revoked.";
  };
  return (
    <>
      <Action name="Rotate" label={`Rotate ${name}`} work={rotate} />{" "}
      <Action
        name="Revoke"
        label={`Revoke ${name}`}
        effect="The key stops working at once, and its connections are closed."
        isQuestioned
        work={revoke}
      />
    </>
  );
}
