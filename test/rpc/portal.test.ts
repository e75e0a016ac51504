/** The client of SQD's Portal against a server that answers as scripted: encodings, bounds, refusals and the rate. */
import { afterEach, describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { ArchiveError, type LogsPart } from "../../src/rpc/archive/port.ts";
import { Portal } from "../../src/rpc/archive/portal.ts";
import { TRANSFER } from "../../src/rpc/decode/transfers.ts";
import type { LogFilter } from "../../src/rpc/port.ts";

const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}` as Hash;
const CONTRACT = `0x${"ab".repeat(20)}` as Address;
const FILTER: LogFilter = { addresses: [CONTRACT], topics: [TRANSFER], fromBlock: 100, toBlock: 199 };

interface Query {
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly parentBlockHash?: string;
  readonly logs: readonly Record<string, unknown>[];
}

const started: { stop(closes: boolean): unknown }[] = [];
afterEach(() => {
  for (const one of started.splice(0)) one.stop(true);
});

const line = (number: number, logs: readonly object[] = []) =>
  `${JSON.stringify({ header: { number, hash: word(number), timestamp: number }, ...(logs.length === 0 ? {} : { logs }) })}\n`;
const log = (logIndex: number, data = "0x") => ({
  ...{ logIndex, transactionIndex: 0, transactionHash: word(9), address: CONTRACT.toUpperCase().replace("0X", "0x") },
  ...{ data, topics: [TRANSFER, word(1), word(2), word(logIndex)] },
});

/** A client of a server that gives these answers, one after the other, and then the last one again. */
function portalOf(answers: readonly ((query: Query) => Response)[], per10s = 1_000) {
  const queries: Query[] = [];
  const times: number[] = [];
  const server = Bun.serve({
    port: 0,
    fetch: async (request) => {
      times.push(performance.now());
      if (request.method === "GET")
        return Response.json({ number: 500 - times.length, hash: word(500 - times.length) });
      queries.push((await request.json()) as Query);
      return (answers[queries.length - 1] ?? answers.at(-1)!)(queries.at(-1) as Query);
    },
  });
  started.push(server);
  const url = `http://127.0.0.1:${server.port}/datasets/x`;
  const portal = new Portal({ url, label: "archive eth#1", per10s, clock: systemClock, decoder: { decode: unused } });
  return { portal, queries, times };
}
const unused = (): never => {
  throw new Error("logs are not decoded in a worker");
};

async function read(portal: Portal, filter = FILTER): Promise<LogsPart[]> {
  const parts: LogsPart[] = [];
  for await (const part of portal.logs(filter, new AbortController().signal)) parts.push(part);
  return parts;
}

const whole = ({ fromBlock, toBlock }: Query) =>
  [line(fromBlock), line(Math.floor((fromBlock + toBlock) / 2), [log(3), log(1)]), line(toBlock)].join("");

