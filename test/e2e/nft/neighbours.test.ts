/**
 * The hosted service's client, unmodified, asks for everything around a listing: contracts of every kind, their tokens,
 * owners, transfers and wallets. The contracts' own views, and the logs decoded with their own ABI, are the truth.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, inOneBlock, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, transact } from "../../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../../scripts/local-chain/random.ts";
import { type Fact, factOf, factsAt, holderFactsAt, holdingsAt, movesOf } from "../../support/chain-truth.ts";
import { KINDS, type World } from "../../support/nft-kinds.ts";
import { schemaFaults } from "../../support/schemas.ts";
import { type SdkAnswer, type SdkCall, sdkAnswers } from "../../support/sdk-calls.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../../support/service.ts";

const BLOCKS = 30;
const PUNKS = "Punks";
const CHAIN = "0x1";

const random = createRandom(49);
const worlds: World[] = [];
let anvil: Anvil;
let service: TestService;
let multicall: Deployed;
/** By contract, its transfers in the order of the chain, and the facts of its pairs of token and owner at the head. */
const moves = new Map<string, Awaited<ReturnType<typeof movesOf>>>();
const pairs = new Map<string, Fact[]>();
let tip = 0;

const addressOf = ({ deployed }: World): string => deployed.address.toLowerCase();
const ask = (calls: readonly SdkCall[]): Promise<readonly SdkAnswer[]> => sdkAnswers(service.url, TEST_KEY, calls);
const rawOf = ({ pages, error }: SdkAnswer): Body[] => {
  expect(error).toBeUndefined();
  return pages!.flatMap(({ raw }) => raw.result);
};
const key = ({ token_id, owner_of }: { token_id: string; owner_of: string }): string => `${owner_of}/${token_id}`;
/** What the truth tells of a kind. */
const told = ({ kind: { name } }: World, facts: readonly Fact[]): Fact[] =>
  byKey(name === PUNKS ? facts.map((fact) => ({ ...fact, block_number: "", block_number_minted: "" })) : facts);
const byKey = (facts: readonly Fact[]): Fact[] =>
  facts.toSorted((a, b) => `${key(a)}/${a.contract_type}`.localeCompare(`${key(b)}/${b.contract_type}`));

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  multicall = await deploy(anvil, await contractArtifact("Multicall"));
  const people = anvil.accounts.slice(1, 6);
  for (const kind of KINDS) {
    const deployed = await kind.deploy(anvil, people);
    worlds.push({ kind, deployed, people, random, holdings: new Map(), minted: 0 });
  }
  for (const world of worlds) world.holdings = await holdingsAt(anvil, multicall, world, await blockNumber());
  for (let block = 0; block < BLOCKS; block++) {
    await inOneBlock(anvil, async () => {
      for (const world of worlds) {
        for (const { method, args, ...options } of world.kind.act(world)) {
          await queue(anvil, world.deployed.contract, method, args, options);
        }
      }
    });
  }
  await anvil.mine(3);
  tip = await blockNumber();
  for (const world of worlds) {
    const own = await movesOf(anvil, world);
    moves.set(addressOf(world), own);
    const held = await holdingsAt(anvil, multicall, world, tip);
    // PunkBought's zero buyer is missing in the log, so the log doesn't tell the pairs.
    pairs.set(addressOf(world), world.kind.name === PUNKS ? factsAt(own, held, tip) : holderFactsAt(own, held, tip));
  }
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  for (const world of worlds) await synced(service, addressOf(world), tip);
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

async function blockNumber(): Promise<number> {
  return Number(await anvil.send("eth_blockNumber"));
}

test("owners are those of the contract, one record for each token and owner, through all pages", async () => {
  const calls = worlds.map((world) => ({
    method: "nft.getNFTOwners",
    request: { address: addressOf(world), chain: CHAIN, limit: 7 },
  }));
  const answers = await ask(calls);
  for (const [at, world] of worlds.entries()) {
    const facts = rawOf(answers[at]!).map(factOf);
    expect([world.kind.name, told(world, facts)]).toEqual([world.kind.name, told(world, pairs.get(addressOf(world))!)]);
    const parsed = answers[at]!.pages!.flatMap((page) => page.parsed);
    expect(parsed.every(({ ownerOf }: Body) => /^0x[0-9a-fA-F]{40}$/.test(ownerOf))).toBe(true);
  }
});

