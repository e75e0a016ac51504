/**
 * Locked tokens (ERC-5192) of real contracts on a local chain, as the answer about a token tells them: at the block of the
 * answer, and only where the contract claims the standard and the node has the state.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { Budget } from "../../src/core/budget.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { Locks } from "../../src/nft/metadata/locks.ts";
import type { Call, CallsAtHead } from "../../src/rpc/port.ts";
import { type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { schemaFaults } from "../support/schemas.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let badges: Deployed;
let unclaimed: Deployed;
let claims: Deployed;
/** States of earlier blocks are missing, as on a node that isn't an archive. */
let oldest = 0;
/** Holds calls while it is set. */
let gate: Promise<void> | undefined;

/** Block of a call; undefined for the newest one, and for other methods. */
function blockOf({ method, params }: RpcCall): number | undefined {
  const tag = method === "eth_call" ? params[1] : undefined;
  return typeof tag === "string" && tag.startsWith("0x") ? Number(tag) : undefined;
}

beforeAll(async () => {
  anvil = await startAnvil();
  badges = await deploy(anvil, await contractArtifact("Badges"), ["Badges", "BDG"]);
  unclaimed = await deploy(anvil, await contractArtifact("UnclaimedBadges"));
  claims = await deploy(anvil, await contractArtifact("Claims"));
  for (const { contract } of [badges, unclaimed]) {
    await transact(anvil, contract, "mint", [anvil.accounts[1], 1]);
    await transact(anvil, contract, "mint", [anvil.accounts[1], 2]);
    await transact(anvil, contract, "setLocked", [1, true]);
  }
  await transact(anvil, claims.contract, "mint", [anvil.accounts[1], 1, 3]);
  proxy = await startRpcProxy(anvil.url, {
    onRequest: (call) => {
      if ((blockOf(call) ?? oldest) < oldest) return { error: { code: -32_000, message: "missing trie node" } };
      return gate !== undefined && call.method === "eth_call" ? { delayUntil: gate } : undefined;
    },
  });
  service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  for (const { address } of [badges, unclaimed, claims]) await synced(service, address);
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await proxy?.stop();
  await anvil?.stop();
});

const headOf = async (): Promise<number> => Number(await anvil.send("eth_blockNumber", []));
const token = async ({ address }: Deployed, id: number, query = "") =>
  (await service.get(`/api/collections/eth/${address}/tokens/${id}${query}`)).body;
/** The token at the chain's present head, or a later one. */
const newest = async (of: Deployed, id: number) => {
  await synced(service, of.address, await headOf());
  return token(of, id);
};

test("tells whether a token is locked, at the block of the answer", async () => {
  const body = await newest(badges, 1);
  expect(await schemaFaults(service, "TokenDetails", body)).toEqual([]);
  expect([body.locked, (await newest(badges, 2)).locked]).toEqual([true, false]);
  const before = await headOf();
  await transact(anvil, badges.contract, "setLocked", [1, false]);
  expect((await newest(badges, 1)).locked).toBe(false);
  expect((await token(badges, 1, `?as_of_block=${before}`)).locked).toBe(true);
});

test("follows a reorganisation", async () => {
  await transact(anvil, badges.contract, "setLocked", [2, true]);
  expect((await newest(badges, 2)).locked).toBe(true);
  await reorg(anvil, 1, []);
  await eventually("the token is free again", async () =>
    (await newest(badges, 2)).locked === false ? true : undefined,
  );
});

test("is null where the contract doesn't claim the standard, has amounts, or the token is burned", async () => {
  expect((await newest(unclaimed, 1)).locked).toBeNull();
  expect((await newest(claims, 1)).locked).toBeNull();
  await transact(anvil, badges.contract, "mint", [anvil.accounts[1], 9]);
  await transact(anvil, badges.contract, "burn", [9]);
  const burned = await newest(badges, 9);
  expect([burned.record, burned.locked]).toEqual([undefined, null]);
});

