/**
 * What endpoints and keys were used for in the last hour and day, over all processes and restarts: each process records
 * its counts in the log every few minutes and when it stops. In: the counts of this process. Out: bills by label of an
 * endpoint, and by name of a key.
 */
import { type PriceList, unitsOf } from "../chains/price-lists.ts";
import { Budget } from "../core/budget.ts";
import type { Clock } from "../core/clock.ts";
import { isAbort } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { type CallCounts, type Recorded, type UsageEvent, type UsageRecorded, usageStream } from "../events/types.ts";
import { appendWithRetry, type EventLog } from "../log/event-log.ts";
import type { KeyCost } from "./models.ts";

export interface Bill {
  /** Calls by method. */
  readonly calls: Readonly<Record<string, number>>;
  readonly units: number;
  /** Bytes received. Those of a key are estimated where several answers share a batch. */
  readonly bytes: number;
}

/** Counts of the last 60 minutes and of the last 24 hours. */
export interface HourAndDayBill {
  readonly hour: Bill;
  readonly day: Bill;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** A process that is killed loses this much of its counts. At 500 bytes an event, a replica writes 150 KB a day. */
const RECORD_EVERY_MS = 5 * MINUTE_MS;
/** Events per backward read at the start: five hours of one process. */
const PAGE = 64;
const ATTEMPTS = 8;
/** Three thirds of a call are a little less than one. */
const ROUNDING = 1e-6;

interface Bucket {
  /** Number of the bucket's time slice since 1970. */
  slice: number;
  readonly calls: Map<string, number>;
  bytes: number;
}

/** Counts over a sliding time, in slices. */
class SlidingCounts {
  readonly #sliceMs: number;
  readonly #buckets: Bucket[];

  constructor(sliceMs: number, slices: number) {
    this.#sliceMs = sliceMs;
    this.#buckets = Array.from({ length: slices }, () => ({ slice: -1, calls: new Map(), bytes: 0 }));
  }

