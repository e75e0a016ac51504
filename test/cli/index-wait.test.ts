/**
 * `index` beside other processes: a removed collection is indexed again, `--wait` takes over from a service that dies
 * and says what delays it, and a signal leaves no lease behind. Real programs, against a real chain.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { MetadataWait } from "../../src/cli/metadata-state.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { STREAM_KINDS } from "../../src/log/faults.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
let anvil: Anvil;
let collection: string;
const proxies: RpcProxy[] = [];

beforeAll(async () => {
  anvil = await startAnvil();
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Waited for", "W"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
  await anvil.mine(100);
  collection = nft.address.toLowerCase();
});
afterEach(() => Promise.all(proxies.splice(0).map((proxy) => proxy.stop())));
afterAll(() => anvil?.stop());

/** An endpoint that answers no request for logs until `open` is called. */
async function closedEndpoint(): Promise<{ readonly url: string; readonly proxy: RpcProxy; open(): void }> {
  const { promise: delayUntil, resolve: open } = Promise.withResolvers<void>();
  let isOpen = false;
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method }) => (method === "eth_getLogs" && !isOpen ? { delayUntil } : undefined),
  });
  proxies.push(proxy);
  const openAll = () => {
    isOpen = true;
    open();
  };
  return { url: proxy.url, proxy, open: openAll };
}

const environment = (logUrl: string, rpcUrl = anvil.url) => ({
  ...{ EVENT_LOG_URL: logUrl, RPC_URL_ETH: rpcUrl, RPC_URLS_ONLY: "true", FOLLOW_EVERY_ETH: "0" },
});

/** Starts the program, and keeps what it writes to standard error. */
function start(words: readonly string[], env: Record<string, string>) {
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), ...words], {
    ...{ cwd: ROOT, env: { PATH: process.env["PATH"] ?? "", ...env }, stdin: "ignore" },
    ...{ stdout: "pipe", stderr: "pipe" },
  });
  const output = { err: "" };
  const reading = (async () => {
    for await (const bytes of child.stderr) output.err += Buffer.from(bytes).toString();
  })();
  const out = new Response(child.stdout).text();
  const result = async () => {
    await reading;
    return { code: await child.exited, out: await out, err: output.err };
  };
  return { child, output, result };
}

async function leasesOf(logUrl: string): Promise<string[]> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const names = (await log.leases()).map(({ name }) => name);
  await log.close();
  return names;
}

/** All streams of a log with their versions, but for the bill, which has the calls of commands, too. */
async function versionsOf(logUrl: string): Promise<(readonly [string, number])[]> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const counted = STREAM_KINDS.filter((kind) => kind !== "usage");
  const kinds = await Promise.all(counted.map((kind) => log.streams(`${kind}/`, { after: "", limit: 100 })));
  await log.close();
  return kinds.flat().map(({ stream, version }) => [stream, version] as const);
}

test("says how much metadata is there, waits for it on request, and exports with what is known of it", async () => {
  const stories = await deploy(anvil, await contractArtifact("StoryNft"), ["Told", "TLD"]);
  await transact(anvil, stories.contract, "mintMany", [anvil.accounts[1], 1, 30]);
  await transact(anvil, stories.contract, "setBase", ['data:application/json,{"name":"', '"}']);
  await anvil.mine(100);
  const address = stories.address.toLowerCase();
  const env = { ...environment(temporaryLogUrl()), METADATA_ALLOW_PRIVATE: "true" };
  expect((await runCli(["index", address, "--metadata"], env)).code).toBe(64);
  const first = await runCli(["index", address, "--wait", "--json"], env);
  const [{ metadata }] = JSON.parse(first.out);
  const file = join(mkdtempSync(join(tmpdir(), "metadata-")), "told.csv");
  expect([first.code, metadata.resolved + metadata.failed + metadata.left]).toEqual([0, 30]);
  const early = await runCli(["export", address, "--output", `${file}.early`, "--json"], env);
  const known = JSON.parse(early.out).metadata;
  // A reader doesn't count the tokens of a collection that no service has counted.
  const of = known.left === null ? "" : ` of ${known.resolved + known.left}`;
  expect(early.err).toBe(known.left === 0 ? "" : `metadata ${known.resolved}${of} when the export began\n`);
  const waited = await runCli(["index", address, "--wait", "--metadata"], env);
  expect([waited.code, waited.out.split("\n")[0]?.includes("METADATA")]).toEqual([0, true]);
  expect(waited.out).toMatch(/ {2}30 of 30\n$/);
  const whole = await runCli(["export", address, "--output", file, "--json"], env);
  expect(JSON.parse(whole.out).metadata).toMatchObject({ resolved: 30, failed: 0 });
}, 120_000);

test("goes on waiting for metadata while the service doesn't tell how much there is", async () => {
  const key = "operator-key-0123456789";
  const service = await startTestService({
    ...{ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env: { OPERATOR_KEYS: key, METADATA: "true" } },
  });
  let refusals = 0;
  const front = Bun.serve({
    ...{ hostname: "127.0.0.1", port: 0 },
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url);
      const isDetails = request.method === "GET" && pathname === `/api/collections/eth/${collection}`;
      if (isDetails && refusals++ < 3) return Response.json({ message: "not now", code: "not_found" }, { status: 404 });
      const { method, headers } = request;
      const body = method === "POST" ? await request.text() : undefined;
      const init = { method, headers, ...(body === undefined ? {} : { body }) };
      return fetch(`http://127.0.0.1:${service.port}${pathname}${search}`, init);
    },
  });
  const words = ["index", collection, "--wait", "--metadata", "--json", "--url", front.url.href.replace(/\/$/, "")];
  const { code, out } = await runCli(words, { SERVICE_KEY: key });
  expect([code, JSON.parse(out)[0].metadata]).toEqual([0, { resolved: 0, failed: 1, left: 0 }]);
  expect(refusals).toBeGreaterThan(3);
  await front.stop(true);
  await service.stop();
}, 60_000);

