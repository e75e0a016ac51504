/**
 * Derives a whole document from a header, trie nodes and codes. The prover gives out what comes of it, and a verifier
 * compares it with the document that it has.
 */
import { type ProvenBlock, type StateClaim, wordsOfBlock } from "./claim.ts";
import { FORMAT, type ProofDocument, type StateDocument, type StateKind } from "./document.ts";
import { type HeaderFields, hashOfHeader } from "./header.ts";
import { ProvenReads, type Witness } from "./proven-state.ts";
import { type ProvenCall, runCalls } from "./run.ts";
import { AMOUNT_CLAIM, OWNER_CLAIM } from "./token-claims.ts";

const CLAIMS: Readonly<Record<StateKind, StateClaim<object>>> = {
  owner: OWNER_CLAIM as StateClaim<object>,
  amount: AMOUNT_CLAIM as StateClaim<object>,
};

/** What a document is about. */
export interface Stated {
  readonly kind: StateKind;
  readonly chainId: number;
  readonly header: HeaderFields;
  readonly subject: object;
}

/** The block that a header names. @throws ProofRefused */
export function blockOf({ chainId, header }: Pick<ProofDocument, "chainId" | "header">): ProvenBlock {
  const hash = hashOfHeader(header);
  return { chainId, hash, number: Number(header["number"]), timestamp: Number(header["timestamp"]) };
}

/** The calls that show what is claimed of a subject. @throws ProofRefused if it is no subject of the kind */
export function callsFor({ kind, subject }: Pick<Stated, "kind" | "subject">): readonly ProvenCall[] {
  const claim = CLAIMS[kind];
  return claim.calls(claim.subject(subject, "subject"));
}

/** @throws ProofRefused if the witness doesn't show what is claimed, or doesn't reach */
export async function deriveState(stated: Stated, witness: Omit<Witness, "stateRoot">): Promise<StateDocument> {
  const { kind, chainId, header } = stated;
  const block = blockOf(stated);
  const { subject: parse, ...claim } = CLAIMS[kind];
  const subject = parse(stated.subject, "subject");
  const calls = claim.calls(subject);
  const reads = new ProvenReads({ ...witness, stateRoot: header["stateRoot"] ?? "" });
  const outcomes = await runCalls({ chainId, header }, calls, reads);
  const result = claim.result(subject, outcomes);
  return {
    format: FORMAT,
    kind,
    claim: `${wordsOfBlock(block)}: ${claim.words(subject, result)}`,
    chainId,
    blockHash: block.hash,
    header,
    subject,
    result,
    calls: calls.map((call, at) => ({ ...call, ...(outcomes[at] as (typeof outcomes)[number]) })),
    state: reads.accounts(),
    codes: reads.codes(),
    nodes: witness.nodes.used(),
  };
}
