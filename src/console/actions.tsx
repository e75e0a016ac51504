/** What an operator does with collections: indexing one, and the changes of one, on each screen that has them. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type IndexAnswer, ServiceError } from "../client/index.ts";
import { COLLECTION_WORDS, statusWord } from "../status-words.ts";
import { ChainMenu, useChainChoice } from "./chain-menu.tsx";
import { useAction } from "./hooks.ts";
import { apiPath, Curl, commandLine, Field, isAddress, linkTo, quoted, type Request, type Where } from "./parts.tsx";
import { useSession } from "./session.ts";

const NOT_AN_ADDRESS = "An address has 0x and 40 hexadecimal digits.";

interface ContractFormOptions {
  /** Makes the ids of the fields. */
  readonly id: string;
  readonly chains: readonly string[];
  /** The text of the button. */
  readonly action: string;
  /** Returns what to say afterwards. */
  readonly onContract: (contract: Where) => Promise<string>;
}

/** Asks for a contract: its chain and its address. */
export function ContractForm({ id, chains, action, onContract }: ContractFormOptions) {
  const [address, setAddress] = useState("");
  const [chain, setChain] = useChainChoice(chains);
  const [state, run, isBusy] = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      if (!isAddress(address.trim())) return NOT_AN_ADDRESS;
      return onContract({ chain, address: address.trim().toLowerCase() });
    });
  };
  return (
    <form class="row" onSubmit={submit}>
      <ChainMenu id={`${id}-chain`} {...{ chains, chain }} onChain={setChain} />
      <Field id={id} label="Contract" value={address} placeholder="0x…" onInput={setAddress} />
      <button type="submit" disabled={isBusy}>
        {action}
      </button>
      <span role="status">{state}</span>
    </form>
  );
}

interface IndexFormOptions {
  readonly chains: readonly string[];
  /** Called when the service has taken a request. */
  readonly onDone: () => void;
}

/** Requests the indexing of one contract, and links to it. */
export function IndexForm({ chains, onDone }: IndexFormOptions) {
  const { client } = useSession();
  const [items, setItems] = useState<IndexAnswer["items"]>([]);
  const index = async (contract: Where) => {
    setItems((await client.index([contract])).items);
    onDone();
    return "Requested.";
  };
  return (
    <>
      <ContractForm id="first" {...{ chains }} action="Index" onContract={index} />
      <RequestedList items={items} />
    </>
  );
}

/** The contracts of a request, with what the service had of them before. */
export function RequestedList({ items }: { readonly items: IndexAnswer["items"] }) {
  if (items.length === 0) return null;
  return (
    <ul class="plain-list" aria-label="Requested contracts">
      {items.map(({ chain, address, before }) => (
        <li key={`${chain}/${address}`}>
          <a href={linkTo.collection(chain, address)}>
            {chain} <code>{address}</code>
          </a>{" "}
          {before === null ? "is new" : `was known: ${statusWord(COLLECTION_WORDS, before)}`}
        </li>
      ))}
    </ul>
  );
}

// The changes of one collection.

const CHANGES = {
  refresh: {
    name: "Refresh",
    more: " metadata",
    effect: "Fetches the metadata of all tokens again.",
    done: "The metadata of all tokens is fetched again.",
    isQuestioned: false,
  },
  reindex: {
    name: "Reindex",
    more: "",
    effect: "Reads the whole history again from the first block, which repairs damaged data.",
    done: "The collection is indexed again.",
    isQuestioned: true,
  },
  remove: {
    name: "Remove",
    more: "",
    effect: "Stops indexing the collection and frees its memory. The next request for it has it indexed again.",
    done: "The collection is removed.",
    isQuestioned: true,
  },
} as const;
type Change = keyof typeof CHANGES;
const CHANGE_NAMES = Object.keys(CHANGES) as Change[];

const requestOf = (change: Change, path: string): Request =>
  change === "remove" ? { method: "DELETE", path } : { method: "POST", path: `${path}/${change}`, body: {} };

/** The address is none while a visitor types one. */
interface ActionsOptions extends Where {
  /** Sends the request of a removal, on the page of the collection. */
  readonly onRemove?: (request: () => Promise<unknown>) => Promise<void>;
}