describe("one token", () => {
  test("has the owners that the contract tells, those who came last first", async () => {
    const wanted = worlds.flatMap((world) => {
      const facts = pairs.get(addressOf(world))!;
      const ids = [...new Set(facts.map(({ token_id }) => token_id))].slice(0, 6);
      return ids.map((id) => ({ world, id, facts: facts.filter(({ token_id }) => token_id === id) }));
    });
    const answers = await ask(
      wanted.map(({ world, id }) => ({
        method: "nft.getNFTTokenIdOwners",
        request: { address: addressOf(world), tokenId: id, chain: CHAIN, limit: 2 },
      })),
    );
    for (const [at, { world, id, facts }] of wanted.entries()) {
      const found = rawOf(answers[at]!).map(factOf);
      expect([world.kind.name, id, told(world, found)]).toEqual([world.kind.name, id, told(world, facts)]);
    }
    expect(wanted.some(({ facts }) => facts.length > 2)).toBe(true);
  });

  test("is the record of the listing, and null to the client if it was burned or never was", async () => {
    const wanted = worlds.map((world) => {
      const [first] = pairs.get(addressOf(world))!;
      return { world, id: first!.token_id };
    });
    const request = ({ world, id }: (typeof wanted)[number]) => ({
      address: addressOf(world),
      tokenId: id,
      chain: CHAIN,
    });
    const answers = await ask([
      ...wanted.map((one) => ({ method: "nft.getNFTMetadata", request: request(one) })),
      { method: "nft.getNFTMetadata", request: { address: addressOf(worlds[0]!), tokenId: "987654321", chain: CHAIN } },
    ]);
    for (const [at, { world, id }] of wanted.entries()) {
      const listing = (await service.get(`/api/v2/nft/${addressOf(world)}?limit=500`)).body.result as Body[];
      const { raw } = answers[at]!.pages![0]!;
      const own = listing.find((one) => one.token_id === id && one.contract_type === raw.contract_type);
      expect([world.kind.name, factOf(raw)]).toEqual([world.kind.name, factOf(own)]);
      expect(await schemaFaults(service, "NftRecord", raw)).toEqual([]);
    }
    expect(answers.at(-1)!.pages).toBeNull();
    const path = `/api/v2/nft/${addressOf(worlds[0]!)}/0x${BigInt(wanted[0]!.id).toString(16)}?format=hex`;
    expect((await service.get(path)).body.token_id).toBe(`0x${BigInt(wanted[0]!.id).toString(16)}`);
  });

  test("is told as it was at a past block", async () => {
    const world = worlds.find(({ kind }) => kind.name === "PlainNft")!;
    const own = moves.get(addressOf(world))!;
    const moved = own.find((move) => move.from !== `0x${"00".repeat(20)}`)!;
    const before = own.findLast(({ id, block }) => id === moved.id && block < moved.block)!;
    const path = `/api/v2/nft/${addressOf(world)}/${moved.id}?as_of_block=${moved.block - 1}`;
    const { body, headers } = await service.get(path);
    expect([body.owner_of, headers.get("x-as-of-block")]).toEqual([before.to, String(moved.block - 1)]);
  });

  test("of many that are asked for at once comes in the order of the request, null where there is none", async () => {
    const wanted = worlds.map((world) => ({ world, id: pairs.get(addressOf(world))![0]!.token_id }));
    const tokens = wanted.map(({ world, id }) => ({ tokenAddress: addressOf(world), tokenId: id }));
    const nothing = [
      { tokenAddress: addressOf(worlds[0]!), tokenId: "987654321" },
      { tokenAddress: anvil.accounts[9]!, tokenId: "1" },
    ];
    const request = { tokens: [...nothing, ...tokens], chain: CHAIN, normalizeMetadata: true };
    const [answer] = await ask([{ method: "nft.getMultipleNFTs", request }]);
    const { raw, parsed } = answer!.pages![0]!;
    expect([raw.length, parsed.slice(0, 2)]).toEqual([tokens.length + 2, [null, null]]);
    for (const [at, { world, id }] of wanted.entries()) {
      const owners = pairs.get(addressOf(world))!.flatMap((fact) => (fact.token_id === id ? fact.owner_of : []));
      expect([world.kind.name, raw[at + 2].token_id, owners]).toEqual([
        world.kind.name,
        id,
        expect.arrayContaining([raw[at + 2].owner_of]),
      ]);
    }
  });
});

