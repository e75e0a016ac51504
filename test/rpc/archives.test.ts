/**
 * Which archive is asked when: the floor of progress, and rests after failures. Against a server of the protocol, with
 * seconds that are short.
 */
import { afterEach, describe, expect, test } from "bun:test";
import type { Clock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { Archives } from "../../src/rpc/archive/archives.ts";
import { ProgressFloor, restMs } from "../../src/rpc/archive/floor.ts";
import { ArchiveError, type HistorySource } from "../../src/rpc/archive/port.ts";
import { Portal } from "../../src/rpc/archive/portal.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { type ArchiveChain, type ArchiveOptions, STALLS, startArchive, type TestArchive } from "../support/archive.ts";
import { hastenedClock } from "../support/hastened-clock.ts";
import { TurnedClock } from "../support/turned-clock.ts";

const CONTRACT = `0x${"ab".repeat(20)}` as Address;
const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}`;
const LAST = 99_999;

/** A chain with a log in each hundredth block. */
const CHAIN: ArchiveChain = {
  head: async () => LAST,
  blocks: async ({ fromBlock, toBlock }) => {
    const numbers = new Set([fromBlock, toBlock]);
    for (let number = Math.ceil(fromBlock / 100) * 100; number <= toBlock; number += 100) numbers.add(number);
    return [...numbers]
      .sort((a, b) => a - b)
      .map((number) => ({
        header: { number, hash: word(number), timestamp: number },
        logs: number % 100 === 0 ? [logOf(number)] : [],
      }));
  },
};
const logOf = (number: number) => ({
  ...{ logIndex: 0, transactionIndex: 0, transactionHash: word(number), address: CONTRACT, data: "0x" },
  topics: [TRANSFER, word(1), word(2), word(number)],
});

const started: TestArchive[] = [];
afterEach(async () => {
  for (const one of started.splice(0)) await one.stop();
});

interface Setup {
  readonly clock?: Clock;
  readonly isGiven?: boolean;
  readonly maxBlocks?: number | null;
  readonly historyStart?: number;
}

async function archivesOf(options: readonly ArchiveOptions[], setup: Setup = {}) {
  const { clock = hastenedClock(20), isGiven = true, maxBlocks = 10, historyStart } = setup;
  const servers = await Promise.all(options.map((one) => startArchive(CHAIN, one)));
  started.push(...servers);
  const decoder = { decode: () => Promise.reject(new Error("logs are decoded here")) };
  const sources = servers.map(
    ({ url }, at) => new Portal({ url, label: `archive eth#${at + 1}`, per10s: 100_000, clock, decoder }),
  );
  const archives = new Archives({
    ...{ sources, isGiven, clock, logger: silentLogger, chain: "eth" },
    ...{ maxBlocks: () => maxBlocks, historyStart: () => historyStart },
  });
  return { archives, clock, servers, sources: sources as readonly HistorySource[] };
}

type Setting = Awaited<ReturnType<typeof archivesOf>>;
const { signal } = new AbortController();

/** Reads from the archive that may be asked now, until it fails or ends. Returns the next block, and what it cost. */
async function visit({ archives, clock }: Setting, fromBlock = 1) {
  const begun = clock.monotonic();
  let [next, parts] = [fromBlock, 0];
  const found = await archives.find({ fromBlock, toBlock: LAST }, [], signal);
  let error: unknown;
  if (found !== undefined) {
    const { source, toBlock } = found;
    const told = source.logs({ addresses: [CONTRACT], topics: [TRANSFER], fromBlock, toBlock }, signal);
    try {
      for await (const part of archives.advancing(source, told, { fromBlock, toBlock })) {
        next = part.toBlock + 1;
        parts++;
      }
    } catch (failure) {
      error = failure;
      archives.rest(source, failure);
    }
  }
  return { label: found?.source.label, error, next, parts, tookMs: clock.monotonic() - begun };
}

describe("an archive that stalls", () => {
  for (const stall of STALLS) {
    test(`by "${stall}" is left within 20 s, and costs the node few proofs`, async () => {
      const setting = await archivesOf([{ faults: [stall], rate: 1 }]);
      const { error, parts, tookMs } = await visit(setting);
      expect(error).toBeInstanceOf(ArchiveError);
      expect((error as ArchiveError).action).toBe("retry");
      expect(tookMs).toBeLessThan(20_000);
      expect(parts).toBeLessThanOrEqual(20);
      expect(setting.archives.isReady([])).toBe(false);
    });

    test(`by "${stall}" is passed over for another one`, async () => {
      const setting = await archivesOf([{ faults: [stall], rate: 1 }, {}]);
      const { next } = await visit(setting);
      const second = await visit(setting, next);
      expect(second).toMatchObject({ label: "archive eth#2", next: LAST + 1, error: undefined });
    });
  }

  test("for a while is asked again for ever larger ranges", async () => {
    const setting = await archivesOf([{ faults: ["too large"], rate: 1, stalls: 20 }]);
    const { clock, archives } = setting;
    let next = 1;
    for (let tries = 0; next <= LAST && tries < 12; tries++) {
      ({ next } = await visit(setting, next));
      if (next <= LAST) await clock.sleep(archives.restLeft([]) as number);
    }
    expect(next).toBe(LAST + 1);
    const [server] = setting.servers as [TestArchive];
    const sizes = server.queries.slice(20).map(({ fromBlock, toBlock }) => toBlock - fromBlock + 1);
    expect(Math.max(...sizes)).toBeGreaterThan(10_000);
    expect(sizes.length).toBeLessThan(40);
  });

  test("is read on, however slowly, if only it has the blocks", async () => {
    const setting = await archivesOf([{ faults: ["one block"], rate: 1, stalls: 60 }], { historyStart: LAST });
    expect(await visit(setting)).toMatchObject({ next: LAST + 1, error: undefined });
  });
});

