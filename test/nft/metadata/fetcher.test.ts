/**
 * The guarded fetcher against a hostile server, with a wire that records every attempted connection: hostile URIs never
 * reach their target, end soon, and fail with a reason. Address traps run without METADATA_ALLOW_PRIVATE.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import http from "node:http";
import net from "node:net";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { systemClock } from "../../../src/core/clock.ts";
import { Semaphore } from "../../../src/core/semaphore.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { MetadataFailure } from "../../../src/nft/metadata/resolve/failure.ts";
import { Fetcher } from "../../../src/nft/metadata/resolve/fetcher.ts";
import { Hosts } from "../../../src/nft/metadata/resolve/host-limits.ts";
import { Parser } from "../../../src/nft/metadata/resolve/parser.ts";
import { type Resolution, Resolver } from "../../../src/nft/metadata/resolve/resolver.ts";
import { ENCODINGS } from "../../support/encodings.ts";
import { ADDRESS_TRAPS, TRAP_NAMES } from "../../support/metadata/traps.ts";
import { type RecordingWire, recordingWire } from "../../support/metadata/wire.ts";

const PUBLIC = "93.184.215.14";
const RAW = "93.184.215.15";
const LIMITS = { maxBytes: 64 * 1024, firstByteMs: 300, totalMs: 900 };
const GATEWAY = "https://gateway.example";

let web: ReturnType<typeof Bun.serve>;
let raw: net.Server;
const parser = new Parser({ clock: systemClock });

/** Answers of the hostile server, by path. */
const PAGES: Readonly<Record<string, () => Response | Promise<Response>>> = {
  "/good": () => Response.json({ name: "good" }),
  "/gzip": () => new Response(gzipSync('{"name":"small"}'), { headers: { "content-encoding": "gzip" } }),
  "/brotli": () => new Response(brotliCompressSync('{"name":"small"}'), { headers: { "content-encoding": "br" } }),
  // A file that is stored compressed, which its host does not announce.
  "/stored.gz": () => new Response(gzipSync('{"name":"small"}'), { headers: { "content-type": "application/json" } }),
  "/stored-bomb.gz": () => new Response(gzipSync(Buffer.alloc(50_000_000))),
  "/bomb": () => new Response(gzipSync(Buffer.alloc(50_000_000)), { headers: { "content-encoding": "gzip" } }),
  "/odd-coding": () => new Response("x", { headers: { "content-encoding": "snappy" } }),
  "/not-gzip": () => new Response("plain", { headers: { "content-encoding": "gzip" } }),
  "/to-private": () => redirect("http://10.0.0.1/good"),
  "/ipfs/private": () => redirect("http://10.0.0.1/good"),
  "/to-loopback": () => redirect("http://[::ffff:7f00:1]/good"),
  "/to-file": () => redirect("file:///etc/passwd"),
  "/to-data": () => redirect("data:application/json,{}"),
  "/to-credentials": () => redirect("http://user:word@public.example/good"),
  "/to-port": () => redirect("http://public.example:6379/"),
  "/to-good": () => redirect("/good"),
  "/loop": () => redirect("/loop"),
  "/drip": () => streamed(1, 40),
  "/endless": () => streamed(16_384, 0),
  "/silent": () => new Promise<Response>(() => undefined),
  "/huge-header": () => new Response("x", { headers: { "x-large": "y".repeat(40_000) } }),
  [`/ids/${"a".padStart(64, "0")}`]: () => Response.json({ id: "hex" }),
  "/ids/10": () => new Response("no", { status: 404 }),
  "/ids/11": () => Response.json({ id: "decimal" }),
  "/missing": () => new Response("no", { status: 404 }),
  "/broken": () => new Response("no", { status: 503 }),
  "/forbidden": () => new Response("no", { status: 403 }),
};

const redirect = (location: string) => new Response(null, { status: 302, headers: { location } });

function streamed(bytes: number, everyMs: number): Response {
  return new Response(
    new ReadableStream({
      pull: async (controller) => {
        await Bun.sleep(everyMs);
        controller.enqueue(new Uint8Array(bytes));
      },
    }),
  );
}

beforeAll(async () => {
  web = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => PAGES[new URL(request.url).pathname]?.() ?? new Response("{}"),
  });
  // It announces a gigabyte and never sends it.
  raw = net.createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n{"));
  });
  await new Promise<void>((resolve) => raw.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  parser.close();
  await web.stop(true);
  raw.close();
});

/** A name that resolves to a public address the first time and to a private one the second time. */
function rebinding(): () => readonly string[] {
  let asked = 0;
  return () => [asked++ === 0 ? PUBLIC : "127.0.0.1"];
}

