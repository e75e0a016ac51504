/**
 * How many blocks to ask for at once. Grows while answers are small, halves on a refusal, follows a provider's hint and
 * remembers what was refused; aims at answers of a size that decodes in a slice.
 */
import type { RangeHint } from "./errors.ts";

/** Logs wanted in one answer: about 6 MB of JSON. */
const TARGET_LOGS = 10_000;
const FIRST_SPAN = 1_000;
export const MAX_SPAN = 5_000_000;
/** How far one answer lets the next request grow: further where it held enough logs to know how dense they lie. */
const [GROWTH, KNOWN_GROWTH, KNOWN_LOGS] = [4, 16, 50] as const;
/** After so many answers without a refusal the limit learned is tried again, a little above. */
const PATIENCE = 50;

export class SpanController {
  #span: number;
  #limit = MAX_SPAN;
  #quiet = 0;

  /** @param first how many blocks to ask for at first */
  constructor(first: number = FIRST_SPAN) {
    this.#span = first;
  }

  /** Blocks to ask for next. */
  get span(): number {
    return this.#span;
  }

  /** An answer of `logs` logs to a request for `blocks` blocks. */
  succeeded(blocks: number, logs: number): void {
    if (++this.#quiet >= PATIENCE) {
      this.#quiet = 0;
      this.#limit = Math.min(MAX_SPAN, Math.ceil(this.#limit * 1.5));
    }
    // A request cut short by its range's end says little about larger ones, but for that they are too large as well.
    if (blocks < this.#span / 2 && logs < TARGET_LOGS / 2) return;
    if (logs > TARGET_LOGS) this.#span = Math.min(this.#span, blocks);
    const growth = logs < KNOWN_LOGS ? GROWTH : KNOWN_GROWTH;
    const fitting = logs === 0 ? blocks * growth : (blocks * TARGET_LOGS) / logs;
    const wanted = Math.min(fitting, blocks * growth, this.#limit);
    this.#span = Math.max(1, Math.floor(Math.max(wanted, this.#span / 2)));
    if (this.#span > this.#limit) this.#span = this.#limit;
  }

  /** What was refused was refused for another reason. */
  restart(): void {
    this.#span = Math.min(FIRST_SPAN, this.#limit);
  }

  /** A request for `blocks` blocks was not answered in time: not soon is so much tried again, which would cost that time. */
  tookTooLong(blocks: number): void {
    // One cut short by its range's end says little about larger ones.
    const isWhole = blocks >= this.#span;
    const next = this.refused(blocks, undefined);
    if (isWhole) this.#limit = Math.min(this.#limit, next);
  }

  /** A request for `blocks` blocks was too large; returns the number of blocks to ask for instead. */
  refused(blocks: number, hint: RangeHint | undefined): number {
    this.#quiet = 0;
    const half = Math.max(1, Math.floor(blocks / 2));
    const hinted = hint?.size ?? (hint?.range === undefined ? half : hint.range[1] - hint.range[0] + 1);
    // A hint that is no smaller than what was refused has failed itself.
    const next = hinted >= 1 && hinted < blocks ? hinted : half;
    // A limit of blocks holds for all requests; one of results holds only where logs are as dense as here.
    if (hint?.size !== undefined) this.#limit = Math.max(1, next);
    this.#span = Math.min(this.#span, next);
    return next;
  }
}
