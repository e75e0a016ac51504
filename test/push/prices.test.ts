/**
 * Prices over real sockets, on a chain with swaps, forks and pools that come and go. A price that was sent is the price
 * that the API gives right after.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import net from "node:net";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, prepare } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import {
  createV2Pair,
  createV3Pool,
  type Pool,
  removeV3Liquidity,
  swapV2,
  V2_PAIR_ABI,
} from "../../scripts/local-chain/pools.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";
import { connect, type Message, maskedFrame, pongFrame, type SocketClient } from "../support/socket.ts";

const ETHER = 10n ** 18n;
const factory = MAINNET.uniswapV2Factory;

let anvil: Anvil;
let service: TestService;

beforeAll(async () => {
  anvil = await startAnvil();
  await placeMainnet(anvil);
  const dollars = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(anvil, { factory, ...dollars });
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const newToken = async (name = "Moving") =>
  (await deploy(anvil, await contractArtifact("TestToken"), [name, "MOVE", 18])).address.toLowerCase();

/** A token at $10 with one pair: 10 ether for 3,000 tokens. */
async function sold(): Promise<{ token: string; pool: Pool }> {
  const token = await newToken();
  const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: token, amountB: 3_000n * ETHER };
  return { token, pool: await createV2Pair(anvil, { factory, ...amounts }) };
}
const buy = (pool: Pool, ether: bigint) =>
  swapV2(anvil, { pool: pool.address, tokenIn: MAINNET.weth, amountIn: ether });

const priceOf = async (token: string, of = service) =>
  (await of.get(`/api/v2/erc20/${token}/price?include=provenance`)).body;
const pricesIn = ({ messages }: SocketClient) => messages.filter(({ type }) => type === "price");

/** Resolves once the service shows a block, and what it tells of it has been sent. */
async function shown(client: SocketClient, block?: number): Promise<void> {
  const wanted = block ?? Number(await anvil.send("eth_blockNumber"));
  await eventually(`block ${wanted} is shown`, async () => {
    const { headers } = await service.get(`/api/v2/erc20/${MAINNET.weth}/price`);
    return Number(headers.get("x-as-of-block")) >= wanted ? true : undefined;
  });
  // The answer to a ping comes after the messages before it.
  for (let round = 0; round < 3; round++) {
    const pongs = client.messages.filter(({ type }) => type === "pong").length;
    client.send({ action: "ping" });
    await client.next("pong", pongs);
  }
}

