/** Proofs of real contracts on a local chain: what they prove, what they cost, and what can't be proven. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Refusal } from "../../src/core/errors.ts";
import { type Hash, toAddress } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { KeptProofs } from "../../src/proof/kept-proofs.ts";
import { TooLongToProve } from "../../src/proof/proof-header.ts";
import type { ProofRequest } from "../../src/proof/prover.ts";
import { verifyProof } from "../../src/proof/verifier/verify.ts";
import { type ProofCase, type ProofWorld, proverOver, startProofWorld, type TestProver } from "../support/proofs.ts";
import { temporaryLogUrl } from "../support/service.ts";

let world: ProofWorld;
let tested: TestProver;
let head: number;

beforeAll(async () => {
  world = await startProofWorld();
  tested = proverOver(world.anvil.url);
  head = Number(await world.anvil.send("eth_blockNumber"));
});

afterAll(async () => {
  tested?.close();
  await world?.stop();
});

const prove = ({ kind, subject }: Pick<ProofCase, "kind" | "subject">, by = tested) =>
  by.prover.prove({ kind, subject, block: head, hash: undefined });

const refusal = async (proving: Promise<unknown>): Promise<Refusal> =>
  proving.then(
    () => Promise.reject(new Error("it was proven")),
    (error: Refusal) => error,
  );

describe("a proof", () => {
  test("shows what each kind of contract says, and verifies from its text with the block's hash alone", async () => {
    const { hash } = (await world.anvil.send("eth_getBlockByNumber", [`0x${head.toString(16)}`, false])) as {
      hash: string;
    };
    expect(new Set(world.cases.map(({ name }) => name)).size).toBe(16);
    for (const one of world.cases) {
      const text = JSON.stringify(await prove(one));
      const { result, block } = await verifyProof(text, { hash });
      expect({ name: one.name, result }).toEqual({ name: one.name, result: one.result });
      expect(block).toEqual({ ...block, chainId: 1, number: head, hash: hash as never });
    }
  });

  test("takes two round trips and less than 25 KB of an ordinary contract", async () => {
    const plain = world.cases.filter(({ name, result }) => name === "ERC721" && result["owner"] !== null);
    await prove(plain[0] as ProofCase);
    tested.requests();
    for (const one of plain) {
      expect(JSON.stringify(await prove(one)).length).toBeLessThan(25_000);
      expect(tested.requests()).toBe(2);
    }
  });
});

test("kept proofs of a collection are about fewer tokens each where a run about many takes too long", async () => {
  const { contract } = (world.cases.find(({ name }) => name === "ERC721A") as ProofCase).subject;
  const block = (await world.anvil.send("eth_getBlockByNumber", [`0x${head.toString(16)}`, false])) as { hash: Hash };
  const at = { chainId: 1, address: contract, block: head, hash: block.hash };
  const owner = toAddress(world.anvil.accounts[1] as string);
  const holdings = Array.from({ length: 40 }, (_, id) => ({
    ...{ tokenId: String(id), owner, amount: undefined, view: "ownerOf(uint256)" as const },
  }));
  const sizes: number[] = [];
  // A machine on which a run about more than twelve tokens takes too long.
  const slow = (asked: ProofRequest) => {
    const { tokenIds } = asked.subject as { readonly tokenIds: readonly string[] };
    if (tokenIds.length > most) throw new TooLongToProve("the calls took more than 5 seconds");
    sizes.push(tokenIds.length);
    return tested.prover.prove(asked);
  };
  let most = 12;
  const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
  const proofs = new KeptProofs(log);
  const { kept, differences } = await proofs.keep(at, holdings, async (asked) => slow(asked));
  expect([sizes.sort(), differences]).toEqual([[10, 10, 10, 10], []]);
  const owners: Record<string, unknown> = {};
  for (const { blob } of kept.documents) {
    Object.assign(owners, (await verifyProof((await proofs.text(blob)) as string, { hash: block.hash })).result);
  }
  expect(owners).toEqual(Object.fromEntries(holdings.map(({ tokenId }) => [tokenId, owner])));
  // One that can't even run a single token says so, and keeps nothing.
  most = 0;
  expect(await refusal(proofs.keep(at, holdings, async (asked) => slow(asked)))).toMatchObject({
    code: "state_unavailable",
    message: "this can't be proven: the calls took more than 5 seconds",
  });
  await log.close();
});

describe("no proof is made", () => {
  test.each([
    [1, /the hash of block \d+/],
    [2, /looks at the account 0x0{40}/],
    [3, /more than 10000000 gas|took more than 5 seconds/],
    [4, /opcode 0xc/],
    [5, /0x0{38}64/],
    [6, /looks at the account 0x0{39}2/],
    [7, /another result/],
  ])("of token %p, whose owner depends on what no proof is about", async (tokenId, reason) => {
    const contract = world.unprovable.address.toLowerCase();
    const subject = { contract, tokenId: String(tokenId), view: "ownerOf(uint256)" } as never;
    const { code, message } = await refusal(prove({ kind: "owner", subject }));
    expect({ code, message }).toEqual({ code: "state_unavailable", message: expect.stringMatching(reason) as never });
  });
});
