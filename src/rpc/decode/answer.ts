/**
 * Turns a raw `eth_getLogs` answer into columns: parses, verifies and decodes it. Pure. Runs in the decode worker, or
 * on the caller's thread where there is no worker.
 */
import { type ErrorMeta, messageOf } from "../../core/errors.ts";
import { jsonIn } from "../../core/json-bytes.ts";
import type { BlockRange } from "../../events/types.ts";
import type { BatchIds, DecodedRange, DecodeJob } from "../port.ts";
import { RpcError, type RpcErrorKind } from "../rpc-errors.ts";
import { scanBatch, scanTransfers } from "./scan.ts";
import { decodeTransferLogs, NFT_TOPICS } from "./transfers.ts";
import { verifyLogs } from "./verify-logs.ts";

export type DecodeRequest = DecodeJob & { readonly id: number; readonly raw: Uint8Array };
export type DecodeReply =
  /** `headers`: those of a batch, as the endpoint sent them. */
  | { readonly id: number; readonly range: DecodedRange; readonly headers?: readonly unknown[] }
  /** The endpoint answered with a JSON-RPC error; with `isOfBatch`, to the batch as a whole. */
  | { readonly id: number; readonly rpcError: unknown; readonly isOfBatch?: boolean }
  | {
      readonly id: number;
      readonly kind: RpcErrorKind;
      readonly message: string;
      readonly meta?: ErrorMeta;
      readonly retryAfterMs?: number | undefined;
    };

const NOT_JSON = { kind: "transient", message: "the answer is not JSON" } as const;

/** Decodes an answer. Never throws. */
export function decodeAnswer(request: DecodeRequest): DecodeReply {
  if (request.batch !== undefined) return decodeBatch(request, request.batch);
  const plain = scanTransfers(request.raw, request);
  return plain === undefined ? parseAnswer(request) : { id: request.id, range: plain };
}

/** Like `decodeAnswer`, through parsed JSON. Reads every answer that `scanTransfers` does not. */
export function parseAnswer(request: DecodeRequest): DecodeReply {
  const { id, raw } = request;
  const answer = jsonIn(raw) as BatchElement | null | undefined;
  if (answer === undefined || answer === null) return { id, ...NOT_JSON };
  if (answer.error !== undefined && answer.error !== null) return { id, rpcError: answer.error };
  return decodeLists(request, [{ ...request, result: answer.result }]);
}

interface BatchElement {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** Decodes a batch: the logs of consecutive ranges, and headers. */
function decodeBatch(request: DecodeRequest, batch: BatchIds): DecodeReply {
  const { id, raw } = request;
  const plain = scanBatch(raw, request, batch.logs);
  if (plain !== undefined) {
    const { elements, range } = plain;
    return { id, range, headers: batch.headers.map((one) => elements.get(one)?.result) };
  }
  const answers = jsonIn(raw);
  if (answers === undefined) return { id, ...NOT_JSON };
  if (!Array.isArray(answers)) {
    const { error } = (answers ?? {}) as BatchElement;
    return { id, rpcError: error ?? { message: "the answer to a batch is not a batch" }, isOfBatch: true };
  }
  const elements = new Map((answers as (BatchElement | null)[]).map((one) => [Number(one?.id), one]));
  const requested = [...batch.logs.map(({ id: one }) => one), ...batch.headers].map((one) => elements.get(one));
  const refused = requested.find((one) => one?.error !== undefined && one.error !== null);
  if (refused !== undefined) return { id, rpcError: refused?.error };
  const reply = decodeLists(
    request,
    batch.logs.map((part) => ({ ...part, result: elements.get(part.id)?.result })),
  );
  return "range" in reply ? { ...reply, headers: batch.headers.map((one) => elements.get(one)?.result) } : reply;
}

/** Verifies each list of logs against its own range, so that a log cannot move to another range. Then decodes them. */
function decodeLists(
  { id, address, forms }: DecodeRequest,
  lists: readonly (BlockRange & { readonly result: unknown })[],
): DecodeReply {
  try {
    const logs = lists.flatMap(({ result, fromBlock, toBlock }) =>
      verifyLogs(result, { addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock }),
    );
    const last = logs.at(-1);
    const decoded = decodeTransferLogs(logs, forms);
    return { id, range: { ...decoded, logs: logs.length, lastBlock: last?.blockNumber, lastHash: last?.blockHash } };
  } catch (error) {
    if (!(error instanceof RpcError)) return { id, kind: "lie", message: messageOf(error) };
    return { id, kind: error.kind, message: error.message, meta: error.meta };
  }
}
