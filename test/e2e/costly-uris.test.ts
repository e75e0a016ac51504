/** A contract may make its URIs costly to read. A proxy counts what the service asks the node for them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type RpcCall, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, temporaryLogUrl } from "../support/service.ts";

const TOKENS = 400;
const URI_SELECTORS = /c87b56dd|e8a3d485/;
/** Gas that a node gives each call, as most do. */
const NODE_GAS = 50_000_000;
const ENDLESS = 10n ** 12n;

let anvil: Anvil;
beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 4 });
});
afterAll(() => anvil?.stop());

interface Costs {
  readonly gasEach?: bigint;
  readonly bytesEach?: bigint;
  readonly tokens?: number;
  /** Ids below it are costly. */
  readonly costlyIds?: number;
  /** False for a node that runs no calls without a contract. */
  readonly runsCreationCode?: boolean;
}

/** Indexes a collection with its metadata. Returns what its URIs have cost, and the outcomes. */
async function costsOf(options: Costs) {
  const { gasEach = 0n, bytesEach = 0n, tokens = TOKENS, costlyIds = tokens, runsCreationCode = true } = options;
  const artifact = await contractArtifact("CostlyUris");
  const { contract, address } = await deploy(anvil, artifact, [gasEach, bytesEach, costlyIds]);
  await transact(anvil, contract, "mintMany", [tokens]);
  await anvil.mine(10);
  const costs = { requests: 0, gas: 0, digits: 0 };
  const isOfUris = ({ method, params }: RpcCall) => method === "eth_call" && URI_SELECTORS.test(JSON.stringify(params));
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: (call) => {
      const isCreation = call.method === "eth_call" && (call.params[0] as { to?: string }).to === undefined;
      if (isCreation && !runsCreationCode) return { error: { code: -32_602, message: "missing to" } };
      if (!isOfUris(call)) return undefined;
      costs.requests++;
      costs.gas += Number((call.params[0] as { gas?: string }).gas ?? NODE_GAS);
      return undefined;
    },
    onResult: (call, result) => {
      if (isOfUris(call)) costs.digits += String(result).length;
      return result;
    },
  });
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  try {
    await synced(service, address, 0);
    const metadata = await eventually("all outcomes are known", async () => {
      const { body } = await service.get(`/api/collections/eth/${address}`);
      return body.metadata.left === 0 ? body.metadata : undefined;
    });
    return { ...costs, metadata };
  } finally {
    await service.stop();
    await proxy.stop();
  }
}

/** Batches of 40 tokens, single tokens until the contract is believed, and its own document. */
const BOUNDED = { requests: 60, gas: 60 * NODE_GAS };

describe("the URIs of a contract", () => {
  test("that burn all gas cost a batch each forty tokens, and twenty single calls", async () => {
    const { requests, gas, metadata } = await costsOf({ gasEach: ENDLESS });
    expect(metadata.reasons).toEqual({ out_of_gas: TOKENS });
    expect(requests).toBeLessThan(BOUNDED.requests);
    expect(gas).toBeLessThan(BOUNDED.gas);
  });

  test("that have three megabytes are not read", async () => {
    const { requests, digits, metadata } = await costsOf({ bytesEach: 3_000_000n });
    expect(metadata.resolved).toBe(0);
    expect(metadata.reasons.no_uri).toBeUndefined();
    expect(requests).toBeLessThan(BOUNDED.requests);
    expect(digits).toBeLessThan(1_000_000);
  });

  test("are read one by one if they take more gas than their batch gives each", async () => {
    const { requests, metadata } = await costsOf({ gasEach: 3_000_000n, bytesEach: 20_000n });
    expect(metadata.resolved).toBe(TOKENS);
    expect(requests).toBeLessThan(1.2 * TOKENS);
  });

  test("are read if they take nearly all gas that the node gives a call", async () => {
    const { metadata } = await costsOf({ gasEach: 27_000_000n, tokens: 12 });
    expect(metadata).toMatchObject({ resolved: 12, failed: 0 });
  });

  test("are read in batches otherwise", async () => {
    const { requests, metadata } = await costsOf({ bytesEach: 1_000n });
    expect(metadata.resolved).toBe(TOKENS);
    expect(requests).toBeLessThan(BOUNDED.requests / 2);
  });

  test.each([true, false])("are not said to be missing beside those that burn gas; creation code: %p", async (runs) => {
    const { metadata } = await costsOf({ gasEach: ENDLESS, costlyIds: 60, runsCreationCode: runs });
    expect(metadata.reasons).toEqual({ out_of_gas: metadata.failed });
    expect(metadata.resolved + metadata.failed).toBe(TOKENS);
    expect(metadata.failed).toBeLessThanOrEqual(runs ? 80 : TOKENS);
  });
});