/** The transfers that records tell, one for each id of a range, without those that move nothing. */
const movesIn = (records: readonly Body[]) =>
  records.flatMap((one) => {
    const isRange = one.contract_type === "ERC721" && one.amount !== "1";
    const ids = isRange
      ? Array.from({ length: Number(one.amount) }, (_, i) => BigInt(one.token_id) + BigInt(i))
      : [BigInt(one.token_id)];
    const common = {
      block: Number(one.block_number),
      logIndex: one.log_index,
      transaction: one.transaction_hash,
      type: one.contract_type,
    };
    return ids.map((id) => ({
      ...common,
      from: one.from_address,
      to: one.to_address,
      id,
      amount: isRange ? 1n : BigInt(one.amount),
    }));
  });

const plainMoves = (world: World) =>
  moves.get(addressOf(world))!.map(({ block, logIndex, transaction, type, from, to, id, amount }) => {
    return { block, logIndex, transaction, type, from, to, id, amount };
  });

/** Without what the log of a kind lacks. */
const shownOf = ({ kind: { name } }: World, list: ReturnType<typeof movesIn>) =>
  inOrder(name === PUNKS ? list.map((one) => ({ ...one, to: "" })) : list);

/** In the order of the chain; the parts of one log in any order. */
const inOrder = <T extends { block: number; logIndex: number; id: bigint; amount: bigint }>(list: readonly T[]): T[] =>
  list.toSorted(
    (a, b) => a.block - b.block || a.logIndex - b.logIndex || Number(a.id - b.id) || Number(a.amount - b.amount),
  );

describe("transfers", () => {
  test("are those of the logs, with time and transaction, in both orders and through all pages", async () => {
    for (const order of ["DESC", "ASC"]) {
      const answers = await ask(
        worlds.map((world) => ({
          method: "nft.getNFTContractTransfers",
          request: { address: addressOf(world), chain: CHAIN, limit: 9, order },
        })),
      );
      for (const [at, world] of worlds.entries()) {
        const records = rawOf(answers[at]!);
        expect([world.kind.name, order, shownOf(world, movesIn(records))]).toEqual([
          world.kind.name,
          order,
          shownOf(world, plainMoves(world)),
        ]);
        const blocks = records.map(({ block_number }) => Number(block_number));
        expect(blocks).toEqual(blocks.toSorted((a, b) => (order === "ASC" ? a - b : b - a)));
        const headers = new Map(
          await Promise.all([...new Set(blocks)].map(async (block) => [block, await headerOf(block)] as const)),
        );
        for (const one of records) {
          const { hash, timestamp } = headers.get(Number(one.block_number))!;
          expect([one.block_hash, one.value]).toEqual([hash, null]);
          expect(one.block_timestamp).toBe(new Date(Number(timestamp) * 1_000).toISOString());
        }
      }
    }
  });

  test("of one token are those of its logs, in both orders", async () => {
    const wanted = worlds.map((world) => {
      const counts = Map.groupBy(plainMoves(world), ({ id }) => id);
      const [id] = [...counts].toSorted(([, a], [, b]) => b.length - a.length)[0]!;
      return { world, id };
    });
    for (const order of ["DESC", "ASC"]) {
      const answers = await ask(
        wanted.map(({ world, id }) => ({
          method: "nft.getNFTTransfers",
          request: { address: addressOf(world), tokenId: String(id), chain: CHAIN, limit: 2, order },
        })),
      );
      for (const [at, { world, id }] of wanted.entries()) {
        const expected = shownOf(
          world,
          plainMoves(world).filter((move) => move.id === id),
        );
        expect([world.kind.name, order, shownOf(world, movesIn(rawOf(answers[at]!)))]).toEqual([
          world.kind.name,
          order,
          expected,
        ]);
      }
    }
  });

  test("keep to a range of blocks or of times, and the operator of an ERC-1155 transfer is the log's", async () => {
    const world = worlds.find(({ kind }) => kind.types.length === 1 && kind.types[0] === "ERC1155")!;
    const all = plainMoves(world);
    const [from, to] = [all[Math.floor(all.length / 3)]!.block, all[Math.floor((2 * all.length) / 3)]!.block];
    const expected = inOrder(all.filter(({ block }) => block >= from && block <= to));
    const [first, last] = await Promise.all([headerOf(from), headerOf(to)]);
    const dates = { fromDate: Number(first.timestamp) * 1_000, toDate: Number(last.timestamp) * 1_000 };
    const common = { address: addressOf(world), chain: CHAIN, limit: 5 };
    const [byBlocks, rising, byDates] = await ask([
      { method: "nft.getNFTContractTransfers", request: { ...common, fromBlock: from, toBlock: to } },
      { method: "nft.getNFTContractTransfers", request: { ...common, fromBlock: from, toBlock: to, order: "ASC" } },
      { method: "nft.getNFTContractTransfers", request: { ...common, ...dates } },
    ]);
    for (const answer of [byBlocks!, rising!]) expect(inOrder(movesIn(rawOf(answer)))).toEqual(expected);
    // Blocks may share a second, so the times may take in more blocks than the numbers.
    const times = new Map(
      await Promise.all(all.map(async ({ block }) => [block, Number((await headerOf(block)).timestamp)] as const)),
    );
    const inTimes = all.filter(
      ({ block }) => times.get(block)! >= Number(first.timestamp) && times.get(block)! <= Number(last.timestamp),
    );
    expect(inOrder(movesIn(rawOf(byDates!)))).toEqual(inOrder(inTimes));
    const senders = new Set(rawOf(byBlocks!).map(({ operator }) => operator));
    expect([...senders].every((operator) => anvil.accounts.includes(operator))).toBe(true);
    const past = await service.get(`/api/v2/nft/${addressOf(world)}/transfers?from_block=${tip + 1_000}`);
    expect(past.body).toMatchObject({ result: [], cursor: null, block_exists: false, index_complete: true });
    expect(await schemaFaults(service, "HostedTransferPage", past.body)).toEqual([]);
  });
});

