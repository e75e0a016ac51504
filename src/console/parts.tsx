/** Small parts that several screens show. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Contract, type ListedCollection, ServiceError } from "../client/index.ts";
import { type Query, queryText } from "../client/requests.ts";
import { COLLECTION_WORDS } from "../status-words.ts";
import { isolated } from "./direction.ts";
import { explorerOf, useAction } from "./hooks.ts";
import { BASE } from "./session.ts";

/** An address on a chain. */
export type Where = Required<Contract>;

// Numbers, times and addresses as people read them.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const PERCENT = new Intl.NumberFormat("en-US", { style: "percent", maximumFractionDigits: 2 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const whole = (count: number | bigint): string => WHOLE.format(count);
/** `1 token`, `2 tokens`. */
export const counted = (count: number, what: string): string => `${whole(count)} ${what}${count === 1 ? "" : "s"}`;
export const short = (count: number): string => (count < 10_000 ? whole(count) : SHORT.format(count));
/** @param share from 0 to 1 */
export const percent = (share: number): string => PERCENT.format(share);

/** Six significant digits of a long decimal. */
export const shortened = (text: string): string =>
  new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 }).format(Number(text));

/** `942 B`, `3.0 MB`. */
export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [value, unit] = [count, 0];
  while (value >= 1_000 && unit < units.length - 1) [value, unit] = [value / 1_000, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** `18 s`, `3 min`, `2 h 10 min`, `4 days`. */
function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** The age of an ISO time: `18 s ago`. */
export const ago = (time: string): string => `${duration((Date.now() - Date.parse(time)) / 1_000)} ago`;

/** `2026-11-24 04:02:30 UTC`. */
export const clock = (time: string): string => `${time.slice(0, 19).replace("T", " ")} UTC`;

/** `0xbc4c…f13d`. */
export const brief = (address: string): string =>
  address.length > 14 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address;

/**
 * Names and ids come from contracts: what could hide or turn other text is left out, and long ones are cut. A name that is
 * written from right to left doesn't turn its neighbours.
 */
export function plain(text: string, most = 80): string {
  const clean = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "·");
  const short = clean.length > most ? `${clean.slice(0, most)}…` : clean;
  return isolated(short);
}

