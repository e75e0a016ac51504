/** A chain beyond the contract's twelve for which the operator gave no endpoint sleeps until it is first asked for. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { startServiceProcess } from "../support/process.ts";
import { eventually } from "../support/service.ts";

const CHAIN_ID = 424_243;
const KEY = "an-operators-key";

let folder: string;
let [eth, land]: (Anvil | undefined)[] = [];
/** Requests that the sleeping chain's published endpoint has got. */
let requests = 0;
let endpoint: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sleeping-"));
  [eth, land] = await Promise.all([startAnvil({ chainId: 1 }), startAnvil({ chainId: CHAIN_ID })]);
  const { url } = land!;
  endpoint = Bun.serve({
    port: 0,
    fetch: async (request) => {
      requests++;
      const body = await request.text();
      return fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
    },
  });
});
afterAll(async () => {
  await Promise.all([eth?.stop(), land?.stop(), endpoint?.stop(true)]);
  rmSync(folder, { recursive: true, force: true });
});

test("it has no line at start and no request until a client asks for it, and works then", async () => {
  const { address, contract } = await deploy(land!, await contractArtifact("PlainNft"), ["Land", "LND"]);
  await transact(land!, contract, "mintMany", [land!.accounts[1], 1, 3]);
  await land!.mine(20);
  const entry = {
    name: "quiet land",
    chainId: CHAIN_ID,
    native: { name: "Acre", symbol: "ACR", decimals: 18 },
    wrappedNative: { symbol: "WACR", address: `0x${"1a".repeat(20)}`, decimals: 18 },
    stablecoins: [],
    connectors: [],
    blockSeconds: 2,
    finalityDepth: 16,
    endpoints: [`http://127.0.0.1:${endpoint.port}`],
    exchanges: [],
  };
  const path = join(folder, "chains.json");
  writeFileSync(path, JSON.stringify([entry]));
  const twelve = ["GOERLI", "SEPOLIA", "POLYGON", "MUMBAI", "BSC", "BSC_TESTNET", "AVALANCHE", "FANTOM", "PALM"];
  const service = await startServiceProcess({
    CHAINS_FILE: path,
    RPC_URL_ETH: eth!.url,
    ...Object.fromEntries([...twelve, "CRONOS", "ARBITRUM"].map((name) => [`RPC_URL_${name}`, "off"])),
    OPERATOR_KEYS: KEY,
    LOG_LEVEL: "info",
    EVENT_LOG_URL: `sqlite://${join(folder, "events.db")}`,
  });
  const chains = async () => {
    const response = await fetch(`${service.base}/api/status`, { headers: { "x-api-key": KEY } });
    return ((await response.json()) as { chains: { name: string }[] }).chains.map(({ name }) => name);
  };
  await eventually("the endpoint of eth is introduced", async () => service.stderr().includes("eth#1") || undefined);
  expect(await chains()).toEqual(["eth"]);
  const metrics = await (await fetch(`${service.base}/metrics`)).text();
  expect(metrics).not.toContain("quiet-land");
  expect(requests).toBe(0);
  expect(service.stderr()).not.toContain("quiet");
  expect(service.stderr()).not.toContain("base#1");

  const list = async () => (await (await service.get(`/api/v2/nft/${address}?chain=quiet%20land`)).json()) as object;
  await eventually("the collection is synced", async () => {
    const answer = (await list()) as { status: string; result: unknown[] };
    return answer.status === "SYNCED" && answer.result.length === 3 ? answer : undefined;
  });
  expect(requests).toBeGreaterThan(0);
  expect(await chains()).toEqual(["eth", "quiet land"]);
  service.kill("SIGTERM");
  expect(await service.exited).toBe(0);
});
