/**
 * Contracts that can be identified only by a search of their whole history, on a chain long enough for that to take a
 * while. Such searches delay no collection, and use ranges that the endpoint accepts. The node is a long quiet chain.
 */
import { afterAll, expect, test } from "bun:test";
import { AbiCoder } from "ethers";
import { TRANSFER } from "../../../src/rpc/decode/transfer-topics.ts";
import { IDENTITY } from "../../../src/rpc/reading/many-calls.ts";
import { eventually, startTestService, synced, temporaryLogUrl } from "../../support/service.ts";

const HEAD = 300_000;
const MAX_BLOCKS = 1_000;
/** Claims ERC-721 but has no transfers. */
const CLAIMANT = `0x${"c1".repeat(20)}`;
/** Claims no interface, and has its only transfer at a high block. */
const SILENT = `0x${"5a".repeat(20)}`;
const SILENT_BLOCK = 250_000;
const NEVER_USED = Array.from({ length: 6 }, (_, i) => `0x${"e".repeat(39)}${i}`);
/** Ranges that start below this block are answered at once. Later ones wait for the gate, except the claimant's. */
const EARLY = 7_000;

const hex = (value: number) => `0x${value.toString(16)}`;
const hashOf = (number: number) => `0x${(number + 1).toString(16).padStart(64, "0")}`;
const word = (value: number | string) => `0x${BigInt(value).toString(16).padStart(64, "0")}`;

interface Asked {
  readonly id: number;
  readonly method: string;
  readonly params: readonly never[];
}

interface Filter {
  readonly address: string;
  readonly fromBlock: string;
  readonly toBlock: string;
}

const NO_BATCHES = { jsonrpc: "2.0", id: null, error: { code: -32_600, message: "batches are not supported" } };
const gate = Promise.withResolvers<void>();
const windows: { address: string; from: number; blocks: number }[] = [];
const stops: (() => unknown)[] = [() => gate.resolve()];

async function logsOf({ address, fromBlock, toBlock }: Filter): Promise<object> {
  const [from, to] = [Number(fromBlock), Number(toBlock)];
  windows.push({ address, from, blocks: to - from + 1 });
  if (from >= EARLY && address !== CLAIMANT) await gate.promise;
  if (to - from >= MAX_BLOCKS) {
    return { error: { code: -32_602, message: `exceed maximum block range: ${MAX_BLOCKS}` } };
  }
  if (address !== SILENT || from > SILENT_BLOCK || to < SILENT_BLOCK) return { result: [] };
  const log = {
    address,
    topics: [TRANSFER, word(0), word(`0x${"a1".repeat(20)}`), word(7)],
    data: "0x",
    blockNumber: hex(SILENT_BLOCK),
    blockHash: hashOf(SILENT_BLOCK),
    transactionHash: hashOf(1),
    transactionIndex: "0x0",
    logIndex: "0x0",
    removed: false,
  };
  return { result: [log] };
}

function blockOf(tag: string): object | null {
  const number = tag === "latest" ? HEAD : tag === "finalized" ? HEAD - 64 : Number(tag);
  if (number > HEAD) return null;
  return {
    number: hex(number),
    hash: hashOf(number),
    parentHash: hashOf(number - 1),
    timestamp: hex(1_700_000_000 + number * 12),
    logsBloom: `0x${(number === SILENT_BLOCK ? "f" : "0").repeat(512)}`,
  };
}

function callOf({ to, data }: { to: string; data: string }): object {
  if (to === IDENTITY) return { result: data };
  if (![CLAIMANT, SILENT].includes(to)) return { result: "0x" };
  const isYes = to === CLAIMANT && /^0x01ffc9a7(?:01ffc9a7|80ac58cd)/.test(data);
  if (isYes) return { result: AbiCoder.defaultAbiCoder().encode(["bool"], [true]) };
  return { error: { code: 3, message: "execution reverted" } };
}

async function answer({ id, method, params }: Asked): Promise<object> {
  const common = { jsonrpc: "2.0", id };
  if (method === "eth_chainId") return { ...common, result: "0x1" };
  if (method === "eth_blockNumber") return { ...common, result: hex(HEAD) };
  if (method === "eth_getTransactionCount") return { ...common, result: "0x0" };
  if (method === "eth_getBlockByNumber") return { ...common, result: blockOf(params[0]!) };
  if (method === "eth_getCode") {
    return { ...common, result: [CLAIMANT, SILENT].includes(params[0]!) ? "0x6001" : "0x" };
  }
  if (method === "eth_getLogs") return { ...common, ...(await logsOf(params[0]!)) };
  if (method === "eth_call") return { ...common, ...callOf(params[0]!) };
  return { ...common, error: { code: -32_601, message: `the method ${method} does not exist` } };
}

afterAll(async () => {
  for (const stop of stops) await stop();
});

test("searches whole histories without delaying a collection, in ranges that the endpoint accepts", async () => {
  const node = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const asked = (await request.json()) as Asked | Asked[];
      // Batches are refused, because a held call would hold the other calls of its batch.
      return Response.json(Array.isArray(asked) ? NO_BATCHES : await answer(asked));
    },
  });
  const service = await startTestService({ rpcUrl: `http://127.0.0.1:${node.port}`, logUrl: temporaryLogUrl() });
  stops.unshift(
    () => service.stop(),
    () => node.stop(true),
  );
  const statusOf = async (address: string) => (await service.get(`/api/v2/nft/${address}`)).body;
  for (const address of [...NEVER_USED, SILENT]) await statusOf(address);
  await eventually("two searches have reached the held ranges", async () => {
    const held = windows.filter(({ from }) => from >= EARLY);
    return held.length >= 2 ? held : undefined;
  });
  expect((await synced(service, CLAIMANT)).body.result).toEqual([]);
  for (const address of NEVER_USED) expect(await statusOf(address)).toMatchObject({ status: "SYNCING" });
  expect(new Set(windows.filter(({ from }) => from >= EARLY).map(({ address }) => address)).size).toBeLessThanOrEqual(
    3,
  );

  gate.resolve();
  for (const address of NEVER_USED) {
    await eventually(`${address} is identified as no contract`, async () =>
      (await statusOf(address)).code === "not_a_contract" ? true : undefined,
    );
    const asked = windows.filter((window) => window.address === address);
    expect(asked.length).toBeLessThan((HEAD / MAX_BLOCKS) * 1.1);
  }
  expect((await synced(service, SILENT)).body.result).toMatchObject([{ token_id: "7" }]);
});
