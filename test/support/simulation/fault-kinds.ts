/** Every kind of fault in the simulated world, and how often each has happened. */
export const FAULTS = [
  // endpoints
  "provider refusal",
  "range refused with a hint",
  "range refused without a hint",
  "hint that fails itself",
  "too many requests",
  "server error",
  "dropped connection",
  "time-out",
  "range not answered in time",
  "straggler",
  "truncated JSON",
  "old state refused",
  "finalized tag refused",
  "lagging node",
  "node on a losing fork",
  "node stuck for good",
  "lagging node behind the same URL",
  "hollow block",
  "all nodes silent for a process",
  "all nodes down for a process",
  // lies
  "log left out",
  "log repeated",
  "log of another block hash",
  "log of another address",
  "log outside the range",
  "logs out of order",
  "wrong receipts",
  "receipts refused",
  // archives
  "archive lags",
  "archive gone",
  "archive breaks off",
  "archive on another branch",
  "archive forges a log",
  "archive leaves out a log",
  "archive forges a log and its return",
  // chain
  "fork",
  "finality stalls",
  "finality far behind",
  "finality jumps",
  "fork to a shorter chain",
  // processes
  "log goes back",
  "crash",
  "crash before an append",
  "crash after an append",
  "pause",
  "pause before an append",
  "clock jump",
  "lease handed over",
  // operators
  "collection indexed anew",
  "collection removed",
  // log
  "append fails",
  "append succeeds, answer lost",
  "wake-up lost",
  "wake-up late",
  "read fails",
] as const;

export type Fault = (typeof FAULTS)[number];

export class FaultCounter {
  readonly counts = new Map<Fault, number>(FAULTS.map((fault) => [fault, 0]));

  hit(fault: Fault): void {
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
  }

  add(other: FaultCounter): void {
    for (const [fault, count] of other.counts) this.counts.set(fault, (this.counts.get(fault) ?? 0) + count);
  }

  /** Faults that have not happened. */
  missing(): Fault[] {
    return FAULTS.filter((fault) => this.counts.get(fault) === 0);
  }
}
