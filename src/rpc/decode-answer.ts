/**
 * A raw `eth_getLogs` answer to columns: parsed, verified, decoded. Pure; runs in the decode worker, and in line where
 * there is none.
 */
import { type ErrorMeta, messageOf } from "../core/errors.ts";
import type { TransferForm } from "../events/types.ts";
import { decodeTransferLogs } from "./decode.ts";
import { RpcError, type RpcErrorKind } from "./errors.ts";
import { scanTransfers } from "./scan.ts";
import { verifyLogs } from "./verify.ts";

export interface DecodeJob {
  readonly address: string;
  readonly topics: readonly string[];
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly forms: readonly TransferForm[];
}

export interface DecodedRange {
  readonly transfers: Uint8Array;
  readonly count: number;
  readonly malformed: number;
  /** Logs in the answer, whether or not they read as transfers. */
  readonly logs: number;
  /** Number and hash of the newest block that holds a log. */
  readonly lastBlock: number | undefined;
  readonly lastHash: string | undefined;
}

export type DecodeRequest = DecodeJob & { readonly id: number; readonly raw: Uint8Array };
export type DecodeReply =
  | { readonly id: number; readonly range: DecodedRange }
  /** The endpoint answered with a JSON-RPC error. */
  | { readonly id: number; readonly rpcError: unknown }
  | {
      readonly id: number;
      readonly kind: RpcErrorKind;
      readonly message: string;
      readonly meta?: ErrorMeta;
      readonly retryAfterMs?: number | undefined;
    };

const decoder = new TextDecoder();

/** What is in an answer; never throws. */
export function decodeAnswer(request: DecodeRequest): DecodeReply {
  const plain = scanTransfers(request.raw, request);
  return plain === undefined ? parseAnswer(request) : { id: request.id, range: plain };
}

/** As `decodeAnswer`, by way of parsed JSON: what every answer but the plainest is read by. */
export function parseAnswer(request: DecodeRequest): DecodeReply {
  const { id, raw, address, topics, fromBlock, toBlock, forms } = request;
  let answer: { result?: unknown; error?: unknown } | null = null;
  try {
    answer = JSON.parse(decoder.decode(raw));
  } catch {
    // Told as what is JSON and says nothing.
  }
  if (answer === null) return { id, kind: "transient", message: "the answer is not JSON" };
  if (answer.error !== undefined && answer.error !== null) return { id, rpcError: answer.error };
  try {
    const logs = verifyLogs(answer.result, {
      addresses: new Set([address]),
      topics: new Set(topics),
      fromBlock,
      toBlock,
    });
    const last = logs.at(-1);
    const decoded = decodeTransferLogs(logs, forms);
    return { id, range: { ...decoded, logs: logs.length, lastBlock: last?.blockNumber, lastHash: last?.blockHash } };
  } catch (error) {
    return { id, kind: error instanceof RpcError ? error.kind : "lie", message: messageOf(error) };
  }
}
