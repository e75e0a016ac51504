/** The client of SQD's Portal against a server that answers as scripted: encodings, bounds, refusals and the rate. */
import { afterEach, describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { ArchiveError, type LogsPart } from "../../src/rpc/archive/port.ts";
import { Portal } from "../../src/rpc/archive/portal.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import type { LogFilter } from "../../src/rpc/port.ts";
import { hastenedClock } from "../support/hastened-clock.ts";
import { TurnedClock } from "../support/turned-clock.ts";

const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}` as Hash;
const CONTRACT = `0x${"ab".repeat(20)}` as Address;
const FILTER: LogFilter = { addresses: [CONTRACT], topics: [TRANSFER], fromBlock: 100, toBlock: 199 };

interface Query {
  readonly fields: { readonly block: Readonly<Record<string, boolean>> };
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
function portalOf(
  answers: readonly ((query: Query) => Response)[],
  {
    per10s = 1_000,
    clock = systemClock,
    head = (n: number): unknown => ({ number: 500 - n, hash: word(500 - n) }),
  }: { readonly per10s?: number; readonly clock?: Clock; readonly head?: (n: number) => unknown } = {},
) {
  const queries: Query[] = [];
  const times: number[] = [];
  const server = Bun.serve({
    port: 0,
    fetch: async (request) => {
      times.push(clock.monotonic());
      if (request.method === "GET") return Response.json(head(times.length) ?? null);
      queries.push((await request.json()) as Query);
      return (answers[queries.length - 1] ?? answers.at(-1)!)(queries.at(-1) as Query);
    },
  });
  started.push(server);
  const url = `http://127.0.0.1:${server.port}/datasets/x`;
  const portal = new Portal({ url, label: "archive eth#1", per10s, clock, decoder: { decode: unused } });
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

const randomBytes = () => `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(8_192))).toString("hex")}`;

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

test("an archive's head doesn't fall when another of its replicas answers", async () => {
  const { portal } = portalOf([]);
  expect((await portal.head())?.number).toBe(499);
  expect((await portal.head())?.number).toBe(499);
});

test("an archive that tells no head fails for now", async () => {
  const { portal } = portalOf([], { head: (n) => (n === 1 ? null : { number: 7, hash: word(7) }) });
  const error = await portal.head().catch((failure: unknown) => failure);
  expect(error).toMatchObject({ action: "retry", retryable: true });
  expect((await portal.head()).number).toBe(7);
});

test("an archive gets no more requests in any ten seconds than it allows", async () => {
  const clock = hastenedClock(20);
  const { portal, times } = portalOf([({ fromBlock }) => new Response(line(fromBlock))], { per10s: 20, clock });
  await read(portal, { ...FILTER, toBlock: FILTER.fromBlock + 49 });
  expect(times).toHaveLength(50);
  for (const [at, time] of times.slice(20).entries()) expect(time - (times[at] as number)).toBeGreaterThan(10_000);
});

describe("a refusal", () => {
  const refused = (words: string, status = 400) => new Response(words, { status });
  /** What an archive says about a field that it doesn't know, in the words of its releases. */
  const OF_FIELDS = [
    "Bad request: column 'state_root' is not found in 'blocks'",
    'Bad request: column "state_root" is not found in "blocks"',
    "Bad request: column state_root is not found in blocks",
    "Bad request: Couldn't parse query: unknown field `stateRoot`, expected one of `number`, `hash` at line 1 column 130",
    "Bad request: fields.block: unknown field `stateRoot`, expected `number` or `hash` at line 1 column 9",
    "Bad request: unknown field: stateRoot",
    JSON.stringify({
      error: { type: "invalid_request_error", message: 'unknown field "stateRoot", expected one of "number"' },
    }),
  ];
  for (const words of OF_FIELDS) {
    test(`that names a field has it left out: ${words}`, async () => {
      const { portal, queries } = portalOf([
        ({ fields }) => (fields.block["stateRoot"] === true ? refused(words) : new Response("")),
        (query) => new Response(whole(query)),
      ]);
      expect((await read(portal)).at(-1)?.toBlock).toBe(199);
      expect(queries.map(({ fields }) => fields.block["stateRoot"])).toEqual([true, undefined]);
      expect(queries[1]?.fields.block["receiptsRoot"]).toBe(true);
    });
  }

  for (const words of [
    "Bad request: invalid type: string, expected u64 at line 1 column 130",
    "Bad request: unknown field `number`, expected one of `height` at line 1 column 20",
    "Bad request: unknown field `wings` at line 1 column 20",
  ]) {
    test(`without a field that can be left out is final: ${words}`, async () => {
      const { portal, queries } = portalOf([() => refused(words)]);
      expect(await read(portal).catch((failure: unknown) => failure)).toMatchObject({ action: "give up" });
      expect(queries).toHaveLength(1);
    });
  }

  test("of a field is forgotten after an hour", async () => {
    const clock = new TurnedClock();
    const { portal, queries } = portalOf(
      [() => refused("column 'state_root' is not found in 'blocks'"), (query) => new Response(whole(query))],
      { clock },
    );
    await read(portal);
    clock.turn(3_599_000);
    await read(portal);
    clock.turn(2_000);
    await read(portal);
    expect(queries.map(({ fields }) => fields.block["stateRoot"])).toEqual([true, undefined, undefined, true]);
  });

  const OF_SIZE: readonly (readonly [string, number])[] = [
    ["Bad request: Query is too large", 400],
    ["the result exceeds the size limit", 400],
    ["worker failure: response exceeded the response size limit", 500],
    ["", 413],
  ];
  for (const [words, status] of OF_SIZE) {
    test(`of the size is asked again in smaller ranges: ${status} ${words}`, async () => {
      const { portal, queries } = portalOf([() => refused(words, status), (query) => new Response(whole(query))]);
      expect((await read(portal)).at(-1)?.toBlock).toBe(199);
      expect(queries.slice(0, 2).map(({ fromBlock, toBlock }) => toBlock - fromBlock + 1)).toEqual([100, 50]);
    });
  }

  test("of each size makes an archive fail for now, and its ranges grow again afterwards", async () => {
    let isLarge = true;
    const { portal, queries } = portalOf([
      (query) => (isLarge ? refused("", 413) : new Response(line(query.fromBlock) + line(query.toBlock))),
    ]);
    const error = await read(portal).catch((failure: unknown) => failure);
    expect(error).toMatchObject({ action: "retry" });
    const sizes = () => queries.splice(0).map(({ fromBlock, toBlock }) => toBlock - fromBlock + 1);
    expect(sizes()).toEqual([100, 50, 25, 12, 6, 3, 1]);
    isLarge = false;
    await read(portal, { ...FILTER, fromBlock: 1, toBlock: 1_000 });
    expect(sizes()).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 489]);
  });

  test("of a size that was tried again makes the next try later", async () => {
    const { portal, queries } = portalOf([
      ({ fromBlock, toBlock }) =>
        toBlock - fromBlock >= 10 ? refused("", 413) : new Response(line(fromBlock) + line(toBlock)),
    ]);
    await read(portal, { ...FILTER, fromBlock: 1, toBlock: 1_000 });
    const large = queries.filter(({ fromBlock, toBlock }) => toBlock - fromBlock >= 10).length;
    // Seven refusals find the size, one in 32 requests tries more afterwards.
    expect(queries.length - large).toBeGreaterThan(100);
    expect(large).toBeLessThan(20);
  });

  test("that asks for a long wait is passed on at once, with the wait", async () => {
    const headers = { "retry-after": "3600" };
    const { portal, queries } = portalOf([() => new Response("", { status: 429, headers })]);
    const error = await read(portal).catch((failure: unknown) => failure);
    expect(error).toMatchObject({ action: "retry", retryAfterMs: 3_600_000 });
    expect(queries).toHaveLength(1);
  });
});

