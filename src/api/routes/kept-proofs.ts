/** The operations that keep proofs of a collection's owners at a block, and give them out again. */
import { Type } from "@sinclair/typebox";
import { invalidParameter, Refusal } from "../../core/errors.ts";
import { EXAMPLE_BLOCK, NFT_ADDRESS } from "../../core/examples.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { blockHash, int64, named, STRICT, text } from "../../core/schema-parts.ts";
import { hasAmounts } from "../../events/columns.ts";
import { collectionAt } from "../../nft/collections/collection.ts";
import { findEntries } from "../../nft/explore/walks.ts";
import type { KeptProofs, LedgerHolding } from "../../proof/kept-proofs.ts";
import { viewOf } from "../../proof/token-proofs.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import { tokenId, wholeNumber } from "../wire/parameters.ts";
import { COLLECTION_PARTS, ONE_COLLECTION, requestedCollection } from "./collection-path.ts";
import { readingOf, respond } from "./explore-answers.ts";
import type { ProofDeps } from "./proof.ts";

const { json, file } = operationsFor<ProofDeps>();

/** Most tokens that a request may name, and most holdings of a collection that is proven whole. */
const [MAX_NAMED, MAX_HOLDINGS] = [1_000, 10_000];

const KeepRequest = named(
  "KeepProofsRequest",
  Type.Object(
    {
      tokenIds: Type.Optional(
        Type.Array(text("Decimal token id", "1"), {
          maxItems: MAX_NAMED,
          description: `All tokens by default, of a collection with at most ${MAX_HOLDINGS.toLocaleString("en")} holdings`,
        }),
      ),
    },
    STRICT,
  ),
);

const KeptAnswer = named(
  "KeptProofs",
  Type.Object({
    chain: text("Name of the chain", "eth"),
    address: text("The contract", NFT_ADDRESS),
    block: int64("The block", EXAMPLE_BLOCK),
    blockHash: blockHash("Hash of the block"),
    holdings: int64("Holdings that are proven: tokens with one owner, and owners of tokens with many", 10_000),
    documents: int64("Documents that are kept", 100),
    differences: Type.Array(text("A holding, in words"), {
      description: "Holdings of which the contract says something else than its logs",
    }),
  }),
);

const keepProofs = json({
  method: "POST",
  path: `${ONE_COLLECTION}/proofs`,
  scope: "operate",
  id: "keepProofs",
  summary: "Proves the owners of all tokens at one block, or of some, and keeps the proofs in the log",
  description:
    "The answer comes when all proofs are made: about a second for a hundred tokens. Nothing is kept if one can't be made.",
  tag: "Operators",
  parts: COLLECTION_PARTS,
  query: {
    as_of_block: wholeNumber({ min: 0 }, { description: "Block; the newest one by default", example: 21_000_000 }),
  },
  body: KeepRequest,
  answer: KeptAnswer,
  errors: [400, 404, 409, 410],
  handle: async (asked, deps) => {
    const wanted = asked.body.tokenIds?.map((given, index) => tokenId(given, `tokenIds.${index}`));
    const reading = await readingOf(asked, deps, ["proofs"]);
    const { source, runtime, requester } = reading;
    const { address, chainId } = source;
    const listing = await respond(reading, deps, true, (start) => holdingsAt(source, start, wanted));
    const { block, hash } = listing.asOf ?? {};
    if (block === undefined || hash === undefined || hash === "") {
      throw new Refusal("not_indexed_yet", "no endpoint tells the hash of the block; ask again later");
    }
    const holdings = listing.body;
    const { kept, differences } = await deps.keptProofs.keep({ chainId, address, block, hash }, holdings, (request) =>
      deps.explorer.node.run(requester, () => runtime.proofs.prove(request)),
    );
    runtime.proofs.compared(address, block, differences[0]);
    const body = { chain: asked.path.chain.name, address, block, blockHash: hash };
    return {
      body: { ...body, holdings: holdings.length, documents: kept.documents.length, differences },
      headers: listing.headers,
    };
  },
});

type LedgerSource = Awaited<ReturnType<typeof readingOf>>["source"];

/** The holdings of the tokens that are asked for, as the ledger has them. @throws Refusal 400, 404 */
async function holdingsAt(
  source: LedgerSource,
  start: Parameters<typeof findEntries>[1],
  wanted: readonly bigint[] | undefined,
): Promise<LedgerHolding[]> {
  const ids = wanted === undefined ? undefined : new Set(wanted);
  const found = await findEntries(source, start, MAX_HOLDINGS, ({ id }) => ids === undefined || ids.has(BigInt(id)));
  if (found.places.length > MAX_HOLDINGS) {
    throw invalidParameter("tokenIds", `must be given: there are more than ${MAX_HOLDINGS} holdings`);
  }
  if (found.entries.length === 0) throw new Refusal("not_found", "the collection has no such token at this block");
  const { addresses } = collectionAt(found.collection, start.walk.block).ledger;
  return found.entries.map(({ id, kind, owner, amount }) => ({
    tokenId: id.toString(),
    owner: addresses.hex(owner) as Address,
    amount: hasAmounts(kind) ? amount.toString() : undefined,
    view: viewOf(kind),
  }));
}

const listProofs = file({
  method: "GET",
  path: `${ONE_COLLECTION}/proofs`,
  scope: "read",
  id: "listKeptProofs",
  summary: "The proofs that are kept of a block, a document a line",
  tag: "Operators",
  parts: COLLECTION_PARTS,
  query: {
    as_of_block: wholeNumber(
      { min: 0 },
      { description: "Block; the newest one with kept proofs by default", example: 21_000_000 },
    ),
  },
  content: { "application/x-ndjson": { schema: { type: "string" }, example: '{"format":"evm-proof/1"}\n' } },
  hasBlock: true,
  errors: [400, 404],
  handle: async ({ path, query }, deps) => {
    const { chain, address } = await requestedCollection(path, deps);
    const kept = await deps.keptProofs.find({ chainId: chain.chainId, address }, { block: query.as_of_block });
    if (kept === undefined) throw new Refusal("not_found", "no proofs of this collection are kept of that block");
    return new Response(linesOf(kept.blobs, deps.keptProofs), {
      headers: {
        ...{ "x-as-of-block": String(kept.block), "x-as-of-hash": kept.hash },
        "content-type": "application/x-ndjson; charset=utf-8",
        "content-disposition": `attachment; filename="proofs-${chain.name.replaceAll(" ", "-")}-${address}-${kept.block}.jsonl"`,
        ...{ "cache-control": "no-store", "x-content-type-options": "nosniff" },
      },
    });
  },
});

/** A line for each document, read when the client has taken the last one. A lost one breaks the connection. */
function linesOf(blobs: readonly Hash[], keptProofs: KeptProofs): ReadableStream<Uint8Array> {
  let at = 0;
  const encoder = new TextEncoder();
  return new ReadableStream(
    {
      pull: async (controller) => {
        const blob = blobs[at++];
        if (blob === undefined) return controller.close();
        const text = await keptProofs.text(blob).catch(() => undefined);
        // The runtime would print an error that it is given.
        if (text === undefined) controller.error();
        else controller.enqueue(encoder.encode(`${text}\n`));
      },
    },
    { highWaterMark: 0 },
  );
}

export const KEPT_PROOF_OPERATIONS: readonly Operation<ProofDeps>[] = [keepProofs, listProofs];
