/**
 * One hostile token, host or body among ordinary ones: it alone fails, with a reason, and delays no other. Metadata
 * runs as in the service, against servers that misbehave.
 */
import { afterEach, describe, expect, test } from "bun:test";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { AppError } from "../../../src/core/errors.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { encodeTokens } from "../../../src/events/token-columns.ts";
import { metadataStream } from "../../../src/events/types.ts";
import type { Append, EventLog } from "../../../src/log/event-log.ts";
import { appendMetadata } from "../../../src/nft/metadata/books.ts";
import { toBlob } from "../../../src/nft/metadata/outcome-documents.ts";
import { systemWire } from "../../../src/nft/metadata/resolve/wire.ts";
import { addressOf, type RunningMetadata, type RunningOptions, startMetadata } from "../../support/metadata/running.ts";
import { eventually } from "../../support/service.ts";
import { turnsDuring } from "../../support/turns.ts";

const [A, B, C] = [addressOf("a"), addressOf("b"), addressOf("c")];
const FINE = '{"name":"fine"}';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (let close = closers.pop(); close !== undefined; close = closers.pop()) await close();
});

/** Starts a server on loopback and returns its base URL without a trailing slash. */
async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server: Server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function run(options: RunningOptions): Promise<RunningMetadata> {
  const running = await startMetadata(options);
  closers.push(() => running.stop());
  return running;
}

/** Appends the first tokens of A as resolved with these bodies. */
async function appendBodies(log: EventLog, bodies: readonly string[]): Promise<void> {
  const tokens = [];
  for (const [id, body] of bodies.entries()) {
    const document = { uri: `https://a.example/${id}`, body: await log.putBlob(new TextEncoder().encode(body)) };
    tokens.push({ kind: TransferKind.erc721, id: BigInt(id), hash: await log.putBlob(toBlob(document)) });
  }
  const columns = encodeTokens(tokens);
  const resolved = { type: "MetadataResolved", since: 0, count: tokens.length, bytes: 0, tokens: columns } as const;
  await log.append({ stream: metadataStream(1, A), events: [resolved], expectedVersion: 0 });
}

const namesOf = async (running: RunningMetadata, count: number): Promise<(string | null)[]> =>
  (await running.page(A, count)).map(({ normalized }) => JSON.parse(normalized).name);

const counted = ({ outcomes }: RunningMetadata) => Object.fromEntries(outcomes);

describe("one token among others fails alone", () => {
  test("if its server names a property of every object as the content encoding", async () => {
    const encodings = ["constructor", "__proto__", "hasOwnProperty", "toString", "valueOf"];
    const base = await serve(({ url = "" }, response) => {
      const encoding = encodings[Number(url.slice(1))];
      response.writeHead(200, encoding === undefined ? {} : { "content-encoding": encoding });
      response.end(FINE);
    });
    const running = await run({ stories: { [A]: [0, 1, 2, 3, 4, 5, 6].map((path) => `${base}/${path}`) } });
    await running.settled(A, 7);
    expect(counted(running)).toEqual({ bad_encoding: 5, resolved: 2 });
    expect(await namesOf(running, 7)).toEqual([null, null, null, null, null, "fine", "fine"]);
  });

  test("if its fetch throws an unexpected error", async () => {
    const base = await serve((_request, response) => response.end(FINE));
    const running = await run({
      stories: { [A]: [`${base}/0`, `${base}/odd`, `${base}/2`] },
      wire: {
        ...systemWire,
        request: (request, onResponse) => {
          if (request.url.pathname === "/odd") throw new TypeError("not a function");
          return systemWire.request(request, onResponse);
        },
      },
    });
    await running.settled(A, 3);
    expect(await namesOf(running, 3)).toEqual(["fine", null, "fine"]);
    expect(running.outcomes.get("resolved")).toBe(2);
    expect(running.outcomes.get("server_error")).toBeGreaterThan(0);
  });

  test("but not because of a failing log: its fetch is repeated", async () => {
    const base = await serve((_request, response) => response.end(FINE));
    let failures = 0;
    const running = await run({
      stories: { [A]: [`${base}/0`, `${base}/1`] },
      wrapLog: (log) =>
        new Proxy(log, {
          get: (target, name) => {
            const value = Reflect.get(target, name, target);
            if (typeof value !== "function") return value;
            if (name !== "putBlob" || failures === 2) return value.bind(target);
            return () => Promise.reject(new Error(`the disk is full (failure ${++failures})`));
          },
        }),
    });
    await running.settled(A, 2);
    expect([failures, counted(running)]).toEqual([2, { resolved: 2 }]);
  });
});

