/**
 * Estimates beside what indexing then spends: three shapes of collection, endpoints with three limits of blocks, and
 * one where the number of results decides. An estimate makes at most twenty calls.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, placeCode, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { latentProxy } from "../support/latency.ts";
import { type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { schemaFaults } from "../support/schemas.ts";
import { type Body, eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const KEY = "operator-key-of-the-estimate";
const SHAPES = ["dense", "amounts", "sparse"] as const;
const CAPS = [50, 200, 1_000] as const;
/** Selectors of `supportsInterface`, `name`, `symbol` and `decimals`. */
const IDENTIFYING = ["0x01ffc9a7", "0x06fdde03", "0x95d89b41", "0x313ce567"];

let anvil: Anvil;
const contracts = new Map<string, Deployed>();

beforeAll(async () => {
  anvil = await startAnvil();
  await placeCode(anvil, MAINNET.multicall3, (await contractArtifact("Multicall")).deployedBytecode);
  const sparse = await deploy(anvil, await contractArtifact("PlainNft"), ["Sparse", "S"]);
  contracts.set("sparse", sparse);
  for (let id = 1n; id <= 6n; id++) {
    await transact(anvil, sparse.contract, "mint", [anvil.accounts[1], id]);
    await anvil.mine(250);
  }
  const amounts = await deploy(anvil, await contractArtifact("MultiToken"), ["Amounts", "A", ""]);
  contracts.set("amounts", amounts);
  for (let id = 1n; id <= 8n; id++) {
    await transact(anvil, amounts.contract, "mint", [anvil.accounts[1], id, 5n]);
    await anvil.mine(80);
  }
  const dense = await deploy(anvil, await contractArtifact("PlainNft"), ["Dense", "D"]);
  contracts.set("dense", dense);
  for (let batch = 0n; batch < 4n; batch++) {
    await transact(anvil, dense.contract, "mintMany", [anvil.accounts[1], 1n + batch * 100n, 100n]);
  }
  await anvil.mine(400);
  const crowded = await deploy(anvil, await contractArtifact("Emitter"));
  contracts.set("crowded", crowded);
  for (let block = 0; block < 40; block++) {
    await transact(anvil, crowded.contract, "emitTransfers", [block * 100, 100, anvil.accounts[1], anvil.accounts[0]]);
    await anvil.mine(5);
  }
  await anvil.mine(100);
});
afterAll(() => anvil?.stop());

/** Number of blocks of a request for logs. */
function blocksOf({ params }: RpcCall): number {
  const [{ fromBlock, toBlock, blockHash }] = params as [{ fromBlock: string; toBlock: string; blockHash?: string }];
  return blockHash === undefined ? Number(toBlock) - Number(fromBlock) + 1 : 1;
}

/** Knows the code of each block, as an archive node does. The local node keeps few states. */
function codeAt({ method, params }: RpcCall): { result: string } | undefined {
  const [address, tag] = params as [string, string];
  if (method !== "eth_getCode" || !tag.startsWith("0x")) return undefined;
  const contract = [...contracts.values()].find((one) => one.address.toLowerCase() === address);
  if (contract === undefined) return undefined;
  return { result: Number(tag) >= contract.blockNumber ? "0x6001" : "0x" };
}

/** An endpoint that takes this many blocks per request, and has the state of each block. @param named says its limit */
const capped = (cap: number, named = false): Promise<RpcProxy> =>
  startRpcProxy(anvil.url, {
    onRequest: (call) => {
      if (call.method !== "eth_getLogs" || blocksOf(call) <= cap) return codeAt(call);
      return { error: { code: -32_602, message: `exceed maximum block range${named ? `: ${cap}` : ""}` } };
    },
  });

/** An endpoint that gives at most this many logs per answer. */
const sparing = (most: number): Promise<RpcProxy> =>
  startRpcProxy(anvil.url, {
    onRequest: async (call) => {
      if (call.method !== "eth_getLogs") return codeAt(call);
      const logs = (await anvil.send("eth_getLogs", call.params)) as unknown[];
      if (logs.length <= most) return undefined;
      return { error: { code: -32_005, message: `query returned more than ${most} results` } };
    },
  });

interface Running {
  readonly service: TestService;
  readonly proxy: RpcProxy;
}