describe("an archive's answer", () => {
  const ENCODINGS = {
    gzip: (text: string) => new Response(gzipSync(text), { headers: { "content-encoding": "gzip" } }),
    zstd: (text: string) => new Response(Bun.zstdCompressSync(text), { headers: { "content-encoding": "zstd" } }),
    identity: (text: string) => new Response(text, { headers: { "content-type": "text/plain" } }),
  } as const;
  for (const [name, encode] of Object.entries(ENCODINGS)) {
    test(`is read in the encoding ${name}`, async () => {
      const { portal } = portalOf([(query) => encode(whole(query))]);
      const [part] = await read(portal);
      expect(part?.toBlock).toBe(199);
      expect(part?.logs.map(({ logIndex, address }) => [logIndex, address])).toEqual([
        [1, CONTRACT],
        [3, CONTRACT],
      ]);
    });
  }

  test("that ends early goes on behind its last line, with that block's hash as the parent", async () => {
    const { portal, queries } = portalOf([
      ({ fromBlock }) => new Response(line(fromBlock) + line(120, [log(1)])),
      (query) => new Response(whole(query)),
    ]);
    const parts = await read(portal);
    expect(parts.map(({ fromBlock, toBlock }) => [fromBlock, toBlock])).toEqual([
      [100, 120],
      [121, 199],
    ]);
    expect(queries.map(({ fromBlock, parentBlockHash }) => [fromBlock, parentBlockHash])).toEqual([
      [100, undefined],
      [121, word(120)],
    ]);
  });

  test("larger than the bound is cut after a whole line", async () => {
    const data = `0x${"00".repeat(1 << 20)}`;
    const large = ({ fromBlock, toBlock }: Query) => {
      const lines = [];
      for (let block = fromBlock; block <= toBlock; block++) lines.push(line(block, [log(1, data)]));
      return new Response(Bun.zstdCompressSync(lines.join("")), { headers: { "content-encoding": "zstd" } });
    };
    const { portal } = portalOf([large]);
    const parts = await read(portal, { ...FILTER, toBlock: 119 });
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.reduce((sum, { logs }) => sum + logs.length, 0)).toBe(20);
  });

  const LIES: Readonly<Record<string, (query: Query) => string>> = {
    "a block outside the range": ({ toBlock }) => line(toBlock + 1),
    "blocks out of order": () => line(130) + line(120),
    "a log of another contract": () => line(120, [{ ...log(1), address: `0x${"cd".repeat(20)}` }]),
    "a log of another topic": () => line(120, [{ ...log(1), topics: [word(7)] }]),
    "two logs at one place": () => line(120, [log(1), { ...log(1), data: "0x01" }]),
    "a block without a hash": () => `{"header":{"number":120}}\n`,
    "logs that are no list": () => `{"header":{"number":120,"hash":"${word(120)}"},"logs":{"a":1}}\n`,
  };
  for (const [name, lie] of Object.entries(LIES)) {
    test(`with ${name} is not believed`, async () => {
      const { portal } = portalOf([(query) => new Response(lie(query))]);
      const error = await read(portal).catch((failure: unknown) => failure);
      expect(error).toBeInstanceOf(ArchiveError);
      expect((error as ArchiveError).action).toBe("distrust");
    });
  }
});

describe("a query", () => {
  test("has no empty list, which would match nothing", async () => {
    const { portal, queries } = portalOf([(query) => new Response(whole(query))]);
    await read(portal, { ...FILTER, topics: [], moreTopics: [undefined, [word(2)]] });
    expect(queries[0]?.logs).toEqual([{ address: [CONTRACT], topic2: [word(2)] }]);
  });

  test("with too many contracts is refused before it is sent", async () => {
    const { portal, queries } = portalOf([(query) => new Response(whole(query))]);
    const addresses = Array.from({ length: 7_000 }, (_, at) => `0x${at.toString(16).padStart(40, "0")}` as Address);
    const error = await read(portal, { ...FILTER, addresses }).catch((failure: unknown) => failure);
    expect((error as ArchiveError).action).toBe("split");
    expect(queries).toEqual([]);
    await read(portal, { ...FILTER, addresses: addresses.slice(0, 2_500) }).catch(() => undefined);
    expect(queries[0]?.logs.map(({ address }) => (address as string[]).length)).toEqual([1_000, 1_000, 500]);
  });

  test("is made smaller where an answer would be too large", async () => {
    const { portal, queries } = portalOf([
      () => new Response("Bad request: Query is too large", { status: 400 }),
      (query) => new Response(whole(query)),
    ]);
    expect((await read(portal)).at(-1)?.toBlock).toBe(199);
    expect(queries.map(({ fromBlock, toBlock }) => toBlock - fromBlock + 1)).toEqual([100, 50, 50]);
  });
});

test("an archive on another branch tells its blocks in rising order, whichever order it sends", async () => {
  const previousBlocks = [9, 7, 8].map((number) => ({ number, hash: word(number) }));
  const { portal } = portalOf([() => Response.json({ previousBlocks }, { status: 409 })]);
  const error = (await read(portal).catch((failure: unknown) => failure)) as ArchiveError;
  expect(error.action).toBe("fork");
  expect(error.previousBlocks.map(({ number }) => number)).toEqual([7, 8, 9]);
});

test("an archive's head doesn't fall when another of its replicas answers", async () => {
  const { portal } = portalOf([]);
  expect((await portal.head())?.number).toBe(499);
  expect((await portal.head())?.number).toBe(499);
});

test("requests beyond the rate wait", async () => {
  const { portal, times } = portalOf([({ fromBlock }) => new Response(line(fromBlock))], 100);
  await read(portal, { ...FILTER, toBlock: FILTER.fromBlock + 119 });
  expect(times).toHaveLength(120);
  // A full bucket has 100; each further one comes after a tenth of a second.
  expect((times.at(-1) as number) - (times[0] as number)).toBeGreaterThan(1_500);
});