test("gives up on metadata of which nothing has come for two minutes", () => {
  let now = 0;
  const wait = new MetadataWait({ ...systemClock, monotonic: () => now });
  const at = (ms: number, resolved: number, left: number | null) => {
    now = ms;
    return wait.next([
      { resolved, failed: 1, left },
      { resolved: 0, failed: 0, left: 0 },
    ]);
  };
  const seen = [at(0, 5, null), at(100_000, 6, 4), at(219_000, 6, 4), at(220_000, 6, 4)];
  expect(seen).toEqual(["waiting", "waiting", "waiting", "standing"]);
  expect([at(230_000, 7, 3), at(231_000, 10, 0)]).toEqual(["waiting", "done"]);
});

test("indexes a collection again that an operator removed, and says so", async () => {
  const env = environment(temporaryLogUrl());
  expect((await runCli(["index", collection, "--wait"], env)).code).toBe(0);
  expect((await runCli(["remove", collection], env)).code).toBe(0);
  expect(await runCli(["index", collection], env)).toMatchObject({
    ...{ code: 0, out: `eth ${collection}  was removed, is indexed again\n` },
  });
  expect((await runCli(["collections", "--status", "requested"], env)).out).toContain(collection);
  expect((await runCli(["remove", collection], env)).code).toBe(0);
  const alone = await runCli(["index", collection, "--wait", "--json"], env);
  expect([alone.code, JSON.parse(alone.out)[0].status]).toEqual([0, "following"]);
  const service = await startTestService({ rpcUrl: anvil.url, logUrl: env.EVENT_LOG_URL });
  try {
    expect((await runCli(["remove", collection], env)).code).toBe(0);
    const again = await runCli(["index", collection, "--wait", "--json"], env);
    expect([again.code, JSON.parse(again.out)[0].status]).toEqual([0, "following"]);
  } finally {
    await service.stop();
  }
});

test("`--wait` does the work itself once the service that did it was killed", async () => {
  const logUrl = temporaryLogUrl();
  const closed = await closedEndpoint();
  const serving = start(["serve"], { ...environment(logUrl, closed.url), PORT: "0", API_KEYS: TEST_KEY });
  await eventually("it serves", async () => (serving.output.err.includes("serving") ? true : undefined), 30_000);
  await runCli(["index", collection], environment(logUrl));
  await eventually("it reads logs", async () => (closed.proxy.count("eth_getLogs") > 0 ? true : undefined), 30_000);
  expect(await leasesOf(logUrl)).not.toEqual([]);
  const waiting = start(["index", collection, "--wait", "--json"], environment(logUrl));
  serving.child.kill("SIGKILL");
  await serving.child.exited;
  const { code, out } = await waiting.result();
  expect([code, JSON.parse(out)[0].status]).toEqual([0, "following"]);
});

for (const [signal, exitCode] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const) {
  test(`ends on ${signal} with ${exitCode}, and leaves no lease behind`, async () => {
    const logUrl = temporaryLogUrl();
    const closed = await closedEndpoint();
    const waiting = start(["index", collection, "--wait"], environment(logUrl, closed.url));
    await eventually("it holds a lease", async () => ((await leasesOf(logUrl)).length > 0 ? true : undefined), 30_000);
    waiting.child.kill(signal);
    expect(await waiting.result()).toEqual({ code: exitCode, out: "", err: "" });
    expect(await leasesOf(logUrl)).toEqual([]);
  });
}

test("`--wait` says why a collection makes no progress", async () => {
  const logUrl = temporaryLogUrl();
  const refusing = await startRpcProxy(anvil.url, {
    onRequest: ({ method }) =>
      /Logs|Receipt/.test(method) ? { error: { code: -32_601, message: "no logs\u001b[31m here" } } : undefined,
  });
  proxies.push(refusing);
  const done = await runCli(["index", collection, "--wait"], environment(logUrl, refusing.url));
  expect(done.code).toBe(1);
  expect(done.err).toContain(`eth ${collection}: `);
  expect(done.err).toContain("no logs\\u001b[31m here");
  expect(done.out).toContain("failed, will retry: ");
  expect(`${done.out}${done.err}`).not.toContain("\u001b");
});

test("`estimate` tells a collection's status, and neither makes a log nor works on the queue of one", async () => {
  const env = environment(temporaryLogUrl());
  const first = await runCli(["estimate", collection, "--json"], env);
  expect([first.code, JSON.parse(first.out).status]).toEqual([0, null]);
  expect(existsSync(env.EVENT_LOG_URL.slice("sqlite://".length))).toBe(false);
  expect((await runCli(["index", collection], env)).code).toBe(0);
  const before = await versionsOf(env.EVENT_LOG_URL);
  const second = await runCli(["estimate", collection, "--json"], env);
  expect([second.code, JSON.parse(second.out).status]).toEqual([0, "requested"]);
  expect(await versionsOf(env.EVENT_LOG_URL)).toEqual(before);
});
