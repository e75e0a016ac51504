/** `export --proofs` and the one command that verifies both files, without a service and without a node. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { runCli } from "../support/cli.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";
const folder = mkdtempSync(join(tmpdir(), "proven-export-"));
let anvil: Anvil;
let service: TestService;
let nft: Deployed;
let multi: Deployed;

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 120]);
  await transact(anvil, nft.contract, "move", [anvil.accounts[1], anvil.accounts[2], 7]);
  await transact(anvil, nft.contract, "burn", [9]);
  multi = await deploy(anvil, await contractArtifact("MultiToken"), ["Multi", "MUL", ""]);
  for (const owner of [1, 2, 3]) await transact(anvil, multi.contract, "mint", [anvil.accounts[owner], 1, owner * 5]);
  await transact(anvil, multi.contract, "mint", [anvil.accounts[1], 2, 1]);
  await anvil.mine(4);
  service = await startTestService({
    ...{ rpcUrl: anvil.url, logUrl: temporaryLogUrl() },
    env: { FINALITY_DEPTH_ETH: "2", OPERATOR_KEYS: OPERATOR },
  });
  for (const { address } of [nft, multi]) await synced(service, address, Number(await anvil.send("eth_blockNumber")));
});

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const run = (...words: string[]) => runCli(words, { SERVICE_KEY: OPERATOR }, folder);
const url = () => ["--url", `http://127.0.0.1:${service.port}`];

test("an export says what its proofs show, in each format that is text, with one owner a token and with many", async () => {
  for (const [{ address }, format, tokens] of [
    [nft, "csv", 119],
    [nft, "jsonl", 119],
    [multi, "csv", 2],
  ] as const) {
    const file = `${address}.${format}`;
    const exported = await run("export", address, "--format", format, "--output", file, "--proofs", ...url());
    expect([exported.code, exported.err]).toEqual([0, ""]);
    expect(exported.out).toContain(`check both: proof verify ${file}.proofs.jsonl --export ${file}`);
    const words = ["proof", "verify", `${file}.proofs.jsonl`, "--export", file, "--json"];
    const { code, out } = await run(...words);
    const { verified, tokens: count, block, differences } = JSON.parse(out);
    expect({ code, verified, count, differences }).toEqual({ code: 0, verified: true, count: tokens, differences: [] });
    expect((await run(...words, "--hash", block.hash)).code).toBe(0);
    expect((await run(...words, "--hash", `0x${"11".repeat(32)}`)).err).toContain("line 1, proves nothing");
  }
});

test("a file that was changed, or that lacks a row, is told apart, and so is a changed proof", async () => {
  const file = join(folder, `${nft.address}.csv`);
  const honest = readFileSync(file, "utf8");
  const [one, other] = [anvil.accounts[1] as string, anvil.accounts[2] as string];
  const verify = (name: string, proofs = `${nft.address}.csv.proofs.jsonl`) =>
    run("proof", "verify", proofs, "--export", name);
  await Bun.write(join(folder, "changed.csv"), honest.replace(one, other));
  const changed = await verify("changed.csv");
  expect([changed.code, changed.err]).toEqual([
    1,
    expect.stringContaining(`token 1: the file says ${other}, the proof ${one}`),
  ]);
  const lines = honest.split("\r\n");
  await Bun.write(join(folder, "short.csv"), [...lines.slice(0, 4), ...lines.slice(5)].join("\r\n"));
  expect((await verify("short.csv")).err).toContain("token 4 is not in the file");
  const proofs = readFileSync(`${file}.proofs.jsonl`, "utf8");
  await Bun.write(join(folder, "forged.proofs.jsonl"), proofs.replace(one.slice(2), other.slice(2)));
  expect((await verify(`${nft.address}.csv`, "forged.proofs.jsonl")).err).toContain("proves nothing");
});

test("proofs need a service with endpoints, a file, and rows of tokens", async () => {
  const refused = async (...words: string[]) => (await run("export", nft.address, "--proofs", ...words)).err.trim();
  expect(await refused(...url())).toBe("--proofs needs --output: they are a second file");
  expect(await refused("--output", "x.csv")).toBe("--proofs needs --url: a service with endpoints");
  expect(await refused("--output", "x.csv", "--holders", ...url())).toBe(
    "--proofs goes with a row per token, as csv or jsonl",
  );
});
