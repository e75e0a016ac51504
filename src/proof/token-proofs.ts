/** The proofs of a chain's tokens, with what comes of comparing them with the ledger: a finding of the audit. */
import { AppError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { hasAmounts, TransferKind } from "../events/columns.ts";
import type { BlockRef } from "../events/types.ts";
import { Prover } from "./prover.ts";
import { type ProofSources, proveTransfer, type TransferRequest } from "./transfer-prover.ts";
import type { TransferDocument } from "./verifier/document.ts";
import type { OwnerView } from "./verifier/token-claims.ts";

interface TokenProofsOptions extends ProofSources {
  /** Called for each comparison. */
  readonly onCompared: (differs: boolean) => void;
  /** Called with the block and the difference in words. */
  readonly onFinding: (address: Address, finding: { readonly block: number; readonly reason: string }) => void;
}

/** A token, and who is said to hold it. */
interface HeldToken {
  readonly kind: TransferKind;
  readonly id: bigint;
  readonly owner: Address;
}

export class TokenProofs {
  readonly #options: TokenProofsOptions;
  readonly #prover: Prover;

  constructor(options: TokenProofsOptions) {
    this.#options = options;
    this.#prover = new Prover(options);
  }

  prove(...asked: Parameters<Prover["prove"]>): ReturnType<Prover["prove"]> {
    return this.#prover.prove(...asked);
  }

  /** See `proveTransfer`. */
  proveTransfer(asked: TransferRequest): Promise<TransferDocument> {
    return proveTransfer(this.#options, asked);
  }

  /** What an owner holds of a token at a block, by a proof. Undefined if the endpoints can't make one. */
  async held(
    contract: Address,
    { kind, id, owner }: HeldToken,
    { number, hash }: BlockRef,
  ): Promise<bigint | undefined> {
    const of = { contract, tokenId: id.toString() };
    const stated = hasAmounts(kind)
      ? { kind: "amount" as const, subject: { ...of, owner } }
      : { kind: "owner" as const, subject: { ...of, view: viewOf(kind) } };
    try {
      const { result } = await this.#prover.prove({ ...stated, block: number, hash, isOfStateAlone: true });
      return result["amount"] === undefined ? BigInt(result["owner"] === owner) : BigInt(result["amount"] as string);
    } catch (error) {
      // A refusal is an `AppError`, too.
      if (error instanceof AppError) return undefined;
      throw error;
    }
  }

  /** @param difference between what is proven and what the ledger says, in words; undefined if there is none */
  compared(address: Address, block: number, difference: string | undefined): void {
    this.#options.onCompared(difference !== undefined);
    if (difference !== undefined) this.#options.onFinding(address, { block, reason: difference });
  }
}

/** The view by which contracts of a kind name the owner of a token. */
export function viewOf(kind: TransferKind): OwnerView {
  if (kind === TransferKind.cryptopunks) return "punkIndexToAddress(uint256)";
  return kind === TransferKind.mooncats ? "catOwners(bytes5)" : "ownerOf(uint256)";
}
