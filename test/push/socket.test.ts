/**
 * The WebSocket channel over real sockets: the handshake (header, subprotocol, 401, 426), every message type, `since`,
 * and every limit. The chain is anvil, and a reorg is a real one.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import net from "node:net";
import { type Anvil, inOneBlock, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { LIMITS } from "../../src/config.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";
import { connect as connectTo, type Message, maskedFrame, type SocketClient } from "../support/socket.ts";

let anvil: Anvil;
let service: TestService;
let nft: Deployed;

const people = () => anvil.accounts as string[];
const mint = (id: number, to = 1) => transact(anvil, nft.contract, "mint", [people()[to] as string, BigInt(id)]);

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Socket", "SOCK"]);
  for (let id = 1; id <= 5; id++) await mint(id);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  await synced(service, nft.address);
}, 300_000);
afterAll(async () => {
  await service.stop();
  await anvil.stop();
});

const connect = (target: TestService = service): Promise<SocketClient> => connectTo(target);

/** Sends a handshake over a plain socket. Returns the answer's status line and headers. */
async function handshake(headers: string[], path = "/api/v2/ws"): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = net.connect(service.port, "127.0.0.1", () => {
    const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    const lines = [`GET ${path} HTTP/1.1`, "Host: x", "Upgrade: websocket", "Connection: Upgrade", key];
    socket.write(`${[...lines, "Sec-WebSocket-Version: 13", ...headers].join("\r\n")}\r\n\r\n`);
  });
  socket.once("data", (data) => {
    resolve(data.toString());
    socket.destroy();
  });
  return promise;
}

describe("the handshake", () => {
  test("answers 401 before the upgrade if the key is missing or wrong", async () => {
    expect(await handshake([])).toStartWith("HTTP/1.1 401");
    expect(await handshake(["X-API-Key: wrong-key-000"])).toStartWith("HTTP/1.1 401");
    expect(await handshake(["Sec-WebSocket-Protocol: evm.v2, apikey.wrong-key-000"])).toStartWith("HTTP/1.1 401");
  });

  test("answers a browser's subprotocols with evm.v2, never with the key", async () => {
    for (const offer of [`evm.v2, apikey.${TEST_KEY}`, `apikey.${TEST_KEY}, evm.v2`]) {
      const answer = await handshake([`Sec-WebSocket-Protocol: ${offer}`]);
      expect(answer).toStartWith("HTTP/1.1 101");
      expect(answer.toLowerCase()).toContain("sec-websocket-protocol: evm.v2\r\n");
      expect(answer).not.toContain(TEST_KEY);
    }
    const alone = await handshake([`Sec-WebSocket-Protocol: apikey.${TEST_KEY}`]);
    expect(alone).toStartWith("HTTP/1.1 400");
    expect(alone).not.toContain(TEST_KEY);
  });

  test("answers a GET without upgrade with a JSON 426, and with 401 without a key", async () => {
    const answer = await service.get("/api/v2/ws");
    expect(answer.status).toBe(426);
    expect(answer.body.code).toBe("upgrade_required");
    expect((await fetch(`http://127.0.0.1:${service.port}/api/v2/ws`)).status).toBe(401);
  });
});

