/**
 * What keys pay for over sockets: each message takes from the rate, work ends with its socket, and a head's prices are
 * charged to the keys of the subscribers. A chain, a service and sockets are real.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair, type Pool, swapV2 } from "../../scripts/local-chain/pools.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";
import { connect, type SocketClient } from "../support/socket.ts";

const ETHER = 10n ** 18n;
const factory = MAINNET.uniswapV2Factory;
const OPERATOR = "operator-key-0123456789";
const SECOND = "second-key-0123456789";

let anvil: Anvil;
let proxy: RpcProxy;

beforeAll(async () => {
  anvil = await startAnvil();
  await placeMainnet(anvil);
  const dollars = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(anvil, { factory, ...dollars });
  proxy = await startRpcProxy(anvil.url);
}, 300_000);
afterAll(async () => {
  await proxy?.stop();
  await anvil?.stop();
});

const start = (env: Record<string, string> = {}): Promise<TestService> =>
  startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env });

/** A token with one pair: 10 ether for 3,000 tokens. */
async function sold(): Promise<{ token: string; pool: Pool }> {
  const { address } = await deploy(anvil, await contractArtifact("TestToken"), ["Paid", "PAID", 18]);
  const token = address.toLowerCase();
  const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: token, amountB: 3_000n * ETHER };
  return { token, pool: await createV2Pair(anvil, { factory, ...amounts }) };
}
const buy = (pool: Pool) => swapV2(anvil, { pool: pool.address, tokenIn: MAINNET.weth, amountIn: ETHER / 10n });

const ofType = ({ messages }: SocketClient, type: string) => messages.filter((message) => message.type === type);

