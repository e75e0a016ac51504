/** The operations that prove what the service says of a token, against nothing but the block's hash. */
import { invalidParameter, Refusal } from "../../core/errors.ts";
import { type Address, ZERO_ADDRESS } from "../../core/hex.ts";
import { hasAmounts, type TokenRef, type TransferKind } from "../../events/columns.ts";
import { ownedEntries, tokenOfId, transfersPage } from "../../nft/explore/walks.ts";
import { entryOfToken } from "../../nft/ledger/history.ts";
import { currentCollection, ledgerOf } from "../../nft/walks/snapshot.ts";
import type { StartedWalk } from "../../nft/walks/walk.ts";
import type { KeptProofs } from "../../proof/kept-proofs.ts";
import type { ProofRequest } from "../../proof/prover.ts";
import { viewOf } from "../../proof/token-proofs.ts";
import type { StateDocument } from "../../proof/verifier/document.ts";
import type { AmountsSubject } from "../../proof/verifier/token-claims.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import { choice, tokenIdPart, wholeNumber } from "../wire/parameters.ts";
import { COLLECTION_PARTS, ONE_COLLECTION } from "./collection-path.ts";
import { type ExploreDeps, readingOf, respond } from "./explore-answers.ts";
import { ownerParameter } from "./explore-parameters.ts";
import { ProofAnswer } from "./proof-models.ts";

export interface ProofDeps extends ExploreDeps {
  readonly keptProofs: KeptProofs;
}

const { json } = operationsFor<ProofDeps>();

type LedgerReading = Awaited<ReturnType<typeof readingOf>>;

/** What the ledger says of a token: its owner, or what an owner holds of it. */
interface Listed {
  readonly token: TokenRef;
  /** Undefined for a burned token, and for one with amounts. */
  readonly owner: Address | undefined;
  readonly amount: string;
}

/** Reads what the ledger says. @throws Refusal 400, 404 */
async function listedAt(
  { source }: LedgerReading,
  start: StartedWalk,
  { id, owner }: { readonly id: bigint; readonly owner: Address | undefined },
): Promise<Listed> {
  const ledger = ledgerOf(await currentCollection(source, start.walk), start.walk);
  const token = tokenOfId(ledger, id);
  if (token === undefined) throw new Refusal("not_found", `id: no transfer of token ${id} is known`);
  if (!hasAmounts(token.kind)) {
    if (owner !== undefined)
      throw invalidParameter("owner", "must be left out: the token has one owner, which is proven");
    const entry = entryOfToken(ledger, token, start.walk.block);
    const address = entry === undefined ? undefined : (ledger.addresses.hex(entry.owner) as Address);
    return { token, owner: address, amount: "" };
  }
  if (owner === undefined) throw invalidParameter("owner", "must be given: the token may have any number of owners");
  const matches = (entry: { readonly kind: TransferKind; readonly id: number | bigint }) =>
    entry.kind === token.kind && BigInt(entry.id) === id;
  const { entries } = await ownedEntries(source, start, 1, { owner, matches });
  return { token, owner: undefined, amount: (entries[0]?.amount ?? 0).toString() };
}

/** In words, how the contract's own state differs from the ledger; undefined if it doesn't. */
function differenceOf(
  { token, owner, amount }: Listed,
  result: Readonly<Record<string, string | boolean | null>>,
): string | undefined {
  if (hasAmounts(token.kind)) {
    const proven = String(result["amount"]);
    return proven === amount
      ? undefined
      : `token ${token.id}: the logs give an owner ${amount}, and the contract ${proven}`;
  }
  const [listed, proven] = [owner ?? ZERO_ADDRESS, result["owner"] ?? ZERO_ADDRESS];
  return listed === proven
    ? undefined
    : `token ${token.id}: the logs give it to ${listed}, and the contract to ${proven}`;
}

interface KeptRequest extends Pick<ProofRequest, "block" | "hash" | "subject"> {
  readonly chainId: number;
  readonly address: Address;
  readonly owner: Address | undefined;
}

