/**
 * Blocks about which the only node contradicts itself: one index for two logs, garbage in one contract's logs. The chain
 * goes on, the other collections too. The collection concerned is marked, and read again until it is whole.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, inOneBlock, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, prepare, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

interface WireLog {
  readonly address: string;
  readonly blockNumber: string;
  readonly logIndex: string;
  readonly transactionIndex: string;
}
interface WireReceipt {
  readonly logs: readonly WireLog[];
}
type Message = Readonly<Record<string, unknown>>;

let anvil: Anvil;
let odd: Deployed;
let sound: Deployed;
let people: [string, string, string];
/** What the node makes of the logs of an answer. */
let spoil: (logs: readonly WireLog[]) => readonly WireLog[] = (logs) => logs;

const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
const isAt = (log: WireLog, contract: Deployed, block: number) =>
  log.address === contract.address.toLowerCase() && Number(log.blockNumber) === block;
const owners = ({ body }: { body: { result: { owner_of: string }[] } }) => body.result.map(({ owner_of }) => owner_of);
const doubtOf = async (service: TestService, { address }: Deployed) =>
  (await service.get(`/api/collections/eth/${address}`)).body;

/** Subscribes to the odd collection. Returns the messages as they come. */
function subscribe(service: TestService): readonly Message[] {
  const messages: Message[] = [];
  const socket = new WebSocket(service.socketUrl, { headers: { "x-api-key": TEST_KEY } } as never);
  socket.onmessage = ({ data }) => messages.push(JSON.parse(String(data)) as Message);
  socket.onopen = () => socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address: odd.address }));
  return messages;
}

function startProxy(): Promise<RpcProxy> {
  return startRpcProxy(anvil.url, {
    onResult: ({ method }, result) => {
      if (method === "eth_getLogs") return spoil(result as WireLog[]);
      if (method !== "eth_getBlockReceipts") return result;
      return (result as WireReceipt[]).map((receipt) => ({ ...receipt, logs: spoil(receipt.logs) }));
    },
  });
}

/** Moves a token of both collections in one block. The odd one moves its token twice, in two transactions. */
async function moveBoth(id: bigint): Promise<number> {
  const [a, b, c] = people;
  await inOneBlock(anvil, async () => {
    await queue(anvil, odd.contract, "transferFrom", [a, b, id], { from: a });
    await queue(anvil, sound.contract, "transferFrom", [a, b, id], { from: a });
    await queue(anvil, odd.contract, "transferFrom", [b, c, id], { from: b });
  });
  return height();
}

/** Moves a token of the odd collection twice in one block, in two transactions. */
async function moveTwice(id: bigint): Promise<void> {
  const [a, b, c] = people;
  await inOneBlock(anvil, async () => {
    await queue(anvil, odd.contract, "transferFrom", [a, b, id], { from: a });
    await queue(anvil, odd.contract, "transferFrom", [b, c, id], { from: b });
  });
}

/** Gives all logs of the odd collection in a block the same place. */
const tearing = (block: number) => (logs: readonly WireLog[]) =>
  logs.map((log) => (isAt(log, odd, block) ? { ...log, logIndex: "0x0", transactionIndex: "0x0" } : log));

beforeAll(async () => {
  anvil = await startAnvil();
  const artifact = await contractArtifact("PlainNft");
  [odd, sound] = [await deploy(anvil, artifact, ["Odd", "ODD"]), await deploy(anvil, artifact, ["Sound", "SND"])];
  people = anvil.accounts.slice(1, 4) as [string, string, string];
  for (const id of [1n, 2n, 3n, 4n]) {
    for (const { contract } of [odd, sound]) await transact(anvil, contract, "mint", [people[0], id]);
  }
});
afterAll(() => anvil.stop());

test("takes two logs with one index in the order of their transactions", async () => {
  const proxy = await startProxy();
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  for (const { address } of [odd, sound]) await synced(service, address, await height());
  const bad = (await height()) + 1;
  // Like a bridge's logs behind a node that counts them from 0 again.
  spoil = (logs) =>
    logs.map((log) => (Number(log.blockNumber) === bad ? { ...log, logIndex: "0x0" } : log)).toReversed();
  expect(await moveBoth(1n)).toBe(bad);
  const [a, b, c] = people;
  expect(owners(await synced(service, odd.address, bad))).toEqual([c, a, a, a]);
  expect(owners(await synced(service, sound.address, bad))).toEqual([b, a, a, a]);
  // A history with such a block is read in the same order.
  const again = await startTestService({
    ...{ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env: { FINALITY_DEPTH_ETH: "0" } },
  });
  expect(owners(await synced(again, odd.address, bad))).toEqual([c, a, a, a]);
  await again.stop();
  spoil = (logs) => logs;
  await service.stop();
  await proxy.stop();
});

