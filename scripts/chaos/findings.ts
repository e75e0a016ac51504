/**
 * What a chaos run found: violations, counts, and the seconds that the service took to recover from each fault. Prints
 * them as Markdown.
 */

export interface Violation {
  readonly seed: number;
  readonly second: number;
  /** The fault that was in force, or that had healed last. */
  readonly during: string;
  readonly what: string;
  /** How often it was seen. Only the first time is described. */
  times: number;
}

/** The totals that the report always names. */
const TOTALS = [
  ...["walks verified", "walks skipped", "wrong walks", "walks ended by 409 or 410", "pages", "stale pages"],
  ...["prices", "503s", "unanswered by a disturbed process", "messages", "gaps", "lost", "doubled"],
] as const;
export type Total = (typeof TOTALS)[number];

export class Findings {
  readonly violations: Violation[] = [];
  /** The violations of this seed by their keys. */
  readonly #known = new Map<string, Violation>();
  readonly #totals = new Map<Total, number>();
  readonly #ready = new Map<string, number[]>();
  readonly #moved = new Map<string, number[]>();
  readonly #print: (line: string) => void;
  #seed = 0;
  #startedMs = 0;
  during = "no fault";

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  beginSeed(seed: number): void {
    this.#seed = seed;
    this.#known.clear();
    this.#startedMs = performance.now();
    this.during = "no fault";
  }

  get second(): number {
    return Math.round((performance.now() - this.#startedMs) / 100) / 10;
  }

  say(line: string): void {
    this.#print(`${this.second.toFixed(1).padStart(6)} s  ${line}`);
  }

  /** @param key of the same problem when it is seen again. Default: the description. */
  violation(what: string, key = what): void {
    const known = this.#known.get(key);
    if (known !== undefined) {
      known.times++;
      return;
    }
    const violation = { seed: this.#seed, second: this.second, during: this.during, what, times: 1 };
    this.#known.set(key, violation);
    this.violations.push(violation);
    this.say(`VIOLATION during ${this.during}: ${what}`);
  }

  count(total: Total, by = 1): void {
    this.#totals.set(total, this.total(total) + by);
  }

  total(total: Total): number {
    return this.#totals.get(total) ?? 0;
  }

  /** Seconds after a fault until all replicas were ready near the head, and until they showed a new block. */
  recovered(fault: string, ready: number, moved: number): void {
    add(this.#ready, fault, ready);
    add(this.#moved, fault, moved);
  }

  /** Seconds until the head moved on other replicas, after the follower was lost. */
  tookOver(from: string, seconds: number): void {
    add(this.#moved, `takeover from ${from}`, seconds);
  }

  /** The faults that the run has had. */
  get faults(): string[] {
    return [...this.#ready.keys()];
  }

  markdown(): string {
    const lines = [
      "| Fault | Count | Ready: median | Worst | New block: median | Worst |",
      "|---|---:|---:|---:|---:|---:|",
    ];
    for (const [fault, moved] of [...this.#moved].sort(([a], [b]) => a.localeCompare(b))) {
      const ready = this.#ready.get(fault);
      lines.push(
        `| ${fault} | ${moved.length} | ${ready ? medianAndWorst(ready) : "– | –"} | ${medianAndWorst(moved)} |`,
      );
    }
    lines.push("", "| Total | |", "|---|---:|");
    for (const total of TOTALS) lines.push(`| ${total} | ${this.total(total)} |`);
    return lines.join("\n");
  }
}

function add(map: Map<string, number[]>, name: string, value: number): void {
  map.set(name, [...(map.get(name) ?? []), value]);
}

function medianAndWorst(seconds: readonly number[]): string {
  const sorted = seconds.toSorted((a, b) => a - b);
  return `${sorted[Math.floor((sorted.length - 1) / 2)]!.toFixed(1)} s | ${sorted.at(-1)!.toFixed(1)} s`;
}
