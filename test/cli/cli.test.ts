/** The command line as operators use it: the real program, against a real chain, over both ways to the data. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { latentProxy } from "../support/latency.ts";
import { schemaFaults } from "../support/schemas.ts";
import { eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
const COUNT = 12;

let anvil: Anvil;
let logUrl: string;
const addresses: string[] = [];

interface Result {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command to its end. */
async function cli(words: readonly string[], env: Record<string, string> = {}): Promise<Result> {
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), ...words], {
    cwd: ROOT,
    env: {
      PATH: process.env["PATH"] ?? "",
      EVENT_LOG_URL: logUrl,
      RPC_URL_ETH: anvil.url,
      RPC_URLS_ONLY: "true",
      ...env,
    },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out, err };
}

beforeAll(async () => {
  anvil = await startAnvil();
  logUrl = temporaryLogUrl();
  const artifact = await contractArtifact("PlainNft");
  for (let index = 0; index < COUNT; index++) {
    const nft = await deploy(anvil, artifact, [`Collection ${index}`, "C"]);
    await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
    addresses.push(nft.address);
  }
  await anvil.mine(2);
});
afterAll(() => anvil?.stop());

test("shows help and version, and refuses unknown words with the nearest one", async () => {
  const help = await cli(["--help"]);
  expect([help.code, help.err]).toEqual([0, ""]);
  for (const name of ["serve", "status", "collections", "index", "inspect", "keys"])
    expect(help.out).toContain(`\n  ${name} `);
  expect((await cli(["index", "--help"])).out).toContain("--file <path>");
  expect((await cli(["--version"])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  const wrong = async (...words: string[]) => {
    const { code, out, err } = await cli(words);
    return [code, out, err.trim()];
  };
  expect(await wrong("stauts")).toEqual([64, "", "unknown command stauts: did you mean status?"]);
  expect(await wrong("keys", "ad", "x")).toEqual([64, "", "unknown action ad: did you mean add?"]);
  expect(await wrong("index", "--wiat")).toEqual([64, "", "unknown option --wiat: did you mean --wait?"]);
  expect(await wrong("index", "0x12")).toEqual([64, "", "0x12: not an address"]);
  expect(await wrong("status", "--url", "http://127.0.0.1:9")).toEqual([
    64,
    "",
    expect.stringContaining("SERVICE_KEY"),
  ]);
  const unreachable = await cli(["status", "--url", "http://127.0.0.1:9"], { SERVICE_KEY: "key-0123456789" });
  expect([unreachable.code, unreachable.err]).toEqual([69, expect.stringContaining("can't be reached")]);
  const bad = await cli(["status"], { PORT: "x" });
  expect([bad.code, bad.err]).toEqual([78, expect.stringContaining("PORT")]);
});

test("indexes a list to the end without a running service, then tells what the log has", async () => {
  const list = join(logUrl.slice("sqlite://".length), "../list.txt");
  await Bun.write(list, `# contracts\n${addresses.join("\n")}\neth, 0x${"00".repeat(19)}99\n`);
  const done = await cli(["index", "--file", list, "--wait"]);
  expect([done.code, done.err]).toEqual([0, ""]);
  const rows = done.out.trim().split("\n");
  expect(rows[0]).toMatch(/^CHAIN +ADDRESS +NAME +STATUS +NFTS +TRANSFERS +CALLS +TIME +METADATA$/);
  expect(rows.filter((row) => row.includes("complete"))).toHaveLength(COUNT);
  expect(rows.filter((row) => row.includes("no contract"))).toHaveLength(1);
  const listed = JSON.parse((await cli(["collections", "--text", "collection 1", "--json"])).out);
  expect(listed.map(({ name }: { name: string }) => name).sort()).toEqual([
    "Collection 1",
    "Collection 10",
    "Collection 11",
  ]);
  expect((await cli(["status"])).out).toContain(`${COUNT} complete`);
  const told = await cli(["inspect", addresses[0] as string]);
  expect(told.out).toMatch(
    /v1 .* requested\nv2 .* identified at block \d+: "Collection 0" \(C\)[\s\S]* transfers of blocks [\s\S]*complete at block/,
  );
  expect((await cli(["inspect", `0x${"12".repeat(20)}`])).code).toBe(1);
});

test("talks to a running service with a key, and names a key that is refused", async () => {
  const operator = "operator-key-0123456789";
  const service: TestService = await startTestService({ rpcUrl: anvil.url, logUrl, env: { OPERATOR_KEYS: operator } });
  const root = `http://127.0.0.1:${service.port}`;
  const over = (words: readonly string[], key = operator) => cli([...words, "--url", root], { SERVICE_KEY: key });
  try {
    const status = await over(["status", "--json"]);
    expect(await schemaFaults(service, "ServiceStatus", JSON.parse(status.out))).toEqual([]);
    const collections = JSON.parse((await over(["collections", "--json"])).out);
    expect(await schemaFaults(service, "CollectionList", { cursor: null, result: collections })).toEqual([]);
    expect((await over(["status"])).out).toMatch(
      /\neth reading new blocks · head [\d,]+ of [\s\S]*\n {2}eth#1 available · /,
    );
    expect(await over(["index", addresses[0] as string])).toMatchObject({
      code: 0,
      out: `eth ${addresses[0]}  complete\n`,
    });
    const [collection = ""] = addresses;
    expect(await over(["refresh", collection, "1", "x"])).toMatchObject({
      code: 64,
      err: expect.stringContaining("x"),
    });
    expect(await over(["reindex", collection])).toMatchObject({ code: 0, out: `eth ${collection}  is indexed anew\n` });
    expect((await over(["remove", collection])).code).toBe(0);
    expect((await over(["collections", "--status", "removed"])).out).toContain(collection);
    // Without --url the change is written to the log, and the running service acts on it.
    expect((await cli(["reindex", collection])).code).toBe(0);
    await eventually("it is followed again", async () => {
      const [listed] = JSON.parse((await over(["collections", "--text", collection, "--json"])).out);
      return listed.status === "following" ? true : undefined;
    });
    expect(await cli(["reindex", `0x${"34".repeat(20)}`])).toMatchObject({ code: 1 });
    const { key } = JSON.parse((await over(["keys", "add", "shop", "--rpm", "60", "--json"])).out);
    expect((await service.fetch(`/api/v2/nft/${addresses[0]}`, { headers: { "x-api-key": key } })).status).toBe(200);
    expect(await over(["keys", "list"], key)).toMatchObject({
      code: 77,
      err: expect.stringContaining("scope operate"),
    });
    expect((await over(["keys", "list"])).out).toMatch(/\nshop +read +log +60 /);
    expect((await over(["keys", "rotate", "shop", "--grace", "1h"])).code).toBe(0);
    expect((await over(["keys", "revoke", "shop"])).out).toBe("revoked shop\n");
    expect(await over(["keys", "revoke", "shop"])).toMatchObject({ code: 1, err: expect.stringContaining("no key") });
    // Without --url the key is written to the log, and the running service accepts it.
    const own = JSON.parse((await cli(["keys", "add", "admin", "--scope", "operate", "--json"])).out).key;
    await eventually("the service knows the key", async () =>
      (await over(["keys"], own)).code === 0 ? true : undefined,
    );
  } finally {
    await service.stop();
  }
});

test("moves a bar in a terminal while a history is read, and leaves only the table at the end", async () => {
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Long", "L"]);
  await anvil.mine(400);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
  await anvil.mine(100);
  const proxy = await latentProxy(anvil.url, 100, ({ method, params }) => {
    if (method !== "eth_getLogs") return undefined;
    const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
    const isWide = Number(toBlock) - Number(fromBlock) >= 10;
    return isWide
      ? { error: { code: -32_000, message: "block range is too large, the limit is 10 blocks" } }
      : undefined;
  });
  let shown = "";
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), "index", nft.address, "--wait"], {
    cwd: ROOT,
    env: {
      ...{ PATH: process.env["PATH"] ?? "", TERM: "xterm", RPC_URLS_ONLY: "true" },
      ...{ EVENT_LOG_URL: temporaryLogUrl(), RPC_URL_ETH: proxy.url },
    },
    terminal: {
      cols: 160,
      rows: 40,
      data: (_terminal, bytes) => {
        shown += Buffer.from(bytes).toString();
      },
    },
  });
  expect(await child.exited).toBe(0);
  await proxy.stop();
  const percents = [...shown.matchAll(/[█░]{20} +(\d+) %/g)].map((match) => Number(match[1]));
  expect(new Set(percents).size).toBeGreaterThan(2);
  expect([...percents].sort((a, b) => a - b)).toEqual(percents);
  expect(shown.slice(shown.lastIndexOf("\x1b[J"))).toMatch(/"?Long"? +complete +1 +1 /);
});

