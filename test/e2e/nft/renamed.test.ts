/**
 * Names, symbols and kinds that contracts change after they were indexed, on a real chain: by themselves, behind a real
 * ERC-1967 proxy, with and without an announcement. A server that saw the change and one that starts later answer alike.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, prepare, transact } from "../../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import { type RpcProxy, startRpcProxy } from "../../support/rpc-proxy.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../../support/service.ts";
import { connect } from "../../support/socket.ts";

const OPERATOR = "operator-key-of-the-test";
/** Data of `name()`: a proxy is made with some call of its logic. */
const NAME_CALL = "0x06fdde03";
const logUrl = temporaryLogUrl();
let anvil: Anvil;
let node: RpcProxy;
let service: TestService;
let alice: string;
/** Refuses calls with a state error, as a node that lacks a state. */
let isRefusing = false;
/** Requests for logs since the last reset, with their topics. */
let filters: string[][] = [];

const start = (auditMs = 3_600_000): Promise<TestService> =>
  startTestService({ rpcUrl: node.url, logUrl, auditMs, env: { OPERATOR_KEYS: OPERATOR } });

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 4 });
  alice = anvil.accounts[1] as string;
  node = await startRpcProxy(anvil.url, {
    onRequest: async ({ method, params }) => {
      if (method === "eth_getLogs") filters.push((params[0] as unknown as { topics: string[][] }).topics[0] ?? []);
      return isRefusing && method === "eth_call"
        ? { error: { code: -32_000, message: "header not found" } }
        : undefined;
    },
  });
  service = await start();
}, 300_000);

beforeEach(() => {
  isRefusing = false;
  filters = [];
});

afterAll(async () => {
  await service?.stop();
  await node?.stop();
  await anvil?.stop();
});

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const make = async (name: string, args: readonly unknown[] = []) => deploy(anvil, await contractArtifact(name), args);
const mined = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

/** A real ERC-1967 proxy over a logic. */
async function proxied(name: string): Promise<Deployed> {
  const { address, blockNumber } = await make("NftProxy", [(await make(name)).address, NAME_CALL]);
  return { address, blockNumber, contract: contractAt(anvil, address, (await contractArtifact(name)).abi) };
}

interface Named {
  readonly name: string;
  readonly symbol: string;
}

/** The names on a page, in the collection's row, and in the list of collections. */
async function namesOf(at: TestService, address: string): Promise<Named[]> {
  const headers = { "x-api-key": OPERATOR };
  const page = await synced(at, address);
  const { body: row } = await at.get(`/api/collections/eth/${address}`, headers);
  const { body: list } = await at.get("/api/collections?limit=500", headers);
  const listed = list.result.find((one: Body) => one.address === address.toLowerCase());
  return [page.body.result[0], row, listed].map(({ name, symbol }: Named) => ({ name, symbol }));
}

const isNamed = (address: string, name: string, symbol: string, at = service): Promise<true> =>
  eventually(`${address} is named ${name} (${symbol})`, async () => {
    const names = await namesOf(at, address);
    return names.every((one) => one.name === name && one.symbol === symbol) ? true : undefined;
  });

const refresh = (address: string) =>
  service.fetch(`/api/collections/eth/${address}/refresh`, {
    method: "POST",
    headers: { "x-api-key": OPERATOR, "content-type": "application/json" },
    body: "{}",
  });

async function eventsOf(address: string): Promise<string[]> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const events = await log.read(nftStream(1, address.toLowerCase() as Address));
  await log.close();
  return events.map(({ event }) => event.type);
}

async function indexed(deployed: Deployed, name = "", symbol = ""): Promise<void> {
  await transact(anvil, deployed.contract, "mint", [alice, 1]);
  await synced(service, deployed.address, await mined());
  await isNamed(deployed.address, name, symbol);
}

test("a name that was set in silence shows after a refresh, on a warm and on a cold server alike", async () => {
  const { address, contract, blockNumber } = await make("RenamedNft");
  await indexed({ address, contract, blockNumber });
  await transact(anvil, contract, "rename", [bytes("Late Name"), bytes("LATE"), false]);
  // Metadata of its token is there once it was asked for; before that a refresh has nothing to fetch again.
  await refresh(address);
  await isNamed(address, "Late Name", "LATE");
  await service.stop();
  service = await start();
  expect(await namesOf(service, address)).toEqual(Array(3).fill({ name: "Late Name", symbol: "LATE" }));
  const fresh = await startTestService({
    rpcUrl: node.url,
    logUrl: temporaryLogUrl(),
    env: { OPERATOR_KEYS: OPERATOR },
  });
  try {
    expect(await namesOf(fresh, address)).toEqual(await namesOf(service, address));
  } finally {
    await fresh.stop();
  }
});

test("a refresh writes an event only if something changed", async () => {
  const { address, contract, blockNumber } = await make("RenamedNft");
  await indexed({ address, contract, blockNumber });
  await transact(anvil, contract, "rename", [bytes("Once"), bytes("ONE"), false]);
  for (let i = 0; i < 3; i++) await refresh(address);
  await isNamed(address, "Once", "ONE");
  await refresh(address);
  expect((await eventsOf(address)).filter((type) => type === "ContractRenamed")).toHaveLength(1);
});

test("ContractURIUpdated has the name read again, and subscribers' versions and pages agree", async () => {
  const { address, contract, blockNumber } = await make("RenamedNft");
  await indexed({ address, contract, blockNumber });
  const socket = await connect(service);
  socket.send({ action: "subscribe", chain: "eth", address });
  await transact(anvil, contract, "rename", [bytes("Announced"), bytes("ANN"), true]);
  await isNamed(address, "Announced", "ANN");
  await transact(anvil, contract, "mint", [alice, 2]);
  const moved = await eventually("the later transfer is told", async () =>
    socket.messages.find(({ type, tokenIds }) => type === "transfers" && (tokenIds as string[]).includes("2")),
  );
  const types = await eventsOf(address);
  expect(types[Number(moved["version"]) - 1]).toBe("TransfersCommitted");
  expect(types.filter((type) => type === "ContractRenamed")).toHaveLength(1);
  socket.socket.close();
});