describe("a subscription", () => {
  test("to a finished collection sends status, then indexed, once per connection", async () => {
    const client = await connect();
    client.send({ action: "subscribe", chain: "eth", address: nft.address });
    const indexed = await client.next("indexed");
    const order = client.messages.map((message) => message.type).filter((type) => type !== "metadata");
    expect(order).toEqual(["status", "indexed"]);
    const page = await service.get(`/api/v2/nft/${nft.address}?disable_total=false`);
    expect(client.messages[0]).toMatchObject({ chain: "eth", address: nft.address, status: "SYNCED", percent: 100 });
    expect(indexed).toMatchObject({ total: Number(page.body.total) });
    expect(indexed["block"]).toBeNumber();
    expect(indexed["hash"]).toMatch(/^0x[0-9a-f]{64}$/);
    expect(indexed["version"]).toBeNumber();
    client.send({ action: "unsubscribe", address: nft.address });
    await client.next("unsubscribed");
    client.send({ action: "subscribe", address: nft.address, since: 0 });
    await client.next("status", 1);
    client.send({ action: "ping" });
    await client.next("pong");
    expect(client.messages.filter((message) => message.type === "indexed")).toHaveLength(1);
    client.socket.close();
  });

  test("ends with an unsubscribe that comes right behind it, however many of them come at once", async () => {
    const client = await connect();
    const address = (n: number) => `0x${(0xcdn * 2n ** 150n + BigInt(n)).toString(16).padStart(40, "0")}`;
    const asked = Array.from({ length: 20 }, (_, n) => ({ chain: "eth", token: address(n) }));
    for (const action of ["subscribe", "unsubscribe"]) for (const one of asked) client.send({ action, ...one });
    await client.next("unsubscribed", asked.length - 1);
    for (const one of asked) {
      const types = client.messages.filter(({ token }) => token === one.token).map(({ type }) => type);
      expect([types[0], types.at(-1)]).toEqual(["status", "unsubscribed"]);
    }
    client.socket.close();
  });

  test("with since at or above the version of indexed sends no indexed", async () => {
    const first = await connect();
    first.send({ action: "subscribe", address: nft.address });
    const { version } = await first.next("indexed");
    const second = await connect();
    second.send({ action: "subscribe", address: nft.address, since: version });
    second.send({ action: "ping" });
    await second.next("pong");
    await second.next("status");
    expect(second.messages.filter((message) => message.type === "indexed")).toEqual([]);
    first.socket.close();
    second.socket.close();
  });

  test("sends transfers with block and ids when the head moves, and since replays missed ones once", async () => {
    const client = await connect();
    client.send({ action: "subscribe", address: nft.address });
    const { version: before } = await client.next("status");
    const receipt = await mint(100);
    const told = await client.next("transfers");
    expect(told).toMatchObject({ block: Number(receipt.blockNumber), tokenIds: ["100"] });
    expect(told["version"] as number).toBeGreaterThan(before as number);
    const late = await connect();
    late.send({ action: "subscribe", address: nft.address, since: before });
    expect(await late.next("transfers")).toEqual(told);
    await mint(101);
    expect(await late.next("transfers", 1)).toMatchObject({ tokenIds: ["101"] });
    const versions = late.messages.map((message) => message["version"] as number);
    expect(late.messages.filter((message) => message.type === "transfers")).toHaveLength(2);
    expect(versions.every(Number.isSafeInteger)).toBe(true);
    client.socket.close();
    late.socket.close();
  });

  test("cuts a list of more than 1,000 ids in a block, and says so", async () => {
    const emitter = await deploy(anvil, await contractArtifact("PlainNft"), ["Many", "MANY"]);
    await transact(anvil, emitter.contract, "mint", [people()[1] as string, 999_999n]);
    await synced(service, emitter.address);
    const client = await connect();
    client.send({ action: "subscribe", address: emitter.address });
    await client.next("indexed");
    await inOneBlock(anvil, async () => {
      for (let i = 0; i < 3; i++) {
        await queue(anvil, emitter.contract, "mintMany", [people()[1] as string, BigInt(i * 400), 400n]);
      }
    });
    const told = await client.next("transfers");
    expect(told["truncated"]).toBe(true);
    expect(told["tokenIds"]).toEqual(Array.from({ length: 1_000 }, (_, i) => String(i)));
    client.socket.close();
  });

  test("sends reorged with the common ancestor, then the transfers of the new branch", async () => {
    const client = await connect();
    client.send({ action: "subscribe", address: nft.address });
    await client.next("indexed");
    const ancestor = Number(await anvil.send("eth_blockNumber", []));
    await mint(200);
    await client.next("transfers");
    await reorg(anvil, 1);
    const told = await client.next("reorged");
    expect(told).toMatchObject({ block: ancestor });
    expect(told["hash"]).toMatch(/^0x[0-9a-f]{64}$/);
    await anvil.mine(1);
    await eventually("the token is no longer listed", async () => {
      const page = await service.get(`/api/v2/nft/${nft.address}?limit=500`);
      const ids = page.body.result.map((record: Message) => record["token_id"]);
      return ids.includes("200") ? undefined : true;
    });
    expect(client.messages.filter((message) => message.type === "reorged")).toHaveLength(1);
    expect(client.messages.filter((message) => message.type === "indexed")).toHaveLength(1);
    client.socket.close();
  });

  test("requests an unknown contract and sends progress, failed with the next attempt, then indexed", async () => {
    const other = await deploy(anvil, await contractArtifact("PlainNft"), ["Slow", "SLOW"]);
    await transact(anvil, other.contract, "mintMany", [people()[1] as string, 0n, 20n]);
    await anvil.mine(70);
    let refuse = true;
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: ({ method }) =>
        refuse && method === "eth_getCode" ? { error: { code: -32050, message: "not now" } } : undefined,
    });
    const slow = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    const client = await connect(slow);
    client.send({ action: "subscribe", address: other.address });
    expect(await client.next("status")).toMatchObject({ status: "SYNCING", block: null, percent: 0 });
    const failed = await client.next("failed");
    expect(failed["reason"]).toBeString();
    expect(failed["reason"]).not.toContain("127.0.0.1");
    expect(Date.parse(String(failed["nextTry"]))).toBeGreaterThan(Date.now() - 60_000);
    expect((await slow.get(`/api/v2/nft/${other.address}`)).body.status).toBe("SYNCING");
    refuse = false;
    expect(await client.next("indexed")).toMatchObject({ total: 20 });
    expect(await client.next("progress")).toMatchObject({ blocksLeft: expect.any(Number), transfers: 20 });
    client.socket.close();
    await slow.stop();
    await proxy.stop();
  }, 300_000);

  test("to an address without a contract fails for later clients too, and requests a new identification", async () => {
    const address = `0x${"e7".repeat(20)}`;
    let ahead = 0;
    const clock: Clock = { ...systemClock, now: () => systemClock.now() + ahead };
    const own = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), clock });
    const ask = async () => {
      const client = await connect(own);
      client.send({ action: "subscribe", address });
      return client;
    };
    const first = await ask();
    const failed = await first.next("failed");
    expect(failed).toMatchObject({ chain: "eth", address, code: "not_a_contract", nextTry: null });
    expect((await own.get(`/api/v2/nft/${address}`)).status).toBe(404);
    // It becomes an NFT contract. Before ten minutes have passed it is not identified again.
    const emitter = await contractArtifact("Emitter");
    await anvil.send("anvil_setCode", [address, `0x${emitter.deployedBytecode.replace(/^0x/, "")}`]);
    const contract = contractAt(anvil, address, emitter.abi);
    await transact(anvil, contract, "emitTransfers", [5, 3, `0x${"00".repeat(20)}`, people()[1] as string]);
    await anvil.mine(70);
    const second = await ask();
    expect(await second.next("failed")).toEqual(failed);
    expect(second.messages.map(({ type }) => type)).toEqual(["status", "failed"]);
    expect(second.messages[0]).toMatchObject({ status: "SYNCING", block: null, percent: 0 });
    ahead = 600_000;
    const third = await ask();
    expect(await third.next("indexed")).toMatchObject({ total: 3 });
    expect(third.messages.slice(0, 2).map(({ type }) => type)).toEqual(["status", "failed"]);
    expect(await first.next("indexed")).toMatchObject({ total: 3 });
    for (const { socket } of [first, second, third]) socket.close();
    await own.stop();
  });

  test("with since older than 1,000 versions sends status with gap", async () => {
    const client = await connect();
    client.send({ action: "subscribe", address: nft.address, since: 0 });
    expect(await client.next("status")).not.toHaveProperty("gap");
    client.socket.close();
  });
});

