/**
 * The way of a command to the service: the client, over HTTP or to a service in this process. Maps refusals to exit codes.
 * Also opens the log for the commands that work on the log itself.
 */
import { existsSync } from "node:fs";
import { Client, type ClientOptions, ServiceError } from "../client/index.ts";
import type { Config } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { sqlitePath } from "../core/files.ts";
import type { Address } from "../core/hex.ts";
import { silentLogger } from "../core/logger.ts";
import type { EventLog } from "../log/event-log.ts";
import { openLog } from "../log/open.ts";
import type { ListedCollection } from "../operators/models.ts";

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

/** A page of as many collections is about 400 KB. */
const PAGE = 500;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** The service that a command asks: a running one, or one in the command's own process. `await using` closes it. */
export class ServiceAccess implements AsyncDisposable {
  readonly #client: Client;
  readonly #close: () => Promise<unknown>;

  constructor(
    way: Pick<ClientOptions, "url" | "key" | "fetch">,
    close: () => Promise<unknown> = async () => undefined,
  ) {
    this.#client = new Client({ ...way, attempts: 1 });
    this.#close = close;
  }

  /** Asks the service. @throws CommandError with the service's words */
  async ask<T>(work: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await work(this.#client);
    } catch (error) {
      throw error instanceof ServiceError ? refusalOf(error) : unreachable(error);
    }
  }

  /** All collections that pass the filter. @throws CommandError */
  collections(filter: Readonly<Record<string, string>>): Promise<readonly ListedCollection[]> {
    return this.ask((client) => Array.fromAsync(client.collections({ ...filter, limit: PAGE })));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }
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

/**
 * Follows no redirect, which would carry the key to another host, and reads no more of an answer than it may have.
 * @param signal ends running requests
 * @param proxy the operator's proxy for the URL
 */
export const boundedFetch =
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

/** Opens the log of the configuration. @param mayCreate true if the command may be the first to write. @throws CommandError */
export async function openCommandLog(config: Config, mayCreate = false): Promise<EventLog> {
  const path = missingLog(config);
  if (path !== undefined && !mayCreate) {
    throw new CommandError(`EVENT_LOG_URL: there is no event log at ${path}; the first start makes it`, UNAVAILABLE);
  }
  try {
    const { pgPool: connections, blobs } = config;
    return await openLog(config.eventLogUrl, systemClock, silentLogger, { connections, blobs });
  } catch (error) {
    throw new CommandError(logErrorText(error), UNAVAILABLE);
  }
}

/** The path of a SQLite log that no process has made yet. Undefined for one that is there, and on PostgreSQL. */
export function missingLog({ eventLogUrl }: Config): string | undefined {
  const path = sqlitePath(eventLogUrl);
  return path === undefined || existsSync(path) ? undefined : path;
}

/** The message of a log's error, which names its variable once. */
function logErrorText(error: unknown): string {
  const text = messageOf(error);
  return /EVENT_LOG_URL|BLOB_URL/.test(text) ? text : `EVENT_LOG_URL: ${text}`;
}