async function headerOf(block: number): Promise<{ hash: string; timestamp: string }> {
  return (await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false])) as {
    hash: string;
    timestamp: string;
  };
}

describe("a wallet", () => {
  /** What the contracts say of a wallet, by contract. */
  const truth = (wallet: string) =>
    worlds.flatMap((world) =>
      pairs
        .get(addressOf(world))!
        .flatMap((fact) => (fact.owner_of === wallet ? { ...fact, address: addressOf(world) } : [])),
    );

  test("has what the contracts say, over all collections that are indexed, through all pages", async () => {
    const wallets = [...worlds[0]!.people, anvil.accounts[9]!];
    const answers = await ask(
      wallets.map((address) => ({ method: "nft.getWalletNFTs", request: { address, chain: CHAIN, limit: 11 } })),
    );
    for (const [at, wallet] of wallets.entries()) {
      const found = rawOf(answers[at]!).map((one) => ({ ...factOf(one), address: one.token_address }));
      const order = (list: readonly (Fact & { address: string })[]) =>
        list.toSorted((a, b) =>
          `${a.address}/${a.token_id}/${a.contract_type}`.localeCompare(
            `${b.address}/${b.token_id}/${b.contract_type}`,
          ),
        );
      // The log of CryptoPunks does not tell when a wallet got its token.
      const punks = addressOf(worlds.find(({ kind }) => kind.name === PUNKS)!);
      const shown = (list: typeof found) =>
        list.map((one) => (one.address === punks ? { ...one, block_number: "", block_number_minted: "" } : one));
      expect(order(shown(found))).toEqual(order(shown(truth(wallet))));
    }
    const { headers } = await service.get(`/api/v2/${wallets[0]}/nft?limit=1`);
    expect(headers.get("x-covered")).toBe(`${worlds.length} collections`);
    expect(Number(headers.get("x-as-of-block"))).toBeGreaterThanOrEqual(tip);
  });

  test("has the collections that the contracts say, with counts", async () => {
    const [wallet] = worlds[0]!.people;
    const request = { address: wallet, chain: CHAIN, limit: 3, tokenCounts: true };
    const [answer] = await ask([{ method: "nft.getWalletNFTCollections", request }]);
    const counts = Map.groupBy(truth(wallet!), ({ address }) => address);
    const found = rawOf(answer!).map(({ token_address, count }) => [token_address, count]);
    expect(found.toSorted()).toEqual([...counts].map(([address, list]) => [address, list.length]).toSorted());
  });

  test("of named contracts leaves out all others, and has an unknown one indexed", async () => {
    const [wallet] = worlds[0]!.people;
    const late = await deploy(anvil, await contractArtifact("PlainNft"), ["Late", "LATE"]);
    await inOneBlock(anvil, async () => {
      await queue(anvil, late.contract, "mint", [wallet, 5]);
    });
    await anvil.mine(6);
    const named = [addressOf(worlds[0]!), late.address.toLowerCase()];
    const path = `/api/v2/${wallet}/nft?token_addresses[]=${named[0]}&token_addresses[]=${named[1]}`;
    const other = `/api/v2/${wallet}/nft?token_addresses=${named.join(",")}`;
    const body = await eventually("the named contract is indexed", async () => {
      const { status, body, headers } = await service.get(path);
      expect(status).toBe(200);
      expect(headers.get("x-unknown-parameters")).toBeNull();
      return headers.get("x-covered") === "2 collections" && body.status === "SYNCED" ? body : undefined;
    });
    const own = (body.result as Body[]).filter(({ token_address }) => token_address === named[1]);
    expect(own.map(({ token_id }) => token_id)).toEqual(["5"]);
    expect((await service.get(other)).body.result).toEqual(body.result);
    const all = new Set((body.result as Body[]).map(({ token_address }) => token_address));
    expect([...all].every((address) => named.includes(address))).toBe(true);
  });

  test("is seen at once as it changes, and as it was at a past block", async () => {
    const [wallet, other] = worlds[0]!.people;
    const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Moving", "MOVE"]);
    await transact(anvil, nft.contract, "mint", [wallet, 1]);
    const minted = await blockNumber();
    await anvil.mine(6);
    const address = nft.address.toLowerCase();
    await synced(service, address);
    const idsOf = async (of: string, query = "") => {
      const { body } = await service.get(`/api/v2/${of}/nft?token_addresses=${address}${query}`);
      return (body.result as Body[]).map(({ token_id }) => token_id);
    };
    expect([await idsOf(wallet!), await idsOf(other!)]).toEqual([["1"], []]);
    await transact(anvil, nft.contract, "transferFrom", [wallet, other, 1], { from: wallet! });
    await eventually("the token has moved", async () => ((await idsOf(other!)).length === 1 ? true : undefined));
    expect(await idsOf(wallet!)).toEqual([]);
    expect(await idsOf(wallet!, `&as_of_block=${minted}`)).toEqual(["1"]);
  });

  test("refuses a cursor of another wallet, of other filters, or of the listing", async () => {
    const [wallet, other] = worlds[0]!.people;
    const { cursor } = (await service.get(`/api/v2/${wallet}/nft?limit=1`)).body;
    const listing = (await service.get(`/api/v2/nft/${addressOf(worlds[0]!)}?limit=1`)).body.cursor;
    for (const path of [
      `/api/v2/${other}/nft?cursor=${cursor}`,
      `/api/v2/${wallet}/nft?exclude_spam=true&cursor=${cursor}`,
      `/api/v2/${wallet}/nft/collections?cursor=${cursor}`,
      `/api/v2/${wallet}/nft?cursor=${listing}`,
      `/api/v2/nft/${addressOf(worlds[0]!)}/owners?cursor=${listing}`,
      `/api/v2/nft/${addressOf(worlds[0]!)}/transfers?cursor=${listing}`,
    ]) {
      const { status, body } = await service.get(path);
      expect([path, status, body.details?.parameter]).toEqual([path, 400, "cursor"]);
    }
  });
});

