/**
 * How many blocks to ask for at once. Grows while answers are small, halves on a refusal, follows a provider's hint and
 * aims at answers of a size that decodes in a slice. Only one request at a time asks for more than was answered before.
 * An endpoint's limit of blocks, named or not, is so found by few refusals; then several ranges go into one request.
 */
import type { RangeHint } from "./errors.ts";

/** Logs wanted in one answer: about 6 MB of JSON. */
const TARGET_LOGS = 10_000;
const FIRST_SPAN = 1_000;
export const MAX_SPAN = 5_000_000;
/** How far one answer lets the next request grow: further where it held enough logs to know how dense they lie. */
const [GROWTH, KNOWN_GROWTH, KNOWN_LOGS] = [4, 16, 50] as const;
/** After so many answers without a refusal a limit that was found is tried again; twice as many each time. */
const PATIENCE = 50;
const MAX_PATIENCE = 3_200;
const TRIAL = 1.5;
/** Ranges in one request at most. */
const MAX_PARTS = 8;
/** A refusal where so large a share of the wanted logs was expected may be one of too many logs. */
const DENSE = 0.5;
/** The limit that most providers have, and others that are usual, rising: a search need not look between them. */
const MOST_USUAL = 10_000;
const NEAR = 3;
const TENS = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
const BETWEEN = [128, 256, 512, 800, 1_024, 2_048, 2_500, 3_000, 3_500, 4_096, 8_192, 15_000, 25_000, 30_000];
const USUAL_LIMITS = [...TENS.flatMap((ten) => [ten, 2 * ten, 5 * ten]), ...BETWEEN].sort((a, b) => a - b);

export class SpanController {
  /** Blocks of an answer of the size wanted. */
  #span: number;
  /** No more blocks than this are asked for: they were refused, or not answered in time. */
  #limit = MAX_SPAN;
  /** The most blocks that were answered, and the fewest above them that were refused for their number. */
  #answered = 0;
  #refused = Number.POSITIVE_INFINITY;
  /** Blocks of the one request under way that asks for more than was answered before. */
  #trial: number | undefined;
  /** One was cut off since the last request was made. */
  #isOffered = false;
  /** Answers since the last refusal, and how many of them make it worth to try more than the limit. */
  #quiet = 0;
  #patience = PATIENCE;
  /** Logs a block, by the last answer. */
  #density = 0;
  #mostParts = MAX_PARTS;

  /** @param first how many blocks to ask for at first */
  constructor(first: number = FIRST_SPAN) {
    this.#span = first;
  }

  /** Blocks to ask for next. */
  get span(): number {
    return this.#span;
  }

