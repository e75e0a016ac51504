/** Facts of blocks that are kept for a while: what one key reads evicts nothing of another key's. */
import { expect, test } from "bun:test";
import { BlockFacts } from "../../src/chain/block-facts.ts";
import { Budget } from "../../src/core/budget.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { NFT_TOPICS } from "../../src/rpc/decode/transfers.ts";
import type { ChainLog } from "../../src/rpc/port.ts";

const ADDRESS = `0x${"ab".repeat(20)}` as Address;
const FINAL = 1_000_000;
const PAGE = 40;
/** Blocks of which the logs, and the headers, take more than the whole cache. */
const GREEDY = 16_000;

const hashOf = (number: number) => `0x${String(number).padStart(64, "0")}` as Hash;
const headerOf = (number: number) => ({
  ...{ number, hash: hashOf(number), parentHash: hashOf(number - 1), timestamp: number },
});

test("the facts of a page stay while another key reads those of many blocks", async () => {
  let calls = 0;
  const reader = {
    header: async (number: number) => headerOf(number),
    headers: async (numbers: readonly number[]) => {
      calls += numbers.length;
      return numbers.map(headerOf);
    },
    presentHeaders: async (numbers: readonly number[]) => numbers.map(headerOf),
    logs: async ({ fromBlock }: { readonly fromBlock: number }) => {
      calls++;
      const log = { address: ADDRESS, topics: [NFT_TOPICS[0]], data: "0x", blockNumber: fromBlock, logIndex: 0 };
      const of = { blockHash: hashOf(fromBlock), transactionHash: hashOf(fromBlock), transactionIndex: 0 };
      return [{ ...log, ...of } as unknown as ChainLog];
    },
  } as unknown as ConstructorParameters<typeof BlockFacts>[0]["reader"];
  const view = { header: () => undefined, finalized: () => headerOf(FINAL) };
  const facts = new BlockFacts({ reader, view, clock: systemClock });
  const read = async (key: string, from: number, count: number) => {
    const logs = Array.from({ length: count }, (_, at) => ({ block: from + at, logIndex: 0 }));
    const budget = new Budget({ owner: { key, isOperator: false } });
    const before = calls;
    const found = await budget.run(() => facts.read(ADDRESS, logs, { at: undefined, times: true, transactions: true }));
    expect(found.every(({ time, transaction }) => time !== undefined && transaction !== undefined)).toBe(true);
    return calls - before;
  };
  expect(await read("honest", 1, PAGE)).toBe(2 * PAGE);
  for (let from = 1_000; from < 1_000 + GREEDY; from += 1_000) await read("greedy", from, 1_000);
  expect(await read("honest", 1, PAGE)).toBe(0);
});