test("repeats the calls for the same tokens after the chain was unavailable", async () => {
  let refusals = 0;
  const running = await run({
    stories: { [A]: Array.from({ length: 50 }, (_, id) => `data:application/json,{"name":"${id}"}`) },
    onCalls: () => {
      if (refusals < 2)
        throw new AppError(`no endpoint answers (failure ${++refusals})`, { code: "chain_unavailable" });
    },
  });
  await running.settled(A, 50);
  expect([refusals, counted(running)]).toEqual([2, { resolved: 50 }]);
});

describe("a log that refuses appends", () => {
  /** Minimum pause after a failure. */
  const PAUSE_MS = 1_000;

  /**
   * Runs metadata over a log that refuses the first `refusals` appends of an event type. Records the time of each try.
   */
  async function refusing(type: string, refusals: number, uris: readonly string[]) {
    const tries: number[] = [];
    const running = await run({
      stories: { [A]: uris },
      wrapLog: (log) =>
        new Proxy(log, {
          get: (target, name) => {
            const value = Reflect.get(target, name, target);
            if (name !== "append") return typeof value === "function" ? value.bind(target) : value;
            return (append: Append) => {
              if (append.events.every((event) => event.type !== type)) return target.append(append);
              tries.push(performance.now());
              if (tries.length > refusals) return target.append(append);
              return Promise.reject(new AppError("the disk is full", { code: "log_unavailable", retryable: true }));
            };
          },
        }),
    });
    const longestWait = () => Math.max(...tries.slice(1).map((time, index) => time - (tries[index] as number)));
    return { running, tries, longestWait };
  }

  test("is left alone for a pause, however many tokens are due", async () => {
    // More tokens than one append holds. A visit that meets a failure appends its outcomes twice at most.
    const tokens = 600;
    const uris = Array.from({ length: tokens }, (_, id) => `data:application/json,{"name":"${id}"}`);
    const { running, longestWait } = await refusing("MetadataResolved", 4, uris);
    await running.settled(A, tokens);
    expect(longestWait()).toBeGreaterThanOrEqual(PAUSE_MS);
    const names = await namesOf(running, tokens);
    expect(names).toEqual(uris.map((_, id) => String(id)));
  });

  test("gets the outcome of an examined picture later, without a new request", async () => {
    const sound = `data:audio/mpeg;base64,${Buffer.from("ID3 a sound").toString("base64")}`;
    const { running, tries, longestWait } = await refusing("MediaExamined", 1, [
      `data:application/json,{"image":"${sound}"}`,
    ]);
    await running.settled(A, 1);
    await running.page(A, 1, { mediaItems: true });
    await eventually("the log contains the picture's outcome", async () => {
      const book = await running.metadata.books.get(1, A);
      return book.media(book.find(TransferKind.erc721, 0));
    });
    expect([tries.length, Object.fromEntries(running.pictures)]).toEqual([2, { success: 1 }]);
    expect(longestWait()).toBeGreaterThanOrEqual(PAUSE_MS);
  });
});

