/** The endpoint pool on a virtual clock: choice of endpoints, rests, load per endpoint, and hedged requests. */
import { describe, expect, test } from "bun:test";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { Endpoint } from "../../src/rpc/port.ts";
import { classifyHttpStatus, RpcError } from "../../src/rpc/rpc-errors.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

function world(count: number) {
  const scheduler = new Scheduler(1);
  const clock = new ProcessClock(scheduler);
  const endpoint = (index: number): Endpoint => ({
    label: `eth#${index + 1}`,
    request: () => Promise.reject(new Error("this endpoint is never called for requests")),
    transfers: () => Promise.reject(new Error("this endpoint is never called for transfers")),
    destroy: () => undefined,
  });
  const endpoints = Array.from({ length: count }, (_, index) => endpoint(index));
  const hedges: number[] = [];
  const pool = new EndpointPool({ chain: "eth", endpoints, clock, onHedge: () => hedges.push(scheduler.time) });
  /** Runs the clock until the promise settles. */
  const settle = async <T>(promise: Promise<T>): Promise<T> => {
    let done = false;
    promise.finally(() => (done = true)).catch(() => undefined);
    while (!done) {
      // Work that just began may not have reached its first wait yet.
      if (!(await scheduler.step())) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    return promise;
  };
  return { scheduler, clock, pool, endpoints, hedges, settle };
}

describe("failover", () => {
  test("goes to another endpoint at once, and stays there while that one does not fail", async () => {
    const { pool, endpoints, settle, scheduler, clock } = world(2);
    const asked: string[] = [];
    const once = () =>
      pool.run(async ({ label }) => {
        asked.push(label);
        if (label === "eth#1" && scheduler.time < 400) throw new RpcError("transient", "down");
        return label;
      });
    expect(await settle(once())).toBe("eth#2");
    expect(asked).toEqual(["eth#1", "eth#2"]);
    await settle(clock.sleep(60_000));
    // The failed endpoint has rested, but the other one has not failed since, so it stays preferred.
    expect(await settle(once())).toBe("eth#2");
    expect(endpoints).toHaveLength(2);
  });

  test("waits for the Retry-After of the only endpoint", async () => {
    const { pool, settle, scheduler } = world(1);
    let calls = 0;
    const answer = pool.run(async () => {
      if (++calls === 1) throw classifyHttpStatus(429, "7", {});
      return scheduler.time;
    });
    expect(await settle(answer)).toBeGreaterThanOrEqual(7_000);
    expect(calls).toBe(2);
  });

  test("applies a Retry-After to later requests as well, and fails instead of waiting for a long one", async () => {
    const { pool, settle, scheduler } = world(1);
    let hint = "5";
    const refused = () => pool.run(() => Promise.reject(classifyHttpStatus(429, hint, {})), { attempts: 1 });
    await settle(refused()).catch(() => undefined);
    expect(await settle(pool.run(async () => scheduler.time))).toBeGreaterThanOrEqual(5_000);
    hint = "500";
    await settle(refused()).catch(() => undefined);
    const before = scheduler.time;
    const failed = settle(pool.run(async () => "asked")).catch((error: unknown) => error);
    expect(await failed).toMatchObject({ code: "chain_unavailable", retryable: true });
    expect(scheduler.time - before).toBeLessThan(10_000);
  });

  test("fails instead of waiting for a long Retry-After, or uses another endpoint that is back earlier", async () => {
    const alone = world(1);
    const refused = alone.pool.run(() => Promise.reject(classifyHttpStatus(429, "500", {})));
    expect(await alone.settle(refused).catch((error: unknown) => error)).toMatchObject({ code: "chain_unavailable" });
    expect(alone.scheduler.time).toBeLessThan(10_000);
    const { pool, settle, scheduler } = world(2);
    const asked: string[] = [];
    const answer = pool.run(async ({ label }) => {
      asked.push(label);
      if (label === "eth#2") throw classifyHttpStatus(429, "500", {});
      if (asked.length === 1) throw new RpcError("transient", "the connection was lost");
      return label;
    });
    expect(await settle(answer)).toBe("eth#1");
    expect(asked).toEqual(["eth#1", "eth#2", "eth#1"]);
    expect(scheduler.time).toBeLessThan(10_000);
  });

  test("respects a Retry-After although an earlier request is answered meanwhile, and uses the other endpoint", async () => {
    const { pool, settle, clock, scheduler } = world(2);
    const answer = pool.run(async ({ label }) => clock.sleep(500).then(() => label));
    const refused = pool.run(async ({ label }) => {
      if (label === "eth#1") throw classifyHttpStatus(429, "60", {});
      return clock.sleep(700).then(() => label);
    });
    expect(await settle(Promise.all([answer, refused]))).toEqual(["eth#1", "eth#2"]);
    expect(await settle(pool.run(async ({ label }) => label))).toBe("eth#2");
    expect(await settle(pool.bulk(async ({ label }) => label, 1))).toBe("eth#2");
    expect(scheduler.time).toBeLessThan(5_000);
  });

  test("counts simultaneous failures of many requests as one failure", async () => {
    const { pool, settle, clock, scheduler } = world(2);
    const ask = async ({ label }: Endpoint) => {
      await clock.sleep(label === "eth#1" ? 10 : 50);
      if (label === "eth#1" && scheduler.time < 100) throw new RpcError("transient", "the connection was lost");
      return label;
    };
    await settle(Promise.all(Array.from({ length: 16 }, () => pool.run(ask))));
    await settle(clock.sleep(1_000));
    const everybody = await settle(pool.askAll(ask));
    expect(everybody.map(({ value }) => value)).toEqual(["eth#1", "eth#2"]);
  });

  test("rests an endpoint that lied for minutes, whatever it answers afterwards", async () => {
    const { pool, settle, clock } = world(2);
    const [first, second] = pool.endpoints as [Endpoint, Endpoint];
    pool.benchLiar(first, "wrong logs");
    await settle(clock.sleep(200_000));
    expect(await settle(pool.run(async ({ label }) => label))).toBe(second.label);
    expect(pool.secondEndpoint(second)).toBeUndefined();
    await settle(clock.sleep(200_000));
    expect(pool.secondEndpoint(second)).toBe(first);
  });

  test("does not end the rest for a lie when an earlier request is answered", async () => {
    const { pool, settle, clock } = world(2);
    const [first, second] = pool.endpoints as [Endpoint, Endpoint];
    const answer = pool.run(async ({ label }) => clock.sleep(500).then(() => label));
    pool.benchLiar(first, "wrong logs");
    expect(await settle(answer)).toBe(first.label);
    expect(pool.secondEndpoint(second)).toBeUndefined();
  });

  test("skips a lagging endpoint until it has caught up, which does not end a rest for a lie", async () => {
    const { pool, settle } = world(3);
    const [first, second, third] = pool.endpoints as [Endpoint, Endpoint, Endpoint];
    const next = () => settle(pool.run(async (endpoint) => endpoint));
    pool.setBehind(first, true);
    expect(await next()).toBe(second);
    pool.setBehind(first, false);
    expect(await next()).toBe(first);
    pool.benchLiar(first, "wrong logs");
    pool.setBehind(first, true);
    pool.setBehind(first, false);
    pool.setBehind(second, true);
    expect(await next()).toBe(third);
  });

  test("waits in a call to all endpoints for no silent or failing one, and includes one that rests for a lie", async () => {
    const { pool, settle, clock, scheduler } = world(4);
    const [liar] = pool.endpoints as [Endpoint];
    pool.benchLiar(liar, "wrong logs");
    const said = await settle(
      pool.askAll(async ({ label }) => {
        await clock.sleep(label === "eth#2" ? 60_000 : 10);
        if (label === "eth#3") throw new RpcError("transient", "down");
        return label;
      }),
    );
    expect(said.map(({ value }) => value)).toEqual(["eth#1", "eth#4"]);
    expect(scheduler.time).toBeLessThan(5_000);
  });

  test("reports chain and attempts in a retryable error if no endpoint answers", async () => {
    const { pool, settle } = world(2);
    const failed = settle(
      pool.run(() => Promise.reject(new RpcError("transient", "down")), { meta: { fromBlock: 7 } }),
    );
    expect(await failed.catch((error: unknown) => error)).toMatchObject({
      code: "chain_unavailable",
      retryable: true,
      meta: { chain: "eth", attempts: 4, fromBlock: 7 },
    });
  });
});

describe("the availability of an endpoint", () => {
  test("names the reason of its rest and the rest's end", async () => {
    const { pool, endpoints, settle, clock } = world(2);
    const [first] = endpoints as [Endpoint];
    expect(pool.status()).toMatchObject([
      { label: "eth#1", restsMs: 0 },
      { label: "eth#2", restsMs: 0 },
    ]);
    const fail = (error: RpcError) => settle(pool.runOn(first, () => Promise.reject(error))).catch(() => undefined);
    // Two attempts each, and three failures in a row are told.
    for (let time = 0; time < 2; time++) await fail(new RpcError("transient", "down"));
    expect(pool.status()[0]).toMatchObject({ state: "failed", reason: "down" });
    expect(pool.status()[0]?.restsMs).toBeGreaterThan(0);
    await settle(clock.sleep(60_000));
    expect(pool.status()[0]?.restsMs).toBe(0);
    const before = clock.monotonic();
    await fail(classifyHttpStatus(429, "60", {}));
    expect(pool.status()[0]).toMatchObject({ state: "paused" });
    pool.setBehind(first, true);
    // The rest that ends last is shown.
    expect(pool.status()[0]).toMatchObject({ state: "paused" });
    expect(clock.monotonic() + (pool.status()[0]?.restsMs ?? 0)).toBeGreaterThanOrEqual(before + 60_000);
    pool.benchLiar(first, "wrong logs");
    expect(pool.status()[0]).toMatchObject({ state: "lied", reason: "wrong logs", restsMs: 300_000 });
  });

  test("is not restored by a newer block after a wrong answer", () => {
    const { pool, endpoints } = world(1);
    const [only] = endpoints as [Endpoint];
    pool.setBehind(only, true);
    expect(pool.status()).toMatchObject([{ state: "behind" }]);
    pool.benchLiar(only, "wrong logs");
    pool.setBehind(only, true);
    pool.setBehind(only, false);
    expect(pool.status()).toMatchObject([{ state: "lied" }]);
  });
});

describe("a refusal that only concerns one endpoint", () => {
  const lacking = () => new RpcError("state_unavailable", "missing trie node");

  test("sends the request to the others and retries their passing failures", async () => {
    const { pool, settle } = world(2);
    const asked: string[] = [];
    const once = () =>
      pool.run(async ({ label }) => {
        asked.push(label);
        if (label === "eth#1") throw lacking();
        if (asked.length === 2) throw new RpcError("transient", "the endpoint answered HTTP 502");
        return label;
      });
    expect(await settle(once())).toBe("eth#2");
    // The endpoint doesn't get the same request twice.
    expect(asked).toEqual(["eth#1", "eth#2", "eth#2"]);
  });

  test("is final if the other endpoint is down, lied or lags, and hardly costs it requests", async () => {
    for (const state of ["down", "lying", "behind"]) {
      const { pool, endpoints, settle } = world(2);
      const [, other] = endpoints as [Endpoint, Endpoint];
      if (state === "lying") pool.benchLiar(other, "wrong logs");
      if (state === "behind") pool.setBehind(other, true);
      let asked = 0;
      for (let question = 0; question < 25; question++) {
        const refused = pool.run(async ({ label }) => {
          if (label === "eth#1") throw lacking();
          asked++;
          if (state === "down") throw new RpcError("transient", "no connection");
        });
        const failure = await settle(refused.catch((error: unknown) => error));
        expect([state, failure]).toMatchObject([state, { kind: "state_unavailable" }]);
      }
      expect(asked).toBeLessThan(state === "down" ? 12 : 1);
    }
  });

  test("gives way to another endpoint's refusal of the range size", async () => {
    for (const failover of ["lacking", "any"] as const) {
      const { pool, settle } = world(2);
      const failed = pool.run(
        async ({ label }) => {
          if (label === "eth#1") throw new RpcError("unsupported", "no such method");
          throw new RpcError("range", "too large");
        },
        { failover },
      );
      expect(await settle(failed.catch((error: unknown) => error))).toMatchObject({ kind: "range" });
    }
  });

  test("is thrown at once if all endpoints have refused", async () => {
    const { pool, settle, scheduler } = world(3);
    let asked = 0;
    const failed = pool.run(async () => {
      asked++;
      throw lacking();
    });
    expect(await settle(failed.catch((error: unknown) => error))).toMatchObject({ kind: "state_unavailable" });
    expect([asked, scheduler.time]).toEqual([3, 0]);
  });
});

describe("a slow request", () => {
  test("is sent to another endpoint as well, and the first answer counts", async () => {
    const { pool, settle, clock, hedges, scheduler } = world(2);
    const abandoned: string[] = [];
    const answer = pool.run(async ({ label }, signal) => {
      signal.addEventListener("abort", () => abandoned.push(label), { once: true });
      await clock.sleep(label === "eth#1" ? 20_000 : 50, signal);
      return label;
    });
    expect(await settle(answer)).toBe("eth#2");
    expect(hedges).toEqual([1_000]);
    expect(scheduler.time).toBeLessThan(1_100);
    expect(abandoned).toContain("eth#1");
  });

  test("is waited for if there is no other endpoint", async () => {
    const { pool, settle, clock, hedges } = world(1);
    expect(await settle(pool.run(async ({ label }) => clock.sleep(20_000).then(() => label)))).toBe("eth#1");
    expect(hedges).toEqual([]);
  });
});

describe("bulk reading", () => {
  test("limits concurrent requests per endpoint, raises the limit on success and halves it on a refusal", async () => {
    const { pool, settle, clock } = world(1);
    let [now, most, isBusy] = [0, 0, false];
    const one = () =>
      pool.bulk(
        async () => {
          now++;
          most = Math.max(most, now);
          await clock.sleep(100);
          now--;
          if (isBusy) throw classifyHttpStatus(429, null, {});
          return true;
        },
        10,
        { attempts: 1 },
      );
    const round = async (count: number) => {
      most = 0;
      await settle(Promise.allSettled(Array.from({ length: count }, one)));
      return most;
    };
    expect(await round(20)).toBeGreaterThanOrEqual(4);
    for (let i = 0; i < 10; i++) await round(40);
    expect(await round(64)).toBe(16);
    isBusy = true;
    await round(4);
    isBusy = false;
    await settle(clock.sleep(120_000));
    expect(await round(3)).toBeLessThan(3);
  });

  test("learns each endpoint's range, follows a hint, and halves the range if the hint fails too", async () => {
    const { pool, settle } = world(1);
    const asked: number[] = [];
    const read = (limit: number, hint: number | undefined) =>
      pool.bulk(async (_endpoint, span) => {
        asked.push(span);
        if (span > limit) throw new RpcError("range", "too large", hint === undefined ? {} : { hint: { size: hint } });
        return span;
      }, 100_000);
    expect(await settle(read(700, 700))).toBe(700);
    expect(asked).toEqual([1_000, 700]);
    asked.length = 0;
    // The limit is lower than the hint now, so the range halves from there.
    expect(await settle(read(200, 700))).toBe(175);
    expect(asked).toEqual([700, 350, 175]);
    expect(pool.nextBulkSpan()).toBe(175);
  });

  test("reads history that one endpoint has pruned from the other, in ranges of the other's size", async () => {
    for (const kind of ["range", "state_unavailable"] as const) {
      const { pool, settle } = world(2);
      const asked = { "eth#1": 0, "eth#2": 0 };
      let next = 0;
      while (next < 1_000_000) {
        const blocks = Math.min(1_000_000 - next, pool.nextBulkSpan());
        const read = pool.bulk(async (endpoint, span) => {
          asked[endpoint.label as keyof typeof asked]++;
          if (endpoint.label === "eth#1") throw new RpcError(kind, "pruned");
          if (span > 5_000) throw new RpcError("range", "too large", { hint: { size: 5_000 } });
          pool.recordHistory(endpoint, span, 0);
          return span;
        }, blocks);
        next += await settle(read);
      }
      expect(asked["eth#1"]).toBeLessThanOrEqual(15);
      expect(asked["eth#2"]).toBeLessThan(230);
    }
  });

  test("does not reduce an endpoint's load because of one block that is too large for it", async () => {
    const { pool, settle } = world(2);
    const served = { "eth#1": 0, "eth#2": 0 };
    for (let block = 0; block < 40; block++) {
      const read = pool.bulk(async (endpoint, span) => {
        if (endpoint.label === "eth#1" && block === 7) throw new RpcError("range", "more than 10000 results");
        pool.recordHistory(endpoint, span, 5_000);
        served[endpoint.label as keyof typeof served]++;
        return span;
      }, 1);
      await settle(read);
    }
    expect(served).toEqual({ "eth#1": 39, "eth#2": 1 });
  });

  test("uses free capacity of an endpoint although the first waiting request was refused there", async () => {
    const { pool, settle, clock, scheduler } = world(2);
    const ends: number[] = [];
    /** The fast endpoint refuses the first twelve, which then fill the slow one. It could serve the others. */
    const read = (isRefused: boolean) =>
      pool
        .bulk(async ({ label }) => {
          await clock.sleep(label === "eth#1" ? 100 : 5_000);
          if (label === "eth#1" && isRefused) throw new RpcError("unsupported", "no");
        }, 1)
        .then(() => ends.push(scheduler.time));
    const all = Array.from({ length: 24 }, (_, i) => read(i < 12));
    await settle(Promise.all(all));
    expect(ends.filter((time) => time < 5_000).length).toBe(12);
  });

  test("passes the refusal of a single block to the caller, which can split it", async () => {
    const { pool, settle } = world(1);
    const failed = settle(pool.bulk(() => Promise.reject(new RpcError("range", "too large")), 8));
    expect(await failed.catch((error: unknown) => error)).toMatchObject({ kind: "range" });
  });

  test("abandons the other parts of an attempt when one part fails, with one endpoint as well", async () => {
    for (const endpoints of [1, 2]) {
      const { pool, settle, clock } = world(endpoints);
      let [attempts, abandoned] = [0, 0];
      const answer = pool.bulk(async (_endpoint, _span, signal) => {
        if (++attempts > 1) return "again";
        const logs = clock.sleep(60_000, signal).catch((error: unknown) => {
          abandoned++;
          throw error;
        });
        return (await Promise.all([logs, Promise.reject(new RpcError("transient", "no header"))])).join();
      }, 1);
      expect(await settle(answer)).toBe("again");
      expect([attempts, abandoned]).toEqual([2, 1]);
    }
  });

  test("passes the capacity of an aborted request to the next", async () => {
    const { pool, settle, clock } = world(1);
    const abort = new AbortController();
    const long = () => pool.bulk(() => clock.sleep(1_000).then(() => true), 1);
    const running = Array.from({ length: 4 }, long);
    const aborted = pool.bulk(async () => true, 1, { signal: abort.signal });
    const last = pool.bulk(async () => "last", 1);
    aborted.catch(() => undefined);
    abort.abort(new Error("stopped"));
    expect(await settle(last)).toBe("last");
    await settle(Promise.all(running));
    expect(await aborted.catch((error: Error) => error.message)).toBe("stopped");
  });
});

test("is unreachable once all its endpoints have failed for a minute, until one answers", async () => {
  const { pool, clock, settle } = world(2);
  const fail = () => settle(pool.run(() => Promise.reject(new RpcError("transient", "down")))).catch(() => undefined);
  expect(pool.trouble()).toBeUndefined();
  await fail();
  await fail();
  expect(pool.trouble()).toBeUndefined();
  await settle(clock.sleep(60_000));
  await fail();
  expect(pool.trouble()).toBe("unreachable");
  await settle(clock.sleep(60_000));
  await settle(pool.run(async () => 1));
  expect(pool.trouble()).toBeUndefined();
});
