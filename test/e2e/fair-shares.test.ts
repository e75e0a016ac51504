/** Keys share what waits for a node, memory or the disk: what one key asks delays no other one for long. */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ethers } from "ethers";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  type Answer,
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const [GREEDY, SHOP, ADMIN] = ["greedy-key-0123456789", "shop-key-0123456789", "admin-key-0123456789"];
const as = (key: string) => ({ "x-api-key": key });
const env = { API_KEYS: `${GREEDY},${SHOP},test-key-0123456789`, OPERATOR_KEYS: ADMIN };

let anvil: Anvil;
let proxy: RpcProxy;
let nft: Deployed;
beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
  await anvil.mine(70);
  proxy = await startRpcProxy(anvil.url);
});
afterAll(async () => {
  await proxy?.stop();
  await anvil?.stop();
});

const start = (own: Record<string, string> = {}, logUrl = temporaryLogUrl()) =>
  startTestService({ rpcUrl: proxy.url, logUrl, env: { ...env, ...own } });
const junk = (n: number): string => ethers.getCreateAddress({ from: `0x${"ab".repeat(20)}`, nonce: n }).toLowerCase();
const listing = (service: TestService, address: string, key = GREEDY) => service.get(`/api/v2/nft/${address}`, as(key));
const decided = (service: TestService, address: string, status: number, key = GREEDY): Promise<Answer> =>
  eventually(`${address} answers ${status}`, async () => {
    const answer = await listing(service, address, key);
    return answer.status === status ? answer : undefined;
  });
/** Names of the collections' streams in a log. */
function streamsOf(logUrl: string): string[] {
  const db = new Database(logUrl.slice("sqlite://".length), { readonly: true });
  const rows = db.query<{ name: string }, []>("SELECT name FROM streams WHERE name LIKE 'nft/%' ORDER BY name").all();
  db.close();
  return rows.map(({ name }) => name);
}

describe("an address that the log doesn't know", () => {
  test("leaves no trace without code and logs, and is 404 once that is certain", async () => {
    const logUrl = temporaryLogUrl();
    const service = await start({}, logUrl);
    const first = await listing(service, junk(1));
    expect([first.status, first.body.status, first.body.result]).toEqual([200, "SYNCING", []]);
    expect((await decided(service, junk(1), 404)).body.code).toBe("not_a_contract");
    // An account that has sent transactions, and has no log.
    await decided(service, anvil.accounts[0] as string, 404);
    expect(streamsOf(logUrl)).toEqual([]);
    // An operator's request is recorded at once.
    await listing(service, junk(2), ADMIN);
    expect(streamsOf(logUrl)).toEqual([`nft/1/${junk(2)}`]);
    await service.stop();
  });

  test("is indexed with code, and without code if it has logs", async () => {
    const service = await start();
    const gone = await deploy(anvil, await contractArtifact("PlainNft"), ["Gone", "GONE"]);
    await transact(anvil, gone.contract, "mint", [anvil.accounts[1], 5n]);
    await anvil.send("anvil_setCode", [gone.address, "0x"]);
    await anvil.send("anvil_setNonce", [gone.address, "0x0"]);
    await anvil.mine(70);
    await listing(service, nft.address);
    await listing(service, gone.address);
    expect((await synced(service, nft.address)).body.result).toHaveLength(1);
    expect((await synced(service, gone.address)).body.result).toMatchObject([{ token_id: "5" }]);
    await service.stop();
  });

  test("costs a few calls among many, and none when it is asked about again", async () => {
    const service = await start();
    await listing(service, junk(3));
    await decided(service, junk(3), 404);
    proxy.reset();
    const addresses = Array.from({ length: 200 }, (_, i) => junk(1_000 + i));
    await Promise.all(addresses.map((address) => listing(service, address)));
    for (const address of addresses) await decided(service, address, 404);
    // One for code and one for transactions each; logs are searched for a hundred addresses at once.
    expect(proxy.count("eth_getCode")).toBe(200);
    expect(proxy.count("eth_getTransactionCount")).toBe(200);
    expect(proxy.count("eth_getLogs")).toBeLessThan(20);
    proxy.reset();
    await Promise.all(addresses.map((address) => listing(service, address)));
    expect(proxy.count("eth_getCode")).toBe(0);
    await service.stop();
  });

  test("is no NFT with other code, and asking again writes nothing", async () => {
    const logUrl = temporaryLogUrl();
    let ahead = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + ahead };
    const service = await startTestService({ rpcUrl: proxy.url, logUrl, env, clock });
    const token = await deploy(anvil, await contractArtifact("TestToken"), ["Coin", "CN", 18]);
    await listing(service, token.address);
    await eventually("it is identified", async () =>
      (await listing(service, token.address)).body.status === "SYNCED" ? true : undefined,
    );
    const version = () => {
      const db = new Database(logUrl.slice("sqlite://".length), { readonly: true });
      const name = `nft/1/${token.address.toLowerCase()}`;
      const row = db.query<{ version: number }, [string]>("SELECT version FROM streams WHERE name = ?").get(name);
      db.close();
      return row?.version;
    };
    const before = version();
    expect(before).toBe(2);
    ahead = 700_000;
    proxy.reset();
    await listing(service, token.address);
    await eventually("it was looked at again", async () => (proxy.count("eth_call") > 0 ? true : undefined));
    // The next request finds the young verdict.
    await eventually("the look has ended", async () => {
      const calls = proxy.count();
      await listing(service, token.address);
      await service.get("/api/status", as(ADMIN));
      return proxy.count() === calls ? true : undefined;
    });
    expect(version()).toBe(before);
    await service.stop();
  });
});