describe("a subscription to a token", () => {
  test("sends status, the present price, and each change that the API shows by then", async () => {
    const { token, pool } = await sold();
    const client = await connect(service);
    client.send({ action: "subscribe", chain: "eth", token });
    const first = await client.next("price");
    expect(client.messages.map(({ type }) => type)).toEqual(["status", "price"]);
    expect(client.messages[0]).toMatchObject({ chain: "eth", token, limits: { subscriptionsPerConnection: 256 } });
    const record = await priceOf(token);
    expect(first).toEqual({
      ...{ type: "price", chain: "eth", token, block: Number(record.toBlock) },
      hash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      ...{ usdPrice: 10, nativePrice: record.nativePrice, confidence: record.provenance.confidence },
      resume: expect.stringMatching(/^\d+\./),
    });
    for (let swap = 1; swap <= 3; swap++) {
      await buy(pool, ETHER);
      const price = await client.next("price", swap);
      const now = await priceOf(token);
      expect([price["usdPrice"], price["nativePrice"]]).toEqual([now.usdPrice, now.nativePrice]);
      expect(String(price["block"])).toBe(now.toBlock);
      expect(now.usdPrice).toBeGreaterThan(10);
    }
    // Blocks without a change, and a change of another token, tell nothing.
    const before = pricesIn(client).length;
    await anvil.mine(3);
    await buy((await sold()).pool, ETHER);
    await shown(client);
    expect(pricesIn(client).length).toBe(before);
    client.send({ action: "unsubscribe", token });
    expect(await client.next("unsubscribed")).toEqual({ type: "unsubscribed", chain: "eth", token });
    await buy(pool, ETHER);
    await shown(client);
    expect(pricesIn(client).length).toBe(before);
    client.socket.close();
  });

  test("with minChangePercent sends a move against the last price that was sent, once it is large enough", async () => {
    const { token, pool } = await sold();
    const client = await connect(service);
    client.send({ action: "subscribe", token, minChangePercent: 5.5 });
    await client.next("price");
    const all = await connect(service);
    all.send({ action: "subscribe", token });
    await all.next("price");
    // Each swap moves the price by about two per cent.
    for (let swap = 1; swap <= 6; swap++) {
      await buy(pool, ETHER / 10n);
      await all.next("price", swap);
    }
    await shown(client);
    const sent = pricesIn(client).map(({ usdPrice }) => usdPrice as number);
    const every = pricesIn(all).map(({ usdPrice }) => usdPrice as number);
    let last = every[0]!;
    const expected = every.filter((usd, at) => {
      if (at > 0 && Math.abs(usd / last - 1) < 0.055) return false;
      last = usd;
      return true;
    });
    expect(sent).toEqual(expected);
    expect([every.length, sent.length]).toEqual([7, 3]);
    for (const { socket } of [client, all]) socket.close();
  });

  test("gives the reason when the price is lost, and the price once there is one again", async () => {
    const token = await newToken();
    const client = await connect(service);
    client.send({ action: "subscribe", token });
    expect(await client.next("price")).toMatchObject({
      ...{ usdPrice: null, nativePrice: null, confidence: null },
      reason: { code: "no_pool", message: "No pools found with enough liquidity, to calculate the price" },
    });
    const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: token, amountB: 3_000n * ETHER };
    const position = await createV3Pool(anvil, { ...amounts, fee: 3_000 });
    // The pool comes blocks before its liquidity. A follower that sees such a block says that it is empty.
    let sent = 1;
    let priced = await client.next("price", sent++);
    for (; priced["usdPrice"] === null; priced = await client.next("price", sent++)) {
      expect(priced["reason"]).toMatchObject({ code: "low_liquidity" });
    }
    expect(priced["usdPrice"]).toBeCloseTo(10, 6);
    expect(priced).not.toHaveProperty("reason");
    await removeV3Liquidity(anvil, position);
    const lost = await client.next("price", sent++);
    expect(lost).toMatchObject({ usdPrice: null, confidence: null, reason: { code: "low_liquidity" } });
    expect((await priceOf(token)).code).toBe("low_liquidity");
    await anvil.mine(2);
    await createV2Pair(anvil, { factory, ...amounts });
    expect(await client.next("price", sent++)).toMatchObject({ usdPrice: 10 });
    expect(pricesIn(client).length).toBe(sent);
    client.socket.close();
  });

  const hashOf = async (block: unknown) =>
    ((await anvil.send("eth_getBlockByNumber", [`0x${Number(block).toString(16)}`, false])) as { hash: string }).hash;

  test("gives the price at the new block after a reorganisation", async () => {
    const { token, pool } = await sold();
    const client = await connect(service);
    client.send({ action: "subscribe", token });
    await client.next("price");
    await buy(pool, 5n * ETHER);
    const swapped = await client.next("price", 1);
    expect(swapped["usdPrice"]).toBeGreaterThan(20);
    // The deposit and the swap are gone.
    const pair = contractAt(anvil, pool.address, V2_PAIR_ABI);
    await reorg(anvil, 4, [{ block: 1, from: anvil.accounts[0]!, ...(await prepare(pair, "sync")) }]);
    const back = await eventually("the price is back", async () =>
      pricesIn(client)
        .slice(2)
        .find(({ usdPrice }) => usdPrice === 10),
    );
    expect(back["hash"]).toBe(await hashOf(back["block"]));
    expect((await priceOf(token)).usdPrice).toBe(10);
    client.socket.close();
  });

  test("gives the same price once more if the block that it was of has left the chain", async () => {
    const { token } = await sold();
    await anvil.mine(1);
    const client = await connect(service);
    client.send({ action: "subscribe", token, minChangePercent: 50 });
    const first = await client.next("price");
    await shown(client);
    await reorg(anvil, 1);
    await anvil.mine(1);
    const again = await client.next("price", 1);
    expect([again["usdPrice"], again["hash"] === first["hash"]]).toEqual([10, false]);
    expect(again["hash"]).toBe(await hashOf(again["block"]));
    // A fork above that block tells nothing new.
    await anvil.mine(2);
    await shown(client);
    const before = pricesIn(client).length;
    await reorg(anvil, 1);
    await anvil.mine(1);
    await shown(client);
    expect(pricesIn(client).length).toBe(before);
    client.socket.close();
  });

  test("goes on with since from the present price alone", async () => {
    const { token, pool } = await sold();
    const client = await connect(service);
    client.send({ action: "subscribe", token });
    const { resume } = await client.next("price");
    for (let swap = 1; swap <= 3; swap++) {
      await buy(pool, ETHER);
      await client.next("price", swap);
    }
    client.socket.close();
    const later = await connect(service);
    later.send({ action: "subscribe", token, since: resume });
    const present = await later.next("price");
    await shown(later);
    expect(pricesIn(later)).toEqual([present]);
    expect(present["usdPrice"]).toBe((await priceOf(token)).usdPrice);
    later.socket.close();
  });
});

