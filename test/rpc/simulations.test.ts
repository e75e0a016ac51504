/** Simulated transactions: which endpoints they go to, by how each of them behaves, and how answers are read. */
import { expect, test } from "bun:test";
import type { Address } from "../../src/core/hex.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { Endpoint, SimulatedBlock } from "../../src/rpc/port.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { classifyHttpStatus, classifyRpcError, RpcError } from "../../src/rpc/rpc-errors.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

const ADDRESS = `0x${"a".repeat(40)}` as Address;
const METHOD = "eth_simulateV1";
const transaction = { from: ADDRESS, to: ADDRESS, data: "0x01", gas: 100_000 };
const BLOCKS: readonly SimulatedBlock[] = [
  { number: 8, timestamp: 100, accounts: { [ADDRESS]: { balance: 5n } }, transactions: [transaction] },
  { number: 9, timestamp: 112, transactions: [transaction] },
];
const OUTCOMES = [
  { ok: true, data: "0x07" },
  { ok: false, data: "0x08c379a0" },
];

type Answer = (method: string, params: readonly unknown[]) => unknown;
const refused = (error: unknown) => classifyRpcError(error, METHOD, {});

/** Runs the simulations, with revert data where `revert` puts them. */
const running =
  (revert: Record<string, unknown>, filler: readonly unknown[] = []): Answer =>
  (method, [body]) => {
    if (method !== METHOD) return "0x";
    const { blockStateCalls } = body as { blockStateCalls: unknown[] };
    const first = { calls: [{ status: "0x1", returnData: "0x07", gasUsed: "0x1", logs: [] }] };
    return blockStateCalls.length === 1 ? [first] : [first, ...filler, { calls: [{ status: "0x0", ...revert }] }];
  };
const refusing =
  (error: unknown): Answer =>
  (method) =>
    method === METHOD ? error : "0x";

/** A chain with these endpoints. */
function world(...answers: Answer[]) {
  const clock = new ProcessClock(new Scheduler(1));
  const asked: string[] = [];
  const endpoints = answers.map(
    (answer, index): Endpoint => ({
      label: `eth#${index + 1}`,
      async request(method, params) {
        if (method === METHOD) asked.push(this.label);
        const given = answer(method, params);
        if (given instanceof Error) throw given;
        return given;
      },
      transfers: () => Promise.reject(new Error("this endpoint is never called for transfers")),
      destroy: () => undefined,
    }),
  );
  const pool = new EndpointPool({ chain: "eth", endpoints, clock });
  const reader = new RpcChainReader({ chainId: 1, pool, multicall: undefined, finalityDepth: 5, depthIsSet: true });
  const run = async () => {
    asked.length = 0;
    const result = await reader.simulate(BLOCKS, 7);
    return { result, asked: [...asked], states: pool.status().map(({ state }) => state) };
  };
  return { run };
}

test.each<[string, Answer]>([
  ["into the error", running({ returnData: "0x", error: { code: 3, message: "", data: "0x08c379a0" } })],
  ["beside the error", running({ returnData: "0x08c379a0", error: { code: -3200, message: "" } })],
  ["and fill a gap with empty blocks", running({ returnData: "0x08C379A0" }, [{ calls: [] }, { calls: [] }])],
])("reads the outcomes of nodes that put revert data %s", async (_where, answer) => {
  expect((await world(answer).run()).result).toEqual(OUTCOMES);
});

test.each<[string, unknown]>([
  ["by code", refused({ code: -32_601, message: "the method eth_simulateV1 does not exist" })],
  ["by an internal error", refused({ code: -32_603, message: "Internal error" })],
  ["in unknown words", refused({ code: -32_000, message: "nein" })],
  ["in words about its plan", refused({ code: -32_000, message: "available on archive plans" })],
  ["by a status", classifyHttpStatus(403, null, {}, "forbidden")],
  ["by an empty result", null],
  ["by bytes", "0x"],
])("takes an endpoint that refuses the method %s for well, and doesn't send it there again", async (_how, answer) => {
  const { run } = world(refusing(answer), running({ returnData: "0x08c379a0" }));
  const first = await run();
  expect([first.result, first.asked]).toEqual([OUTCOMES, ["eth#1", "eth#1", "eth#2"]]);
  expect(first.states).not.toContain("failed");
  expect((await run()).asked).toEqual(["eth#2"]);
});

test("tells that no endpoint has the method", async () => {
  const { run } = world(refusing(refused({ code: -32_601, message: "no such method" })));
  expect(await run()).toEqual({ result: undefined, asked: ["eth#1", "eth#1"], states: ["unused"] });
  expect(await run()).toEqual({ result: undefined, asked: [], states: ["unused"] });
});

test("sends the method again after a refusal of these transactions only", async () => {
  const small = running({ returnData: "0x" });
  const { run } = world((method, params) => {
    const blocks = (params[0] as { blockStateCalls?: unknown[] }).blockStateCalls;
    return blocks?.length === 2 ? refused({ code: -38_015, message: "block gas limit" }) : small(method, params);
  });
  expect(await run()).toEqual({ result: undefined, asked: ["eth#1", "eth#1"], states: ["unused"] });
  expect((await run()).asked).toEqual(["eth#1", "eth#1"]);
});

test("doesn't take a lost connection for a refusal", async () => {
  const scheduler = new Scheduler(1);
  const lost = new RpcError("transient", "connection lost");
  const endpoint: Endpoint = {
    label: "eth#1",
    request: () => Promise.reject(lost),
    transfers: () => Promise.reject(lost),
    destroy: () => undefined,
  };
  const pool = new EndpointPool({ chain: "eth", endpoints: [endpoint], clock: new ProcessClock(scheduler) });
  const reader = new RpcChainReader({ chainId: 1, pool, multicall: undefined, finalityDepth: 5, depthIsSet: true });
  const code = reader.simulate(BLOCKS, 7).catch((error: unknown) => (error as RpcError).code);
  let isDone = false;
  code.finally(() => (isDone = true));
  while (!isDone) {
    await new Promise<void>((resolve) => setImmediate(resolve));
    if (!isDone) await scheduler.step();
  }
  expect(await code).toBe("chain_unavailable");
});
