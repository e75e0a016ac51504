/** `price` on the command line: against a real market, with a service of its own and with a running one. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { startAnvil } from "../../scripts/local-chain/anvil.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { seedMarket } from "../../scripts/local-chain/market.ts";
import { eventually, startTestService, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const OPERATOR_KEY = "operator-key-0123456789";
const ROOT = join(import.meta.dir, "../..");

test("shows a price with its pools, the same from a service of its own and from a running one", async () => {
  const anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 8 * 3_600 });
  await placeMainnet(anvil);
  const { demo } = await seedMarket(anvil, { hours: 4 });
  const [logUrl, ownLogUrl] = [temporaryLogUrl(), temporaryLogUrl()];
  const service = await startTestService({ rpcUrl: anvil.url, logUrl, env: { OPERATOR_KEYS: OPERATOR_KEY } });
  const run = async (eventLogUrl: string, ...words: string[]) => {
    const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), "price", demo.address, ...words], {
      cwd: ROOT,
      env: {
        ...{ PATH: process.env["PATH"] ?? "", RPC_URLS_ONLY: "true", RPC_URL_ETH: anvil.url },
        ...{ EVENT_LOG_URL: eventLogUrl, SERVICE_KEY: TEST_KEY },
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    return { code: await child.exited, out, err };
  };
  const price = (...words: string[]) => run(ownLogUrl, ...words);
  try {
    const own = await price();
    expect([own.code, own.err]).toEqual([0, ""]);
    expect(own.out).toMatch(/^Demo Token \(DEMO\): \$\d+\.\d+ · 0\.\d+ ETH, at block \d+\ndepth \$/);
    expect(own.out).toMatch(/\nEXCHANGE +POOL +FEE +STATE +BLOCK\nUniswap v\d +0x[0-9a-f]{40} +0\.3 % +\S/);
    const block = /at block (\d+)/.exec(own.out)?.[1] as string;
    const running = await price("--url", `http://127.0.0.1:${service.port}`, "--block", block);
    expect(running.out.split("\n")[0]).toBe(own.out.split("\n")[0] as string);
    expect((await price("--block", "x")).code).toBe(64);
    expect(existsSync(ownLogUrl.slice("sqlite://".length))).toBe(false);
    // With a log, the calls of the command are in the bill of the service that runs on it.
    const callsOf = async (): Promise<number> => {
      const { body } = await service.get("/api/status", { "x-api-key": OPERATOR_KEY });
      return body.chains[0].endpoints[0].calls.day.eth_call ?? 0;
    };
    const before = await callsOf();
    expect((await run(logUrl)).code).toBe(0);
    await eventually("the bill has the command's calls", async () => ((await callsOf()) > before ? true : undefined));
  } finally {
    await service.stop();
    await anvil.stop();
  }
});
