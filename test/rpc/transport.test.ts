/** The transport to an endpoint over real sockets, and its handling of connections that died silently. */
import { afterEach, describe, expect, test } from "bun:test";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { systemClock } from "../../src/core/clock.ts";
import { createTransport, type Transport } from "../../src/rpc/endpoint/transport.ts";
import { startForwardProxy } from "../support/forward-proxy.ts";
import { startSilentRelay } from "../support/silent-relay.ts";

const started: { stop(): unknown }[] = [];
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

interface Asked {
  readonly id: number;
  readonly method: string;
}

/** A node over WebSocket that answers a request or a batch with what `answer` sends. */
function startSocketNode(answer: (asked: Asked | readonly Asked[], send: (text: string) => void) => void): {
  port: number;
  sockets: () => number;
} {
  let sockets = 0;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, self) => (self.upgrade(request) ? undefined : new Response("no", { status: 400 })),
    websocket: {
      open: () => void sockets++,
      message: (socket, text) => answer(JSON.parse(String(text)), (said) => void socket.send(said)),
    },
  });
  started.push({ stop: () => server.stop(true) });
  return { port: server.port ?? 0, sockets: () => sockets };
}

/** A node that answers single requests. It never answers the method `mute`. */
function startNode(): ReturnType<typeof startSocketNode> {
  return startSocketNode((asked, send) => {
    const { id, method } = asked as Asked;
    if (method === "idOdd") send(JSON.stringify({ error: { code: 1, data: { id: 42 } }, id: String(id) }));
    else if (method === "large") send(JSON.stringify({ id, result: "1".repeat(1_100_000) }));
    else if (method === "idLast") send(JSON.stringify({ jsonrpc: "2.0", result: "0x1".padEnd(1_000, "1"), id }));
    else if (method !== "mute") send(JSON.stringify({ jsonrpc: "2.0", id, result: "0x1" }));
  });
}

function transportTo(url: string, timeoutMs: number): Transport {
  const transport = createTransport({ url, label: "eth#1", timeoutMs, maxBytes: 1_000_000, clock: systemClock });
  started.push({ stop: () => transport.close() });
  return transport;
}

let nextId = 1;
/** Returns the answer's text, or the error. */
async function ask(transport: Transport, method = "eth_blockNumber"): Promise<unknown> {
  const id = nextId++;
  try {
    const bytes = await transport.send(JSON.stringify({ jsonrpc: "2.0", id, method, params: [] }), [id]);
    return (JSON.parse(new TextDecoder().decode(bytes)) as { result: unknown }).result;
  } catch (error) {
    return error;
  }
}

