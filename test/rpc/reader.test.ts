/**
 * The reader over several endpoints of which one lags: a block or state that one endpoint lacks doesn't count as
 * absent.
 */
import { describe, expect, test } from "bun:test";
import { Interface } from "ethers";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { BlockHeader, Endpoint } from "../../src/rpc/port.ts";
import { IDENTITY } from "../../src/rpc/reading/many-calls.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { classifyRpcError, RpcError } from "../../src/rpc/rpc-errors.ts";
import { logsBloomOf } from "../support/bloom.ts";

const hex = (value: number) => `0x${value.toString(16)}`;
const hashOf = (number: number) => `0x${number.toString(16).padStart(64, "0")}`;

/** Ms that answers have taken, beside the time that really passes. */
let passed = 0;
const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + passed };

/**
 * A node that answers for a chain up to its `head`, with the state of its newest blocks only, and records its requests.
 * @param delays ms that its first answers take
 */
function node(
  label: string,
  head: number,
  { states = 1_000, delays = [] }: { states?: number; delays?: number[] } = {},
): Endpoint & { head: number; readonly asked: unknown[] } {
  const asked: unknown[] = [];
  return {
    label,
    head,
    asked,
    async request(method, params) {
      const { to, data } = params[0] as { readonly to?: string; readonly data?: string };
      if (to === IDENTITY) return data;
      asked.push(params[0]);
      passed += delays.shift() ?? 0;
      await Promise.resolve();
      if (method === "eth_call") {
        const block = params[1] === "latest" ? this.head : Number(params[1]);
        if (block <= this.head && block > this.head - states) return params[1] === "latest" ? "0x" : hex(block);
        throw classifyRpcError({ code: -32_000, message: "missing trie node: state is not available" }, method, {});
      }
      const number = params[0] === "latest" ? this.head : Number(params[0]);
      if (number > this.head) return null;
      return { number: hex(number), hash: hashOf(number), parentHash: hashOf(number - 1), timestamp: hex(number * 12) };
    },
    transfers: () => Promise.reject(new Error("this endpoint is never called for transfers")),
    destroy: () => undefined,
  };
}

function readerWith(options: { depthIsSet: boolean }, endpoints: readonly Endpoint[]): RpcChainReader {
  const pool = new EndpointPool({ chain: "eth", endpoints, clock });
  const multicall = `0x${"c".repeat(40)}` as Address;
  return new RpcChainReader({ chainId: 1, pool, multicall, finalityDepth: 5, ...options });
}

const readerOf = (...endpoints: Endpoint[]) => readerWith({ depthIsSet: true }, endpoints);
const taggedReaderOf = (...endpoints: Endpoint[]) => readerWith({ depthIsSet: false }, endpoints);

/** A transfer of one token in block 8, as an endpoint returns it. */
function transferOf(address: Address, index = 0) {
  return {
    address,
    topics: [TRANSFER, hashOf(0), hashOf(1), hashOf(index)] as Hash[],
    data: "0x",
    blockNumber: hex(8),
    blockHash: hashOf(8),
    transactionHash: hashOf(1),
    logIndex: hex(index),
  };
}

const known = (number: number) => ({ number, hash: hashOf(number) as Hash });

test("asks the other endpoints for a block that one lacks, and returns undefined if all lack it", async () => {
  const reader = readerOf(node("eth#1", 7), node("eth#2", 9));
  expect((await reader.header(9))?.number).toBe(9);
  expect(await reader.header(10)).toBeUndefined();
});

test("searches once for the first block that is not pruned, however many questions meet a pruned one", async () => {
  const pruning = node("eth#1", 1_000_000);
  const answer = pruning.request.bind(pruning);
  pruning.request = (method, params) =>
    Number(params[0]) < 600_000
      ? Promise.reject(classifyRpcError({ code: 4444, message: "pruned history unavailable" }, method, {}))
      : answer(method, params);
  const reader = readerOf(pruning);
  const refusals = await Promise.all(
    Array.from({ length: 50 }, (_, block) => reader.header(block).catch((error: unknown) => error)),
  );
  for (const refusal of refusals) expect(refusal).toMatchObject({ code: "history_pruned", meta: { block: 600_000 } });
  // The head of each question, and the half of the 20 steps that the node answers.
  expect(pruning.asked.length).toBeLessThan(50 + 20);
});

