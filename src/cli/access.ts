/**
 * The two ways of a command to the data: over HTTP to a running service, or by opening the log of the configuration.
 * Without `--url`, a change is an event of the log, and a running service acts on it.
 */
import { existsSync } from "node:fs";
import { parseChain } from "../chains/chains.ts";
import { beginAnew, requestIndexing } from "../collections/headline.ts";
import { type Config, keyLimits, LIMITS } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { ApiError, AppError, messageOf } from "../core/errors.ts";
import type { Requester } from "../core/fair-slots.ts";
import { parseAddress } from "../core/hex.ts";
import { silentLogger } from "../core/logger.ts";
import type { KeyScope } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { openLog } from "../log/open.ts";
import { requestRefresh } from "../metadata/refresh.ts";
import { Catalogue, type CollectionEntry } from "../operators/catalogue.ts";
import { ApiKeys, type GivenLimits, type ListedKey } from "../operators/keys.ts";
import { leaseReports, logReport, type StatusReport } from "../operators/status.ts";

/** Commands work for the operator. */
const COMMAND_LINE: Requester = { key: "command line", isOperator: true };

/** A command that can't be carried out; `exitCode` as in sysexits.h. */
export class CommandError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const [FAILED, USAGE, UNAVAILABLE, NO_PERMISSION, BAD_CONFIG] = [1, 64, 69, 77, 78] as const;

export interface Contract {
  /** Name of the chain. */
  readonly chain: string;
  readonly address: string;
}

/** What a log alone tells about the state of the service. */
export type LogReport = Pick<StatusReport, "leases" | "collections"> & {
  readonly log: Omit<StatusReport["log"], "behindSeconds">;
};

/** What commands ask, over either way. */
export interface Operator {
  status(): Promise<StatusReport | LogReport>;
  collections(filter: Readonly<Record<string, string>>): Promise<readonly CollectionEntry[]>;
  /** Requests indexing. Returns the status before, null for unknown contracts. */
  index(contracts: readonly Contract[]): Promise<readonly (Contract & { readonly before: string | null })[]>;
  /** Has a collection indexed anew, or removed. Returns its status before. */
  beginAnew(contract: Contract, action: "reindex" | "remove"): Promise<string>;
  /** Has metadata fetched again. @param ids decimal; undefined for all tokens */
  refresh(contract: Contract, ids: readonly string[] | undefined): Promise<void>;
  keys(): Promise<readonly ListedKey[]>;
  addKey(name: string, scope: KeyScope, limits: GivenLimits): Promise<string>;
  rotateKey(name: string, graceSeconds: number): Promise<string>;
  revokeKey(name: string): Promise<void>;
  close(): Promise<void>;
}

/** Contracts per request. */
const AT_ONCE = 500;
const TIMEOUT_MS = 30_000;
/** A page of 500 collections is about 400 KB. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** Talks to a running service. */
export class HttpOperator implements Operator {
  readonly #url: string;
  readonly #key: string;
  readonly #signal: AbortSignal;

  /**
   * @param url base URL of the service
   * @param signal ends running requests
   */
  constructor(url: string, key: string, signal: AbortSignal) {
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#signal = signal;
  }