const createWire = (): RecordingWire =>
  recordingWire({
    names: {
      ...TRAP_NAMES,
      "rebinding.example": rebinding(),
    },
    ports: { [PUBLIC]: web.port as number, [RAW]: (raw.address() as net.AddressInfo).port },
  });

const signal = new AbortController().signal;

const createFetcher = (wire: RecordingWire, allowPrivate = false) =>
  new Fetcher({ wire, clock: systemClock, allowPrivate, gateways: { ipfs: [GATEWAY], arweave: [] } });

async function reasonOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "none";
  } catch (error) {
    return error instanceof MetadataFailure ? error.reason : `threw ${error}`;
  }
}

describe("address traps, without METADATA_ALLOW_PRIVATE", () => {
  test.each(ADDRESS_TRAPS)("are refused: %s", async (uri, reason, connections) => {
    const wire = createWire();
    expect(await reasonOf(createFetcher(wire).fetch(uri, LIMITS, signal))).toBe(reason);
    expect(wire.attempts).toHaveLength(connections);
    expect(wire.attempts.every((attempt) => attempt.startsWith("93.184.215."))).toBe(true);
  });

  test("resolves a name once and connects to the checked address, even if the name turns private", async () => {
    const wire = createWire();
    const { bytes } = await createFetcher(wire).fetch("http://rebinding.example/good", LIMITS, signal);
    expect(new TextDecoder().decode(bytes)).toBe('{"name":"good"}');
    expect(wire.resolved).toEqual(["rebinding.example"]);
    expect(wire.attempts).toEqual([`${PUBLIC} rebinding.example`]);
    expect(await reasonOf(createFetcher(wire).fetch("http://rebinding.example/good", LIMITS, signal))).toBe(
      "forbidden_address",
    );
  });

  test("allows a private address for the operator's gateway, but not for its redirects", async () => {
    const wire = recordingWire({ names: {}, ports: { "10.0.0.9": web.port as number } });
    const gateways = { ipfs: ["http://10.0.0.9:8080"], arweave: [] };
    const fetcher = new Fetcher({ wire, clock: systemClock, allowPrivate: false, gateways });
    expect((await fetcher.fetch("http://10.0.0.9:8080/ipfs/good", LIMITS, signal)).bytes.length).toBeGreaterThan(1);
    expect(await reasonOf(fetcher.fetch("http://10.0.0.9:8081/ipfs/good", LIMITS, signal))).toBe("forbidden_port");
    expect(await reasonOf(fetcher.fetch("http://10.0.0.9:8080/ipfs/private", LIMITS, signal))).toBe(
      "forbidden_address",
    );
    // Other paths of the gateway's host are refused in every spelling.
    for (const path of ["admin", "ipfs/../admin", "ipfs/%2e%2e/admin", "ipfs"]) {
      expect(await reasonOf(fetcher.fetch(`http://10.0.0.9:8080/${path}`, LIMITS, signal))).toBe("forbidden_port");
    }
    expect(wire.attempts).toEqual(["10.0.0.9 10.0.0.9:8080", "10.0.0.9 10.0.0.9:8080"]);
  });
});

describe("content traps", () => {
  test.each([
    ["/loop", "too_many_redirects"],
    ["/drip", "timeout"],
    ["/silent", "timeout"],
    ["/endless", "too_large"],
    ["/bomb", "too_large"],
    ["/stored-bomb.gz", "too_large"],
    ["/huge-header", "connection_failed"],
    ["/odd-coding", "bad_encoding"],
    ["/not-gzip", "bad_encoding"],
    ["/missing", "not_found"],
    ["/broken", "server_error"],
    ["/forbidden", "refused"],
  ])("fail with their reason: %s", async (path, reason) => {
    const started = performance.now();
    expect(await reasonOf(createFetcher(createWire()).fetch(`http://public.example${path}`, LIMITS, signal))).toBe(
      reason,
    );
    expect(performance.now() - started).toBeLessThan(LIMITS.totalMs + 600);
  });

  test("refuses a body announced as a gigabyte without reading it", async () => {
    expect(await reasonOf(createFetcher(createWire()).fetch("http://raw.example/", LIMITS, signal))).toBe("too_large");
  });

  test.each(["/gzip", "/brotli", "/stored.gz", "/to-good"])("reads %s", async (path) => {
    const { bytes } = await createFetcher(createWire()).fetch(`http://public.example${path}`, LIMITS, signal);
    expect(JSON.parse(new TextDecoder().decode(bytes)).name).toBeString();
  });

  test("ends at once on an abort, with the signal's own reason", async () => {
    const stop = new AbortController();
    const fetching = createFetcher(createWire()).fetch("http://public.example/silent", LIMITS, stop.signal);
    stop.abort(new DOMException("stop", "AbortError"));
    await expect(fetching).rejects.toThrow("stop");
  });
});