  add(time: number, { calls, bytes }: CallCounts): void {
    const slice = Math.floor(time / this.#sliceMs);
    const bucket = this.#buckets[slice % this.#buckets.length] as Bucket;
    if (bucket.slice > slice) return;
    if (bucket.slice < slice) {
      bucket.slice = slice;
      bucket.calls.clear();
      bucket.bytes = 0;
    }
    bucket.bytes += bytes;
    for (const [method, count] of Object.entries(calls))
      bucket.calls.set(method, (bucket.calls.get(method) ?? 0) + count);
  }

  /** The counts up to `now`, with those that are not recorded yet. */
  total(now: number, pending: CallCounts, prices: PriceList): Bill {
    const oldest = Math.floor(now / this.#sliceMs) - this.#buckets.length;
    const calls: Record<string, number> = { ...pending.calls };
    let { bytes } = pending;
    for (const bucket of this.#buckets) {
      if (bucket.slice <= oldest) continue;
      bytes += bucket.bytes;
      for (const [method, count] of bucket.calls) calls[method] = (calls[method] ?? 0) + count;
    }
    const units = Object.entries(calls).reduce((sum, [method, count]) => sum + count * unitsOf(prices, method), 0);
    return { calls, units, bytes };
  }
}

/** The recorded counts of one endpoint or key. */
class Account {
  readonly #hour = new SlidingCounts(MINUTE_MS, 60);
  readonly #day = new SlidingCounts(HOUR_MS, 24);

  add(time: number, usage: CallCounts): void {
    this.#hour.add(time, usage);
    this.#day.add(time, usage);
  }

  bill(now: number, pending: CallCounts, prices: PriceList): HourAndDayBill {
    return { hour: this.#hour.total(now, pending, prices), day: this.#day.total(now, pending, prices) };
  }
}

const NOTHING: CallCounts = { calls: {}, bytes: 0 };

/** `counted` without `recorded`; undefined if nothing is left. */
function without(counted: CallCounts, recorded: CallCounts = NOTHING): CallCounts | undefined {
  const rest = Object.entries(counted.calls)
    .map(([method, count]) => [method, count - (recorded.calls[method] ?? 0)] as const)
    .filter(([, count]) => count > 0);
  const bytes = counted.bytes - recorded.bytes;
  return rest.length === 0 && bytes <= 0 ? undefined : { calls: Object.fromEntries(rest), bytes };
}

interface BillsOptions {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly prices: PriceList;
  /** Id of this process. */
  readonly instance: string;
  /** What this process used each endpoint for since its start, by label. */
  readonly endpoints: () => ReadonlyMap<string, CallCounts>;
}

const KINDS = ["endpoints", "keys"] as const;
type Kind = (typeof KINDS)[number];
type Counts = { readonly [K in Kind]: ReadonlyMap<string, CallCounts> };

export class Bills {
  readonly #options: BillsOptions;
  /** Accounts of the calls of keys in this process. */
  readonly #spending = new Map<string, Budget>();
  readonly #accounts = { endpoints: new Map<string, Account>(), keys: new Map<string, Account>() };
  /** The part of this process's counts that the log has. */
  readonly #recorded = { endpoints: new Map<string, CallCounts>(), keys: new Map<string, CallCounts>() };
  /** Counts of this process that are being appended. */
  #appending: Counts | undefined;
  #version = 0;
  #reading: Promise<void> = Promise.resolve();
  readonly #unsubscribe: () => void;

  constructor(options: BillsOptions) {
    this.#options = options;
    this.#unsubscribe = options.log.subscribe((stream, version) => {
      if (stream !== usageStream || version <= this.#version) return;
      this.#read().catch((error: unknown) => options.logger.debug({ err: error }, "the bill could not be read"));
    });
  }

  /** Reads the last day. @throws AppError if the log does not answer */
  async begin(): Promise<void> {
    const { log, clock } = this.#options;
    const newest = (await log.head(usageStream)).version;
    for (let before = newest + 1; before > 1; ) {
      const page = (await log.readBackwards(usageStream, { before, limit: PAGE })) as Recorded<UsageEvent>[];
      for (const recorded of page) this.#add(recorded);
      const last = page.at(-1);
      if (last === undefined || last.time < clock.now() - DAY_MS) break;
      before = last.version;
    }
    this.#version = Math.max(this.#version, newest);
  }

  /** Records the counts of this process until the signal aborts. The last ones are recorded by `close`. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    while (!signal.aborted) {
      await clock.sleep(RECORD_EVERY_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      await this.record().catch((error: unknown) => {
        if (!isAbort(error)) logger.warn({ err: error }, "the bill could not be recorded; it is tried again");
      });
    }
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    await this.record().catch((error: unknown) => {
      this.#options.logger.debug({ err: error }, "the last counts of the bill could not be recorded");
    });
  }

  /** The account of a key's calls. Work that runs on it counts for the key. */
  account(key: string): Budget {
    return this.#spending.getOrInsertComputed(key, () => new Budget());
  }

  endpoint(label: string): HourAndDayBill {
    return this.#bill("endpoints", label);
  }

  key(name: string): HourAndDayBill {
    return this.#bill("keys", name);
  }

  /** What a key has cost. */
  costOf(name: string): KeyCost {
    const { hour, day } = this.key(name);
    const both = (figure: "units" | "bytes") => ({ hour: hour[figure], day: day[figure] });
    const count = ({ calls }: Bill) => Object.values(calls).reduce((sum, one) => sum + one, 0);
    const threadMs = Math.round(this.#spending.get(name)?.ms ?? 0);
    return { calls: { hour: count(hour), day: count(day) }, units: both("units"), bytes: both("bytes"), threadMs };
  }

  #bill(kind: Kind, name: string): HourAndDayBill {
    const { clock, prices } = this.#options;
    const account = this.#accounts[kind].get(name) ?? new Account();
    const counted = this.#counted()[kind].get(name);
    const pending = counted && without(counted, this.#recorded[kind].get(name));
    return account.bill(clock.now(), pending ?? NOTHING, prices);
  }

  /** Everything that this process counted since its start. */
  #counted(): Counts {
    const keys = new Map<string, CallCounts>();
    for (const [name, { calls, bytes }] of this.#spending) {
      // The service's own work is in the endpoints' bills.
      if (name === "") continue;
      // Keys share calls, and the log takes whole numbers. A part counts once it makes a whole call with other parts.
      const whole = [...calls].map(([method, count]) => [method, Math.floor(count + ROUNDING)] as const);
      keys.set(name, { calls: Object.fromEntries(whole), bytes: Math.floor(bytes + ROUNDING) });
    }
    return { endpoints: this.#options.endpoints(), keys };
  }

  /** Appends the counts since the last append, if there are any. @throws AppError if the log takes no appends */
  async record(): Promise<void> {
    const { log, instance } = this.#options;
    const counted = this.#counted();
    const newIn = (kind: Kind): Readonly<Record<string, CallCounts>> =>
      Object.fromEntries(
        [...counted[kind]].flatMap(([name, usage]) => {
          const rest = without(usage, this.#recorded[kind].get(name));
          return rest === undefined ? [] : [[name, rest]];
        }),
      );
    const event: UsageRecorded = {
      type: "UsageRecorded",
      instance,
      endpoints: newIn("endpoints"),
      keys: newIn("keys"),
    };
    if (KINDS.every((kind) => Object.keys(event[kind]).length === 0)) return;
    this.#appending = counted;
    try {
      await appendWithRetry(log, ATTEMPTS, async () => {
        await this.#read();
        return { stream: usageStream, expectedVersion: this.#version, events: [event] };
      });
      await this.#read();
    } finally {
      this.#appending = undefined;
    }
  }

  #read(): Promise<void> {
    this.#reading = this.#reading.catch(() => undefined).then(() => this.#readOn());
    return this.#reading;
  }

  async #readOn(): Promise<void> {
    for (;;) {
      const events = await this.#options.log.read(usageStream, { from: this.#version + 1 });
      if (events.length === 0) return;
      for (const recorded of events as Recorded<UsageEvent>[]) {
        this.#version = recorded.version;
        this.#add(recorded);
        // From here on the counts are the log's, and not this process's any more.
        if (recorded.event.instance !== this.#options.instance || this.#appending === undefined) continue;
        for (const kind of KINDS) {
          for (const [name, usage] of this.#appending[kind]) this.#recorded[kind].set(name, usage);
        }
      }
    }
  }

  #add({ event, time }: Recorded<UsageEvent>): void {
    for (const kind of KINDS) {
      for (const [name, usage] of Object.entries(event[kind])) {
        this.#accounts[kind].getOrInsertComputed(name, () => new Account()).add(time, usage);
      }
    }
  }
}
