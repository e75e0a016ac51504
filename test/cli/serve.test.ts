/** What `serve` says: short lines and the probed chains in a terminal, JSON lines elsewhere, and no secrets. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { spawnService } from "../support/process.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
const CONTRACT = `0x${"12".repeat(20)}`;

let anvil: Anvil;
beforeAll(async () => {
  anvil = await startAnvil();
});
afterAll(() => anvil?.stop());

/** Runs the service until a request was logged, in a terminal or not, and returns its words. */
async function words(isTerminal: boolean): Promise<string> {
  let shown = "";
  const hear = (bytes: Uint8Array): void => {
    shown += Buffer.from(bytes).toString();
  };
  const env = {
    ...{ PATH: process.env["PATH"] ?? "", TERM: "xterm", PORT: "0", API_KEYS: TEST_KEY, LOG_REQUESTS: "true" },
    ...{ EVENT_LOG_URL: temporaryLogUrl(), RPC_URLS_ONLY: "true", RPC_URL_ETH: anvil.url, RPC_URL_POLYGON: anvil.url },
    RPC_URL_BSC: "http://user:password-of-node@127.0.0.1:9/secret-path",
  };
  const command = [process.execPath, join(ROOT, "src/main.ts")];
  const terminal = { cols: 160, rows: 40, data: (_terminal: unknown, bytes: Uint8Array) => hear(bytes) };
  const child = isTerminal
    ? Bun.spawn(command, { cwd: ROOT, env, terminal })
    : Bun.spawn(command, { cwd: ROOT, env, stdin: "ignore", stdout: "ignore", stderr: "pipe" });
  const reading = (async () => {
    if (child.stderr instanceof ReadableStream) for await (const bytes of child.stderr) hear(bytes);
  })();
  const base = await eventually("it serves", async () => /serving (\S+)\/api\/v2/.exec(shown)?.[1]);
  await eventually("the chains are probed", async () => (/bsc#1 ✗/.test(shown) ? true : undefined));
  const path = `/api/v2/nft/${CONTRACT}?limit=3&my-secret=hidden-value`;
  await fetch(`${base}${path}`, { headers: { "x-api-key": TEST_KEY } });
  await eventually("the request is logged", async () => (shown.includes(CONTRACT) ? true : undefined));
  child.kill("SIGINT");
  expect(await child.exited).toBe(0);
  await reading;
  for (const secret of ["password-of-node", "secret-path", "hidden-value", "my-secret", TEST_KEY]) {
    expect(shown).not.toContain(secret);
  }
  return shown;
}

test("shows a banner and short lines in a terminal", async () => {
  const shown = await words(true);
  expect(shown).toMatch(/eth#1 ✓ chain 1, head 0, \d+ ms/);
  expect(shown).toContain("polygon#1 ✗ the endpoint is of chain 1, not of chain 137");
  expect(shown).toMatch(/request method=GET path=\/api\/v2\/nft\/0x12\S* parameters=limit status=200 ms=/);
  expect(shown).not.toContain('{"level"');
});

test("writes JSON lines elsewhere", async () => {
  const lines = (await words(false)).split("\n").filter((line) => line.startsWith("{"));
  const messages = lines.map((line) => JSON.parse(line) as { msg: string; [field: string]: unknown });
  expect(messages.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(/^eth#1 ✓ chain 1, head 0, \d+ ms$/));
  const request = messages.find(({ msg }) => msg === "request");
  expect(request).toMatchObject({ method: "GET", path: `/api/v2/nft/${CONTRACT}`, parameters: "limit", status: 200 });
  expect(request?.["requestId"]).toMatch(/^[0-9a-f-]{36}$/);
});

const CHAINS = ["ETH", "GOERLI", "SEPOLIA", "POLYGON", "MUMBAI", "BSC", "AVALANCHE", "FANTOM", "PALM", "CRONOS"];
/** No server listens there. */
const DOWN = Object.fromEntries(CHAINS.map((chain) => [`RPC_URL_${chain}`, "http://127.0.0.1:9/"]));

/** A first start: nothing is set but endpoints, none of which answers. */
function firstStart() {
  return spawnService({
    ...{ EVENT_LOG_URL: temporaryLogUrl(), RPC_URLS_ONLY: "true", LOG_LEVEL: "info", LOG_FORMAT: "json" },
    ...DOWN,
  });
}

const KEY = /API key, shown once and kept only as a hash: {2}(\S+)\n/;
const SIGN_IN = /Sign in with it at (\S+)\n/;

test("tells a fault of all chains in one line, and shows the key of a first start below it", async () => {
  const service = firstStart();
  try {
    await service.serving;
    await eventually("the key is shown", async () => (SIGN_IN.test(service.stderr()) ? true : undefined));
    const lines = service.stderr().trimEnd().split("\n");
    const faults = lines.filter((line) => line.includes("connection refused"));
    expect(faults).toHaveLength(1);
    expect(faults[0]).toContain(`${CHAINS.length} endpoints ✗ `);
    for (const chain of CHAINS) expect(faults[0]).toContain(`${chain.toLowerCase()}#1`);
    expect(faults[0]).toContain(" run cli doctor");
    expect(lines.slice(-4)).toEqual([
      expect.stringMatching(/^ {2}═+$/),
      expect.stringMatching(/^ {2}API key, shown once/),
      expect.stringMatching(/^ {2}Sign in with it at http/),
      expect.stringMatching(/^ {2}═+$/),
    ]);
    expect(service.stderr().match(new RegExp(KEY.source, "g"))).toHaveLength(1);
    const base = await service.serving;
    const headers = { "x-api-key": KEY.exec(service.stderr())?.[1] as string };
    expect((await fetch(`${base}/api/status`, { headers })).status).toBe(200);

    // Requests for all chains at once find the same fault at once.
    for (const chain of CHAINS) {
      const query = new URLSearchParams({ chain: chain.toLowerCase() });
      void fetch(`${base}/api/v2/erc20/${CONTRACT}/price?${query}`, { headers }).catch(() => undefined);
    }
    const told = await eventually("the fault is logged", async () =>
      service
        .stderr()
        .split("\n")
        .find((line) => line.includes("an endpoint fails")),
    );
    const { msg, endpoints, state } = JSON.parse(told) as Record<string, unknown>;
    expect([msg, state]).toEqual([`${CHAINS.length} endpoints have one fault: an endpoint fails`, "failed"]);
    expect(new Set(endpoints as string[])).toEqual(new Set(CHAINS.map((chain) => `${chain.toLowerCase()}#1`)));
  } finally {
    service.kill("SIGINT");
    await service.exited;
  }
});

test("shows the key of a first start that is stopped before it has said everything", async () => {
  const service = firstStart();
  await service.serving;
  service.kill("SIGINT");
  expect(await service.exited).toBe(0);
  expect(service.stderr().match(new RegExp(KEY.source, "g"))).toHaveLength(1);
});
