/**
 * Kept connections that a middlebox forgot: no data passes, and neither side gets an error. Small requests find out in a
 * few seconds and use a new connection, over http and over a socket.
 */
import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import { EndpointProvider } from "../../src/rpc/endpoint/provider.ts";
import { newestHeaderOf } from "../../src/rpc/reading/headers.ts";
import { type SilentRelay, startSilentRelay } from "../support/silent-relay.ts";

const word = (n: number) => `0x${n.toString(16).padStart(64, "0")}`;
const HEADER = { number: "0x8", hash: word(8), parentHash: word(7), timestamp: "0x60" };
const SMALL_MS = 300;
const LONG_MS = 20_000;

interface Asked {
  readonly id: number;
  readonly method: string;
}

const RESULTS: Readonly<Record<string, unknown>> = {
  eth_chainId: "0x1",
  eth_getBlockByNumber: HEADER,
  eth_getLogs: [],
};
const answerOf = ({ id, method }: Asked) => ({ jsonrpc: "2.0", id, result: RESULTS[method] ?? null });
const answersOf = (text: string): string => {
  const asked = JSON.parse(text) as Asked | Asked[];
  return JSON.stringify(Array.isArray(asked) ? asked.map(answerOf) : answerOf(asked));
};

/** A node over http and ws. `delay` resolves before each answer. */
function startNode(delay: (text: string) => Promise<unknown> | undefined = () => undefined) {
  return Bun.serve({
    port: 0,
    idleTimeout: 0,
    fetch: async (request, server) => {
      if (server.upgrade(request)) return undefined;
      const text = await request.text();
      await delay(text);
      return new Response(answersOf(text), { headers: { "content-type": "application/json" } });
    },
    websocket: {
      message: async (socket, text) => {
        await delay(String(text));
        socket.send(answersOf(String(text)));
      },
    },
  });
}

const outcomes: string[] = [];

function endpointOf(relay: SilentRelay, scheme: "http" | "ws"): EndpointProvider {
  const decoder = {
    decode: () => Promise.reject(new Error("not used")),
    fetch: () => Promise.reject(new Error("not used")),
    prepare: () => undefined,
  };
  return new EndpointProvider({
    ...{ url: `${scheme}://127.0.0.1:${relay.port}/`, label: "eth#1", chainId: 1, decoder, clock: systemClock },
    ...{ timeoutMs: LONG_MS, smallTimeoutMs: SMALL_MS, maxBytes: 1_000_000 },
    onRequest: ({ outcome }) => outcomes.push(outcome),
  });
}

const logsOf = (endpoint: EndpointProvider, blocks: number) =>
  endpoint.request("eth_getLogs", [{ fromBlock: "0x0", toBlock: `0x${(blocks - 1).toString(16)}` }]);

for (const scheme of ["http", "ws"] as const) {
  describe(`over ${scheme}`, () => {
    test("repeats a small request on a new connection, and does not use kept ones for a while", async () => {
      const node = startNode();
      const relay = await startSilentRelay(node.port);
      const endpoint = endpointOf(relay, scheme);
      await Promise.all([newestHeaderOf(endpoint), logsOf(endpoint, 5_000), logsOf(endpoint, 6_000)]);
      relay.silence();
      const started = performance.now();
      expect((await newestHeaderOf(endpoint)).number).toBe(8);
      expect(await logsOf(endpoint, 5_000)).toEqual([]);
      expect(await logsOf(endpoint, 10)).toEqual([]);
      // One timeout in all, though several kept connections are dead.
      expect(performance.now() - started).toBeLessThan(SMALL_MS * 5);
      endpoint.destroy();
      await relay.stop();
      await node.stop(true);
    });

    test("waits for a node that is slow, and does not ask it twice for long", async () => {
      let answers = 0;
      const node = startNode(async () => {
        answers++;
        await Bun.sleep(SMALL_MS * 1.5);
      });
      const relay = await startSilentRelay(node.port);
      const endpoint = endpointOf(relay, scheme);
      expect((await newestHeaderOf(endpoint)).number).toBe(8);
      const before = answers;
      expect((await newestHeaderOf(endpoint)).number).toBe(8);
      expect(answers - before).toBe(1);
      endpoint.destroy();
      await relay.stop();
      await node.stop(true);
    });
  });
}

test("does not close a socket on which a large request waits", async () => {
  const { promise: isDone, resolve: finish } = Promise.withResolvers<void>();
  // Like a node that answers each connection in order.
  let turn: Promise<unknown> = Promise.resolve();
  const node = startNode((text) => {
    const isLarge = text.includes('"toBlock":"0x270f"');
    turn = turn.then(() => (isLarge ? isDone : undefined));
    return turn;
  });
  const relay = await startSilentRelay(node.port);
  const endpoint = endpointOf(relay, "ws");
  await newestHeaderOf(endpoint);
  const large = logsOf(endpoint, 10_000);
  const small = newestHeaderOf(endpoint);
  await new Promise<void>((resolve) => systemClock.after(SMALL_MS * 2, resolve));
  finish();
  expect(await large).toEqual([]);
  expect((await small).number).toBe(8);
  expect(relay.accepted).toBe(1);
  endpoint.destroy();
  await relay.stop();
  await node.stop(true);
});

test("counts the repetition as a request", async () => {
  const node = startNode();
  const relay = await startSilentRelay(node.port);
  const endpoint = endpointOf(relay, "http");
  await newestHeaderOf(endpoint);
  relay.silence();
  outcomes.length = 0;
  await newestHeaderOf(endpoint);
  expect(outcomes).toEqual(["late", "ok"]);
  expect(endpoint.usage.counts().calls["eth_getBlockByNumber"]).toBe(3);
  endpoint.destroy();
  await relay.stop();
  await node.stop(true);
});