test("names the faults of endpoints and of the log, with the way out", async () => {
  const wrong = { RPC_URL_POLYGON: anvil.url, RPC_URL_BSC: "http://127.0.0.1:9/secret-path" };
  const { code, out, err } = await cli(["doctor"], wrong);
  expect([code, err]).toEqual([1, ""]);
  expect(out).toMatch(/✓ event log: sqlite, .* free, no process holds a lease/);
  expect(out).toMatch(
    /✓ eth#1: head [\d,]+, \d+ ms\n[\s\S]*✓ eth#1: takes batches\n✓ eth#1: gives the logs of all blocks at once/,
  );
  expect(out).toMatch(
    /✗ polygon#1: the endpoint is of chain 1, not of chain 137\n {4}Check RPC_URL_POLYGON, entry 1\./,
  );
  expect(out).toMatch(/✗ bsc#1: .*connection refused\n {4}Check RPC_URL_BSC, entry 1\./);
  expect(out).not.toContain("secret-path");
  const noLog = await cli(["doctor", "--json"], { EVENT_LOG_URL: "sqlite:///proc/nope/e.db" });
  const findings = JSON.parse(noLog.out) as { what: string; result: string; advice?: string }[];
  expect(findings.find(({ what }) => what === "event log")).toMatchObject({
    result: "fault",
    advice: "Check EVENT_LOG_URL.",
  });
});

test("doctor gives different advice for a refused key and for a rate limit", async () => {
  const adviceFor = async (status: number) => {
    const server = Bun.serve({ port: 0, fetch: () => new Response("no", { status }) });
    const env = { RPC_URL_ETH: `http://127.0.0.1:${server.port}`, RPC_URLS_ONLY: "true" };
    const { out } = await cli(["doctor", "--json"], env);
    await server.stop(true);
    const findings = JSON.parse(out) as { what: string; result: string; advice?: string }[];
    return findings.find(({ what, result }) => what === "eth#1" && result === "fault")?.advice ?? "";
  };
  const [key, rate] = [await adviceFor(401), await adviceFor(429)];
  expect(key).toContain("check the key");
  expect(rate).toContain("FOLLOW_EVERY");
  for (const advice of [key, rate]) expect(advice).toContain("RPC_URL_ETH, entry 1");
});
