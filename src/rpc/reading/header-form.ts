/**
 * The form of a chain's headers, as its newest ones show it: whether their fields make their hash, and whether they have
 * the blooms of other blocks. Everything that is proven by a header's hash rests on the first. A chain whose headers used
 * to make their hash and no longer do has forked to fields that this release doesn't know, which operators must learn.
 */
import { singleFlight } from "../../core/work.ts";
import type { BlockHeader } from "../port.ts";

/** Newest blocks in a row without their hash before that is believed of the chain: one may be a node's mistake. */
const UNHASHED_IN_ROW = 3;
/** Blocks below the head, and shares of it, at which older headers are looked at. */
const BELOW = [1_024, 65_536];
const SHARES = [0.75, 0.5, 0.25, 0.1, 0.05, 0.01];

interface HeaderFormOptions {
  /** True if the fields of the chain's header of that number make its hash. @throws AppError if no endpoint tells */
  readonly isHashedAt: (number: number) => Promise<boolean>;
  /** Called once with the first block that doesn't, at the least the first that was seen. */
  readonly onChanged: ((block: number) => void) | undefined;
}

export class HeaderForm {
  readonly #options: HeaderFormOptions;
  #hasHashed = false;
  #settled: number | undefined;
  /** Numbers of the newest blocks in a row that don't make their hash. */
  #unhashed: number[] = [];
  #changedAt: number | undefined;
  #isSearched = false;
  readonly #search = singleFlight(() => this.#searchOlder());

  constructor(options: HeaderFormOptions) {
    this.#options = options;
  }

  /** True if the newest headers have the blooms of other blocks (`BlockHeader.settledHeight`). */
  get isSettling(): boolean {
    return this.#settled !== undefined;
  }

  /** The newest block whose bloom a header has; undefined where each header has its own. Later logs are the node's word. */
  get settled(): number | undefined {
    return this.#settled;
  }

  /** The first block whose fields don't make its hash, on a chain on which older ones do. */
  get changedAt(): number | undefined {
    return this.#changedAt;
  }

  /** Looks at the chain's newest header. */
  note({ number, isHashed, settledHeight }: BlockHeader): void {
    this.#settled = settledHeight;
    if (isHashed === true) {
      this.#hasHashed = true;
      this.#unhashed = [];
      this.#changedAt = undefined;
    } else if (!this.#unhashed.includes(number) && this.#unhashed.length < UNHASHED_IN_ROW) this.#unhashed.push(number);
  }

  /**
   * Finds out since when headers don't make their hash, if some in a row didn't: once, with at most some thirty headers. Resolves
   * when it is known, also where another caller searches.
   * @throws AppError if no endpoint answers; another time will tell
   */
  async explain(): Promise<void> {
    const [first] = this.#unhashed;
    if (first === undefined || this.#changedAt !== undefined) return;
    if (!this.#hasHashed) await this.#search();
    else if (this.#unhashed.length === UNHASHED_IN_ROW) this.#change(first);
  }

  /** This process has seen no header that makes its hash. Older ones tell whether the chain had any. */
  async #searchOlder(): Promise<void> {
    const [first] = this.#unhashed;
    if (this.#isSearched || first === undefined) return;
    const { isHashedAt } = this.#options;
    const older = [...BELOW.map((blocks) => first - blocks), ...SHARES.map((share) => Math.floor(first * share))];
    const probes = [...new Set(older)].filter((number) => number >= 0 && number < first).sort((a, b) => b - a);
    const hashed = await Promise.all(probes.map(isHashedAt));
    const newest = hashed.indexOf(true);
    if (newest >= 0) {
      let [last, unhashed] = [probes[newest] as number, probes[newest - 1] ?? first];
      while (unhashed - last > 1) {
        const middle = Math.floor((last + unhashed) / 2);
        if (await isHashedAt(middle)) last = middle;
        else unhashed = middle;
      }
      this.#hasHashed = true;
      this.#change(unhashed);
    }
    this.#isSearched = true;
  }

  #change(block: number): void {
    this.#changedAt = block;
    this.#options.onChanged?.(block);
  }
}
