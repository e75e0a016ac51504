/** The tokens that were priced here are found by a text: from the log alone, and as soon as they have a price. */
import { expect, test } from "bun:test";
import { CHAINS } from "../../src/chains/chains.ts";
import type { Address } from "../../src/core/hex.ts";
import { type DomainEvent, priceStream } from "../../src/events/types.ts";
import { PricedTokens } from "../../src/prices/priced-tokens.ts";
import { MemoryLog } from "../support/memory-log.ts";

const chains = CHAINS.filter(({ chainId }) => chainId === 1);
const address = (n: number): Address => `0x${n.toString(16).padStart(40, "0")}` as Address;

const facts = (name: string, symbol: string): DomainEvent => ({
  ...{ type: "TokenIdentified", name, symbol, decimals: 18, isContract: true, block: 1 },
});
const price: DomainEvent = { type: "TokenPriced", price: new Uint8Array(8) };

async function note(log: MemoryLog, chainId: number, n: number, ...events: readonly DomainEvent[]): Promise<void> {
  const stream = priceStream(chainId, address(n));
  await log.append({ stream, events, expectedVersion: log.events(stream).length });
}

test("finds tokens by a part of their address, symbol or name, and no others", async () => {
  const log = new MemoryLog();
  await note(log, 1, 1, facts("Demo Token", "DEMO"), price);
  await note(log, 1, 2, facts("Other", "OTH"), price);
  await note(log, 137, 3, facts("Demo elsewhere", "DEMO"), price);
  const tokens = new PricedTokens({ log, chains });
  const demo = { chain: "eth", address: address(1), symbol: "DEMO", name: "Demo Token" };
  for (const text of ["demo", "mo tok", address(1)]) expect([text, await tokens.find(text, 5)]).toEqual([text, [demo]]);
  expect(await tokens.find("", 5)).toHaveLength(2);
  expect(await tokens.find("", 1)).toHaveLength(1);
  expect(await tokens.find("nothing", 5)).toEqual([]);
});

test("finds a token once it has a price, and not before", async () => {
  const log = new MemoryLog();
  const tokens = new PricedTokens({ log, chains });
  expect(await tokens.find("late", 5)).toEqual([]);
  await note(log, 1, 1, facts("Late", "LATE"));
  expect(await tokens.find("late", 5)).toEqual([]);
  await note(log, 1, 1, price);
  expect(await tokens.find("late", 5)).toHaveLength(1);
});

test("reads a stream again whose reading failed", async () => {
  const log = new MemoryLog();
  await note(log, 1, 1, facts("Demo Token", "DEMO"), price);
  let isBroken = true;
  const read: MemoryLog["read"] = async (...asked) => {
    if (isBroken) throw new Error("the log does not answer");
    return log.read(...asked);
  };
  const failing = { streams: log.streams.bind(log), subscribe: log.subscribe.bind(log), read };
  const tokens = new PricedTokens({ log: failing, chains });
  await expect(tokens.find("demo", 5)).rejects.toThrow("does not answer");
  isBroken = false;
  expect(await tokens.find("demo", 5)).toHaveLength(1);
});