test("goes on without a collection whose logs stay impossible, marks it, and completes it later", async () => {
  const proxy = await startProxy();
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  for (const { address } of [odd, sound]) await synced(service, address, await height());
  const messages = subscribe(service);
  await eventually("the subscription is complete", async () => messages.find(({ type }) => type === "indexed"));
  const before = await height();
  const bad = before + 1;
  spoil = tearing(bad);
  expect(await moveBoth(2n)).toBe(bad);
  await transact(anvil, sound.contract, "transferFrom", [people[0], people[2], 3n], { from: people[0] });
  const [a, b, c] = people;
  // The chain is not held up, and neither is the collection in the same block.
  expect(owners(await synced(service, sound.address, bad + 1))).toEqual([b, b, c, a]);
  const row = await doubtOf(service, odd);
  expect(row).toMatchObject({
    status: "failing",
    inDoubt: { block: bad, reason: expect.stringContaining("share block") },
  });
  expect(row.lastError).toContain(`block ${bad} can't be read`);
  expect(Date.parse(row.nextTry)).toBeGreaterThan(0);
  const page = await service.get(`/api/v2/nft/${odd.address}`);
  expect([page.body.status, page.headers.get("x-as-of-block")]).toEqual(["SYNCING", String(before)]);
  expect(owners(page)).toEqual([c, a, a, a]);
  const failed = await eventually("subscribers are told", async () => messages.find(({ type }) => type === "failed"));
  expect(failed).toMatchObject({ code: "in_doubt", inDoubt: { block: bad }, nextTry: expect.any(String) });
  const later = subscribe(service);
  const status = await eventually("a new subscriber is told", async () => later.find(({ type }) => type === "status"));
  expect(status).toMatchObject({ status: "SYNCING", inDoubt: { block: bad } });
  spoil = (logs) => logs;
  const whole = await synced(service, odd.address, bad);
  expect(owners(whole)).toEqual([c, c, a, a]);
  expect(await doubtOf(service, odd)).toMatchObject({ status: "following", inDoubt: null, lastError: null });
  await eventually("the missed transfers are told", async () =>
    messages.find(({ type, tokenIds }) => type === "transfers" && (tokenIds as string[]).includes("2")),
  );
  await service.stop();
  await proxy.stop();
});

test("keeps the mark through a restart and a reorganisation", async () => {
  const proxy = await startProxy();
  const logUrl = temporaryLogUrl();
  const first = await startTestService({ rpcUrl: proxy.url, logUrl });
  for (const { address } of [odd, sound]) await synced(first, address, await height());
  const snapshot = await anvil.send("evm_snapshot");
  await transact(anvil, odd.contract, "mint", [people[0], 90n]);
  await synced(first, odd.address, await height());
  const bad = (await height()) + 1;
  spoil = tearing(bad);
  const [a, b] = people;
  await moveTwice(4n);
  await eventually("the collection is in doubt", async () => (await doubtOf(first, odd)).inDoubt ?? undefined);
  await first.stop();
  // The block with token 90 is lost while no process runs, and another one takes the place of the bad one.
  await anvil.send("evm_revert", [snapshot]);
  await transact(anvil, sound.contract, "mint", [a, 91n]);
  await transact(anvil, sound.contract, "mint", [a, 92n]);
  await transact(anvil, odd.contract, "mint", [b, 93n]);
  const second = await startTestService({ rpcUrl: proxy.url, logUrl });
  const page = await synced(second, odd.address, await height());
  expect(page.body.result.map(({ token_id }: { token_id: string }) => token_id)).toEqual(["1", "2", "3", "4", "93"]);
  expect((await doubtOf(second, odd)).inDoubt).toBeNull();
  spoil = (logs) => logs;
  await second.stop();
  await proxy.stop();
});

test("leaves the doubt behind if the block is orphaned while the process runs", async () => {
  const proxy = await startProxy();
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  for (const { address } of [odd, sound]) await synced(service, address, await height());
  const messages = subscribe(service);
  const before = await synced(service, odd.address, await height());
  const bad = (await height()) + 1;
  spoil = tearing(bad);
  const [a, b] = people;
  await moveTwice(4n);
  await eventually("the collection is in doubt", async () => (await doubtOf(service, odd)).inDoubt ?? undefined);
  const { to, data } = await prepare(odd.contract, "mint", [b, 95n]);
  await reorg(anvil, 1, [{ block: 0, from: a, to: String(to), data: String(data) }]);
  await anvil.mine();
  const after = await synced(service, odd.address, await height());
  expect(owners(after)).toEqual([...owners(before), b]);
  expect(await doubtOf(service, odd)).toMatchObject({ status: "following", inDoubt: null, lastError: null });
  await synced(service, sound.address, await height());
  // A subscriber has seen the doubt, and then the collection as it is.
  expect(messages.some(({ type, code }) => type === "failed" && code === "in_doubt")).toBe(true);
  await eventually("the mint of the new branch is told", async () =>
    messages.find(({ type, tokenIds }) => type === "transfers" && (tokenIds as string[]).includes("95")),
  );
  spoil = (logs) => logs;
  await service.stop();
  await proxy.stop();
});

test("tells the reason for a history with an impossible block, and does not fail other collections", async () => {
  const proxy = await startProxy();
  const bad = (await height()) + 1;
  spoil = tearing(bad);
  const [, , c] = people;
  await moveTwice(4n);
  await anvil.send("anvil_mine", ["0x20"]);
  const env = { FINALITY_DEPTH_ETH: "0" };
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env });
  await service.get(`/api/v2/nft/${odd.address}`);
  const row = await eventually(
    "the collection is in doubt",
    async () => {
      const found = await doubtOf(service, odd);
      // A request of a read key is recorded a moment later.
      return found.inDoubt == null ? undefined : found;
    },
    40_000,
  );
  expect(row).toMatchObject({ status: "failing", inDoubt: { block: bad } });
  expect(row.lastError).toContain("two logs share block, transaction and index");
  await synced(service, sound.address, await height());
  // Everything before the block is shown already.
  const page = await service.get(`/api/v2/nft/${odd.address}`);
  expect([page.body.status, page.headers.get("x-as-of-block")]).toEqual(["SYNCING", String(bad - 1)]);
  spoil = (logs) => logs;
  const whole = await eventually("it is whole", () => synced(service, odd.address, bad), 60_000);
  expect(owners(whole)[3]).toBe(c);
  expect((await doubtOf(service, odd)).inDoubt).toBeNull();
  await service.stop();
  await proxy.stop();
});
