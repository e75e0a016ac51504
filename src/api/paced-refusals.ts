/**
 * The pace of refusals. Clients of a key that ask again as soon as they are refused take the thread for themselves: a refusal
 * costs 50 µs with its connection. So those of a key that come at the same time are answered one by one.
 */
import type { Clock } from "../core/clock.ts";

/** Time between two refusals of a key, which then cost a fortieth of the thread. */
const GAP_MS = 2;
/** No refusal waits longer. */
const LONGEST_MS = 5_000;

interface PacedRefusalsOptions {
  readonly clock: Clock;
  /** Files that refusals may hold while they wait. */
  readonly room: () => number;
}

export class PacedRefusals {
  readonly #options: PacedRefusalsOptions;
  /** When the next refusal of a key may be answered. */
  readonly #next = new Map<string, number>();
  /** Answers a refusal that waits, for each of them. */
  readonly #waiting = new Set<() => void>();
  #isOver = false;

  constructor(options: PacedRefusalsOptions) {
    this.#options = options;
  }

  /** Returns the refusal, at once or when it is its turn. @param key one that is valid, so that there are few */
  pace(refusal: Response, key: string, client: AbortSignal): Response | Promise<Response> {
    const { clock, room } = this.#options;
    const now = clock.monotonic();
    const at = Math.min(Math.max(now, this.#next.get(key) ?? now), now + LONGEST_MS);
    if (at > now && (this.#isOver || this.#waiting.size >= room())) return refusal;
    this.#next.set(key, at + GAP_MS);
    return at > now ? this.#hold(refusal, at - now, client) : refusal;
  }

  /** Answers the refusals that wait, and all further ones at once: the service stops. */
  end(): void {
    this.#isOver = true;
    for (const answer of [...this.#waiting]) answer();
  }

  #hold(refusal: Response, ms: number, client: AbortSignal): Promise<Response> {
    // A client that has left needs no answer, and the runtime drops it.
    if (client.aborted) return Promise.resolve(refusal);
    const { promise, resolve } = Promise.withResolvers<Response>();
    const answer = () => {
      cancel();
      client.removeEventListener("abort", answer);
      this.#waiting.delete(answer);
      resolve(refusal);
    };
    const cancel = this.#options.clock.after(ms, answer);
    client.addEventListener("abort", answer, { once: true });
    this.#waiting.add(answer);
    return promise;
  }
}
