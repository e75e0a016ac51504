/** The search for the end of a contract, by code alone. The reader is a model of a node. */
import { expect, test } from "bun:test";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { AppError } from "../../../src/core/errors.ts";
import type { Address } from "../../../src/core/hex.ts";
import { endOfLife, hasCodeAfter, mayBeDestroyed, wasGone } from "../../../src/nft/indexing/lives.ts";
import type { BlockTag, ChainReader } from "../../../src/rpc/port.ts";

const ADDRESS = `0x${"de".repeat(20)}` as Address;

/** A node whose address has code from each first block of a life on, and none from its end on. */
function readerOf(lives: readonly (readonly [number, number])[], oldest = 0) {
  const asked: BlockTag[] = [];
  const code = async (_address: Address, block: BlockTag): Promise<string> => {
    asked.push(block);
    const number = block === "latest" ? Number.MAX_SAFE_INTEGER : block;
    if (number < oldest) throw new AppError("the state is gone", { code: "state_unavailable" });
    return lives.some(([from, to]) => number >= from && number < to) ? "0x6001" : "0x";
  };
  return { asked, reader: { code } as unknown as ChainReader };
}

test.each([
  ["just before", [[100, 999_999]], 999_999],
  ["long before", [[100, 5_000]], 5_000],
  [
    "after an earlier life",
    [
      [100, 200],
      [700_000, 900_000],
    ],
    900_000,
  ],
] as const)("finds the end of a contract that ended %s, with few calls", async (_when, lives, end) => {
  const { reader, asked } = readerOf(lives);
  expect(await endOfLife(reader, ADDRESS, { known: [100, 300], by: 1_000_000 })).toBe(end);
  expect(asked.length).toBeLessThan(100);
});

test("takes the block at which the end was seen if the node has no old state", async () => {
  const { reader } = readerOf([[100, 5_000]], 999_990);
  expect(await endOfLife(reader, ADDRESS, { known: [100, 300], by: 1_000_000 })).toBe(1_000_000);
  expect(await hasCodeAfter(reader, ADDRESS, 900_000)).toBe(false);
  expect(await wasGone(reader, ADDRESS, 900_000)).toBe(true);
});

test("believes no node that shows no code at any block", async () => {
  const { reader } = readerOf([]);
  await expect(endOfLife(reader, ADDRESS, { known: [100], by: 1_000 })).rejects.toThrow("shows no code");
});

test("tells code that can destroy its contract from code that only holds such a byte", async () => {
  const codeOf = async (name: string) => `0x${(await contractArtifact(name)).deployedBytecode.replace(/^0x/, "")}`;
  expect(mayBeDestroyed(await codeOf("Destructible"))).toBe(true);
  for (const name of ["PlainNft", "MultiToken", "TestToken"]) expect(mayBeDestroyed(await codeOf(name))).toBe(false);
  expect(["0x60ff00", "0x61ffff5b", "0x"].map(mayBeDestroyed)).toEqual([false, false, false]);
  expect(["0x33ff", "0x6000ff"].map(mayBeDestroyed)).toEqual([true, true]);
});
