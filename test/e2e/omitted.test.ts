/**
 * A node that omits some of a contract's logs in a block, but not all. The block's bloom filter can't show this. A
 * transfer that is impossible without the missing log, or a sample of receipts, reveals it.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
beforeAll(async () => {
  anvil = await startAnvil();
});
afterAll(() => anvil.stop());

interface WireLog {
  readonly address: string;
  readonly blockNumber: string;
  readonly topics: readonly string[];
}

/** A collection of two tokens, and a service with a node that omits the logs in `omitted`. */
async function world(random: () => number) {
  const nft: Deployed = await deploy(anvil, await contractArtifact("PlainNft"), ["Omitted", "OMT"]);
  const [, a, b, c] = anvil.accounts as [string, string, string, string];
  await transact(anvil, nft.contract, "mint", [a, 1n]);
  await transact(anvil, nft.contract, "mint", [a, 2n]);
  const omitted = new Set<string>();
  const proxy = await startRpcProxy(anvil.url, {
    onResult: ({ method }, result) =>
      method === "eth_getLogs"
        ? (result as WireLog[]).filter(
            ({ blockNumber, topics }) => !omitted.has(`${Number(blockNumber)} ${Number(topics[3])}`),
          )
        : result,
  });
  const clock: Clock = { ...systemClock, random };
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), clock });
  const height = async () => Number(await anvil.send("eth_blockNumber"));
  await synced(service, nft.address, await height());
  const owners = async (query = "") => {
    const { body } = await service.get(`/api/v2/nft/${nft.address}?${query}`);
    return body.result?.map(({ owner_of }: { owner_of: string }) => owner_of);
  };
  /** Moves both tokens in one block. The node shows only the second transfer. */
  const moveBoth = async (): Promise<number> => {
    const block = (await height()) + 1;
    omitted.add(`${block} 1`);
    await inOneBlock(anvil, async () => {
      for (const id of [1n, 2n]) await queue(anvil, nft.contract, "transferFrom", [a, b, id], { from: a });
    });
    return block;
  };
  const metric = async (name: string) => {
    const text = await (await service.fetch("/metrics")).text();
    return Number(new RegExp(`^${name}\\{chain="eth"\\} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN);
  };
  const stop = async () => {
    await service.stop();
    await proxy.stop();
  };
  return { nft, service, proxy, owners, moveBoth, metric, height, stop, people: { a, b, c } };
}

test("reads the receipts of earlier blocks after a transfer from an account that does not have the token", async () => {
  const { nft, service, owners, moveBoth, metric, height, stop, people } = await world(() => 0.9);
  const { a, b, c } = people;
  const block = await moveBoth();
  await synced(service, nft.address, block);
  // At this point the omission cannot be detected.
  expect(await owners()).toEqual([a, b]);
  await transact(anvil, nft.contract, "transferFrom", [b, c, 1n], { from: b });
  await eventually("the missing transfer is found", async () => {
    const { body } = await service.get(`/api/v2/nft/${nft.address}?as_of_block=${block}`);
    return body.status === "SYNCED" && body.result[0].owner_of === b ? true : undefined;
  });
  const page = await synced(service, nft.address, await height());
  expect(page.body.result.map(({ owner_of }: { owner_of: string }) => owner_of)).toEqual([c, b]);
  expect(await owners(`as_of_block=${block - 1}`)).toEqual([a, a]);
  expect(await metric("rpc_missed_logs_total")).toBeGreaterThan(0);
  // The collection is followed as before.
  await transact(anvil, nft.contract, "transferFrom", [c, a, 1n], { from: c });
  await synced(service, nft.address, await height());
  expect(await owners()).toEqual([a, b]);
  await stop();
});

test("compares a sample of followed blocks with their receipts", async () => {
  const { nft, service, owners, moveBoth, metric, stop, people } = await world(() => 0);
  const block = await moveBoth();
  await synced(service, nft.address, block);
  expect(await owners()).toEqual([people.b, people.b]);
  expect(await metric("rpc_missed_logs_total")).toBeGreaterThan(0);
  await stop();
});

test("investigates a contract that announces transfers it did not make, and leaves its listing unchanged", async () => {
  const { nft, service, proxy, metric, height, stop } = await world(() => 0.9);
  const emitter = await deploy(anvil, await contractArtifact("Emitter"));
  await synced(service, nft.address, await height());
  const [, a, b] = anvil.accounts as [string, string, string];
  const emit = (from: string, to: string) => transact(anvil, emitter.contract, "emitTransfers", [7n, 1n, from, to]);
  await transact(anvil, emitter.contract, "setInterface", ["0x01ffc9a7", true]);
  await transact(anvil, emitter.contract, "setInterface", ["0x80ac58cd", true]);
  await emit(`0x${"0".repeat(40)}`, a);
  await synced(service, emitter.address, await height());
  for (let i = 0; i < 5; i++) await emit(b, a);
  const page = await synced(service, emitter.address, await height());
  expect(page.body.result.map(({ owner_of }: { owner_of: string }) => owner_of)).toEqual([a]);
  expect(page.body.status).toBe("SYNCED");
  // One investigation serves all five transfers.
  const receipts = proxy.count("eth_getBlockReceipts");
  expect(receipts).toBeLessThanOrEqual(5);
  expect((await metric("rpc_missed_logs_total")) || 0).toBe(0);
  await stop();
});