describe("the feed", () => {
  test("keeps no queue for a client that does not read: it gets the latest price", async () => {
    const { token, pool } = await sold();
    const good = await connect(service);
    good.send({ action: "subscribe", token });
    await good.next("price");
    const slow = await rawClient();
    slow.send({ action: "subscribe", token });
    await eventually("the first price", async () => slow.messages().find(({ type }) => type === "price"));
    slow.pause();
    for (let swap = 1; swap <= 12; swap++) {
      await buy(pool, ETHER / 10n);
      await good.next("price", swap);
    }
    const latest = pricesIn(good).at(-1)!;
    slow.resume();
    await eventually("the latest price", async () =>
      slow.messages().find(({ usdPrice }) => usdPrice === latest["usdPrice"]),
    );
    // The first one, at most one that was on its way, and the latest.
    expect(slow.messages().filter(({ type }) => type === "price").length).toBeLessThanOrEqual(3);
    slow.end();
    good.socket.close();
  });

  test("prices a token once a block for all its subscribers, and many tokens in one read", async () => {
    const proxy = await startRpcProxy(anvil.url);
    const own = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    const markets = [await sold(), await sold(), await sold()];
    const clients: SocketClient[] = [];
    const subscribe = async () => {
      const client = await connect(own);
      for (const { token } of markets) client.send({ action: "subscribe", token });
      await client.next("price", 2);
      clients.push(client);
    };
    /** Calls for state of the node by block, while a price moves. */
    const costs = async () => {
      await eventually("the head is followed", async () => {
        const answers = await Promise.all(markets.map(({ token }) => own.get(`/api/v2/erc20/${token}/price`)));
        const head = await anvil.send("eth_blockNumber");
        return answers.every(({ body }) => Number(body.toBlock) === Number(head)) ? true : undefined;
      });
      proxy.reset();
      const from = Number(await anvil.send("eth_blockNumber"));
      const moved = clients.map((client) => client.next("price", pricesIn(client).length));
      await buy(markets[0]!.pool, ETHER / 10n);
      await Promise.all(moved);
      return proxy.count("eth_call") / (Number(await anvil.send("eth_blockNumber")) - from);
    };
    await subscribe();
    expect(await costs()).toBeLessThanOrEqual(1);
    for (let more = 0; more < 30; more++) await subscribe();
    expect(await costs()).toBeLessThanOrEqual(1);
    const counts = new Set(clients.slice(1).map((client) => pricesIn(client).length));
    expect([...counts]).toEqual([4]);
    for (const { socket } of clients) socket.close();
    await own.stop();
    await proxy.stop();
  }, 300_000);

  test("follows the chain at each block although FOLLOW_EVERY says otherwise", async () => {
    const env = { FOLLOW_EVERY_ETH: "120" };
    const rare = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
    const { token, pool } = await sold();
    const client = await connect(rare);
    client.send({ action: "subscribe", token });
    await client.next("price");
    for (let swap = 1; swap <= 2; swap++) {
      await buy(pool, ETHER);
      await client.next("price", swap);
    }
    client.socket.close();
    await rare.stop();
  });

  test("says that the chain can't be read, and gives the price once it can", async () => {
    let isDown = true;
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: () => (isDown ? { error: { code: -32_050, message: "not now" } } : undefined),
    });
    const own = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    const { token } = await sold();
    const client = await connect(own);
    client.send({ action: "subscribe", token });
    expect(await client.next("price")).toMatchObject({ usdPrice: null, reason: { code: "chain_unavailable" } });
    isDown = false;
    expect(await client.next("price", 1)).toMatchObject({ usdPrice: 10 });
    client.socket.close();
    await own.stop();
    await proxy.stop();
  }, 300_000);

  test("ends the search for a token's pools with the last subscriber", async () => {
    const token = await newToken();
    await anvil.mine(700);
    const held = Promise.withResolvers<void>();
    let searches = 0;
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: ({ method, params }) => {
        const [{ fromBlock, toBlock, topics = [] } = {}] = params as [Record<string, string>?];
        if (method !== "eth_getLogs" || topics.length < 2) return undefined;
        if (Number(toBlock) - Number(fromBlock) >= 20)
          return { error: { code: -32_602, message: "limited to a 20 range" } };
        // Enough for a part of the search.
        return ++searches > 30 ? { delayUntil: held.promise } : undefined;
      },
    });
    const own = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    const client = await connect(own);
    client.send({ action: "subscribe", token });
    expect(await client.next("price")).toMatchObject({ reason: { code: "searching" } });
    const before = searches;
    await anvil.mine();
    await eventually("the next head's read goes on with the search", async () => searches > before || undefined);
    client.socket.close();
    await eventually("the socket is closed", async () =>
      /^websocket_connections 0$/m.test(await (await own.fetch("/metrics")).text()) ? true : undefined,
    );
    const atEnd = searches;
    held.resolve();
    await anvil.mine();
    await eventually("a later block is shown", async () => {
      const { body } = await own.get(`/api/v2/erc20/${MAINNET.weth}/price`);
      return Number(body.toBlock) >= Number(await anvil.send("eth_blockNumber")) ? true : undefined;
    });
    expect(searches).toBe(atEnd);
    await own.stop();
    await proxy.stop();
  }, 300_000);

  test("sends the same prices on two replicas", async () => {
    const logUrl = await (await sharedPostgres()).createDatabase();
    const replicas = [
      await startTestService({ rpcUrl: anvil.url, logUrl }),
      await startTestService({ rpcUrl: anvil.url, logUrl }),
    ];
    const { token, pool } = await sold();
    const clients = await Promise.all(replicas.map((replica) => connect(replica)));
    for (const client of clients) client.send({ action: "subscribe", token });
    for (const client of clients) await client.next("price");
    for (let swap = 1; swap <= 3; swap++) {
      await buy(pool, ETHER);
      const told = await Promise.all(clients.map((client) => client.next("price", swap)));
      expect(told[1]).toEqual(told[0]!);
    }
    for (const { socket } of clients) socket.close();
    await Promise.all(replicas.map((replica) => replica.stop()));
  }, 300_000);
});

