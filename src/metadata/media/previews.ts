/**
 * Makes previews in the preview process, one picture at a time. The process is killed if a picture takes too long or
 * too much memory. A picture that kills it is not retried; the next picture starts a new process.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Subprocess } from "bun";
import { Semaphore } from "../../core/background.ts";
import type { Clock } from "../../core/clock.ts";
import type { Preview, PreviewReply, PreviewRequest } from "./preview-process.ts";

// Reads how much memory another process uses, from /proc. Only Linux has that; elsewhere the size is unknown.

/** Resident memory of a process in bytes; undefined if the system doesn't report it, or the process has ended. */
function residentBytes(pid: number): number | undefined {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}

const PREVIEW_SIZES = [100, 250, 500] as const;

/** Time per picture: three sizes of the largest picture take under two seconds. */
const TIMEOUT_MS = 15_000;
/** Memory limit of the process: the largest AVIF takes 1.3 GB, pictures of other formats at most half a GB. */
const MAX_RESIDENT_BYTES = 1_536 * 1024 * 1024;
/** Interval of the memory checks. */
const MEMORY_CHECK_MS = 50;
/** The process ends after this time without work: it takes some 60 MB. */
const IDLE_MS = 60_000;

export class Previews {
  readonly #clock: Clock;
  readonly #turn = new Semaphore(1);
  #child: Subprocess | undefined;
  #waiting: { id: number; done: (reply: PreviewReply | undefined) => void } | undefined;
  #nextId = 1;
  #cancelIdle: () => void = () => undefined;
  #closed = false;
  readonly #maxResidentBytes: number;

  /** @param maxResidentBytes for tests */
  constructor(clock: Clock, maxResidentBytes = MAX_RESIDENT_BYTES) {
    this.#clock = clock;
    this.#maxResidentBytes = maxResidentBytes;
  }

  /**
   * Returns the previews and the original's hash; undefined if the picture can't be opened within its limits.
   * @throws the signal's reason when it is aborted
   */
  make(
    bytes: Uint8Array,
    mimetype: string,
    signal: AbortSignal,
  ): Promise<{ hash: string; previews: readonly Preview[] } | undefined> {
    return this.#turn.run(async () => {
      if (this.#closed) return undefined;
      const stop = () => this.#killAndFail();
      signal.addEventListener("abort", stop, { once: true });
      try {
        const reply = await this.#ask(bytes, mimetype);
        signal.throwIfAborted();
        return reply === undefined || "error" in reply ? undefined : reply;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    }, signal);
  }

  #ask(bytes: Uint8Array, mimetype: string): Promise<PreviewReply | undefined> {
    this.#cancelIdle();
    const child = this.#child ?? this.#start();
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const cancel = this.#clock.after(TIMEOUT_MS, () => this.#killAndFail());
      let cancelLook: () => void = () => undefined;
      const look = () => {
        if ((residentBytes(child.pid) ?? 0) > this.#maxResidentBytes) this.#killAndFail();
        else cancelLook = this.#clock.after(MEMORY_CHECK_MS, look);
      };
      cancelLook = this.#clock.after(MEMORY_CHECK_MS, look);
      this.#waiting = {
        id,
        done: (reply) => {
          cancel();
          cancelLook();
          this.#cancelIdle = this.#clock.after(IDLE_MS, () => this.#kill());
          resolve(reply);
        },
      };
      try {
        child.send({ id, bytes, mimetype, sizes: PREVIEW_SIZES } satisfies PreviewRequest);
      } catch {
        // The process has just ended.
        this.#killAndFail();
      }
    });
  }

  /** Kills the process and gives up its picture. */
  #killAndFail(): void {
    this.#kill();
    this.#settle(undefined);
  }

  #settle(reply: PreviewReply | undefined): void {
    const waiting = this.#waiting;
    if (waiting === undefined || (reply !== undefined && reply.id !== waiting.id)) return;
    this.#waiting = undefined;
    waiting.done(reply);
  }

  #start(): Subprocess {
    const child = Bun.spawn([process.execPath, fileURLToPath(new URL("./preview-process.ts", import.meta.url))], {
      // No variables of the service: they may have keys, endpoints and proxies.
      env: {},
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      serialization: "advanced",
      ipc: (message) => this.#settle(message as PreviewReply),
      onExit: (exited) => {
        if (this.#child !== exited) return;
        this.#child = undefined;
        this.#settle(undefined);
      },
    });
    this.#child = child;
    return child;
  }

  #kill(): void {
    const child = this.#child;
    this.#child = undefined;
    child?.kill("SIGKILL");
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelIdle();
    const child = this.#child;
    this.#killAndFail();
    this.#cancelIdle();
    await child?.exited;
  }
}
