/**
 * Contracts with divisible units that hold NFTs as well, on a real chain: an ERC-404 whose first NFT comes late, both
 * halves of a DN-404, and contracts that become NFTs after they were found to be none. The chain begins at block 10,000,
 * and its node has no state of past blocks, so the first blocks of a search hold nothing.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { toBeHex } from "ethers";
import { type Anvil, quantity, reorg, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, read, transact } from "../../../scripts/local-chain/contracts.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import { fromHeadline } from "../../../src/nft/collections/headline.ts";
import { type RpcProxy, startRpcProxy } from "../../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../../support/service.ts";

const FIRST_BLOCK = 10_000;
const ROUND_MS = 60_000;
const SAVE_MS = 6 * 3_600_000;
const KEY = "operator-key-of-the-test";
const logUrl = temporaryLogUrl();
/** Time by which the monotonic clock is ahead, in ms. */
let ahead = 0;
/** The watch's rounds come as quickly as the follower's polls. */
const clock: Clock = {
  ...systemClock,
  monotonic: () => systemClock.monotonic() + ahead,
  sleep: (ms, signal) => systemClock.sleep(ms === ROUND_MS ? 50 : ms, signal),
};
let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let alice: string;
let bob: string;
/** Runs once, before the next call that reads code reaches the node. */
let beforeCode: (() => Promise<void>) | undefined;

/** A service without audits, which read code as well. */
const start = (): Promise<TestService> =>
  startTestService({
    ...{ rpcUrl: proxy.url, logUrl, clock, auditMs: 3_600_000 },
    env: { OPERATOR_KEYS: KEY },
  });

/** A block before the first one that the node has. */
const emptyBlock = (number: number) => ({
  number: quantity(number),
  hash: toBeHex(number + 2, 32),
  parentHash: toBeHex(number + 1, 32),
  timestamp: quantity(1_500_000_000 + number * 12),
  logsBloom: `0x${"0".repeat(512)}`,
});

beforeAll(async () => {
  anvil = await startAnvil({
    genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400,
    slotsInAnEpoch: 4,
    extraArgs: ["--number", String(FIRST_BLOCK)],
  });
  [alice, bob] = anvil.accounts.slice(1, 3) as [string, string];
  await anvil.mine(20);
  proxy = await startRpcProxy(anvil.url, {
    onRequest: async ({ method, params }) => {
      if (method !== "eth_getCode" && method !== "eth_getBalance") return undefined;
      const before = beforeCode;
      beforeCode = undefined;
      await before?.();
      const block = Number(params[1]);
      const isOld = block < FIRST_BLOCK;
      return isOld ? { error: { code: -32_000, message: "missing trie node" } } : undefined;
    },
    onResult: ({ method, params }, result) => {
      const number = Number(params[0]);
      return method === "eth_getBlockByNumber" && number < FIRST_BLOCK ? emptyBlock(number) : result;
    },
  });
  service = await start();
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await proxy?.stop();
  await anvil?.stop();
});

const make = async (artifact: string, args: readonly unknown[] = []): Promise<Deployed> =>
  deploy(anvil, await contractArtifact(artifact), args);

const head = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

async function owners(address: string): Promise<string[][]> {
  const { body } = await synced(service, address, await head());
  return body.result.map((row: Record<string, string>) => [row["token_id"], row["owner_of"]]);
}

/** Waits for a verdict without an NFT. */
const isEmpty = (address: string) =>
  eventually(`${address} is no NFT`, async () => {
    const { body } = await service.get(`/api/v2/nft/${address}`);
    return body.status === "SYNCED" && body.result.length === 0 ? true : undefined;
  });

/** Waits for a status in the operators' list, which requests nothing. */
const isInState = (address: string, status: string) =>
  eventually(`${address} is ${status}`, async () => {
    const { body } = await service.get(`/api/collections/eth/${address}`, { "x-api-key": KEY });
    return body.status === status ? body : undefined;
  });

/** The block up to which all contracts that are no NFTs were searched, as the log has it. */
async function searched(): Promise<number> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const heads = await log.streams("nft/1/", { limit: 100 });
  await log.close();
  const states = heads.map(({ headline }) => fromHeadline(headline));
  return Math.min(...states.flatMap(({ status, searched }) => (status === "not_nft" ? [searched ?? -1] : [])));
}

async function verdicts(address: string): Promise<string[]> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const events = await log.read(nftStream(1, address.toLowerCase() as Address));
  await log.close();
  return events.flatMap(({ event }) => (event.type === "ContractIdentified" ? [event.kind] : []));
}

test("lists an ERC-404 whose first NFT came after thousands of transfers", async () => {
  const late = await make("LateNft");
  await transact(anvil, late.contract, "mint", [alice, 10n ** 21n]);
  for (let i = 0; i < 4; i++) await transact(anvil, late.contract, "shuffle", [alice, 1_500]);
  await transact(anvil, late.contract, "mintNft", [alice, 1]);
  await transact(anvil, late.contract, "mintNft", [bob, 2]);
  expect(await owners(late.address)).toEqual([
    ["1", alice],
    ["2", bob],
  ]);
});

