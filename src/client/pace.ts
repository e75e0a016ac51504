/**
 * Paces the messages of a socket by the limit that the service tells. Until the service tells one, each message waits for
 * the answer to the one before.
 */

/** The service counts messages in windows of this length. */
const WINDOW_MS = 1_000;

interface WaitingMessage {
  readonly answer: string;
  /** Returns false if there is nothing to send any more. */
  readonly send: () => boolean;
}

/**
 * A message takes a place from its sending until a window after its answer. So the messages that the service counts in
 * one window hold places at the same time, and are at most as many as there are places, however late they arrive.
 */
export class Pace {
  readonly #queue: WaitingMessage[] = [];
  /** Messages without an answer, by the answer that they wait for, and how many of each. */
  readonly #asked = new Map<string, number>();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  readonly #perSecond: () => number | undefined;

  /** @param perSecond the limit; undefined until it is known */
  constructor(perSecond: () => number | undefined) {
    this.#perSecond = perSecond;
  }

  /** Sends once there is a place. @param answer names the answer that will come */
  add(answer: string, send: () => boolean): void {
    this.#queue.push({ answer, send });
    this.#go();
  }

  /** Takes note of an answer. Returns false if no message waits for it. */
  answered(answer: string): boolean {
    const count = this.#asked.get(answer) ?? 0;
    if (count === 0) return false;
    if (count === 1) this.#asked.delete(answer);
    else this.#asked.set(answer, count - 1);
    if (this.#perSecond() !== undefined) {
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        this.#go();
      }, WINDOW_MS);
      this.#timers.add(timer);
    }
    this.#go();
    return true;
  }

  /** True if nothing waits to be sent, or for an answer. */
  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#asked.size === 0;
  }

  stop(): void {
    this.#queue.length = 0;
    this.#asked.clear();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }

  #go(): void {
    const places = Math.max(1, this.#perSecond() ?? 1);
    while (this.#taken() < places) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      if (next.send()) this.#asked.set(next.answer, (this.#asked.get(next.answer) ?? 0) + 1);
    }
  }

  #taken(): number {
    let taken = this.#timers.size;
    for (const count of this.#asked.values()) taken += count;
    return taken;
  }
}
