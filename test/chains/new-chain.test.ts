/** A chain that is in no list: a file of the operator's has it indexed, priced and documented. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, placeCode, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { CHAINS, MULTICALL3 } from "../../src/chains/chains.ts";
import { type ConfigError, readConfig } from "../../src/config.ts";
import type { Address } from "../../src/core/hex.ts";
import { createPool, newToken, placeV2Factory } from "../support/prices/exchanges.ts";
import { spawnService } from "../support/process.ts";
import { eventually, TEST_KEY } from "../support/service.ts";

const CHAIN_ID = 424_242;
const [NATIVE, DOLLAR] = [`0x${"1a".repeat(20)}`, `0x${"2b".repeat(20)}`] as [Address, Address];
const FACTORY = `0x${"3c".repeat(20)}` as Address;
const ETHER = 10n ** 18n;

/** As an operator writes it, in less than thirty lines. */
const FILE = `[
  {
    "name": "new land",
    "aliases": ["land"],
    "chainId": ${CHAIN_ID},
    "native": { "name": "Acre", "symbol": "ACR", "decimals": 18 },
    "wrappedNative": { "symbol": "WACR", "address": "${NATIVE}", "decimals": 18 },
    "stablecoins": [{ "symbol": "USDC", "address": "${DOLLAR}", "decimals": 18 }],
    "multicall3": "${MULTICALL3}",
    "blockSeconds": 2,
    "finalityDepth": 16,
    "exchanges": [
      { "name": "Land Swap", "style": "v2", "factory": "${FACTORY}", "fees": [3000] }
    ]
  }
]
`;

