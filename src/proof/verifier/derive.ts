/**
 * Derives a whole document from a header, trie nodes and codes. The prover gives out what comes of it, and a verifier
 * compares it with the document that it has.
 */
import { wordsOfBlock } from "./claim.ts";
import { blockOf, CLAIMS, type Stated } from "./claims.ts";
import { FORMAT, type StateDocument } from "./document.ts";
import { ProvenReads, type Witness } from "./proven-state.ts";
import { runCalls } from "./run.ts";

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
    calls: calls.map(({ to, data }, at) => ({ to, data, ...(outcomes[at] as (typeof outcomes)[number]) })),
    state: reads.accounts(),
    codes: reads.codes(),
    nodes: witness.nodes.used(),
  };
}
