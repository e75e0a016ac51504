/** A chain is added by one entry in `chains.ts`: a copy of the sources with such an entry compiles, and serves the chain. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { spawnService } from "../support/process.ts";
import { eventually, TEST_KEY } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
const CHAIN_ID = 424_242;
const ENTRY = `  {
    name: "new land",
    chainId: ${CHAIN_ID},
    native: { name: "Acre", symbol: "ACR", decimals: 18 },
    wrappedNative: token("WACR", "0x${"1a".repeat(20)}", 18),
    stablecoins: [stable("USDC", "0x${"2b".repeat(20)}", 6)],
    blockSeconds: 2,
    finalityDepth: 16,
    endpoints: [],
  },
`;
const END = "] as const satisfies readonly ChainFacts[];";

let checkout: string;
let anvil: Anvil;
beforeAll(async () => {
  checkout = mkdtempSync(join(tmpdir(), "new-chain-"));
  cpSync(join(ROOT, "src"), join(checkout, "src"), { recursive: true });
  for (const name of ["package.json", "tsconfig.json"]) cpSync(join(ROOT, name), join(checkout, name));
  symlinkSync(join(ROOT, "node_modules"), join(checkout, "node_modules"));
  const file = join(checkout, "src/chains/chains.ts");
  const source = readFileSync(file, "utf8");
  expect(source.split(END)).toHaveLength(2);
  writeFileSync(file, source.replace(END, ENTRY + END));
  anvil = await startAnvil({ chainId: CHAIN_ID, slotsInAnEpoch: 4 });
});
afterAll(async () => {
  await anvil?.stop();
  rmSync(checkout, { recursive: true, force: true });
});

test("the sources compile with it", async () => {
  const run = Bun.spawn([process.execPath, "x", "tsc", "--noEmit"], { cwd: checkout, stdout: "pipe", stderr: "pipe" });
  expect([await new Response(run.stdout).text(), await run.exited]).toEqual(["", 0]);
});

test("the service indexes the chain, by its name and by its code, and documents it", async () => {
  const { address, contract } = await deploy(anvil, await contractArtifact("PlainNft"), ["Land", "LND"]);
  await transact(anvil, contract, "mintMany", [anvil.accounts[1], 1, 3]);
  await anvil.mine(20);
  const env = { API_KEYS: TEST_KEY, RPC_URL_NEW_LAND: anvil.url, RPC_URLS_ONLY: "true" };
  const service = spawnService({ ...env, EVENT_LOG_URL: `sqlite://${join(checkout, "events.db")}` }, { checkout });
  const base = await service.serving;
  const get = async (path: string) => {
    const response = await fetch(`${base}${path}`, { headers: { "x-api-key": TEST_KEY } });
    return (await response.json()) as { status: string; result: { name: string }[]; message?: string; paths: object };
  };
  for (const chain of ["new%20land", "NEW%20LAND", `0x${CHAIN_ID.toString(16)}`]) {
    const page = await eventually("the collection is synced", async () => {
      const answer = await get(`/api/v2/nft/${address}?chain=${chain}`);
      return answer.status === "SYNCED" ? answer : undefined;
    });
    expect(page.result.map(({ name }) => name)).toEqual(["Land", "Land", "Land"]);
  }
  expect((await get(`/api/v2/nft/${address}?chain=nowhere`)).message).toContain("new land");
  expect(JSON.stringify((await get("/swagger/json")).paths)).toContain('"new land"');
  service.kill("SIGTERM");
  expect(await service.exited).toBe(0);
});
