/** `export` as an operator uses it: the real program, over a running service and over its log. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { runCli } from "../support/cli.ts";
import { startTestService, synced, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const folder = mkdtempSync(join(tmpdir(), "export-"));
const logUrl = temporaryLogUrl();
let anvil: Anvil;
let service: TestService;
let nft: Deployed;
let past: number;

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  for (let id = 1n; id <= 5n; id++) await transact(anvil, nft.contract, "mint", [anvil.accounts[Number(id % 2n)], id]);
  past = Number(await anvil.send("eth_blockNumber"));
  await transact(anvil, nft.contract, "mint", [anvil.accounts[0], 6n]);
  await anvil.mine(4);
  service = await startTestService({ rpcUrl: anvil.url, logUrl, env: { FINALITY_DEPTH_ETH: "2" } });
  await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const run = (...words: string[]) =>
  runCli(["export", nft.address, ...words], {
    ...{ EVENT_LOG_URL: logUrl, RPC_URL_ETH: anvil.url, RPC_URLS_ONLY: "true", SERVICE_KEY: TEST_KEY },
  });

test("gives the same file over a running service and over its log, in every format", async () => {
  const over = ["--url", `http://127.0.0.1:${service.port}`];
  for (const words of [["--format", "csv"], ["--format", "jsonl", "--as-of", String(past)], ["--holders"]]) {
    const [remote, own] = [await run(...words, ...over), await run(...words)];
    expect([remote.code, remote.err, own.code, own.err]).toEqual([0, "", 0, ""]);
    const unfetched = (text: string) => text.replaceAll(/"?\d{4}-\d\d-\d\dT[^,"]*"?/g, "");
    expect(unfetched(own.out)).toBe(unfetched(remote.out));
  }
  expect((await run("--format", "jsonl", "--as-of", String(past))).out.trimEnd().split("\n")).toHaveLength(5);
  expect((await run("--holders")).out.split("\r\n").slice(0, 2)).toEqual([
    "rank,owner,tokens,units,share",
    `1,${anvil.accounts[1]?.toLowerCase()},3,3,0.5`,
  ]);
});

test("writes a file under its final name only when it is complete, and says what it is true at", async () => {
  const { code, out } = await run("--format", "parquet", "--output", folder, "--json");
  const told = JSON.parse(out);
  expect([code, told.chain, told.finality, told.block_hash.length]).toEqual([0, "eth", "finalized", 66]);
  const bytes = new Uint8Array(readFileSync(told.file));
  expect(bytes.length).toBe(told.bytes);
  expect(await parquetReadObjects({ file: bytes.buffer })).toHaveLength(6);
  expect(existsSync(`${told.file}.part`)).toBe(false);
});

test("refuses with words and an exit code", async () => {
  const refusal = async (...words: string[]) => {
    const { code, err } = await run(...words);
    return [code, err.trim()];
  };
  expect(await refusal("--format", "xls")).toEqual([64, "--format: must be one of csv, jsonl, parquet"]);
  expect(await refusal("--json")).toEqual([64, expect.stringContaining("--output")]);
  expect(await refusal("--as-of", "99999999")).toEqual([64, expect.stringContaining("must not be above")]);
  const over = ["--url", `http://127.0.0.1:${service.port}`];
  expect(await refusal("--as-of", "99999999", ...over)).toEqual([64, expect.stringContaining("must not be above")]);
  expect(await refusal(...over, "--key", "wrong-key-0123")).toEqual([77, expect.stringContaining("not valid")]);
});

test("refuses to write binary to a terminal", async () => {
  let shown = "";
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, "../../src/main.ts"), "export", nft.address, "--format=parquet"],
    {
      env: { PATH: process.env["PATH"] ?? "", EVENT_LOG_URL: logUrl, RPC_URLS_ONLY: "true", RPC_URL_ETH: anvil.url },
      terminal: {
        data: (_terminal, bytes) => {
          shown += Buffer.from(bytes).toString();
        },
      },
    },
  );
  expect(await child.exited).toBe(64);
  expect(shown).toContain("would garble the terminal: give --output");
});