describe("a malformed message is answered with an error", () => {
  const cases: [string, string][] = [
    ["not json", "JSON"],
    ["[]", "object"],
    ["null", "object"],
    ['{"action":"dance"}', "action"],
    ['{"action":"subscribe"}', "address"],
    ['{"action":"subscribe","address":"0x12"}', "address"],
    [`{"action":"subscribe","address":"0x${"a".repeat(40)}","chain":"mars"}`, "chain"],
    [`{"action":"subscribe","address":"0x${"a".repeat(40)}","chain":7}`, "chain"],
    [`{"action":"subscribe","address":"0x${"a".repeat(40)}","chain":"polygon"}`, "not enabled"],
    [`{"action":"subscribe","address":"0x${"a".repeat(40)}","since":-1}`, "since"],
    [`{"action":"subscribe","address":"0x${"a".repeat(40)}","since":"1"}`, "since"],
  ];
  for (const [text, word] of cases) {
    test(text, async () => {
      const client = await connect();
      client.socket.send(text);
      const error = await client.next("error");
      expect(error["message"]).toContain(word);
      expect(["invalid_parameter", "chain_not_enabled"]).toContain(String(error["code"]));
      client.socket.close();
    });
  }

  test("in binary", async () => {
    const client = await connect();
    client.socket.send(Buffer.from([1, 2, 3]));
    expect(await client.next("error")).toMatchObject({ code: "invalid_parameter" });
    client.socket.close();
  });
});