async function withService(
  proxy: RpcProxy,
  work: (running: Running) => Promise<void>,
  clock = systemClock,
): Promise<void> {
  // Metadata and the self-audit cost calls of their own.
  const env = { OPERATOR_KEYS: KEY };
  const service = await startTestService({
    rpcUrl: proxy.url,
    logUrl: temporaryLogUrl(),
    env,
    auditMs: 3_600_000,
    clock,
  });
  try {
    await work({ service, proxy });
  } finally {
    await service.stop();
    await proxy.stop();
  }
}

const headers = { "x-api-key": KEY };
const estimateOf = async (service: TestService, address: string): Promise<Body> => {
  const answer = await service.get(`/api/collections/eth/${address}/estimate`, headers);
  expect(answer.status).toBe(200);
  return answer.body;
};

/** Indexes a collection, and returns the calls that it took. */
async function spentBy(service: TestService, address: string): Promise<number> {
  const body = JSON.stringify({ items: [{ chain: "eth", address }] });
  await service.fetch("/api/collections", { method: "POST", headers, body });
  return eventually(
    "the collection is indexed",
    async () => {
      const { body: list } = await service.get(`/api/collections?text=${address.toLowerCase()}`, headers);
      const [found] = list.result as { status: string; calls: number | null }[];
      return found?.status === "following" && found.calls !== null ? found.calls : undefined;
    },
    60_000,
  );
}

describe("under a limit of blocks, the calls are within 15 % of what indexing spends", () => {
  for (const cap of CAPS) {
    for (const shape of SHAPES) {
      test(`${shape}, ${cap} blocks`, async () => {
        await withService(await capped(cap), async ({ service, proxy }) => {
          const { address } = contracts.get(shape) as Deployed;
          proxy.reset();
          const estimate = await estimateOf(service, address);
          expect(estimate.probes).toBeLessThanOrEqual(20);
          expect(proxy.count() - proxy.count("eth_chainId")).toBeLessThanOrEqual(20);
          const spent = await spentBy(service, address);
          const { low, high } = estimate.total;
          expect(high).toBeLessThanOrEqual(low * 1.15);
          expect(low).toBeLessThanOrEqual(spent * 1.15);
          expect(high).toBeGreaterThanOrEqual(spent * 0.85);
        });
      });
    }
  }
});

test.each([true, false])(
  "counts the identification where the chain has no Multicall3, creation code: %p",
  async (runsCreations) => {
    const { address } = contracts.get("dense") as Deployed;
    let asked = 0;
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: (call) => {
        if (call.method !== "eth_call") return codeAt(call);
        const [{ to, data }] = call.params as [{ to?: string; data: string }];
        if (to === MAINNET.multicall3.toLowerCase()) return { result: "0x" };
        const isTogether = to === undefined && IDENTIFYING.every((selector) => data.includes(selector.slice(2)));
        if (isTogether && !runsCreations) return { error: { code: -32_602, message: "missing to" } };
        const isAlone = to === address.toLowerCase() && IDENTIFYING.some((selector) => data.startsWith(selector));
        if (isTogether || isAlone) asked++;
        return to === undefined && !runsCreations ? { error: { code: -32_602, message: "missing to" } } : undefined;
      },
    });
    await withService(proxy, async ({ service }) => {
      const { calls } = await estimateOf(service, address);
      asked = 0;
      await spentBy(service, address);
      expect(calls.eth_call).toEqual({ low: asked, high: asked });
    });
  },
);

test("the seconds are within a factor of two, behind an endpoint with latency", async () => {
  const behind = await capped(50);
  const proxy = await latentProxy(behind.url, 25);
  try {
    await withService(proxy, async ({ service }) => {
      const { address } = contracts.get("sparse") as Deployed;
      const { seconds } = await estimateOf(service, address);
      const started = performance.now();
      await spentBy(service, address);
      const took = (performance.now() - started) / 1_000;
      expect([seconds, took, seconds <= took * 2 && seconds >= took / 2]).toEqual([seconds, took, true]);
    });
  } finally {
    await behind.stop();
  }
});

describe("where the number of results decides", () => {
  test("the range holds what indexing spends", async () => {
    await withService(await sparing(250), async ({ service }) => {
      const { address } = contracts.get("crowded") as Deployed;
      const estimate = await estimateOf(service, address);
      expect(await schemaFaults(service, "CollectionEstimate", estimate)).toEqual([]);
      const spent = await spentBy(service, address);
      expect(estimate.total.low).toBeLessThanOrEqual(spent);
      expect(estimate.total.high).toBeGreaterThanOrEqual(spent);
      expect(estimate.probes).toBeLessThanOrEqual(20);
    });
  });
});

