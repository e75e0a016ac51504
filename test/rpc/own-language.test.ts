/**
 * Endpoints that refuse in words that no list has: what they mean is told by what they answer and what not. On a virtual
 * clock, so that ten seconds of looking take none.
 */
import { describe, expect, test } from "bun:test";
import { PrunedStateDetector } from "../../src/rpc/endpoint/pruned-state.ts";
import { classifyHttpStatus, classifyRpcError, RpcError } from "../../src/rpc/rpc-errors.ts";
import { ProcessClock, Scheduler } from "../simulation/scheduler.ts";

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

/** A node at block 1,000 with the state of its newest blocks, which says no to the others in words of its own. */
function node({ kept = 128, refusal = { code: -32_000, message: WORDS } as unknown } = {}) {
  const { scheduler, clock, settle } = world();
  const asked: string[] = [];
  const self = { kept, isMoody: false, isDown: false };
  const oldState = new PrunedStateDetector({
    label: "eth#1",
    clock,
    ask: async (method, params) => {
      const tag = params[1] as string | undefined;
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
  ])("refused in %s at an old block, three times over ten seconds: the node has none", async (_how, refusal) => {
    const { failure, code, asked, scheduler } = node({ refusal });
    expect((await failure(10))?.kind).toBe("state_unavailable");
    expect(scheduler.time).toBeGreaterThanOrEqual(10_000);
    expect(asked.filter((call) => call === `eth_getBalance ${hex(10)}`)).toHaveLength(3);
    expect(await code(990)).toBe("0x");
    // Known: not asked again, for the same block or an older one.
    const before = asked.length;
    expect((await failure(9))?.kind).toBe("state_unavailable");
    expect(asked.length).toBe(before);
    // A newer one that is gone, too, takes one look.
    const then = scheduler.time;
    expect((await failure(500))?.kind).toBe("state_unavailable");
    expect(scheduler.time - then).toBeLessThan(1_000);
  });

  test("what was found is looked at again after five minutes, and dropped where it is no longer so", async () => {
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

  test("many calls of one turn are looked into together", async () => {
    const { oldState, settle, asked } = node();
    const calls = [3, 1, 2].map((block) => oldState.request("eth_getCode", [ADDRESS, hex(block)]));
    const kinds = (await settle(Promise.allSettled(calls))).map(
      (outcome) => outcome.status === "rejected" && (outcome.reason as RpcError).kind,
    );
    expect(kinds).toEqual(["state_unavailable", "state_unavailable", "state_unavailable"]);
    expect(asked.filter((call) => call.startsWith("eth_getBalance 0x"))).toHaveLength(3);
  });

  test("a refusal that the balance does not share, one near the head and a node that is down are as before", async () => {
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

  test("go-ethereum's own words are known without a look", () => {
    const refusal = { code: -32_000, message: "not supported" };
    for (const method of ["eth_call", "eth_getCode", "eth_getBalance", "eth_getTransactionCount"]) {
      expect(classifyRpcError(refusal, method, {}).kind).toBe("state_unavailable");
    }
    expect(classifyRpcError(refusal, "eth_getBlockReceipts", {}).kind).not.toBe("state_unavailable");
  });
});