let folder: string;
let anvil: Anvil;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "new-chain-"));
  anvil = await startAnvil({ chainId: CHAIN_ID, slotsInAnEpoch: 4 });
});
afterAll(async () => {
  await anvil?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function written(text: string): Promise<string> {
  const path = join(folder, `${crypto.randomUUID()}.json`);
  await Bun.write(path, text);
  return path;
}

/** A pool of a token with the native coin at two dollars. Returns the token, worth a quarter of the coin. */
async function makeMarket(): Promise<Address> {
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  await placeV2Factory(anvil, FACTORY);
  const { abi, deployedBytecode } = await contractArtifact("TestToken");
  for (const address of [NATIVE, DOLLAR]) await placeCode(anvil, address, deployedBytecode);
  await inOneBlock(anvil, async () => {
    for (const [address, symbol] of [
      [NATIVE, "WACR"],
      [DOLLAR, "USDC"],
    ] as const)
      await queue(anvil, contractAt(anvil, address, abi), "init", [symbol, symbol, 18]);
  });
  const token = await newToken(anvil);
  const at = { factory: FACTORY, style: "v2" } as const;
  await createPool(anvil, at, { tokenA: NATIVE, amountA: 10_000n * ETHER, tokenB: DOLLAR, amountB: 20_000n * ETHER });
  await createPool(anvil, at, { tokenA: NATIVE, amountA: 1_000n * ETHER, tokenB: token, amountB: 4_000n * ETHER });
  return token;
}

test("is indexed, priced and documented by an entry of an operator's file", async () => {
  expect(FILE.split("\n").length).toBeLessThanOrEqual(30);
  const { address, contract } = await deploy(anvil, await contractArtifact("PlainNft"), ["Land", "LND"]);
  await transact(anvil, contract, "mintMany", [anvil.accounts[1], 1, 3]);
  const token = await makeMarket();
  await anvil.mine(20);
  const env = {
    API_KEYS: TEST_KEY,
    RPC_URL_NEW_LAND: anvil.url,
    RPC_URLS_ONLY: "true",
    CHAINS_FILE: await written(FILE),
  };
  const service = spawnService({ ...env, EVENT_LOG_URL: `sqlite://${join(folder, "events.db")}` });
  const base = await service.serving;
  const get = async (path: string) => {
    const response = await fetch(`${base}${path}`, { headers: { "x-api-key": TEST_KEY } });
    // biome-ignore lint/suspicious/noExplicitAny: pages, prices, refusals and a document
    return (await response.json()) as any;
  };
  for (const chain of ["new%20land", "NEW%20LAND", "land", `0x${CHAIN_ID.toString(16)}`]) {
    const page = await eventually("the collection is synced", async () => {
      const answer = await get(`/api/v2/nft/${address}?chain=${chain}`);
      return answer.status === "SYNCED" ? answer : undefined;
    });
    expect(page.result.map(({ name }: { name: string }) => name)).toEqual(["Land", "Land", "Land"]);
  }
  const price = await get(`/api/v2/erc20/${token}/price?chain=land&include=provenance&exchange=landswap`);
  expect(price).toMatchObject({ usdPrice: 0.5, exchangeName: "Land Swap", exchangeAddress: FACTORY });
  expect(price.nativePrice).toMatchObject({ value: (ETHER / 4n).toString(), symbol: "ACR" });
  expect((await get(`/api/v2/nft/${address}?chain=nowhere`)).message).toContain("new land");
  expect(JSON.stringify((await get("/swagger/json")).paths)).toContain('"new land"');
  service.kill("SIGTERM");
  expect(await service.exited).toBe(0);
});

test("has every error of its file told at once, with the line and the reason", async () => {
  const broken = FILE.replace('"chainId": 424242', '"chainId": "424242"')
    .replace('"style": "v2"', '"style": "v9"')
    .replace('"blockSeconds": 2,\n', "")
    .replace('"finalityDepth": 16', '"finalityDepth": 16, "colour": "red"')
    .replace(NATIVE, "0x12");
  const path = await written(broken);
  const problems = (): readonly string[] => {
    try {
      readConfig({ CHAINS_FILE: path, RPC_URL_NEW_LAND: "http://127.0.0.1:1", RPC_URLS_ONLY: "true" });
    } catch (error) {
      return (error as ConfigError).problems;
    }
    return [];
  };
  const told = problems();
  for (const expected of [
    /^CHAINS_FILE: line 5: chainId: /,
    /^CHAINS_FILE: line 7: wrappedNative\.address: must be an address, lower case$/,
    /^CHAINS_FILE: line 2: blockSeconds: /,
    /^CHAINS_FILE: line 10: colour: /,
    /^CHAINS_FILE: line 12: exchanges\.0\.style: must be one of v2, /,
  ])
    expect(told.some((problem) => expected.test(problem)) ? expected : told).toBe(expected);
  expect(told).toHaveLength(5);
});

test("is refused if its id or name is a built-in chain's, and may replace one by its name", async () => {
  const own = (change: object) => written(JSON.stringify([{ ...JSON.parse(FILE)[0], ...change }]));
  const refused = async (change: object) => {
    const path = await own(change);
    return expect(() => readConfig({ CHAINS_FILE: path }));
  };
  (await refused({ chainId: 1 })).toThrow("chainId: 1 is eth's");
  (await refused({ aliases: ["op"] })).toThrow("op: is a name of the built-in chain optimism");
  (await refused({ name: "0x1" })).toThrow("0x1: is a name of the built-in chain eth");
  expect(() => readConfig({ CHAINS_FILE: join(folder, "none.json") })).toThrow(
    "CHAINS_FILE: the file cannot be read: ENOENT",
  );
  const { chains, warnings } = readConfig({
    CHAINS_FILE: await own({ name: "eth", chainId: 1 }),
    RPC_URL_ETH: anvil.url,
  });
  expect(warnings).toContain("CHAINS_FILE replaces the built-in chain eth");
  expect(chains.find(({ chain }) => chain.name === "eth")?.chain.native.symbol).toBe("ACR");
  // The next configuration without a file has the built-in chains again.
  expect(readConfig({}).chains.map(({ chain }) => chain.name)).toEqual(
    CHAINS.filter(({ endpoints }) => endpoints.length > 0).map(({ name }) => name),
  );
});