describe("the channel", () => {
  test("refuses what is no token with its code, and a malformed message by its field", async () => {
    const account = anvil.accounts[3]!.toLowerCase();
    const { address } = await deploy(anvil, await contractArtifact("PlainNft"), ["N", "N"]);
    const nft = address.toLowerCase();
    const cases: [object, object, string][] = [
      [{ token: account }, { token: account, code: "not_a_token" }, "is an account without code"],
      [{ token: nft }, { token: nft, code: "not_a_token" }, "is an NFT contract (ERC-721)"],
      [{ token: account, chain: "polygon" }, { chain: "polygon", code: "chain_not_enabled" }, "not enabled"],
      [{ token: account, chain: "mars" }, { chain: "mars", code: "invalid_parameter" }, "chain"],
      [{ token: "0x12" }, { token: "0x12", code: "invalid_parameter" }, "token: must be 0x"],
      [{ token: 7 }, { code: "invalid_parameter" }, "token: must be 0x"],
      [{ token: account, address: account }, { code: "invalid_parameter" }, "together with address"],
      [{ token: account, since: "x" }, { code: "invalid_parameter" }, "since"],
      [{ token: account, minChangePercent: 101 }, { code: "invalid_parameter" }, "minChangePercent"],
      [{ token: account, minChangePercent: -1 }, { code: "invalid_parameter" }, "minChangePercent"],
      [{ token: account, minChangePercent: "5" }, { code: "invalid_parameter" }, "minChangePercent"],
    ];
    for (const [message, about, text] of cases) {
      const client = await connect(service);
      client.send({ action: "subscribe", ...message });
      const error = await client.next("error");
      expect(error).toMatchObject({ type: "error", ...about });
      expect(error["message"]).toContain(text);
      expect(pricesIn(client)).toEqual([]);
      client.socket.close();
    }
  });

  test("counts subscriptions to prices in the limits of the connection and of the key", async () => {
    const env = { SUBSCRIPTIONS_PER_KEY: "2" };
    const own = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
    const { token } = await sold();
    const client = await connect(own);
    for (const one of [token, MAINNET.weth, MAINNET.usdc]) client.send({ action: "subscribe", token: one });
    expect(await client.next("error")).toMatchObject({ code: "rate_limited", token: MAINNET.usdc.toLowerCase() });
    client.send({ action: "unsubscribe", token });
    await client.next("unsubscribed");
    client.send({ action: "subscribe", token: MAINNET.usdc });
    await client.next("price", 1);
    client.socket.close();
    await own.stop();
  });

  test("closes the socket of a key that is revoked", async () => {
    const operator = "operator-key-of-prices";
    const env = { OPERATOR_KEYS: operator };
    const own = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
    const headers = { "x-api-key": operator, "content-type": "application/json" };
    const body = JSON.stringify({ name: "desk" });
    const { key } = (await (await own.fetch("/api/keys", { method: "POST", headers, body })).json()) as { key: string };
    const { token, pool } = await sold();
    const client = await connect(own, key);
    client.send({ action: "subscribe", token });
    await client.next("price");
    await own.fetch("/api/keys/desk", { method: "DELETE", headers });
    expect(await client.closed).toMatchObject({ code: 1008 });
    await buy(pool, ETHER);
    expect(pricesIn(client).length).toBe(1);
    await own.stop();
  });
});

