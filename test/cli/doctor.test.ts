/**
 * `doctor` refuses what a start refuses, with the same words, and keeps nothing. Each case is given to a real start, too.
 */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { archiveOfNode, startArchive } from "../support/archive.ts";
import { spawnService } from "../support/process.ts";
import { type Intervention, type RpcCall, startRpcProxy } from "../support/rpc-proxy.ts";

const MAIN = join(import.meta.dir, "../../src/main.ts");
const root = mkdtempSync(join(tmpdir(), "doctor-"));
const PRLIMIT = Bun.which("prlimit");

let anvil: Anvil;
beforeAll(async () => {
  anvil = await startAnvil();
});
afterAll(async () => {
  await anvil?.stop();
  rmSync(root, { recursive: true, force: true });
});

let folders = 0;
/** A folder of a case, with an environment whose log is in it. */
function place(): { folder: string; env: Record<string, string> } {
  const folder = join(root, String(++folders));
  mkdirSync(folder);
  const env = {
    EVENT_LOG_URL: `sqlite://${join(folder, "data", "events.db")}`,
    RPC_URLS_ONLY: "true",
    RPC_URL_ETH: anvil.url,
    PORT: "0",
  };
  return { folder, env };
}

const below = (folder: string): string[] => readdirSync(folder, { recursive: true }).map(String).sort();

/** @param limit words of the shell before the program, such as a limit of the system */
async function doctor(env: Record<string, string>, limit = "") {
  const child = Bun.spawn(["sh", "-c", `${limit} exec "$0" "$1" doctor`, process.execPath, MAIN], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out, err };
}

/** What a start says that is refused; "" if it serves. */
async function refusedStart(env: Record<string, string>): Promise<string> {
  const service = spawnService({ API_KEYS: "test-key-0123456789", ...env });
  try {
    await service.serving;
    return "";
  } catch {
    return service.stderr();
  } finally {
    service.kill("SIGTERM");
    await service.exited;
  }
}

test("passes a healthy place, and keeps nothing there", async () => {
  const { folder, env } = place();
  const { code, out } = await doctor(env);
  expect([out, code]).toEqual([out, 0]);
  expect(out).toMatch(/✓ event log: sqlite, made by the first start, .* free\n/);
  expect(out).toMatch(/✓ snapshots: .* can be written\n/);
  expect(out).toContain("✓ variables: set: EVENT_LOG_URL, PORT, RPC_URLS_ONLY, RPC_URL_ETH\n");
  expect(out).toMatch(/✓ address: 127\.0\.0\.1:0 is free\n/);
  expect(out).toContain("✓ eth#1: gives the logs of all blocks at once\n");
  // The chain has no old block yet, so nothing is said of its state.
  expect(out).not.toContain("old blocks");
  expect(below(folder)).toEqual([]);
});

interface Case {
  readonly name: string;
  readonly variable: string;
  readonly content: string | undefined;
  readonly says: RegExp;
}

const CASES: readonly Case[] = [
  ...["SPAM_LIST", "VERIFIED_LIST", "NAME_LIST", "PRICE_LIST", "TOKEN_LISTS"].map((variable) => ({
    ...{ name: `${variable} that is missing`, variable, content: undefined, says: new RegExp(variable) },
  })),
  { name: "SPAM_LIST with no address", variable: "SPAM_LIST", content: "eth,nothing\n", says: /SPAM_LIST/ },
  {
    name: "VERIFIED_LIST with an unknown chain",
    variable: "VERIFIED_LIST",
    content: `moon,0x${"1".repeat(40)}\n`,
    says: /VERIFIED_LIST/,
  },
  { name: "NAME_LIST without names", variable: "NAME_LIST", content: "nothing\n", says: /NAME_LIST/ },
  { name: "PRICE_LIST that is no JSON", variable: "PRICE_LIST", content: "{", says: /PRICE_LIST/ },
  { name: "TOKEN_LISTS with a file of another kind", variable: "TOKEN_LISTS", content: "[]", says: /TOKEN_LISTS/ },
];