test("skips a lagging endpoint until it has caught up", async () => {
  const [first, second] = [node("eth#1", 7), node("eth#2", 9)];
  const reader = readerOf(first, second);
  expect((await reader.head()).number).toBe(7);
  expect(await reader.benchLaggards(known(9))).toBe(true);
  expect((await reader.head()).number).toBe(9);
  first.head = 9;
  expect(await reader.benchLaggards(known(9))).toBe(false);
  first.head = 11;
  expect(await reader.benchLaggards(known(9))).toBe(true);
  expect((await reader.head()).number).toBe(11);
});

test("finds a newer head at an endpoint that has just refused a request in unknown words", async () => {
  const [stuck, fine] = [node("eth#1", 7), node("eth#2", 9)];
  for (const one of [stuck, fine]) {
    const answer = one.request.bind(one);
    one.request = (method, params) =>
      params[0] === hex(3)
        ? Promise.reject(classifyRpcError({ code: -32_000, message: "unknown block" }, method, {}))
        : answer(method, params);
  }
  const reader = readerOf(stuck, fine);
  await expect(reader.header(3)).rejects.toThrow("unknown block");
  expect(await reader.benchLaggards(known(7))).toBe(true);
  expect((await reader.head()).number).toBe(9);
});

test("answers calls at the head from another endpoint if the one that reported the head has no state there", async () => {
  // Endpoint 1 is faster until it is slow to report the head. Then endpoint 2 is called.
  const [first, second] = [
    node("eth#1", 7, { delays: [0, 0, 6_000] }),
    node("eth#2", 20, { states: 4, delays: [1_000] }),
  ];
  const reader = readerOf(second, first);
  await reader.header(1);
  const to = `0x${"d".repeat(40)}` as Address;
  const { header, results } = await reader.callsAtHead([{ to, data: "0x1234" }]);
  expect(header.number).toBe(20);
  expect(results).toEqual([{ ok: true, data: hex(20) }]);
});

describe("calls at a block that was shown before", () => {
  const call = { to: `0x${"d".repeat(40)}` as Address, data: "0x1234" };

  /** An endpoint with another block 9 than the others. */
  function forked(label: string): ReturnType<typeof node> {
    const plain = node(label, 9);
    return Object.assign(Object.create(plain) as typeof plain, {
      async request(method: string, params: unknown[]) {
        const answer = await plain.request(method, params);
        return method === "eth_getBlockByNumber" ? { ...(answer as object), hash: hashOf(99) } : answer;
      },
    });
  }

  test("come from an endpoint that has this very block, not from one that is behind or on another branch", async () => {
    for (const other of [forked("eth#1"), node("eth#1", 8)]) {
      const reader = readerOf(other, node("eth#2", 9));
      const { header, results } = await reader.callsAtBlock([call], known(9));
      expect([header.hash, results]).toEqual([known(9).hash, [{ ok: true, data: hex(9) }]]);
    }
  });

  test("fail if no endpoint has it", async () => {
    await expect(readerOf(forked("eth#1")).callsAtBlock([call], known(9))).rejects.toMatchObject({
      code: "chain_unavailable",
    });
  });
});

