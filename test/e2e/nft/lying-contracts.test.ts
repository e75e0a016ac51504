/**
 * Contracts that lie, are broken or are no NFTs: the result of their identification. Also an emitter of arbitrary
 * events compared with the naive model. The emitter has no state, so its log alone is the truth.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { AbiCoder, concat, toBeHex, zeroPadValue } from "ethers";
import { type Anvil, inOneBlock, reorg, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, prepare, queue, transact } from "../../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../../scripts/local-chain/random.ts";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { createLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import { TRANSFER, TRANSFER_BATCH, TRANSFER_SINGLE } from "../../../src/rpc/decode/transfer-topics.ts";
import { factOf } from "../../support/chain-truth.ts";
import { type ModelTransfer, modelListing } from "../../support/naive-ledger.ts";
import { ZERO } from "../../support/nft-kinds.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../../support/service.ts";

const SEED = Number(process.env["NFT_SEED"] ?? 7);
const ERC721 = "0x80ac58cd";
const random = createRandom(SEED);
let anvil: Anvil;
let service: TestService;
let people: readonly string[];
const logUrl = temporaryLogUrl();

const make = async (name: string, args: readonly unknown[] = []) => deploy(anvil, await contractArtifact(name), args);
const head = async () => Number(await anvil.send("eth_blockNumber"));
const word = (value: bigint | string) => (typeof value === "string" ? zeroPadValue(value, 32) : toBeHex(value, 32));
const ids = async (address: string, query = "") =>
  (await synced(service, address, await head(), query)).body.result.map(
    (record: { token_id: string }) => record.token_id,
  );

/** Deploys an emitter. Its `supportsInterface` returns true for these ids. */
async function claimant(...interfaces: string[]): Promise<Deployed> {
  const emitter = await make("Emitter");
  for (const id of ["0x01ffc9a7", ...interfaces]) await transact(anvil, emitter.contract, "setInterface", [id, true]);
  return emitter;
}

const emitRaw = ({ contract }: Deployed, topics: readonly string[], data: string) =>
  transact(anvil, contract, "emitRaw", [topics, data]);

