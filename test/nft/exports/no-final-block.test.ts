/** Exports without a block, of collections that no final block has: over HTTP, and by the command line over the log. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../../scripts/local-chain/contracts.ts";
import { runCli } from "../../support/cli.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../../support/service.ts";

const folder = mkdtempSync(join(tmpdir(), "young-export-"));
const logUrl = temporaryLogUrl();
let anvil: Anvil;
let service: TestService;
let minted: Deployed;
let unminted: Deployed;
let burned: Deployed;
let head: number;

beforeAll(async () => {
  // The node calls block 0 final until there are two epochs.
  anvil = await startAnvil();
  minted = await deploy(anvil, await contractArtifact("PlainNft"), ["Minted", "M"]);
  unminted = await deploy(anvil, await contractArtifact("PlainNft"), ["Unminted", "U"]);
  burned = await deploy(anvil, await contractArtifact("PlainNft"), ["Burned", "B"]);
  for (const id of [1n, 2n, 3n]) await transact(anvil, minted.contract, "mint", [anvil.accounts[1], id]);
  await transact(anvil, burned.contract, "mint", [anvil.accounts[1], 1n]);
  await transact(anvil, burned.contract, "burn", [1n]);
  service = await startTestService({ rpcUrl: anvil.url, logUrl });
  head = Number(await anvil.send("eth_blockNumber"));
  for (const { address } of [minted, unminted, burned]) await synced(service, address);
  await synced(service, minted.address, head);
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Data rows of a file. */
async function rowsOf(bytes: Uint8Array<ArrayBuffer>, format: string): Promise<number> {
  if (format === "parquet") return (await parquetReadObjects({ file: bytes.buffer })).length;
  const lines = new TextDecoder()
    .decode(bytes)
    .trimEnd()
    .split(/\r?\n/)
    .filter((line) => line !== "");
  return format === "csv" ? lines.length - 1 : lines.length;
}

test.each([
  ["csv", false, 3],
  ["csv", true, 1],
  ["jsonl", false, 3],
  ["jsonl", true, 1],
  ["parquet", false, 3],
  ["parquet", true, 1],
] as const)("take the newest shown block: %s, holders %p", async (format, holders, rows) => {
  const answer = await service.fetch(
    `/api/collections/eth/${minted.address}/export?format=${format}&holders=${holders}`,
  );
  expect([answer.status, answer.headers.get("x-as-of-block"), answer.headers.get("x-finality")]).toEqual([
    200,
    String(head),
    "latest",
  ]);
  expect(await rowsOf(new Uint8Array(await answer.arrayBuffer()), format)).toBe(rows);
  const output = join(folder, `${format}-${holders}`);
  const words = ["export", minted.address, "--format", format, "--output", output, ...(holders ? ["--holders"] : [])];
  const run = await runCli(words, { EVENT_LOG_URL: logUrl });
  expect([run.code, run.err, run.out]).toEqual([0, "", expect.stringContaining(`at block ${head} `)]);
  expect(await rowsOf(new Uint8Array(readFileSync(output)), format)).toBe(rows);
});

test("are refused before the first mint, with the way out", async () => {
  const path = `/api/collections/eth/${unminted.address}/export`;
  const { status, body } = await service.get(path);
  expect([status, body]).toEqual([
    404,
    { code: "not_found", message: expect.stringContaining("after its first mint") },
  ]);
  for (const over of [[], ["--url", service.url]]) {
    const run = await runCli(["export", unminted.address, ...over], {
      EVENT_LOG_URL: logUrl,
      SERVICE_KEY: "test-key-0123456789",
    });
    expect([run.code, run.out, run.err]).toEqual([1, "", expect.stringContaining("after its first mint")]);
  }
  expect((await service.fetch(`${path}?as_of_block=${head}`)).status).toBe(200);
});

test("have no rows if all tokens were burned", async () => {
  const answer = await service.fetch(`/api/collections/eth/${burned.address}/export`);
  expect([answer.status, await rowsOf(new Uint8Array(await answer.arrayBuffer()), "csv")]).toEqual([200, 0]);
});