  /** @throws CommandError with the service's words */
  async request<T>(method: string, path: string, body?: unknown): Promise<T> {
    let response: Response;
    try {
      response = await fetch(`${this.#url}${path}`, {
        method,
        headers: { "x-api-key": this.#key },
        // A redirect would carry the key to another host.
        redirect: "manual",
        signal: AbortSignal.any([this.#signal, AbortSignal.timeout(TIMEOUT_MS)]),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    } catch (error) {
      throw new CommandError(`the service can't be reached: ${messageOf(error)}`, UNAVAILABLE);
    }
    const answer = (await bodyOf(response)) as (T & { readonly message?: string }) | undefined;
    if (response.ok && answer !== undefined) return answer;
    throw refusalOf(response, answer);
  }

  /** Asks for a file. Its body comes as fast as it is read. @throws CommandError with the service's words */
  async download(path: string): Promise<Response> {
    const waiting = new AbortController();
    const cancel = systemClock.after(TIMEOUT_MS, () => waiting.abort(new Error("it did not answer in time")));
    let response: Response;
    try {
      const headers = { "x-api-key": this.#key };
      const signal = AbortSignal.any([this.#signal, waiting.signal]);
      response = await fetch(`${this.#url}${path}`, { headers, redirect: "manual", signal });
    } catch (error) {
      throw new CommandError(`the service can't be reached: ${messageOf(error)}`, UNAVAILABLE);
    } finally {
      cancel();
    }
    if (!response.ok) throw refusalOf(response, await bodyOf(response));
    return response;
  }

  status(): Promise<StatusReport> {
    return this.request("GET", "/api/status");
  }

  async collections(filter: Readonly<Record<string, string>>): Promise<readonly CollectionEntry[]> {
    const found: CollectionEntry[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query = new URLSearchParams({ limit: String(AT_ONCE), cursor, ...filter });
      const page: { readonly cursor: string | null; readonly result: readonly CollectionEntry[] } = await this.request(
        "GET",
        `/api/collections?${query}`,
      );
      found.push(...page.result);
      cursor = page.cursor;
    }
    return found;
  }

  async index(contracts: readonly Contract[]) {
    const answers: (Contract & { readonly before: string | null })[] = [];
    for (let at = 0; at < contracts.length; at += AT_ONCE) {
      const items = contracts.slice(at, at + AT_ONCE);
      const answer = await this.request<{ items: typeof answers }>("POST", "/api/collections", { items });
      answers.push(...answer.items);
    }
    return answers;
  }

  async beginAnew({ chain, address }: Contract, action: "reindex" | "remove"): Promise<string> {
    const path = `/api/collections/${encodeURIComponent(chain)}/${address}`;
    const isReindex = action === "reindex";
    return (await this.request<{ before: string }>(isReindex ? "POST" : "DELETE", isReindex ? `${path}/reindex` : path))
      .before;
  }

  async refresh({ chain, address }: Contract, tokenIds: readonly string[] | undefined): Promise<void> {
    const path = `/api/collections/${encodeURIComponent(chain)}/${address}/refresh`;
    await this.request("POST", path, { ...(tokenIds === undefined ? {} : { tokenIds }) });
  }

  async keys(): Promise<readonly ListedKey[]> {
    return (await this.request<{ result: readonly ListedKey[] }>("GET", "/api/keys")).result;
  }

  async addKey(name: string, scope: KeyScope, limits: GivenLimits): Promise<string> {
    return (await this.request<{ key: string }>("POST", "/api/keys", { name, scope, ...limits })).key;
  }

  async rotateKey(name: string, graceSeconds: number): Promise<string> {
    const path = `/api/keys/${encodeURIComponent(name)}/rotate`;
    return (await this.request<{ key: string }>("POST", path, { graceSeconds })).key;
  }

  async revokeKey(name: string): Promise<void> {
    await this.request("DELETE", `/api/keys/${encodeURIComponent(name)}`);
  }

  async close(): Promise<void> {}
}

function refusalOf({ status }: Response, answer: { readonly message?: string } | undefined): CommandError {
  const message = answer?.message ?? `--url: no service of this kind answers there (status ${status})`;
  if (status === 400) return new CommandError(message, USAGE);
  const isRefused = status === 401 || status === 403;
  return new CommandError(message, isRefused ? NO_PERMISSION : status >= 500 ? UNAVAILABLE : FAILED);
}

/** The JSON object of an answer; undefined if it is none, or too long. */
async function bodyOf({ body }: Response): Promise<object | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of body ?? []) {
      length += chunk.length;
      if (length > MAX_ANSWER_BYTES) return undefined;
      chunks.push(chunk);
    }
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString());
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

export interface LogOptions {
  /** True if the command may be the first to write to a log. */
  readonly mayCreate?: boolean;
}

/** Opens the log of the configuration. @throws CommandError */
export async function openCommandLog(config: Config, { mayCreate = false }: LogOptions = {}): Promise<EventLog> {
  const path = missingLog(config);
  if (path !== undefined && !mayCreate) {
    throw new CommandError(`EVENT_LOG_URL: there is no event log at ${path}; the first start makes it`, UNAVAILABLE);
  }
  try {
    return await openLog(config.eventLogUrl, systemClock, silentLogger, { connections: config.pgPool });
  } catch (error) {
    throw new CommandError(logErrorText(error), UNAVAILABLE);
  }
}

/** The path of a SQLite log that no process has made yet. Undefined for one that is there, and on PostgreSQL. */
export function missingLog({ eventLogUrl }: Config): string | undefined {
  const [, path] = /^sqlite:\/\/(.+)$/.exec(eventLogUrl) ?? [];
  return path === undefined || existsSync(path) ? undefined : path;
}

/** The message of a log's error, which names the variable once. */
function logErrorText(error: unknown): string {
  const text = messageOf(error);
  return text.includes("EVENT_LOG_URL") ? text : `EVENT_LOG_URL: ${text}`;
}

/** Reads and writes the log itself. */
export class LogOperator implements Operator {
  readonly log: EventLog;
  readonly #keys: ApiKeys;
  readonly #catalogue: Catalogue;
  readonly #isEnabled: (chainId: number) => boolean;

  private constructor(log: EventLog, keys: ApiKeys, config: Config) {
    this.log = log;
    this.#keys = keys;
    this.#catalogue = new Catalogue({ log, nftsInMemory: () => undefined });
    this.#isEnabled = (chainId) => config.chains.some(({ chain }) => chain.chainId === chainId);
  }

  /** @throws CommandError if the log can't be opened */
  static async open(config: Config, options?: LogOptions): Promise<LogOperator> {
    const log = await openCommandLog(config, options);
    const own = { environment: config.apiKeys, limits: keyLimits(config) };
    const keys = new ApiKeys({ log, clock: systemClock, logger: silentLogger, ...own });
    await keys.begin();
    await keys.read();
    return new LogOperator(log, keys, config);
  }

  async status(): Promise<LogReport> {
    const { log } = this;
    const [disk, held, collections] = await Promise.all([log.status(), log.leases(), this.#catalogue.counts()]);
    return { log: logReport(log.engine, disk), leases: leaseReports(held), collections };
  }

  async collections(filter: Readonly<Record<string, string>>): Promise<readonly CollectionEntry[]> {
    const { chain, status, text } = filter;
    const wanted = {
      chain: chain === undefined ? undefined : parseChain(chain),
      status: status as CollectionEntry["status"] | undefined,
      text: text?.toLowerCase(),
    };
    const page = { after: undefined, limit: Number.MAX_SAFE_INTEGER };
    return (await this.#catalogue.page(wanted, page)).entries;
  }

  async index(contracts: readonly Contract[]) {
    const answers: (Contract & { readonly before: string | null })[] = [];
    for (const contract of contracts) {
      const { chain, address } = this.#place(contract);
      const before = await this.#catalogue.find(chain.chainId, address);
      // It indexes a removed collection again, and leaves any other one as it is.
      await requestIndexing({ log: this.log, clock: systemClock }, { chainId: chain.chainId, address }, COMMAND_LINE);
      answers.push({ chain: chain.name, address, before: before?.status ?? null });
    }
    return answers;
  }

  async beginAnew(contract: Contract, action: "reindex" | "remove"): Promise<string> {
    const of = this.#place(contract);
    const type = action === "reindex" ? "ReindexRequested" : "CollectionRemoved";
    const before = await beginAnew({ log: this.log, clock: systemClock }, of, type);
    if (before === undefined) throw new CommandError("the collection was never requested", FAILED);
    return before;
  }

  async refresh(contract: Contract, ids: readonly string[] | undefined): Promise<void> {
    const isDone = await requestRefresh(this.log, this.#place(contract), { ids: ids?.map(BigInt), block: 0 });
    if (!isDone) throw new CommandError("no metadata of this collection was fetched yet", FAILED);
  }

  /** @throws CommandError unless it is a contract of an enabled chain */
  #place({ chain: name, address: text }: Contract) {
    const [chain, address] = [parseChain(name), parseAddress(text)];
    if (chain === undefined || address === undefined || !this.#isEnabled(chain.chainId)) {
      throw new CommandError(`${name} ${text}: not a contract of an enabled chain`, USAGE);
    }
    return { chainId: chain.chainId, address, chain };
  }

  async keys(): Promise<readonly ListedKey[]> {
    return this.#keys.list();
  }

  addKey(name: string, scope: KeyScope, limits: GivenLimits): Promise<string> {
    return inWords(this.#keys.add(name, scope, limits));
  }

  rotateKey(name: string, graceSeconds: number): Promise<string> {
    return inWords(this.#keys.rotate(name, graceSeconds * 1_000));
  }

  revokeKey(name: string): Promise<void> {
    return inWords(this.#keys.revoke(name));
  }

  async close(): Promise<void> {
    this.#keys.close();
    this.#catalogue.close();
    await this.log.close();
  }
}

/** Turns the refusal of a change into the command's own. */
async function inWords<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ApiError) throw new CommandError(error.message, error.status === 400 ? USAGE : FAILED);
    if (error instanceof AppError) throw new CommandError(messageOf(error), UNAVAILABLE);
    throw error;
  }
}

/** Bytes of a file with a list of contracts. */
export const MAX_LIST_BYTES = LIMITS.maxListBytes;
