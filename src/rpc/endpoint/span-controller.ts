/**
 * Learns how many blocks to request at once from an endpoint. Grows while answers are small, halves after a refusal,
 * follows hints, and aims at answers that decode in a short slice. Only one request at a time may exceed the proven
 * size, so an endpoint's block limit is found with few refusals. Then several ranges go into one request.
 */
import type { RangeHint } from "../rpc-errors.ts";

/** Target number of logs per answer: about 6 MB of JSON. */
const TARGET_LOGS = 10_000;
const FIRST_SPAN = 1_000;
export const MAX_SPAN = 5_000_000;
/** Growth after one answer: GROWTH, or KNOWN_GROWTH if it had KNOWN_LOGS logs, enough to estimate their density. */
const [GROWTH, KNOWN_GROWTH, KNOWN_LOGS] = [4, 16, 50] as const;
/** Answers without a refusal before the program tries more than a known limit. Doubles after each failed try. */
const PATIENCE = 50;
const MAX_PATIENCE = 3_200;
const TRIAL = 1.5;
const MAX_PARTS = 8;
/** A refusal may be about the number of logs if at least this share of TARGET_LOGS was expected. */
const DENSE = 0.5;
/** The most common limit of providers, then all usual limits in rising order. The search tries only these. */
const MOST_USUAL = 10_000;
const NEAR = 3;
const TENS = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
const BETWEEN = [128, 256, 512, 800, 1_024, 2_048, 2_500, 3_000, 3_500, 4_096, 8_192, 15_000, 25_000, 30_000];
const USUAL_LIMITS = [...TENS.flatMap((ten) => [ten, 2 * ten, 5 * ten]), ...BETWEEN].sort((a, b) => a - b);

/** Blocks per request below which an endpoint's own road through a long history takes hours. */
export const NARROW_SPAN = 2_000;

/** Ranges of blocks that providers commonly allow, largest first, to ask an endpoint for what it takes. */
export const SPANS = [100_000, 10_000, 2_000, 500, 100, 10] as const;

export class SpanController {
  /** Blocks for an answer of the target size. */
  #span: number;
  /** Upper bound on blocks per request: more were refused, or timed out. */
  #limit = MAX_SPAN;
  /** The most blocks that were answered, and the fewest blocks above them that were refused for their number. */
  #answered = 0;
  #refused = Number.POSITIVE_INFINITY;
  /** Blocks of the running request that exceeds what was answered before. */
  #trial: number | undefined;
  /** True if `next` has offered a trial since the last `take`. */
  #isOffered = false;
  /** Answers since the last refusal, and the number of them after which more than the limit is tried. */
  #quiet = 0;
  #patience = PATIENCE;
  /** Logs per block in the last answer. */
  #density = 0;
  #mostParts = MAX_PARTS;
  readonly #target: number;

  /** @param target number of logs per answer to aim at */
  constructor(first: number = FIRST_SPAN, target: number = TARGET_LOGS) {
    this.#span = first;
    this.#target = target;
  }

  get span(): number {
    return this.#span;
  }