async function metric(name: string): Promise<number> {
  const text = await (await service.fetch("/metrics")).text();
  return text
    .split("\n")
    .filter((line) => line.startsWith(name))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

beforeAll(async () => {
  console.log(`NFT_SEED=${SEED}`);
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 4 });
  people = anvil.accounts.slice(1, 6);
  service = await startTestService({ rpcUrl: anvil.url, logUrl });
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

describe("a contract that is no NFT", () => {
  test("is identified from small answers, though it answers every call with megabytes", async () => {
    const { address } = await make("LargeAnswers");
    await anvil.mine();
    let digits = 0;
    const proxy = await startRpcProxy(anvil.url, {
      onResult: (_call, result) => {
        if (typeof result === "string") digits += result.length;
        return result;
      },
    });
    const own = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    const { body } = await eventually("the contract is identified", async () => {
      const answer = await own.get(`/api/v2/nft/${address}`);
      return answer.body.status === "SYNCED" ? answer : undefined;
    });
    expect(body.result).toEqual([]);
    // The bound on the gas of its getters bounds their answers.
    expect(digits).toBeLessThan(1_000_000);
    await own.stop();
    await proxy.stop();
  });

  test("is listed as empty and not indexed further if it is an ERC-20", async () => {
    const token = await make("TestToken", ["Coin", "COIN", 18]);
    const silent = await make("NoDecimalsToken");
    for (const { contract } of [token, silent]) await transact(anvil, contract, "mint", [people[0], 5]);
    for (const { address } of [token, silent]) {
      await service.get(`/api/v2/nft/${address}`);
      const { body } = await eventually("the token is identified", async () => {
        const answer = await service.get(`/api/v2/nft/${address}?disable_total=false`);
        return answer.body.status === "SYNCED" ? answer : undefined;
      });
      expect(body).toEqual({ status: "SYNCED", total: "0", page: "0", page_size: "100", cursor: null, result: [] });
      // Every past block is empty as well.
      expect((await service.get(`/api/v2/nft/${address}?as_of_block=1`)).body.result).toEqual([]);
    }
    for (const { contract } of [token, silent])
      await transact(anvil, contract, "transfer", [people[1], 2], { from: people[0] as string });
    const nft = await make("PlainNft", ["After", "AFT"]);
    await synced(service, nft.address, await head());
    const log = await openLog(logUrl, systemClock, createLogger("silent"));
    for (const { address } of [token, silent]) {
      const events = await log.read(nftStream(1, address.toLowerCase() as Address));
      expect(events.map(({ event }) => event.type)).toEqual(["IndexingRequested", "ContractIdentified"]);
    }
    await log.close();
  });

  test("is listed as empty if it has no NFT log, while an account is reported as no contract", async () => {
    const other = await make("Multicall");
    const { body: first } = await service.get(`/api/v2/nft/${other.address}`);
    expect([first.status, first.result]).toEqual(["SYNCING", []]);
    const { body } = await eventually("the contract is identified", async () => {
      const answer = await service.get(`/api/v2/nft/${other.address}`);
      return answer.body.status === "SYNCED" ? answer : undefined;
    });
    expect(body.result).toEqual([]);
    const strangers = [anvil.accounts[0] as string, `0x${"ab".repeat(20)}`];
    for (const account of strangers) {
      expect((await service.get(`/api/v2/nft/${account}`)).body).toMatchObject({ status: "SYNCING", result: [] });
      const { body } = await eventually("the account is identified", async () => {
        const answer = await service.get(`/api/v2/nft/${account}`);
        return answer.status === 404 ? answer : undefined;
      });
      expect(body).toMatchObject({ code: "not_a_contract" });
    }
  });

  test("is not listed with sellers as owners if it shares only CryptoPunks' first event", async () => {
    const cats = await make("AssignedCats");
    for (const index of [0, 1, 2])
      await transact(anvil, cats.contract, "getCat", [index], { from: people[0] as string });
    await transact(anvil, cats.contract, "transfer", [people[1], 1], { from: people[0] as string });
    const { body } = await eventually("the market is identified", async () => {
      const answer = await service.get(`/api/v2/nft/${cats.address}`);
      return answer.body.status === "SYNCED" ? answer : undefined;
    });
    expect(body.result).toEqual([]);
  });

  test("is still an account if it delegates to an NFT contract", async () => {
    const nft = await make("PlainNft", ["Behind", "BHD"]);
    const account = anvil.accounts[0] as string;
    const fresh = `0x${"7702".repeat(10)}`;
    await anvil.send("anvil_setCode", [fresh, concat(["0xef0100", nft.address])]);
    await anvil.send("anvil_setNonce", [fresh, "0x1"]);
    await transact(anvil, nft.contract, "mint", [account, 1]);
    await eventually("the account is identified", async () => {
      const { status } = await service.get(`/api/v2/nft/${fresh}`);
      return status === 404 ? true : undefined;
    });
  });

  test("is judged by its logs if it claims every interface", async () => {
    const liar = await claimant(ERC721, "0xd9b67a26", "0xffffffff");
    await emitRaw(liar, [TRANSFER, word(ZERO), word(people[0] as string)], word(1n));
    const { body } = await eventually("the contract is identified", async () => {
      const answer = await service.get(`/api/v2/nft/${liar.address}`);
      return answer.body.status === "SYNCED" ? answer : undefined;
    });
    expect(body.result).toEqual([]);
    const honest = await claimant(ERC721, "0xffffffff");
    await transact(anvil, honest.contract, "emitTransfers", [9, 1, ZERO, people[0]]);
    expect(await ids(honest.address)).toEqual(["9"]);
  });
});

describe("an odd NFT contract", () => {
  test("may emit the transfers of a claimed ERC-721 in any form", async () => {
    const odd = await claimant(ERC721);
    const [alice, bob] = people as [string, string];
    await emitRaw(odd, [TRANSFER, word(ZERO), word(alice)], word(5n));
    await emitRaw(odd, [TRANSFER], concat([word(ZERO), word(bob), word(2n ** 256n - 1n)]));
    await transact(anvil, odd.contract, "emitTransfers", [7, 1, ZERO, alice]);
    expect(await ids(odd.address)).toEqual(["5", String(2n ** 256n - 1n), "7"]);
  });

  test("has no ids from the amounts of a claimed ERC-721 with decimals", async () => {
    const both = await claimant(ERC721);
    await transact(anvil, both.contract, "setAnswer", ["0x313ce567", word(18n)]);
    await emitRaw(both, [TRANSFER, word(ZERO), word(people[0] as string)], word(10n ** 18n));
    await transact(anvil, both.contract, "emitTransfers", [7, 1, ZERO, people[0]]);
    expect(await ids(both.address)).toEqual(["7"]);
  });

  test("is identified by its events if it has divisible units besides indexed ids", async () => {
    const mixed = await make("Emitter");
    await transact(anvil, mixed.contract, "setAnswer", ["0x313ce567", word(18n)]);
    await transact(anvil, mixed.contract, "emitTransfers", [3, 1, ZERO, people[0]]);
    expect(await ids(mixed.address)).toEqual(["3"]);
  });

  test("is listed with ids in the data of its events, even after an early mint and burn", async () => {
    const tri = await make("ThreeTopicNft");
    await transact(anvil, tri.contract, "mint", [people[0], 1]);
    await transact(anvil, tri.contract, "burn", [1]);
    await anvil.mine(1_200);
    await transact(anvil, tri.contract, "mint", [people[0], 2]);
    expect(await ids(tri.address)).toEqual(["2"]);
  });

  test.each([
    ["a string", () => AbiCoder.defaultAbiCoder().encode(["string"], ["Ünï\u0000\n 🙂"]), "Ünï 🙂"],
    ["bytes32", () => `0x${Buffer.from("Old Name").toString("hex").padEnd(64, "0")}`, "Old Name"],
    ["no UTF-8", () => AbiCoder.defaultAbiCoder().encode(["bytes"], ["0x41ff42"]), "A\ufffdB"],
    ["an absurd length", () => concat([word(32n), word(2n ** 200n)]), ""],
    ["nothing but a byte", () => "0x01", ""],
    ["very long", () => AbiCoder.defaultAbiCoder().encode(["string"], ["x".repeat(70_000)]), "x".repeat(256)],
  ])("has a readable or an empty name if its name is %s", async (_what, answer, name) => {
    const named = await claimant(ERC721);
    await transact(anvil, named.contract, "setAnswer", ["0x06fdde03", answer()]);
    await transact(anvil, named.contract, "emitTransfers", [1, 1, ZERO, people[0]]);
    const { body } = await synced(service, named.address, await head());
    expect([body.result[0].name, body.result[0].symbol]).toEqual([name, ""]);
  });

  test("is listed without its malformed events, which are counted", async () => {
    const before = await metric("malformed_logs_total");
    const broken = await claimant(ERC721);
    const person = word(people[0] as string);
    await emitRaw(broken, [TRANSFER, person], "0x");
    await emitRaw(
      broken,
      [TRANSFER_BATCH, person, word(ZERO), person],
      concat([word(64n), word(2n ** 255n), word(1n)]),
    );
    await emitRaw(broken, [TRANSFER_BATCH, person, word(ZERO), person], "0x1234");
    await transact(anvil, broken.contract, "emitConsecutive", [9, 3, ZERO, people[0]]);
    await transact(anvil, broken.contract, "emitTransfers", [4, 1, ZERO, people[0]]);
    expect(await ids(broken.address)).toEqual(["4"]);
    expect((await metric("malformed_logs_total")) - before).toBe(4);
  });

  test("is listed with the readable pairs of its odd events, which are counted", async () => {
    const before = await metric("malformed_logs_total");
    const odd = await claimant("0xd9b67a26");
    const [alice, bob] = people as [string, string];
    const emit = (name: string, args: readonly unknown[]) => transact(anvil, odd.contract, name, args);
    await emit("emitBatch", [alice, ZERO, alice, [1, 2, 3], [10, 20]]);
    await emit("emitBatch", [alice, ZERO, bob, [4], [40, 50, 60]]);
    await emit("emitBatch", [alice, ZERO, bob, [5], []]);
    const mint = [TRANSFER_SINGLE, word(alice), word(ZERO), word(bob)];
    await emitRaw(odd, mint, concat([word(6n), word(60n), word(7n)]));
    await emitRaw(odd, mint, concat([word(8n), word(80n)]));
    await emitRaw(odd, [TRANSFER, word(ZERO), word(alice), word(9n)], word(1n));
    const { body } = await synced(service, odd.address, await head());
    const rows = body.result
      .map(factOf)
      .map((row: Record<"token_id" | "owner_of" | "amount", string>) => [row.token_id, row.owner_of, row.amount]);
    expect(rows).toEqual([
      ["1", alice, "10"],
      ["2", alice, "20"],
      ["4", bob, "40"],
      ["6", bob, "60"],
      ["8", bob, "80"],
      ["9", alice, "1"],
    ]);
    expect((await metric("malformed_logs_total")) - before).toBe(5);
  });

  test("keeps a first log that a reorg moves to an earlier block", async () => {
    const emitter = await make("Emitter");
    await anvil.mine(20);
    await transact(anvil, emitter.contract, "emitTransfers", [1, 1, ZERO, people[0]]);
    expect(await ids(emitter.address)).toEqual(["1"]);
    const { to, data } = await prepare(emitter.contract, "emitTransfers", [2, 1, ZERO, people[1]]);
    await reorg(anvil, 3, [{ block: 0, from: people[1] as string, to, data }]);
    const { hash } = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { hash: string };
    const answer = await eventually("the reorg is followed", async () => {
      const found = await service.get(`/api/v2/nft/${emitter.address}`);
      return found.headers.get("x-as-of-hash") === hash ? found : undefined;
    });
    expect(answer.body.result.map(factOf)).toMatchObject([{ token_id: "2", block_number: String((await head()) - 2) }]);
  });
});

test("lists a destroyed contract as before, with the transfers of later logs", async () => {
  const old = await startAnvil({
    genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400,
    hardfork: "shanghai",
    slotsInAnEpoch: 4,
  });
  const other = await startTestService({ rpcUrl: old.url, logUrl: temporaryLogUrl() });
  try {
    const deployed = await deploy(old, await contractArtifact("Destructible"));
    const [alice, bob] = people as [string, string];
    for (let id = 1; id <= 3; id++) await transact(old, deployed.contract, "mint", [alice, id]);
    const before = Number(await old.send("eth_blockNumber"));
    await transact(old, deployed.contract, "transferFrom", [alice, bob, 2], { from: alice });
    await transact(old, deployed.contract, "destroy");
    await old.mine(20);
    expect(await old.send("eth_getCode", [deployed.address, "latest"])).toBe("0x");
    const { body } = await synced(other, deployed.address, before + 2);
    expect(body.result.map(factOf)).toMatchObject([
      { token_id: "1", owner_of: alice },
      { token_id: "2", owner_of: bob },
      { token_id: "3", owner_of: alice },
    ]);
    const past = await other.get(`/api/v2/nft/${deployed.address}?as_of_block=${before}`);
    expect(past.body.result.map(factOf)).toMatchObject([{ owner_of: alice }, { owner_of: alice }, { owner_of: alice }]);
  } finally {
    await other.stop();
    await old.stop();
  }
}, 300_000);

describe("an emitter of arbitrary events", () => {
  const IDS = [0n, 1n, 2n, 3n, 4n, 2n ** 64n, 2n ** 255n, 2n ** 256n - 1n];
  const transfers: ModelTransfer[] = [];
  const owners = () => [ZERO, ...people];
  let emitter: Deployed;

  type Step = { method: string; args: unknown[]; transfers: Omit<ModelTransfer, "block">[] };
  function step(): Step {
    const [from, to] = [random.below(owners().length), random.below(owners().length)];
    const id = random.pick(IDS);
    const [a, b] = [owners()[from], owners()[to]];
    const one = (kind: TransferKind, tokenId: bigint, amount: bigint) => ({ kind, from, to, id: tokenId, amount });
    switch (random.below(4)) {
      case 0: {
        const amount = BigInt(random.below(5)) * (random.below(4) === 0 ? 2n ** 128n : 1n);
        return {
          method: "emitSingle",
          args: [a, a, b, id, amount],
          transfers: [one(TransferKind.erc1155, id, amount)],
        };
      }
      case 1: {
        const other = random.pick(IDS);
        const list = [
          one(TransferKind.erc1155, id, 2n),
          one(TransferKind.erc1155, other, 0n),
          one(TransferKind.erc1155, id, 1n),
        ];
        return { method: "emitBatch", args: [a, a, b, [id, other, id], [2, 0, 1]], transfers: list };
      }
      case 2: {
        const first = BigInt(100 + random.below(60));
        const count = BigInt(1 + random.below(12));
        const mint = { kind: TransferKind.range, from: 0, to, id: first, amount: count };
        return { method: "emitConsecutive", args: [first, first + count - 1n, ZERO, b], transfers: [mint] };
      }
      default: {
        const token = random.below(2) === 0 ? id : BigInt(100 + random.below(70));
        return { method: "emitTransfers", args: [token, 1, a, b], transfers: [one(TransferKind.erc721, token, 1n)] };
      }
    }
  }

  const expected = (block: number, holders: boolean) =>
    modelListing(transfers, block, holders).map((entry) => ({
      token_id: entry.id,
      owner_of: entry.owner < 0 ? "" : (owners()[entry.owner] as string),
      block_number: String(entry.block),
      block_number_minted: String(entry.blockMinted),
      contract_type: entry.kind === TransferKind.erc1155 ? "ERC1155" : "ERC721",
      minter_address:
        entry.minter < 0 ? "ERC1155 tokens don't have a single minter" : (owners()[entry.minter] as string),
      amount: entry.amount,
    }));

  test("equals the naive model at every block, including reorganised ones", async () => {
    emitter = await make("Emitter");
    const firstBlock = (await head()) + 1;
    for (let round = 0; round < 60; round++) {
      const steps = Array.from({ length: 1 + random.below(4) }, step);
      if (round % 10 === 9) {
        const depth = 1 + random.below(4);
        const from = (await head()) - depth + 1;
        while ((transfers.at(-1)?.block ?? -1) >= from) transfers.pop();
        const sender = anvil.accounts[9] as string;
        const calls = [];
        for (const { method, args } of steps) calls.push(await prepare(emitter.contract, method, args));
        await reorg(
          anvil,
          depth,
          calls.map(({ to, data }) => ({ block: 0, from: sender, to, data })),
        );
        for (const { transfers: list } of steps) transfers.push(...list.map((t) => ({ ...t, block: from })));
      } else {
        await inOneBlock(anvil, async () => {
          for (const { method, args } of steps) await queue(anvil, emitter.contract, method, args);
        });
        const block = await head();
        for (const { transfers: list } of steps) transfers.push(...list.map((t) => ({ ...t, block })));
      }
      if (round === 30) await synced(service, emitter.address, await head());
    }
    const last = await head();
    const { hash } = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { hash: string };
    await eventually("the head is followed", async () => {
      const { headers } = await service.get(`/api/v2/nft/${emitter.address}`);
      return headers.get("x-as-of-hash") === hash ? true : undefined;
    });
    for (let block = firstBlock; block <= last; block++) {
      for (const holders of [false, true]) {
        const { body } = await service.get(
          `/api/v2/nft/${emitter.address}?limit=500&disable_total=false&as_of_block=${block}&holders=${holders}`,
        );
        const facts = expected(block, holders);
        expect({ block, holders, total: body.total, rows: body.result.map(factOf) }).toEqual({
          block,
          holders,
          total: String(facts.length),
          rows: facts,
        });
      }
    }
  }, 300_000);

  test("has its impossible transfers counted in the metrics", async () => {
    expect(await metric("transfer_anomalies")).toBeGreaterThan(0);
  });

  test("may announce a range of 100,000 ids in one event, which is listed, split and transferred from", async () => {
    const large = await make("Emitter");
    await transact(anvil, large.contract, "emitConsecutive", [0, 99_999, ZERO, people[0]]);
    await transact(anvil, large.contract, "emitTransfers", [50_000, 1, people[0], people[1]]);
    await transact(anvil, large.contract, "emitTransfers", [50_001, 1, people[0], ZERO]);
    const { body } = await synced(service, large.address, await head(), "&disable_total=false");
    expect([body.total, body.result.length, body.result[499].token_id]).toEqual(["99999", 500, "499"]);
    const part = await service.get(`/api/v2/nft/${large.address}?totalRanges=2&range=1&limit=3`);
    expect(part.body.result.map((r: { token_id: string }) => r.token_id)).toEqual(["49999", "50000", "50002"]);
    expect(part.body.result[1].owner_of).toBe(people[1]);
  });
});
