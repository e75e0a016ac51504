/**
 * SIGTERM while the node or the log doesn't answer: the process still ends within a supervisor's grace time, names the
 * tasks that did not end, and releases its leases if the log still answers.
 */
import { Database } from "bun:sqlite";
import { afterEach, expect, test } from "bun:test";
import { sharedPostgres } from "../support/postgres.ts";
import { type ServiceProcess, startServiceProcess } from "../support/process.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";
import { startSilentRelay } from "../support/silent-relay.ts";

const CONTRACT = "/api/v2/nft/0x00000000000000000000000000000000000000aa?chain=eth";
/** Clients get ten seconds for their answers, loops and connections the rest. */
const GONE_WITHIN_MS = 16_000;

const started: { stop(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

async function processOf(logUrl: string, rpcPort: number): Promise<ServiceProcess> {
  const RPC_URL_ETH = `http://127.0.0.1:${rpcPort}`;
  const service = await startServiceProcess({ EVENT_LOG_URL: logUrl, RPC_URL_ETH, RPC_URLS_ONLY: "true" });
  started.push({
    stop: () => {
      service.kill("SIGKILL");
      return service.exited;
    },
  });
  return service;
}

/** Returns the exit code and the time it took. */
async function terminate(service: ServiceProcess): Promise<{ code: number | null; ms: number }> {
  const before = performance.now();
  service.kill("SIGTERM");
  const code = await service.exited;
  return { code, ms: performance.now() - before };
}

test("ends within seconds while a node is silent, in order, and releases its leases", async () => {
  const node = await startSilentRelay();
  started.push(node);
  const logUrl = temporaryLogUrl();
  const service = await processOf(logUrl, node.port);
  expect((await service.get(CONTRACT)).status).toBe(200);
  const database = new Database(logUrl.replace("sqlite://", ""), { readonly: true });
  const leases = () => database.query<{ name: string }, []>("SELECT name FROM leases").all();
  await eventually("the contract's lease is taken and the node was called", async () =>
    node.swallowed > 0 && leases().some(({ name }) => name.startsWith("index/")) ? true : undefined,
  );
  const { code, ms } = await terminate(service);
  expect({ code, stderr: service.stderr() }).toMatchObject({ code: 0 });
  expect(ms).toBeLessThan(8_000);
  expect(leases()).toEqual([]);
  expect(service.stderr()).not.toContain('"level":"error"');
  database.close();
});

test("ends within the grace time while PostgreSQL is silent and a client waits, and names the tasks that did not end", async () => {
  const node = await startSilentRelay();
  started.push(node);
  const url = new URL(await (await sharedPostgres()).createDatabase());
  const relay = await startSilentRelay(Number(url.port));
  started.push(relay);
  url.port = String(relay.port);
  const service = await processOf(url.href, node.port);
  expect((await service.get(CONTRACT)).status).toBe(200);
  await eventually("the node was called", async () => (node.swallowed > 0 ? true : undefined));
  relay.silence({ path: true });
  // A first request for another contract is written to the log, which doesn't answer.
  const unanswered = service.get(CONTRACT.replace("aa?", "ab?")).catch(() => undefined);
  const swallowed = relay.swallowed;
  await eventually("the log was called", async () => (relay.swallowed > swallowed ? true : undefined));
  const { code, ms } = await terminate(service);
  await unanswered;
  expect(ms).toBeLessThan(GONE_WITHIN_MS);
  expect(service.stderr()).toContain("did not end");
  expect(code).toBe(0);
});