describe("a gateway's query and header", () => {
  const SECRETS = ["query-secret", "header-secret"];

  /** What each request carried, as `host target authorization`. */
  async function sentTo(uri: string, answers: (host: string, path: string) => Response) {
    const sent: string[] = [];
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request) => {
        const { pathname, search } = new URL(request.url);
        const host = request.headers.get("host") ?? "";
        sent.push(`${host} ${pathname}${search} ${request.headers.get("authorization")}`);
        return answers(host, pathname);
      },
    });
    const hosts = ["gw.example", "cid.ipfs.gw.example", "other.example"];
    const wire = recordingWire({
      names: Object.fromEntries(hosts.map((host) => [host, [PUBLIC]])),
      ports: { [PUBLIC]: server.port as number },
    });
    const gateways = {
      ipfs: ["https://gw.example/base?token=query-secret Authorization: Bearer header-secret"],
      arweave: [],
    };
    const fetcher = new Fetcher({ wire, clock: systemClock, allowPrivate: false, gateways });
    const failure = await fetcher.fetch(uri, LIMITS, signal).then(
      () => undefined,
      (error: unknown) => error,
    );
    await server.stop(true);
    const told = failure instanceof Error ? Bun.inspect(failure) : "";
    for (const secret of SECRETS) expect([secret, told.includes(secret)]).toEqual([secret, false]);
    return sent;
  }

  const KEYED = "Bearer header-secret";
  test.each<[string, string, string, readonly string[]]>([
    [
      "goes with a redirect of its own",
      "https://gw.example/base/ipfs/x",
      "/base/ipfs/x/index.json",
      [
        `gw.example /base/ipfs/x?token=query-secret ${KEYED}`,
        `gw.example /base/ipfs/x/index.json?token=query-secret ${KEYED}`,
      ],
    ],
    [
      "does not go to another path of its host",
      "https://gw.example/base/ipfs/x",
      "/login",
      [`gw.example /base/ipfs/x?token=query-secret ${KEYED}`, "gw.example /login null"],
    ],
    [
      "does not go to another host, even if the gateway repeats it",
      "https://gw.example/base/ipfs/x",
      "https://other.example/x?token=query-secret&back=query-secret&page=2",
      [`gw.example /base/ipfs/x?token=query-secret ${KEYED}`, "other.example /x?page=2 null"],
    ],
    [
      "does not go over http, even if the gateway repeats it",
      "https://gw.example/base/ipfs/x",
      "http://gw.example/base/ipfs/x?token=query-secret",
      [`gw.example /base/ipfs/x?token=query-secret ${KEYED}`, "gw.example /base/ipfs/x null"],
    ],
    [
      "goes to its subdomains as the gateway repeats it, without the header",
      "https://gw.example/base/ipfs/x",
      "https://cid.ipfs.gw.example/?token=query-secret",
      [`gw.example /base/ipfs/x?token=query-secret ${KEYED}`, "cid.ipfs.gw.example /?token=query-secret null"],
    ],
    [
      "replaces one of the same name in the address",
      "https://gw.example/base/ipfs/x?token=of-the-author&page=2",
      "",
      [`gw.example /base/ipfs/x?page=2&token=query-secret ${KEYED}`],
    ],
  ])("%s", async (_name, uri, location, expected) => {
    let isFirst = true;
    const sent = await sentTo(uri, () => {
      const answer = isFirst && location !== "" ? redirect(location) : new Response("no", { status: 404 });
      isFirst = false;
      return answer;
    });
    expect(sent).toEqual([...expected]);
  });
});