describe("more calls at the head than one Multicall3 takes", () => {
  const coder = new Interface([
    "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])",
  ]);
  const to = `0x${"d".repeat(40)}` as Address;
  const calls = Array.from({ length: 1_200 }, (_, index) => ({ to, data: `0x${index.toString(16).padStart(8, "0")}` }));
  const word = (value: number): string => `0x${value.toString(16).padStart(64, "0")}`;

  /** Answers each call with its own data, at the blocks of `blocks` in the order of the requests. */
  function aggregating(blocks: number[]): ReturnType<typeof node> {
    const plain = node("eth#1", 9);
    return Object.assign(Object.create(plain) as typeof plain, {
      async request(method: string, params: unknown[]) {
        if (method !== "eth_call") return node("eth#1", 9).request(method, params);
        plain.asked.push(params[1]);
        const block = params[1] === "latest" ? blocks.shift()! : Number(params[1]);
        const [list] = coder.decodeFunctionData("aggregate3", (params[0] as { data: string }).data);
        const results = (list as [string, boolean, string][]).map(([target, , data]) => [
          true,
          target.toLowerCase() === to ? `${data}${word(block).slice(2)}` : word(block),
        ]);
        return coder.encodeFunctionResult("aggregate3", [results]);
      },
    });
  }

  const expected = calls.map(({ data }) => ({ ok: true, data: `${data}${word(9).slice(2)}` }));

  test("are answered at one block by several Multicall3", async () => {
    const endpoint = aggregating([9, 9, 9]);
    const { header, results } = await readerOf(endpoint).callsAtHead(calls);
    expect([header.number, results]).toEqual([9, expected]);
    expect(endpoint.asked).toEqual(["latest", "latest", "latest"]);
  });

  test("are repeated at the head's number if two of them were answered at different blocks", async () => {
    const endpoint = aggregating([9, 8, 9]);
    const { header, results } = await readerOf(endpoint).callsAtHead(calls);
    expect([header.number, results]).toEqual([9, expected]);
    expect(endpoint.asked).toEqual(["latest", "latest", "latest", "0x9", "0x9", "0x9"]);
  });
});

describe("calls that take more gas than the node gives", () => {
  const coder = new Interface([
    "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])",
  ]);
  const to = `0x${"d".repeat(40)}` as Address;
  const greedy = `0x${"e".repeat(40)}` as Address;

  /** Gives gas for so many calls at once, and none for others together with a contract that burns it. */
  function limited(gas: number): { endpoint: ReturnType<typeof node>; sizes: number[] } {
    const sizes: number[] = [];
    const plain = node("eth#1", 9);
    const endpoint = Object.assign(Object.create(plain) as typeof plain, {
      async request(method: string, params: unknown[]) {
        if (method !== "eth_call") return plain.request(method, params);
        const { data, to: target } = params[0] as { data: string; to: string };
        if (target === to || target === IDENTITY) return data;
        if (target === greedy) throw new RpcError("revert", "out of gas");
        const [list] = coder.decodeFunctionData("aggregate3", data);
        const asked = list as [string, boolean, string][];
        sizes.push(asked.length);
        if (asked.length > gas || asked.some(([one]) => one.toLowerCase() === greedy)) {
          throw new RpcError("revert", "out of gas");
        }
        return coder.encodeFunctionResult("aggregate3", [asked.map(([, , own]) => [true, own])]);
      },
    });
    return { endpoint, sizes };
  }

  const callsOf = (count: number, target = to) =>
    Array.from({ length: count }, (_, index) => ({ to: target, data: `0x${index.toString(16).padStart(8, "0")}` }));

  test("are split in halves, and later reads keep to the size that was possible", async () => {
    const { endpoint, sizes } = limited(260);
    const reader = readerOf(endpoint);
    const calls = callsOf(1_000);
    const expected = calls.map(({ data }) => ({ ok: true, data }));
    expect(await reader.calls(calls, 9)).toEqual(expected);
    expect(sizes.splice(0)).toEqual([500, 500, 250, 250, 250, 250]);
    expect(await reader.calls(calls, 9)).toEqual(expected);
    // The size grows a little after each success, and shrinks again once it is too large.
    expect(Math.max(...sizes)).toBeLessThan(300);
  });

  test("are isolated if one contract burns all of it", async () => {
    const { endpoint, sizes } = limited(500);
    const reader = readerOf(endpoint);
    const calls = [...callsOf(200), ...callsOf(1, greedy), ...callsOf(100)];
    const results = await reader.calls(calls, 9);
    expect(results.map(({ ok }) => ok)).toEqual(calls.map(({ to: target }) => target !== greedy));
    expect(sizes.length).toBeLessThan(2 * Math.ceil(Math.log2(calls.length)) + 1);
  });
});