describe("the limit", () => {
  test("on message size closes the connection", async () => {
    const client = await connect();
    client.socket.send("x".repeat(LIMITS.maxSocketMessage + 1));
    expect([1006, 1009]).toContain((await client.closed).code);
  });

  test("on messages per second closes the connection with a reason", async () => {
    const client = await connect();
    for (let i = 0; i <= LIMITS.maxSocketMessagesPerSecond; i++) client.send({ action: "ping" });
    expect(await client.closed).toEqual({ code: 1008, reason: expect.stringContaining("messages in a second") });
  });

  test("on the messages of a key closes connections with a reason, and those of another key continue", async () => {
    const other = "other-key-0123456789";
    const env = { API_KEYS: `${TEST_KEY},${other}`, RATE_LIMIT_PER_MINUTE: "60" };
    const own = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
    // Each stays below the bound of one connection, and 1,080 messages at once are more than a key's thousand.
    const flooding = await Promise.all(Array.from({ length: 27 }, () => connectTo(own)));
    const calm = await connectTo(own, other);
    for (const client of flooding) for (let i = 0; i < 40; i++) client.send({ action: "ping" });
    const reason = expect.stringContaining("all sockets of the key");
    expect(await Promise.race(flooding.map(({ closed }) => closed))).toEqual({ code: 1008, reason });
    calm.send({ action: "ping" });
    await calm.next("pong");
    for (const { socket } of [...flooding, calm]) socket.close();
    await own.stop();
  });

  test("on unread bytes closes a slow reader with a reason, and other clients continue", async () => {
    // Twenty blocks of a thousand transfers with long ids: 80 KB of `transfers` each, replayed at every subscription.
    const emitter = await deploy(anvil, await contractArtifact("Emitter"), []);
    const [from, to] = [people()[1] as string, people()[2] as string];
    const firstId = 10n ** 76n;
    await transact(anvil, emitter.contract, "emitTransfers", [firstId, 1n, from, to]);
    const requested = await synced(service, emitter.address);
    expect(requested.body.result).toHaveLength(1);
    let block = 0;
    for (let i = 0; i < 20; i++) {
      const receipt = await transact(anvil, emitter.contract, "emitTransfers", [firstId, 1_000n, from, to]);
      block = Number(receipt.blockNumber);
      await synced(service, emitter.address, block);
    }
    const good = await connect();
    good.send({ action: "subscribe", address: emitter.address });
    await good.next("indexed");

    const stalled = net.connect(service.port, "127.0.0.1");
    const received: Buffer[] = [];
    const upgraded = new Promise<void>((resolve) => stalled.once("data", () => resolve()));
    const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    const lines = ["GET /api/v2/ws HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade", key];
    stalled.write(`${[...lines, "Sec-WebSocket-Version: 13", `X-API-Key: ${TEST_KEY}`].join("\r\n")}\r\n\r\n`);
    await upgraded;
    stalled.pause();
    const again = { action: "subscribe", address: emitter.address, since: 1 };
    const replays = () => good.messages.filter((message) => message.type === "transfers" && message["block"] === block);
    // The metrics show the close: the number of connections falls to one.
    await eventually("the slow reader is disconnected", async () => {
      // A new subscription ends the replay before it. The next one waits until the other client has received as much.
      const before = replays().length;
      if (!stalled.destroyed) stalled.write(maskedFrame(JSON.stringify(again)));
      good.send(again);
      await eventually(
        "the other client has received another replay",
        async () => replays().length > before || undefined,
      );
      const metrics = await (await service.fetch("/metrics")).text();
      return /^websocket_connections 1$/m.test(metrics) ? true : undefined;
    });
    const ended = new Promise<void>((resolve) => stalled.on("close", () => resolve()));
    stalled.on("data", (data: Buffer) => received.push(data));
    stalled.resume();
    await ended;
    expect(Buffer.concat(received).includes("slow reader")).toBe(true);

    const receipt = await transact(anvil, emitter.contract, "emitTransfers", [firstId, 1n, from, to]);
    const isNew = (message: Message) =>
      message.type === "transfers" && message["block"] === Number(receipt.blockNumber);
    await eventually("the other client receives the new block", async () => good.messages.find(isNew));
    good.socket.close();
  }, 300_000);
});
