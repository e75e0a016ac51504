/**
 * Each example against a real chain, real contracts, and the real service with its socket: through its function, and as
 * the process that its page tells to run. Expected holdings are read from the contracts.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { getBytes, type HDNodeWallet, Wallet } from "ethers";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { airdropLines, proRata } from "../../scripts/examples/airdrop.ts";
import { type Gallery, startGallery } from "../../scripts/examples/gallery.ts";
import { priceAlerts } from "../../scripts/examples/price-alert.ts";
import { ExpiringMap, startTokenGate, type TokenGate } from "../../scripts/examples/token-gate.ts";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, read, transact } from "../../scripts/local-chain/contracts.ts";
import { guardChild } from "../../scripts/local-chain/guard.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { createV2Pair, type Pool, swapV2 } from "../../scripts/local-chain/pools.ts";
import { Client } from "../../src/client/index.ts";
import { visit } from "../support/browser.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const ROOT = join(import.meta.dir, "../..");
const DEAD = "0x000000000000000000000000000000000000dEaD";
const WEI = 10n ** 18n;
/** Place of an owner of one token. That owner is on the second page of holders. */
const LATE = 518;

let anvil: Anvil;
let market: Market;
let service: TestService;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 8 * 3_600 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil, { hours: 4 });
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const clientOf = (url = service.url): Client => new Client({ url, key: TEST_KEY });

/** Runs an example as a process. */
function run(script: string, args: readonly string[], env: Record<string, string> = { SERVICE_KEY: TEST_KEY }) {
  const child = Bun.spawn([process.execPath, join(ROOT, "scripts/examples", script), ...args], {
    cwd: ROOT,
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  const texts = { out: "", err: "" };
  const reading = Promise.all(
    (["out", "err"] as const).map(async (name) => {
      const decoder = new TextDecoder();
      for await (const bytes of child[`std${name}`]) texts[name] += decoder.decode(bytes, { stream: true });
    }),
  );
  const ended = (async () => {
    await Promise.all([reading, child.exited]);
    guard.dismiss();
    return { code: child.exitCode, ...texts };
  })();
  return {
    ended,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    /** Resolves once a stream has this text, with what matched. */
    saw: (name: "out" | "err", text: RegExp) =>
      eventually(`${script} prints ${text}`, async () => text.exec(texts[name]) ?? undefined),
  };
}

describe("the command lines", () => {
  const nft = `0x${"12".repeat(20)}`;

  test("name what is missing or wrong, and exit with 64", async () => {
    const wrong: [string, string[], RegExp, Record<string, string>?][] = [
      ["gallery.ts", [], /^ADDRESS is missing\nusage: /],
      ["gallery.ts", ["0x12"], /^ADDRESS: "0x12" must be 0x and 40 hex digits/],
      ["airdrop.ts", [nft, "--amount", "1.5"], /^--amount: "1.5" must be a whole number of wei/],
      ["airdrop.ts", [nft, "--exclude", "0x1"], /^--exclude: "0x1" must be an address or "burn"/],
      ["price-alert.ts", [nft], /^--above or --below is missing/],
      ["price-alert.ts", [nft, "--above", "x"], /^--above: "x" must be a number from 0/],
      ["gallery.ts", [nft, "--port", "70000"], /^--port: "70000" must be a number from 0 to 65535/],
      ["token-gate.ts", [nft], /^PORT: "x" must be a number/, { SERVICE_KEY: TEST_KEY, PORT: "x" }],
      ["token-gate.ts", [nft, "--wrong", "1"], /--wrong/],
      ["moralis.ts", [nft], /^TOKEN is missing/],
      ["moralis.ts", [nft, nft], /^SERVICE_KEY is not set: /, {}],
    ];
    for (const [script, args, message, env] of wrong) {
      const { code, out, err } = await run(script, args, env).ended;
      expect([script, code, out]).toEqual([script, 64, ""]);
      expect(err).toMatch(message);
    }
  });

  test("say what to do if no service answers, or it refuses the key", async () => {
    const args = [nft, "--above", "1", "--url", service.url];
    const refused = await run("price-alert.ts", args, { SERVICE_KEY: "another-key" }).ended;
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringContaining("set SERVICE_KEY to a key of the service"),
    ]);
    const help = await run("airdrop.ts", ["--help"], {}).ended;
    expect([help.code, help.out]).toEqual([0, expect.stringMatching(/^usage: /)]);
  });
});