/** A client over a plain socket. It answers pings while it reads, as clients do. */
async function rawClient() {
  const socket = net.connect(service.port, "127.0.0.1");
  const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
  const lines = ["GET /api/v2/ws HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade", key];
  const texts: string[] = [];
  let left = Buffer.alloc(0);
  const upgraded = new Promise<void>((resolve) => socket.once("data", () => resolve()));
  socket.write(`${[...lines, "Sec-WebSocket-Version: 13", `X-API-Key: ${TEST_KEY}`].join("\r\n")}\r\n\r\n`);
  await upgraded;
  socket.on("data", (data) => {
    left = Buffer.concat([left, data as Buffer]);
    for (;;) {
      const short = (left[1] ?? 0) & 127;
      const start = short === 126 ? 4 : 2;
      if (left.length < start) return;
      const end = start + (short === 126 ? left.readUInt16BE(2) : short);
      if (left.length < end) return;
      const payload = left.subarray(start, end);
      const opcode = left[0]! & 15;
      left = left.subarray(end);
      if (opcode === 1) texts.push(payload.toString());
      if (opcode === 9) socket.write(pongFrame(payload));
    }
  });
  return {
    messages: () => texts.map((text) => JSON.parse(text) as Message),
    send: (message: object) => socket.write(maskedFrame(JSON.stringify(message))),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    end: () => socket.destroy(),
  };
}