/** The kept document about a token and its owner, where the state is gone. @throws the refusal if none is kept */
async function keptInstead(
  error: unknown,
  { block, hash, subject, owner, ...of }: KeptRequest,
  { keptProofs }: ProofDeps,
): Promise<StateDocument> {
  if (!(error instanceof Refusal && error.code === "state_unavailable")) throw error;
  const { tokenId } = subject as { readonly tokenId: string };
  const kept = await keptProofs.find(of, { block, tokenId });
  const isSame = kept !== undefined && (hash === undefined || kept.hash === hash);
  for (const blob of isSame ? kept.blobs : []) {
    const document = JSON.parse((await keptProofs.text(blob)) ?? "{}") as StateDocument;
    const { holdings = [] } = document.subject as Partial<AmountsSubject>;
    if (owner === undefined || holdings.some((one) => one.tokenId === tokenId && one.owner === owner)) return document;
  }
  throw error;
}

/** The proof of a token's last transfer up to the block of the reading. @throws Refusal 404, 409 */
async function lastTransfer(reading: LedgerReading, deps: ExploreDeps, id: bigint) {
  const { source, runtime, requester } = reading;
  const { body, headers } = await respond(reading, deps, false, (start) =>
    transfersPage(source, start, { id }, { isFirst: true, limit: 1 }),
  );
  const [last] = body.transfers;
  if (last === undefined) throw new Refusal("not_found", `id: no transfer of token ${id} is known`);
  const asked = { contract: source.address, tokenId: id, block: last.block, hash: undefined };
  const document = await deps.explorer.node.run(requester, () => runtime.proofs.proveTransfer(asked));
  return { body: document, headers };
}

const proveToken = json({
  method: "GET",
  path: `${ONE_COLLECTION}/tokens/:id/proof`,
  scope: "read",
  id: "proveToken",
  summary:
    "A proof of a token's owner, of an owner's amount, or of its last transfer, against nothing but a block's hash",
  description:
    "The state must be there: nodes keep it for minutes or hours. Where it is gone, the answer is 409 state_unavailable, with the blocks that the endpoints have. The proof is verified before it is given out, and compared with the listing.",
  tag: "Operators",
  parts: { ...COLLECTION_PARTS, id: tokenIdPart },
  query: {
    as_of_block: wholeNumber({ min: 0 }, { description: "Block; the newest one by default", example: 21_000_000 }),
    owner: ownerParameter("For a token with amounts: whose amount"),
    proves: choice(
      ["owner", "transfer"],
      { allowed: "must be owner or transfer", default: "owner" },
      {
        description:
          "owner: by the state of the block. transfer: that the token's last transfer happened, by the receipts of its block, which need no state; it does not say that nothing happened since",
        example: "owner",
      },
    ),
  },
  hasBlock: true,
  answer: ProofAnswer,
  errors: [400, 404, 409, 410],
  handle: async (asked, deps) => {
    const { query, path } = asked;
    const { owner } = query;
    const reading = await readingOf(asked, deps, ["proof"]);
    const { source, runtime, requester } = reading;
    if (query.proves === "transfer") return lastTransfer(reading, deps, path.id);
    const listing = await respond(reading, deps, owner !== undefined, (start) =>
      listedAt(reading, start, { id: path.id, owner }),
    );
    const { token } = listing.body;
    const { block, hash } = listing.asOf ?? {};
    if (block === undefined) throw new Refusal("not_indexed_yet", "the collection has no block yet; ask again later");
    const of = { contract: source.address, tokenId: path.id.toString() };
    const stated = hasAmounts(token.kind)
      ? { kind: "amount" as const, subject: { ...of, owner } }
      : { kind: "owner" as const, subject: { ...of, view: viewOf(token.kind) } };
    const request = { ...stated, block, hash: hash || undefined };
    try {
      const document = await deps.explorer.node.run(requester, () => runtime.proofs.prove(request));
      runtime.proofs.compared(source.address, block, differenceOf(listing.body, document.result));
      return { body: document, headers: listing.headers };
    } catch (error) {
      const kept = await keptInstead(error, { ...request, ...source, owner }, deps);
      return { body: kept, headers: listing.headers };
    }
  },
});

export const PROOF_OPERATIONS: readonly Operation<ProofDeps>[] = [proveToken];