describe("an archive", () => {
  const endless = (text: string) =>
    new Response(new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from(text)) }));

  test("that hangs is given up within 15 s, after a second try", async () => {
    const clock = hastenedClock(5);
    const { portal, queries } = portalOf([() => endless("")], { clock });
    const begun = clock.monotonic();
    expect(await read(portal).catch((failure: unknown) => failure)).toMatchObject({ action: "retry" });
    expect(queries).toHaveLength(2);
    expect(clock.monotonic() - begun).toBeLessThan(18_000);
  });

  test("that hangs at a range is asked for half of it the next time", async () => {
    const slow = ({ fromBlock, toBlock }: Query) =>
      toBlock - fromBlock >= 50 ? endless("") : new Response(line(toBlock));
    const { portal, queries } = portalOf([slow], { clock: hastenedClock(5) });
    await read(portal).catch(() => undefined);
    expect((await read(portal)).at(-1)?.toBlock).toBe(199);
    expect(queries.map(({ fromBlock, toBlock }) => toBlock - fromBlock + 1)).toEqual([100, 100, 50, 50]);
  });

  test("that stops in its answer is read on behind what came", async () => {
    const { portal, queries } = portalOf(
      [({ fromBlock }) => endless(line(fromBlock) + line(130)), (query) => new Response(whole(query))],
      { clock: hastenedClock(5) },
    );
    const parts = await read(portal);
    expect(parts.map(({ toBlock }) => toBlock)).toEqual([130, 199]);
    expect(parts[0]?.tookMs).toBeGreaterThan(7_000);
    expect(queries).toHaveLength(2);
  });

  test("is not blamed for the waits of the operator's own rate limit", async () => {
    const clock = hastenedClock(5);
    const { portal } = portalOf([({ fromBlock }) => new Response(line(fromBlock))], { per10s: 1, clock });
    const parts = await read(portal, { ...FILTER, toBlock: FILTER.fromBlock + 3 });
    expect(parts).toHaveLength(4);
    for (const { tookMs } of parts) expect(tookMs).toBeLessThan(5_000);
  });

  test("that sends what is no zstd fails for now", async () => {
    const { portal } = portalOf([() => new Response("plain", { headers: { "content-encoding": "zstd" } })]);
    const error = await read(portal).catch((failure: unknown) => failure);
    expect(error).toMatchObject({ action: "retry" });
    expect((error as Error).message).toContain("encoding");
  });

  test("whose compressed answer breaks off is read on behind what came", async () => {
    const text = (from: number, to: number) =>
      Array.from({ length: to - from + 1 }, (_, at) => line(from + at, [log(1, randomBytes())])).join("");
    const cut = ({ fromBlock, toBlock }: Query) => {
      const packed = Bun.zstdCompressSync(text(fromBlock, toBlock));
      const headers = { "content-encoding": "zstd" };
      return new Response(packed.subarray(0, Math.floor(packed.length / 2)), { headers });
    };
    const { portal, queries } = portalOf([cut, (query) => new Response(whole(query))]);
    const parts = await read(portal);
    expect(parts.map(({ fromBlock }) => fromBlock)[0]).toBe(100);
    expect(parts.at(-1)?.toBlock).toBe(199);
    expect(queries[1]?.fromBlock).toBeGreaterThan(120);
  });
});