/** The order of hosts after a gateway, and the forms in which it repeats its secrets. */
describe("a gateway's secret", () => {
  const [QUERY, HEADER] = ["query+secret/77", "header-secret-88"];
  const OTHERS = ["other.example", "third.example"];

  /** All requests as raw text, of a walk over redirects from the gateway. */
  async function walk(locations: readonly string[]) {
    const sent: { host: string; text: string }[] = [];
    let hop = 0;
    const server = http.createServer((request, response) => {
      const { host = "", ...headers } = request.headers;
      sent.push({ host, text: `${request.url} ${JSON.stringify(headers)}` });
      const location = locations[hop++];
      if (location === undefined) response.writeHead(404).end();
      else response.writeHead(302, { location }).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as net.AddressInfo;
    const names = Object.fromEntries(["gw.example", ...OTHERS].map((name) => [name, [PUBLIC]]));
    const wire = recordingWire({ names, ports: { [PUBLIC]: port } });
    const gateways = {
      ipfs: [`https://gw.example/base?token=${encodeURIComponent(QUERY)} Authorization: Bearer ${HEADER}`],
      arweave: [],
    };
    const fetcher = new Fetcher({ wire, clock: systemClock, allowPrivate: false, gateways });
    const reason = await reasonOf(fetcher.fetch("https://gw.example/base/ipfs/x", LIMITS, signal));
    await new Promise((resolve) => server.close(resolve));
    return { sent, reason, resolved: wire.resolved };
  }

  const FORMS = Object.entries(ENCODINGS).filter(([name]) => name !== "upper case" && !name.includes("HTML"));
  const forms = [QUERY, HEADER].flatMap((secret) => FORMS.map(([name, encode]) => [name, encode(secret)] as const));
  const PLACES: Readonly<Record<string, (form: string) => string>> = {
    path: (form) => `https://other.example/a/${form}/b`,
    "parameter's value": (form) => `https://other.example/x?page=2&a=${form}`,
    "parameter's name": (form) => `https://other.example/x?${form}`,
    fragment: (form) => `https://other.example/x#${form}`,
    login: (form) => `https://${encodeURIComponent(form)}:x@other.example/x`,
  };
  const isTold = ({ text }: { text: string }) =>
    [QUERY, HEADER].some((secret) => Object.values(ENCODINGS).some((encode) => text.includes(encode(secret))));

  for (const [place, write] of Object.entries(PLACES)) {
    test(`reaches no other host in a redirect's ${place}, in any form, at any hop`, async () => {
      for (const [name, form] of forms) {
        const target = write(form);
        for (const hops of [
          [target],
          ["/login", target],
          [`/login?back=${encodeURIComponent(form)}`, target],
          ["https://other.example/", target.replaceAll("other.", "third.")],
          ["https://other.example/", "https://gw.example/base/ipfs/y", target, target.replaceAll("other.", "third.")],
        ]) {
          const { sent } = await walk(hops);
          const toOthers = sent.filter(({ host }) => OTHERS.includes(host));
          expect([place, name, hops, toOthers.filter(isTold)]).toEqual([place, name, hops, []]);
          expect(toOthers.filter(({ text }) => /referer|authorization/.test(text))).toEqual([]);
        }
      }
    }, 60_000);
  }

  test("is not even looked up as a part of another host's name", async () => {
    const { reason, resolved } = await walk([`https://${HEADER}.other.example/`]);
    expect([reason, resolved]).toEqual(["credentials_in_url", ["gw.example"]]);
  });

  test("is taken out of an address that repeats it, and other parameters stay", async () => {
    const { sent } = await walk([`https://other.example/x?page=2&token=${encodeURIComponent(QUERY)}`]);
    expect(sent.map(({ host, text }) => `${host} ${text.split(" ")[0]}`)).toEqual([
      `gw.example /base/ipfs/x?token=${encodeURIComponent(QUERY)}`,
      "other.example /x?page=2",
    ]);
  });

  test("is not in the reason of a failure that quotes it", async () => {
    const fetcher = new Fetcher({
      wire: {
        ...createWire(),
        request: () => {
          throw new MetadataFailure("connection_failed", `bad ${HEADER}`);
        },
      },
      ...{ clock: systemClock, allowPrivate: true },
      gateways: { ipfs: [`http://127.0.0.1 x-key: ${HEADER}`], arweave: [] },
    });
    const error = await fetcher.fetch("http://127.0.0.1/ipfs/x", LIMITS, signal).catch((thrown: unknown) => thrown);
    expect(Bun.inspect(error)).toContain("bad [redacted]");
    expect(Bun.inspect(error)).not.toContain(HEADER);
  });

  test("and the parameters of an operator's own list reach no other host", async () => {
    const sent: string[] = [];
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request) => {
        const { pathname, search } = new URL(request.url);
        const host = request.headers.get("host") ?? "";
        sent.push(`${host}${pathname}${search}`);
        return host === "gw.example" ? redirect(`https://other.example/x${search}&v=1`) : Response.json({});
      },
    });
    const names = { "gw.example": [PUBLIC], "other.example": [PUBLIC] };
    const wire = recordingWire({ names, ports: { [PUBLIC]: server.port as number } });
    const fetcher = new Fetcher({ wire, clock: systemClock, allowPrivate: false, gateways: { ipfs: [], arweave: [] } });
    await fetcher.fetch("https://gw.example/list?key=k3y-01", { ...LIMITS, isOperators: true }, signal);
    await server.stop(true);
    expect(sent).toEqual(["gw.example/list?key=k3y-01", "other.example/x?v=1"]);
  });
});