describe("a contract", () => {
  test("has the name and the symbol that it tells, and is null to the client if it is none", async () => {
    const named = worlds.find(({ kind }) => kind.name === "PlainNft")!;
    const [contract, nothing] = await ask([
      { method: "nft.getNFTContractMetadata", request: { address: addressOf(named), chain: CHAIN } },
      { method: "nft.getNFTContractMetadata", request: { address: multicall.address, chain: CHAIN } },
    ]);
    expect(contract!.pages![0]!.raw).toMatchObject({ name: "Plain", symbol: "PLN", contract_type: "ERC721" });
    expect(await schemaFaults(service, "ContractMetadata", contract!.pages![0]!.raw)).toEqual([]);
    expect(nothing!.pages).toBeNull();
  });

  test("is indexed by a request to sync, by either method, and metadata is fetched again on request", async () => {
    const { address } = await deploy(anvil, await contractArtifact("PlainNft"), ["Synced", "SYNC"]);
    await anvil.mine(6);
    const [put] = await ask([{ method: "nft.syncNFTContract", request: { address, chain: CHAIN } }]);
    expect(put!.error).toBeUndefined();
    await synced(service, address.toLowerCase());
    const get = await service.get(`/api/v2/nft/${address}/sync`);
    expect([get.status, get.body.status]).toEqual([200, "SYNCED"]);
    const world = worlds.find(({ kind }) => kind.name === "PlainNft")!;
    const tokenId = pairs.get(addressOf(world))![0]!.token_id;
    const [again] = await ask([
      { method: "nft.reSyncMetadata", request: { address: addressOf(world), tokenId, chain: CHAIN, flag: "metadata" } },
    ]);
    expect(again!.pages![0]!.raw).toEqual({ status: "submitted" });
    const missing = await service.get(`/api/v2/nft/${addressOf(world)}/987654321/metadata/resync`);
    expect([missing.status, missing.body.code]).toEqual([404, "not_found"]);
  });

  test("that is unknown gives pages without records, and its indexing begins", async () => {
    const { address } = await deploy(anvil, await contractArtifact("PlainNft"), ["Unknown", "UNK"]);
    await anvil.mine(6);
    const answers = await ask(
      ["getNFTOwners", "getNFTContractTransfers"].map((name) => ({
        method: `nft.${name}`,
        request: { address, chain: CHAIN },
      })),
    );
    for (const answer of answers) expect(rawOf(answer)).toEqual([]);
    await synced(service, address.toLowerCase());
  });
});