/** Cuts a long text in the middle: names of tokens often differ at their ends only. */
export function cutInside(text: string, most: number): string {
  const letters = [...text];
  if (letters.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${letters.slice(0, most - 1 - end).join("")}…${letters.slice(-end).join("")}`;
}

const ADDRESS = /^0x[0-9a-f]{40}$/i;
export const NO_OWNER = `0x${"0".repeat(40)}`;
export const isAddress = (text: string): boolean => ADDRESS.test(text);

/** A bar that fills up. @param percent from 0 to 100; null while it is unknown */
export function Bar({ percent, label }: { readonly percent: number | null; readonly label: string }) {
  const value = percent ?? 0;
  return (
    <div
      class="bar"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      {...(percent === null ? {} : { "aria-valuenow": Math.floor(value) })}
    >
      <div style={{ width: `${value}%` }} />
      <span>{percent === null ? "…" : `${Math.floor(value)} %`}</span>
    </div>
  );
}

interface AddressOptions {
  readonly value: string;
  /** The chain that it is on, for the link to a block explorer. */
  readonly chain: string;
  /** Where its own text leads. */
  readonly href?: string | undefined;
  /** True for an address that is cut only where the screen is narrow. */
  readonly isLong?: boolean;
}

/** An address, cut in the middle. The whole is its title, shown when the keyboard reaches it, and copied by a button. */
export const AddressLink = ({ value, ...options }: AddressOptions) => (
  <Identifier {...options} value={value} path={`address/${value}`} />
);

/** The hash of a transaction, like an address. */
export const Transaction = ({ value, chain }: Pick<AddressOptions, "value" | "chain">) => (
  <Identifier value={value} chain={chain} path={`tx/${value}`} />
);

/** An owner, with a link to its tokens in the collection. */
export const Owner = ({ collection, block, ...options }: OwnerOptions) => (
  <AddressLink {...options} href={linkTo.owned(options.chain, collection, options.value, block)} />
);

interface OwnerOptions extends Pick<AddressOptions, "value" | "chain" | "isLong"> {
  readonly collection: string;
  /** The block at which its tokens are shown; undefined for the newest. */
  readonly block?: number | undefined;
}

/** @param path of its page below the address of the chain's explorer */
function Identifier({ value, chain, href, isLong = false, path }: AddressOptions & { readonly path: string }) {
  const text = (
    <code title={value}>
      <span class="brief">{brief(value)}</span>
      <span class="whole">{value}</span>
    </code>
  );
  const explorer = explorerOf(chain);
  const page = explorer === undefined ? undefined : `${explorer}/${path}`;
  return (
    <span class={isLong ? "identifier long" : "identifier"}>
      {href === undefined ? text : <a href={href}>{text}</a>} <CopyButton value={value} />
      {page === undefined ? null : (
        <a
          class="explorer"
          href={page}
          target="_blank"
          rel="noreferrer"
          title={`Open at ${new URL(page).host}`}
          aria-label={`${value} at ${new URL(page).host}`}
        >
          <span />
        </a>
      )}
    </span>
  );
}

function CopyButton({ value }: { readonly value: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class={isCopied ? "copy done" : "copy"}
      title={isCopied ? "Copied" : "Copy"}
      aria-label={isCopied ? "Copied" : `Copy ${value}`}
      onClick={() => copy(value).then(() => setCopied(true))}
      onBlur={() => setCopied(false)}
    />
  );
}

/** A line for a shell, with a button that copies it. */
export const ShellLine = ({ line }: { readonly line: string }) => (
  <span class="shell-line">
    <code>{line}</code> <CopyButton value={line} />
  </span>
);

/** Copies a text. A page over http from another machine has no clipboard, and copies a selection instead. */
async function copy(text: string): Promise<void> {
  try {
    return await navigator.clipboard.writeText(text);
  } catch {
    // The selection does it.
  }
  const focused = document.activeElement as HTMLElement | null;
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus();
}

export function Failure({ error }: { readonly error: Error | undefined }) {
  if (error === undefined) return null;
  const code = error instanceof ServiceError ? ` (${error.code})` : "";
  return (
    <p class="failure" role="alert">
      {error.message}
      {code}
    </p>
  );
}

/**
 * The path of a request with its query. Undefined parameters are left out.
 * @param segments of the path below `/api`
 */
export const apiPath = (segments: readonly string[], query: Query = {}): string =>
  `/api/${segments.map(encodeURIComponent).join("/")}${queryText(query).replace(/%(?:2C|3A)/g, decodeURIComponent)}`;

export interface Request {
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
}

interface CurlOptions {
  readonly requests: readonly Request[];
  readonly commands?: readonly string[];
}

/** The requests of a screen as lines for a shell, in which `$KEY` stands for the key, and commands that do the same. */
export function Curl({ requests, commands = [] }: CurlOptions) {
  return (
    <details class="curl">
      <summary>The same with curl{commands.length === 0 ? "" : ", and on the command line"}</summary>
      <pre>
        {requests.map(curlLine).join("\n")}
        {commands.length === 0 ? "" : `\n\n${commands.map(commandLine).join("\n")}`}
      </pre>
    </details>
  );
}

/** A command for this service as a line for a shell. */
export const commandLine = (command: string): string =>
  `SERVICE_KEY="$KEY" bun run cli ${command} --url ${BASE.replace(/\/$/, "")}`;

function curlLine({ method = "GET", path, body }: Request): string {
  const verb = method === "GET" ? "" : ` -X ${method}`;
  const data = body === undefined ? "" : ` -d ${quoted(JSON.stringify(body))}`;
  return `curl${verb} -H "X-API-Key: $KEY"${data} ${quoted(urlOf(path))}`;
}

/** The address of a path of this service. */
export const urlOf = (path: string): string => `${BASE}${path.replace(/^\//, "")}`;

/** A word for the shell. */
export const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

export function Panel({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <section class="panel">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

interface FieldOptions {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly placeholder: string;
  readonly class?: "narrow";
  readonly inputMode?: "numeric";
  readonly onInput: (text: string) => void;
}

/** A field for a text, with its label. */
export const Field = ({ id, label, onInput, ...input }: FieldOptions) => (
  <span class="field">
    <label for={id}>{label}</label>{" "}
    <input id={id} onInput={({ currentTarget }) => onInput(currentTarget.value)} {...input} />
  </span>
);

/** A field that filters a list by a part of the address, the name or the symbol. */
export const Filter = ({ id, value, onInput }: Pick<FieldOptions, "id" | "value" | "onInput">) => (
  <span class="field">
    <label for={id}>Filter</label>{" "}
    <input
      {...{ id, value }}
      type="search"
      placeholder="Address, name or symbol"
      onInput={({ currentTarget }) => onInput(currentTarget.value)}
    />
  </span>
);

interface MoreOptions {
  readonly name?: string;
  readonly isBusy?: boolean;
  /** Reads on; undefined at the end of the list. */
  readonly more: (() => void) | undefined;
}

/** The button below a list that goes on. */
export const More = ({ name = "More", isBusy = false, more }: MoreOptions) =>
  more === undefined ? null : (
    <button type="button" disabled={isBusy} onClick={more}>
      {name}
    </button>
  );

interface ActionOptions {
  readonly name: string;
  /** Returns what to say afterwards. */
  readonly work: () => Promise<string>;
}

/** A button for one request, with the state of it. */
export function Action({ name, work }: ActionOptions) {
  const [state, run, isBusy] = useAction();
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => run(work)}>
        {name}
      </button>{" "}
      <span role="status">{state}</span>
    </>
  );
}

interface TableOptions {
  readonly label: string;
  /** "" for a column of buttons. */
  readonly titles: readonly string[];
  /** Titles of the columns that hold numbers. */
  readonly numbers?: readonly string[];
  readonly children: ComponentChildren;
}

/** A table. Its children are the rows. It can be scrolled, by keyboard too, if it is wider than the screen. On a narrow screen each row is a card, in which a cell has the title of its column. */
export function Table({ label, titles, numbers = [], children }: TableOptions) {
  const table = useRef<HTMLTableElement>(null);
  // The style writes the titles. Rows are components of their own, which do not know them.
  useLayoutEffect(() => {
    for (const row of table.current?.tBodies[0]?.rows ?? [])
      for (const cell of row.cells) cell.dataset["title"] = titles[cell.cellIndex] ?? "";
  });
  return (
    <section class="scroll" tabIndex={0} aria-label={label}>
      <table ref={table}>
        <thead>
          <tr>
            {titles.map((title) => (
              <th scope="col" key={title} {...(numbers.includes(title) ? { class: "number" } : {})}>
                {title === "" ? <span class="hidden">Changes</span> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}

interface FactOptions {
  readonly name: string;
  /** True for a long text. */
  readonly isWide?: boolean;
  readonly children: ComponentChildren;
}

/** A fact with its name. */
export function Fact({ name, isWide = false, children }: FactOptions) {
  return (
    <div class={isWide ? "fact wide" : "fact"}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const at = (block: number | undefined): string => (block === undefined ? "" : `?block=${block}`);

/** Where the screens are, as links. */
export const linkTo = {
  /** @param block the block to show; undefined for the newest */
  collection: (chain: string, address: string, block?: number) =>
    `#/nft/${encodeURIComponent(chain)}/${address}${at(block)}`,
  /** @param block the block to show; undefined for the newest */
  token: (chain: string, address: string, id: string, block?: number) =>
    `#/nft/${encodeURIComponent(chain)}/${address}/${id}${at(block)}`,
  /** The tokens of an owner in a collection. @param block the block to show; undefined for the newest */
  owned: (chain: string, address: string, owner: string, block?: number) =>
    `#/nft/${encodeURIComponent(chain)}/${address}?owner=${owner}${block === undefined ? "" : `&block=${block}`}`,
  /** @param block the block to price at; undefined for the newest */
  price: (chain: string, address: string, block?: number) =>
    `#/price/${encodeURIComponent(chain)}/${address}${at(block)}`,
  /** The files of a collection. */
  exported: (chain: string, address: string) => `#/nft/${encodeURIComponent(chain)}/${address}?view=export`,
  search: (text: string) => `#/search/${encodeURIComponent(text)}`,
};

export function CollectionTable({ rows }: { readonly rows: readonly ListedCollection[] }) {
  return (
    <Table
      label="Collections"
      titles={["Collection", "Chain", "Address", "Status", "NFTs", "Transfers"]}
      numbers={["NFTs", "Transfers"]}
    >
      {rows.map((row) => (
        <CollectionRow key={`${row.chain}/${row.address}`} row={row} />
      ))}
    </Table>
  );
}

function CollectionRow({ row }: { readonly row: ListedCollection }) {
  const { chain, address, name, symbol, status, percent, secondsLeft, nfts, transfers } = row;
  const title = plain(name ?? "", 40) || "unnamed";
  const left = secondsLeft === null ? "" : `, ${duration(secondsLeft)} left`;
  return (
    <tr>
      <th scope="row">
        <a href={linkTo.collection(chain, address)}>{title}</a> <small>{plain(symbol ?? "", 12)}</small>
      </th>
      <td>{chain}</td>
      <td>
        <AddressLink value={address} chain={chain} />
      </td>
      <td>
        {status === "indexing" || status === "joining" ? (
          <Bar percent={percent} label={`Progress of ${title}`} />
        ) : null}
        {COLLECTION_WORDS[status].word}
        {left}
      </td>
      <td class="number">{nfts === null ? "–" : short(nfts)}</td>
      <td class="number">{transfers === null ? "–" : short(transfers)}</td>
    </tr>
  );
}

// Tabs after the pattern of ARIA: one stop for the Tab key, and arrow keys, Home and End between the tabs.

interface TabsOptions<Name extends string> {
  readonly label: string;
  readonly names: readonly Name[];
  readonly chosen: Name;
  readonly onChoose: (name: Name) => void;
  /** The content of the chosen tab. */
  readonly children: ComponentChildren;
}

const PANEL = "tab-panel";
const idOf = (name: string): string => `tab-${name.toLowerCase()}`;

export function Tabs<Name extends string>({ label, names, chosen, onChoose, children }: TabsOptions<Name>) {
  const move = (event: KeyboardEvent) => {
    const next = nextTab(event.key, names.indexOf(chosen), names.length);
    const name = next === undefined ? undefined : names[next];
    if (name === undefined) return;
    event.preventDefault();
    onChoose(name);
    document.getElementById(idOf(name))?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {names.map((name) => (
          <button
            key={name}
            id={idOf(name)}
            type="button"
            role="tab"
            aria-selected={name === chosen}
            aria-controls={PANEL}
            tabIndex={name === chosen ? 0 : -1}
            onClick={() => onChoose(name)}
          >
            {name}
          </button>
        ))}
      </div>
      <div id={PANEL} role="tabpanel" aria-labelledby={idOf(chosen)}>
        {children}
      </div>
    </>
  );
}

/** The tab that a key leads to; undefined for other keys. */
function nextTab(key: string, at: number, count: number): number | undefined {
  if (key === "ArrowRight") return (at + 1) % count;
  if (key === "ArrowLeft") return (at + count - 1) % count;
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : undefined;
}
