/**
 * The parts of a collection's columns, across the borders of their chunks and shards: tables of words, indexes, runs of
 * ids, amounts of any size, and marks equal naive versions, also after rows were reverted and slack memory was freed.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { mix, SEED } from "../../../src/core/seeded-hash.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { AddressTable, hashAddress } from "../../../src/nft/ledger/address-table.ts";
import { AmountColumn } from "../../../src/nft/ledger/amount-column.ts";
import type { Amount } from "../../../src/nft/ledger/amounts.ts";
import { HashIndex } from "../../../src/nft/ledger/hash-index.ts";
import { LateMints } from "../../../src/nft/ledger/late-mints.ts";
import { RowMarks } from "../../../src/nft/ledger/row-marks.ts";
import { StateReader, StateWriter } from "../../../src/nft/ledger/state-codec.ts";
import { CHUNK_ROWS, type Slot, WordTable } from "../../../src/nft/ledger/tables.ts";
import { hashId, hashLargeId } from "../../../src/nft/ledger/token-search.ts";
import { bigIntToId, TokenTable } from "../../../src/nft/ledger/token-slots.ts";
import { addressBytes } from "../../support/naive-ledger.ts";

describe("a table of words", () => {
  test("keeps rows on both sides of a chunk's border over growth, trimming and new growth", () => {
    const table = new WordTable(3);
    const fill = (from: number, to: number) => {
      for (let row = from; row < to; row++) {
        expect(table.add()).toBe(row);
        for (let word = 0; word < 3; word++) table.set(row, word, row * 3 + word);
      }
    };
    fill(0, CHUNK_ROWS + 5);
    table.trim();
    expect(table.bytes).toBe((CHUNK_ROWS + 5) * 12);
    fill(CHUNK_ROWS + 5, 2 * CHUNK_ROWS);
    table.trim();
    fill(2 * CHUNK_ROWS, 2 * CHUNK_ROWS + 1);
    // A reorg removes the last chunk and a part of the one before.
    table.count = CHUNK_ROWS + 1;
    table.trim();
    expect(table.bytes).toBe((CHUNK_ROWS + 1) * 12);
    fill(CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 2);
    for (let row = 0; row < table.count; row++) expect(table.get(row, 2)).toBe(row * 3 + 2);
    expect(table.bytes).toBe(table.chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0));
    for (const row of [0, CHUNK_ROWS - 1, CHUNK_ROWS, 2 * CHUNK_ROWS + 1]) {
      expect(table.upperBound(0, row * 3)).toBe(row + 1);
      expect(table.upperBound(0, row * 3 - 1)).toBe(row);
    }
  });

  test("grows again after its memory was freed completely", () => {
    const table = new WordTable(1);
    for (let row = 0; row < 100; row++) table.set(table.add(), 0, row);
    table.count = 0;
    table.trim();
    for (let row = 0; row < 100; row++) table.set(table.add(), 0, -row);
    expect(table.get(99, 0)).toBe(-99);
  });
});

describe("an index", () => {
  // Hashes that collide in all bits, in the bits that an entry keeps, and in neither.
  const hashes: { readonly [what: string]: (row: number) => number } = {
    "that spread": (row) => Math.imul(row + 1, 0x9e3779b1),
    "that come in sevens": (row) => Math.imul(Math.floor(row / 7), 0x9e3779b1),
    "of one shard": (row) => Math.imul(row, 0x9e3779b1) >>> 8,
  };
  test.each(Object.keys(hashes))("of hashes %s finds the rows that were added and not removed, at any size", (what) => {
    const hashOf = (row: number) => (hashes[what] as (row: number) => number)(row) | 0;
    const index = new HashIndex();
    const has = (row: number) => {
      const hash = hashOf(row);
      for (let place = index.home(hash); ; place++) {
        place = index.seek(hash, place);
        if (place < 0) return false;
        if (index.rowAt(hash, place) === row) return true;
      }
    };
    const rows = 20_000;
    // An announcement of expected rows reserves space and changes nothing else, whether they come or not.
    const expected = new Map([
      [0, 90],
      [1_000, 5_000],
      [12_000, 10 ** 6],
      [15_000, 10 ** 6],
    ]);
    for (let row = 0; row < rows; row++) {
      index.expect(expected.get(row) ?? 0, hashOf);
      index.add(hashOf(row), row, hashOf);
    }
    expect(index.count).toBe(rows);
    expect(index.bytes).toBe(index.shards.reduce((sum, places) => sum + places.byteLength, 0));
    for (let row = 0; row < rows; row++) if (!has(row)) throw new Error(`row ${row} is not found`);
    expect(has(rows)).toBe(false);
    for (let row = rows - 1; row >= 9_000; row--) index.remove(row, hashOf);
    for (let row = 0; row < rows; row++) if (has(row) !== row < 9_000) throw new Error(`row ${row}`);
    // A row number too large to share a word with six bits of the hash.
    const far = 2 ** 27;
    index.add(hashOf(far), far, hashOf);
    expect(has(far)).toBe(true);
    for (let row = 0; row < 9_000; row++) if (!has(row)) throw new Error(`row ${row} is lost`);
    index.remove(far, hashOf);
    expect(has(far)).toBe(false);
  });
});

describe("ids and addresses that were chosen to collide", () => {
  /** Inverts `mix`: returns the word that leads from the hash so far to the given result. */
  const wordFor = (wanted: number, hash: number): number => {
    const inverse = (odd: number) =>
      Array.from({ length: 5 }).reduce((x: number) => Math.imul(x, 2 - Math.imul(odd, x)), odd);
    let h = Math.imul(wanted ^ (wanted >>> 16), inverse(0xc2b2ae35));
    h ^= (h >>> 13) ^ (h >>> 26);
    return (Math.imul(h, inverse(0x85ebca6b)) ^ hash) >>> 0;
  };
  const KIND = TransferKind.erc1155;
  const COUNT = 10_000;
  const NUMBERS = Array.from({ length: COUNT }, (_, i) => i + 1);
  /** Ids with the same hash if the seed is 0. */
  const large = NUMBERS.map((n) => {
    const words = Uint32Array.of(0, 0, 0, n, 0, 0, 0, 0);
    words[7] = wordFor(7, words.subarray(0, 7).reduce(mix, KIND));
    return words;
  });
  const small = NUMBERS.map((n) => Uint32Array.of(n, wordFor(7, mix(KIND, n)), 0, 0, 0, 0, 0, 0));
  const addresses = NUMBERS.map((n) => {
    const words = Int32Array.of(0, 0, 0, n, 0);
    const hash = Math.imul(n, 0xc2b2ae35);
    words[4] = hash ^ (hash >>> 15);
    return words;
  });

  test("have one hash under one seed and many under another", () => {
    const hashes = (seed: number) => [
      new Set(large.map((words) => hashLargeId(seed, KIND, words))).size,
      new Set(small.map(([low, high]) => hashId(seed, KIND, low as number, high as number))).size,
      new Set(addresses.map((words) => hashAddress(seed, words, 0))).size,
    ];
    expect(hashes(0)).toEqual([1, 1, 1]);
    // The random seed changes the numbers, but not enough to matter.
    for (const size of hashes(SEED)) expect(size).toBeGreaterThan(COUNT / 100);
  });

  test.each([
    ["large", large],
    ["small", small],
  ])("have no long runs of neighbours in the index if they are %s ids", (_, ids) => {
    const table = new TokenTable();
    for (const words of ids) table.add(KIND, words);
    for (const [slot, words] of ids.entries()) if (table.find(KIND, words) !== slot) throw new Error(`slot ${slot}`);
    const places = table.index.shards.flatMap((shard) => [...shard, 0]);
    let longest = 0;
    for (let at = 0, full = 0; at < places.length; at++) {
      full = places[at] === 0 ? 0 : full + 1;
      longest = Math.max(longest, full);
    }
    // 500 of ten thousand.
    expect(longest).toBeLessThan(500);
  });

  test("are found after a load under the seed they were saved with", () => {
    const writer = new StateWriter();
    const index = new HashIndex();
    index.seed = 1;
    const hashOf = (row: number) => hashId(index.seed, KIND, row, 0);
    for (let row = 0; row < 100; row++) index.add(hashOf(row), row, hashOf);
    index.code(writer);
    const again = new HashIndex();
    again.code(new StateReader(writer.arrays, writer.values));
    expect(again.seed).toBe(1);
  });
});

