/** A walk goes on only where as much of the chain is known as where it began. */
import { expect, test } from "bun:test";
import type { Address } from "../../src/core/hex.ts";
import { type Collection, initialState } from "../../src/nfts/collection.ts";
import { currentCollection } from "../../src/nfts/current.ts";
import type { CollectionProjections } from "../../src/nfts/projections.ts";

const OF = { chainId: 1, address: `0x${"11".repeat(20)}` as Address };

/** A process that shows `version` of the chain and can read on to `logged`; what it did, in order. */
function source(version: number, logged: number) {
  const done: string[] = [];
  const chain = {
    version,
    head: () => undefined,
    finalized: () => undefined,
    header: () => undefined,
    isCanonical: () => true,
    catchUp: async (wanted: number) => {
      done.push(`catch up to ${wanted}`);
      chain.version = Math.min(wanted, logged);
    },
  };
  const collection: Collection = { ...initialState(), status: "synced", chainVersion: 3 };
  const get = async () => {
    done.push("read");
    return collection;
  };
  return { done, of: { chain, projections: { get, newest: get } as unknown as CollectionProjections } };
}

test("who shows less of the chain than the walk's first page reads on before it looks at the collection", async () => {
  const { done, of } = source(5, 9);
  await currentCollection(of, OF, { block: 10, chainVersion: 7 });
  expect(done).toEqual(["catch up to 7", "read"]);
});

test("who shows as much, or begins a walk, reads at once", async () => {
  for (const walk of [undefined, { block: 10, chainVersion: 5 }]) {
    const { done, of } = source(5, 9);
    await currentCollection(of, OF, walk);
    expect(done).toEqual(["read"]);
  }
});

test("where the log does not hold that much, the walk is to be tried again", async () => {
  const { of } = source(5, 6);
  const walk = currentCollection(of, OF, { block: 10, chainVersion: 7 });
  expect(walk).rejects.toMatchObject({ code: "chain_moved", retryable: true });
});
