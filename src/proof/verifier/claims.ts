/** The kinds of claims about a state, and the calls that show one. Loads no engine. */
import type { ProvenBlock, ProvenCall, StateClaim } from "./claim.ts";
import type { StateKind } from "./document.ts";
import { type HeaderFields, hashOfHeader } from "./header.ts";
import { PRICE_CLAIM } from "./price-claim.ts";
import { AMOUNT_CLAIM, AMOUNTS_CLAIM, OWNER_CLAIM, OWNERS_CLAIM } from "./token-claims.ts";

export const CLAIMS: Readonly<Record<StateKind, StateClaim<object>>> = {
  owner: OWNER_CLAIM as StateClaim<object>,
  amount: AMOUNT_CLAIM as StateClaim<object>,
  owners: OWNERS_CLAIM as StateClaim<object>,
  amounts: AMOUNTS_CLAIM as StateClaim<object>,
  price: PRICE_CLAIM as StateClaim<object>,
};

/** What a document is about. */
export interface Stated {
  readonly kind: StateKind;
  readonly chainId: number;
  readonly header: HeaderFields;
  readonly subject: object;
}

/** The calls that show what is claimed of a subject. @throws ProofRefused if it is no subject of the kind */
export function callsFor({ kind, subject }: Pick<Stated, "kind" | "subject">): readonly ProvenCall[] {
  const claim = CLAIMS[kind];
  return claim.calls(claim.subject(subject, "subject"));
}

/** The block that a header names. @throws ProofRefused */
export function blockOf({ chainId, header }: Pick<Stated, "chainId" | "header">): ProvenBlock {
  const hash = hashOfHeader(header);
  return { chainId, hash, number: Number(header["number"]), timestamp: Number(header["timestamp"]) };
}