  /** Most blocks that the endpoint takes; null if no limit was met. */
  get maxBlocks(): number | null {
    return this.#limit === MAX_SPAN
      ? null
      : Math.max(1, this.#candidate() === undefined ? this.#limit : this.#answered);
  }

  /** The most blocks that were answered; 0 before the first answer. */
  get answered(): number {
    return this.#answered;
  }

  /** Records an answer to a request without matching logs. It tells nothing about the density. */
  probed(blocks: number): void {
    this.#answered = Math.max(this.#answered, blocks);
  }

  /** Returns another controller that knows the same. */
  copy(): SpanController {
    const copy = new SpanController(this.#span, this.#target);
    copy.#limit = this.#limit;
    copy.#answered = this.#answered;
    copy.#refused = this.#refused;
    copy.#quiet = this.#quiet;
    copy.#patience = this.#patience;
    copy.#density = this.#density;
    copy.#mostParts = this.#mostParts;
    return copy;
  }

  /** Blocks for a request that is planned ahead. Offers more than was answered before to one request at a time. */
  next(): number {
    if (this.#trial !== undefined || this.#isOffered) return this.#safe();
    this.#isOffered = true;
    return this.#blocksToAsk();
  }

  /** Returns how many of `blocks` to request in one range. Report the outcome: `succeeded`, `refused` and so on. */
  take(blocks: number): number {
    this.#isOffered = false;
    const safe = this.#safe();
    const taken = Math.min(blocks, this.#trial === undefined ? this.#blocksToAsk() : safe);
    if (taken > safe) this.#trial = taken;
    return taken;
  }

  /** Blocks that are known to be accepted. */
  #safe(): number {
    return this.#answered === 0 ? this.#span : Math.min(this.#span, this.#answered);
  }

  /** Blocks for the next trial. Not more than is safe once the limit is found. */
  #blocksToAsk(): number {
    if (this.#limit === MAX_SPAN || this.#answered === 0) return this.#span;
    const limit = this.#candidate();
    if (limit !== undefined) return Math.min(this.#span, limit);
    return this.#quiet < this.#patience ? this.#safe() : Math.min(MAX_SPAN, Math.ceil(this.#limit * TRIAL));
  }

  /** The next limit to try between the answered and the refused size. Undefined if no usual limit is left. */
  #candidate(): number | undefined {
    if (this.#refused === Number.POSITIVE_INFINITY) return undefined;
    // The most common limit is answered and its triple is refused: good enough. A later trial finds a higher limit.
    if (this.#answered === MOST_USUAL && this.#refused <= MOST_USUAL * NEAR) return undefined;
    const untried = USUAL_LIMITS.filter((limit) => limit > this.#answered && limit < this.#refused);
    return untried.includes(MOST_USUAL) ? MOST_USUAL : untried[untried.length >> 1];
  }

  /** Ranges to put into one request: more than one if the block limit keeps answers small. */
  get parts(): number {
    const isFound = this.#refused < Number.POSITIVE_INFINITY && this.#candidate() === undefined;
    if (!isFound || this.#span < this.#limit) return 1;
    const expected = Math.max(1, this.#density * this.#span);
    return Math.max(1, Math.min(this.#mostParts, Math.floor(this.#target / expected)));
  }

  /** Records an answer of `logs` logs to a request for `blocks` blocks in `parts` ranges. */
  succeeded(blocks: number, logs: number, parts = 1): void {
    this.#quiet++;
    this.#density = logs / blocks;
    // The reason why several ranges failed together may be gone.
    if (this.#quiet % PATIENCE === 0) this.#mostParts = Math.min(MAX_PARTS, this.#mostParts * 2);
    if (parts > 1) return;
    this.settle(blocks);
    this.#answered = Math.max(this.#answered, blocks);
    if (blocks >= this.#refused) {
      // The endpoint answered for at least as many blocks as it refused before, so its limit is unknown again.
      this.#refused = Number.POSITIVE_INFINITY;
      this.#limit = MAX_SPAN;
      this.#patience = PATIENCE;
    } else if (this.#limit < MAX_SPAN) this.#limit = Math.max(this.#limit, this.#answered);
    // A request cut short by its range's end only tells about larger ones if its answer was already large.
    if (blocks < this.#safe() / 2 && logs < this.#target / 2) return;
    if (logs > this.#target) this.#span = Math.min(this.#span, blocks);
    const growth = logs < KNOWN_LOGS ? GROWTH : KNOWN_GROWTH;
    const fitting = logs === 0 ? blocks * growth : (blocks * this.#target) / logs;
    const wanted = Math.min(fitting, blocks * growth, this.#candidate() ?? this.#limit);
    this.#span = Math.max(1, Math.floor(Math.max(wanted, this.#span / 2)));
  }

  /** Ends the trial if this was its request. Enough for a failure that says nothing about the size. */
  settle(blocks: number): void {
    if (this.#trial !== undefined && blocks >= Math.min(this.#trial, this.#answered + 1)) this.#trial = undefined;
  }

  /** Starts again from the first size: the refusals had another reason. */
  restart(): void {
    this.#trial = undefined;
    this.#span = Math.min(FIRST_SPAN, this.#limit);
  }

  /** Records a timeout: remembers the size and stays below it for a while. */
  tookTooLong(blocks: number): void {
    const half = Math.max(1, Math.floor(blocks / 2));
    this.settle(blocks);
    this.#quiet = 0;
    this.#mostParts = 1;
    this.#span = Math.min(this.#span, half);
    this.#limit = Math.min(this.#limit, half);
    this.#answered = Math.min(this.#answered, half);
  }

  /** Records that a request of several ranges was refused or timed out: the next one has half as many. */
  partsRefused(parts: number): void {
    this.#quiet = 0;
    this.#mostParts = Math.max(1, Math.min(this.#mostParts, parts >> 1));
  }

  /** Records a refusal for size. Returns the number of blocks to request instead. */
  refused(blocks: number, hint: RangeHint | undefined): number {
    this.settle(blocks);
    if (blocks > this.#limit) this.#patience = Math.min(MAX_PATIENCE, this.#patience * 2);
    this.#quiet = 0;
    const next = this.#after(blocks, hint);
    this.#span = Math.min(this.#span, next);
    return next;
  }

  #after(blocks: number, hint: RangeHint | undefined): number {
    const half = Math.max(1, Math.floor(blocks / 2));
    const hinted = hint?.size ?? (hint?.range === undefined ? undefined : hint.range[1] - hint.range[0] + 1);
    // A hint that is not smaller than the refused request is wrong.
    const usable = hinted !== undefined && hinted >= 1 && hinted < blocks ? hinted : undefined;
    // The endpoint refuses a size that it answered before, so the search starts again.
    if (blocks <= this.#answered) this.#answered = 0;
    // A block limit applies to all requests. A result limit applies only where logs are as dense as here.
    if (hint?.size !== undefined) {
      this.#limit = usable ?? half;
      this.#answered = usable === undefined ? Math.min(this.#answered, half) : usable;
      this.#refused = this.#limit + 1;
      return this.#limit;
    }
    const isDense = hint?.ofResults === true || this.#density * blocks > this.#target * DENSE;
    if (usable !== undefined || isDense || this.#answered === 0) return usable ?? half;
    // Few logs were expected, so the refusal is about the number of blocks.
    this.#refused = Math.min(this.#refused, blocks);
    this.#limit = Math.min(this.#limit, this.#answered);
    return this.#candidate() ?? this.#limit;
  }
}
