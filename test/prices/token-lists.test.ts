/**
 * The operator's token lists: files and URLs in, names and logos out. A real web server is reached through a wire that
 * gives it a public address, and the clock stands still until a test turns it.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import pino from "pino";
import { startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { ConfigError, readConfig } from "../../src/config.ts";
import { systemClock } from "../../src/core/clock.ts";
import { toAddress } from "../../src/core/hex.ts";
import type { Logger } from "../../src/core/logger.ts";
import { Fetcher } from "../../src/nft/metadata/resolve/fetcher.ts";
import { parseTokenList } from "../../src/prices/token-list.ts";
import { TokenLists } from "../../src/prices/token-lists.ts";
import { recordingWire } from "../support/metadata/wire.ts";
import { schemaFaults } from "../support/schemas.ts";
import { eventually, startTestService, temporaryLogUrl } from "../support/service.ts";
import { TurnedClock } from "../support/turned-clock.ts";

setDefaultTimeout(300_000);

const PUBLIC = "93.184.215.14";
const ETHER = 10n ** 18n;
const TOKEN = toAddress(`0x${"a1".repeat(20)}`);
const OTHER = toAddress(`0x${"b2".repeat(20)}`);
const DAY = 86_400_000;
const MAX_BYTES = 4_096;

const entry = (address: string, name: string, more: object = {}) => ({
  chainId: 1,
  address,
  name,
  symbol: "SYM",
  decimals: 18,
  logoURI: `https://logos.example/${name}.png`,
  ...more,
});
const listOf = (...tokens: unknown[]): string =>
  JSON.stringify({
    name: "Test",
    timestamp: "2026-01-01T00:00:00Z",
    version: { major: 1, minor: 0, patch: 0 },
    tokens,
  });

describe("a token list", () => {
  test("gives each token its name, symbol and logo, whatever the letters of its address", () => {
    const { list, problems } = parseTokenList(`\ufeff${listOf(entry(TOKEN.toUpperCase().replace("0X", "0x"), "One"))}`);
    expect(problems).toEqual([]);
    expect([...list.values()]).toEqual([{ name: "One", symbol: "SYM", logo: "https://logos.example/One.png" }]);
  });

  test("keeps the first entry of a token, and leaves out entries that the format forbids", () => {
    const { list } = parseTokenList(
      listOf(
        entry(TOKEN, "First"),
        entry(TOKEN, "Second"),
        entry("0x12", "short address"),
        entry(OTHER, "n".repeat(61)),
        entry(OTHER, "control\u0007"),
        entry(OTHER, "half \ud800"),
        entry(OTHER, "no chain", { chainId: "1" }),
        entry(OTHER, "no symbol", { symbol: undefined }),
        null,
        7,
      ),
    );
    expect([...list.values()].map(({ name }) => name)).toEqual(["First"]);
  });

  test.each([
    "javascript:alert(1)",
    "data:image/svg+xml,<svg/>",
    'https://x.example/"onerror="',
    `https://x.example/${"y".repeat(2_048)}`,
    7,
  ])("has no logo if it is unsafe: %#", (logoURI) => {
    const { list } = parseTokenList(listOf(entry(TOKEN, "One", { logoURI })));
    expect([...list.values()]).toEqual([{ name: "One", symbol: "SYM", logo: "" }]);
  });

  test.each([
    ["{", "no JSON"],
    ["[".repeat(100_000), "in each other"],
    ["null", "no `tokens`"],
    ["{}", "no `tokens`"],
    [listOf(...Array.from({ length: 10_001 }, () => 0)), "more than 10000 tokens"],
    [listOf("a", "b"), "no entry"],
  ])("is refused as a whole if it is none: %#", (text, problem) => {
    expect(parseTokenList(text).problems).toEqual([expect.stringContaining(problem)]);
  });
});

describe("TOKEN_LISTS", () => {
  const read = (text: string, more: Record<string, string> = {}) =>
    readConfig({ TOKEN_LISTS: text, ...more }).tokenLists;

  test("takes paths and https URLs, and http only beside METADATA_ALLOW_PRIVATE", () => {
    expect(readConfig({}).tokenLists).toEqual([]);
    expect(read("./a.json, https://x.example/list.json")).toEqual(["./a.json", "https://x.example/list.json"]);
    const allowed = { METADATA_ALLOW_PRIVATE: "true" };
    expect(read("http://127.0.0.1:8080/list.json", allowed)).toEqual(["http://127.0.0.1:8080/list.json"]);
    for (const wrong of ["http://x.example/a", "ftp://x.example/a", "https://u:p@x.example/a", "a,,b"]) {
      expect(() => read(wrong)).toThrow("TOKEN_LISTS: must be at most 16 files or https URLs");
    }
    expect(() => read(Array.from({ length: 17 }, () => "a").join(","))).toThrow("at most 16");
  });
});

describe("token lists of an operator", () => {
  let folder: string;
  let web: ReturnType<typeof Bun.serve>;
  /** Answers by path, and the number of requests. */
  let pages: Record<string, () => Response>;
  let requests = 0;
  let lines: Record<string, unknown>[];
  const stops: (() => void)[] = [];

  beforeAll(() => {
    web = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ url }) => {
        requests++;
        return pages[new URL(url).pathname]?.() ?? new Response("no", { status: 404 });
      },
    });
  });
  afterAll(() => web.stop(true));
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "token-lists-"));
    pages = {};
    requests = 0;
    lines = [];
  });
  afterEach(() => {
    for (const stop of stops.splice(0)) stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const logger = () =>
    pino(
      { level: "info" },
      new Writable({
        write: (chunk, _encoding, done) => {
          lines.push(JSON.parse(String(chunk)));
          done();
        },
      }),
    ) as unknown as Logger;

  /** Lists over the guarded fetcher, watched until the test ends. */
  async function open(
    sources: readonly string[],
    clock: TurnedClock | typeof systemClock = systemClock,
    maxBytes = MAX_BYTES,
  ) {
    const wire = recordingWire({ names: { "lists.example": [PUBLIC] }, ports: { [PUBLIC]: web.port as number } });
    const fetcher = new Fetcher({ wire, clock, allowPrivate: false, gateways: { ipfs: [], arweave: [] } });
    const times = { firstByteMs: 5_000, totalMs: 10_000, httpsOnly: true };
    const lists = new TokenLists({
      sources,
      fetch: async (url, maxBytes, signal) => (await fetcher.fetch(url, { ...times, maxBytes }, signal)).bytes,
      folder: join(folder, "copies"),
      maxBytes,
      pollMs: 20,
      clock,
      logger: logger(),
    });
    const problems = await lists.load();
    const controller = new AbortController();
    const watching = lists.watch(controller.signal).catch(() => undefined);
    const stop = () => {
      controller.abort();
      return watching;
    };
    stops.push(stop);
    return { lists, problems, wire, stop };
  }

  const nameOf = (lists: TokenLists): string | undefined => lists.find(1, TOKEN)?.name;
  const named = (lists: TokenLists, name: string) =>
    eventually(`the token is named ${name}`, async () => (nameOf(lists) === name ? true : undefined));
  const logged = (text: string, count = 1) =>
    eventually(`logged ${count} times: ${text}`, async () => {
      const found = lines.filter((line) => JSON.stringify(line).includes(text));
      return found.length >= count ? found : undefined;
    });

  test("an earlier list takes precedence, per chain and token", async () => {
    const [first, second] = [join(folder, "first.json"), join(folder, "second.json")];
    writeFileSync(first, listOf(entry(TOKEN, "First")));
    writeFileSync(second, listOf(entry(TOKEN, "Second"), entry(OTHER, "Other"), entry(TOKEN, "P", { chainId: 137 })));
    const { lists, problems } = await open([first, second]);
    expect(problems).toEqual([]);
    expect([nameOf(lists), lists.find(1, OTHER)?.name, lists.find(137, TOKEN)?.name]).toEqual(["First", "Other", "P"]);
    expect(lists.find(137, OTHER)).toBeUndefined();
  });

  test("a file is read again when it changes, and a broken one leaves the previous content in force", async () => {
    const path = join(folder, "list.json");
    writeFileSync(path, listOf(entry(TOKEN, "Before")));
    const { lists } = await open([path]);
    expect(nameOf(lists)).toBe("Before");
    writeFileSync(path, "{ half");
    await logged("the list is no JSON");
    expect(nameOf(lists)).toBe("Before");
    writeFileSync(path, listOf(entry(TOKEN, "After")));
    await named(lists, "After");
  });

  test("a large list is parsed on another thread, and the event loop goes on", async () => {
    const path = join(folder, "large.json");
    const address = (n: number) => `0x${n.toString(16).padStart(40, "0")}`;
    const tokens = Array.from({ length: 5_000 }, (_, n) => entry(address(n), `Name ${n}`));
    writeFileSync(path, listOf(...tokens));
    let turns = 0;
    const count = () => {
      turns++;
      counting = setImmediate(count);
    };
    let counting = setImmediate(count);
    const { lists, problems } = await open([path], systemClock, 10 << 20);
    clearImmediate(counting);
    expect(problems).toEqual([]);
    expect(lists.current.map(({ size }) => size)).toEqual([5_000]);
    expect(lists.find(1, toAddress(address(4_999)))?.name).toBe("Name 4999");
    expect(turns).toBeGreaterThan(10);
    writeFileSync(path, `{"tokens": [${"[".repeat(100_000)}`);
    await logged("the list can't be used");
    expect(lists.find(1, toAddress(address(4_999)))?.name).toBe("Name 4999");
  });

  test("a file that is missing, or too large, is a problem at the start", async () => {
    const [missing, large] = [join(folder, "missing.json"), join(folder, "large.json")];
    writeFileSync(large, listOf(entry(TOKEN, "Large")).padEnd(MAX_BYTES + 1));
    const { problems } = await open([missing, large]);
    expect(problems).toEqual([
      expect.stringContaining("TOKEN_LISTS: the file cannot be read"),
      `TOKEN_LISTS: the file cannot be read: it must be a regular file of at most ${MAX_BYTES} bytes, and has ${MAX_BYTES + 1} (${large})`,
    ]);
  });

  test("a URL is fetched at the start and once a day, and its copy serves after a restart without the host", async () => {
    const clock = new TurnedClock(Date.now());
    let name = "One";
    pages["/list.json"] = () => new Response(listOf(entry(TOKEN, name)));
    const url = "https://lists.example/list.json?key=secret";
    const first = await open([url], clock);
    await named(first.lists, "One");
    expect(requests).toBe(1);
    name = "Two";
    await logged("a token list was fetched");
    clock.turn(DAY - 1_000);
    expect(requests).toBe(1);
    clock.turn(2_000);
    await named(first.lists, "Two");
    await logged("a token list was fetched", 2);
    await first.stop();
    pages = {};
    const { lists } = await open([url], new TurnedClock(Date.now()));
    expect([nameOf(lists), requests]).toEqual(["Two", 2]);
    expect(readdirSync(join(folder, "copies"))).toHaveLength(1);
    expect(JSON.stringify(lines)).not.toContain("secret");
  });

  test("a failed fetch leaves the list in force, and is repeated with backoff", async () => {
    const clock = new TurnedClock(Date.now());
    pages["/list.json"] = () => new Response("no", { status: 503 });
    const { lists } = await open(["https://lists.example/list.json"], clock);
    await logged('"attempt":1');
    clock.turn(119_000);
    await logged('"attempt":2');
    pages["/list.json"] = () => new Response(listOf(entry(TOKEN, "Back")));
    clock.turn(240_000);
    await named(lists, "Back");
    await logged("a token list was fetched");
    pages["/list.json"] = () => new Response("<html>");
    clock.turn(DAY);
    await logged("the list is no JSON");
    expect(nameOf(lists)).toBe("Back");
  });

  test("a URL's list has a bound on its bytes, and no way to private addresses or plain http", async () => {
    const redirect = (location: string) => () => new Response(null, { status: 302, headers: { location } });
    pages = {
      "/large": () => new Response(listOf(entry(TOKEN, "Large")).padEnd(MAX_BYTES + 1)),
      "/private": redirect("https://10.0.0.1/list.json"),
      "/plain": redirect("http://lists.example/list.json"),
      "/list.json": () => new Response(listOf(entry(TOKEN, "Plain"))),
    };
    const { lists, wire } = await open(["large", "private", "plain"].map((path) => `https://lists.example/${path}`));
    for (const reason of ["too_large", "forbidden_address", "unsupported_scheme"]) await logged(reason);
    expect(nameOf(lists)).toBeUndefined();
    expect(wire.attempts).toEqual(Array.from({ length: 3 }, () => `${PUBLIC} lists.example`));
  });

  test("a damaged copy counts as none", async () => {
    pages["/list.json"] = () => new Response(listOf(entry(TOKEN, "Good")));
    const url = "https://lists.example/list.json";
    const first = await open([url]);
    await named(first.lists, "Good");
    await logged("a token list was fetched");
    await first.stop();
    const [copy] = readdirSync(join(folder, "copies"));
    writeFileSync(join(folder, "copies", copy!), "{");
    const second = await open([url]);
    await named(second.lists, "Good");
    expect(requests).toBe(2);
  });

  test("a price has its token's logo, and none without a list", async () => {
    const anvil = await startAnvil();
    try {
      await placeMainnet(anvil);
      const { address } = await deploy(anvil, await contractArtifact("TestToken"), ["Demo", "DEMO", 18]);
      const pair = { factory: MAINNET.uniswapV2Factory, tokenB: MAINNET.weth, amountB: 300n * ETHER };
      await createV2Pair(anvil, {
        ...pair,
        tokenA: MAINNET.usdc,
        amountA: 900_000n * 10n ** 6n,
      });
      await createV2Pair(anvil, { ...pair, tokenA: address, amountA: 90_000n * ETHER });
      pages["/list.json"] = () => new Response(listOf(entry(address, "Listed")));
      const file = join(folder, "list.json");
      writeFileSync(file, listOf(entry(MAINNET.usdc, "Dollar")));
      const lists = `${file},http://127.0.0.1:${web.port}/list.json`;
      const env = { TOKEN_LISTS: lists, METADATA_ALLOW_PRIVATE: "true" };
      const service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
      try {
        const price = async (token: string) => (await service.get(`/api/v2/erc20/${token}/price`)).body;
        await eventually("the fetched list serves", async () => {
          await anvil.mine();
          const { tokenLogo } = await price(address);
          return tokenLogo === "https://logos.example/Listed.png" ? true : undefined;
        });
        // A contract's own name takes precedence.
        expect(await price(address)).toMatchObject({ tokenName: "Demo", tokenSymbol: "DEMO" });
        expect(await price(MAINNET.usdc)).toMatchObject({ tokenLogo: "https://logos.example/Dollar.png" });
        expect(await price(MAINNET.weth)).toMatchObject({ tokenLogo: "" });
        // Tokens of lists and of the chain's entry are found by a text.
        const find = async (text: string) => (await service.get(`/api/tokens?text=${text}`)).body;
        const listed = { chain: "eth", address: address.toLowerCase(), symbol: "SYM", name: "Listed" };
        expect(await find("LISTED")).toEqual({ result: [listed] });
        const dollar = { chain: "eth", address: MAINNET.usdc.toLowerCase(), symbol: "USDC", name: "Dollar" };
        expect((await find("usdc")).result).toEqual([dollar]);
        expect((await find("dollar")).result).toEqual([dollar]);
        expect((await find(MAINNET.weth)).result).toMatchObject([{ symbol: "WETH", name: null }]);
        expect((await find("no such token")).result).toEqual([]);
        expect(await schemaFaults(service, "KnownTokenList", await find(""))).toEqual([]);
      } finally {
        await service.stop();
      }
      const missing = { TOKEN_LISTS: join(folder, "missing.json") };
      const start = startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env: missing });
      expect(await start.catch((error) => error)).toBeInstanceOf(ConfigError);
    } finally {
      await anvil.stop();
    }
  });
});
