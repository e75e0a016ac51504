/** Limits the requests that read a whole collection: four run at once, and 64 wait. */
import { Semaphore } from "../core/background.ts";
import { ApiError } from "../core/errors.ts";

const AT_ONCE = 4;
const MAX_WAITING = 64;

export class Readings {
  readonly #slots = new Semaphore(AT_ONCE);
  #asked = 0;

  /** Runs work in its turn. @throws ApiError 429 if too many wait */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#asked >= AT_ONCE + MAX_WAITING) {
      const text = "too many readings of whole collections wait already; try again";
      throw new ApiError(429, "rate_limited", text, { headers: { "retry-after": "2" } });
    }
    this.#asked++;
    try {
      return await this.#slots.run(work);
    } finally {
      this.#asked--;
    }
  }
}