describe("the airdrop", () => {
  let nft: Deployed;
  /** The block of the snapshot. Tokens move after it. */
  let block: number;
  let owners: string[];
  /** A token of the owner on the second page. */
  let lateToken: number;

  /** What the contract says that each owner held at a block, without owners of nothing. */
  async function balancesAt(addresses: readonly string[], blockTag: number): Promise<Map<string, bigint>> {
    const held = await Promise.all(
      addresses.map(async (owner) => {
        const amount = (await nft.contract.getFunction("balanceOf").staticCall(owner, { blockTag })) as bigint;
        return [owner.toLowerCase(), amount] as const;
      }),
    );
    return new Map(held.filter(([, amount]) => amount > 0n));
  }

  /** The columns of a CSV by address. */
  const columns = (lines: readonly string[], column: number) =>
    new Map(lines.slice(1).map((line) => [line.split(",")[0] as string, BigInt(line.split(",")[column] as string)]));

  beforeAll(async () => {
    nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Airdrop", "AIR"]);
    // More owners than a page has, with uneven holdings.
    owners = [...Array.from({ length: 520 }, (_, i) => `0x${(i + 1_000).toString(16).padStart(40, "0")}`), DEAD];
    let id = 1;
    await inOneBlock(anvil, async () => {
      for (const [place, owner] of owners.entries()) {
        const count = 1 + (place % 7);
        if (place === LATE) lateToken = id;
        await queue(anvil, nft.contract, "mintMany", [owner, id, count]);
        id += count;
      }
    });
    block = Number(await anvil.send("eth_blockNumber"));
    // After the snapshot, the first owner sells all, and the second one burns one.
    await transact(anvil, nft.contract, "move", [owners[0], anvil.accounts[3], 1]);
    await transact(anvil, nft.contract, "burn", [2]);
    await synced(service, nft.address, block + 2);
  });

  test("lists what the contract said at the block, although tokens moved later and during the walk", async () => {
    const lines: string[] = [];
    const seen: number[] = [];
    const options = {
      client: clientOf(),
      contract: nft,
      block,
      onBlock: (asOf: { block: number }) => seen.push(asOf.block),
    };
    for await (const line of airdropLines(options)) {
      // The second page is read after this transfer.
      if (lines.push(line) === 2) {
        const { blockNumber } = await transact(anvil, nft.contract, "move", [
          owners[LATE],
          anvil.accounts[4],
          lateToken,
        ]);
        await synced(service, nft.address, Number(blockNumber));
      }
    }
    expect(lines[0]).toBe("address,amount");
    expect(seen).toEqual([block]);
    const expected = await balancesAt(owners, block);
    expect(expected.size).toBe(521);
    expect(columns(lines, 1)).toEqual(expected);
    const now = await balancesAt([...owners, ...anvil.accounts], Number(await anvil.send("eth_blockNumber")));
    expect(now).not.toEqual(expected);
  });

  test("shares an amount out to the last wei, without the excluded ones, as a process", async () => {
    const amount = 7n * WEI + 11n;
    const args = [nft.address, "--block", String(block), "--amount", String(amount), "--exclude", `burn,${owners[3]}`];
    const { code, out, err } = await run("airdrop.ts", [...args, "--url", service.url]).ended;
    expect([code, err]).toEqual([0, expect.stringContaining(`block ${block}, hash 0x`)]);
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toBe("address,amount,share");
    const expected = await balancesAt(owners, block);
    for (const excluded of [DEAD.toLowerCase(), owners[3] as string]) expect(expected.delete(excluded)).toBe(true);
    expect(columns(lines, 1)).toEqual(expected);
    const shares = columns(lines, 2);
    expect([...shares.values()].reduce((sum, share) => sum + share, 0n)).toBe(amount);
    // No share is a wei or more from the exact one.
    const total = [...expected.values()].reduce((sum, units) => sum + units, 0n);
    for (const [owner, share] of shares) {
      const off = share * total - amount * (expected.get(owner) as bigint);
      expect(off < total && off > -total).toBe(true);
    }
  });

  test("takes the newest block by default, and refuses a block above it", async () => {
    const blocks: number[] = [];
    const options = {
      client: clientOf(),
      contract: nft,
      onBlock: (asOf: { block: number }) => blocks.push(asOf.block),
    };
    for await (const _ of airdropLines(options));
    expect(blocks[0]).toBeGreaterThan(block);
    const { code, err } = await run("airdrop.ts", [nft.address, "--block", "99999999", "--url", service.url]).ended;
    expect([code, err]).toEqual([1, expect.stringContaining("as_of_block")]);
  });

  test("writes no line for a contract that is no NFT, and fails for an address without a contract", async () => {
    const none = await run("airdrop.ts", [market.demo.address, "--url", service.url]).ended;
    expect([none.code, none.out]).toEqual([1, ""]);
    const empty = await run("airdrop.ts", [`0x${"77".repeat(20)}`, "--url", service.url]).ended;
    expect([empty.code, empty.out, empty.err]).toEqual([1, "", expect.stringContaining("neither code nor an NFT log")]);
  });

  test("gives the odd wei to the largest remainders", () => {
    expect(proRata([1n, 1n, 1n], 4n)).toEqual([2n, 1n, 1n]);
    expect(proRata([5n, 3n, 1n], 10n)).toEqual([6n, 3n, 1n]);
    expect(proRata([1n, 2n ** 200n], 10n)).toEqual([0n, 10n]);
    expect(() => proRata([], 1n)).toThrow("no holder");
  });
});