describe("an archive's rest", () => {
  test("after an outage of seconds ends after seconds, and the archive serves the rest of the history", async () => {
    const setting = await archivesOf([{ faults: ["down"], rate: 1, stalls: 10 }]);
    const { archives, clock } = setting;
    const rests: number[] = [];
    let [next, lastLeft] = [1, 0];
    while (next <= LAST) {
      ({ next } = await visit(setting, next));
      lastLeft = archives.restLeft([]) as number;
      if (next > LAST) break;
      rests.push(lastLeft);
      await clock.sleep(lastLeft);
    }
    expect(rests.length).toBeGreaterThan(0);
    expect(rests[0]).toBeLessThan(10_000);
    expect(lastLeft).toBe(0);
  });

  test("is an hour if the archive asks for it", async () => {
    const setting = await archivesOf([{ faults: ["wait an hour"], rate: 1 }]);
    const { tookMs } = await visit(setting);
    expect(tookMs).toBeLessThan(5_000);
    expect(setting.archives.restLeft([])).toBeGreaterThan(3_500_000);
  });

  test("is counted once if several readings fail in one outage", async () => {
    const setting = await archivesOf([{ faults: ["down"], rate: 1 }], { clock: new TurnedClock() });
    const [source] = setting.sources as [HistorySource];
    const failure = new ArchiveError("retry", "the archive answered 503");
    for (let reading = 0; reading < 8; reading++) setting.archives.rest(source, failure);
    expect(setting.archives.restLeft([])).toBe(1_000);
  });

  test("is doubled up to a minute, and begins anew after progress", async () => {
    const clock = new TurnedClock();
    const setting = await archivesOf([{}], { clock });
    const { archives, sources } = setting;
    const [source] = sources as [HistorySource];
    const rests: (number | undefined)[] = [];
    const fail = () => {
      archives.rest(source, new ArchiveError("retry", "the archive answered 503"));
      const left = archives.restLeft([]);
      clock.turn(left ?? 0);
      return left;
    };
    for (let failures = 0; failures < 8; failures++) rests.push(fail());
    expect(rests).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    expect((await visit(setting)).next).toBe(LAST + 1);
    expect(fail()).toBe(1_000);
  });

  test("is ten minutes for one that was wrong, also if it rests already", async () => {
    const setting = await archivesOf([{}], { clock: new TurnedClock() });
    const [source] = setting.sources as [HistorySource];
    setting.archives.rest(source, new ArchiveError("retry", "the archive answered 503"));
    setting.archives.rest(source, new ArchiveError("distrust", "its blocks are not linked"));
    expect(setting.archives.restLeft([])).toBe(600_000);
  });

  test("is at least four times as long as the try that failed, and at most forty times", () => {
    expect([1, 2, 3, 4, 9].map((failures) => restMs(failures, 0, 60_000))).toEqual([
      1_000, 2_000, 4_000, 8_000, 60_000,
    ]);
    expect([1, 2, 3, 4, 9].map((failures) => restMs(failures, 15_000, 60_000))).toEqual([
      60_000, 120_000, 240_000, 480_000, 600_000,
    ]);
    expect(restMs(20, 500, 600_000)).toBe(600_000);
  });
});

describe("the floor of progress", () => {
  /** Parts of so many blocks, each with so many lines, until the floor is not reached. Returns the time and the parts. */
  const until = (blocks: number, tookMs: number, lines = 0, nodeBlocks: number | null = 10) => {
    const floor = new ProgressFloor("archive eth#1", { fromBlock: 0, toBlock: 10_000_000 }, nodeBlocks);
    for (let parts = 1; parts <= 1_000; parts++) {
      const fromBlock = (parts - 1) * blocks;
      try {
        floor.passed({ fromBlock, toBlock: fromBlock + blocks - 1, tookMs, lines });
      } catch {
        return { seconds: (parts * tookMs) / 1_000, parts };
      }
    }
    return undefined;
  };

  test("is not reached by a few blocks per second, within 20 s", () => {
    for (const [blocks, tookMs] of [
      [99, 1_000],
      [10, 10_000],
      [1_000, 15_000],
      [45, 500],
    ] as const) {
      expect(until(blocks, tookMs)?.seconds).toBeLessThanOrEqual(20);
    }
  });

  test("is not reached by answers that save the node no request, within 20 of them", () => {
    expect(until(1, 10)).toEqual({ seconds: 0.2, parts: 20 });
    expect(until(19, 10)?.parts).toBe(20);
    expect(until(300, 10, 0, 2_000)?.parts).toBe(20);
  });

  test("is reached by honest answers: long ones, dense ones of 16 MB, and those at the archive's head", () => {
    expect(until(20, 100)).toBeUndefined();
    expect(until(200_000, 9_000)).toBeUndefined();
    // A hot collection: 20 blocks with a thousand transfers each.
    expect(until(20, 2_000, 20_000, 2_000)).toBeUndefined();
    expect(until(600, 5_500)).toBeUndefined();
  });

  test("spares the last part of a range", () => {
    const floor = new ProgressFloor("archive eth#1", { fromBlock: 0, toBlock: 10 }, 10);
    expect(floor.passed({ fromBlock: 0, toBlock: 10, tookMs: 14_000, lines: 0 })).toBe(true);
  });
});
