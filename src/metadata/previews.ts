/**
 * Has previews made by the preview process, one picture at a time. A picture that takes too long or too much memory, or
 * brings the process down, loses it its life and is not tried again; the next picture gets a new one.
 */
import { fileURLToPath } from "node:url";
import type { Subprocess } from "bun";
import type { Clock } from "../core/clock.ts";
import { Slots } from "../core/slots.ts";
import { residentBytes } from "./resident.ts";

export const PREVIEW_SIZES = [100, 250, 500] as const;

export interface PreviewRequest {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly mimetype: string;
  readonly sizes: readonly number[];
}

/** A small picture, WEBP. Its longer side is `size`. */
export interface Preview {
  readonly size: number;
  readonly width: number;
  readonly height: number;
  readonly bytes: Uint8Array;
}

/** `hash`: SHA-256 of the original, hex. */
export type PreviewReply =
  | { readonly id: number; readonly hash: string; readonly previews: readonly Preview[] }
  | { readonly id: number; readonly hash: string; readonly error: string };

/** Three sizes of the largest picture take under two seconds. */
const TIMEOUT_MS = 15_000;
/** Memory of the process: the largest AVIF takes 1.3 GB, pictures of other formats half of one. Looked at so often. */
const MAX_RESIDENT_BYTES = 1_536 * 1024 * 1024;
const LOOK_MS = 50;
/** Without work for so long the process ends: it holds some 60 MB. */
const IDLE_MS = 60_000;

export class Previews {
  readonly #clock: Clock;
  readonly #turn = new Slots(1);
  #child: Subprocess | undefined;
  #waiting: { id: number; done: (reply: PreviewReply | undefined) => void } | undefined;
  #nextId = 1;
  #cancelIdle: () => void = () => undefined;
  #closed = false;
  readonly #maxResidentBytes: number;

  /** `maxResidentBytes`: for tests. */
  constructor(clock: Clock, maxResidentBytes = MAX_RESIDENT_BYTES) {
    this.#clock = clock;
    this.#maxResidentBytes = maxResidentBytes;
  }

  /**
   * The previews and the original's hash; undefined when the picture cannot be opened within its bounds.
   * @throws the signal's reason when it is aborted
   */
  make(
    bytes: Uint8Array,
    mimetype: string,
    signal: AbortSignal,
  ): Promise<{ hash: string; previews: readonly Preview[] } | undefined> {
    return this.#turn.run(async () => {
      if (this.#closed) return undefined;
      const stop = () => this.#giveUp();
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
      const cancel = this.#clock.after(TIMEOUT_MS, () => this.#giveUp());
      let cancelLook: () => void = () => undefined;
      const look = () => {
        if ((residentBytes(child.pid) ?? 0) > this.#maxResidentBytes) this.#giveUp();
        else cancelLook = this.#clock.after(LOOK_MS, look);
      };
      cancelLook = this.#clock.after(LOOK_MS, look);
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
        // It has just died.
        this.#giveUp();
      }
    });
  }

  /** The picture is given up, and with it the process, whatever it is doing. */
  #giveUp(): void {
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
      // Nothing of ours: no key, no endpoint, no proxy.
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
    this.#giveUp();
    this.#cancelIdle();
    await child?.exited;
  }
}
