/**
 * The two ways of a command to the data: over HTTP to a running service, or by opening the log of the configuration.
 * Without `--url`, a change is an event of the log, and a running service acts on it.
 */
import { existsSync } from "node:fs";
import { parseChain } from "../chains/chains.ts";
import { Client, ServiceError } from "../client/index.ts";
import { beginAnew, requestIndexing } from "../collections/headline.ts";
import { type Config, keyLimits } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { sqlitePath } from "../core/files.ts";
import type { Address } from "../core/hex.ts";
import { silentLogger } from "../core/logger.ts";
import type { Requester } from "../core/work.ts";
import type { KeyScope } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { openLog } from "../log/open.ts";
import { requestRefresh } from "../metadata/token-uris.ts";
import { Catalogue } from "../operators/catalogue.ts";
import { ApiKeys, type GivenLimits } from "../operators/keys.ts";
import type { ListedCollection, ListedKey, StatusReport } from "../operators/models.ts";
import { leaseReports, logReport } from "../operators/status.ts";

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

export interface NamedContract {
  /** Name of the chain. */
  readonly chain: string;
  readonly address: Address;
}

/** A contract with its status before a request; null if it was unknown. */
export interface RequestedContract {
  readonly chain: string;
  readonly address: string;
  readonly before: string | null;
}

/** What a log alone tells about the state of the service. */
type LogReport = Pick<StatusReport, "leases" | "collections" | "inDoubt"> & {
  readonly log: Omit<StatusReport["log"], "behindSeconds">;
};

/** The questions and changes of commands, over HTTP or on the log. `await using` closes it. */
export interface Operator extends AsyncDisposable {
  status(): Promise<StatusReport | LogReport>;
  collections(filter: Readonly<Record<string, string>>): Promise<readonly ListedCollection[]>;
  /** Requests indexing. */
  index(contracts: readonly NamedContract[]): Promise<readonly RequestedContract[]>;
  /** Has a collection indexed anew, or removed. Returns its status before. */
  beginAnew(contract: NamedContract, action: "reindex" | "remove"): Promise<string>;
  /** Has metadata fetched again. @param ids decimal; undefined for all tokens */
  refresh(contract: NamedContract, ids: readonly string[] | undefined): Promise<void>;
  keys(): Promise<readonly ListedKey[]>;
  addKey(name: string, scope: KeyScope, limits: GivenLimits): Promise<string>;
  rotateKey(name: string, graceSeconds: number): Promise<string>;
  revokeKey(name: string): Promise<void>;
}

/** Contracts per request. */
const AT_ONCE = 500;
/** A page of 500 collections is about 400 KB. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** Talks to a running service. */
export class HttpOperator implements Operator {
  readonly #client: Client;

  /**
   * @param url base URL of the service
   * @param signal ends running requests
   * @param proxy the operator's proxy for the URL
   */
  constructor(url: string, key: string, signal: AbortSignal, proxy?: string) {
    this.#client = new Client({ url, key, attempts: 1, fetch: boundedFetch(signal, proxy) });
  }

  /** Calls the service. @throws CommandError with the service's words */
  async ask<T>(work: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await work(this.#client);
    } catch (error) {
      throw error instanceof ServiceError ? refusalOf(error) : unreachable(error);
    }
  }

  async status(): Promise<StatusReport> {
    const { asOf: _, ...status } = await this.ask((client) => client.status());
    return status;
  }

  collections(filter: Readonly<Record<string, string>>): Promise<readonly ListedCollection[]> {
    return this.ask((client) => Array.fromAsync(client.collections({ ...filter, limit: AT_ONCE })));
  }

  async index(contracts: readonly NamedContract[]) {
    const answers: RequestedContract[] = [];
    for (let at = 0; at < contracts.length; at += AT_ONCE) {
      const { items } = await this.ask((client) => client.index(contracts.slice(at, at + AT_ONCE)));
      answers.push(...items);
    }
    return answers;
  }

  async beginAnew(contract: NamedContract, action: "reindex" | "remove"): Promise<string> {
    return (await this.ask((client) => client[action](contract))).before ?? "";
  }

  async refresh(contract: NamedContract, tokenIds: readonly string[] | undefined): Promise<void> {
    await this.ask((client) => client.refresh(contract, tokenIds));
  }

  keys(): Promise<readonly ListedKey[]> {
    return this.ask((client) => client.keys());
  }

