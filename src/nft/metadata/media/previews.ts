/**
 * Runs the preview process: one picture at a time, with limits of time and memory. It separates what a picture did from
 * what the machine did, because only the first is a fact about the picture.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Subprocess } from "bun";
import { backoffMs, type Clock } from "../../../core/clock.ts";
import { IS_COMPILED, PREVIEW_COMMAND } from "../../../core/embedded-files.ts";
import { AppError } from "../../../core/errors.ts";
import type { Logger } from "../../../core/logger.ts";
import { Semaphore } from "../../../core/semaphore.ts";
import { hasImageLibrary } from "./image-library.ts";
import type { MadePreview, PreviewMessage, PreviewReply, PreviewRequest } from "./preview-process.ts";

/** What became of one picture. */
export type PreviewOutcome =
  /** `hash` is the original's SHA-256 in hex. */
  | { readonly kind: "made"; readonly hash: string; readonly previews: readonly MadePreview[] }
  /** The image library, or a check before it, refused the picture. */
  | { readonly kind: "refused" }
  /** The picture exceeded our limit of time or memory. A busy machine may be the reason. */
  | { readonly kind: "overran" }
  /** The process ended during the picture, or the machine lacked memory or disk. The picture may be the reason. */
  | { readonly kind: "interrupted" };

/** The preview process can't start. This concerns all pictures, and says nothing about any of them. */
export class PreviewsUnavailable extends AppError {
  /** Time in ms until the next attempt to start the process. */
  readonly retryInMs: number;

  constructor(retryInMs: number) {
    super("the preview process can't start", { code: "previews_unavailable", retryable: true });
    this.retryInMs = retryInMs;
  }
}

/** Time per picture: three sizes of the largest picture take under two seconds. */
const TIMEOUT_MS = 15_000;
/** Time for the start: half a second on an idle machine. */
const START_MS = 60_000;
/** Memory limit of the process: the largest AVIF takes 1.3 GB, pictures of other formats at most half a GB. */
const MAX_RESIDENT_BYTES = 1_536 * 1024 * 1024;
/** Interval of the memory checks. */
const MEMORY_CHECK_MS = 50;
/** The process ends after this time without work: it takes some 60 MB. */
const IDLE_MS = 60_000;
/** Backoff after a failed start. */
const START_RETRY_MS = 2_000;
const MAX_START_RETRY_MS = 60_000;

const ENTRY = IS_COMPILED ? PREVIEW_COMMAND : fileURLToPath(new URL("./preview-process.ts", import.meta.url));

/** Resident memory of a process in bytes, from /proc; undefined on other systems than Linux, or if it has ended. */
function residentBytes(pid: number): number | undefined {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}

interface PreviewsOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests. */
  readonly maxResidentBytes?: number;
  /** Path of the process's entry point, for tests. */
  readonly entry?: string;
}

type Ending = PreviewReply | { readonly kind: "overran" | "interrupted" } | { readonly kind: "unstarted"; why: string };

/** The picture in the process. */
interface RunningPreview {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly mimetype: string;
  readonly done: (ending: Ending) => void;
  /** Cancels the current time limit and memory check. */
  cancel: () => void;
}

interface Child {
  readonly process: Subprocess;
  isReady: boolean;
}

export class Previews {
  readonly #options: PreviewsOptions;
  readonly #turn = new Semaphore(1);
  #child: Child | undefined;
  #waiting: RunningPreview | undefined;
  #nextId = 1;
  /** Consecutive failed starts. */
  #failedStarts = 0;
  /** Time of the next start after a failed one, on the monotonic clock. */
  #startAt = 0;
  #cancelIdle: () => void = () => undefined;
  #closed = false;

  constructor(options: PreviewsOptions) {
    this.#options = options;
    if (!hasImageLibrary()) {
      options.logger.warn(
        {},
        "no image library: previews stay `processing` until `sharp` is installed beside the program",
      );
    }
  }

