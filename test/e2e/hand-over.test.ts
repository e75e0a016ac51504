/**
 * Two services over one PostgreSQL, each with a node of its own. If the leader's node refuses, hangs or is stuck, the
 * other service takes over within seconds, and both show new blocks. A single service goes on by itself.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

/** A node is silent for 4 s until its service gives up, and the other service asks for the lease each second. */
const TAKEN_OVER_MS = 9_000;

interface Replica {
  readonly service: TestService;
  readonly node: RpcProxy;
  /** Treats the calls of this replica's node, until the end of the test. */
  decide: (call: RpcCall) => Intervention | undefined;
}

let anvil: Anvil;
let nft: Deployed;
let minted = 0;
const replicas: Replica[] = [];

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Handed", "OVER"]);
  await mint();
}, 300_000);
afterEach(async () => {
  for (const replica of replicas.splice(0)) {
    replica.decide = PASS;
    replica.node.resume();
    await replica.service.stop();
    await replica.node.stop();
  }
});
afterAll(() => anvil.stop());

async function replicaOf(logUrl: string): Promise<Replica> {
  const node = await startRpcProxy(anvil.url, { onRequest: (call) => replica.decide(call) });
  const replica: Replica = {
    service: await startTestService({ rpcUrl: node.url, logUrl }),
    node,
    decide: PASS,
  };
  replicas.push(replica);
  return replica;
}

const mint = () => transact(anvil, nft.contract, "mint", [anvil.accounts[1], BigInt(++minted)]);
const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber", []));

async function metric(service: TestService, name: string, kind: string): Promise<number> {
  const text = await (await service.fetch("/metrics")).text();
  return Number(new RegExp(`^${name}\\{chain="eth",kind="${kind}"\\} (\\S+)$`, "m").exec(text)?.[1] ?? 0);
}

const leads = async ({ service }: Replica): Promise<boolean> => (await metric(service, "leases_held", "follow")) === 1;

/** Starts two replicas that know the collection. Returns the leader first. */
async function startPair(): Promise<[Replica, Replica]> {
  const logUrl = await (await sharedPostgres()).createDatabase();
  // Blocks of a second, whose times decide when a node counts as stuck: after six seconds.
  await anvil.send("anvil_mine", ["0x10", "0x1"]);
  const leader = await replicaOf(logUrl);
  await synced(leader.service, nft.address, await height());
  const other = await replicaOf(logUrl);
  await synced(other.service, nft.address, await height());
  expect([await leads(leader), await leads(other)]).toEqual([true, false]);
  return [leader, other];
}

/** Waits until both replicas list a new token at its block. Returns the ms that this took. */
async function bothFollow(pair: readonly Replica[]): Promise<number> {
  const began = performance.now();
  await mint();
  const block = await height();
  for (const { service } of pair) {
    const { body } = await synced(service, nft.address, block);
    expect(body.result).toHaveLength(minted);
  }
  return performance.now() - began;
}

const PASS = (): undefined => undefined;
const refused = () => ({ status: 502, body: "down" }) as const;

describe("a leader with a node that", () => {
  test("refuses every request hands over within seconds, and once", async () => {
    const [leader, other] = await startPair();
    leader.decide = refused;
    expect(await bothFollow([leader, other])).toBeLessThan(TAKEN_OVER_MS);
    expect([await leads(leader), await leads(other)]).toEqual([false, true]);
    expect(await metric(leader.service, "leases_handed_over_total", "follow")).toBe(1);
    expect(await metric(leader.service, "leases_lost_total", "follow")).toBe(0);
    // The healed node's service doesn't take the lease back.
    leader.decide = PASS;
    for (let i = 0; i < 3; i++) await bothFollow([leader, other]);
    expect(await metric(other.service, "leases_handed_over_total", "follow")).toBe(0);
  });

  test("hangs hands over within seconds", async () => {
    const [leader, other] = await startPair();
    leader.node.pause();
    expect(await bothFollow([leader, other])).toBeLessThan(TAKEN_OVER_MS);
    expect([await leads(leader), await leads(other)]).toEqual([false, true]);
  });

  test("shows its head but refuses logs hands over within seconds", async () => {
    const [leader, other] = await startPair();
    leader.decide = ({ method }) => (method === "eth_getLogs" ? refused() : undefined);
    expect(await bothFollow([leader, other])).toBeLessThan(TAKEN_OVER_MS * 2);
    expect([await leads(leader), await leads(other)]).toEqual([false, true]);
  });

  test("is stuck at an old block hands over", async () => {
    const [leader, other] = await startPair();
    const stuck = await anvil.send("eth_getBlockByNumber", ["latest", false]);
    leader.decide = ({ method, params }) =>
      method === "eth_getBlockByNumber" && params[0] === "latest" ? { result: stuck } : undefined;
    await bothFollow([leader, other]);
    expect([await leads(leader), await leads(other)]).toEqual([false, true]);
  });

  test("is down passes the lease on, to the replica whose node answers first", async () => {
    const [leader, other] = await startPair();
    for (const replica of replicas) replica.decide = refused;
    await mint();
    await eventually("no replica leads", async () =>
      (await leads(leader)) || (await leads(other)) ? undefined : true,
    );
    other.decide = PASS;
    expect(await bothFollow([leader, other])).toBeLessThan(TAKEN_OVER_MS);
    expect(await leads(other)).toBe(true);
  });
});

test.each([
  ["refuses", (leader: Replica) => Object.assign(leader, { decide: refused })],
  ["hangs", (leader: Replica) => leader.node.pause()],
])("a collection requested from a replica whose node %s is indexed by the other one", async (_how, begin) => {
  const [leader, other] = await startPair();
  const fresh = await deploy(anvil, await contractArtifact("PlainNft"), ["Fresh", "FRSH"]);
  begin(leader);
  await leader.service.get(`/api/v2/nft/${fresh.address}`);
  for (const { service } of [leader, other]) await synced(service, fresh.address, fresh.blockNumber);
});

test("replicas rarely pass the lease around while the chain stands still", async () => {
  const pair = await startPair();
  const handedOver = async () => {
    const counts = pair.map(({ service }) => metric(service, "leases_handed_over_total", "follow"));
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  };
  const began = performance.now();
  await eventually("two hand-overs", async () => ((await handedOver()) >= 2 ? true : undefined), 40_000);
  // The second leader has waited for six block times, too.
  expect(performance.now() - began).toBeGreaterThan(6_000);
  expect(await bothFollow(pair)).toBeLessThan(TAKEN_OVER_MS);
});

const faults: [string, (one: Replica) => void, (one: Replica) => void][] = [
  ["refuses", (one) => Object.assign(one, { decide: refused }), (one) => Object.assign(one, { decide: PASS })],
  ["hangs", ({ node }) => node.pause(), ({ node }) => node.resume()],
];

test.each(faults)("a single replica goes on soon after its node no longer %s", async (_how, begin, end) => {
  const only = await replicaOf(temporaryLogUrl());
  await synced(only.service, nft.address, await height());
  begin(only);
  await mint();
  await eventually("the lease is free", async () => ((await leads(only)) ? undefined : true));
  end(only);
  expect(await bothFollow([only])).toBeLessThan(3_000);
  expect(await leads(only)).toBe(true);
});
