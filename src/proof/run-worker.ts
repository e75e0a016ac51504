/**
 * Entry point of the worker that makes documents: it runs contracts, whose authors decide how long that takes, away from
 * the thread that serves requests. In: a subject with trie nodes and codes. Out: the document, which was verified once more
 * from its text; or the state that is still missing; or the reason of a refusal.
 */
import { messageOf } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Stated } from "./verifier/claims.ts";
import { deriveState } from "./verifier/derive.ts";
import type { ProofDocument } from "./verifier/document.ts";
import { ProofRefused, RunTooLong, StateMissing } from "./verifier/refusal.ts";
import { deriveTransfer, type StatedTransfer } from "./verifier/transfer-claim.ts";
import { Nodes } from "./verifier/trie.ts";
import { verifyProof } from "./verifier/verify.ts";

/** State to fetch. Without a slot it is the account with its code. */
export interface WantedState {
  readonly address: Address;
  readonly slot?: string | undefined;
}

export interface RunRequest {
  readonly stated: Stated | StatedTransfer;
  /** Trie nodes in RLP, hex with 0x. */
  readonly nodes: readonly string[];
  /** Codes by hash, hex with 0x. */
  readonly codes: ReadonlyMap<string, string>;
}

export type RunReply =
  | { readonly document: ProofDocument }
  | { readonly missing: readonly WantedState[] }
  | { readonly refused: string; readonly isLate?: boolean };

/** Most slots that one run may miss before it ends. A run goes on with zero, to find more of them at once. */
const MAX_MISSING = 64;

// Its priority is not lowered: on a busy machine an honest run would then take longer than it may.
declare const self: Worker;

async function reply({ stated, nodes, codes }: RunRequest): Promise<RunReply> {
  const missing = new Map<string, WantedState>();
  const miss = (address: Address, slot?: string) => missing.set(`${address} ${slot}`, { address, slot });
  const onMissingSlot = (address: Address, slot: string) => {
    miss(address, slot);
    if (missing.size === MAX_MISSING) throw new StateMissing("slot", address, slot);
  };
  try {
    const found = new Nodes(nodes);
    const document =
      stated.kind === "transfer"
        ? deriveTransfer(stated, found)
        : await deriveState(stated, { nodes: found, codes, onMissingSlot });
    if (missing.size > 0) return { missing: [...missing.values()] };
    await verifyProof(JSON.stringify(document));
    return { document };
  } catch (error) {
    if (error instanceof StateMissing) miss(error.address, error.slot);
    if (missing.size > 0) return { missing: [...missing.values()] };
    if (error instanceof RunTooLong) return { refused: error.message, isLate: true };
    return { refused: error instanceof ProofRefused ? error.message : `the run failed: ${messageOf(error)}` };
  }
}

self.onmessage = async ({ data }: MessageEvent<RunRequest>) => {
  self.postMessage((await reply(data)) satisfies RunReply);
};