test("the rules of spam judge a new name", async () => {
  const { address, contract, blockNumber } = await make("RenamedNft");
  await indexed({ address, contract, blockNumber });
  await transact(anvil, contract, "rename", [bytes("Visit claim-prize.com"), bytes("X"), true]);
  await eventually("it is flagged", async () => {
    const { body } = await synced(service, address);
    return body.result[0].possible_spam === "true" ? true : undefined;
  });
  await transact(anvil, contract, "rename", [bytes("Plain"), bytes("X"), true]);
  await eventually("the flag is lifted", async () => {
    const { body } = await synced(service, address);
    return body.result[0].possible_spam === "false" ? true : undefined;
  });
});

test("the name goes back with a block that is reorganised away", async () => {
  const { address, contract, blockNumber } = await make("RenamedNft");
  await indexed({ address, contract, blockNumber });
  await transact(anvil, contract, "rename", [bytes("Lost"), bytes("LOST"), true]);
  await isNamed(address, "Lost", "LOST");
  const other = await prepare(contract, "mint", [alice, 9]);
  await reorg(anvil, 1, [{ block: 0, from: alice, to: address, data: other.data }]);
  await isNamed(address, "", "");
});

test("an upgrade of an ERC-1967 proxy has the name read again", async () => {
  const proxy = await proxied("RenamedNft");
  await indexed(proxy);
  await transact(anvil, proxy.contract, "upgrade", [(await make("OtherLogic")).address]);
  await isNamed(proxy.address, "Other", "OTH");
  // The filter of the followed blocks has the new topics, in one request for all contracts.
  const upgraded = "0xbc7cd75a20ee27fd9adebab32cf741912214bc3dd0f0e7f5bd4b54afd48d2b5b".slice(0, 10);
  expect(filters.flat().some((topic) => topic.startsWith(upgraded))).toBe(true);
});

test("a name without UTF-8, an empty one, and one that reverts are told as they are", async () => {
  const { address, contract, blockNumber } = await make("RenamedNft");
  await indexed({ address, contract, blockNumber });
  await transact(anvil, contract, "rename", ["0x41ff42", "0xfe", true]);
  await isNamed(address, "A\ufffdB", "\ufffd");
  await transact(anvil, contract, "mute", [true]);
  await isNamed(address, "", "");
  await transact(anvil, contract, "mute", [false]);
  await isNamed(address, "A\ufffdB", "\ufffd");
});

test("a node that fails leaves the name as it is", async () => {
  const { address, contract, blockNumber } = await make("RenamedNft");
  await indexed({ address, contract, blockNumber });
  await transact(anvil, contract, "rename", [bytes("Kept"), bytes("KEPT"), true]);
  await isNamed(address, "Kept", "KEPT");
  isRefusing = true;
  await refresh(address);
  isRefusing = false;
  expect(await namesOf(service, address)).toEqual(Array(3).fill({ name: "Kept", symbol: "KEPT" }));
});

test("an upgrade that adds a standard has the collection indexed anew, with the logs of both kinds", async () => {
  const proxy = await proxied("EarlyLogic");
  await indexed(proxy, "Early", "");
  const amounts = contractAt(anvil, proxy.address, (await contractArtifact("AmountsLogic")).abi);
  await transact(anvil, proxy.contract, "upgrade", [(await make("AmountsLogic")).address]);
  await transact(anvil, amounts, "mintAmount", [alice, 7, 5]);
  const rows = await eventually("both kinds are listed", async () => {
    const { body } = await synced(service, proxy.address);
    return body.result.length === 2 ? body.result : undefined;
  });
  expect(rows.map((row: Body) => [row.token_id, row.contract_type, row.amount, row.owner_of, row.name])).toEqual([
    ["1", "ERC721", "1", alice.toLowerCase(), "Amounts"],
    ["7", "ERC1155", "5", alice.toLowerCase(), "Amounts"],
  ]);
  expect((await eventsOf(proxy.address)).filter((type) => type === "ReindexRequested")).toHaveLength(1);
});

test("logs of another kind have the collection indexed anew, although the contract claims no standard", async () => {
  const proxy = await proxied("EarlyLogic");
  await indexed(proxy, "Early", "");
  const silent = contractAt(anvil, proxy.address, (await contractArtifact("SilentLogic")).abi);
  // The storage of the proxy changes without an upgrade event.
  const slot = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc";
  const logic = (await make("SilentLogic")).address;
  await anvil.send("anvil_setStorageAt", [proxy.address, slot, `0x${logic.slice(2).padStart(64, "0")}`]);
  await transact(anvil, silent, "mint", [alice, 8]);
  const rows = await eventually("both tokens are listed", async () => {
    const { body } = await synced(service, proxy.address);
    return body.result.length === 2 ? body.result : undefined;
  });
  expect(rows.map((row: Body) => row.token_id)).toEqual(["1", "8"]);
});

test("the self-audit reads a name again that was set in silence", async () => {
  const { address, contract, blockNumber } = await make("RenamedNft");
  await indexed({ address, contract, blockNumber });
  await service.stop();
  service = await start(20);
  await synced(service, address);
  await transact(anvil, contract, "rename", [bytes("Audited"), bytes("AUD"), false]);
  await isNamed(address, "Audited", "AUD");
});