describe("over a WebSocket", () => {
  test("gives up a silently dead connection at the first timeout, and opens another", async () => {
    const node = startNode();
    const relay = await startSilentRelay(node.port);
    started.push(relay);
    const transport = transportTo(`ws://127.0.0.1:${relay.port}`, 1_000);
    expect(await ask(transport)).toBe("0x1");
    relay.silence();
    const [first, second] = await Promise.all([ask(transport), ask(transport)]);
    expect([first, second]).toMatchObject([{ code: "rpc_late" }, { code: "rpc_transient" }]);
    expect(await ask(transport)).toBe("0x1");
    expect(relay.accepted).toBe(2);
  });

  test("keeps the connection despite an unanswered request while others are answered", async () => {
    const node = startNode();
    const transport = transportTo(`ws://127.0.0.1:${node.port}`, 500);
    const unanswered = ask(transport, "mute");
    let isOver = false;
    unanswered.finally(() => {
      isOver = true;
    });
    while (!isOver) expect(await ask(transport)).toBe("0x1");
    expect(await unanswered).toMatchObject({ code: "rpc_late", retryable: true });
    expect(await ask(transport)).toBe("0x1");
    expect(node.sockets()).toBe(1);
  });

  test("ignores late events of an old connection while a new one is being opened", async () => {
    const node = startNode();
    const relay = await startSilentRelay(node.port);
    started.push(relay);
    const transport = transportTo(`ws://127.0.0.1:${relay.port}`, 500);
    for (let round = 1; round <= 5; round++) {
      expect(await ask(transport)).toBe("0x1");
      relay.silence();
      // The next request comes in the same turn in which this one fails, before the old socket's `close` event.
      expect(await ask(transport)).toMatchObject({ code: "rpc_late" });
      expect(await Promise.all([ask(transport), ask(transport)])).toEqual(["0x1", "0x1"]);
      expect(relay.accepted).toBe(round + 1);
    }
  });

  test("matches an answer by its id wherever it stands, and a batch by any of its answers", async () => {
    const node = startSocketNode((asked, send) => {
      send("not JSON");
      send('[{"id":77777,"result":"0x2"},');
      send(
        JSON.stringify(
          [asked]
            .flat()
            .map(({ id }) => ({ id, result: "0x1" }))
            .reverse(),
        ),
      );
    });
    expect(await ask(transportTo(`ws://127.0.0.1:${startNode().port}`, 5_000), "idLast")).toStartWith("0x11");
    expect(await ask(transportTo(`ws://127.0.0.1:${startNode().port}`, 5_000), "idOdd")).toBeUndefined();
    const batch = [{ id: 5 }, { id: 6 }, { id: 7 }];
    const bytes = await transportTo(`ws://127.0.0.1:${node.port}`, 5_000).send(JSON.stringify(batch), [5, 6, 7]);
    expect(JSON.parse(new TextDecoder().decode(bytes))).toHaveLength(3);
  });

  test("reports an answer that is too large to all pending requests as a reason to request less", async () => {
    const node = startNode();
    const transport = transportTo(`ws://127.0.0.1:${node.port}`, 5_000);
    const both = await Promise.all([ask(transport, "mute"), ask(transport, "large")]);
    expect(both).toMatchObject([
      { kind: "late", retryable: true },
      { kind: "late", retryable: true },
    ]);
    expect(await ask(transport)).toBe("0x1");
  });

  test("assigns a refusal without an id to the waiting batch, or to the only waiting request", async () => {
    const refusal = JSON.stringify({ id: null, error: { code: -32010, message: "The batch request was too large" } });
    const node = startSocketNode((asked, send) => {
      const { id, method } = asked as Asked;
      if (Array.isArray(asked) || ["unread", "eth_subscribe"].includes(method)) send(refusal);
      else if (method !== "mute") send(JSON.stringify({ id, result: "0x1" }));
    });
    const transport = transportTo(`ws://127.0.0.1:${node.port}`, 20_000);
    const read = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    expect(read(await transport.send('{"id":1,"method":"unread"}', [1]))).toBe(refusal);
    const others = [ask(transport, "mute"), ask(transport, "mute")];
    expect(read(await transport.send('[{"id":5},{"id":6}]', [5, 6]))).toBe(refusal);
    transport.close();
    expect(await Promise.all(others)).toMatchObject([{ code: "rpc_transient" }, { code: "rpc_transient" }]);
    // A refused subscription to new blocks must not fail the first request.
    const options = { label: "eth#1", timeoutMs: 20_000, maxBytes: 1_000_000, clock: systemClock };
    const url = `ws://127.0.0.1:${node.port}`;
    const announced = createTransport({ ...options, url, onHead: () => undefined });
    started.push({ stop: () => announced.close() });
    expect(await ask(announced)).toBe("0x1");
    expect(read(await announced.send('{"id":1,"method":"unread"}', [1]))).toBe(refusal);
  });

  test("fails pending requests on its close, including those that wait for the connection", async () => {
    const relay = await startSilentRelay();
    started.push(relay);
    const transport = transportTo(`ws://127.0.0.1:${relay.port}`, 20_000);
    const waiting = ask(transport);
    while (relay.swallowed === 0) await new Promise((resolve) => setImmediate(resolve));
    transport.close();
    expect(await waiting).toMatchObject({ code: "rpc_transient", message: expect.stringContaining("closed") });
    expect(await ask(transport)).toMatchObject({ code: "rpc_transient" });
  });
});

test("sends a user name and password of the URL unchanged, over http and over WebSocket", async () => {
  const said: (string | null)[] = [];
  const node = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, self) => {
      said.push(request.headers.get("authorization"));
      if (self.upgrade(request)) return undefined;
      return Response.json({ result: "0x1" });
    },
    websocket: { message: (socket, text) => void socket.send(String(text).replace("method", "result")) },
  });
  started.push({ stop: () => node.stop(true) });
  for (const scheme of ["http", "ws"]) {
    await ask(transportTo(`${scheme}://operator:p%40ss%C3%A9@127.0.0.1:${node.port}`, 5_000));
    await ask(transportTo(`${scheme}://127.0.0.1:${node.port}`, 5_000));
  }
  const basic = `Basic ${Buffer.from("operator:p@ssé").toString("base64")}`;
  expect(said).toEqual([basic, null, basic, null]);
});