describe("a very deeply nested body", () => {
  const DEPTH = 100_000;
  const deep = `{"name":"deep","attributes":[{"value":${"[".repeat(DEPTH)}${"]".repeat(DEPTH)}}]}`;

  test("is refused when it is fetched", async () => {
    const base = await serve(({ url }, response) => response.end(url === "/deep" ? deep : FINE));
    const inline = `data:application/json,{"name":"deep","x":${"[".repeat(300)}${"]".repeat(300)}}`;
    const running = await run({ stories: { [A]: [`${base}/0`, `${base}/deep`, inline, `${base}/3`] } });
    await running.settled(A, 4);
    expect(counted(running)).toEqual({ resolved: 2, too_large: 2 });
    expect(await namesOf(running, 4)).toEqual(["fine", null, null, "fine"]);
  });

  test("is shown as no metadata if the log contains it, and the other tokens of the page are unaffected", async () => {
    const running = await run({ stories: { [B]: [] } });
    const { log } = running;
    await appendBodies(log, [FINE, deep, FINE]);
    const page = await running.page(A, 3, { mediaItems: true });
    expect(page.map(({ tokenUri }) => tokenUri)).toEqual([0, 1, 2].map((id) => `"https://a.example/${id}"`));
    expect(page.map(({ metadata }) => metadata)).toEqual([JSON.stringify(FINE), "null", JSON.stringify(FINE)]);
    expect(await namesOf(running, 3)).toEqual(["fine", null, "fine"]);
  });
});

test("reads no more of a page of megabytes than it may show, and leaves the event loop free", async () => {
  let bytes = 0;
  const running = await run({
    stories: { [B]: [] },
    wrapLog: (log) =>
      new Proxy(log, {
        get: (target, name) => {
          const value = Reflect.get(target, name, target);
          if (name !== "getBlobs") return typeof value === "function" ? value.bind(target) : value;
          return async (...args: Parameters<EventLog["getBlobs"]>) => {
            const page = await target.getBlobs(...args);
            for (const blob of page.blobs.values()) bytes += blob.length;
            return page;
          };
        },
      }),
  });
  const { log } = running;
  const MEGABYTE = 1_000_000;
  const [SMALL, LARGE] = [100, 60];
  const nameOf = (id: number) => String(id).padStart(id < SMALL ? 0 : MEGABYTE, "x");
  await appendBodies(
    log,
    Array.from({ length: SMALL + LARGE }, (_, id) => JSON.stringify({ name: nameOf(id) })),
  );
  const { value: shown, turns } = await turnsDuring(() => running.page(A, SMALL + LARGE));
  // Each large token takes two of the page's three megabytes: its text and its fields.
  expect(shown.length).toBe(SMALL + 2);
  expect(bytes).toBeLessThan(7 * MEGABYTE);
  // At least one turn of the event loop per serialised body.
  expect(turns).toBeGreaterThan(bytes / MEGABYTE - 1);
  // A second read gives the same names, whatever the first one left in memory.
  const names = (await namesOf(running, SMALL + LARGE)).map((name) => name?.replace(/^x+/, ""));
  expect(names).toEqual(Array.from({ length: shown.length }, (_, id) => String(id)));
});

test("serialises a body of many small values off the request thread", async () => {
  const running = await run({ stories: { [B]: [] } });
  const { log } = running;
  const bodies = [FINE, `{"name":"many","a":[${"{},".repeat(340_000)}{}]}`, FINE];
  await appendBodies(log, bodies);
  const { value: page, turns } = await turnsDuring(() => running.page(A, 3));
  expect(page.map(({ metadata }) => metadata)).toEqual(bodies.map((body) => JSON.stringify(body)));
  // To parse it takes a tenth of a second. On this thread that leaves a handful of turns, in a worker hundreds.
  expect(turns).toBeGreaterThan(50);
  expect(await namesOf(running, 3)).toEqual(["fine", "many", "fine"]);
});

