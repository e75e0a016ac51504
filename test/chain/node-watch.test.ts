/** When a process gives a lease up because its node fails, and when it asks again, in virtual time. */
import { beforeEach, describe, expect, test } from "bun:test";
import type { Lease } from "../../src/chain/lease.ts";
import { NodeWatch } from "../../src/chain/node-watch.ts";
import { AppError } from "../../src/core/errors.ts";
import type { BlockHeader } from "../../src/rpc/port.ts";
import { headerOf } from "../support/following.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

/** What the node does with a request: it shows this head, refuses at once, or gives no answer. */
type NodeState = number | "down" | "silent";

const HOLD_OFF = { probeMs: 1_000, maxMs: 15_000, maxDownMs: 60_000 };
const DOWN = new AppError("no endpoint answers", { code: "chain_unavailable", retryable: true });

let scheduler: Scheduler;
let clock: ProcessClock;
let node: NodeState;
let askedHeads: number;
let watch: NodeWatch;

beforeEach(() => {
  scheduler = new Scheduler(1);
  clock = new ProcessClock(scheduler);
  node = 7;
  askedHeads = 0;
  let heardAt = 0;
  const reader = {
    silentMs: () => (node === "silent" ? scheduler.time - heardAt : 0),
    head: async (): Promise<BlockHeader> => {
      askedHeads++;
      await clock.sleep(10);
      if (node === "silent") await clock.sleep(30_000);
      if (typeof node !== "number") throw DOWN;
      heardAt = scheduler.time;
      return headerOf(node);
    },
  };
  watch = new NodeWatch({ reader, clock });
});

/** A lease, and the reason and time of its hand-over. */
function leaseOf(): Lease & { readonly reason: () => string | undefined; readonly at: () => number } {
  const gone = new AbortController();
  let at = 0;
  return {
    signal: gone.signal,
    assertHeld: () => gone.signal.throwIfAborted(),
    handOver: (reason) => {
      at = scheduler.time;
      gone.abort(reason);
    },
    reason: () => gone.signal.reason as string | undefined,
    at: () => at,
  };
}

/** Runs virtual time until the work is over. Returns the ms that it took. */
async function took(work: Promise<unknown>): Promise<number> {
  const began = scheduler.time;
  let isOver = false;
  const ending = work.finally(() => {
    isOver = true;
  });
  while (!isOver && (await scheduler.step()));
  await ending;
  return scheduler.time - began;
}

/** Calls `act` after `ms` ms. */
const later = (ms: number, act: () => void) => void scheduler.after(ms, act);

const holdOff = (options: { stuckAt?: number; isRequested?: () => boolean } = {}) =>
  took(watch.holdOff({ ...HOLD_OFF, ...options, signal: new AbortController().signal }));

/** A turn that ends because the node fails twice. */
function failTurn(isHeadless: boolean): void {
  const lease = leaseOf();
  for (let i = 0; i < 2; i++) watch.failed(DOWN, lease, isHeadless);
  expect(lease.reason()).toBe("the node fails");
}

describe("work under a lease", () => {
  test("keeps the lease while the node answers, however long it takes", async () => {
    const lease = leaseOf();
    await took(watch.whileAnswering(lease, () => clock.sleep(600_000)));
    expect(lease.reason()).toBeUndefined();
  });

  test("hands over four seconds after the node fell silent, and later each time", async () => {
    const times: number[] = [];
    for (let turn = 0; turn < 4; turn++) {
      node = 7;
      await took(clock.sleep(60_000));
      const lease = leaseOf();
      const began = scheduler.time;
      // A silent node answers no request from before, either.
      await took(
        watch.whileAnswering(lease, async () => {
          node = "silent";
          await clock.sleep(50_000);
        }),
      );
      expect(lease.reason()).toBe("no endpoint answers");
      times.push(Math.round((lease.at() - began) / 1_000));
    }
    expect(times).toEqual([4, 8, 16, 16]);
  });

  test("hands over if one piece of work takes too long, although the node shows its head", async () => {
    const lease = leaseOf();
    await took(watch.whileAnswering(lease, () => clock.sleep(100_000), 30_000));
    expect([lease.reason(), lease.at()]).toEqual(["the node hangs", 30_000]);
  });

  test("hands over at the second failure in a row that is the node's", () => {
    const lease = leaseOf();
    watch.failed(DOWN, lease);
    watch.succeeded();
    watch.failed(DOWN, lease);
    watch.failed(new AppError("no answer", { code: "log_unavailable", retryable: true }), lease);
    expect(lease.reason()).toBeUndefined();
    watch.failed(DOWN, lease);
    expect(lease.reason()).toBe("the node fails");
  });
});

describe("the hold-off", () => {
  test("ends as soon as a node that was down answers", async () => {
    failTurn(true);
    node = "down";
    later(20_000, () => {
      node = 7;
    });
    expect(await holdOff()).toBeWithin(20_000, 21_100);
    expect(askedHeads).toBeLessThan(25);
  });

  test("doubles if the node shows its head and fails all the same", async () => {
    const waits: number[] = [];
    for (let turn = 0; turn < 5; turn++) {
      failTurn(false);
      waits.push(Math.round((await holdOff()) / 1_000));
    }
    expect(waits).toEqual([3, 6, 12, 15, 15]);
    watch.succeeded();
    failTurn(false);
    expect(await holdOff()).toBeWithin(3_000, 4_100);
  });

  test("ends when a node that was stuck shows a newer block", async () => {
    watch.handOver(leaseOf(), "the node shows no new block");
    later(1_500, () => {
      node = 8;
    });
    expect(await holdOff({ stuckAt: 7 })).toBeWithin(1_500, 2_600);
  });

  test("ends on a request, but not before another process had its chance", async () => {
    failTurn(false);
    expect(await holdOff({ isRequested: () => true })).toBeWithin(1_100, 2_200);
  });

  test("ends after a while without an answer, for work that needs no node", async () => {
    failTurn(true);
    node = "silent";
    expect(await holdOff()).toBeWithin(60_000, 63_000);
    // A request without an answer is repeated each few seconds only.
    expect(askedHeads).toBeLessThan(15);
  });
});

test("work that holds no lease yet is refused until a node that failed answers", async () => {
  const isUp = async () => {
    let answer: boolean | undefined;
    await took(
      watch.isUp().then((one) => {
        answer = one;
      }),
    );
    return answer;
  };
  expect([await isUp(), askedHeads]).toEqual([true, 0]);
  node = "down";
  watch.failed(DOWN);
  expect([await isUp(), await isUp(), askedHeads]).toEqual([false, false, 1]);
  await took(clock.sleep(1_000));
  node = 8;
  expect([await isUp(), await isUp(), askedHeads]).toEqual([true, true, 2]);
});