describe("tokens", () => {
  /** Runs of ids in and out of order, of any width. */
  const stretch = fc.record({
    kind: fc.constantFrom(TransferKind.erc721, TransferKind.erc1155),
    first: fc.oneof(
      fc.bigInt(0n, 500n),
      fc.constantFrom(2n ** 31n - 100n, 2n ** 32n - 100n, 2n ** 63n - 100n, 2n ** 64n - 100n, 2n ** 255n),
    ),
    count: fc.constantFrom(1, 2, 63, 64, 65, 200),
    step: fc.constantFrom(1n, 1n, 1n, -1n, 3n),
  });
  test("are found by their ids, in order or not, also after the newest were removed", () => {
    const steps = fc.array(fc.oneof({ weight: 4, arbitrary: stretch }, fc.nat(150)), { maxLength: 12 });
    fc.assert(
      fc.property(steps, (list) => {
        const table = new TokenTable();
        const known: { kind: TransferKind; id: bigint }[] = [];
        const words = new Uint32Array(8);
        for (const step of list) {
          if (typeof step === "number") {
            known.length = Math.max(0, known.length - step);
            table.truncate(known.length);
            continue;
          }
          const { kind, first, count } = step;
          for (let i = 0n; i < BigInt(count); i++) {
            const id = first + i * step.step;
            if (id < 0n || known.some((token) => token.kind === kind && token.id === id)) continue;
            bigIntToId(id, words);
            expect(table.find(kind, words)).toBe(-1 as Slot);
            expect(table.add(kind, words)).toBe((known.push({ kind, id }) - 1) as Slot);
          }
          table.trim();
        }
        for (const [index, { kind, id }] of known.entries()) {
          const slot = index as Slot;
          bigIntToId(id, words);
          const found = [table.find(kind, words), table.kind(slot), table.id(slot), BigInt(table.idAmount(slot))];
          expect(found).toEqual([slot, kind, id, id]);
        }
        expect(table.count).toBe(known.length);
      }),
      { numRuns: 60 },
    );
  });

  test("are none below zero and beyond a word", () => {
    const table = new TokenTable();
    table.addSmall(TransferKind.erc721, 0, 0);
    // The self-audit searches for the neighbours of listed ids.
    for (const id of [-1n, 2n ** 256n - 1n]) expect(table.findId(TransferKind.erc721, id)).toBe(-1 as Slot);
  });

  test("need no index if their ids came in order", () => {
    const table = new TokenTable();
    const count = 4 * CHUNK_ROWS;
    for (let i = 0; i < count; i++) table.addSmall(TransferKind.erc721, i + 1, 0);
    table.trim();
    expect(table.bytes).toBeLessThan(count * 8.5 + 1_000);
  });
});

