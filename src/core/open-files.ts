/**
 * How many files and connections the system lets this process have open, and how many are open. A process without room
 * for one more answers no client, health checks included. Only Linux tells the limit; elsewhere it is unknown.
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Clock } from "./clock.ts";
import type { Logger } from "./logger.ts";

/** Files for the log (up to 100 connections), endpoints, workers and health checks. */
const RESERVE = 160;
/** Part of the other files that WebSockets may take. With 1,024 files, 216 are left for connections of HTTP clients. */
const FOR_SOCKETS = 3 / 4;
/** Below this room, connections of HTTP clients are closed after each answer: an eighth of the files, within bounds. */
const scarceBelow = (limit: number): number => Math.min(1_000, Math.max(48, Math.floor(limit / 8)));
/** With room for fewer sockets, the start says so. */
const FEW_SOCKETS = 2_000;
const POLL_MS = 1_000;

export const WAY_TO_MORE_FILES = "raise the limit of open files: LimitNOFILE= of systemd, `ulimit -n` of a shell";

/** The limit of the system; undefined if it is not known. Bun raises the soft limit to the hard one when it starts. */
export function openFileLimit(): number | undefined {
  try {
    // Name, soft and hard limit (proc_pid_limits(5)).
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/** Sockets of clients that a limit of open files has room for. */
export const socketsWithin = (limit: number | undefined): number =>
  limit === undefined
    ? Number.POSITIVE_INFINITY
    : Math.max(Math.floor(limit / 4), Math.floor((limit - RESERVE) * FOR_SOCKETS));

/** True if the limit is so low that an operator should know. */
export const isLowFileLimit = (limit: number | undefined): boolean => socketsWithin(limit) < FEW_SOCKETS;

export class OpenFiles {
  readonly limit = openFileLimit();
  /** Open files as of the last look; undefined if that is not known. */
  count: number | undefined;
  /** Answers since the last look. */
  #answers = 0;

  constructor() {
    this.#count();
  }

  /** True if there is little room left for connections. */
  get isScarce(): boolean {
    return this.limit !== undefined && this.count !== undefined && this.limit - this.count < scarceBelow(this.limit);
  }

  /**
   * Returns true if a connection must end with its answer. Looks again after as many answers as there may be new connections
   * before files are scarce: within a second, clients can open a thousand. Must be called for each answer and each upgrade.
   */
  isScarceAfterAnswer(): boolean {
    const { limit, count } = this;
    if (limit === undefined || count === undefined) return false;
    const scarce = scarceBelow(limit);
    if (++this.#answers >= Math.max(limit - count - scarce, Math.floor(scarce / 3))) this.#count();
    return this.isScarce;
  }

  #count(): void {
    this.#answers = 0;
    try {
      this.count = readdirSync("/proc/self/fd").length;
    } catch {
      // Another system, or no file left to look with: then the last count stands.
    }
  }

  /** Looks once a second, and logs when files become scarce. */
  async watch(clock: Clock, logger: Logger, signal: AbortSignal): Promise<void> {
    let wasScarce = false;
    while (!signal.aborted) {
      this.#count();
      if (this.isScarce && !wasScarce) {
        const facts = { open: this.count, limit: this.limit };
        logger.warn(facts, `open files are nearly used up, and connections are closed; ${WAY_TO_MORE_FILES}`);
      }
      wasScarce = this.isScarce;
      await clock.sleep(POLL_MS, signal).catch(() => undefined);
    }
  }
}
