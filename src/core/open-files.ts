/**
 * How many files and connections the system lets this process have open, and how many are. A process without room for
 * one more answers nobody, its health checks included. On Linux only: elsewhere no limit is known.
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Clock } from "./clock.ts";
import type { Logger } from "./logger.ts";

/** Files that clients' sockets leave to the log (up to 100 connections), endpoints, workers and health checks. */
const RESERVE = 160;
/** Below this room, connections of HTTP clients are closed after each answer. */
const SCARCE = 48;
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
  limit === undefined ? Number.POSITIVE_INFINITY : Math.max(Math.floor(limit / 4), limit - RESERVE);

/** True if the limit is so low that an operator should know. */
export const isLowFileLimit = (limit: number | undefined): boolean => socketsWithin(limit) < FEW_SOCKETS;

export class OpenFiles {
  readonly limit = openFileLimit();
  /** Open files as of the last look; undefined if that is not known. */
  count: number | undefined;

  constructor() {
    this.#count();
  }

  /** True if there is little room left for connections. */
  get isScarce(): boolean {
    return this.limit !== undefined && this.count !== undefined && this.limit - this.count < SCARCE;
  }

  #count(): void {
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