describe("addresses", () => {
  test("keep their index and are stored once, over chunks and in one call or many", () => {
    const table = new AddressTable();
    const count = CHUNK_ROWS + 1_000;
    const source = new Uint8Array(count * 20);
    for (let n = 0; n < count; n++) source.set(addressBytes(n), n * 20);
    const first = table.intern(source.subarray(0, 20 * 5_000));
    const all = table.intern(source);
    // The same address twice in one call, which the real writers never do.
    const twice = new Uint8Array([...addressBytes(count), ...addressBytes(count)]);
    expect(table.intern(twice)).toEqual(Int32Array.of(count, count));
    table.trim();
    expect(table.count).toBe(count + 1);
    expect(all.subarray(0, 5_000)).toEqual(first);
    for (const n of [0, 1, 4_999, CHUNK_ROWS - 1, CHUNK_ROWS, count - 1]) {
      expect(table.hex(all[n] as number)).toBe(`0x${Buffer.from(addressBytes(n)).toString("hex")}`);
    }
  });
});

describe("a column of amounts", () => {
  const amount = fc.oneof(
    fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    fc.constantFrom<Amount>(2 ** 32, 2 ** 53 - 1, 2n ** 53n, 2n ** 64n - 2n ** 32n - 1n, 2n ** 64n - 1n, 2n ** 255n),
  );
  test("returns the values that were stored, whatever it held before", () => {
    const steps = fc.array(
      fc.oneof({ weight: 3, arbitrary: amount }, fc.constant("pop" as const), fc.constant("trim" as const)),
    );
    fc.assert(
      fc.property(fc.constantFrom(0, CHUNK_ROWS - 3), steps, (before, list) => {
        const column = new AmountColumn();
        const kept: Amount[] = [];
        for (let i = 0; i < before; i++) kept.push(column.push(i));
        for (const step of list) {
          if (step === "trim") column.trim();
          else if (step !== "pop") {
            column.push(step);
            kept.push(step);
          } else if (kept.length > 0) {
            column.pop();
            kept.pop();
          }
        }
        expect(column.count).toBe(kept.length);
        for (let row = Math.max(0, kept.length - 200); row < kept.length; row++)
          expect(column.get(row)).toBe(kept[row]!);
      }),
      { numRuns: 60 },
    );
  });
});