describe("what this service does not have", () => {
  const other = `0x${"12".repeat(20)}`;
  test("is told to the client as not served, with a list of what is, whichever path it asks for", async () => {
    const calls: SdkCall[] = [
      { method: "nft.getNFTTrades", request: { address: other, chain: CHAIN } },
      { method: "nft.getWalletNFTTransfers", request: { address: other, chain: CHAIN } },
      { method: "nft.getNFTTransfersByBlock", request: { blockNumberOrHash: "12", chain: CHAIN } },
      { method: "nft.getNFTTransfersFromToBlock", request: { chain: CHAIN, fromBlock: 1, toBlock: 2 } },
      { method: "balance.getNativeBalance", request: { address: other, chain: CHAIN } },
      { method: "token.getWalletTokenBalances", request: { address: other, chain: CHAIN } },
      { method: "token.getTokenTransfers", request: { address: other, chain: CHAIN } },
      { method: "token.getTokenMetadataBySymbol", request: { symbols: ["UNI"], chain: CHAIN } },
      { method: "transaction.getWalletTransactions", request: { address: other, chain: CHAIN } },
      { method: "events.getContractLogs", request: { address: other, chain: CHAIN } },
    ];
    for (const [at, { error }] of (await ask(calls)).entries()) {
      expect([calls[at]!.method, error]).toEqual([calls[at]!.method, expect.stringContaining("not served here")]);
    }
    const { status, body } = await service.get(`/api/v2/nft/${other}/lowestprice`);
    expect([status, body.code]).toEqual([404, "not_served"]);
    expect(body.details.served).toContain("GET /api/v2/nft/{address}/{token_id}/owners");
  });

  test("and no word of a path is read as an address or a token id", async () => {
    const codes = async (path: string, method = "GET") => {
      const response = await service.fetch(`/api/v2${path}`, { method });
      return [response.status, ((await response.json()) as Body).code];
    };
    expect(await codes("/nft/getMultipleNFTs")).toEqual([405, "method_not_allowed"]);
    expect(await codes("/erc20/prices")).toEqual([405, "method_not_allowed"]);
    expect(await codes("/erc20/nft")).toEqual([404, "not_found"]);
    expect(await codes("/web3/reserves")).toEqual([404, "not_found"]);
    expect(await codes("/nft/reserves")).toEqual([400, "invalid_parameter"]);
    expect(await codes(`/nft/${other}/trades`)).toEqual([404, "not_served"]);
    expect(await codes("/nft/word/word")).toEqual([400, "invalid_parameter"]);
    expect(await codes(`/nft/${other}/sync`, "POST")).toEqual([405, "method_not_allowed"]);
  });
});
