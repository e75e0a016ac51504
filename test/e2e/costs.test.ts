/**
 * What questions cost their keys, and what the service still does for clients that are gone, over real sockets and a proxy
 * that counts what the node is asked.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import WebSocket from "ws";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { recordingLogger, WARN } from "../support/logged.ts";
import { type LocalChain, startLocalChain } from "../support/prices/anvil.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  type Answer,
  type Body,
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";
import { connect as socketTo } from "../support/socket.ts";

const ADMIN = "admin-key-0123456789";
const OTHER = "other-key-0123456789";
const asAdmin = { "x-api-key": ADMIN };
const env = { API_KEYS: `${TEST_KEY},${OTHER}`, OPERATOR_KEYS: ADMIN, METRICS_KEY: "metrics-key-1" };
const METRICS = { authorization: "Bearer metrics-key-1" };
const ETHER = 10n ** 18n;
const CLIENTS = 20;
const BATCH = 100;

let chain: LocalChain;
let proxy: RpcProxy;
let nft: Deployed;
beforeAll(async () => {
  chain = await startLocalChain();
  const { anvil } = chain;
  const usd = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...usd });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Costs", "C"]);
  for (let id = 1; id <= 40; id++) await transact(anvil, nft.contract, "mint", [anvil.accounts[1], BigInt(id)]);
  // So that the blocks of the transfers are final, and their headers not in memory.
  await anvil.mine(300);
  proxy = await startRpcProxy(anvil.url);
});
afterAll(async () => {
  await proxy?.stop();
  await chain?.anvil.stop();
});

const start = (own: Record<string, string> = {}, more: Partial<Parameters<typeof startTestService>[0]> = {}) =>
  startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env: { ...env, ...own }, ...more });

const random = (n: number): string => `0x${(0xabcdn * 2n ** 140n + BigInt(n)).toString(16).padStart(40, "0")}`;

async function connected(service: TestService): Promise<Socket> {
  const socket = connect(service.port, "127.0.0.1");
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return socket;
}

/** The value of a metric's sample, with these labels among its own; 0 if there is none. */
async function metric(service: TestService, name: string, labels: Readonly<Record<string, string>>): Promise<number> {
  const text = await (await service.fetch("/metrics", { headers: METRICS })).text();
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`));
  return lines
    .filter((line) => wanted.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

const answered = (service: TestService, status: number) =>
  metric(service, "http_request_duration_seconds_count", { status: String(status) });

describe("clients that are gone", () => {
  test("within their request's body are 499, and no failure of the service", async () => {
    const { logger, lines } = recordingLogger("info");
    const service = await start({}, { logger });
    try {
      const head = `POST /api/v2/erc20/prices HTTP/1.1\r\nhost: x\r\nx-api-key: ${TEST_KEY}\r\ncontent-length: 5000\r\n\r\n`;
      const sockets = await Promise.all(Array.from({ length: CLIENTS }, () => connected(service)));
      for (const socket of sockets) socket.write(`${head}{"tokens":[`);
      // The route has taken the requests once their keys have paid for them.
      await eventually("the requests have arrived", async () => {
        const { body } = await service.get("/api/keys", asAdmin);
        return body.result.find(({ name }: Body) => name === "API_KEYS#1").requestsToday >= CLIENTS ? true : undefined;
      });
      for (const socket of sockets) socket.destroy();
      await eventually("they are counted", async () => ((await answered(service, 499)) === CLIENTS ? true : undefined));
      expect(await answered(service, 500)).toBe(0);
      expect(lines.filter(({ level }) => level > WARN)).toEqual([]);
    } finally {
      await service.stop();
    }
  });

  test("while the node is waited for have it asked no more, and others are served", async () => {
    const service = await start();
    try {
      const warm = await chain.token();
      const pair = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: warm, amountB: 1_000n * ETHER };
      await createV2Pair(chain.anvil, { factory: MAINNET.uniswapV2Factory, ...pair });
      expect((await service.get(`/api/v2/erc20/${warm}/price`)).status).toBe(200);
      const tokens = await Promise.all(Array.from({ length: 4 }, () => chain.token()));
      proxy.reset();
      proxy.pause();
      const clients = tokens.map(() => new AbortController());
      const asking = tokens.map((token, at) =>
        service
          .fetch(`/api/v2/erc20/${token}/price?include=percent_change,depth`, { signal: clients[at]!.signal })
          .then(
            () => "answered",
            () => "gone",
          ),
      );
      await proxy.called(tokens.length, "eth_call");
      for (const client of clients) client.abort();
      expect(await Promise.all(asking)).toEqual(tokens.map(() => "gone"));
      await eventually("the service knows", async () =>
        (await answered(service, 499)) === tokens.length ? true : undefined,
      );
      await expectNoMoreCalls(service, tokens);
    } finally {
      proxy.resume();
      await service.stop();
    }
  });

  test("from the price of a token whose first read runs have the node asked no more, though their sockets stay", async () => {
    const service = await start();
    const socket = await socketTo(service);
    try {
      const [first, ...tokens] = await Promise.all(Array.from({ length: 5 }, () => chain.token()));
      expect((await service.get(`/api/v2/erc20/${first}/price`)).status).toBe(404);
      const change = (action: string) => {
        for (const token of tokens) socket.send({ action, chain: "eth", token });
      };
      proxy.reset();
      proxy.pause();
      change("subscribe");
      await eventually("the node is asked about all", async () =>
        tokens.every((token) => callsAbout([token]) > 0) ? true : undefined,
      );
      change("unsubscribe");
      await socket.next("unsubscribed", tokens.length - 1);
      await expectNoMoreCalls(service, tokens);
      expect(socket.messages.map(({ type }) => type)).not.toContain("error");
    } finally {
      proxy.resume();
      socket.socket.close();
      await service.stop();
    }
  });
});

/** Releases the node, and expects it to be asked about other tokens only. */
async function expectNoMoreCalls(service: TestService, tokens: readonly string[]): Promise<void> {
  const others = await Promise.all(Array.from({ length: 3 }, () => chain.token()));
  const ask = (token: string) => service.get(`/api/v2/erc20/${token}/price`, { "x-api-key": OTHER });
  const asking = ask(others[0]!);
  // Calls that were on their way have arrived by then.
  await eventually("another client's calls arrive", async () => (callsAbout(others) > 0 ? true : undefined));
  const before = callsAbout(tokens);
  proxy.resume();
  const answers = [await asking, await ask(others[1]!), await ask(others[2]!)];
  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
  expect(callsAbout(tokens)).toBe(before);
}

/** Calls of the node that name any of the tokens. */
function callsAbout(tokens: readonly string[]): number {
  const wanted = tokens.map((token) => token.slice(2).toLowerCase());
  return proxy.calls.filter(({ params }) => wanted.some((one) => JSON.stringify(params).includes(one))).length;
}

test("a collection that twenty requests have indexed anew at once begins anew once", async () => {
  // Holds the append until all requests have arrived.
  const gate = Promise.withResolvers<void>();
  const service = await start({}, { openLog: (...args) => openLog(...args).then((log) => holding(log, gate.promise)) });
  try {
    await synced(service, nft.address);
    const path = `/api/collections/eth/${nft.address}`;
    const versions: number[] = [];
    const socket = new WebSocket(service.socketUrl, { headers: asAdmin });
    await new Promise((resolve) => socket.on("open", resolve));
    socket.on("message", (data) => void versions.push(JSON.parse(String(data)).version));
    socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address: nft.address }));
    await eventually("it is subscribed", async () => versions[0]);
    const counted = async () => metric(service, "log_events_appended_total", { type: "ReindexRequested" });
    const before = await counted();
    const requests = async () => (await service.get("/api/keys", asAdmin)).body.result.at(-1).requestsToday as number;
    const earlier = await requests();
    let looks = 0;
    const asking = Array.from({ length: CLIENTS }, () =>
      service.fetch(`${path}/reindex`, { method: "POST", headers: asAdmin }),
    );
    await eventually("all have arrived", async () => {
      // Each look is a request itself.
      looks++;
      return (await requests()) - looks >= earlier + CLIENTS ? true : undefined;
    });
    gate.resolve();
    const answers = await Promise.all(asking);
    const bodies = await Promise.all(answers.map((one) => one.json() as Promise<Body>));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(new Set(bodies.map(({ before: status }) => status))).toEqual(new Set([bodies[0].before]));
    expect((await counted()) - before).toBe(1);
    socket.close();
  } finally {
    await service.stop();
  }
});

/** A log that appends a request for indexing anew once `held` resolves. */
const holding = (log: EventLog, held: Promise<void>): EventLog =>
  new Proxy(log, {
    get: (target, name) => {
      const value = Reflect.get(target, name, target);
      if (name !== "append") return typeof value === "function" ? value.bind(target) : value;
      return async (append: Parameters<EventLog["append"]>[0]) => {
        if (append.events.some(({ type }) => type === "ReindexRequested")) await held;
        return target.append(append);
      };
    },
  });

/** The requests that are left of a key's rate, as an answer tells it. */
function leftIn({ headers }: Pick<Answer, "headers">): number {
  const left = /;r=(\d+)/.exec(headers.get("ratelimit") ?? "")?.[1];
  return Number(left);
}

describe("a key's rate", () => {
  const batch = (service: TestService, tokens: readonly string[], key = TEST_KEY) =>
    service.fetch("/api/v2/erc20/prices?include=errors", {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify({ tokens: tokens.map((token_address) => ({ token_address })) }),
    });

  test("pays for a batch by its items, at once, and is 429 if it lacks them", async () => {
    const service = await start({ RATE_LIMIT_PER_MINUTE: "150" });
    try {
      const first = await service.get("/api/v2/erc20/prices", asAdmin);
      expect(first.status).toBe(405);
      const tokens = Array.from({ length: BATCH }, (_, n) => random(n));
      const answer = await batch(service, tokens);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("ratelimit-policy")).toMatch(/;q=150;w=60/);
      // Calls of the node are charged on top, when the question ends.
      expect(leftIn(answer)).toBeLessThanOrEqual(150 - BATCH + 1);
      const refused = await batch(service, tokens);
      expect([refused.status, ((await refused.json()) as Body).code]).toEqual([429, "rate_limited"]);
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
      // Another key has its own.
      expect((await batch(service, tokens, OTHER)).status).toBe(200);
    } finally {
      await service.stop();
    }
  });

  test("has room for a batch of more than a minute's requests, and its Retry-After is enough for a batch", async () => {
    let aheadMs = 0;
    const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs };
    const service = await start({ RATE_LIMIT_PER_MINUTE: "50" }, { clock });
    try {
      const tokens = Array.from({ length: BATCH }, (_, n) => random(n));
      const whole = await batch(service, tokens);
      expect([whole.status, leftIn(whole)]).toEqual([200, 0]);
      // The first refusal is of the question itself, the second one of its items.
      const statuses: number[] = [];
      while (statuses.length < 3) {
        const answer = await batch(service, tokens.slice(0, 40));
        statuses.push(answer.status);
        aheadMs += 1_000 * Number(answer.headers.get("retry-after") ?? 0);
      }
      expect(statuses).toEqual([429, 429, 200]);
    } finally {
      await service.stop();
    }
  });

  test("pays for calls of the node, ten by a request, and the costs are told to operators", async () => {
    // Few enough that a minute refills next to nothing meanwhile.
    const service = await start({ RATE_LIMIT_PER_MINUTE: "60" });
    try {
      await synced(service, nft.address, 0);
      const costOf = async () => (await service.get("/api/keys", asAdmin)).body.result[0].cost;
      const path = `/api/collections/eth/${nft.address}/transfers?limit=30`;
      const plain = await service.get(path);
      const before = await costOf();
      const dear = await service.get(`${path}&times=true&transactions=true`);
      expect(dear.body.result.map(({ transaction }: Body) => transaction)).not.toContain(null);
      const after = await costOf();
      const calls = after.calls.day - before.calls.day;
      expect(calls).toBe(60);
      const next = await service.get(path);
      // The question itself, the six requests that its calls are worth, and this request.
      const paid = leftIn(plain) - leftIn(next);
      expect(paid).toBeGreaterThanOrEqual(1 + 6 + 1 - 2);
      expect(paid).toBeLessThanOrEqual(1 + 6 + 1 + 2);
      expect(after.bytes.day).toBeGreaterThan(before.bytes.day);
      expect(await metric(service, "api_key_rpc_bytes_day", { key: "API_KEYS#1" })).toBeGreaterThan(0);
      const threadMs = await metric(service, "api_key_thread_milliseconds", { key: "API_KEYS#1" });
      expect(threadMs).toBeGreaterThanOrEqual(after.threadMs);
    } finally {
      await service.stop();
    }
  });
});