describe("marks", () => {
  test("finds the next mark over any distance, also after rows were removed", () => {
    const marks = new RowMarks();
    const marked = new Set([0, 31, 32, 63, 200, 1_000, 1_023]);
    for (let row = 0; row < 1_024; row++) marks.push(marked.has(row));
    const walk = () => {
      const found: number[] = [];
      for (let row = marks.next(0); row < count; row = marks.next(row + 1)) found.push(row);
      return found;
    };
    let count = 1_024;
    expect(walk()).toEqual([...marked]);
    for (; count > 200; count--) marks.pop();
    expect(marks.next(64)).toBe(200);
    for (; count < 240; count++) marks.push(count === 210);
    expect(walk()).toEqual([0, 31, 32, 63, 210]);
    expect(marks.next(211)).toBe(240);
  });
});

describe("mints that came after other transfers of their token", () => {
  const SLOTS = 1_100_000;
  const SLICE = 2_000;

  /** Returns the processor time of the longest slice in which `SLICE` mints are recorded, in ms. */
  function longestSlice(): number {
    const mints = new LateMints();
    let longest = 0;
    for (let from = 0; from < SLOTS; from += SLICE) {
      const before = process.cpuUsage();
      for (let slot = from; slot < from + SLICE; slot++)
        mints.note(slot as Slot, slot, { isFirst: true, isMint: false });
      const { user, system } = process.cpuUsage(before);
      longest = Math.max(longest, (user + system) / 1_000);
    }
    expect(mints.bytes).toBeGreaterThan(SLOTS * 16);
    return longest;
  }

  test("are recorded in slices of similar length, however many there are", () => {
    // Other work of the runtime may fall into one of the runs, but not into each of them.
    expect(Math.min(...[1, 2, 3].map(longestSlice))).toBeLessThan(20);
  });

  test("belong to their tokens over chunks, and can be retracted and recorded again", () => {
    const mints = new LateMints();
    const slots = [0, 1, CHUNK_ROWS - 1, CHUNK_ROWS, 5 * CHUNK_ROWS + 7];
    for (const slot of slots) mints.note(slot as Slot, slot, { isFirst: true, isMint: false });
    const { bytes } = mints;
    for (const slot of slots) {
      expect(mints.of(slot as Slot)).toBeUndefined();
      mints.note(slot as Slot, slot + 100, { isFirst: false, isMint: true });
      mints.note(slot as Slot, slot + 200, { isFirst: false, isMint: true });
      expect(mints.of(slot as Slot)).toBe(slot + 100);
      mints.retract(slot as Slot, slot + 200);
      expect(mints.of(slot as Slot)).toBe(slot + 100);
      mints.retract(slot as Slot, slot + 100);
      expect(mints.of(slot as Slot)).toBeUndefined();
    }
    expect(mints.bytes).toBe(bytes);
    for (const slot of slots) mints.forget(slot as Slot);
    mints.forget(3 as Slot);
    mints.forget((9 * CHUNK_ROWS) as Slot);
    expect(mints.bytes).toBe(0);
  });
});