test("is kept for ten minutes, and costs nothing meanwhile", async () => {
  let ahead = 0;
  const clock: Clock = {
    now: () => systemClock.now() + ahead,
    monotonic: () => systemClock.monotonic() + ahead,
    random: () => systemClock.random(),
    sleep: (ms, signal) => systemClock.sleep(ms, signal),
    after: (ms, callback) => systemClock.after(ms, callback),
  };
  await withService(
    await capped(500),
    async ({ service, proxy }) => {
      const { address } = contracts.get("dense") as Deployed;
      const first = await estimateOf(service, address);
      proxy.reset();
      expect(await estimateOf(service, address)).toEqual(first);
      expect(proxy.count()).toBe(0);
      ahead = 601_000;
      const later = await eventually("the service has caught up with the clock", async () => {
        const answer = await service.get(`/api/collections/eth/${address}/estimate`, headers);
        return answer.status === 200 ? answer.body : undefined;
      });
      expect(later.time).not.toBe(first.time);
      expect(proxy.count()).toBeGreaterThan(0);
    },
    clock,
  );
});

test("has the units of a list, no endpoint and no key, and is refused without a contract", async () => {
  await withService(await capped(1_000), async ({ service, proxy }) => {
    const estimate = await estimateOf(service, (contracts.get("sparse") as Deployed).address);
    expect(estimate.units.list).toBe("compute units");
    expect(estimate.units.low).toBeGreaterThan(estimate.total.low * 15);
    expect(JSON.stringify(estimate)).not.toContain(String(proxy.port));
    const nothing = await service.get(`/api/collections/eth/0x${"12".repeat(20)}/estimate`, headers);
    expect([nothing.status, nothing.body.code]).toEqual([404, "not_a_contract"]);
    expect((await service.get(`/api/collections/eth/0x12/estimate`, headers)).status).toBe(400);
    expect(
      (await service.get(`/api/collections/eth/${(contracts.get("sparse") as Deployed).address}/estimate`)).status,
    ).toBe(403);
  });
});

describe("of a contract younger than the final block", () => {
  /** Batches of 48 transfers before and after the final block of the tests, which is 64 blocks below the head. */
  const AGES = {
    straddling: { final: 3, young: 2 },
    newborn: { final: 0, young: 5 },
  } as const;

  beforeAll(async () => {
    const artifact = await contractArtifact("PlainNft");
    for (const [name, { final, young }] of Object.entries(AGES)) {
      const nft = await deploy(anvil, artifact, [name, "Y"]);
      contracts.set(name, nft);
      const mint = (batch: number) =>
        transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], BigInt(batch) * 100n + 1n, 48n]);
      for (let batch = 0; batch < final; batch++) await mint(batch);
      if (final > 0) await anvil.mine(70);
      for (let batch = final; batch < final + young; batch++) await mint(batch);
    }
  });

  for (const [name, { final, young }] of Object.entries(AGES)) {
    for (const cap of [20, 1_000]) {
      test(`${name}, ${cap} blocks: the calls are within 15 %, and the range holds the transfers`, async () => {
        await withService(await capped(cap), async ({ service }) => {
          const { address } = contracts.get(name) as Deployed;
          const estimate = await estimateOf(service, address);
          const count = (final + young) * 48;
          const { low: least, high: most } = estimate.transfers;
          expect([least <= count, most >= count]).toEqual([true, true]);
          if (cap === 1_000) expect([least, most]).toEqual([count, count]);
          const spent = await spentBy(service, address);
          const { low, high } = estimate.total;
          expect([low, spent, high, high <= low * 1.15]).toEqual([low, spent, high, true]);
          expect([low, spent, high, low <= spent * 1.15 && high >= spent * 0.85]).toEqual([low, spent, high, true]);
        });
      });
    }

    test(`${name}: the range holds the calls where a follower has read some of the headers`, async () => {
      await withService(await capped(1_000), async ({ service }) => {
        await spentBy(service, (contracts.get("sparse") as Deployed).address);
        const { address } = contracts.get(name) as Deployed;
        const { low, high } = (await estimateOf(service, address)).total;
        const spent = await spentBy(service, address);
        expect([low, spent, high, low <= spent && spent <= high]).toEqual([low, spent, high, true]);
      });
    });
  }
});