test("trusts a single endpoint without extra requests", async () => {
  const only = node("eth#1", 7);
  const reader = readerOf(only);
  expect(await reader.header(9)).toBeUndefined();
  expect(await reader.benchLaggards(known(9))).toBe(false);
  expect(only.asked).toEqual(["0x9"]);
});

test("takes logs only from an endpoint that has the last block of the range", async () => {
  const address = `0x${"a".repeat(40)}` as Address;
  const withLogs = (one: ReturnType<typeof node>): Endpoint => ({
    ...one,
    request: (method, params) =>
      method === "eth_getLogs"
        ? Promise.resolve(one.head >= 8 ? [transferOf(address)] : [])
        : one.request(method, params),
  });
  const filter = { addresses: [address], topics: [TRANSFER], fromBlock: 1, toBlock: 9 };
  for (const head of [7, 8]) {
    const reader = readerOf(withLogs(node("eth#1", head)), withLogs(node("eth#2", 9)));
    const logs = await reader.completeLogs(filter, [], { requiredBlock: known(9) });
    expect(logs.map(({ blockNumber }) => blockNumber)).toEqual([8]);
  }
  for (const fromBlock of [7, 8]) {
    const reader = readerOf(withLogs(node("eth#1", 7)), withLogs(node("eth#2", 8)));
    const options = { requiredBlock: known(8), signal: new AbortController().signal };
    const { logs } = await reader.logSearch().next({ ...filter, fromBlock, toBlock: 8 }, options);
    expect(logs).toHaveLength(1);
  }
  // The endpoint has another branch at this height.
  const parted = { number: 9, hash: hashOf(99) as Hash };
  const alone = readerOf(withLogs(node("eth#2", 9)));
  const failure = await alone.completeLogs(filter, [], { requiredBlock: parted }).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: "chain_unavailable", retryable: true });
});

describe("a block with more logs than the endpoint returns", () => {
  const address = `0x${"a".repeat(40)}` as Address;
  const other = `0x${"b".repeat(40)}` as Address;
  const logs = [address, other].map(transferOf);
  const logsBloom = logsBloomOf(logs);
  const crowded = (): Endpoint & { readonly asked: unknown[] } => {
    const one = node("eth#1", 9);
    return {
      ...one,
      request: async (method, params) => {
        if (method === "eth_getBlockReceipts") return [{ logs, logsBloom }];
        if (method === "eth_getLogs") {
          const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
          if (Number(fromBlock) > 8 || Number(toBlock) < 8) return [];
          throw classifyRpcError({ code: -32_005, message: "query returned more than 10000 results" }, method, {});
        }
        return { ...((await one.request(method, params)) as object), logsBloom };
      },
    };
  };

  test("is read from its receipts for the requested contracts, by address or by topic alone", async () => {
    const filter = { topics: [TRANSFER], fromBlock: 5, toBlock: 9 };
    const few = await readerOf(crowded()).completeLogs({ ...filter, addresses: [address] }, []);
    expect(few.map((log) => [log.address, log.blockNumber])).toEqual([[address, 8]]);
    const crowd = Array.from({ length: 2_100 }, (_, i) => `0x${(i + 1).toString(16).padStart(40, "0")}` as Address);
    const many = await readerOf(crowded()).completeLogs({ ...filter, addresses: [...crowd, other] }, []);
    expect(many.map((log) => [log.address, log.blockNumber])).toEqual([[other, 8]]);
  });
});

