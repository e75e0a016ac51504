/** A developer's own chain by `RPC_URL_LOCAL`: of any id, apart from every real chain, named `local` and by its id. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { spawnService } from "../support/process.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let nft: Deployed;

/** The id that anvil and Hardhat have as they come. */
const DEFAULT_ID = 31_337;

beforeAll(async () => {
  anvil = await startAnvil({ chainId: DEFAULT_ID });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Mine", "MINE"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 3]);
});
afterAll(() => anvil.stop());

async function serve(environment: Record<string, string>) {
  const service = spawnService({
    API_KEYS: TEST_KEY,
    RPC_URLS_ONLY: "true",
    EVENT_LOG_URL: temporaryLogUrl(),
    ...environment,
  });
  const base = await service.serving;
  const get = async (path: string) => {
    const response = await fetch(`${base}${path}`, { headers: { "x-api-key": TEST_KEY } });
    // biome-ignore lint/suspicious/noExplicitAny: pages and refusals
    return { status: response.status, body: (await response.json()) as any };
  };
  const stop = async () => {
    service.kill("SIGTERM");
    expect(await service.exited).toBe(0);
  };
  return { get, stop };
}

test("is indexed whatever its id, and answers to its name and its id", async () => {
  const { get, stop } = await serve({ RPC_URL_LOCAL: anvil.url });
  for (const chain of ["local", `0x${DEFAULT_ID.toString(16)}`]) {
    const page = await eventually("the collection is synced", async () => {
      const { body } = await get(`/api/v2/nft/${nft.address}?chain=${chain}`);
      return body.status === "SYNCED" ? body : undefined;
    });
    expect(page.result.map(({ name }: { name: string }) => name)).toEqual(["Mine", "Mine", "Mine"]);
  }
  expect((await get(`/api/v2/erc20/${nft.address}/price?chain=local`)).status).toBe(404);
  expect((await get(`/api/v2/nft/${nft.address}?chain=0x1`)).body).toMatchObject({ code: "chain_not_enabled" });
  await stop();
});

test("that began anew is noticed, and indexed anew by itself", async () => {
  // Nodes of one second have one genesis block, and are one chain that was reorganised.
  const now = Math.floor(Date.now() / 1_000);
  const before = await startAnvil({ chainId: DEFAULT_ID, genesisTimestamp: now - 60 });
  // A developer's node comes back at the same address.
  let node = before;
  const address = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch: async (request) => fetch(node.url, { method: "POST", body: await request.text(), headers: request.headers }),
  });
  const first = await deploy(before, await contractArtifact("PlainNft"), ["Before", "ONE"]);
  await transact(before, first.contract, "mintMany", [before.accounts[1], 1, 2]);
  const { get, stop } = await serve({ RPC_URL_LOCAL: address.url.href });
  const named = (name: string, count: number) =>
    eventually(
      `it lists ${name}`,
      async () => {
        const { body } = await get(`/api/v2/nft/${first.address}?chain=local`);
        const names = body.status === "SYNCED" ? body.result.map((row: { name: string }) => row.name) : [];
        return names.length === count && names.every((one: string) => one === name) ? true : undefined;
      },
      60_000,
    );
  await named("Before", 2);
  const after = await startAnvil({ chainId: DEFAULT_ID, genesisTimestamp: now });
  node = after;
  await before.stop();
  // The same account makes a contract at the same address.
  const second = await deploy(after, await contractArtifact("PlainNft"), ["After", "TWO"]);
  expect(second.address).toBe(first.address);
  await transact(after, second.contract, "mintMany", [after.accounts[1], 1, 3]);
  await named("After", 3);
  await stop();
  await address.stop(true);
  await after.stop();
});

test("is no chain of a service without it", async () => {
  const { get, stop } = await serve({ RPC_URL_BASE: anvil.url });
  expect((await get(`/api/v2/nft/${nft.address}?chain=local`)).body).toMatchObject({ code: "invalid_parameter" });
  await stop();
});