  /**
   * Makes the previews of one picture.
   * @throws PreviewsUnavailable, and the signal's reason when it is aborted
   */
  make(bytes: Uint8Array, mimetype: string, signal: AbortSignal): Promise<PreviewOutcome> {
    return this.#turn.run(async () => {
      const rest = this.#closed ? MAX_START_RETRY_MS : this.#startAt - this.#options.clock.monotonic();
      if (rest > 0) throw new PreviewsUnavailable(rest);
      const stop = () => this.#killAnd({ kind: "interrupted" });
      signal.addEventListener("abort", stop, { once: true });
      try {
        const ending = await this.#send(bytes, mimetype);
        signal.throwIfAborted();
        if (ending.kind === "unstarted") throw this.#failedStart(ending.why);
        return ending;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    }, signal);
  }

  #send(bytes: Uint8Array, mimetype: string): Promise<Ending> {
    const { clock } = this.#options;
    this.#cancelIdle();
    return new Promise((resolve) => {
      const done = (ending: Ending) => {
        this.#cancelIdle = clock.after(IDLE_MS, () => this.#kill());
        resolve(ending);
      };
      this.#waiting = { id: this.#nextId++, bytes, mimetype, done, cancel: () => undefined };
      if (this.#child?.isReady) this.#begin(this.#child);
      else this.#start();
    });
  }

  #start(): void {
    const fail = (why: string) => this.#killAnd({ kind: "unstarted", why });
    try {
      this.#child = { process: this.#spawn(), isReady: false };
    } catch (error) {
      fail(String(error));
      return;
    }
    if (this.#waiting !== undefined) {
      this.#waiting.cancel = this.#options.clock.after(START_MS, () => fail(`it is not ready after ${START_MS} ms`));
    }
  }

  #spawn(): Subprocess {
    return Bun.spawn([process.execPath, this.#options.entry ?? ENTRY], {
      // No variables of the service: they may have keys, endpoints and proxies.
      env: {},
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      serialization: "advanced",
      ipc: (message, sender) => {
        const child = this.#child;
        if (child?.process === sender) this.#onMessage(child, message as PreviewMessage);
      },
      onExit: (exited, code, signal) => {
        const child = this.#child;
        if (child?.process !== exited) return;
        this.#child = undefined;
        const why = signal === null ? `exit code ${code}` : `signal ${signal}`;
        this.#settle(child.isReady ? { kind: "interrupted" } : { kind: "unstarted", why: `it ended with ${why}` });
      },
    });
  }

  #onMessage(child: Child, message: PreviewMessage): void {
    if (message.kind !== "ready") {
      if (message.id === this.#waiting?.id) this.#settle(message);
      return;
    }
    child.isReady = true;
    if (this.#failedStarts > 0) this.#options.logger.info({}, "the preview process works again");
    this.#failedStarts = 0;
    this.#begin(child);
  }

  /** Sends the waiting picture to the process, and starts its limits. */
  #begin({ process }: Child): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    const { clock, maxResidentBytes = MAX_RESIDENT_BYTES } = this.#options;
    waiting.cancel();
    const overrun = () => this.#killAnd({ kind: "overran" });
    const cancelLimit = clock.after(TIMEOUT_MS, overrun);
    let cancelCheck: () => void = () => undefined;
    const check = () => {
      if ((residentBytes(process.pid) ?? 0) > maxResidentBytes) overrun();
      else cancelCheck = clock.after(MEMORY_CHECK_MS, check);
    };
    cancelCheck = clock.after(MEMORY_CHECK_MS, check);
    waiting.cancel = () => {
      cancelLimit();
      cancelCheck();
    };
    const { id, bytes, mimetype } = waiting;
    try {
      process.send({ id, bytes, mimetype } satisfies PreviewRequest);
    } catch {
      // The process has just ended.
      this.#killAnd({ kind: "interrupted" });
    }
  }

  #settle(ending: Ending): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    this.#waiting = undefined;
    waiting.cancel();
    waiting.done(ending);
  }

  #killAnd(ending: Ending): void {
    this.#kill();
    this.#settle(ending);
  }

  /** Schedules the next start. Reports the first failure only, because each picture would repeat it. */
  #failedStart(why: string): PreviewsUnavailable {
    const { clock, logger } = this.#options;
    const wait = backoffMs(clock, ++this.#failedStarts, START_RETRY_MS, MAX_START_RETRY_MS);
    this.#startAt = clock.monotonic() + wait;
    const level = this.#failedStarts === 1 ? "error" : "debug";
    logger[level]({ reason: why, retryInMs: wait }, "the preview process can't start; pictures wait until it can");
    return new PreviewsUnavailable(wait);
  }

  #kill(): void {
    const child = this.#child;
    this.#child = undefined;
    child?.process.kill("SIGKILL");
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelIdle();
    const child = this.#child;
    this.#killAnd({ kind: "interrupted" });
    this.#cancelIdle();
    await child?.process.exited;
  }
}
