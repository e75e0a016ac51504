/** The parser's worker: a stuck worker costs only the body it is stuck on, and doesn't delay the stop. */
import { afterEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import { Semaphore } from "../../../src/core/semaphore.ts";
import { MetadataFailure } from "../../../src/nft/metadata/resolve/failure.ts";
import { textOfBody } from "../../../src/nft/metadata/resolve/normalize.ts";
import { contentOf } from "../../../src/nft/metadata/resolve/parse.ts";
import { Parser } from "../../../src/nft/metadata/resolve/parser.ts";
import { Resolver } from "../../../src/nft/metadata/resolve/resolver.ts";
import { turnsDuring } from "../../support/turns.ts";

const WORKER = new URL("../../support/metadata/stuck-worker.ts", import.meta.url);
/** Makes a body too large to be parsed on the calling thread. */
const PADDING = " ".repeat(64 * 1024);
const { signal } = new AbortController();

let parser: Parser;
afterEach(() => parser.close());

const remote = (body: string) => ({
  mimetype: "",
  charset: undefined,
  bytes: new TextEncoder().encode(body + PADDING),
});
const parse = (body: string, stop = signal) => parser.parse(remote(body), stop);

async function outcomeOf(work: Promise<unknown>): Promise<unknown> {
  try {
    return await work;
  } catch (error) {
    return error instanceof MetadataFailure ? error.reason : String(error);
  }
}

describe("a body on which the worker", () => {
  test("is stuck fails after a timeout, and a new worker parses the following ones", async () => {
    parser = new Parser({ clock: systemClock, worker: WORKER, timeoutMs: 1_000 });
    const bodies = ['{"a":1}', "stuck", '{"a":2}', "[]", "stuck", '{"a":3}'];
    expect(await Promise.all(bodies.map((body) => outcomeOf(parse(body))))).toEqual([
      { kind: "json", text: '{"a":1}', isRepaired: false },
      "too_large",
      { kind: "json", text: '{"a":2}', isRepaired: false },
      "not_an_object",
      "too_large",
      { kind: "json", text: '{"a":3}', isRepaired: false },
    ]);
  });

  test("dies is not JSON, and a new worker parses the following ones", async () => {
    parser = new Parser({ clock: systemClock, worker: WORKER });
    expect(await Promise.all(["dies:", '{"a":1}'].map((body) => outcomeOf(parse(body))))).toEqual([
      "not_json",
      { kind: "json", text: '{"a":1}', isRepaired: false },
    ]);
  });
});

describe("a stuck worker", () => {
  test("lets its callers go when their signal aborts", async () => {
    parser = new Parser({ clock: systemClock, worker: WORKER, timeoutMs: 600_000 });
    const stop = new AbortController();
    const waiting = ["stuck", '{"a":1}', '{"a":2}'].map((body) => outcomeOf(parse(body, stop.signal)));
    stop.abort(new DOMException("stopping", "AbortError"));
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["AbortError: stopping"]));
    expect(await parse('{"a":3}')).toEqual({ kind: "json", text: '{"a":3}', isRepaired: false });
  });

  test("ends with the parser", async () => {
    parser = new Parser({ clock: systemClock, worker: WORKER, timeoutMs: 600_000 });
    const waiting = ["stuck", '{"a":1}'].map((body) => outcomeOf(parse(body)));
    await Promise.resolve();
    parser.close();
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["AppError: the metadata parser is closed"]));
  });
});

describe("a serialised body from the log", () => {
  const bodyOf = (text: string) => new TextEncoder().encode(text);

  test("is the same from the worker as from the calling thread", async () => {
    parser = new Parser({ clock: systemClock });
    const small = '{"name":"One","image":"<svg/>","attributes":[{"trait_type":"a","value":1}]}';
    for (const text of [small, `${small} `, "[", `{"name":${"[".repeat(300)}${"]".repeat(300)}}`]) {
      for (const body of [bodyOf(text), bodyOf(text + PADDING)]) {
        expect(await parser.words(body)).toEqual(textOfBody(body));
      }
    }
    expect((await parser.words(bodyOf(small + PADDING))).normalized).toContain('"name":"One"');
  });

  test("is given up if the worker is stuck on it, and a new worker serialises the following ones", async () => {
    parser = new Parser({ clock: systemClock, worker: WORKER, timeoutMs: 1_000 });
    const bodies = ["stuck", '{"a":1}'].map((text) => bodyOf(text + PADDING));
    const outcomes = await Promise.all(bodies.map((body) => outcomeOf(parser.words(body))));
    expect(outcomes).toEqual(["too_large", textOfBody(bodies[1] as Uint8Array)]);
  });
});

describe("inline content", () => {
  const inline = (uri: string) => ({ uri, maxBytes: 1_000_000 });
  const many = `data:,{"a":[${"{},".repeat(300_000)}{}]}`;

  test("is the same from the worker as from the calling thread, including refusals", async () => {
    parser = new Parser({ clock: systemClock });
    const picture = Buffer.from(PADDING).toString("base64");
    for (const uri of ["data:text/plain,a%20b", `data:image/png;base64,${picture}`, `<svg>${PADDING}</svg>`, many]) {
      expect(await parser.content(inline(uri), signal)).toEqual(contentOf(inline(uri)));
    }
    const refused = [`data:;base64,!${picture}`, `data:${PADDING},a`, `data:,${"a".repeat(1_000_001)}`];
    const outcomes = await Promise.all(refused.map((uri) => outcomeOf(parser.content(inline(uri), signal))));
    expect(outcomes).toEqual(["bad_encoding", "invalid_uri", "too_large"]);
  });

  test("is decoded off the request thread for a picture, whatever its characters", async () => {
    parser = new Parser({ clock: systemClock });
    const resolver = new Resolver({
      fetcher: undefined as never,
      hosts: undefined as never,
      parser,
      slots: new Semaphore(1),
      gateways: { ipfs: [], arweave: [] },
    });
    const { value, turns } = await turnsDuring(() => resolver.media(many, "a", signal));
    expect(value.bytes.length).toBe(many.length - "data:,".length);
    // Decoded on this thread it would leave a handful of turns, in the worker hundreds.
    expect(turns).toBeGreaterThan(50);
  });
});
