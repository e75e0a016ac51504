/**
 * Contracts found to be no NFT and requested later: they are identified anew, for the same or new code at the address,
 * but not within ten minutes. Also exact counts of anomalies, and the end of a walk. The test controls the clock.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, transact } from "../../../scripts/local-chain/contracts.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { createLogger } from "../../../src/core/logger.ts";
import { nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import { ZERO } from "../../support/nft-kinds.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../../support/service.ts";

const TEN_MINUTES = 600_000;
const logUrl = temporaryLogUrl();
/** Time by which the clock is ahead of real time, in ms. */
let ahead = 0;
const clock: Clock = { ...systemClock, now: () => systemClock.now() + ahead };
let anvil: Anvil;
let service: TestService;
let alice: string;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  await anvil.mine(8);
  alice = (anvil.accounts[1] as string).toLowerCase();
  service = await startTestService({ rpcUrl: anvil.url, logUrl, clock });
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const get = (address: string, query = "") => service.get(`/api/v2/nft/${address}?disable_total=false${query}`);

async function eventTypes(address: string): Promise<string[]> {
  const log = await openLog(logUrl, systemClock, createLogger("silent"));
  try {
    return (await log.read(nftStream(1, address.toLowerCase() as Address))).map(({ event }) => event.type);
  } finally {
    await log.close();
  }
}

const statusIs = (address: string, status: number, word?: string) =>
  eventually(`${address} answers ${status} ${word ?? ""}`, async () => {
    const answer = await get(address);
    return answer.status === status && (word === undefined || answer.body.status === word) ? answer : undefined;
  });

test("identifies an address anew at most every ten minutes: empty, then a token, then an NFT", async () => {
  const address = `0x${"d1".repeat(20)}`;
  const first = await get(address);
  expect([first.status, first.body.status, first.body.total]).toEqual([200, "SYNCING", "0"]);
  expect((await statusIs(address, 404)).body).toMatchObject({ code: "not_a_contract" });

  // The address gets code. For ten minutes the earlier result stays.
  const token = await contractArtifact("Multicall");
  await anvil.send("anvil_setCode", [address, `0x${token.deployedBytecode.replace(/^0x/, "")}`]);
  await anvil.mine(4);
  ahead += TEN_MINUTES - 30_000;
  for (let i = 0; i < 5; i++) expect((await get(address)).status).toBe(404);
  // An address without code and logs leaves no trace.
  expect(await eventTypes(address)).toEqual([]);

  ahead += 30_000;
  const { body } = await statusIs(address, 200, "SYNCED");
  expect(body).toEqual({ status: "SYNCED", total: "0", page: "0", page_size: "100", cursor: null, result: [] });
  expect(await eventTypes(address)).toEqual(["IndexingRequested", "ContractIdentified"]);

  // A second change of code: the address behaves as an NFT contract.
  const emitter = await contractArtifact("Emitter");
  await anvil.send("anvil_setCode", [address, `0x${emitter.deployedBytecode.replace(/^0x/, "")}`]);
  await transact(anvil, contractAt(anvil, address, emitter.abi), "emitTransfers", [5, 3, ZERO, alice]);
  await anvil.mine(4);
  for (let i = 0; i < 5; i++) expect((await get(address)).body.result).toEqual([]);
  ahead += TEN_MINUTES;
  // Many clients request it at once. Only one new identification results.
  await Promise.all(Array.from({ length: 20 }, () => get(address)));
  const listed = await eventually("the NFTs are listed", async () => {
    const answer = await get(address);
    return answer.body.status === "SYNCED" && answer.body.total === "3" ? answer : undefined;
  });
  expect(listed.body.result.map((record: { token_id: string }) => record.token_id)).toEqual(["5", "6", "7"]);
  expect((await eventTypes(address)).filter((type) => type === "ContractIdentified")).toHaveLength(2);
}, 300_000);

async function emitter(): Promise<Deployed> {
  const made = await deploy(anvil, await contractArtifact("Emitter"));
  for (const id of ["0x01ffc9a7", "0x80ac58cd"]) await transact(anvil, made.contract, "setInterface", [id, true]);
  return made;
}

const anomalies = async () => {
  const text = await (await service.fetch("/metrics")).text();
  return Number(/^transfer_anomalies (\d+)$/m.exec(text)?.[1]);
};

test("follows a transfer by an account that is not the owner, and counts exactly one anomaly", async () => {
  const before = await anomalies();
  const odd = await emitter();
  const [bob, carol] = [anvil.accounts[2] as string, anvil.accounts[3] as string];
  await transact(anvil, odd.contract, "emitTransfers", [1, 2, ZERO, alice]);
  await transact(anvil, odd.contract, "emitTransfers", [1, 1, bob, carol]);
  await transact(anvil, odd.contract, "emitTransfers", [2, 1, alice, bob]);
  // A transfer of more than the sender holds. The missing amount is taken as minted to the sender.
  await transact(anvil, odd.contract, "emitSingle", [bob, bob, carol, 9, 4]);
  const { body } = await synced(service, odd.address, Number(await anvil.send("eth_blockNumber")), "&holders=true");
  const rows = body.result.map((r: Record<string, string>) => [r["token_id"], r["owner_of"], r["amount"]]);
  expect(rows).toEqual([
    ["1", carol.toLowerCase(), "1"],
    ["2", bob.toLowerCase(), "1"],
    ["9", carol.toLowerCase(), "4"],
  ]);
  expect((await anomalies()) - before).toBe(2);
});

test("gives the last page no cursor, even if it is full", async () => {
  const plain = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await transact(anvil, plain.contract, "mintMany", [alice, 1, 12]);
  for (const id of [4, 12]) await transact(anvil, plain.contract, "burn", [id]);
  await synced(service, plain.address, Number(await anvil.send("eth_blockNumber")));
  for (const [limit, pages] of [
    [10, 1],
    [5, 2],
    [3, 4],
    [1, 10],
    [9, 2],
    [500, 1],
  ] as const) {
    let cursor: string | null = "";
    let seen = 0;
    for (let page = 0; page < pages; page++) {
      const { body } = await get(plain.address, `&limit=${limit}${cursor === "" ? "" : `&cursor=${cursor}`}`);
      expect([body.page, body.page_size]).toEqual([String(page), String(limit)]);
      seen += body.result.length;
      cursor = body.cursor;
      expect(cursor === null).toBe(page === pages - 1);
    }
    expect(seen).toBe(10);
  }
});

test("keeps the place, the first mint and the first receiver of a token that is minted again", async () => {
  const plain = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  const minted = await transact(anvil, plain.contract, "mintMany", [alice, 1, 3]);
  await transact(anvil, plain.contract, "burn", [2]);
  const bob = anvil.accounts[2] as string;
  const again = await transact(anvil, plain.contract, "mint", [bob, 2]);
  const { body } = await synced(service, plain.address, Number(again.blockNumber));
  expect(body.result.map((record: { token_id: string }) => record.token_id)).toEqual(["1", "2", "3"]);
  expect(body.result[1]).toMatchObject({
    owner_of: bob.toLowerCase(),
    block_number: String(Number(again.blockNumber)),
    block_number_minted: String(Number(minted.blockNumber)),
    minter_address: alice,
    amount: "1",
  });
});