test("doubts no block that an endpoint refuses although it says that it takes more", async () => {
  const words =
    "You can make eth_getLogs requests with up to a 500 block range. Based on your parameters, this block range should work: [0x3d7773, 0x3d7966]";
  const one = node("eth#1", 9);
  const endpoint: Endpoint = {
    ...one,
    request: async (method, params) => {
      if (method === "eth_getLogs") throw classifyRpcError({ code: -32_000, message: words }, method, {});
      if (method !== "eth_getBlockReceipts") return one.request(method, params);
      throw classifyRpcError({ code: -32_601, message: "the method does not exist" }, method, {});
    },
  };
  const address = `0x${"1".padStart(40, "0")}` as Address;
  const doubts: unknown[] = [];
  const filter = { addresses: [address], topics: [TRANSFER], fromBlock: 8, toBlock: 8 };
  const failure = await readerOf(endpoint)
    .completeLogs(filter, [], { onDoubt: (doubt) => doubts.push(doubt) })
    .catch((error: unknown) => error);
  expect(failure).toMatchObject({ kind: "transient" });
  expect(doubts).toEqual([]);
});

test("splits a refused block by addresses only if its receipts are refused too", async () => {
  const many = Array.from({ length: 200 }, (_, i) => `0x${(i + 1).toString(16).padStart(40, "0")}` as Address);
  const filter = { addresses: many, topics: [TRANSFER, hashOf(7) as Hash], fromBlock: 8, toBlock: 8 };
  for (const hasReceipts of [true, false]) {
    const asked: string[] = [];
    const one = node("eth#1", 9);
    const endpoint: Endpoint = {
      ...one,
      request: async (method, params) => {
        asked.push(method);
        if (method === "eth_getLogs") throw classifyRpcError({ code: -32_603, message: "Internal error" }, method, {});
        if (method !== "eth_getBlockReceipts") return one.request(method, params);
        if (!hasReceipts) throw classifyRpcError({ code: -32_601, message: "the method does not exist" }, method, {});
        return [];
      },
    };
    const failure = await readerOf(endpoint)
      .completeLogs(filter, [])
      .catch((error: unknown) => error);
    if (hasReceipts) expect(failure).toEqual([]);
    else expect(failure).toMatchObject({ code: "block_too_large" });
    expect(asked.length).toBeLessThan(10);
  }
});

test("keeps a block in doubt for the addresses that receipts did not settle", async () => {
  const many = Array.from({ length: 1_500 }, (_, i) => `0x${(i + 1).toString(16).padStart(40, "0")}` as Address);
  const [first, last] = [many[4]!, many.at(-1)!];
  const logs = [transferOf(first, 0), transferOf(last, 1)];
  const logsBloom = logsBloomOf(logs);
  const one = node("eth#1", 9);
  const endpoint: Endpoint = {
    ...one,
    request: async (method, params) => {
      if (method === "eth_getBlockReceipts") return [{ logs, logsBloom }];
      if (method !== "eth_getLogs") return { ...((await one.request(method, params)) as object), logsBloom };
      const { address } = params[0] as { address: string[] };
      // A request with the first thousand addresses is refused. For the others the endpoint omits a log.
      if (address.includes(first))
        throw classifyRpcError({ code: -32_005, message: "more than 10000 results" }, method, {});
      return [];
    },
  };
  const header = { number: 8, hash: hashOf(8), parentHash: hashOf(7), timestamp: 96, logsBloom } as BlockHeader;
  const filter = { addresses: many, topics: [TRANSFER], fromBlock: 8, toBlock: 8 };
  const found = await readerOf(endpoint).completeLogs(filter, [header], { strict: true });
  expect(found.map(({ address }) => address)).toEqual([first, last]);
});

test("grows the range of a search again after refusals shrank it to single blocks", async () => {
  const one = node("eth#1", 100_000);
  let asked = 0;
  const endpoint: Endpoint = {
    ...one,
    request: async (method, params) => {
      if (method !== "eth_getLogs") return one.request(method, params);
      if (++asked <= 9) throw classifyRpcError({ code: -32_603, message: "Internal error" }, method, {});
      return [];
    },
  };
  const search = readerOf(endpoint).logSearch();
  const { signal } = new AbortController();
  for (let from = 0; from < 20_000; ) {
    const filter = { addresses: [`0x${"a".repeat(40)}` as Address], topics: [], fromBlock: from, toBlock: 20_000 };
    from = (await search.next(filter, { signal })).toBlock + 1;
  }
  expect(asked).toBeLessThan(40);
});