test("refetches a token if its contract announces a change during the fetch", async () => {
  const held = Promise.withResolvers<void>();
  const [asked, released] = [Promise.withResolvers<void>(), held.promise];
  let name = "before";
  const base = await serve(async (_request, response) => {
    const body = JSON.stringify({ name });
    asked.resolve();
    await released;
    response.end(body);
  });
  const running = await run({ stories: { [A]: [`${base}/0`, "data:,{}"] } });
  await asked.promise;
  name = "after";
  const { log, metadata } = running;
  const doubt = { type: "MetadataOutdated", fromId: "0", toId: "0", cause: "announced", block: 1 } as const;
  await appendMetadata({ log, books: metadata.books }, { chainId: 1, address: A }, [doubt]);
  // A page view of another token is served after the announcement, although the first fetch is still pending.
  await running.page(A, 1, { from: 2 });
  await eventually("the other token was fetched", async () =>
    running.outcomes.get("no_uri") === 1 ? true : undefined,
  );
  held.resolve();
  await eventually("the name is new", async () => ((await namesOf(running, 1))[0] === "after" ? true : undefined));
});

test("keeps a picture apart from one with a URI equal to its short name", async () => {
  const sound = `data:audio/mpeg;base64,${Buffer.from(`ID3${"x".repeat(300)}`).toString("base64")}`;
  const short = `sha256-${Bun.SHA256.hash(sound, "base64url")}`;
  const uriOf = (image: string) => `data:application/json,${JSON.stringify({ image })}`;
  const running = await run({ stories: { [A]: [uriOf(short)], [B]: [uriOf(sound)] } });
  const statusOf = async (address: typeof A): Promise<string> => {
    const [first] = await running.page(address, 1, { mediaItems: true });
    return JSON.parse(first!.media).status;
  };
  for (const address of [A, B]) await running.settled(address, 1);
  const looked = async (address: typeof A) =>
    eventually("the picture was examined", async () => {
      const status = await statusOf(address);
      return status === "processing" ? undefined : status;
    });
  expect(await looked(A)).toBe("invalid_url");
  expect(await looked(B)).toBe("success");
});

describe("a slow host", () => {
  const sixty = (base: string) => Array.from({ length: 60 }, (_, id) => `${base}/${id}`);

  test("delays only its own tokens", async () => {
    let asked = 0;
    const slow = await serve(() => {
      asked++;
    });
    const fast = await serve((_request, response) => response.end(FINE));
    const running = await run({ stories: { [A]: sixty(slow), [B]: sixty(slow) } });
    await eventually(
      "the slow host has its maximum of connections, and more tokens wait for it than there are slots",
      async () => (asked === 16 && running.chain.inFlight() > 64 ? true : undefined),
    );
    await running.add(C, sixty(fast));
    await running.settled(C, 60);
    expect([asked, counted(running)]).toEqual([16, { resolved: 60 }]);
  });

  test("holds a collection's turn for a limited time if other collections wait", async () => {
    const held: (() => void)[] = [];
    const slow = await serve((_request, response) => {
      held.push(() => response.end(FINE));
    });
    const fast = await serve((_request, response) => response.end(FINE));
    let later = 0;
    const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + later };
    // As many collections as are visited at once, each with more tokens than are fetched at a time.
    const large = ["1", "2", "3", "4", "5", "6"].map(addressOf);
    const many = Array.from({ length: 400 }, (_, id) => `${slow}/${id}`);
    const running = await run({ stories: Object.fromEntries(large.map((address) => [address, many])), clock });
    await eventually("all slots are taken", async () => (running.chain.inFlight() >= 6 * 40 ? true : undefined));
    await running.add(C, sixty(fast));
    // From here on the slow host answers, but never the last token of a collection.
    later = 60_000;
    let left = 500;
    await eventually("the waiting collection had its turn", async () => {
      for (const release of held.splice(0, left)) {
        left--;
        release();
      }
      const { resolved } = await running.metadata.books.get(1, C);
      return resolved === 60 ? true : undefined;
    });
    // It did not have to wait for timeouts of the others.
    expect(Object.keys(counted(running))).toEqual(["resolved"]);
    // The other collections continue.
    await eventually("the other collections are complete", async () => {
      for (const release of held.splice(0)) release();
      const { resolved } = await running.metadata.books.get(1, large[5] ?? A);
      return resolved === 400 ? true : undefined;
    });
  });
});