describe("what was not counted", () => {
  test("is no point: transfers between the places that were read", async () => {
    // All transfers lie in one block, far from the places that an estimate reads.
    const far = await deploy(anvil, await contractArtifact("PlainNft"), ["Far", "F"]);
    contracts.set("far", far);
    await anvil.mine(150);
    await transact(anvil, far.contract, "mintMany", [anvil.accounts[1], 1n, 48n]);
    await anvil.mine(450);
    await withService(await capped(20), async ({ service }) => {
      const estimate = await estimateOf(service, far.address);
      const { low, high } = estimate.transfers;
      expect([low <= 48, high === null || high >= 48]).toEqual([true, true]);
      expect(low).not.toBe(high);
      expect(estimate.probes).toBeLessThanOrEqual(20);
      expect(await schemaFaults(service, "CollectionEstimate", estimate)).toEqual([]);
    });
  });

  test("does not leave out the first transfers: the history begins at the deployment, or before it", async () => {
    const late = await deploy(anvil, await contractArtifact("PlainNft"), ["Late", "L"]);
    contracts.set("late", late);
    await transact(anvil, late.contract, "mintMany", [anvil.accounts[1], 1n, 48n]);
    await anvil.mine(150);
    await withService(await capped(100_000), async ({ service }) => {
      for (const name of ["late", "sparse"]) {
        const { address, blockNumber } = contracts.get(name) as Deployed;
        const { blocks, transfers } = await estimateOf(service, address);
        expect([blocks.from <= blockNumber, blocks.fromAtLatest >= blockNumber]).toEqual([true, true]);
        expect(blocks.count).toBe(blocks.to - blocks.from + 1);
        expect(transfers.low).toBeGreaterThan(0);
      }
    });
  });

  test("is said where the calls before have spent what an estimate may spend", async () => {
    // Without old state and without batches, and refusing ranges one after the other, little is left to count with.
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: (call) => {
        if (call.method === "eth_getLogs" && blocksOf(call) > 3) {
          return { error: { code: -32_602, message: "exceed maximum block range" } };
        }
        if (call.method !== "eth_getCode" || call.params[1] === "latest") return undefined;
        return codeAt(call);
      },
    });
    await withService(proxy, async ({ service }) => {
      const estimate = await estimateOf(service, (contracts.get("crowded") as Deployed).address);
      expect(estimate.transfers.low === estimate.transfers.high && estimate.transfers.high === 0).toBe(false);
      expect(estimate.probes).toBeLessThanOrEqual(20);
    });
  });
});

describe("the endpoint's limit of blocks", () => {
  for (const [cap, taken] of [
    [400, 400],
    [250, 250],
  ] as const) {
    test(`is found by a probe if the places were read in smaller ranges: ${cap} blocks`, async () => {
      await withService(await capped(cap), async ({ service, proxy }) => {
        // A crowded contract is read in small ranges, and none of them meets the limit.
        const { address } = contracts.get("sparse") as Deployed;
        const { limits, probes } = await estimateOf(service, address);
        const largest = Math.max(...proxy.calls.filter(({ method }) => method === "eth_getLogs").map(blocksOf));
        expect(largest).toBeGreaterThan(cap);
        expect(limits.maxBlocks).not.toBeNull();
        expect(limits.maxBlocks).toBeLessThanOrEqual(taken);
        expect(probes).toBeLessThanOrEqual(20);
      });
    });
  }

  test("is what the running service has learned", async () => {
    // Without a number in the refusal, it depends on the order of the answers if the limit is met exactly.
    await withService(await capped(500, true), async ({ service }) => {
      await spentBy(service, (contracts.get("sparse") as Deployed).address);
      const { limits } = await estimateOf(service, (contracts.get("dense") as Deployed).address);
      expect([limits.source, limits.maxBlocks]).toEqual(["known", 500]);
    });
  });

  test("is said up to the blocks that were asked for, if none was met", async () => {
    await withService(await capped(1_000_000), async ({ service }) => {
      const { limits, blocks } = await estimateOf(service, (contracts.get("sparse") as Deployed).address);
      expect(limits.maxBlocks).toBeNull();
      expect(limits.answered).toBeGreaterThanOrEqual(Math.min(blocks.count, 2_000));
    });
  });
});
