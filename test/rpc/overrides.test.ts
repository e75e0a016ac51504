/** Calls on overridden state: which endpoints they go to, by how each of them behaves, on a virtual clock. */
import { expect, test } from "bun:test";
import type { Address } from "../../src/core/hex.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { Endpoint } from "../../src/rpc/port.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { classifyRpcError, RpcError } from "../../src/rpc/rpc-errors.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

const ADDRESS = `0x${"a".repeat(40)}` as Address;
const CALL = { from: ADDRESS, to: ADDRESS, data: "0x01", accounts: { [ADDRESS]: { code: "0xfe", balance: 5n } } };
const WORD_42 = `0x${(42).toString(16).padStart(64, "0")}`;
const nein = () => classifyRpcError({ code: -32_000, message: "nein" }, "eth_call", {});
const lost = () => new RpcError("transient", "connection lost");

type Answer = (params: readonly unknown[]) => string | Error;
/** Answers calls without overrides like any node, the one that returns 42, and others with this text. */
const taking =
  (text: string): Answer =>
  ([call, , overrides]) =>
    overrides === undefined ? "0x" : (call as { data: string }).data === "0x" ? WORD_42 : text;
const refusing: Answer = (params) => (params.length === 3 ? nein() : "0x");

/** A chain with these endpoints. */
function world(...answers: Answer[]) {
  const scheduler = new Scheduler(1);
  const clock = new ProcessClock(scheduler);
  const asked: string[] = [];
  const endpoints = answers.map(
    (answer, index): Endpoint => ({
      label: `eth#${index + 1}`,
      async request(_method, params) {
        if (params.length === 3) asked.push(this.label);
        const given = answer(params);
        if (given instanceof Error) throw given;
        return given;
      },
      transfers: () => Promise.reject(new Error("this endpoint is never called for transfers")),
      destroy: () => undefined,
    }),
  );
  const pool = new EndpointPool({ chain: "eth", endpoints, clock });
  const reader = new RpcChainReader({ chainId: 1, pool, multicall: undefined, finalityDepth: 5, depthIsSet: true });
  /** Makes the call, and returns the result or the error's code with the endpoints that were sent overrides. */
  const run = async () => {
    asked.length = 0;
    const made = reader.callOverridden(CALL, 7).catch((error: unknown) => (error as RpcError).code);
    let isDone = false;
    made.finally(() => (isDone = true));
    while (!isDone) {
      // What can go on without a timer goes first.
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (!isDone) await scheduler.step();
    }
    return { result: await made, asked: [...asked] };
  };
  return { run, scheduler };
}

test("asks another endpoint after one that refuses overrides, and the first one no more", async () => {
  const { run } = world(refusing, taking("0x07"));
  expect(await run()).toEqual({ result: { ok: true, data: "0x07" }, asked: ["eth#1", "eth#1", "eth#2"] });
  expect((await run()).asked).toEqual(["eth#2"]);
});

test("tells that no endpoint takes overrides, and asks again after ten minutes", async () => {
  const { run, scheduler } = world(() => "0x");
  expect(await run()).toEqual({ result: undefined, asked: ["eth#1", "eth#1"] });
  expect(await run()).toEqual({ result: undefined, asked: [] });
  scheduler.time += 600_001;
  expect(await run()).toEqual({ result: undefined, asked: ["eth#1", "eth#1"] });
});

test("retries once what fails without a word on overrides", async () => {
  const { run } = world((params) => (params.length === 3 ? lost() : "0x"));
  expect(await run()).toEqual({ result: "chain_unavailable", asked: ["eth#1", "eth#1"] });
});

test("takes no refusal for one of overrides from an endpoint that runs other overridden calls", async () => {
  const answer = taking("0x");
  const { run } = world((params) =>
    params.length === 3 && (params[0] as { data: string }).data === CALL.data ? nein() : answer(params),
  );
  expect((await run()).result).toBe("chain_unavailable");
});
