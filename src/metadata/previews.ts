/**
 * Has previews made by the preview process, one picture at a time. A picture that takes too long, or brings the process
 * down, loses it its life and is not tried again; the next picture gets a new one.
 */
import { fileURLToPath } from "node:url";
import type { Subprocess } from "bun";
import type { Clock } from "../core/clock.ts";
import { Slots } from "../core/slots.ts";

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

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The previews and the original's hash; undefined when the picture cannot be opened within its bounds. */
  make(bytes: Uint8Array, mimetype: string): Promise<{ hash: string; previews: readonly Preview[] } | undefined> {
    return this.#turn.run(async () => {
      if (this.#closed) return undefined;
      const reply = await this.#ask(bytes, mimetype);
      return reply === undefined || "error" in reply ? undefined : reply;
    });
  }

  #ask(bytes: Uint8Array, mimetype: string): Promise<PreviewReply | undefined> {
    this.#cancelIdle();
    const child = this.#child ?? this.#start();
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const cancel = this.#clock.after(TIMEOUT_MS, () => {
        this.#kill();
        this.#settle(undefined);
      });
      this.#waiting = {
        id,
        done: (reply) => {
          cancel();
          this.#cancelIdle = this.#clock.after(IDLE_MS, () => this.#kill());
          resolve(reply);
        },
      };
      child.send({ id, bytes, mimetype, sizes: PREVIEW_SIZES } satisfies PreviewRequest);
    });
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
    this.#kill();
    this.#settle(undefined);
    this.#cancelIdle();
    await child?.exited;
  }
}
