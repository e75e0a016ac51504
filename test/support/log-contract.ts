/**
 * The suite that every event-log engine passes: expected versions, gapless reads, races, wake-ups, leases, settings,
 * blobs. `open` may be called several times. Each call stands for another process with the same log.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ConcurrencyError } from "../../src/core/errors.ts";
import { type Address, type Hash, toHash } from "../../src/core/hex.ts";
import { type DomainEvent, nftStream, type Recorded, type StreamName } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";

let counter = 0;
export function freshStream(): StreamName {
  counter++;
  return nftStream(1, `0x${counter.toString(16).padStart(40, "0")}` as Address);
}

export const hashOf = (n: number): Hash => toHash(`0x${n.toString(16).padStart(64, "0")}`);

export function committed(fromBlock: number, toBlock: number, bytes = 8): DomainEvent {
  const transfers = new Uint8Array(bytes).map((_, i) => (i * 31 + fromBlock) & 255);
  return { type: "TransfersCommitted", fromBlock, toBlock, toHash: hashOf(toBlock), count: 1, transfers };
}

export function describeLogContract(name: string, open: () => Promise<EventLog>): void {
  describe(`event log on ${name}`, () => {
    let log: EventLog;
    let other: EventLog;

    beforeAll(async () => {
      log = await open();
      other = await open();
    });
    afterAll(async () => {
      await log.close();
      await other.close();
    });

    test("returns appended events to this process and to another one", async () => {
      const stream = freshStream();
      const events: DomainEvent[] = [
        { type: "IndexingRequested" },
        committed(0, 10, 100_000),
        { type: "BlocksReverted", ancestor: { number: 5, hash: hashOf(5) } },
      ];
      expect(await log.append({ stream, events, expectedVersion: 0, headline: { end: 5 } })).toBe(3);
      for (const reader of [log, other]) {
        const recorded = await reader.read(stream);
        expect(recorded.map((r) => r.version)).toEqual([1, 2, 3]);
        expect(recorded.map((r) => r.event)).toEqual(events);
        expect(await reader.head(stream)).toEqual({ stream, version: 3, headline: { end: 5 } });
      }
    });

    test("refuses a guarded append after the guard's stream has moved, and names that stream", async () => {
      const [stream, guard] = [freshStream(), freshStream()];
      const event: DomainEvent = { type: "IndexingRequested" };
      await log.append({ stream: guard, events: [event], expectedVersion: 0 });
      const under = (version: number, expectedVersion: number) => ({
        stream,
        events: [event],
        expectedVersion,
        guard: { stream: guard, version },
      });
      expect(await log.append(under(1, 0))).toBe(1);
      await other.append({ stream: guard, events: [event], expectedVersion: 1 });
      const refused = await log.append(under(1, 1)).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(ConcurrencyError);
      expect(refused).toMatchObject({ stream: guard, expectedVersion: 1, actualVersion: 2 });
      const outcomes = await log.appendAll([under(1, 1), under(2, 1)]);
      expect(outcomes).toMatchObject([{ error: { stream: guard } }, { version: 2 }]);
      // The stream's own version is checked first.
      expect(await log.append(under(1, 7)).catch((error: unknown) => error)).toMatchObject({
        stream,
        actualVersion: 2,
      });
      // A stream without events can be a guard, and a first append can have a guard.
      const [fresh, nothing] = [freshStream(), freshStream()];
      const first = { stream: fresh, events: [event], expectedVersion: 0, guard: { stream: nothing, version: 1 } };
      expect(await log.append(first).catch((error: unknown) => error)).toMatchObject({ stream: nothing });
    });

    test("reports an unwritten stream as empty at version 0", async () => {
      const stream = freshStream();
      expect(await log.head(stream)).toEqual({ stream, version: 0, headline: undefined });
      expect(await log.read(stream)).toEqual([]);
      expect(await log.readBackwards(stream, { limit: 5 })).toEqual([]);
    });

    test("refuses an append with a stale expected version and writes nothing", async () => {
      const stream = freshStream();
      await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
      for (const expectedVersion of [0, 2, 7]) {
        const attempt = other.append({ stream, events: [committed(0, 1), committed(2, 3)], expectedVersion });
        await expect(attempt).rejects.toBeInstanceOf(ConcurrencyError);
      }
      expect(await log.read(stream)).toHaveLength(1);
      expect((await log.head(stream)).version).toBe(1);
    });

    test("lets exactly one of many racing writers win each version", async () => {
      const stream = freshStream();
      for (let version = 0; version < 5; version++) {
        const racers = Array.from({ length: 8 }, (_, i) =>
          (i % 2 === 0 ? log : other)
            .append({ stream, events: [committed(version, version, 10 + i)], expectedVersion: version })
            .then(
              () => "won",
              (error: unknown) => (error instanceof ConcurrencyError ? "lost" : Promise.reject(error)),
            ),
        );
        const results = await Promise.all(racers);
        expect(results.filter((r) => r === "won")).toHaveLength(1);
      }
      expect((await other.read(stream)).map((r) => r.version)).toEqual([1, 2, 3, 4, 5]);
    });

    test("keeps interleaved failing and successful appends apart", async () => {
      const good = freshStream();
      const bad = freshStream();
      await log.append({ stream: bad, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
      const outcomes: boolean[] = [];
      for (let round = 0; round < 20; round++) {
        const [first, second, third] = await Promise.allSettled([
          log.append({ stream: bad, events: [committed(0, 1)], expectedVersion: 0 }),
          log.append({ stream: good, events: [committed(round, round)], expectedVersion: round }),
          other.append({ stream: bad, events: [committed(0, 1)], expectedVersion: 9 }),
        ]);
        outcomes.push(first?.status === "rejected" && second?.status === "fulfilled" && third?.status === "rejected");
      }
      expect(outcomes).toEqual(Array.from({ length: 20 }, () => true));
      expect(await log.read(good)).toHaveLength(20);
      expect(await log.read(bad)).toHaveLength(1);
    });

    test("makes each stream of appendAll succeed or fail alone", async () => {
      const [a, b, c] = [freshStream(), freshStream(), freshStream()];
      await log.append({ stream: b, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
      const outcomes = await log.appendAll([
        { stream: a, events: [committed(0, 1)], expectedVersion: 0 },
        { stream: b, events: [committed(0, 1)], expectedVersion: 0 },
        { stream: c, events: [committed(0, 1), committed(2, 2)], expectedVersion: 0, headline: { x: "y" } },
        { stream: a, events: [committed(2, 3)], expectedVersion: 1 },
      ]);
      expect(outcomes.map((o) => ("version" in o ? o.version : o.error.constructor.name))).toEqual([
        1,
        "ConcurrencyError",
        2,
        2,
      ]);
      expect((await log.heads([a, b, c])).map((h) => h.version).sort()).toEqual([1, 2, 2]);
    });

    test("pages reads by version, by count and by bytes", async () => {
      const stream = freshStream();
      const events = Array.from({ length: 25 }, (_, i) => committed(i, i, 1_000));
      await log.append({ stream, events, expectedVersion: 0 });
      expect((await log.read(stream, { from: 20 })).map((r) => r.version)).toEqual([20, 21, 22, 23, 24, 25]);
      expect((await log.read(stream, { from: 4, limit: 3 })).map((r) => r.version)).toEqual([4, 5, 6]);
      expect((await log.read(stream, { maxBytes: 1 })).map((r) => r.version)).toEqual([1]);
      const page = await log.read(stream, { maxBytes: 5_000 });
      expect(page.length).toBeGreaterThan(3);
      expect(page.length).toBeLessThan(8);
      expect((await log.readBackwards(stream, { limit: 2 })).map((r) => r.version)).toEqual([25, 24]);
      expect((await log.readBackwards(stream, { before: 3, limit: 9 })).map((r) => r.version)).toEqual([2, 1]);
      expect(await log.read(stream, { from: 26 })).toEqual([]);
    });

    test("returns every event once to a sequential reader, including events appended meanwhile, despite other reads", async () => {
      const stream = freshStream();
      const BYTES = 40_000;
      for (let version = 0; version < 20; version += 5) {
        const events = Array.from({ length: 5 }, (_, i) => committed(version + i, version + i, BYTES));
        await log.append({ stream, events, expectedVersion: version });
      }
      const expected = await log.read(stream);
      const readOn = async (between: (read: number) => Promise<void>): Promise<unknown[]> => {
        const events: unknown[] = [];
        for (let isOver = false; !isOver; ) {
          const options = { from: events.length + 1, maxBytes: 2 * BYTES, isReadingOn: true };
          const page = await log.read(stream, options);
          events.push(...page);
          isOver = page.length === 0;
          await between(events.length);
        }
        return events;
      };
      expect(await readOn(async () => undefined)).toEqual(expected);
      const others = async (read: number) => {
        expect(await log.read(stream, { from: read, limit: 1 })).toEqual(expected.slice(read - 1, read));
        expect(await log.read(stream, { from: 1, maxBytes: 1, isReadingOn: true })).toEqual(expected.slice(0, 1));
      };
      expect(await readOn(others)).toEqual(expected);
      expect(await Promise.all([readOn(others), readOn(others)])).toEqual([expected, expected]);

      // By now the last page read ahead is empty. An event appended before that page is requested comes with the next
      // one.
      const late: unknown[] = [];
      await readOn(async (read) => {
        if (read === 20 && late.length === 0) {
          await log.append({ stream, events: [committed(20, 20)], expectedVersion: 20 });
          late.push(...(await log.read(stream, { from: 21 })));
        }
      });
      expect(late).toHaveLength(1);
      expect(await log.read(stream)).toEqual([...expected, ...late] as typeof expected);
    });

    test("keeps a headline until another replaces it", async () => {
      const stream = freshStream();
      await log.append({ stream, events: [committed(0, 0)], expectedVersion: 0, headline: { status: "syncing" } });
      await log.append({ stream, events: [committed(1, 1)], expectedVersion: 1 });
      expect((await other.head(stream)).headline).toEqual({ status: "syncing" });
      await log.append({ stream, events: [committed(2, 2)], expectedVersion: 2, headline: { status: "synced" } });
      expect((await other.head(stream)).headline).toEqual({ status: "synced" });
    });

    test("lists streams by prefix, in pages", async () => {
      const address = (n: number) => `0x${n.toString(16).padStart(40, "e")}` as Address;
      const names = [3, 1, 2].map((n) => nftStream(424242, address(n)));
      for (const stream of names) await log.append({ stream, events: [committed(0, 0)], expectedVersion: 0 });
      const sorted = [...names].sort();
      expect((await log.streams("nft/424242/", { limit: 10 })).map((h) => h.stream)).toEqual(sorted);
      expect((await log.streams("nft/424242/", { limit: 2 })).map((h) => h.stream)).toEqual(sorted.slice(0, 2));
      const after = sorted[0] as string;
      expect((await log.streams("nft/424242/", { after, limit: 2 })).map((h) => h.stream)).toEqual(sorted.slice(1));
      expect(await log.streams("nft/42424/", { limit: 10 })).toEqual([]);
    });

    test("notifies both processes of an append", async () => {
      const stream = freshStream();
      const heard = (target: EventLog) =>
        new Promise<number>((resolve) => {
          const stop = target.subscribe((name, version) => {
            if (name !== stream) return;
            stop();
            resolve(version);
          });
        });
      const both = Promise.all([heard(log), heard(other)]);
      await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
      expect(await both).toEqual([1, 1]);
    });

    test("gives the appending process the stored events, and other processes only the version", async () => {
      const stream = freshStream();
      const events: DomainEvent[] = [{ type: "IndexingRequested" }, committed(0, 3, 5_000), committed(4, 4)];
      const own: (readonly Recorded[])[] = [];
      const stop = log.subscribe((name, _version, appended) => {
        if (name === stream && appended !== undefined) own.push(appended);
      });
      const others = new Promise<readonly Recorded[] | undefined>((resolve) => {
        other.subscribe((name, version, appended) => name === stream && version === 4 && resolve(appended));
      });
      await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
      await log.append({ stream, events, expectedVersion: 1 });
      expect(own).toEqual([await other.read(stream, { limit: 1 }), await other.read(stream, { from: 2 })]);
      expect(await others).toBeUndefined();
      stop();
    });

    test("stores each blob once, by its hash", async () => {
      const bytes = new TextEncoder().encode(`{"name":"one"}`);
      const hash = await log.putBlob(bytes);
      expect(await other.putBlob(bytes)).toBe(hash);
      expect(hash).toBe(`0x${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}` as Hash);
      expect(await other.getBlob(hash)).toEqual(bytes);
      expect(await log.getBlob(hashOf(1))).toBeUndefined();
      const second = await log.putBlob(new Uint8Array([7]));
      const seven = [second, new Uint8Array([7])] as const;
      const one = [hash, bytes] as const;
      const page = (read: number, ...stored: (readonly [Hash, Uint8Array])[]) => ({ blobs: new Map(stored), read });
      expect(await other.getBlobs([second, hashOf(1), hash])).toEqual(page(3, seven, one));
      expect(await other.getBlobs([])).toEqual(page(0));
      // As many blobs as fit into the bytes, and the first one that exceeds them.
      expect(await other.getBlobs([second, hashOf(1), hash], 0)).toEqual(page(1, seven));
      expect(await other.getBlobs([hashOf(1), second, hash, hashOf(2)], 1)).toEqual(page(3, seven, one));
      expect(await other.getBlobs([hash, second], bytes.length)).toEqual(page(2, seven, one));
      expect(await other.getBlobs([hash, second], bytes.length - 1)).toEqual(page(1, one));
    });

    test("gives a lease to one holder, which renews it, and to another after it expires or is released", async () => {
      const name = `lease-${counter}-${unique()}`;
      expect(await log.acquireLease(name, "a", 60_000)).toBe(true);
      expect(await other.acquireLease(name, "b", 60_000)).toBe(false);
      expect(await log.acquireLease(name, "a", 1)).toBe(true);
      let taken = false;
      while (!taken) taken = await other.acquireLease(name, "b", 60_000);
      expect(await log.acquireLease(name, "a", 60_000)).toBe(false);
      await log.releaseLease(name, "a");
      expect(await log.acquireLease(name, "a", 60_000)).toBe(false);
      await other.releaseLease(name, "b");
      expect(await log.acquireLease(name, "a", 60_000)).toBe(true);
    });

    test("names the valid leases with their holders", async () => {
      const name = `lease-${counter}-${unique()}`;
      await log.acquireLease(name, "a", 60_000);
      await log.acquireLease(`${name}-expired`, "a", 0);
      const own = (await other.leases()).filter((lease) => lease.name.startsWith(name));
      expect(own).toEqual([{ name, holder: "a" }]);
    });

    test("replaces the headline of a stream that has not moved, and wakes this process and others", async () => {
      const stream = freshStream();
      await log.append({ stream, events: [committed(0, 1)], expectedVersion: 0, headline: { nfts: null } });
      const woken = [log, other].map((one) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        const stop = one.subscribe((name) => {
          if (name !== stream) return;
          one.head(stream).then(({ headline }) => headline?.["nfts"] === 7 && resolve());
        });
        return promise.finally(stop);
      });
      expect(await other.replaceHeadline({ stream, version: 2, headline: { nfts: 6 } })).toBe(false);
      expect(await log.replaceHeadline({ stream, version: 1, headline: { nfts: 7 } })).toBe(true);
      await Promise.all(woken);
      expect(await other.head(stream)).toEqual({ stream, version: 1, headline: { nfts: 7 } });
    });

    test("replaces a headline only while the guard's stream is at its version", async () => {
      const [stream, chain] = [freshStream(), freshStream()];
      await log.append({ stream, events: [committed(0, 1)], expectedVersion: 0, headline: { status: "joining" } });
      await log.append({ stream: chain, events: [committed(0, 1)], expectedVersion: 0 });
      const change = { stream, version: 1, headline: { status: "backfilling" } };
      expect(await other.replaceHeadline({ ...change, guard: { stream: chain, version: 2 } })).toBe(false);
      expect(await other.replaceHeadline({ ...change, guard: { stream: freshStream(), version: 1 } })).toBe(false);
      expect((await log.head(stream)).headline).toEqual({ status: "joining" });
      expect(await other.replaceHeadline({ ...change, guard: { stream: chain, version: 1 } })).toBe(true);
      expect((await log.head(stream)).headline).toEqual({ status: "backfilling" });
    });

    test("tells its size and the time of the last append", async () => {
      const before = await log.status();
      const [stream, began] = [freshStream(), Date.now()];
      await log.append({ stream, events: [committed(0, 1)], expectedVersion: 0 });
      const { bytes, isWritable, lastAppendAt } = await other.status();
      expect(isWritable).toBe(true);
      expect(bytes).toBeGreaterThan(8_192);
      expect(lastAppendAt).toBeGreaterThanOrEqual(Math.max(began, before.lastAppendAt ?? 0));
    });

    test("ignores a lease that ends later than a new one could, because another clock must have left it", async () => {
      const name = `lease-${counter}-${unique()}`;
      const hours = 6 * 3_600_000;
      expect(await log.acquireLease(name, "crashed", 3_000 + hours)).toBe(true);
      expect(await other.acquireLease(name, "next", 3_000)).toBe(true);
      expect(await log.acquireLease(name, "crashed", 3_000)).toBe(false);
    });

    test("keeps the value of a setting's first writer", async () => {
      const name = `setting-${unique()}`;
      const [first, second] = await Promise.all([log.setting(name, () => "one"), other.setting(name, () => "two")]);
      expect(first.value).toBe(second.value);
      expect([first.created, second.created].filter(Boolean)).toHaveLength(1);
      expect(await log.setting(name, () => "three")).toEqual({ value: first.value, created: false });
    });
  });
}

function unique(): string {
  return crypto.randomUUID();
}
