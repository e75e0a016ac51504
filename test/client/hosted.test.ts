/** The client's methods for the operations in the hosted service's form: each gives what a plain request gives, walks included. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { type Collections, seedCollections } from "../../scripts/local-chain/collections.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { operationsOf } from "../../src/api/app.ts";
import { Client } from "../../src/client/client.ts";
import {
  type Body,
  metadataKnown,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

let anvil: Anvil;
let collections: Collections;
let market: Market;
let service: TestService;
let client: Client;
let plain: string;
let multi: string;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 28 * 3_600, slotsInAnEpoch: 2 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  collections = await seedCollections(anvil);
  await anvil.mine(6);
  [plain, multi] = [collections.plain.address.toLowerCase(), collections.multi.address.toLowerCase()];
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  for (const address of [plain, multi]) await synced(service, address);
  await metadataKnown(service, plain, multi);
  client = new Client({ url: service.url, key: TEST_KEY });
}, 120_000);
afterAll(async () => {
  client?.close();
  await service?.stop();
  await anvil?.stop();
});

/** An answer without what the client adds, beside the same of a plain request. */
const same = async (answer: Promise<object>, path: string): Promise<void> => {
  const { asOf: _, ...own } = (await answer) as Body;
  const { body } = await service.get(path);
  expect(Array.isArray(body) ? Object.values(own) : own).toEqual(Array.isArray(body) ? Object.values(body) : body);
};

test("there is a method for each operation of scope read", () => {
  const folder = join(import.meta.dir, "../../src/client");
  const files = readdirSync(folder).filter((name) => name.endsWith(".ts") && name !== "types.ts");
  const text = files.map((name) => readFileSync(join(folder, name), "utf8")).join("\n");
  // A socket and the protocol of models have clients of their own, sync has a method by PUT, and proofs go by `call`.
  const others = ["subscribe", "mcp", "syncNFTContractByGet", "proveToken", "listKeptProofs"];
  const missing = operationsOf(500).filter(
    ({ scope, id, method, path }) => scope === "read" && !others.includes(id) && !text.includes(`"${method} ${path}"`),
  );
  expect(missing.map(({ id }) => id)).toEqual([]);
});

test("single answers are those of the service", async () => {
  const { hosted } = client;
  const [[id]] = [...collections.plain.owners] as [[bigint, string]];
  await same(hosted.contract(plain), `/api/v2/nft/${plain}/metadata`);
  await same(hosted.nft(plain, id, { normalizeMetadata: true }), `/api/v2/nft/${plain}/${id}?normalizeMetadata=true`);
  await same(hosted.sync(plain), `/api/v2/nft/${plain}/sync`);
  await same(
    hosted.tokens([market.demo.address, MAINNET.usdc]),
    `/api/v2/erc20/metadata?addresses=${market.demo.address},${MAINNET.usdc}`,
  );
  const tokens = [market.demo.address, MAINNET.weth] as const;
  await same(hosted.pair(tokens, "uniswapv2"), `/api/v2/${tokens[0]}/${tokens[1]}/pairAddress?exchange=uniswapv2`);
  await same(hosted.reserves(market.v2.DEMO.address), `/api/v2/${market.v2.DEMO.address}/reserves`);
  const date = new Date(Date.now() - 20 * 3_600_000);
  await same(hosted.blockAt(date), `/api/v2/dateToBlock?date=${date.toISOString()}`);
  await same(hosted.version(), "/api/v2/web3/version");
  expect((await hosted.resync(plain, id)).status).toBe("submitted");
  const many = await hosted.nfts({
    tokens: [
      { token_address: plain, token_id: `${id}` },
      { token_address: plain, token_id: "999999" },
    ],
  });
  expect(
    Object.values(many)
      .slice(0, 2)
      .map((one) => (one as Body)?.token_id ?? null),
  ).toEqual([`${id}`, null]);
});

test("walks yield all that the service has", async () => {
  const { hosted } = client;
  const all = async (rows: AsyncIterable<unknown>) => (await Array.fromAsync(rows)).length;
  const [sharedId, shared] = [...collections.multi.balances].find(([, held]) => held.size > 2)!;
  const [[id, owner]] = [...collections.plain.owners] as [[bigint, string]];
  expect(await all(hosted.owners(plain, { limit: 50 }))).toBe(collections.plain.owners.size);
  expect(await all(hosted.nftOwners(multi, sharedId, { limit: 1 }))).toBe(shared.size);
  const moves = await all(client.transfers({ address: plain }, { limit: 100 }));
  expect(await all(hosted.transfers(plain, { limit: 30, order: "ASC" }))).toBe(moves);
  const ofToken = await all(client.tokenTransfers({ address: plain }, id));
  expect(await all(hosted.nftTransfers(plain, id, { limit: 1 }))).toBe(ofToken);
  const held = [...collections.plain.owners.values()].filter((one) => one === owner).length;
  const heldHere = await all(hosted.wallet(owner, { limit: 7, token_addresses: [plain] }));
  expect(heldHere).toBe(held);
  expect(await all(hosted.walletCollections(owner, { limit: 1 }))).toBe(2);
});
