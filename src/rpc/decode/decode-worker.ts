/**
 * The decode worker. Takes raw `eth_getLogs` answers, or requests to fetch one, and returns columns. The thread that
 * serves requests never touches an answer of megabytes. Buffers are transferred, not copied.
 */

import { messageOf } from "../../core/errors.ts";
import { lowerThreadPriority } from "../../core/thread-priority.ts";
import { type HttpTarget, post } from "../http.ts";
import type { DecodeJob } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import { type DecodeReply, type DecodeRequest, decodeAnswer } from "./answer.ts";
import { decodePortal } from "./portal.ts";

type FetchRequest = DecodeJob & { readonly id: number; readonly target: HttpTarget; readonly payload: string };

/** `abandoned` cancels the request of that id: its caller no longer waits for the reply. */
export type WorkerRequest = DecodeRequest | FetchRequest | { readonly id: number; readonly abandoned: true };
/** `bytes`: size of the raw answer. */
export type WorkerReply = DecodeReply & { readonly bytes: number };

declare const self: Worker;

lowerThreadPriority();

const fetching = new Map<number, AbortController>();

self.onmessage = ({ data: request }: MessageEvent<WorkerRequest>) => {
  if ("abandoned" in request) fetching.get(request.id)?.abort();
  else decode(request);
};

/** Answers a request. Catches every error: a crash of the worker would lose the requests of other endpoints. */
async function decode(request: DecodeRequest | FetchRequest): Promise<void> {
  const { id } = request;
  try {
    const raw = "raw" in request ? request.raw : await fetchAnswer(request);
    const decode = request.isArchives === true ? decodePortal : decodeAnswer;
    answer(decode({ ...request, raw }), raw.length);
  } catch (error) {
    answer({ id, ...failureOf(error) }, 0);
  } finally {
    fetching.delete(id);
  }
}

function fetchAnswer({ id, target, payload }: FetchRequest): Promise<Uint8Array> {
  const abort = new AbortController();
  fetching.set(id, abort);
  return post(target, payload, abort.signal);
}

function answer(reply: DecodeReply, bytes: number): void {
  const transferred = "range" in reply ? [reply.range.transfers.buffer as ArrayBuffer] : [];
  self.postMessage({ ...reply, bytes } satisfies WorkerReply, transferred);
}

function failureOf(error: unknown): Omit<Extract<DecodeReply, { kind: unknown }>, "id"> {
  if (!(error instanceof RpcError)) return { kind: "transient", message: messageOf(error) };
  const { kind, message, meta, retryAfterMs } = error;
  return { kind, message, meta, retryAfterMs };
}