/** The changes of a collection, and its export. A key of scope read sees which scope the changes need. */
export function CollectionActions({ chain, address, onRemove }: ActionsOptions) {
  const { client, scope } = useSession();
  const [state, run, isBusy] = useAction();
  const isAllowed = scope === "operate";
  const perform = (change: Change) =>
    run(async () => {
      if (!isAddress(address)) return NOT_AN_ADDRESS;
      try {
        const request = () => client[change]({ chain, address });
        await (change === "remove" && onRemove !== undefined ? onRemove(request) : request());
      } catch (error) {
        if (error instanceof ServiceError && error.status === 404) return "This collection was never requested.";
        throw error;
      }
      return CHANGES[change].done;
    });
  return (
    <section aria-label="Actions">
      <div class="row">
        {CHANGE_NAMES.map((change) => (
          <ChangeButton key={change} {...{ change }} isDisabled={!isAllowed || isBusy} onChange={perform} />
        ))}
        {isAddress(address) ? (
          <a class="button" href={linkTo.exported(chain, address)}>
            Export
          </a>
        ) : null}
        {isAllowed ? <ChangeLines {...{ chain, address }} /> : null}
        <span role="status">{state}</span>
      </div>
      {isAllowed ? null : (
        <p class="quiet">Refresh, Reindex and Remove need a key of scope operate. This key has scope read.</p>
      )}
    </section>
  );
}

interface ChangeButtonOptions {
  readonly change: Change;
  readonly isDisabled: boolean;
  readonly onChange: (change: Change) => void;
}

function ChangeButton({ change, isDisabled, onChange }: ChangeButtonOptions) {
  const { name, more, effect, isQuestioned } = CHANGES[change];
  if (isQuestioned) {
    const label = `${name} the collection`;
    return <Confirmed {...{ name, label, isDisabled }} effect={effect} onConfirm={() => onChange(change)} />;
  }
  return (
    <button type="button" title={effect} disabled={isDisabled} onClick={() => onChange(change)}>
      {name}
      <span class="wide">{more}</span>
    </button>
  );
}

/** The changes as lines for a shell. */
function ChangeLines({ chain, address }: Where) {
  const shown = isAddress(address) ? address : "<address>";
  const path = `${apiPath(["collections", chain])}/${shown}`;
  return (
    <Curl
      requests={CHANGE_NAMES.map((change) => requestOf(change, path))}
      commands={CHANGE_NAMES.map((change) => `${change} ${shown} --chain ${quoted(chain)}`)}
    />
  );
}

interface ConfirmedOptions {
  readonly name: string;
  readonly label: string;
  /** What it does, in a sentence. */
  readonly effect: string;
  readonly isDisabled: boolean;
  readonly onConfirm: () => void;
}

/** A button whose change can't be taken back: it says what will happen, and asks. */
export function Confirmed({ name, label, effect, isDisabled, onConfirm }: ConfirmedOptions) {
  const [isAsking, setAsking] = useState(false);
  const cancel = useRef<HTMLButtonElement>(null);
  // The pressed button is gone, and with it the focus of the keyboard.
  useEffect(() => cancel.current?.focus(), [isAsking]);
  if (!isAsking) {
    return (
      <button type="button" title={effect} disabled={isDisabled} onClick={() => setAsking(true)} aria-label={label}>
        {name}
      </button>
    );
  }
  const confirm = () => {
    setAsking(false);
    onConfirm();
  };
  return (
    <span class="confirm" role="alert">
      {effect} Sure?{" "}
      <button type="button" disabled={isDisabled} onClick={confirm} aria-label={`${label}, confirmed`}>
        {name}
      </button>{" "}
      <button type="button" ref={cancel} onClick={() => setAsking(false)} aria-label={`Cancel: ${label}`}>
        Cancel
      </button>
    </span>
  );
}

/** An action on the command line, and its requests. */
export function Twin({ command, requests }: { readonly command: string; readonly requests: readonly Request[] }) {
  return (
    <>
      <p class="quiet">
        On the command line: <code>{commandLine(command)}</code>
      </p>
      <Curl requests={requests} />
    </>
  );
}