describe("the price alert", () => {
  /** A token with one pool, so that a swap moves its price in a single block. */
  let token: Deployed;
  let pool: Pool;

  beforeAll(async () => {
    token = await deploy(anvil, await contractArtifact("TestToken"), ["Alert", "ALRT", 18]);
    const sides = { tokenA: token.address, tokenB: MAINNET.weth, amountA: 1_000_000n * WEI, amountB: 500n * WEI };
    pool = await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...sides });
  });

  const priceNow = () => clientOf().price(token.address);
  const sell = (amount: bigint) =>
    swapV2(anvil, { pool: pool.address, tokenIn: token.address, amountIn: amount * WEI });
  /** Resolves once the service's price is lower than `usd`. */
  const fallen = (usd: number) =>
    eventually(`the price is below ${usd}`, async () => ((await priceNow()).usdPrice < usd ? true : undefined));

  test("prints exactly one line after a swap crosses the bound, and ends with 0 on Ctrl-C", async () => {
    const { usdPrice } = await priceNow();
    const told = async () => {
      const metrics = await (await service.fetch("/metrics")).text();
      return Number(/^websocket_messages_total\{type="price"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
    };
    /** Resolves once the service has sent another price. */
    const toldAfter = (before: number) =>
      eventually("another price", async () => ((await told()) > before ? true : undefined));
    const before = await told();
    const alert = run("price-alert.ts", [
      ...[token.address, "--below", String(usdPrice * 0.99), "--above", "1000"],
      ...["--url", service.url],
    ]);
    await alert.saw("err", /watching ALRT: \$\d/);
    await toldAfter(before);
    let sent = await told();
    await sell(1n);
    await fallen(usdPrice);
    await toldAfter(sent);
    await sell(50_000n);
    await alert.saw("out", /\n/);
    const crossed = (await priceNow()).usdPrice;
    sent = await told();
    // A price that falls further has crossed the bound already.
    await sell(10_000n);
    await fallen(crossed);
    await toldAfter(sent);
    alert.kill("SIGINT");
    const { code, out, err } = await alert.ended;
    expect([code, out.split("\n").length]).toEqual([0, 2]);
    expect(out).toMatch(/^\d{4}-\S+Z ALRT is at \$[\d.]+, below \$[\d.]+, at block \d+\n$/);
    expect(err.split("\n").length).toBe(2);
  });

  test("goes on after an outage of the service", async () => {
    const proxy = await startTcpProxy(service.port);
    const stop = new AbortController();
    const outages: number[] = [];
    try {
      const { usdPrice } = await priceNow();
      const firsts: number[] = [];
      const client = new Client({
        ...{ url: `http://127.0.0.1:${proxy.port}`, key: TEST_KEY, attempts: 1 },
        onInterruption: ({ status }) => outages.push(status),
      });
      const alerts = priceAlerts({
        ...{ client, token, below: usdPrice * 0.99, signal: stop.signal },
        onFirst: (price) => firsts.push(price.usdPrice),
        // The socket may not be open yet when the connections break.
        onOutage: ({ status }) => outages.push(status),
      });
      const alert = alerts.next();
      await eventually("the first price", async () => firsts[0]);
      proxy.disturb("cut");
      await eventually("an outage", async () => outages[0]);
      await sell(50_000n);
      proxy.heal();
      expect((await alert).value).toMatchObject({ side: "below", symbol: "ALRT", bound: usdPrice * 0.99 });
      expect(new Set(outages)).toEqual(new Set([0]));
      const end = alerts.next();
      stop.abort();
      expect(await end).toEqual({ done: true, value: undefined });
    } finally {
      stop.abort();
      await proxy.stop();
    }
  });

  test("tells at the start that the price is beyond the bound, and fails for an address without a price", async () => {
    const { usdPrice } = await priceNow();
    const options = { client: clientOf(), above: usdPrice / 2 };
    const alerts = priceAlerts({ ...options, token });
    expect((await alerts.next()).value).toMatchObject({ side: "above", usdPrice });
    await alerts.return(undefined);
    const none = priceAlerts({ ...options, token: { address: anvil.accounts[5] as string } });
    await expect(none.next()).rejects.toMatchObject({ status: 404 });
  });
});

