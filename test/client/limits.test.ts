/**
 * The client and the limits of a service: it learns them from the service, and keeps them. It tells the program why it
 * can't go on, and loses no message of a reader that is slow.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Server, ServerWebSocket } from "bun";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { Client, type FeedMessage, type ServiceError } from "../../src/client/index.ts";
import { eventually, startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const addressOf = (index: number): string => `0x${(index + 1).toString(16).padStart(40, "0")}`;

/** A WebSocket that counts the sockets and the closes of a client. */
function countingSockets() {
  const seen = { opened: 0, closes: [] as number[] };
  class Counting extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      seen.opened++;
      this.addEventListener("close", ({ code }) => seen.closes.push(code));
    }
  }
  return { seen, Socket: Counting };
}

describe("against the service", () => {
  let anvil: Anvil;
  let service: TestService;

  beforeAll(async () => {
    anvil = await startAnvil({ slotsInAnEpoch: 1 });
    service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  });
  afterAll(async () => {
    await service?.stop();
    await anvil?.stop();
  });

  test("300 subscriptions keep the rate, take two sockets, and all get their first message", async () => {
    const { seen, Socket } = countingSockets();
    const interruptions: ServiceError[] = [];
    const client = new Client({
      url: service.url,
      key: TEST_KEY,
      WebSocket: Socket,
      onInterruption: (error) => interruptions.push(error),
    });
    const held = Array.from({ length: 300 }, (_, index) => client.subscribe(addressOf(index)));
    const firsts = held.map(async (subscription) => (await subscription[Symbol.asyncIterator]().next()).value?.type);
    expect(new Set(await Promise.all(firsts))).toEqual(new Set(["status"]));
    expect([seen.opened, seen.closes, interruptions]).toEqual([2, [], []]);
    client.close();
  });

  test("a status names the limits", async () => {
    const client = new Client({ url: service.url, key: TEST_KEY });
    const { value } = await client.subscribe(addressOf(5_000))[Symbol.asyncIterator]().next();
    expect(value).toMatchObject({
      limits: {
        messagesPerSecond: 50,
        subscriptionsPerConnection: 256,
        subscriptionsPerKey: 1_000,
        messageBytes: expect.any(Number),
        unreadBytes: expect.any(Number),
      },
    });
    client.close();
  });

  test("a subscription that the service refuses ends with the reason, and the others go on", async () => {
    const client = new Client({ url: service.url, key: TEST_KEY });
    const good = client.subscribe(addressOf(6_000))[Symbol.asyncIterator]();
    const bad = client.subscribe("0x12")[Symbol.asyncIterator]();
    expect((await bad.next()).value).toMatchObject({ type: "error", code: "invalid_parameter" });
    await expect(bad.next()).rejects.toMatchObject({ status: 400, code: "invalid_parameter" });
    expect((await good.next()).value?.type).toBe("status");
    client.close();
  });

  test("a signal ends a subscription with its reason, and the socket with the last one", async () => {
    const { seen, Socket } = countingSockets();
    const client = new Client({ url: service.url, key: TEST_KEY, WebSocket: Socket });
    const stop = new AbortController();
    const messages = client.subscribe(addressOf(7_000), { signal: stop.signal })[Symbol.asyncIterator]();
    expect((await messages.next()).value?.type).toBe("status");
    const reason = new Error("enough");
    stop.abort(reason);
    const rest = async () => {
      for (let next = await messages.next(); next.done !== true; next = await messages.next());
    };
    await expect(rest()).rejects.toBe(reason);
    await eventually("the socket is closed", async () => (seen.closes.length === 1 ? true : undefined));
    const late = client.subscribe(addressOf(7_000), { signal: stop.signal })[Symbol.asyncIterator]();
    await expect(late.next()).rejects.toBe(reason);
    expect(seen.opened).toBe(1);
  });
});

interface Script {
  /** Handles a message of the client. */
  readonly onMessage: (socket: ServerWebSocket<unknown>, message: Asked) => void;
  /** Answers a request that is no upgrade. */
  readonly onRequest?: () => Response;
}

interface Asked {
  readonly action: string;
  readonly chain?: string;
  readonly address?: string;
  readonly since?: string;
}

/** A server that speaks the protocol of the socket by a script. */
function scripted({ onMessage, onRequest }: Script): Server<unknown> {
  const required = () => Response.json({ code: "invalid_parameter", message: "a WebSocket" }, { status: 426 });
  return Bun.serve<unknown>({
    port: 0,
    fetch: (request, server) => {
      const headers = { "sec-websocket-protocol": "evm.v2" };
      if (request.headers.has("upgrade") && server.upgrade(request, { data: undefined, headers })) return undefined;
      return (onRequest ?? required)();
    },
    websocket: { message: (socket, text) => onMessage(socket, JSON.parse(String(text)) as Asked) },
  });
}

