/**
 * Snapshots beside a real log: a loaded collection equals the saved one at every block, and stays equal over transfers
 * and reorgs. A snapshot that fails its checks is ignored, and the log is read instead.
 */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { decodeTransfers, TransferKind } from "../../../src/events/columns.ts";
import { type NftEvent, nftStream } from "../../../src/events/types.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { type Collection, evolve, initialState } from "../../../src/nft/collections/collection.ts";
import { HotCollections } from "../../../src/nft/collections/hot-collections.ts";
import { Snapshots } from "../../../src/nft/collections/snapshots.ts";
import { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { countEntries, positionAfter, readSlice } from "../../../src/nft/ledger/listing.ts";
import { START } from "../../../src/nft/ledger/rows.ts";
import { StateReader, StateWriter, VALUES_PER_SLICE } from "../../../src/nft/ledger/state-codec.ts";
import { multi, play, range, single, stepOf } from "../../support/histories.ts";
import { columnsOf, type ModelTransfer } from "../../support/naive-ledger.ts";

const CHAIN_ID = 1;
const root = mkdtempSync(join(tmpdir(), "snapshots-"));
const logs: EventLog[] = [];
afterAll(async () => {
  for (const log of logs) await log.close();
  rmSync(root, { recursive: true, force: true });
});

let made = 0;
async function freshLog(): Promise<EventLog> {
  const log = await openLog(`sqlite://${join(root, `${made++}.db`)}`, systemClock, silentLogger);
  logs.push(log);
  return log;
}

const addressOf = (n: number) => `0x${n.toString(16).padStart(40, "0")}` as Address;
const never = (): boolean => false;

function fold(events: readonly NftEvent[], state = initialState()): Collection {
  for (const event of events) evolve(state, event, state.version + 1, 1_000 + state.version);
  return state;
}

/** Everything visible of a collection, at each block. */
function shown({ ledger, ...rest }: Collection): unknown {
  const last = rest.end?.number ?? -1;
  const name = (index: number) => (index < 0 ? "" : ledger.addresses.hex(index));
  const blocks = Array.from({ length: last + 1 }, (_, block) =>
    [false, true].map((holders) => ({
      count: countEntries(ledger, block, holders),
      entries: readSlice(ledger, { block, holders, from: START, limit: 1_000 }).entries.map((entry) => ({
        ...entry,
        owner: name(entry.owner),
        minter: name(entry.minter),
      })),
    })),
  );
  return { rest, blocks, anomalies: ledger.anomalies };
}

const steps = fc.array(stepOf(fc.oneof(single, multi, range)), { maxLength: 24 });

test("a loaded snapshot equals the saved collection, and evolves like it", async () => {
  const log = await freshLog();
  const snapshots = new Snapshots({ folder: join(root, "same"), maxBytes: 1e9, log, logger: silentLogger });
  let n = 0;
  const property = fc.asyncProperty(steps, fc.double({ min: 0, max: 1, noNaN: true }), async (list, part) => {
    const { events } = play(list);
    const cut = Math.max(1, Math.floor(events.length * part));
    const stream = nftStream(CHAIN_ID, addressOf(n++));
    await log.append({ stream, events: events.slice(0, cut), expectedVersion: 0 });
    const whole = fold(events.slice(0, cut));
    expect(await snapshots.save(stream, whole, never)).toBe(true);
    const restored = (await snapshots.load(stream)) as Collection;
    expect(shown(restored)).toEqual(shown(whole));
    expect(restored.ledger.bytes).toBe(whole.ledger.bytes);
    const rest = events.slice(cut);
    expect(shown(fold(rest, restored))).toEqual(shown(fold(rest, whole)));
  });
  await fc.assert(property, { numRuns: 150 });
});

describe("structures that are not tables of words", () => {
  const { erc721, erc1155, range } = TransferKind;
  const COUNT = 20_000;
  const PER_BLOCK = 100;
  /** Each shape makes `COUNT` items, in order. */
  const shapes: { readonly [what: string]: (n: number) => Omit<ModelTransfer, "block">[] } = {
    "burned tokens": (n) => [
      { kind: erc721, from: 0, to: 1, id: BigInt(n), amount: 1n },
      ...(n % 3 > 0 ? [{ kind: erc721, from: 1, to: 0, id: BigInt(n), amount: 1n }] : []),
    ],
    "burned tokens far apart in a range without an end": (n) => [
      ...(n === 0 ? [{ kind: range, from: 0, to: 1, id: 0n, amount: 2n ** 40n }] : []),
      { kind: erc721, from: 1, to: 0, id: 2n ** 40n - 1n - BigInt(n) * 40_000_000n, amount: 1n },
    ],
    "id ranges": (n) => [{ kind: range, from: 0, to: 1 + (n % 7), id: 2n ** 255n - 10n * BigInt(n), amount: 3n }],
    "tokens whose mint is not known, or came late": (n) => [
      { kind: erc721, from: 1, to: 2, id: BigInt(n), amount: 1n },
      ...(n % 2 > 0 ? [{ kind: erc721, from: 0, to: 3, id: BigInt(n), amount: 1n }] : []),
    ],
    "amounts beyond all words": (n) => [{ kind: erc1155, from: 0, to: 1, id: BigInt(n % 9), amount: 2n ** 256n - 1n }],
  };

  function folded(what: string): Ledger {
    const ledger = new Ledger();
    const make = shapes[what] as (n: number) => Omit<ModelTransfer, "block">[];
    for (let n = 0; n < COUNT; n += PER_BLOCK) {
      const made = Array.from({ length: PER_BLOCK }, (_, i) => make(n + i)).flat();
      ledger.apply(decodeTransfers(columnsOf(made.map((one) => ({ ...one, block: n / PER_BLOCK })))));
    }
    return ledger;
  }

  function pagesOf(ledger: Ledger) {
    return [0, 57, COUNT / PER_BLOCK - 1].map((block) => {
      const count = countEntries(ledger, block, false);
      const places = [0, 0.2, 0.7, 1].map((part) => Math.floor(part * (count - 5)));
      const pages = places.map((skip) => {
        const from = positionAfter(ledger, block, false, Math.max(0, skip));
        return from && readSlice(ledger, { block, holders: false, from, limit: 40 }).entries;
      });
      return { count, pages };
    });
  }

  test.each(Object.keys(shapes))("are saved and loaded in slices: %s", (what) => {
    const ledger = folded(what);
    const writer = new StateWriter();
    const slicesOf = (work: Generator<void>) => [...work].length;
    expect(slicesOf(ledger.coding(writer))).toBeGreaterThanOrEqual(COUNT / 2 / VALUES_PER_SLICE);
    // The part beside the words doesn't grow with the collection.
    const values = JSON.stringify(writer.values);
    expect(values.length).toBeLessThan(2_500);
    const restored = new Ledger();
    // Copies, as if from a file, because both ledgers continue.
    const arrays = writer.arrays.map((array) => array.slice());
    const reader = new StateReader(arrays, JSON.parse(values));
    expect(slicesOf(restored.coding(reader))).toBeGreaterThanOrEqual(COUNT / 2 / VALUES_PER_SLICE);
    expect([reader.isDone, restored.bytes]).toEqual([true, ledger.bytes]);
    expect(pagesOf(restored)).toEqual(pagesOf(ledger));
    for (const one of [restored, ledger]) {
      one.revert(70);
      const more = { kind: erc721, from: 1, to: 0, id: 3n, amount: 1n, block: 80 };
      one.apply(decodeTransfers(columnsOf([more, { ...more, from: 0, to: 4, block: 81 }])));
    }
    expect(pagesOf(restored)).toEqual(pagesOf(ledger));
  });

  test("are saved and loaded between other work, and a save is given up if the collection changes meanwhile", async () => {
    const log = await freshLog();
    const folder = join(root, "slices");
    const snapshots = new Snapshots({ folder, maxBytes: 1e9, log, logger: silentLogger });
    const stream = nftStream(CHAIN_ID, addressOf(77));
    await log.append({ stream, events: play([{ transfers: [] }]).events, expectedVersion: 0 });
    const collection: Collection = { ...initialState(), version: 1, ledger: folded("burned tokens") };
    let looks = 0;
    const counted = (): boolean => ++looks < 0;
    const turnsOf = async (work: Promise<unknown>) => {
      let [turns, isOver] = [0, false];
      const end = () => {
        isOver = true;
      };
      work.then(end, end);
      for (; !isOver; turns++) await new Promise<void>((resolve) => setImmediate(resolve));
      return turns;
    };
    const saving = snapshots.save(stream, collection, counted);
    expect(await turnsOf(saving)).toBeGreaterThan(COUNT / 2 / VALUES_PER_SLICE);
    expect(await saving).toBe(true);
    const loading = snapshots.load(stream);
    expect(await turnsOf(loading)).toBeGreaterThan(COUNT / 2 / VALUES_PER_SLICE);
    expect(pagesOf((await loading)?.ledger as Ledger)).toEqual(pagesOf(collection.ledger));
    rmSync(folder, { recursive: true });

    // A transfer at each of the moments at which a save checks for changes.
    const all = looks;
    for (let moment = 1; moment < all; moment++) {
      looks = 0;
      const changing = (): boolean => {
        const block = COUNT + moment;
        const transfer = { kind: erc721, block, from: 1, to: 0, id: 3n * BigInt(moment), amount: 1n };
        if (++looks === moment) collection.ledger.apply(decodeTransfers(columnsOf([transfer])));
        return false;
      };
      expect([moment, await snapshots.save(stream, collection, changing)]).toEqual([moment, false]);
      expect(looks).toBeLessThanOrEqual(moment + 1);
      expect(readdirSync(root).includes("slices") ? readdirSync(folder) : []).toEqual([]);
    }
  });
});

describe("a snapshot is not used", () => {
  const folder = join(root, "doubtful");
  const stream = nftStream(CHAIN_ID, addressOf(1));
  const { events } = play(fc.sample(steps, { seed: 7, numRuns: 1 })[0] ?? []);
  let log: EventLog;
  let snapshots: Snapshots;
  const file = () => join(folder, readdirSync(folder)[0] as string);
  beforeEach(async () => {
    rmSync(folder, { recursive: true, force: true });
    log = await freshLog();
    await log.append({ stream, events, expectedVersion: 0 });
    snapshots = new Snapshots({ folder, maxBytes: 1e9, log, logger: silentLogger });
    expect(await snapshots.save(stream, fold(events), never)).toBe(true);
    expect(await snapshots.load(stream)).toBeDefined();
  });

  test("if a byte differs anywhere, or if it is truncated anywhere", async () => {
    const whole = readFileSync(file());
    // The padding of the header is not checked.
    const meaning = whole.toString("latin1").trimEnd().length;
    const at = Array.from({ length: 60 }, (_, i) => Math.floor((i * meaning) / 60));
    for (const place of [...at, meaning - 1]) {
      const changed = Buffer.from(whole);
      changed[place] = (changed[place] as number) ^ 1;
      writeFileSync(file(), changed);
      expect([place, await snapshots.load(stream)]).toEqual([place, undefined]);
      writeFileSync(file(), whole.subarray(0, place));
      expect([place, await snapshots.load(stream)]).toEqual([place, undefined]);
    }
    writeFileSync(file(), whole);
    expect(await snapshots.load(stream)).toBeDefined();
  });

  test("if it belongs to another log with the same stream, to a longer log, or to another collection", async () => {
    const other = await freshLog();
    const elsewhere = new Snapshots({ folder, maxBytes: 1e9, log: other, logger: silentLogger });
    expect(await elsewhere.load(stream)).toBeUndefined();
    await other.append({ stream, events, expectedVersion: 0 });
    // The same events at another time.
    expect(await elsewhere.load(stream)).toBeUndefined();
    const stranger = nftStream(CHAIN_ID, addressOf(2));
    await log.append({ stream: stranger, events, expectedVersion: 0 });
    writeFileSync(file().replace(addressOf(1), addressOf(2)), readFileSync(file()));
    expect(await snapshots.load(stranger)).toBeUndefined();
    expect(await snapshots.load(stream)).toBeDefined();
  });

  test("if another version of the code wrote it", async () => {
    const text = readFileSync(file(), "latin1");
    const code = /"code":"(\d+)"/.exec(text)?.[1] as string;
    const changed = code.replace(/\d$/, (digit) => String((Number(digit) + 1) % 10));
    writeFileSync(file(), text.replace(`"code":"${code}"`, `"code":"${changed}"`), "latin1");
    expect(await snapshots.load(stream)).toBeUndefined();
  });

  test("if its collection changed during the save, and the earlier snapshot stays", async () => {
    const before = readFileSync(file());
    const state = fold(events);
    let looks = 0;
    const changing = (): boolean => {
      if (++looks === 2) state.ledger.revert(0);
      return false;
    };
    expect(await snapshots.save(stream, state, changing)).toBe(false);
    expect(await snapshots.save(stream, fold(events), () => true)).toBe(false);
    expect(readdirSync(folder)).toHaveLength(1);
    expect(readFileSync(file()).equals(before)).toBe(true);
  });
});

test("deletes the oldest files beyond the size bound", async () => {
  const log = await freshLog();
  const folder = join(root, "bounded");
  const { events } = play([{ transfers: [] }]);
  const save = async (n: number, maxBytes: number) => {
    const stream = nftStream(CHAIN_ID, addressOf(n));
    await log.append({ stream, events, expectedVersion: 0 });
    const snapshots = new Snapshots({ folder, maxBytes, log, logger: silentLogger });
    expect(await snapshots.save(stream, fold(events), never)).toBe(true);
  };
  await save(1, 1e9);
  await save(2, 1e9);
  const names = readdirSync(folder).sort();
  const { size } = statSync(join(folder, names[0] as string));
  utimesSync(join(folder, names[1] as string), 1, 1);
  await save(3, Math.ceil(size * 2.5));
  expect(readdirSync(folder).sort()).toEqual([names[0], `nft-1-${addressOf(3)}.snapshot`] as string[]);
  await save(4, 1);
  expect(readdirSync(folder)).toEqual([`nft-1-${addressOf(4)}.snapshot`]);
  // It deletes files that a crash left half-written, but not files that another process may be writing, and no others.
  for (const left of ["nft-1-0xa.snapshot.left", "nft-1-0xb.snapshot.begun", "notes"])
    writeFileSync(join(folder, left), "x");
  for (const old of ["nft-1-0xa.snapshot.left", "notes"]) utimesSync(join(folder, old), 1, 1);
  await save(5, 1);
  expect(readdirSync(folder).sort()).toEqual([`nft-1-${addressOf(5)}.snapshot`, "nft-1-0xb.snapshot.begun", "notes"]);
});

describe("a service's projections", () => {
  const many = Array.from({ length: 40 }, (_, i) => ({
    transfers: [{ kind: 0 as const, from: 0, to: 1 + (i % 5), id: BigInt(i), amount: 1n }],
  }));
  const { events } = play(many);
  const completed: NftEvent = { type: "IndexingCompleted", block: 39, hash: `0x${"0".repeat(62)}27` as never };

  test("write a snapshot when a long history is complete, load it, and continue from there", async () => {
    const log = await freshLog();
    const folder = join(root, "service");
    const [address, stream] = [addressOf(9), nftStream(CHAIN_ID, addressOf(9))];
    await log.append({ stream, events: events.slice(0, 30), expectedVersion: 0 });
    const open = () => {
      const snapshots = new Snapshots({ folder, maxBytes: 1e9, log, logger: silentLogger });
      const saves: Promise<boolean>[] = [];
      const loads: (Collection | undefined)[] = [];
      const watched = {
        save: (...args: Parameters<Snapshots["save"]>) => {
          const saving = snapshots.save(...args);
          saves.push(saving);
          return saving;
        },
        load: async (name: typeof stream) => {
          const found = await snapshots.load(name);
          loads.push(found);
          return found;
        },
      } as unknown as Snapshots;
      const options = { log, logger: silentLogger, maxBytes: 1e9, snapshots: watched, snapshotEvery: 20 };
      return { projections: new HotCollections(options), saves, loads };
    };
    const first = open();
    // An incomplete history is not saved.
    expect((await first.projections.get(CHAIN_ID, address)).end?.number).toBe(27);
    expect(first.saves).toHaveLength(0);
    await log.append({ stream, events: [...events.slice(30), completed], expectedVersion: 30 });
    await first.projections.newest(CHAIN_ID, address);
    while (first.saves.length === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    expect(await first.saves[0]).toBe(true);
    await first.projections.close();

    const moved = play([...many, { transfers: [{ kind: 0, from: 1, to: 4, id: 0n, amount: 1n }] }]).events.at(-1);
    await log.append({ stream, events: [moved as NftEvent], expectedVersion: events.length + 1 });
    const second = open();
    const collection = await second.projections.get(CHAIN_ID, address);
    expect(second.loads[0]?.version).toBe(collection.version);
    expect(collection.version).toBe(events.length + 2);
    const { identifiedAt, completedVersion } = collection;
    const [checksum = -1, completedChecksum = -1] = [
      await log.checksum(stream, collection.version),
      await log.checksum(stream, completedVersion),
    ];
    const ofLog = { identifiedAt, checksum, completedChecksum };
    const folded = { ...fold([...events, completed, moved as NftEvent]), ...ofLog };
    expect(shown(collection)).toEqual(shown(folded));
    // One new transfer is not worth a new file.
    expect(second.saves).toHaveLength(0);
    await second.projections.close();
  });
});

test("a full disk costs only the snapshot, not the process", async () => {
  const child = join(import.meta.dir, "../../support/full-disk-snapshots.ts");
  // Limits the size of files to four kilobytes. A write beyond it fails like a write to a full disk.
  const limited = `trap "" XFSZ; ulimit -f 8; exec "$0" "$1"`;
  const run = Bun.spawn(["sh", "-c", limited, process.execPath, child], { stdout: "pipe", stderr: "pipe" });
  const [output, errors, code] = await Promise.all([
    new Response(run.stdout).text(),
    new Response(run.stderr).text(),
    run.exited,
  ]);
  expect({ output, code, errors }).toEqual({ output: "EFBIG 0\n", code: 0, errors: "" });
});
