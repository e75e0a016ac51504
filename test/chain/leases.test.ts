/** Replicas share the chains: simulated processes over one table of leases, in virtual time. */
import { describe, expect, test } from "bun:test";
import { type Lease, Leases } from "../../src/chain/lease.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

/** Milliseconds that an answer of the log takes. */
const ANSWER_MS = 2;

class Fleet {
  readonly scheduler = new Scheduler(1);
  readonly #table = new Map<string, { holder: string; until: number }>();
  readonly #processes = new Map<string, { clock: ProcessClock; stop: AbortController }>();
  handedOver = 0;
  /** Monotonic time since when a chain has no leader, and the longest such time so far. */
  readonly #vacant = new Map<string, number>();
  longestVacancy = 0;

  /** Starts a process that waits for the leases of all chains, and works until it is stopped. */
  start(holder: string, chains: readonly number[]): void {
    const clock = new ProcessClock(this.scheduler);
    const stop = new AbortController();
    this.#processes.set(holder, { clock, stop });
    const observer = { held: () => undefined, lost: () => undefined, handedOver: () => void this.handedOver++ };
    const leases = new Leases({ log: this.#logOf(clock), clock, holder, observer });
    for (const chain of chains) void this.#follow(leases, `follow/${chain}`, stop.signal);
  }

  async #follow(leases: Leases, name: string, signal: AbortSignal): Promise<void> {
    const work = (lease: Lease) => {
      this.longestVacancy = Math.max(this.longestVacancy, this.scheduler.time - (this.#vacant.get(name) ?? 0));
      return new Promise<void>((resolve) => lease.signal.addEventListener("abort", () => resolve()));
    };
    while (!signal.aborted) {
      await leases.run(name, { signal }, work).catch(() => undefined);
      this.#vacant.set(name, this.scheduler.time);
    }
  }

  #logOf(clock: ProcessClock): ConstructorParameters<typeof Leases>[0]["log"] {
    const table = this.#table;
    return {
      acquireLease: async (name, holder, ttlMs) => {
        await clock.sleep(ANSWER_MS);
        const lease = table.get(name);
        if (lease !== undefined && lease.holder !== holder && lease.until > this.scheduler.time) return false;
        table.set(name, { holder, until: this.scheduler.time + ttlMs });
        return true;
      },
      releaseLease: async (name, holder) => {
        await clock.sleep(ANSWER_MS);
        if (table.get(name)?.holder === holder) table.delete(name);
      },
    };
  }

  /** Ends a process as SIGTERM does, or as SIGKILL does. */
  end(holder: string, how: "stop" | "kill"): void {
    const process = this.#processes.get(holder);
    if (how === "kill") process?.clock.kill();
    else process?.stop.abort();
  }

  async run(ms: number): Promise<void> {
    const end = this.scheduler.time + ms;
    // The end is an event, too.
    this.scheduler.after(ms, () => undefined);
    while (this.scheduler.time < end) await this.scheduler.step();
  }

  /** Number of chains that each of the processes leads. */
  shares(...holders: string[]): number[] {
    const now = this.scheduler.time;
    const led = [...this.#table].filter(([name, { until }]) => name.startsWith("follow/") && until > now);
    return holders.map((one) => led.filter(([, { holder }]) => holder === one).length);
  }
}

const CHAINS = [1, 10, 56, 100, 137, 8453];
const MINUTE = 60_000;

describe("the leases of several replicas", () => {
  test("go to the process without any, if one has died or both start", async () => {
    const fleet = new Fleet();
    fleet.start("a", [1, 137]);
    fleet.start("b", [1, 137]);
    await fleet.run(5_000);
    expect(fleet.shares("a", "b")).toEqual([1, 1]);
    fleet.start("c", [1, 137]);
    await fleet.run(5_000);
    fleet.end("a", "kill");
    await fleet.run(6_000);
    expect(fleet.shares("b", "c")).toEqual([1, 1]);
    expect(fleet.handedOver).toBe(0);
  });

  test("are shared with a replica that joins, one a minute, and then stay", async () => {
    const fleet = new Fleet();
    fleet.start("a", CHAINS);
    await fleet.run(10_000);
    expect(fleet.shares("a")).toEqual([CHAINS.length]);
    fleet.start("b", CHAINS);
    fleet.longestVacancy = 0;
    for (let minute = 1; minute <= 6; minute++) {
      await fleet.run(MINUTE);
      expect(fleet.handedOver).toBeLessThanOrEqual(minute + 1);
    }
    expect(fleet.shares("a", "b")).toEqual([3, 3]);
    expect(fleet.longestVacancy).toBeLessThan(3_500);
    expect(fleet.handedOver).toBe(3);
    await fleet.run(30 * MINUTE);
    expect(fleet.shares("a", "b")).toEqual([3, 3]);
    expect(fleet.handedOver).toBe(3);
  });

  test("are balanced after a rolling restart", async () => {
    const fleet = new Fleet();
    for (const holder of ["a", "b", "c"]) fleet.start(holder, CHAINS);
    await fleet.run(10_000);
    for (const holder of ["a", "b", "c"]) {
      fleet.end(holder, "stop");
      await fleet.run(10_000);
      fleet.start(`${holder}2`, CHAINS);
      await fleet.run(10_000);
    }
    await fleet.run(10 * MINUTE);
    expect(fleet.shares("a2", "b2", "c2")).toEqual([2, 2, 2]);
  });

  test("stay where they are if the waiting replica does not know their chains", async () => {
    const fleet = new Fleet();
    fleet.start("a", CHAINS);
    await fleet.run(10_000);
    fleet.start("b", [5]);
    fleet.start("c", CHAINS.slice(0, 1));
    await fleet.run(20 * MINUTE);
    expect(fleet.shares("a", "b", "c")).toEqual([CHAINS.length - 1, 1, 1]);
    expect(fleet.handedOver).toBe(1);
  });
});
