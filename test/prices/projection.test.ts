import { describe, expect, test } from "bun:test";
import { toAddress, toHash } from "../../src/core/hex.ts";
import type { PriceEvent, PriceObserved } from "../../src/events/types.ts";
import { evolvePrice, initialPriceState, latest, type PriceState } from "../../src/prices/search/price-streams.ts";

const pool = toAddress(`0x${"1".repeat(40)}`);
const hash = (block: number) => toHash(`0x${block.toString(16).padStart(64, "0")}`);
const given = (...events: PriceEvent[]): PriceState => events.reduce(evolvePrice, initialPriceState);

const discovered: PriceEvent = {
  type: "PoolDiscovered",
  pool,
  factory: toAddress(`0x${"2".repeat(40)}`),
  style: "v2",
  fee: 3000,
  token0: toAddress(`0x${"3".repeat(40)}`),
  token1: toAddress(`0x${"4".repeat(40)}`),
  block: 1,
};
const observed = (block: number, reserve0: string): PriceObserved => ({
  type: "PriceObserved",
  pool,
  state: { style: "v2", reserve0, reserve1: "1" },
  block,
  blockHash: hash(block),
  timestamp: block,
});
const reverted = (block: number): PriceEvent => ({
  type: "BlocksReverted",
  ancestor: { number: block, hash: hash(block) },
});

describe("the price stream", () => {
  test("keeps the newest state of each pool", () => {
    expect(latest(given(discovered, observed(1, "5"), observed(3, "7")), pool)).toEqual(observed(3, "7"));
  });

  test("returns to the state before a revert", () => {
    const state = given(discovered, observed(1, "5"), observed(3, "7"), reverted(2));
    expect(latest(state, pool)).toEqual(observed(1, "5"));
    expect(latest(evolvePrice(state, observed(3, "9")), pool)).toEqual(observed(3, "9"));
  });

  test("is the same if an event comes twice", () => {
    const events = [discovered, observed(1, "5"), observed(3, "7"), reverted(2)];
    expect(given(...events.flatMap((event) => [event, event]))).toEqual(given(...events));
  });

  test("ignores states of unknown pools and states older than the newest", () => {
    expect(given(observed(1, "5"))).toEqual(initialPriceState);
    expect(latest(given(discovered, observed(3, "7"), observed(1, "5")), pool)).toEqual(observed(3, "7"));
  });
});