describe("over http", () => {
  test("fails pending requests on its close at once, and later requests as well", async () => {
    const relay = await startSilentRelay();
    started.push(relay);
    const transport = transportTo(`http://127.0.0.1:${relay.port}`, 20_000);
    const waiting = ask(transport);
    while (relay.swallowed === 0) await new Promise((resolve) => setImmediate(resolve));
    transport.close();
    expect(await waiting).toMatchObject({ code: "rpc_transient", message: expect.stringContaining("closed") });
    expect(await ask(transport)).toMatchObject({ code: "rpc_transient" });
    expect(relay.accepted).toBe(1);
  });

  const ENCODINGS: Readonly<Record<string, (text: string) => Uint8Array>> = {
    identity: (text) => Buffer.from(text),
    gzip: (text) => gzipSync(text),
    br: (text) => brotliCompressSync(text),
    zstd: (text) => Bun.zstdCompressSync(text),
  };

  /** A node that answers in an encoding, and counts its connections. */
  async function startPackedNode(encoding: string, size = 600_000) {
    const text = JSON.stringify({ id: 1, result: "0x1".padEnd(size, "0123456789") });
    const packed = (ENCODINGS[encoding] as (text: string) => Uint8Array)(text);
    let connections = 0;
    const server = createServer((request, response) => {
      request.resume();
      const offered = String(request.headers["accept-encoding"]);
      const isOffered = encoding === "identity" || offered.includes(encoding);
      response.writeHead(isOffered ? 200 : 406, encoding === "identity" ? {} : { "content-encoding": encoding });
      response.end(packed);
    });
    server.on("connection", () => connections++);
    const { promise, resolve } = Promise.withResolvers<void>();
    server.listen(0, "127.0.0.1", resolve);
    await promise;
    started.push({ stop: () => server.close() });
    return { port: (server.address() as AddressInfo).port, text, connections: () => connections };
  }

  for (const encoding of Object.keys(ENCODINGS)) {
    test(`reads answers in the encoding ${encoding} on one kept connection, and on a fresh one if asked to`, async () => {
      const node = await startPackedNode(encoding);
      const transport = transportTo(`http://127.0.0.1:${node.port}`, 5_000);
      const read = async (isFresh: boolean) => String(Buffer.from(await transport.send("{}", [1], { isFresh })));
      for (let asked = 0; asked < 5; asked++) expect(await read(false)).toBe(node.text);
      expect(node.connections()).toBe(1);
      expect(await read(true)).toBe(node.text);
      expect(node.connections()).toBe(2);
    });

    test(`reads answers in the encoding ${encoding} through a proxy`, async () => {
      const node = await startPackedNode(encoding, 20_000);
      const proxy = await startForwardProxy({ "node.example:80": node.port });
      started.push(proxy);
      const options = { label: "eth#1", timeoutMs: 5_000, maxBytes: 1_000_000, clock: systemClock };
      const transport = createTransport({ ...options, url: "http://node.example/", proxy: proxy.url });
      expect(String(Buffer.from(await transport.send("{}", [1])))).toBe(node.text);
      expect(proxy.requests).toEqual(["POST node.example:80"]);
      transport.close();
    });
  }

  test("refuses an answer that is too large in plain or compressed as a range", async () => {
    for (const encoding of Object.keys(ENCODINGS)) {
      const node = await startPackedNode(encoding);
      const options = { label: "eth#1", timeoutMs: 5_000, maxBytes: 500_000, clock: systemClock };
      const transport = createTransport({ ...options, url: `http://127.0.0.1:${node.port}` });
      const error = await transport.send("{}", [1]).catch((failure: unknown) => failure);
      expect(error).toMatchObject({ code: "rpc_range", message: expect.stringContaining("too large") });
      transport.close();
    }
  });

  test("retries an answer whose bytes are not in its encoding", async () => {
    const headers = { "content-encoding": "gzip" };
    const server = Bun.serve({ port: 0, fetch: () => new Response("no gzip", { headers }) });
    started.push({ stop: () => server.stop(true) });
    const error = await ask(transportTo(`http://127.0.0.1:${server.port}`, 5_000));
    expect(error).toMatchObject({ code: "rpc_transient", message: expect.stringContaining("can't be read") });
  });
});

describe("a URL with the wrong scheme", () => {
  const faultOf = (url: string): Promise<unknown> => ask(transportTo(url, 10_000));

  test("is told: https of a node without TLS, and a socket of a node without one", async () => {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("no") });
    started.push({ stop: () => server.stop(true) });
    expect(String(await faultOf(`https://127.0.0.1:${server.port}/secret`))).toContain(
      "is it http or ws, not https or wss?",
    );
    expect(String(await faultOf(`ws://127.0.0.1:${server.port}/secret`))).toContain("is it http, not ws?");
  });
});
