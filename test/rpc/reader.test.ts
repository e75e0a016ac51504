/** The reader over several endpoints of which one is behind: what it does not have is not taken for what is not there. */
import { expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import type { Endpoint } from "../../src/rpc/endpoint.ts";
import { EndpointPool } from "../../src/rpc/pool.ts";
import { RpcChainReader } from "../../src/rpc/reader.ts";

const hex = (value: number) => `0x${value.toString(16)}`;
const hashOf = (number: number) => `0x${number.toString(16).padStart(64, "0")}`;

/** Answers for a chain up to its `head`, and notes what it was asked. */
function node(label: string, head: number): Endpoint & { head: number; readonly asked: unknown[] } {
  const asked: unknown[] = [];
  return {
    label,
    head,
    asked,
    async request(_method, params) {
      asked.push(params[0]);
      const number = params[0] === "latest" ? this.head : Number(params[0]);
      if (number > this.head) return null;
      return { number: hex(number), hash: hashOf(number), parentHash: hashOf(number - 1), timestamp: hex(number * 12) };
    },
    transfers: () => Promise.reject(new Error("not asked")),
    destroy: () => undefined,
  };
}

function readerOf(...endpoints: Endpoint[]): RpcChainReader {
  const pool = new EndpointPool({ chain: "eth", endpoints, clock: systemClock });
  const multicall = `0x${"c".repeat(40)}` as Address;
  return new RpcChainReader({ chainId: 1, pool, multicall, finalityDepth: 5, depthIsSet: true });
}

const known = (number: number) => ({ number, hash: hashOf(number) as Hash });

test("a block that one endpoint lacks is asked of the others, and nobody's is undefined", async () => {
  const reader = readerOf(node("eth#1", 7), node("eth#2", 9));
  expect((await reader.header(9))?.number).toBe(9);
  expect(await reader.header(10)).toBeUndefined();
});

test("a laggard is passed over, and is back once it has caught up", async () => {
  const [first, second] = [node("eth#1", 7), node("eth#2", 9)];
  const reader = readerOf(first, second);
  expect((await reader.head()).number).toBe(7);
  expect(await reader.passOverLaggards(known(9))).toBe(true);
  expect((await reader.head()).number).toBe(9);
  first.head = 9;
  expect(await reader.passOverLaggards(known(9))).toBe(false);
  first.head = 11;
  expect(await reader.passOverLaggards(known(9))).toBe(true);
  expect((await reader.head()).number).toBe(11);
});

test("a single endpoint is taken at its word, without a question more", async () => {
  const only = node("eth#1", 7);
  const reader = readerOf(only);
  expect(await reader.header(9)).toBeUndefined();
  expect(await reader.passOverLaggards(known(9))).toBe(false);
  expect(only.asked).toEqual(["0x9"]);
});