describe("the token gate", () => {
  let nft: Deployed;
  let client: Client;
  let gate: TokenGate;
  let clock = Date.now();
  const [owner, stranger] = [Wallet.createRandom(), Wallet.createRandom()];
  /** How the gate's client gets its answers. */
  let answered: (url: string, init: RequestInit) => Promise<Response> = fetch;

  beforeAll(async () => {
    nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Members", "M"]);
    await transact(anvil, nft.contract, "mint", [owner.address, 1]);
    await transact(anvil, nft.contract, "mint", [owner.address, 2]);
    client = new Client({ url: service.url, key: TEST_KEY, attempts: 1, fetch: (url, init) => answered(url, init) });
    gate = await startTokenGate({ client, address: nft.address, now: () => clock });
  });
  afterAll(async () => {
    await gate?.stop();
    client?.close();
  });

  async function post(path: string, body: object): Promise<Response> {
    const headers = { "content-type": "application/json" };
    return fetch(new URL(path, gate.url), { method: "POST", headers, body: JSON.stringify(body) });
  }
  async function challenge(wallet: string): Promise<{ nonce: string; message: string }> {
    return (await (await post("/nonce", { wallet })).json()) as { nonce: string; message: string };
  }
  async function signIn(wallet: HDNodeWallet): Promise<Response> {
    const { nonce, message } = await challenge(wallet.address);
    return post("/session", { nonce, signature: await wallet.signMessage(message) });
  }
  const cookieOf = (answer: Response): string => (answer.headers.get("set-cookie") as string).split(";")[0] as string;
  const inside = (cookie: string) => fetch(new URL("/inside", gate.url), { headers: { cookie } });

  test("lets an owner in, with a cookie that scripts can't read", async () => {
    const answer = await signIn(owner);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("set-cookie")).toMatch(
      /^gate=[0-9a-f]{32}\.[0-9a-f]{64}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=3600$/,
    );
    const room = await inside(cookieOf(answer));
    expect([room.status, (await room.text()).includes(owner.address.toLowerCase())]).toEqual([200, true]);
  });

  test("refuses a wallet without a token, and a visitor without a session", async () => {
    const refused = await signIn(stranger);
    expect([refused.status, refused.headers.get("set-cookie")]).toEqual([403, null]);
    expect((await inside("")).status).toBe(401);
    const real = cookieOf(await signIn(owner));
    expect((await inside(`${real.slice(0, -1)}${real.endsWith("0") ? "1" : "0"}`)).status).toBe(401);
    expect((await inside(real)).status).toBe(200);
  });

  test("takes a nonce once, also if the signature was wrong, and only for its wallet and its text", async () => {
    const { nonce, message } = await challenge(owner.address);
    const signature = await owner.signMessage(message);
    expect((await post("/session", { nonce, signature })).status).toBe(200);
    expect((await post("/session", { nonce, signature })).status).toBe(403);
    const other = await challenge(owner.address);
    expect((await post("/session", { nonce: other.nonce, signature })).status).toBe(403);
    const late = { nonce: other.nonce, signature: await owner.signMessage(other.message) };
    expect((await post("/session", late)).status).toBe(403);
    const foreign = await challenge(owner.address);
    const forged = await stranger.signMessage(foreign.message);
    expect((await post("/session", { nonce: foreign.nonce, signature: forged })).status).toBe(403);
    expect((await post("/session", { nonce: "x", signature: "x" })).status).toBe(403);
    expect((await post("/nonce", { wallet: "x" })).status).toBe(400);
    expect(message).toContain(`${new URL(gate.url).origin} asks you to sign in.`);
  });

  test("locks the door after the token moved, and opens it for its new owner", async () => {
    const cookie = cookieOf(await signIn(owner));
    await transact(anvil, nft.contract, "move", [owner.address, stranger.address, 1]);
    await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
    expect((await inside(cookie)).status).toBe(200);
    await transact(anvil, nft.contract, "move", [owner.address, stranger.address, 2]);
    // The clock of the gate stands still, so only the socket can tell.
    await eventually("the door is locked", async () => ((await inside(cookie)).status === 403 ? true : undefined));
    expect((await inside(cookie)).status).toBe(401);
    const opened = await signIn(stranger);
    expect([opened.status, (await inside(cookieOf(opened))).status]).toEqual([200, 200]);
    await transact(anvil, nft.contract, "move", [stranger.address, owner.address, 2]);
    await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
  });

  test("stays shut while the service is behind the chain, or away", async () => {
    const cookie = cookieOf(await signIn(owner));
    clock += 31_000;
    try {
      answered = async (url, init) => {
        const answer = await fetch(url, init);
        const headers = new Headers(answer.headers);
        headers.set("x-finality", "stale");
        return Response.json(await answer.json(), { status: answer.status, headers });
      };
      expect([(await inside(cookie)).status, (await signIn(owner)).status]).toEqual([503, 503]);
      answered = () => Promise.reject(new Error("away"));
      expect((await inside(cookie)).status).toBe(503);
    } finally {
      answered = fetch;
    }
    expect((await inside(cookie)).status).toBe(200);
  });

  test("works in a browser with a wallet, and keeps the session from its scripts", async () => {
    const browser = await startBrowser();
    try {
      const { page: tab, faults } = await visit(browser, new URL(gate.url).origin);
      await tab.exposeFunction("signWithWallet", (hex: string) => owner.signMessage(getBytes(hex)));
      await tab.evaluateOnNewDocument(`window.ethereum = {
        request: async ({ method, params }) =>
          method === "eth_requestAccounts" ? ["${owner.address}"] : window.signWithWallet(params[0]),
      }`);
      await tab.goto(gate.url);
      await tab.click("button");
      await tab.waitForFunction(`document.body?.innerText.includes("Welcome")`);
      expect(await tab.evaluate("document.cookie")).toBe("");
      expect(faults).toEqual([]);
    } finally {
      await browser.close();
    }
  });

  test("ends nonces and sessions after their time", async () => {
    const cookie = cookieOf(await signIn(owner));
    const { nonce, message } = await challenge(owner.address);
    clock += 61 * 60_000;
    expect((await inside(cookie)).status).toBe(401);
    expect((await post("/session", { nonce, signature: await owner.signMessage(message) })).status).toBe(403);
  });

  test("keeps a bounded number of entries, and drops the oldest first", () => {
    let at = 0;
    const map = new ExpiringMap<number>({ limit: 2, ms: 10, now: () => at });
    for (const [place, key] of ["a", "b", "c"].entries()) map.set(key, place);
    expect([map.size, map.get("a"), map.get("c"), map.take("b"), map.take("b")]).toEqual([
      2,
      undefined,
      2,
      1,
      undefined,
    ]);
    at = 10;
    expect(map.get("c")).toBeUndefined();
    map.set("d", 3);
    expect(map.size).toBe(1);
  });
});

