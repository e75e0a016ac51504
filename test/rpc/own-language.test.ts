/**
 * Endpoints that refuse in words that no list contains: their meaning is inferred from probes. A virtual clock makes
 * the ten seconds of probing instant.
 */
import { describe, expect, test } from "bun:test";
import { Budget } from "../../src/core/budget.ts";
import { PrunedStateDetector } from "../../src/rpc/endpoint/pruned-state.ts";
import { classifyHttpStatus, classifyRpcError, RpcError } from "../../src/rpc/rpc-errors.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

const WORDS = "nuqneH";
const hex = (value: number) => `0x${value.toString(16)}`;
const ADDRESS = `0x${"a".repeat(40)}`;

function world() {
  const scheduler = new Scheduler(1);
  const clock = new ProcessClock(scheduler);
  const settle = async <T>(promise: Promise<T>): Promise<T> => {
    let done = false;
    promise.finally(() => (done = true)).catch(() => undefined);
    while (!done) {
      if (!(await scheduler.step())) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    return promise;
  };
  return { scheduler, clock, settle };
}

/** A node at block 1,000 that has the state of its newest blocks and refuses older state in its own words. */
function node({ kept = 128, refusal = { code: -32_000, message: WORDS } as unknown } = {}) {
  const { scheduler, clock, settle } = world();
  const asked: string[] = [];
  const self = { kept, isMoody: false, isDown: false };
  const oldState = new PrunedStateDetector({
    label: "eth#1",
    clock,
    ask: async (method, params) => {
      const tag = params[1] as string | undefined;
      Budget.spend([method]);
      asked.push(tag === undefined ? method : `${method} ${tag}`);
      await clock.sleep(5);
      if (self.isDown) throw new RpcError("transient", "down", { meta: {} });
      const isOld = tag !== undefined && tag !== "latest" && Number(tag) <= 1_000 - self.kept;
      const isMood = self.isMoody && method !== "eth_getBalance";
      if (isOld || isMood) {
        throw refusal instanceof RpcError ? refusal : classifyRpcError(refusal, method, { endpoint: "eth#1" });
      }
      return method === "eth_blockNumber" ? hex(1_000) : "0x";
    },
  });
  const code = (block: number) => settle(oldState.request("eth_getCode", [ADDRESS, hex(block)]));
  const failure = (block: number) =>
    code(block).then(
      () => undefined,
      (error: RpcError) => error,
    );
  return { self, asked, code, failure, clock, settle, scheduler, oldState };
}

describe("old state", () => {
  test.each([
    ["words", { code: -32_000, message: WORDS }],
    ["a text", WORDS],
    ["a status of HTTP", classifyHttpStatus(403, null, {})],
  ])(
    "is known to be missing after refusals in %s for an old block, three times over ten seconds",
    async (_how, refusal) => {
      const { failure, code, asked, scheduler } = node({ refusal });
      expect((await failure(10))?.kind).toBe("state_unavailable");
      expect(scheduler.time).toBeGreaterThanOrEqual(10_000);
      expect(asked.filter((call) => call === `eth_getBalance ${hex(10)}`)).toHaveLength(3);
      expect(await code(990)).toBe("0x");
      // The finding is remembered: no new probe for the same block or an older one.
      const before = asked.length;
      expect((await failure(9))?.kind).toBe("state_unavailable");
      expect(asked.length).toBe(before);
      // A newer block without state needs one probe.
      const then = scheduler.time;
      expect((await failure(500))?.kind).toBe("state_unavailable");
      expect(scheduler.time - then).toBeLessThan(1_000);
    },
  );

  test("probes the finding again after five minutes, and drops it if it no longer holds", async () => {
    const { failure, code, asked, clock, settle, self, scheduler } = node();
    await failure(10);
    await settle(clock.sleep(300_000));
    const [before, then] = [asked.length, scheduler.time];
    expect((await failure(10))?.kind).toBe("state_unavailable");
    expect(asked.length - before).toBe(4);
    expect(scheduler.time - then).toBeLessThan(1_000);
    await settle(clock.sleep(300_000));
    self.kept = 1_001;
    expect(await code(10)).toBe("0x");
    self.kept = 128;
    const again = scheduler.time;
    expect((await failure(10))?.kind).toBe("state_unavailable");
    expect(scheduler.time - again).toBeGreaterThanOrEqual(10_000);
  });

  test("probes once for many calls of one event-loop turn", async () => {
    const { oldState, settle, asked } = node();
    const calls = [3, 1, 2].map((block) => oldState.request("eth_getCode", [ADDRESS, hex(block)]));
    const kinds = (await settle(Promise.allSettled(calls))).map(
      (outcome) => outcome.status === "rejected" && (outcome.reason as RpcError).kind,
    );
    expect(kinds).toEqual(["state_unavailable", "state_unavailable", "state_unavailable"]);
    expect(asked.filter((call) => call.startsWith("eth_getBalance 0x"))).toHaveLength(3);
  });

  test("is found out for all questions that wait, also when the first one of them ends", async () => {
    const { oldState, settle, asked } = node();
    const leaving = new AbortController();
    const ask = () => oldState.request("eth_getCode", [ADDRESS, hex(10)]).catch((error: RpcError) => error.kind);
    const kinds = [new Budget({ signal: leaving.signal }).run(ask), new Budget().run(ask)];
    const isProbed = (async () => {
      while (!asked.includes("eth_blockNumber")) await new Promise(setImmediate);
    })();
    await settle(isProbed);
    leaving.abort();
    expect(await settle(Promise.all(kinds))).toEqual(["state_unavailable", "state_unavailable"]);
  });

  test("does not reinterpret a refusal that eth_getBalance does not share, one near the head, or a node that is down", async () => {
    const moody = node({ kept: 2_000 });
    moody.self.isMoody = true;
    expect((await moody.failure(10))?.kind).toBe("transient");
    expect(moody.scheduler.time).toBeLessThan(1_000);
    const young = node({ kept: 10 });
    expect((await young.failure(985))?.kind).toBe("transient");
    const down = node();
    down.self.isDown = true;
    expect((await down.failure(10))?.kind).toBe("transient");
    expect(down.asked).toHaveLength(1);
    const known = node({ refusal: { code: 3, message: "execution reverted" } });
    const call = known.oldState.request("eth_call", [{ to: ADDRESS }, hex(10)]);
    expect(await known.settle(call).catch((error: RpcError) => error.kind)).toBe("revert");
  });

  test("recognises go-ethereum's own words without a probe", () => {
    const refusal = { code: -32_000, message: "not supported" };
    for (const method of ["eth_call", "eth_getCode", "eth_getBalance", "eth_getTransactionCount"]) {
      expect(classifyRpcError(refusal, method, {}).kind).toBe("state_unavailable");
    }
    expect(classifyRpcError(refusal, "eth_getBlockReceipts", {}).kind).not.toBe("state_unavailable");
  });
});
