/** The index of traits over metadata that its author made large: bounded, sliced, and honest about it. */
import { expect, test } from "bun:test";
import { TransferKind } from "../../../src/events/columns.ts";
import { countedTraits, TraitIndex } from "../../../src/nft/explore/traits.ts";
import type { Entry } from "../../../src/nft/ledger/entries.ts";

const entry = (id: number): Entry => ({ kind: TransferKind.erc721, id: String(id) }) as unknown as Entry;

/** Adds a token with one trait for each pair of texts, or without metadata. */
function add(index: TraitIndex, id: number, pairs: readonly (readonly [string, string])[] | undefined): void {
  const traits = Uint32Array.from(pairs ?? [], (_, trait) => trait);
  const ends = new Int32Array([pairs?.length ?? -1]);
  const [types, values] = [pairs?.map(([type]) => type) ?? [], pairs?.map(([, value]) => value) ?? []];
  const adding = index.add([entry(id)], { types, typeOf: traits, values, traits, ends });
  while (adding.next().done !== true);
}

test("an index stays within its bytes, whatever the tokens have, and says that it is full", () => {
  const maxBytes = 1 << 20;
  const index = new TraitIndex(maxBytes);
  for (let id = 0; id < 3_000 && !index.isFull; id++) {
    add(
      index,
      id,
      Array.from({ length: 1_000 }, (_, n) => [`type ${n}`, `value ${id} ${n}`] as const),
    );
  }
  expect(index.isFull).toBeTrue();
  expect(index.bytes).toBeLessThanOrEqual(maxBytes * 1.01);
  // What was counted as full is about what it takes: ten bytes of heap for one that is counted would be a lie.
  expect(index.valueCount).toBeGreaterThan(1_000);
});

test("one token with more types than fit is cut, not refused", () => {
  const index = new TraitIndex(10_000);
  add(
    index,
    1,
    Array.from({ length: 1_000 }, (_, n) => [`type ${n}`, "x"] as const),
  );
  expect(index.isFull).toBeTrue();
  expect(index.having(["type 0:x"])(entry(1))).toBeTrue();
  expect(index.having(["type 999:x"])(entry(1))).toBeFalse();
  expect(index.bytes).toBeLessThan(11_000);
});

test("types and values with colons are told apart, and tokens without metadata match nothing", () => {
  const index = new TraitIndex(100_000);
  add(index, 1, [["a:b", "c"]]);
  add(index, 2, [["a", "b:c"]]);
  add(index, 3, undefined);
  const having = (trait: string) => [1, 2, 3].filter((id) => index.having([trait])(entry(id)));
  expect(having("a:b:c")).toEqual([2]);
  expect(having("a:c")).toEqual([]);
  expect(index.has(entry(3))).toBeTrue();
  expect(index.count(entry(3), new Uint32Array(2))).toBeFalse();
});

test("a type with more values than are listed shows the most frequent ones, in whichever order they came", async () => {
  const index = new TraitIndex(1 << 24);
  const countOf = (n: number) => 1 + ((n * 7_919) % 53) + (n === 4_900 ? 1_000 : 0);
  const values = Array.from({ length: 5_000 }, (_, n) => ({ value: `value ${(n * 31) % 5_000}`, count: countOf(n) }));
  for (const [id, { value }] of values.entries()) add(index, id, [["Name", value]]);
  const { traits } = await countedTraits(
    index,
    Uint32Array.from(values, ({ count }) => count),
  );
  const sorted = values.toSorted((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1));
  expect(traits).toEqual([{ type: "Name", distinct: 5_000, values: sorted.slice(0, 500) }]);
});