test("ignores the proxy variables of the environment", async () => {
  const before = process.env["HTTP_PROXY"];
  process.env["HTTP_PROXY"] = "http://127.0.0.1:9";
  process.env["http_proxy"] = "http://127.0.0.1:9";
  try {
    const { bytes } = await createFetcher(createWire()).fetch("http://public.example/good", LIMITS, signal);
    expect(bytes.length).toBeGreaterThan(2);
  } finally {
    delete process.env["http_proxy"];
    if (before === undefined) delete process.env["HTTP_PROXY"];
    else process.env["HTTP_PROXY"] = before;
  }
});

describe("the resolver", () => {
  const token = { kind: TransferKind.erc721, id: 1n, collection: "a" };
  const kept = async (resolution: Resolution) => resolution;
  const createResolver = (wire: RecordingWire, ipfs: string[], arweave: string[] = []) =>
    new Resolver({
      fetcher: new Fetcher({ wire, clock: systemClock, allowPrivate: false, gateways: { ipfs, arweave } }),
      hosts: new Hosts(systemClock, 2),
      parser,
      slots: new Semaphore(64),
      gateways: { ipfs, arweave },
    });

  test("does not contact an unreachable host for every token", async () => {
    const wire = createWire();
    const resolver = createResolver(wire, []);
    const reasons = [];
    for (let i = 0; i < 20; i++)
      reasons.push(await reasonOf(resolver.metadata("http://dead.example/", token, signal, kept)));
    expect(new Set(reasons)).toEqual(new Set(["connection_failed"]));
    expect(wire.attempts.length).toBeLessThan(6);
  });

  test("tries several IPFS gateways in order", async () => {
    const wire = createWire();
    const resolver = createResolver(wire, ["http://dead.example", "http://public.example"]);
    const cid = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPbdG";
    expect(await resolver.metadata(`ipfs://${cid}/1`, token, signal, kept)).toEqual({ text: "{}", isRepaired: false });
    expect(wire.attempts).toEqual(["93.184.215.99 dead.example", `${PUBLIC} public.example`]);
  });

  test("tries several Arweave gateways in order, and lets them be private only for valid Arweave ids", async () => {
    const ports = { "10.0.0.9": web.port as number };
    const wire = recordingWire({ names: TRAP_NAMES, ports });
    const id = "Kp9xGbmCjsHyTJ2hJ5D1E6nYf3Z1XYwYc0yK5Zx_-9A";
    const arweave = ["http://dead.example", "http://10.0.0.9:1984"];
    const resolver = createResolver(wire, [], arweave);
    expect(await resolver.metadata(`ar://${id}/1`, token, signal, kept)).toEqual({ text: "{}", isRepaired: false });
    expect(wire.attempts).toEqual(["93.184.215.99 dead.example", "10.0.0.9 10.0.0.9:1984"]);
    expect(await reasonOf(resolver.metadata("ar://admin", token, signal, kept))).toBe("forbidden_port");
    expect(await reasonOf(resolver.metadata(`ar://${id}x`, token, signal, kept))).toBe("forbidden_port");
  });

  test("tries an ERC-721's {id} in decimal, then in hex, and reports the first failure", async () => {
    const wire = createWire();
    const resolver = createResolver(wire, []);
    const asked = { kind: TransferKind.erc721, id: 10n, collection: "a" };
    const uri = "http://public.example/ids/%7Bid%7D";
    expect(await resolver.metadata(uri, asked, signal, kept)).toEqual({ text: '{"id":"hex"}', isRepaired: false });
    expect(wire.attempts).toHaveLength(2);
    const decimal = { kind: TransferKind.erc721, id: 11n, collection: "a" };
    expect(await resolver.metadata(uri, decimal, signal, kept)).toMatchObject({ text: '{"id":"decimal"}' });
    expect(wire.attempts).toHaveLength(3);
    expect(await reasonOf(resolver.metadata("http://public.example/missing?{id}", asked, signal, kept))).toBe(
      "not_found",
    );
  });

  test("does not follow an IPFS address inside a data URI", async () => {
    const wire = createWire();
    const resolver = createResolver(wire, ["http://public.example"]);
    expect(await reasonOf(resolver.metadata("data:text/plain,ipfs://QmX/1", token, signal, kept))).toBe("not_json");
    expect(wire.attempts).toEqual([]);
  });
});