test("tries the finalized tag again after a refusal, and not on an endpoint that rests because it lags", async () => {
  let isStarting = true;
  const young = (label: string, canSay: boolean): Endpoint => {
    const one = node(label, 90);
    return {
      ...one,
      async request(method, params) {
        one.head = (this as typeof one).head;
        if (params[0] !== "finalized") return one.request(method, params);
        if (isStarting && !canSay)
          throw classifyRpcError({ code: -39_001, message: "finalized block not found" }, method, {});
        return one.request(method, ["0x14", false]);
      },
    };
  };
  const finalOf = async (reader: RpcChainReader) => (await reader.tips()).finalized.number;
  const stuck = young("eth#2", true) as ReturnType<typeof node>;
  stuck.head = 50;
  const both = taggedReaderOf(young("eth#1", false), stuck);
  await both.benchLaggards(known(90));
  expect((await both.tips()).head.number).toBe(90);
  const alone = taggedReaderOf(young("eth#1", false));
  expect(await finalOf(alone)).toBe(85);
  isStarting = false;
  const said = [];
  for (let look = 0; look < 150; look++) said.push(await finalOf(alone));
  expect(said.at(-1)).toBe(20);
});

test("asks for a block in doubt with no more addresses than an endpoint accepts", async () => {
  const one = node("eth#1", 9);
  const lists: number[] = [];
  const endpoint: Endpoint = {
    ...one,
    request: async (method, params) => {
      if (method === "eth_getBlockReceipts") {
        throw classifyRpcError({ code: -32_601, message: "the method does not exist/is not available" }, method, {});
      }
      if (method !== "eth_getLogs") return one.request(method, params);
      const { address } = params[0] as { address?: string | string[] };
      const count = [address ?? []].flat().length;
      lists.push(count);
      if (count <= 1_000) return [];
      throw classifyRpcError({ code: -32_602, message: "too many addresses" }, method, {});
    },
  };
  const addresses = Array.from({ length: 1_500 }, (_, i) => `0x${(i + 1).toString(16).padStart(40, "0")}` as Address);
  const full = { number: 8, hash: hashOf(8), parentHash: hashOf(7), timestamp: 96, logsBloom: `0x${"f".repeat(512)}` };
  const filter = { addresses, topics: [TRANSFER], fromBlock: 8, toBlock: 8 };
  expect(await readerOf(endpoint).completeLogs(filter, [full as BlockHeader])).toEqual([]);
  expect(Math.max(...lists)).toBeLessThanOrEqual(1_000);
});

test("asks the other endpoints if the fastest one refuses", async () => {
  const address = `0x${"a".repeat(40)}` as Address;
  const refusals = [
    { code: -32_601, message: "the method eth_getLogs is not available" },
    { code: -32_000, message: "eth_getLogs is disabled on the free tier" },
    { code: -32_001, message: "Unauthorized: you must authenticate your request with an API key" },
  ];
  for (const refusal of refusals) {
    const [bad, good] = [node("eth#1", 9), node("eth#2", 9)];
    const without: Endpoint = {
      ...bad,
      request: async (method, params) => {
        if (method === "eth_getLogs") throw classifyRpcError(refusal, method, {});
        return bad.request(method, params);
      },
    };
    const having: Endpoint = {
      ...good,
      request: async (method, params) => {
        return method === "eth_getLogs" ? [transferOf(address)] : good.request(method, params);
      },
    };
    const filter = { addresses: [address], topics: [TRANSFER], fromBlock: 8, toBlock: 8 };
    expect(await readerOf(without, having).completeLogs(filter, [])).toHaveLength(1);
  }
  // State of an old block that the first endpoint has pruned.
  const reader = readerOf(node("eth#1", 90, { states: 4 }), node("eth#2", 90));
  expect(await reader.calls([{ to: address, data: "0x1234" }], 5)).toEqual([{ ok: true, data: hex(5) }]);
  const nobody = readerOf(node("eth#1", 90, { states: 4 }), node("eth#2", 90, { states: 4 }));
  const failure = await nobody.calls([{ to: address, data: "0x1234" }], 5).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: "state_unavailable" });
});