  async addKey(name: string, scope: KeyScope, limits: GivenLimits): Promise<string> {
    const given = Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit !== undefined));
    return (await this.ask((client) => client.addKey({ name, scope, ...given }))).key;
  }

  async rotateKey(name: string, graceSeconds: number): Promise<string> {
    return (await this.ask((client) => client.rotateKey(name, graceSeconds))).key;
  }

  async revokeKey(name: string): Promise<void> {
    await this.ask((client) => client.revokeKey(name));
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

const unreachable = (error: unknown) =>
  new CommandError(`the service can't be reached: ${messageOf(error)}`, UNAVAILABLE);

function refusalOf(error: ServiceError): CommandError {
  const { status, code } = error;
  if (status === 0) return unreachable(error.cause ?? error);
  const isForeign = code === "unreadable" && status < 500;
  const message = isForeign ? `--url: no service of this kind answers there (status ${status})` : error.message;
  if (status === 400) return new CommandError(message, USAGE);
  const isRefused = status === 401 || status === 403;
  return new CommandError(message, isRefused ? NO_PERMISSION : status >= 500 ? UNAVAILABLE : FAILED);
}

/** Follows no redirect, which would carry the key to another host, and reads no more of an answer than it may have. */
const boundedFetch =
  (signal: AbortSignal, proxy: string | undefined) =>
  async (url: string, init: RequestInit): Promise<Response> => {
    const signals = AbortSignal.any([signal, ...(init.signal ? [init.signal] : [])]);
    const way = proxy === undefined ? {} : { proxy };
    const headers = new Headers(init.headers);
    // The runtime would decompress without a limit. A compressed answer is not asked for, and would be unreadable.
    headers.set("accept-encoding", "identity");
    const bounds = { redirect: "manual", decompress: false, signal: signals } as const;
    const response = await fetch(url, { ...init, ...way, ...bounds, headers });
    if (response.body === null || response.headers.has("content-disposition")) return response;
    let length = 0;
    const bounded = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        length += chunk.length;
        if (length > MAX_ANSWER_BYTES) controller.error(new Error("the answer is too long"));
        else controller.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(bounded), { status: response.status, headers: response.headers });
  };

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
  const path = sqlitePath(eventLogUrl);
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
    const { inDoubt } = this.#catalogue;
    return { log: logReport(log.engine, disk), leases: leaseReports(held), collections, inDoubt };
  }

  async collections(filter: Readonly<Record<string, string>>): Promise<readonly ListedCollection[]> {
    const { chain, status, text } = filter;
    const wanted = {
      chain: chain === undefined ? undefined : parseChain(chain),
      status: status as ListedCollection["status"] | undefined,
      text: text?.toLowerCase(),
    };
    const page = { after: undefined, limit: Number.MAX_SAFE_INTEGER };
    return (await this.#catalogue.page(wanted, page)).entries;
  }

  async index(contracts: readonly NamedContract[]) {
    const answers: RequestedContract[] = [];
    for (const contract of contracts) {
      const { chain, address } = this.#place(contract);
      const before = await this.#catalogue.find(chain.chainId, address);
      // It indexes a removed collection again, and leaves any other one as it is.
      await requestIndexing({ log: this.log, clock: systemClock }, { chainId: chain.chainId, address }, COMMAND_LINE);
      answers.push({ chain: chain.name, address, before: before?.status ?? null });
    }
    return answers;
  }

  async beginAnew(contract: NamedContract, action: "reindex" | "remove"): Promise<string> {
    const of = this.#place(contract);
    const type = action === "reindex" ? "ReindexRequested" : "CollectionRemoved";
    const before = await beginAnew({ log: this.log, clock: systemClock }, of, type);
    if (before === undefined) throw new CommandError("the collection was never requested", FAILED);
    return before;
  }

  async refresh(contract: NamedContract, ids: readonly string[] | undefined): Promise<void> {
    const isDone = await requestRefresh(this.log, this.#place(contract), { ids: ids?.map(BigInt), block: 0 });
    if (!isDone) throw new CommandError("no metadata of this collection was fetched yet", FAILED);
  }

  /** @throws CommandError unless its chain is enabled */
  #place({ chain: name, address }: NamedContract) {
    const chain = parseChain(name);
    if (chain !== undefined && this.#isEnabled(chain.chainId)) return { chainId: chain.chainId, address, chain };
    throw new CommandError(`${name} ${address}: not a contract of an enabled chain`, USAGE);
  }

  async keys(): Promise<readonly ListedKey[]> {
    return this.#keys.list();
  }

  addKey(name: string, scope: KeyScope, limits: GivenLimits): Promise<string> {
    return this.#keys.add(name, scope, limits);
  }

  rotateKey(name: string, graceSeconds: number): Promise<string> {
    return this.#keys.rotate(name, graceSeconds * 1_000);
  }

  revokeKey(name: string): Promise<void> {
    return this.#keys.revoke(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#keys.close();
    this.#catalogue.close();
    await this.log.close();
  }
}
