/**
 * Proofs that are kept: a collection's ownership at one block, which stays provable when the nodes have long dropped the
 * state. In: holdings as the ledger has them. Out: documents as blobs of the log, and an event that names them.
 */
import type { Address, Hash } from "../core/hex.ts";
import { type KeptDocument, type ProofEvent, type ProofsKept, proofStream } from "../events/types.ts";
import { type EventLog, isConflict } from "../log/event-log.ts";
import { TooLongToProve } from "./proof-header.ts";
import type { ProofRequest } from "./prover.ts";
import type { StateDocument } from "./verifier/document.ts";
import { holdingName, MAX_TOKENS, type OwnerView } from "./verifier/token-claims.ts";

/** A holding as the ledger has it. */
export interface LedgerHolding {
  /** Decimal. */
  readonly tokenId: string;
  readonly owner: Address;
  /** Decimal; undefined for a token with one owner. */
  readonly amount: string | undefined;
  /** The view that names its owner. */
  readonly view: OwnerView;
}

/** A collection at a block. */
export interface KeptAt {
  readonly chainId: number;
  readonly address: Address;
  readonly block: number;
  readonly hash: Hash;
}

/** Events of a page when the stream is read back. */
const PAGE = 32;
/** Documents that are made at once. The runs take turns; the requests to the node don't. */
const AT_ONCE = 3;

export class KeptProofs {
  readonly #log: EventLog;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /**
   * Makes the documents, stores them and records them.
   * @param prove makes one document
   * @returns what was recorded, and the holdings that the contract's state contradicts, in words
   * @throws errors of `prove`: then nothing is recorded
   */
  async keep(
    at: KeptAt,
    holdings: readonly LedgerHolding[],
    prove: (asked: ProofRequest) => Promise<StateDocument>,
  ): Promise<{ readonly kept: ProofsKept; readonly differences: readonly string[] }> {
    const parts = partsOf(holdings);
    const documents: KeptDocument[] = [];
    const differences: string[] = [];
    /** Undefined if the run took too long and the part can be split: some contracts read hundreds of slots for an owner. */
    const proveIfInTime = (part: readonly LedgerHolding[]): Promise<StateDocument | undefined> =>
      prove({ ...requestOf(at.address, part), block: at.block, hash: at.hash }).catch((error: unknown) => {
        if (error instanceof TooLongToProve && part.length > 1) return undefined;
        throw error;
      });
    const work = async (): Promise<void> => {
      for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
        const document = await proveIfInTime(part);
        if (document === undefined) {
          const middle = part.length >> 1;
          parts.unshift(part.slice(0, middle), part.slice(middle));
          continue;
        }
        differences.push(...differencesOf(part, document));
        const blob = await this.#log.putBlob(new TextEncoder().encode(JSON.stringify(document)));
        documents.push({ blob, tokenIds: [...new Set(part.map(({ tokenId }) => tokenId))] });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const kept = { type: "ProofsKept", block: at.block, hash: at.hash, documents } as const;
    await this.#append(at, kept);
    return { kept, differences };
  }

  async #append({ chainId, address }: KeptAt, event: ProofsKept): Promise<void> {
    const stream = proofStream(chainId, address);
    for (;;) {
      const { version } = await this.#log.head(stream);
      try {
        await this.#log.append({ stream, expectedVersion: version, events: [event] });
        return;
      } catch (error) {
        if (!isConflict(error, stream)) throw error;
      }
    }
  }

  /**
   * The hashes of the documents that are kept of a block, the newest ones first.
   * @param tokenId only those about this token. @param block the newest block with any by default
   */
  async find(
    { chainId, address }: Pick<KeptAt, "chainId" | "address">,
    { block, tokenId }: { readonly block: number | undefined; readonly tokenId?: string },
  ): Promise<{ readonly block: number; readonly hash: Hash; readonly blobs: readonly Hash[] } | undefined> {
    const stream = proofStream(chainId, address);
    let found: { block: number; hash: Hash; blobs: Hash[] } | undefined;
    for (let before: number | undefined; ; ) {
      const page = await this.#log.readBackwards(stream, {
        limit: PAGE,
        ...(before === undefined ? {} : { before }),
      });
      for (const recorded of page) {
        const event = recorded.event as ProofEvent;
        if (event.block !== (block ?? found?.block ?? event.block)) continue;
        const own = event.documents.filter(({ tokenIds }) => tokenId === undefined || tokenIds.includes(tokenId));
        if (own.length === 0) continue;
        found ??= { block: event.block, hash: event.hash, blobs: [] };
        // After a reorganisation a block of this number may be another one.
        if (event.hash === found.hash) found.blobs.push(...own.map(({ blob }) => blob));
      }
      before = page.at(-1)?.version;
      if (before === undefined || before === 1) break;
    }
    return found === undefined ? undefined : { ...found, blobs: [...new Set(found.blobs)] };
  }

  /** The text of a kept document. Undefined if the log lost it. */
  async text(blob: Hash): Promise<string | undefined> {
    const bytes = await this.#log.getBlob(blob);
    return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
  }
}

/** Holdings of one sort, as many as one document takes. */
function partsOf(holdings: readonly LedgerHolding[]): LedgerHolding[][] {
  const sorts = new Map<string, LedgerHolding[]>();
  for (const one of holdings) {
    const sort = one.amount === undefined ? one.view : "amounts";
    const some = sorts.get(sort) ?? [];
    sorts.set(sort, some);
    some.push(one);
  }
  return [...sorts.values()].flatMap((some) =>
    Array.from({ length: Math.ceil(some.length / MAX_TOKENS) }, (_, at) =>
      some.slice(at * MAX_TOKENS, (at + 1) * MAX_TOKENS),
    ),
  );
}

function requestOf(contract: Address, part: readonly LedgerHolding[]): Pick<ProofRequest, "kind" | "subject"> {
  const [first] = part;
  if (first?.amount === undefined) {
    const tokenIds = part.map(({ tokenId }) => tokenId);
    return { kind: "owners", subject: { contract, view: first?.view ?? "ownerOf(uint256)", tokenIds } };
  }
  return { kind: "amounts", subject: { contract, holdings: part.map(({ tokenId, owner }) => ({ tokenId, owner })) } };
}

/** In words, where the contract's state contradicts the ledger. */
const differencesOf = (part: readonly LedgerHolding[], { result }: StateDocument): string[] =>
  part.flatMap((one) => {
    const { tokenId, owner, amount } = one;
    const [listed, proven] = amount === undefined ? [owner, result[tokenId]] : [amount, result[holdingName(one)]];
    return listed === proven ? [] : [`token ${tokenId}: the logs say ${listed}, and the contract ${proven}`];
  });