const statusOf = ({ chain, address }: Asked, more: object = {}): string =>
  JSON.stringify({ type: "status", chain, address, version: 1, status: "SYNCED", block: 1, percent: 100, ...more });

describe("the pace", () => {
  test.each([1, 3, 20])("is what the service says: %i messages in a second", async (messagesPerSecond) => {
    const times: number[] = [];
    let [start, inWindow, worst] = [0, 0, 0];
    const limits = { messagesPerSecond, subscriptionsPerConnection: 1_000, messageBytes: 4_096, unreadBytes: 1e6 };
    const server = scripted({
      onMessage: (socket, asked) => {
        const now = performance.now();
        times.push(now);
        // The window of the service.
        if (now - start >= 1_000) [start, inWindow] = [now, 0];
        worst = Math.max(worst, ++inWindow);
        socket.send(statusOf(asked, { limits }));
      },
    });
    const client = new Client({ url: server.url.href, key: "k" });
    const count = messagesPerSecond * 3;
    const all = Array.from({ length: count }, (_, i) => client.subscribe(addressOf(i))[Symbol.asyncIterator]().next());
    await Promise.all(all);
    expect([times.length, worst]).toEqual([count, messagesPerSecond]);
    client.close();
    await server.stop(true);
  });

  test("is learned from the reason of a close by a service that doesn't tell it before", async () => {
    const MAX = 5;
    let closes = 0;
    const windows = new Map<ServerWebSocket<unknown>, { start: number; count: number }>();
    const server = scripted({
      onMessage: (socket, asked) => {
        const now = performance.now();
        const known = windows.get(socket);
        const window = known === undefined || now - known.start >= 1_000 ? { start: now, count: 0 } : known;
        windows.set(socket, window);
        if (++window.count > MAX) {
          closes++;
          socket.close(1_008, `more than ${MAX} messages in a second`);
        } else socket.send(statusOf(asked));
      },
    });
    const told: string[] = [];
    const client = new Client({ url: server.url.href, key: "k", onInterruption: ({ message }) => told.push(message) });
    const all = Array.from({ length: 12 }, (_, i) => client.subscribe(addressOf(i))[Symbol.asyncIterator]().next());
    await Promise.all(all);
    expect(closes).toBe(1);
    expect(told).toEqual([`more than ${MAX} messages in a second`]);
    client.close();
    await server.stop(true);
  });

  test("asks again for a subscription that the key's rate had no request for, when the service says", async () => {
    const refused: number[] = [];
    const server = scripted({
      onMessage: (socket, asked) => {
        if (refused.length > 0) {
          socket.send(statusOf(asked));
          return;
        }
        refused.push(performance.now());
        const { chain, address } = asked;
        const message = "the key k has 60 requests a minute, which its messages and their work take: try again in 1 s";
        socket.send(JSON.stringify({ type: "error", chain, address, code: "rate_limited", message }));
      },
    });
    const client = new Client({ url: server.url.href, key: "k" });
    const types: string[] = [];
    for await (const { type } of client.subscribe(addressOf(0))) {
      types.push(type);
      if (type === "status") break;
    }
    expect(types.at(-1)).toBe("status");
    expect(performance.now() - refused[0]!).toBeGreaterThan(900);
    client.close();
    await server.stop(true);
  });

  test("opens another socket where a service says in an error that one is full", async () => {
    const MAX = 4;
    const counts = new Map<ServerWebSocket<unknown>, number>();
    const server = scripted({
      onMessage: (socket, asked) => {
        const count = (counts.get(socket) ?? 0) + 1;
        if (count <= MAX) {
          counts.set(socket, count);
          socket.send(statusOf(asked));
          return;
        }
        const { chain, address } = asked;
        const message = `a connection may hold ${MAX} subscriptions; unsubscribe from some, or open another`;
        socket.send(JSON.stringify({ type: "error", chain, address, code: "rate_limited", message }));
      },
    });
    const client = new Client({ url: server.url.href, key: "k" });
    const all = Array.from({ length: 10 }, (_, i) => client.subscribe(addressOf(i))[Symbol.asyncIterator]().next());
    expect((await Promise.all(all)).map(({ value }) => value?.type)).toEqual(all.map(() => "status"));
    expect([...counts.values()].sort()).toEqual([2, 4, 4]);
    client.close();
    await server.stop(true);
  });
});

