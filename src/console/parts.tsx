/** Small parts that several screens show. */
import type { ComponentChildren } from "preact";
import { ServiceError } from "../client/index.ts";
import { brief } from "./format.ts";
import { BASE } from "./session.ts";

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

/** An address, cut in the middle. All of it is there for screen readers and the clipboard. */
export function Address({ value, href }: { readonly value: string; readonly href?: string }) {
  const text = <code title={value}>{brief(value)}</code>;
  return href === undefined ? text : <a href={href}>{text}</a>;
}

/** An address in full, cut in the middle where the screen is narrow. */
export function LongAddress({ value }: { readonly value: string }) {
  return (
    <code title={value}>
      <span class="only-wide">{value}</span>
      <span class="only-narrow">{brief(value)}</span>
    </code>
  );
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

export interface Request {
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
}

/** The requests of a screen as lines for a shell, in which `$KEY` stands for the key, and a command that does the same. */
export function Curl({ requests, command }: { readonly requests: readonly Request[]; readonly command?: string }) {
  return (
    <details class="curl">
      <summary>The same with curl{command === undefined ? "" : ", and on the command line"}</summary>
      <pre>
        {requests.map(curlLine).join("\n")}
        {command === undefined ? "" : `\n\n${commandLine(command)}`}
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
  return `curl${verb} -H "X-API-Key: $KEY"${data} ${quoted(`${BASE}${path.replace(/^\//, "")}`)}`;
}

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

/** What may be wider than the screen. It can be scrolled by keyboard, too. */
export function Scroll({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    <section class="scroll" tabIndex={0} aria-label={label}>
      {children}
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
  /** @param block the block to price at; undefined for the newest */
  price: (chain: string, address: string, block?: number) =>
    `#/price/${encodeURIComponent(chain)}/${address}${at(block)}`,
  search: (text: string) => `#/search/${encodeURIComponent(text)}`,
};
