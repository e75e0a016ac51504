/**
 * A thousand collections followed on one chain, fifty of them with a transfer in each of two hundred blocks, beside as
 * many transfers of contracts that are not followed. A block costs as many requests at the end as at the beginning, the
 * quiet collections' streams don't grow, and the listings equal the contracts' state.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { compileContracts, contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, placeCode, queue } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { Gate } from "../support/long/gate.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const FOLLOWED = 1_000;
const BUSY = 50;
const BLOCKS = 200;
const COMPARED = 50;
/** Blocks before the counted ones: the finalized tag is asked once in as many polls. */
const UNCOUNTED = 6;
/** Number of collections that one transaction moves. */
const BATCH = 50;

const gate = new Gate();
const logUrl = temporaryLogUrl();
/** Addresses of the followed collections. The first ones are busy. */
const followed = Array.from({ length: FOLLOWED }, (_, i) => addressOf(0xaa, i));
const foreign = Array.from({ length: BUSY }, (_, i) => addressOf(0xbb, i));
const busy = followed.slice(0, BUSY);
let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let batch: Deployed;

function addressOf(kind: number, index: number): Address {
  return toAddress(`0x${kind.toString(16)}${(index + 1).toString(16).padStart(38, "0")}`);
}

/** Moves token 0 of each collection in one transaction. */
const move = (collections: readonly string[], step: number) =>
  queue(anvil, batch.contract, "move", [collections, 0, anvil.accounts[step % 8]]);

beforeAll(async () => {
  await compileContracts();
  // The genesis is in the past, so the follower considers every block overdue and never waits for the next one.
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  batch = await deploy(anvil, await contractArtifact("TinyBatch"));
  const { deployedBytecode } = await contractArtifact("TinyNft");
  for (const address of [...followed, ...foreign]) await placeCode(anvil, address, deployedBytecode);
  await anvil.mine();
  await inOneBlock(anvil, async () => {
    for (let at = 0; at < FOLLOWED; at += BATCH) await move(followed.slice(at, at + BATCH), at / BATCH);
  });
  await anvil.mine(4);
  proxy = await startRpcProxy(anvil.url, { onRequest: gate.onRequest });
  service = await startTestService({ rpcUrl: proxy.url, logUrl });
  for (const address of followed) await service.get(`/api/v2/nft/${address}?limit=1`);
  for (const address of followed) {
    await eventually(
      `${address} is synced`,
      async () => ((await service.get(`/api/v2/nft/${address}?limit=1`)).body.status === "SYNCED" ? true : undefined),
      120_000,
    );
  }
}, 300_000);
afterAll(async () => {
  gate.open();
  await service?.stop();
  await proxy?.stop();
  await anvil?.stop();
});

/** Number of the follower's requests. State calls come from other parts and don't count. */
const requests = () => proxy.calls.filter(({ method }) => method !== "eth_call" && method !== "eth_getCode").length;

async function versions(addresses: readonly Address[]): Promise<Map<string, number>> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const heads = await log.heads(addresses.map((address) => nftStream(1, address)));
  await log.close();
  return new Map(heads.map(({ stream, version }) => [stream, version]));
}

test(`follows ${FOLLOWED} collections at the cost of one`, async () => {
  const quiet = followed.slice(BUSY);
  await gate.close();
  // The first polls read the blocks mined while the last collections joined. Where the machine is busy, one of them may
  // show the follower no new block, and the next one two: these blocks' costs are no measure.
  for (let block = 0; block < UNCOUNTED; block++) {
    await inOneBlock(anvil, () => move(foreign, block));
    await gate.poll();
  }
  const [before, busyBefore] = [await versions(quiet), await versions(busy)];
  expect(before.size).toBe(quiet.length);
  const costs: number[] = [];
  for (let block = 0; block < BLOCKS; block++) {
    await inOneBlock(anvil, async () => {
      await move(busy, block + 3);
      await move(foreign, block);
    });
    const already = requests();
    await gate.poll();
    costs.push(requests() - already);
  }
  const sum = (some: readonly number[]) => some.reduce((all, one) => all + one, 0);
  const [first, last] = [sum(costs.slice(0, COMPARED)), sum(costs.slice(-COMPARED))];
  console.log(
    `${FOLLOWED} followed, ${BUSY} busy: requests of the first ${COMPARED} blocks ${first}, of the last ${last}, ` +
      `at most ${Math.max(...costs)} a block`,
  );
  // A block's bloom may match by chance, which costs one request for its receipts.
  expect(Math.max(...costs)).toBeLessThanOrEqual(Math.min(...costs) + 1);
  expect(Math.abs(last - first)).toBeLessThanOrEqual(COMPARED / 5);
  expect(await versions(quiet)).toEqual(before);
  for (const [stream, version] of await versions(busy)) {
    expect(version).toBe((busyBefore.get(stream) as number) + BLOCKS);
  }
  await expectTruth([...busy.slice(0, 15), ...quiet.filter((_, i) => i % 60 === 0)]);
}, 300_000);

async function expectTruth(addresses: readonly Address[]): Promise<void> {
  const { abi } = await contractArtifact("TinyNft");
  const head = Number(await anvil.send("eth_blockNumber"));
  for (const address of addresses) {
    const owner = (await contractAt(anvil, address, abi).getFunction("ownerOf")(0)) as string;
    const { body } = await synced(service, address, head);
    const listed = body.result.map(({ token_id, owner_of }: Record<string, string>) => [token_id, owner_of]);
    expect([address, listed]).toEqual([address, [["0", owner.toLowerCase()]]]);
  }
}