test("lists the mirror of a DN-404 with its owners, and its token as empty", async () => {
  const twin = await make("TwinToken");
  const address = await read<string>(twin.contract, "mirror");
  const mirror = contractAt(anvil, address, (await contractArtifact("TwinMirror")).abi);
  const unit = 10n ** 18n;
  await transact(anvil, twin.contract, "mint", [alice, 3n * unit + unit / 2n]);
  await transact(anvil, twin.contract, "transfer", [bob, unit], { from: alice });
  await transact(anvil, mirror, "transferFrom", [alice, bob, 1], { from: alice });
  const rows = await owners(address);
  const truth = async (id: string) => [id, (await read<string>(mirror, "ownerOf", [id])).toLowerCase()];
  expect(rows).toEqual(await Promise.all(["1", "2", "3"].map(truth)));
  expect(rows.map(([, owner]) => owner)).toEqual([bob, alice, bob]);
  await isEmpty(twin.address);
  // A fraction that completes a unit mints; one that breaks a unit burns.
  await transact(anvil, twin.contract, "transfer", [alice, unit / 2n], { from: bob });
  const after = await owners(address);
  expect(after).toHaveLength(Number(await read(mirror, "balanceOf", [alice])) + 1);
  expect(after).toEqual(await Promise.all(after.map(([id]) => truth(id as string))));
  expect(await verdicts(twin.address)).toEqual(["not_nft"]);
});

test("notices the first NFT of a contract that was no NFT, without a request", async () => {
  const [late, quiet] = [await make("LateNft"), await make("LateNft")];
  for (const { contract, address } of [late, quiet]) {
    await transact(anvil, contract, "mint", [alice, 5]);
    await isEmpty(address);
  }
  await transact(anvil, quiet.contract, "shuffle", [alice, 500]);
  await transact(anvil, late.contract, "mintNft", [bob, 7]);
  await isInState(late.address, "following");
  expect(await owners(late.address)).toEqual([["7", bob]]);
  expect(await verdicts(late.address)).toEqual(["not_nft", "nft"]);
  expect(await verdicts(quiet.address)).toEqual(["not_nft"]);
});

test("goes on watching if a reorg removes the NFT", async () => {
  const late = await make("LateNft");
  await transact(anvil, late.contract, "mint", [alice, 5]);
  await isEmpty(late.address);
  await anvil.mine(3);
  const replaced = Promise.withResolvers<void>();
  beforeCode = async () => {
    await reorg(anvil, 2);
    replaced.resolve();
  };
  await transact(anvil, late.contract, "mintNft", [bob, 7]);
  // The watch has seen the log. It is gone when the contract is identified.
  await replaced.promise;
  await eventually("a second verdict", async () => ((await verdicts(late.address)).length === 2 ? true : undefined));
  expect(await verdicts(late.address)).toEqual(["not_nft", "not_nft"]);
  await transact(anvil, late.contract, "mintNft", [alice, 8]);
  await isInState(late.address, "following");
  expect(await owners(late.address)).toEqual([["8", alice]]);
});

test("notices an NFT that came while no process was running, and reads the blocks since the last ones that it saved", async () => {
  const late = await make("LateNft");
  await transact(anvil, late.contract, "mint", [alice, 5]);
  await isEmpty(late.address);
  await anvil.mine(40);
  const final = Number(((await anvil.send("eth_getBlockByNumber", ["finalized", false])) as { number: string }).number);
  await eventually("the blocks that were read are saved", async () => {
    // A save that was due may have come before the last blocks were read. Then the next one is due after this time again.
    ahead += SAVE_MS;
    return (await searched()) >= final ? true : undefined;
  });
  await service.stop();
  await transact(anvil, late.contract, "mintNft", [bob, 9]);
  await anvil.mine(40);
  proxy.reset();
  service = await start();
  await isInState(late.address, "following");
  expect(await owners(late.address)).toEqual([["9", bob]]);
  const watched = proxy.calls.flatMap(({ method, params }) => {
    const filter = params[0] as { address: string | string[]; topics: unknown[]; fromBlock: string };
    const isWatch = method === "eth_getLogs" && Array.isArray(filter.address) && filter.topics.length === 4;
    return isWatch ? [Number(filter.fromBlock)] : [];
  });
  expect(Math.min(...watched)).toBeGreaterThan(final);
});

test("notices an NFT on a chain on which nothing is followed", async () => {
  const other = await startTestService({
    ...{ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), clock },
    env: { OPERATOR_KEYS: KEY },
  });
  const key = { "x-api-key": KEY };
  try {
    const late = await make("LateNft");
    await transact(anvil, late.contract, "mint", [alice, 5]);
    await eventually("the contract is no NFT, and the chain is idle", async () => {
      const { body } = await other.get(`/api/v2/nft/${late.address}`);
      const { state } = (await other.get("/api/status", key)).body.chains[0];
      return body.status === "SYNCED" && state === "idle" ? true : undefined;
    });
    await transact(anvil, late.contract, "mintNft", [bob, 9]);
    await eventually("the contract is followed", async () => {
      const { body } = await other.get(`/api/collections/eth/${late.address}`, key);
      return body.status === "following" ? true : undefined;
    });
  } finally {
    await other.stop();
  }
});
