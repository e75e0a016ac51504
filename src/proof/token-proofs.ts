/** The proofs of a chain's tokens, with what comes of comparing them with the ledger: a finding of the audit. */
import type { Address } from "../core/hex.ts";
import { Prover } from "./prover.ts";
import { type ProofSources, proveTransfer, type TransferRequest } from "./transfer-prover.ts";
import type { TransferDocument } from "./verifier/document.ts";

interface TokenProofsOptions extends ProofSources {
  /** Called for each comparison. */
  readonly onCompared: (differs: boolean) => void;
  /** Called with the block and the difference in words. */
  readonly onFinding: (address: Address, finding: { readonly block: number; readonly reason: string }) => void;
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

  /** @param difference between what is proven and what the ledger says, in words; undefined if there is none */
  compared(address: Address, block: number, difference: string | undefined): void {
    this.#options.onCompared(difference !== undefined);
    if (difference !== undefined) this.#options.onFinding(address, { block, reason: difference });
  }
}
