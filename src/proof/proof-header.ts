/** What proofs of both sorts need of a block: its header, in a form that a verifier can hash, and refusals. */
import { type Chain, LOCAL_CHAIN } from "../chains/chains.ts";
import { Refusal } from "../core/errors.ts";
import { type Hash, parseQuantity } from "../core/hex.ts";
import type { Endpoint } from "../rpc/port.ts";
import { missingBlock } from "../rpc/reading/headers.ts";
import { requestParsed } from "../rpc/reading/one-call.ts";
import { isLag, type RpcError } from "../rpc/rpc-errors.ts";
import { delayReason, type HeaderFields, hashedFields } from "./verifier/header.ts";

/** A block of which something is to be proven. */
export interface ProofBlock {
  readonly block: number;
  /** Undefined if the node may say which block has this number. */
  readonly hash: Hash | undefined;
}

export type WireHeader = Readonly<Record<string, unknown>> | null;

/**
 * The header's fields.
 * @throws RpcError `transient` if the endpoint has another block, or none; Refusal if the header proves nothing
 */
export function proofHeader(
  wire: WireHeader,
  { block, hash }: ProofBlock,
  { chain, endpoint }: { readonly chain: Chain; readonly endpoint: Endpoint },
): HeaderFields {
  const isOther = hash !== undefined && String(wire?.["hash"]).toLowerCase() !== hash;
  if (wire === null || isOther) throw missingBlock(block, endpoint);
  const delay = delayReason(chain.chainId, wire);
  if (delay !== undefined) throw cantProve(delay);
  const header = hashedFields(wire);
  if (header === undefined) throw cantProve(`the fields of this header do not make its hash on ${chain.name}`);
  return header;
}

/** The chain's id as contracts see it. A development chain has another one here, by its genesis block. */
export const chainIdOf = async ({ name, chainId }: Chain, endpoint: Endpoint): Promise<number> =>
  name === LOCAL_CHAIN ? requestParsed(endpoint, "eth_chainId", [], parseQuantity) : chainId;

export const cantProve = (reason: string, details?: Readonly<Record<string, unknown>>): Refusal =>
  new Refusal("state_unavailable", `this can't be proven: ${reason}`, details === undefined ? {} : { details });

/** Refuses a document because its run took too long here. The run of a document about fewer tokens may end in time. */
export class TooLongToProve extends Refusal {
  constructor(reason: string) {
    super("state_unavailable", cantProve(reason).message);
  }
}

/** True if an endpoint refuses the request for good: it lacks the state, the method, or room for an answer. */
export const isLasting = (error: RpcError): boolean =>
  error.kind === "state_unavailable" ||
  error.kind === "unsupported" ||
  error.kind === "range" ||
  (error.kind === "transient" && "rpcCode" in error.meta && !isLag(error));