test("asks the node once per block and token, and once per block about a contract without the standard", async () => {
  await newest(badges, 1);
  for (const id of [1, 2]) await newest(unclaimed, id);
  const before = proxy.count("eth_call");
  for (let i = 0; i < 10; i++) await Promise.all([token(badges, 1), token(unclaimed, 1), token(unclaimed, 2)]);
  expect(proxy.count("eth_call")).toBe(before);
});

test("is null where no endpoint has the state of the block", async () => {
  await anvil.mine(2);
  await synced(service, badges.address, await headOf());
  const at = (await headOf()) - 1;
  oldest = at + 1;
  const body = await token(badges, 1, `?as_of_block=${at}`);
  expect([body.record.token_id, body.locked]).toEqual(["1", null]);
  oldest = 0;
  expect((await token(badges, 1, `?as_of_block=${at}`)).locked).toBe(false);
});

test("is null after two seconds of a silent node, and the answer has everything else", async () => {
  const silence = Promise.withResolvers<void>();
  await anvil.mine(1);
  await synced(service, badges.address, await headOf());
  gate = silence.promise;
  const started = performance.now();
  const body = await token(badges, 1);
  expect([body.record.token_id, body.locked]).toEqual(["1", null]);
  expect(performance.now() - started).toBeLessThan(6_000);
  gate = undefined;
  silence.resolve();
  await eventually("the node answers", async () => ((await token(badges, 1)).locked === false ? true : undefined));
});

describe("while the node is silent about one contract", () => {
  const WORDS = { yes: `0x${"1".padStart(64, "0")}`, no: `0x${"".padStart(64, "0")}` };
  const [SILENT, OTHER] = ["5", "6"].map((digit) => `0x${digit.repeat(40)}`) as [Address, Address];

  /** Locks of tokens that are all locked. Those of one contract wait until they are told. */
  function world() {
    const told = Promise.withResolvers<void>();
    const asked = { calls: 0 };
    const callsAtBlock = async (calls: readonly Call[]): Promise<CallsAtHead> => {
      Budget.spend(["eth_call"]);
      asked.calls++;
      if (calls[0]!.to === SILENT) await told.promise;
      Budget.current?.signal?.throwIfAborted();
      const answers = calls.length === 1 ? [WORDS.yes] : [WORDS.yes, WORDS.no, WORDS.yes];
      return { results: answers.map((data) => ({ ok: true, data })) } as unknown as CallsAtHead;
    };
    const locks = new Locks({ callsAtBlock }, systemClock);
    const ask = (key: string, to: Address, number: number, signal?: AbortSignal) =>
      new Budget({ owner: { key, isOperator: false }, signal }).run(() =>
        locks.lockedAt(to, 1n, { number, hash: `0x${String(number).padStart(64, "0")}` as Hash }),
      );
    return { told, ask, asked };
  }

  test("another key's question evicts no answer", async () => {
    const { ask, asked } = world();
    expect(await ask("honest", OTHER, 1)).toBe(true);
    // Each has two answers, and 10,000 are kept.
    for (let from = 2; from < 6_002; from += 60) {
      await Promise.all(Array.from({ length: 60 }, (_, at) => ask("greedy", OTHER, from + at)));
    }
    const { calls } = asked;
    expect(await ask("honest", OTHER, 1)).toBe(true);
    expect(asked.calls).toBe(calls);
  });

  test("another key's question has a place", async () => {
    const { told, ask } = world();
    const greedy = Array.from({ length: 20 }, (_, at) => ask("greedy", SILENT, at));
    expect(await ask("honest", OTHER, 1)).toBe(true);
    told.resolve();
    await Promise.all(greedy);
  });

  test("a client that leaves doesn't take the answer from one that waits for the same", async () => {
    const { told, ask } = world();
    const client = new AbortController();
    const [gone, stays] = [
      ask("gone", SILENT, 1, client.signal),
      ask("stays", SILENT, 1, new AbortController().signal),
    ];
    client.abort();
    told.resolve();
    expect([await gone, await stays]).toEqual([null, true]);
  });
});
