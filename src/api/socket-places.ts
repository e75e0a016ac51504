/** The places for sockets of this process, and how many of them each key holds. */
import { LIMITS } from "../config.ts";
import { Refusal } from "../core/errors.ts";
import type { ApiKey } from "../operators/keys.ts";

/** Time after which a refused client may try again: another connection may have ended by then. */
const RETRY_SECONDS = 10;

/** All places are taken. Another process may have room, so the answer is a 503. */
export class NoRoom extends Refusal {}

export class SocketPlaces {
  readonly #places: number;
  readonly #byKey = new Map<string, number>();
  #total = 0;

  constructor(places: number) {
    this.#places = places;
  }

  /** Places that no socket has. */
  get free(): number {
    return this.#places - this.#total;
  }

  /** @throws Refusal `rate_limited` if the key's share is full, and NoRoom if all places are taken */
  assertFree({ key, isOperator }: ApiKey): void {
    const part = isOperator ? LIMITS.socketsPerOperator : LIMITS.socketsPerReader;
    const most = Math.max(1, Math.floor(this.#places * part));
    if ((this.#byKey.get(key) ?? 0) >= most) {
      const text = `connections of the key ${key} to this process: at most ${most}; close some, and use one connection`;
      const way = `for up to ${LIMITS.maxSubscriptionsPerSocket} subscriptions`;
      throw new Refusal("rate_limited", `${text} ${way}`, { retryAfter: RETRY_SECONDS });
    }
    if (this.#total < this.#places) return;
    const text = "too many connections: this process has no room for more";
    throw new NoRoom("rate_limited", text, { retryAfter: RETRY_SECONDS });
  }

  take({ key }: ApiKey): void {
    this.#total++;
    this.#byKey.set(key, (this.#byKey.get(key) ?? 0) + 1);
  }

  leave({ key }: ApiKey): void {
    this.#total--;
    const left = (this.#byKey.get(key) ?? 0) - 1;
    if (left > 0) this.#byKey.set(key, left);
    else this.#byKey.delete(key);
  }
}