test.each(CASES.map((one) => [one.name, one] as const))(
  "refuses %s, as a start does",
  async (_name, { variable, content, says }) => {
    const { folder, env } = place();
    const path = join(folder, "list");
    if (content !== undefined) writeFileSync(path, content);
    const before = below(folder);
    const { code, out } = await doctor({ ...env, [variable]: path });
    expect([out, code]).toEqual([out, 1]);
    const [, fault = ""] = /✗ list files: (.*)\n/.exec(out) ?? [];
    expect(fault).toMatch(says);
    expect(below(folder)).toEqual(before);
    // The same words.
    expect(await refusedStart({ ...env, [variable]: path })).toContain(
      fault.replace(/https:\/\/\S+/, "https://[redacted]"),
    );
  },
);

test("tells the faults of all lists at once", async () => {
  const { folder, env } = place();
  const { out } = await doctor({ ...env, SPAM_LIST: join(folder, "a"), PRICE_LIST: join(folder, "b") });
  expect([...out.matchAll(/✗ list files: (\w+)/g)].map(([, name]) => name)).toEqual(["SPAM_LIST", "PRICE_LIST"]);
});

test.skipIf(PRLIMIT === null)("refuses the place of a new log on a full disk, as a start does", async () => {
  const { folder, env } = place();
  // Files of at most four kilobytes. A write beyond it fails like a write beyond a quota.
  const { code, out } = await doctor(env, 'trap "" XFSZ; ulimit -f 8;');
  expect([out, code]).toEqual([out, 1]);
  expect(out).toMatch(/✗ event log: .*events\.db: there is no log, and .* takes none: /);
  expect(below(folder)).toEqual([]);
});

test("refuses a place of a new log that takes no files", async () => {
  const { folder, env } = place();
  writeFileSync(join(folder, "data"), "a file in place of the folder");
  const { code, out } = await doctor(env);
  expect([code, out]).toEqual([1, expect.stringContaining("✗ event log: ")]);
  expect(await refusedStart(env)).not.toBe("");
});

test("refuses a folder for snapshots that can't be written", async () => {
  const { folder, env } = place();
  writeFileSync(join(folder, "file"), "");
  const { code, out } = await doctor({ ...env, SNAPSHOT_DIR: join(folder, "file", "snapshots") });
  expect([code, out]).toEqual([1, expect.stringMatching(/✗ snapshots: .*\n +Set SNAPSHOT_DIR to a folder/)]);
  expect(below(folder)).toEqual(["file"]);
});

test("refuses a log of a newer release, and leaves one of an older release as it is", async () => {
  const { folder, env } = place();
  const path = join(folder, "data", "events.db");
  await (await openLog(`sqlite://${path}`, systemClock, silentLogger)).close();
  const change = (statement: string) => {
    const db = new Database(path);
    db.run(statement);
    db.run("PRAGMA journal_mode = DELETE");
    db.close();
  };
  change("DELETE FROM migrations WHERE id > 1");
  const before = readFileSync(path);
  const old = await doctor(env);
  expect([old.code, old.out]).toEqual([0, expect.stringContaining("sqlite, brought up to date by the first start")]);
  expect(readFileSync(path).equals(before)).toBe(true);
  change("INSERT INTO migrations VALUES (99, 0)");
  const { code, out } = await doctor(env);
  expect([code, out]).toEqual([1, expect.stringContaining("the event log has schema 99")]);
  expect(await refusedStart(env)).toContain("the event log has schema 99");
});

test("refuses an unfinished copy, as a start does", async () => {
  const { folder, env } = place();
  const log = await openLog(`sqlite://${join(folder, "data", "events.db")}`, systemClock, silentLogger);
  await log.setting("copy-unfinished", () => "yes");
  await log.close();
  const { code, out } = await doctor(env);
  expect([code, out]).toEqual([1, expect.stringContaining("a copy into this log has not ended")]);
  expect(await refusedStart(env)).toContain("a copy into this log has not ended");
});

test("refuses an address that another program has, as a start does", async () => {
  const { env } = place();
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const taken = { ...env, PORT: String((server.address() as net.AddressInfo).port) };
  const { code, out } = await doctor(taken);
  expect([code, out]).toEqual([1, expect.stringMatching(/✗ address: 127\.0\.0\.1:\d+ is in use by another program/)]);
  expect(await refusedStart(taken)).not.toBe("");
  server.close();
});

