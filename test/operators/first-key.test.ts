/**
 * The key of the first start, and the ways back after it was lost: a key of the environment, or a key that the command
 * line writes to the log. Logs of earlier releases have only a setting with the hash of that key.
 */
import { expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const RPC = "http://127.0.0.1:9/";
const NFT = `/api/v2/nft/0x${"ab".repeat(20)}`;
const WITHOUT_KEYS = { API_KEYS: "" };

/** Starts the service, and returns what `use` returns. */
async function during<T>(
  logUrl: string,
  env: Record<string, string>,
  use: (service: TestService, made: readonly string[]) => Promise<T>,
): Promise<T> {
  const made: string[] = [];
  const service = await startTestService({ rpcUrl: RPC, logUrl, env, onKeyMade: (key) => made.push(key) });
  try {
    return await use(service, made);
  } finally {
    await service.stop();
  }
}

/** Statuses of a page and of the list of keys. */
async function statusesFor(service: TestService, key: string): Promise<number[]> {
  const headers = { "x-api-key": key };
  return [(await service.fetch(NFT, { headers })).status, (await service.fetch("/api/keys", { headers })).status];
}

test("is made once, may operate, and is never kept as a text", async () => {
  const logUrl = temporaryLogUrl();
  const [key] = await during(logUrl, WITHOUT_KEYS, async (service, made) => {
    expect(await statusesFor(service, made[0] as string)).toEqual([200, 200]);
    return made as [string];
  });
  await during(logUrl, WITHOUT_KEYS, async (service, made) => {
    expect(made).toEqual([]);
    expect(await statusesFor(service, key)).toEqual([200, 200]);
  });
  const path = logUrl.slice("sqlite://".length);
  for (const file of [path, `${path}-wal`]) {
    if (await Bun.file(file).exists()) expect(Buffer.from(await Bun.file(file).bytes()).includes(key)).toBe(false);
  }
});

test("of an earlier release stays valid, and may operate", async () => {
  const logUrl = temporaryLogUrl();
  const old = "key-of-an-earlier-release";
  const log = await openLog(logUrl, systemClock, silentLogger);
  await log.setting("api-key-sha256", () => Bun.CryptoHasher.hash("sha256", old, "hex"));
  await log.close();
  await during(logUrl, WITHOUT_KEYS, async (service, made) => {
    expect(made).toEqual([]);
    expect(await statusesFor(service, old)).toEqual([200, 200]);
  });
});

test("is not made if the log has a key already", async () => {
  const logUrl = temporaryLogUrl();
  const { code, out } = await runCli(["keys", "add", "mine", "--scope", "operate", "--json"], {
    EVENT_LOG_URL: logUrl,
  });
  expect(code).toBe(0);
  await during(logUrl, WITHOUT_KEYS, async (service, made) => {
    expect(made).toEqual([]);
    expect(await statusesFor(service, JSON.parse(out).key)).toEqual([200, 200]);
  });
});

test("can be lost: the command line adds another key to the log, and the lost one is revoked for good", async () => {
  const logUrl = temporaryLogUrl();
  const lost = await during(logUrl, WITHOUT_KEYS, async (_service, made) => made[0] as string);
  const words = ["keys", "add", "rescue", "--scope", "operate", "--json"];
  const rescue = JSON.parse((await runCli(words, { EVENT_LOG_URL: logUrl })).out).key;
  expect(rescue).toMatch(/^[\w-]{43}$/);
  await during(logUrl, WITHOUT_KEYS, async (service, made) => {
    expect(made).toEqual([]);
    expect(await statusesFor(service, rescue)).toEqual([200, 200]);
    const init = { method: "DELETE", headers: { "x-api-key": rescue } };
    expect((await service.fetch("/api/keys/first", init)).status).toBe(200);
    expect(await statusesFor(service, lost)).toEqual([401, 401]);
  });
  await during(logUrl, WITHOUT_KEYS, async (service, made) => {
    expect(made).toEqual([]);
    expect(await statusesFor(service, lost)).toEqual([401, 401]);
    expect(await statusesFor(service, rescue)).toEqual([200, 200]);
  });
});

test("can be lost: a key of OPERATOR_KEYS adds another one, and is not needed afterwards", async () => {
  const logUrl = temporaryLogUrl();
  await during(logUrl, WITHOUT_KEYS, async () => undefined);
  const env = { ...WITHOUT_KEYS, OPERATOR_KEYS: "operator-key-0123456789" };
  const added = await during(logUrl, env, async (service) => {
    const headers = { "x-api-key": "operator-key-0123456789" };
    const body = JSON.stringify({ name: "admin", scope: "operate" });
    return (await (await service.fetch("/api/keys", { method: "POST", headers, body })).json()) as { key: string };
  });
  await during(logUrl, WITHOUT_KEYS, async (service) => {
    expect(await statusesFor(service, added.key)).toEqual([200, 200]);
    expect(await statusesFor(service, "operator-key-0123456789")).toEqual([401, 401]);
  });
});
