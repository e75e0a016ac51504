/** Why a proof is not accepted. A refusal says what was found, never what the claim might have been. */
import type { Address } from "../../core/hex.ts";

export class ProofRefused extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "ProofRefused";
  }
}

/** The run took longer than it may on this machine. A document about less may take less. */
export class RunTooLong extends ProofRefused {
  constructor(ms: number) {
    super(`the calls took more than ${ms / 1_000} seconds`);
  }
}

/** The run reads state that no node of the proof leads to. The prover fetches it; for a verifier it is a refusal. */
export class StateMissing extends ProofRefused {
  readonly address: Address;
  /** Undefined if the account itself, or its code, is missing. */
  readonly slot: string | undefined;

  constructor(what: "account" | "slot" | "code", address: Address, slot?: string) {
    const of = { account: "the account", slot: `slot ${slot} of`, code: "the code of" };
    super(`the run reads ${of[what]} ${address}, which the document does not prove`);
    this.address = address;
    this.slot = slot;
  }
}

/** @throws ProofRefused unless `condition` holds */
export function demand(condition: boolean, reason: string): asserts condition {
  if (!condition) throw new ProofRefused(reason);
}
