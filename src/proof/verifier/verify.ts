/**
 * Verifies a document against nothing but the hash of its block. All that is accepted is derived here: the hash from the
 * header, each value from the trie nodes, each result from a run of the code, the claim from the results. Then the document
 * must say the very same. This file is all that a program imports.
 */
import { keccak256 } from "ethers/crypto";
import type { ProofResult, ProvenBlock } from "./claim.ts";
import { blockOf } from "./claims.ts";
import { deriveState } from "./derive.ts";
import { MAX_DOCUMENT, type ProofDocument, type ProofKind, parseDocument } from "./document.ts";
import { demand, ProofRefused } from "./refusal.ts";
import { deriveTransfer } from "./transfer-claim.ts";
import { Nodes } from "./trie.ts";

export { ProofRefused };

/** What a document proves. It is true of a chain that has this block: get the block's hash from elsewhere. */
export interface VerifiedProof {
  readonly kind: ProofKind;
  readonly block: ProvenBlock;
  /** The claim in words. */
  readonly claim: string;
  readonly result: ProofResult;
}

export interface VerifyOptions {
  /** The block's hash, 0x and 64 hex digits, as another source has it. */
  readonly hash?: string | undefined;
}

/**
 * Verifies a document.
 * @param given its JSON text, or what that parses to
 * @throws ProofRefused with the reason
 */
export async function verifyProof(given: unknown, options: VerifyOptions = {}): Promise<VerifiedProof> {
  try {
    return await verified(given, options);
  } catch (error) {
    if (error instanceof ProofRefused) throw error;
    throw new ProofRefused(`the document can't be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function verified(given: unknown, { hash }: VerifyOptions): Promise<VerifiedProof> {
  const document = parseDocument(typeof given === "string" ? jsonOf(given) : given);
  const block = blockOf(document);
  demand(block.hash === document.blockHash, `the header makes the hash ${block.hash}, and not ${document.blockHash}`);
  if (hash !== undefined) {
    demand(/^0x[0-9a-f]{64}$/i.test(hash), "the expected hash is not 0x and 64 hex digits");
    demand(hash.toLowerCase() === block.hash, `the proof is of the block ${block.hash}, and not of ${hash}`);
  }
  const derived = await derivedFrom(document);
  for (const [name, value] of Object.entries(derived)) {
    const isSame = JSON.stringify(value) === JSON.stringify(document[name as keyof ProofDocument]);
    demand(isSame, `the document's ${name} differs from what follows from its header, nodes and codes`);
  }
  return { kind: document.kind, block, claim: derived.claim, result: derived.result };
}

function jsonOf(text: string): unknown {
  demand(text.length <= MAX_DOCUMENT, `the document has more than ${MAX_DOCUMENT} characters`);
  try {
    return JSON.parse(text);
  } catch {
    throw new ProofRefused("the document is not JSON");
  }
}

async function derivedFrom(document: ProofDocument): Promise<ProofDocument> {
  const nodes = new Nodes(document.nodes);
  if (document.kind === "transfer") return deriveTransfer(document, nodes);
  const codes = new Map(Object.entries(document.codes));
  for (const [hash, code] of codes) demand(keccak256(code) === hash, `the code ${hash} has another hash`);
  return deriveState(document, { nodes, codes });
}