describe("the gallery", () => {
  let nft: Deployed;
  let client: Client;
  let gallery: Gallery;
  const HOSTILE = '<script>alert("1")</script>';

  const inline = (value: unknown) =>
    `data:application/json;base64,${Buffer.from(JSON.stringify(value)).toString("base64")}`;
  const svg = `data:image/svg+xml;base64,${btoa('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9" fill="red"/></svg>')}`;

  beforeAll(async () => {
    nft = await deploy(anvil, await contractArtifact("StoryNft"), [`Art ${HOSTILE}`, "ART"]);
    const stories = [
      inline({ name: HOSTILE, image: "javascript:alert(1)", attributes: [{ trait_type: `"><b>`, value: "<i>" }] }),
      inline({ name: "a picture", image: svg, attributes: [{ trait_type: "Level", value: "two: high" }] }),
      ...Array.from({ length: 28 }, (_, i) => inline({ name: `piece ${i + 3}` })),
    ];
    await transact(anvil, nft.contract, "mintStories", [anvil.accounts[1], 1, stories]);
    await transact(anvil, nft.contract, "transferFrom", [anvil.accounts[1], anvil.accounts[6], 2], {
      from: anvil.accounts[1] as string,
    });
    client = clientOf();
    gallery = startGallery({ client, address: nft.address });
    // The gallery's subscription has the collection indexed, and its pages have the previews made.
    await eventually("the gallery shows a preview", async () => {
      const { text } = await page();
      return text.includes("<img") && text.includes("<optgroup") ? true : undefined;
    });
  });
  afterAll(async () => {
    await gallery?.stop();
    client?.close();
  });

  async function page(path = "/"): Promise<{ answer: Response; text: string }> {
    const answer = await fetch(new URL(path, gallery.url), { redirect: "manual" });
    return { answer, text: await answer.text() };
  }
  const cards = (text: string) => text.split("<figure>").slice(1);

  test("shows names and owners, and pictures by the service's previews", async () => {
    const { answer, text } = await page();
    expect(cards(text)).toHaveLength(24);
    expect(cards(text)[1]).toContain("<bdi>a picture</bdi>");
    expect(cards(text)[1]).toContain(`<code>${anvil.accounts[6]}</code>`);
    const preview = /<img src="([^"]+)"/.exec(cards(text)[1] as string)?.[1] as string;
    expect(preview).toMatch(new RegExp(`^${service.url}/media/[0-9a-f]{64}/250$`));
    expect((await fetch(preview)).headers.get("content-type")).toMatch(/^image\//);
    expect(answer.headers.get("content-security-policy")).toContain(`img-src 'self' ${new URL(service.url).origin};`);
    expect(answer.headers.get("content-security-policy")).not.toContain("unsafe");
  });

  test("escapes hostile texts, keeps no other scheme than http and https, and does not show the key", async () => {
    const { text } = await page();
    expect(text).not.toContain("<script>alert");
    expect(cards(text)[0]).toContain("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;");
    expect(cards(text)[0]).toContain("no picture");
    expect(text).not.toContain("javascript:");
    expect(text).not.toContain("data:");
    expect(text).not.toContain('"><b>');
    for (const path of ["/", "/gallery.js", "/gallery.css"]) expect((await page(path)).text).not.toContain(TEST_KEY);
  });

  test("goes on to the next page by cursor, and filters by trait", async () => {
    const { text } = await page();
    const next = /<nav><a href="([^"]+)"/.exec(text)?.[1] as string;
    const second = await page(next.replaceAll("&amp;", "&"));
    expect(cards(second.text)).toHaveLength(6);
    expect(second.text).not.toContain("<nav>");
    const found = await page(`/?${new URLSearchParams({ trait: "Level:two: high" })}`);
    expect(cards(found.text)).toHaveLength(1);
    expect(found.text).toContain('<option value="Level:two: high" selected>two: high (1)</option>');
    const wrong = await page("/?cursor=wrong%3Cb%3E");
    expect([wrong.answer.status, wrong.text.includes("<b>")]).toEqual([400, false]);
    expect((await page("/other")).answer.status).toBe(404);
  });

  test("tells open pages of a change, and shows it then", async () => {
    const events = await fetch(new URL("/events", gallery.url));
    const reader = (events.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let told = "";
    await transact(anvil, nft.contract, "transferFrom", [anvil.accounts[6], anvil.accounts[7], 2], {
      from: anvil.accounts[6] as string,
    });
    while (!told.includes("data: transfers\n\n")) told += decoder.decode((await reader.read()).value, { stream: true });
    expect(cards((await page()).text)[1]).toContain(`<code>${anvil.accounts[7]}</code>`);
    await reader.cancel();
  });

  test("shows pictures in a browser, runs nothing of the metadata, and follows a transfer", async () => {
    const browser = await startBrowser();
    try {
      const { page: tab, faults } = await visit(browser, new URL(gallery.url).origin);
      await tab.goto(gallery.url);
      await tab.waitForFunction(`document.querySelector("img")?.naturalWidth > 0`);
      await transact(anvil, nft.contract, "transferFrom", [anvil.accounts[1], anvil.accounts[8], 5], {
        from: anvil.accounts[1] as string,
      });
      await tab.waitForFunction(`document.body?.innerText.includes("${anvil.accounts[8]}")`);
      // Pictures are the only thing that is not the gallery's own.
      expect(faults.filter((fault) => !fault.startsWith(`asked another origin: ${service.url}/media/`))).toEqual([]);
    } finally {
      await browser.close();
    }
  });

  test("runs as a process until Ctrl-C", async () => {
    const child = run("gallery.ts", [nft.address, "--url", service.url]);
    const [, url] = await child.saw("out", /The gallery is at (\S+)\n/);
    expect(await (await fetch(url as string)).text()).toContain("a picture");
    child.kill("SIGINT");
    expect(await child.ended).toMatchObject({ code: 0, err: "" });
  });
});

describe("the moralis SDK", () => {
  test("answers what the client answers", async () => {
    const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Sdk", "S"]);
    for (const id of [5, 6]) await transact(anvil, nft.contract, "mint", [anvil.accounts[id], id]);
    await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
    // A process, because the SDK starts once per process.
    const { code, out, err } = await run("moralis.ts", [nft.address, market.demo.address, "--url", service.url]).ended;
    expect([code, err]).toEqual([0, ""]);
    const sdk = JSON.parse(out);
    const { asOf: _, ...page } = await clientOf().nftPage(nft.address, { normalizeMetadata: true });
    const { asOf: __, ...price } = await clientOf().price(market.demo.address);
    expect(sdk.page).toEqual(page);
    expect([sdk.price, sdk.usdPrice]).toEqual([price, price.usdPrice]);
    const owners = await Promise.all([5, 6].map((id) => read<string>(nft.contract, "ownerOf", [id])));
    expect(sdk.owners).toEqual([5, 6].map((id, at) => ({ tokenId: String(id), owner: owners[at]?.toLowerCase() })));
  });
});