describe("the end", () => {
  const firstOf = (url: string, options: object = {}) =>
    new Client({ url, key: "k", ...options }).subscribe(addressOf(0))[Symbol.asyncIterator]().next();

  test("comes with `unreachable` if no service is there, after the attempts, each of which is told", async () => {
    const told: string[] = [];
    const options = { attempts: 2, onInterruption: ({ code }: ServiceError) => told.push(code) };
    await expect(firstOf("http://127.0.0.1:9", options)).rejects.toMatchObject({ status: 0, code: "unreachable" });
    expect(told).toEqual(["unreachable"]);
  });

  test("comes at once if another server answers, or the address can't be used", async () => {
    for (const status of [404, 200]) {
      const other = Bun.serve({ port: 0, fetch: () => new Response("<html>", { status }) });
      await expect(firstOf(other.url.href)).rejects.toMatchObject({ code: "unreadable", status });
      await other.stop(true);
    }
    await expect(firstOf("nowhere at all")).rejects.toMatchObject({ code: "unreachable" });
  });

  test("comes if the service closes the socket for the same reason again and again", async () => {
    let sockets = 0;
    const server = scripted({
      onMessage: (socket) => {
        sockets++;
        socket.close(1_008, "no more of this");
      },
    });
    const ended = firstOf(server.url.href, { attempts: 3 });
    await expect(ended).rejects.toMatchObject({ message: "no more of this", code: "rate_limited" });
    expect(sockets).toBe(3);
    await server.stop(true);
  });

  test("comes for one subscription if the key has no more of them", async () => {
    const message = "this key may have 1000 subscriptions";
    const server = scripted({
      onMessage: (socket, asked) => {
        const { chain, address } = asked;
        const error = JSON.stringify({ type: "error", chain, address, code: "rate_limited", message });
        socket.send(address === addressOf(1) ? error : statusOf(asked));
      },
    });
    const client = new Client({ url: server.url.href, key: "k" });
    const [good, bad] = [0, 1].map((index) => client.subscribe(addressOf(index))[Symbol.asyncIterator]());
    expect((await good?.next())?.value?.type).toBe("status");
    expect((await bad?.next())?.value?.type).toBe("error");
    await expect(bad?.next()).rejects.toMatchObject({ status: 429, code: "rate_limited", message });
    client.close();
    await server.stop(true);
  });

  test("does not come while the service says that it starts", async () => {
    let isReady = false;
    let asked = 0;
    const inner = scripted({ onMessage: (socket, message) => socket.send(statusOf(message)) });
    const server = Bun.serve<unknown>({
      port: 0,
      fetch: (request, self) => {
        if (++asked > 4) isReady = true;
        const headers = { "sec-websocket-protocol": "evm.v2" };
        if (isReady && self.upgrade(request, { data: undefined, headers })) return undefined;
        return Response.json({ code: "starting", message: "not open yet" }, { status: 503 });
      },
      websocket: { message: (socket, text) => void socket.send(statusOf(JSON.parse(String(text)) as Asked)) },
    });
    expect((await firstOf(server.url.href, { attempts: 1 })).value?.type).toBe("status");
    await inner.stop(true);
    await server.stop(true);
  });
});

test("a slow reader gets each message once and in order, also if the connection breaks", async () => {
  const TOTAL = 25_000;
  let pauses = 0;
  const sinces: number[] = [];
  const server = scripted({
    onMessage: (socket, asked) => {
      const { action, chain, address } = asked;
      if (action === "unsubscribe") {
        // What was sent before arrives first.
        socket.send(JSON.stringify({ type: "unsubscribed", chain, address }));
        // The connection breaks while the reader is behind.
        if (pauses++ === 0) socket.terminate();
        return;
      }
      const since = Number(asked.since ?? 0);
      sinces.push(since);
      socket.send(statusOf(asked));
      for (let version = since + 1; version <= TOTAL; version++) {
        const resume = String(version);
        socket.send(
          JSON.stringify({ type: "transfers", chain, address, version, resume, block: version, tokenIds: [] }),
        );
      }
    },
  });
  const client = new Client({ url: server.url.href, key: "k" });
  const read: number[] = [];
  for await (const message of client.subscribe(addressOf(0)) as AsyncIterable<FeedMessage>) {
    if (message.type !== "transfers") continue;
    read.push(message.version);
    // Reads nothing until the service was asked to pause, twice.
    const expected = read.length === 1 ? 1 : read.length === 12_000 ? 2 : 0;
    if (expected > 0) await eventually("the reader is behind", async () => (pauses >= expected ? true : undefined));
    if (message.version === TOTAL) break;
  }
  expect(read).toEqual(Array.from({ length: TOTAL }, (_, index) => index + 1));
  expect(sinces.length).toBe(3);
  await server.stop(true);
});

test("a runtime without WebSocket gets a sentence", () => {
  const { WebSocket: Own } = globalThis;
  try {
    Reflect.deleteProperty(globalThis, "WebSocket");
    const client = new Client({ url: "http://127.0.0.1:9", key: "k" });
    expect(() => client.subscribe(addressOf(0))).toThrow("has no WebSocket: use Node 22 or newer");
  } finally {
    globalThis.WebSocket = Own;
  }
});
