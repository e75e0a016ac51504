/**
 * A SQLite log that another process has locked: nothing new is stored, so answers are stale, the process is not ready, and
 * both are told. Also two services on one file.
 */
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { sqlitePath } from "../../src/core/files.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { recordingLogger, WARN } from "../support/logged.ts";
import { startLongChain } from "../support/long-chain.ts";
import { eventually, startTestService, synced, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";
const stops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
});

/** Locks the file in a process of its own. Resolves with what ends the lock. */
async function lock(logUrl: string): Promise<() => Promise<void>> {
  const script = join(import.meta.dir, "../support/locked-file.ts");
  const child = Bun.spawn([process.execPath, script, sqlitePath(logUrl) as string], { stdin: "pipe", stdout: "pipe" });
  const reader = child.stdout.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toContain("locked");
  return async () => {
    child.stdin.end();
    await child.exited;
  };
}

test("answers are stale and the process is not ready while another process holds a lock, and current again after it", async () => {
  const logUrl = temporaryLogUrl();
  const node = await startLongChain(300, 250);
  node.transfers = [{ block: 100, id: 1, from: 0, to: 1 }];
  const service = await startTestService({ rpcUrl: node.url, logUrl, env: { OPERATOR_KEYS: OPERATOR } });
  stops.push(
    () => service.stop(),
    () => node.stop(),
  );
  await synced(service, node.contract, node.head);
  const path = `/api/v2/nft/${node.contract}`;
  const seen = async () => {
    const status = (await service.get("/api/status", { "x-api-key": OPERATOR })).body;
    const metrics = await (await service.fetch("/metrics")).text();
    return {
      finality: (await service.fetch(path)).headers.get("x-finality"),
      ready: (await service.fetch("/health/ready")).status,
      writable: status.log.writable,
      metrics: ["log_writable", "log_up"].map((name) => new RegExp(`^${name} (.*)$`, "m").exec(metrics)?.[1]),
    };
  };
  const current = { finality: "latest", ready: 200, writable: true, metrics: ["1", "1"] };
  expect(await seen()).toEqual(current);
  const unlock = await lock(logUrl);
  node.head += 5;
  const begun = performance.now();
  const held = { finality: "stale", ready: 503, writable: false, metrics: ["0", "0"] };
  await eventually("the lock is told", async () => Bun.deepEquals(await seen(), held) || undefined, 30_000);
  expect(performance.now() - begun).toBeLessThan(15_000);
  // It stays so for as long as the lock is held: each attempt to write fails after ten seconds.
  const until = performance.now() + 12_000;
  await eventually(
    "more attempts have failed",
    async () => {
      expect(await seen()).toEqual(held);
      return performance.now() > until || undefined;
    },
    30_000,
  );
  await unlock();
  await eventually("the log is written again", async () => Bun.deepEquals(await seen(), current) || undefined, 30_000);
  await synced(service, node.contract, node.head);
}, 300_000);

test("a second service on one SQLite file says so once, and a command of the command line or a crash does not", async () => {
  const logUrl = temporaryLogUrl();
  const node = await startLongChain(300, 250);
  stops.push(() => node.stop());
  const serve = async () => {
    const { logger, lines } = recordingLogger("info");
    const service = await startTestService({ rpcUrl: node.url, logUrl, logger });
    return { service, said: () => lines.filter(({ msg }) => msg.includes("same SQLite file")) };
  };
  // A process that crashed a moment ago has left its lease.
  const log = await openLog(logUrl, systemClock, silentLogger);
  await log.acquireLease("serve/log", "crashed", 6_000);
  const holders = async () =>
    (await log.leases()).filter(({ name }) => name === "serve/log").map(({ holder }) => holder);
  const first = await serve();
  await eventually(
    "the first service has the lease",
    async () => !["crashed", undefined].includes((await holders())[0]) || undefined,
  );
  const { code } = await runCli(["collections"], {
    EVENT_LOG_URL: logUrl,
    RPC_URL_ETH: node.url,
    RPC_URLS_ONLY: "true",
  });
  expect(code).toBe(0);
  expect(first.said()).toEqual([]);
  const second = await serve();
  await eventually("the second service says so", async () => second.said().length > 0 || undefined, 30_000);
  expect(second.said()).toEqual([expect.objectContaining({ level: WARN, msg: expect.stringContaining("PostgreSQL") })]);
  expect(first.said()).toEqual([]);
  for (const { service } of [first, second]) await service.stop();
  expect(await holders()).toEqual([]);
  await log.close();
}, 300_000);