describe("a key's quota", () => {
  test("of new collections is refused with the time to wait, and not an operator's", async () => {
    const service = await start({ COLLECTIONS_PER_HOUR: "3" });
    for (let n = 0; n < 3; n++) expect((await listing(service, junk(n))).status).toBe(200);
    const refused = await listing(service, junk(4));
    expect([refused.status, refused.body.code]).toEqual([429, "rate_limited"]);
    expect(refused.body.message).toContain("3 new collections an hour");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(600);
    // An address that was taken in stays available, and another key has its own quota.
    expect((await listing(service, junk(1))).status).not.toBe(429);
    expect((await listing(service, junk(4), SHOP)).status).toBe(200);
    for (let n = 10; n < 20; n++) expect((await listing(service, junk(n), ADMIN)).status).toBe(200);
    await service.stop();
  });

  test("of new collections leaves the known tokens of a batch their records", async () => {
    const service = await start({ COLLECTIONS_PER_HOUR: "2" });
    await synced(service, nft.address, 1);
    const records = async (...addresses: string[]) => {
      const tokens = addresses.map((token_address) => ({ token_address, token_id: "1" }));
      const headers = { ...as(GREEDY), "content-type": "application/json" };
      const init = { method: "POST", body: JSON.stringify({ tokens }), headers };
      const response = await service.fetch("/api/v2/nft/getMultipleNFTs", init);
      return { status: response.status, body: (await response.json()) as Body };
    };
    const known = { token_address: nft.address.toLowerCase(), token_id: "1" };
    const { status, body } = await records(junk(1), junk(2), nft.address, junk(3));
    expect([status, body]).toEqual([200, [null, null, expect.objectContaining(known), null]]);
    const refused = await records(junk(2), junk(3));
    expect([refused.status, refused.body.code]).toEqual([429, "rate_limited"]);
    expect(refused.body.message).toContain("2 new collections an hour");
    await service.stop();
  });

  test("of subscriptions counts all sockets of the key", async () => {
    const service = await start({ SUBSCRIPTIONS_PER_KEY: "3" });
    const open = async (key: string) => {
      const messages: { type: string; code?: string; message?: string }[] = [];
      // biome-ignore lint/suspicious/noExplicitAny: the runtime's sockets take headers
      const socket = new WebSocket(service.socketUrl, { headers: as(key) } as any);
      socket.addEventListener("message", ({ data }) => messages.push(JSON.parse(String(data))));
      await new Promise((resolve) => socket.addEventListener("open", resolve));
      const subscribe = (address: string) => socket.send(JSON.stringify({ action: "subscribe", address }));
      return { socket, messages, subscribe };
    };
    const [first, second, other] = [await open(GREEDY), await open(GREEDY), await open(SHOP)];
    for (const n of [1, 2]) first.subscribe(junk(n));
    for (const n of [3, 4]) second.subscribe(junk(n));
    const refused = await eventually("the fourth one is refused", async () =>
      second.messages.find(({ type }) => type === "error"),
    );
    expect(refused).toMatchObject({ code: "rate_limited" });
    expect(refused.message).toMatch(/^subscriptions of the key .+ on this server: at most 3; unsubscribe/);
    other.subscribe(junk(5));
    await eventually("another key is served", async () => other.messages.find(({ type }) => type === "status"));
    // A closed socket gives its subscriptions back.
    first.socket.close();
    await eventually("there is room again", async () => {
      second.subscribe(junk(6));
      await Bun.sleep(20);
      return second.messages.filter(({ type }) => type === "status").length > 1 ? true : undefined;
    });
    for (const { socket } of [second, other]) socket.close();
    await service.stop();
  });

  test("is given by an operator, and shown in the list of keys", async () => {
    const service = await start();
    const body = JSON.stringify({ name: "partner", collectionsPerHour: 1, subscriptions: 7 });
    const made = await service.fetch("/api/keys", { method: "POST", headers: as(ADMIN), body });
    const added = (await made.json()) as { key: string };
    const { body: keys } = await service.get("/api/keys", as(ADMIN));
    const partner = keys.result.find(({ name }: { name: string }) => name === "partner");
    expect(partner).toMatchObject({ collectionsPerHour: 1, subscriptions: 7 });
    const admin = keys.result.find(({ scope }: { scope: string }) => scope === "operate");
    expect(admin).toMatchObject({ collectionsPerHour: null, subscriptions: null });
    expect((await listing(service, junk(1), added.key)).status).toBe(200);
    expect((await listing(service, junk(2), added.key)).status).toBe(429);
    await service.stop();
  });
});