test.skipIf(!existsSync("/proc/self/limits"))("says if the system allows few open files", async () => {
  const { env } = place();
  const few = await doctor(env, "ulimit -n 256;");
  expect([few.code, few.out]).toEqual([1, expect.stringMatching(/✗ open files: at most 256, .+\n +Raise the limit/)]);
  const some = await doctor(env, "ulimit -n 2048;");
  expect([some.code, some.out]).toEqual([0, expect.stringMatching(/! open files: at most 2,048/)]);
});

test("says that an option is missing where it was refused, and that it is not known where the request got no answer", async () => {
  await anvil.mine(1);
  let decision: Intervention = { error: { code: 429, message: "too many requests" } };
  const isOption = ({ method, params }: RpcCall) =>
    ["eth_getBlockReceipts", "eth_getBalance", "eth_getLogs"].includes(method) ||
    params[0] === "finalized" ||
    (method === "eth_call" && (params[0] as { to?: string }).to === undefined);
  const proxy = await startRpcProxy(anvil.url, { onRequest: (call) => (isOption(call) ? decision : undefined) });
  try {
    const { env } = place();
    const optionsIn = async () => {
      const { out } = await doctor({ ...env, RPC_URL_ETH: proxy.url });
      return out
        .split("\n")
        .filter((line) => /contract|eceipts|finalized|logs|state/.test(line) && /^[!✓✗]/.test(line));
    };
    const limited = await optionsIn();
    expect(limited).toHaveLength(5);
    for (const unknown of [
      "how many blocks of logs it gives at once",
      "whether it has the state of old blocks",
      "whether it runs calls without a contract",
      "whether it gives the receipts of a block",
      "whether it knows the finalized block",
    ]) {
      expect(limited).toContainEqual(expect.stringContaining(`! eth#1: ${unknown} is not known: `));
    }
    decision = { error: { code: -32601, message: "the method does not exist" } };
    expect(await optionsIn()).toEqual([
      "✗ eth#1: gives no logs",
      "! eth#1: has no state of old blocks",
      "! eth#1: refuses calls without a contract",
      "! eth#1: has no eth_getBlockReceipts",
      "! eth#1: doesn't know the finalized tag",
    ]);
  } finally {
    await proxy.stop();
  }
});

test("says what a narrow node that dropped old blocks costs, and whether the archive answers", async () => {
  await anvil.mine(40);
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      if (method !== "eth_getLogs") return undefined;
      const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
      if (Number(fromBlock) < 12) return { error: { code: 4444, message: "pruned history unavailable" } };
      const blocks = Number(toBlock) - Number(fromBlock) + 1;
      return blocks > 10 ? { error: { code: -32600, message: "up to a 10 block range" } } : undefined;
    },
  });
  const archive = await startArchive(archiveOfNode(anvil.url));
  try {
    const { env } = place();
    const own = { ...env, RPC_URL_ETH: proxy.url };
    const { out } = await doctor({ ...own, ARCHIVE_URL_ETH: archive.url });
    expect(out).toContain("5,000,000 blocks take 500,000 calls here, and a few hundred with an archive.");
    expect(out).toContain("! eth#1: history_pruned: it has no logs before block 12\n");
    expect(out).toContain("✓ archive eth#1: has blocks up to ");
    archive.isGone = true;
    const gone = await doctor({ ...own, ARCHIVE_URL_ETH: archive.url });
    expect(gone.out).toMatch(/✗ archive eth#1: .*503.*\n {4}Check entry 1 of ARCHIVE_URL_ETH/);
    expect(gone.code).toBe(1);
    const without = await doctor({ ...own, ARCHIVE_URL_ETH: "off" });
    expect(without.out).toContain("or set ARCHIVE_URL_ETH.");
  } finally {
    await Promise.all([proxy.stop(), archive.stop()]);
  }
});

test("names variables that are likely mistyped, and those that an open address would gain by", async () => {
  const { env } = place();
  const { out } = await doctor({
    ...env,
    HOST: "0.0.0.0",
    METRICS_KEY: "a-metrics-key-of-ours",
    RATE_LIMIT_PER_MINUT: "5",
  });
  expect(out).toContain(
    "! variables: RATE_LIMIT_PER_MINUT is no variable of this service: did you mean RATE_LIMIT_PER_MINUTE?\n",
  );
  expect(out).toContain("✓ variables: PUBLIC_URL is unset: ");
  expect(out).not.toContain("METRICS_KEY is unset");
  expect(out).not.toContain("a-metrics-key-of-ours");
});