  /** Blocks to cut off for the next request: more than were answered before for one request at a time. */
  next(): number {
    if (this.#trial !== undefined || this.#isOffered) return this.#safe();
    this.#isOffered = true;
    return this.#wanted();
  }

  /** How many of `blocks` blocks to ask for in one range. Say what came of it: `succeeded`, `refused` and so on. */
  take(blocks: number): number {
    this.#isOffered = false;
    const safe = this.#safe();
    const taken = Math.min(blocks, this.#trial === undefined ? this.#wanted() : safe);
    if (taken > safe) this.#trial = taken;
    return taken;
  }

  /** Blocks that need no trial. */
  #safe(): number {
    return this.#answered === 0 ? this.#span : Math.min(this.#span, this.#answered);
  }

  /** Blocks that the next trial asks for; no more than is safe where the limit is found. */
  #wanted(): number {
    if (this.#limit === MAX_SPAN || this.#answered === 0) return this.#span;
    const limit = this.#candidate();
    if (limit !== undefined) return Math.min(this.#span, limit);
    return this.#quiet < this.#patience ? this.#safe() : Math.min(MAX_SPAN, Math.ceil(this.#limit * TRIAL));
  }

  /** The next limit to try between what was answered and what was refused; undefined where none is left. */
  #candidate(): number | undefined {
    if (this.#refused === Number.POSITIVE_INFINITY) return undefined;
    // What is twice as much as the most usual limit can wait for a trial.
    if (this.#answered === MOST_USUAL && this.#refused <= MOST_USUAL * NEAR) return undefined;
    const left = USUAL_LIMITS.filter((limit) => limit > this.#answered && limit < this.#refused);
    return left.includes(MOST_USUAL) ? MOST_USUAL : left[left.length >> 1];
  }

  /** Ranges to put into one request: more than one where the limit of blocks keeps answers small. */
  get parts(): number {
    const isFound = this.#refused < Number.POSITIVE_INFINITY && this.#candidate() === undefined;
    if (!isFound || this.#span < this.#limit) return 1;
    const expected = Math.max(1, this.#density * this.#span);
    return Math.max(1, Math.min(this.#mostParts, Math.floor(TARGET_LOGS / expected)));
  }

  /** An answer of `logs` logs to a request for `blocks` blocks in `parts` ranges. */
  succeeded(blocks: number, logs: number, parts = 1): void {
    this.#quiet++;
    this.#density = logs / blocks;
    // What kept several ranges from being answered together may be over.
    if (this.#quiet % PATIENCE === 0) this.#mostParts = Math.min(MAX_PARTS, this.#mostParts * 2);
    if (parts > 1) return;
    this.#settle(blocks);
    this.#answered = Math.max(this.#answered, blocks);
    if (blocks >= this.#refused) this.#forget();
    else if (this.#limit < MAX_SPAN) this.#limit = Math.max(this.#limit, this.#answered);
    // A request cut short by its range's end says little about larger ones, but for that they are too large as well.
    if (blocks < this.#safe() / 2 && logs < TARGET_LOGS / 2) return;
    if (logs > TARGET_LOGS) this.#span = Math.min(this.#span, blocks);
    const growth = logs < KNOWN_LOGS ? GROWTH : KNOWN_GROWTH;
    const fitting = logs === 0 ? blocks * growth : (blocks * TARGET_LOGS) / logs;
    const wanted = Math.min(fitting, blocks * growth, this.#candidate() ?? this.#limit);
    this.#span = Math.max(1, Math.floor(Math.max(wanted, this.#span / 2)));
  }

  /** The endpoint answers for more blocks than it did. */
  #forget(): void {
    this.#refused = Number.POSITIVE_INFINITY;
    this.#limit = MAX_SPAN;
    this.#patience = PATIENCE;
  }

  /** A trial is over. */
  #settle(blocks: number): void {
    if (this.#trial !== undefined && blocks >= Math.min(this.#trial, this.#answered + 1)) this.#trial = undefined;
  }

  /** What was refused was refused for another reason. */
  restart(): void {
    this.#trial = undefined;
    this.#span = Math.min(FIRST_SPAN, this.#limit);
  }

  /** A request for `blocks` blocks failed for a reason that says nothing of its size. */
  failed(blocks: number): void {
    this.#settle(blocks);
  }

  /** A request for `blocks` blocks was not answered in time: remembers that and stays below it for a while. */
  tookTooLong(blocks: number): void {
    const half = Math.max(1, Math.floor(blocks / 2));
    this.#settle(blocks);
    this.#quiet = 0;
    this.#mostParts = 1;
    this.#span = Math.min(this.#span, half);
    this.#limit = Math.min(this.#limit, half);
    this.#answered = Math.min(this.#answered, half);
  }

  /** A request of several ranges was refused or not answered in time: fewer are tried. */
  partsRefused(parts: number): void {
    this.#quiet = 0;
    this.#mostParts = Math.max(1, Math.min(this.#mostParts, parts >> 1));
  }

  /** A request for `blocks` blocks was too large; returns the number of blocks to ask for instead. */
  refused(blocks: number, hint: RangeHint | undefined): number {
    this.#settle(blocks);
    if (blocks > this.#limit) this.#patience = Math.min(MAX_PATIENCE, this.#patience * 2);
    this.#quiet = 0;
    const next = this.#after(blocks, hint);
    this.#span = Math.min(this.#span, next);
    return next;
  }

  #after(blocks: number, hint: RangeHint | undefined): number {
    const half = Math.max(1, Math.floor(blocks / 2));
    const hinted = hint?.size ?? (hint?.range === undefined ? undefined : hint.range[1] - hint.range[0] + 1);
    // A hint that is no smaller than what was refused has failed itself.
    const usable = hinted !== undefined && hinted >= 1 && hinted < blocks ? hinted : undefined;
    // What was answered once is refused now: the search begins anew.
    if (blocks <= this.#answered) this.#answered = 0;
    // A limit of blocks holds for all requests; one of results holds only where logs are as dense as here.
    if (hint?.size !== undefined) {
      this.#limit = usable ?? half;
      this.#answered = usable === undefined ? Math.min(this.#answered, half) : usable;
      this.#refused = this.#limit + 1;
      return this.#limit;
    }
    const isDense = hint?.ofResults === true || this.#density * blocks > TARGET_LOGS * DENSE;
    if (usable !== undefined || isDense || this.#answered === 0) return usable ?? half;
    // Refused although few logs were expected: for the number of blocks.
    this.#refused = Math.min(this.#refused, blocks);
    this.#limit = Math.min(this.#limit, this.#answered);
    return this.#candidate() ?? this.#limit;
  }
}