describe("a key of 60 requests a minute", () => {
  const COUNT = 100;
  const RATE = 60;

  test("has 100 subscriptions accepted only as far as its rate goes, and its socket stays open", async () => {
    const service = await start({ RATE_LIMIT_PER_MINUTE: String(RATE) });
    const began = performance.now();
    // A connection takes 50 messages a second.
    const clients = await Promise.all(Array.from({ length: 4 }, () => connect(service)));
    for (let at = 0; at < COUNT; at++) {
      const token = `0x${(at + 1).toString(16).padStart(40, "b")}`;
      clients[at % clients.length]!.send({ action: "subscribe", token });
    }
    const all = (type: string) => clients.flatMap((client) => ofType(client, type));
    const refusals = () => all("error").filter(({ code }) => code === "rate_limited");
    await eventually("each subscription is answered", async () =>
      all("status").length + refusals().length === COUNT ? true : undefined,
    );
    const refilled = Math.ceil(((performance.now() - began) / 60_000) * RATE);
    // Each connection has taken one request.
    expect(all("status").length).toBeLessThanOrEqual(RATE - clients.length + refilled);
    expect(all("status").length).toBeGreaterThan(0);
    const { chain, token, message } = refusals()[0]!;
    expect([chain, token]).toEqual(["eth", expect.stringMatching(/^0xb+/)]);
    expect(message).toMatch(/^the key API_KEYS#1 has 60 requests a minute, .+: try again in \d+ s$/);
    // Beyond the rate a message with a fault gets the same answer. The end of a subscription and a ping need no rate.
    const [client] = clients;
    // A second's request may have been refilled meanwhile.
    for (let at = 0; at < 20; at++) client!.send("nonsense");
    client!.send({ action: "unsubscribe", token });
    client!.send({ action: "ping" });
    await client!.next("pong");
    await client!.next("unsubscribed");
    expect(ofType(client!, "error").at(-1)).toMatchObject({ code: "rate_limited", message: expect.any(String) });
    for (const { socket } of clients) socket.close();
    await service.stop();
  });

  test("is refused over HTTP once its subscriptions have spent the rate", async () => {
    const service = await start({ RATE_LIMIT_PER_MINUTE: "5" });
    const client = await connect(service);
    for (let at = 0; at < 4; at++) client.send({ action: "subscribe", token: `0x${String(at).repeat(40)}` });
    // The work of the first ones may have spent the rate of the last one.
    await eventually("each is answered", async () =>
      ofType(client, "status").length + ofType(client, "error").length === 4 ? true : undefined,
    );
    expect((await service.get(`/api/v2/nft/${MAINNET.weth}`)).status).toBe(429);
    client.socket.close();
    await service.stop();
  });
});

test("a question that is not answered yet has paid for its calls so far, so that many at once run up no debt", async () => {
  const service = await start({ RATE_LIMIT_PER_MINUTE: "10" });
  const { token } = await sold();
  proxy.reset();
  const asked = service.fetch(`/api/v2/erc20/${token}/price?include=percent_change,provenance,pair,depth`);
  await proxy.called(35);
  proxy.pause();
  const statuses: number[] = [];
  for (let at = 0; at < 8; at++) statuses.push((await service.get("/api/tokens?limit=1")).status);
  // Its request and three for its calls are taken. One more may have been refilled.
  expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(7);
  expect(statuses.at(-1)).toBe(429);
  proxy.resume();
  expect([200, 429]).toContain((await asked).status);
  await service.stop();
});

describe("after its socket is closed", () => {
  test("a subscription's first answer goes on with no call, and its token is read at no further head", async () => {
    const service = await start();
    const { token, pool } = await sold();
    const leaving = await connect(service);
    proxy.reset();
    proxy.pause();
    leaving.send({ action: "subscribe", token });
    await leaving.next("status");
    await proxy.called(1);
    leaving.socket.close();
    await leaving.closed;
    await eventually("the service has closed it", async () =>
      /^websocket_connections 0$/m.test(await (await service.fetch("/metrics")).text()) ? true : undefined,
    );
    proxy.resume();
    // Another client's price needs the same reads, which are its own.
    const staying = await connect(service);
    await eventually("the head is followed", async () => (proxy.count("eth_getBlockByNumber") > 1 ? true : undefined));
    // The second read of a first price is pinned to the block of the first one. Calls of the first one may be on their way.
    expect(proxy.calls.filter(({ method, params }) => method === "eth_call" && params[1] !== "latest")).toEqual([]);
    staying.send({ action: "subscribe", token });
    await staying.next("price");
    await buy(pool);
    await staying.next("price", 1);
    staying.socket.close();
    await staying.closed;
    await eventually("the service has closed it", async () =>
      /^websocket_connections 0$/m.test(await (await service.fetch("/metrics")).text()) ? true : undefined,
    );
    // The read of a head that had begun ends with the next one.
    for (let block = 0; block < 2; block++) {
      const polls = proxy.count("eth_getBlockByNumber");
      await buy(pool);
      await eventually("the block is followed", async () =>
        proxy.count("eth_getBlockByNumber") > polls + 1 ? true : undefined,
      );
    }
    proxy.reset();
    for (let block = 0; block < 5; block++) {
      const polls = proxy.count("eth_getBlockByNumber");
      await buy(pool);
      await eventually("the block is followed", async () =>
        proxy.count("eth_getBlockByNumber") > polls + 1 ? true : undefined,
      );
    }
    const calls = proxy.calls.filter(({ method }) => method === "eth_call");
    expect(calls).toEqual([]);
    await service.stop();
  }, 300_000);
});

describe("the costs of a head's prices", () => {
  test("are shared by the keys of the subscribers, and GET /api/keys shows them", async () => {
    const service = await start({ API_KEYS: `${TEST_KEY},${SECOND}`, OPERATOR_KEYS: OPERATOR });
    const { token, pool } = await sold();
    const own = await sold();
    const first = await connect(service);
    const second = await connect(service, SECOND);
    for (const client of [first, second]) {
      client.send({ action: "subscribe", token });
      await client.next("price");
    }
    // The first key's second token makes three quarters of the cost its own.
    first.send({ action: "subscribe", token: own.token });
    await first.next("price", 1);
    const callsOf = async (): Promise<[number, number]> => {
      const { body } = await service.get("/api/keys", { "x-api-key": OPERATOR });
      const calls = ["API_KEYS#1", "API_KEYS#2"].map(
        (name) => body.result.find((key: { name: string }) => key.name === name).cost.calls.hour,
      );
      return calls as [number, number];
    };
    const before = await callsOf();
    const BLOCKS = 30;
    for (let block = 1; block <= BLOCKS; block++) {
      await buy(pool);
      await second.next("price", block);
    }
    const after = await callsOf();
    const [more, less] = [after[0] - before[0], after[1] - before[1]];
    // A head takes one call of all tokens and the factories' logs.
    expect(less).toBeGreaterThanOrEqual(BLOCKS / 4 - 1);
    expect(more / less).toBeGreaterThan(2);
    expect(more / less).toBeLessThan(4);
    for (const { socket } of [first, second]) socket.close();
    await service.stop();
  }, 300_000);
});