test("a key that asks for a thousand addresses does not delay a collection of another key", async () => {
  const service = await start({ COLLECTIONS_PER_HOUR: "1000000" });
  // Contracts with code as well: each is a job.
  const artifact = await contractArtifact("TestToken");
  const contracts: string[] = [];
  for (let n = 0; n < 40; n++) {
    contracts.push((await deploy(anvil, artifact, [`Coin ${n}`, "CN", 18])).address);
  }
  const own = await deploy(anvil, await contractArtifact("PlainNft"), ["Own", "OWN"]);
  await transact(anvil, own.contract, "mint", [anvil.accounts[1], 1n]);
  await anvil.mine(70);
  const addresses = [...contracts, ...Array.from({ length: 1_000 }, (_, n) => junk(5_000 + n))];
  const asking = Promise.all(addresses.map((address) => listing(service, address)));
  const begun = performance.now();
  await eventually("the other key's collection is ready", async () =>
    (await listing(service, own.address, SHOP)).body.status === "SYNCED" ? true : undefined,
  );
  const waited = performance.now() - begun;
  await asking;
  // Alone it takes some hundred milliseconds; behind the other key's work it took a minute.
  expect(waited).toBeLessThan(8_000);
  await service.stop();
});

test("a key that waits for a slow node with many series takes places from neither memory nor other keys", async () => {
  const service = await start();
  await synced(service, nft.address);
  const series = (key: string) => service.get(`/api/prices/eth/${nft.address}/series?points=3`, as(key));
  proxy.pause();
  try {
    const greedy = Array.from({ length: 60 }, () => series(GREEDY));
    // Two run and 32 wait. All others are refused at once.
    const refused = await eventually("what exceeds the key's share is refused", async () => {
      const first = await Promise.race([...greedy, Bun.sleep(20).then(() => undefined)]);
      return first?.status === 429 ? first : undefined;
    });
    expect(refused.body.message).toContain("of this key wait already");
    const others = [series(SHOP), series(ADMIN)];
    // A reading of memory waits for no node.
    const holders = await service.get(`/api/collections/eth/${nft.address}/holders`, as(GREEDY));
    expect([holders.status, holders.body.total]).toEqual([200, 1]);
    proxy.resume();
    expect((await Promise.all(others)).map(({ status }) => status)).not.toContain(429);
    const statuses = (await Promise.all(greedy)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 429)).toHaveLength(60 - 34);
  } finally {
    proxy.resume();
    await service.stop();
  }
});

test("the bill names the key whose requests caused the calls, and survives a restart", async () => {
  const logUrl = temporaryLogUrl();
  const before = await start({ METRICS_KEY: "metrics-key-0123456789" }, logUrl);
  await synced(before, nft.address);
  await listing(before, junk(77), SHOP);
  await decided(before, junk(77), 404, SHOP);
  const report = async (service: TestService) => (await service.get("/api/status", as(ADMIN))).body;
  const billOf = (status: Answer["body"], name: string) =>
    status.keys.find((one: { name: string }) => one.name === name);
  const first = await report(before);
  expect(billOf(first, "API_KEYS#3").calls.hour.eth_getLogs).toBeGreaterThan(0);
  expect(billOf(first, "API_KEYS#2").calls.hour).toMatchObject({ eth_getCode: 1, eth_getTransactionCount: 1 });
  expect(billOf(first, "API_KEYS#1").calls.day).toEqual({});
  expect(billOf(first, "API_KEYS#2").units.day).toBeGreaterThan(0);
  const metrics = await (await before.fetch("/metrics", { headers: as("metrics-key-0123456789") })).text();
  expect(metrics).toMatch(/api_key_rpc_units_day\{key="API_KEYS#2"\} [1-9]/);
  await before.stop();
  const after = await start({}, logUrl);
  const second = await report(after);
  expect(billOf(second, "API_KEYS#2").calls).toEqual(billOf(first, "API_KEYS#2").calls);
  const [endpoint] = second.chains[0].endpoints;
  expect(endpoint.calls.hour.eth_getLogs).toBeGreaterThanOrEqual(first.chains[0].endpoints[0].calls.hour.eth_getLogs);
  await after.stop();
});
