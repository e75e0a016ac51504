/**
 * Makes proofs that a transfer happened, from the receipts of its block. They need no state, so old blocks have them as
 * long as endpoints keep receipts.
 */
import type { Chain } from "../chains/chains.ts";
import { type Address, quantity } from "../core/hex.ts";
import { receiptsRoot } from "../rpc/decode/hashes.ts";
import type { Endpoint } from "../rpc/port.ts";
import { requestParsed } from "../rpc/reading/one-call.ts";
import type { RpcChainReader } from "../rpc/reading/reader.ts";
import { rpcErrorOf } from "../rpc/rpc-errors.ts";
import { cantProve, chainIdOf, isLasting, type ProofBlock, proofHeader, type WireHeader } from "./proof-header.ts";
import type { RunThread } from "./run-thread.ts";
import type { TransferDocument } from "./verifier/document.ts";
import { type ReceiptLog, transferIn } from "./verifier/transfer-claim.ts";

export interface TransferRequest extends ProofBlock {
  readonly contract: Address;
  readonly tokenId: bigint;
}

export interface ProofSources {
  readonly chain: Chain;
  readonly reader: Pick<RpcChainReader, "onOneEndpoint" | "head">;
  readonly thread: RunThread;
}

/**
 * Proves the last transfer of a token in a block.
 * @throws Refusal `state_unavailable` if no endpoint has the receipts, or the contract announces transfers in a form of its own
 */
export async function proveTransfer(sources: ProofSources, asked: TransferRequest): Promise<TransferDocument> {
  const { block } = asked;
  try {
    return await sources.reader.onOneEndpoint((endpoint) => proveOn(endpoint, sources, asked), { block });
  } catch (error) {
    const cause = rpcErrorOf(error);
    if (cause === undefined || !isLasting(cause)) throw error;
    throw cantProve(`no endpoint gives the receipts of block ${block}, which hold the transfer`, { block });
  }
}

async function proveOn(
  endpoint: Endpoint,
  { chain, thread }: ProofSources,
  asked: TransferRequest,
): Promise<TransferDocument> {
  const tag = quantity(asked.block);
  const [chainId, wire, receipts] = await Promise.all([
    chainIdOf(chain, endpoint),
    requestParsed(endpoint, "eth_getBlockByNumber", [tag, false], (answer) => answer as WireHeader),
    requestParsed(endpoint, "eth_getBlockReceipts", [tag], receiptsIn),
  ]);
  const header = proofHeader(wire, asked, { chain, endpoint });
  const nodes: string[] = [];
  const root = await receiptsRoot(receipts, (node) => nodes.push(node));
  if (root !== header["receiptsRoot"]) {
    throw cantProve("the receipts that the node gives do not make the root in the header");
  }
  const { contract, tokenId } = asked;
  const place = placeOf(receipts, asked);
  const subject = { contract, tokenId: tokenId.toString(), ...place };
  const stated = { kind: "transfer", chainId, header, subject } as const;
  const reply = await thread.run({ stated, nodes, codes: new Map() });
  if ("document" in reply && reply.document.kind === "transfer") return reply.document;
  throw cantProve("refused" in reply ? reply.refused : "the receipts do not lead to the transfer");
}

interface ReceiptWithLogs {
  readonly logs: readonly ReceiptLog[];
}

/** @throws TypeError unless it is a list of receipts with logs */
function receiptsIn(answer: unknown): ReceiptWithLogs[] {
  const isReceipt = (one: unknown) => Array.isArray((one as Partial<ReceiptWithLogs> | null)?.logs);
  if (!Array.isArray(answer) || !answer.every(isReceipt)) throw new TypeError("no receipts");
  return answer as ReceiptWithLogs[];
}

/** The place of the last log that tells a transfer of the token. @throws Refusal if there is none */
function placeOf(receipts: readonly ReceiptWithLogs[], { contract, tokenId, block }: TransferRequest) {
  for (const [transaction, { logs }] of [...receipts.entries()].reverse()) {
    const log = logs.findLastIndex(
      (one) => one.address.toLowerCase() === contract && transferIn(lowered(one), tokenId),
    );
    if (log >= 0) return { transaction, log };
  }
  throw cantProve(`no log of block ${block} tells a transfer of token ${tokenId} in a form that a verifier knows`);
}

const lowered = ({ address, topics, data }: ReceiptLog): ReceiptLog => ({
  address: address.toLowerCase(),
  topics: topics.map((topic) => topic.toLowerCase()),
  data: data.toLowerCase(),
});
