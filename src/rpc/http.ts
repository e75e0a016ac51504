/**
 * One JSON-RPC exchange over http(s): a payload there, the answer's bytes back, within a time and a size. A file of its own
 * since it runs on two threads: here for all that is asked of a node, in the decode worker for what is large. The URL
 * stays in here: errors name the endpoint by its label.
 */
import { classifyHttpStatus, connectionFault, RpcError } from "./errors.ts";

/** Where to send, and how much to take. */
export interface HttpTarget {
  readonly url: string;
  /** Stands for the URL in errors: `eth#1`. */
  readonly label: string;
  readonly timeoutMs: number;
  /** Answers above this are refused before they are parsed. */
  readonly maxBytes: number;
}

/** The bytes of the answer to a payload. @throws RpcError `transient`, `late`, `rate` or `range` */
export async function post(target: HttpTarget, payload: string, signal?: AbortSignal): Promise<Uint8Array> {
  const { url, label, timeoutMs } = target;
  const timeout = AbortSignal.timeout(timeoutMs);
  let response: Response;
  let bytes: Uint8Array;
  try {
    response = await fetch(url, {
      method: "POST",
      body: payload,
      headers: { "content-type": "application/json", accept: "application/json" },
      redirect: "error",
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    });
    bytes = await bodyOf(response, target);
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (error instanceof RpcError) throw error;
    const isLate = timeout.aborted;
    const reason = isLate ? `no answer within ${timeoutMs} ms` : connectionFault(error);
    // The cause is left out on purpose: its text carries the URL.
    throw new RpcError(isLate ? "late" : "transient", `the endpoint could not be reached: ${reason}`, {
      meta: { endpoint: label },
    });
  }
  // Many providers send a JSON-RPC error with a 4xx status: the body says more than the number.
  if (!response.ok && !(response.status !== 429 && looksLikeJsonRpc(bytes))) {
    throw classifyHttpStatus(response.status, response.headers.get("retry-after"), { endpoint: label });
  }
  return bytes;
}

/**
 * The answer's bytes; of one that is too large no more than that is read. A length that was said holds, unless it is that
 * of a compressed form, or the answer comes in chunks, which end when they like; where none holds, the bytes are counted
 * as they come, which costs small answers more.
 * @throws RpcError `range`
 */
async function bodyOf(response: Response, { label, maxBytes }: HttpTarget): Promise<Uint8Array> {
  const { headers } = response;
  const isOther = headers.has("content-encoding") || headers.has("transfer-encoding");
  const said = isOther ? null : headers.get("content-length");
  let length = Number(said ?? 0);
  if (said !== null && length <= maxBytes) return new Uint8Array(await response.arrayBuffer());
  // Not looked at before: a body that was asked for as a stream is read as one, which takes a large one a fifth longer.
  const { body } = response;
  const chunks: Uint8Array[] = [];
  for await (const chunk of length > maxBytes ? [] : (body ?? [])) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > maxBytes) break;
  }
  if (length <= maxBytes) return chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks);
  // Not awaited: whoever goes on sending may not hear of it.
  body?.cancel().catch(() => undefined);
  throw new RpcError("range", "the answer is too large", { meta: { endpoint: label, bytes: length } });
}

function looksLikeJsonRpc(bytes: Uint8Array): boolean {
  return bytes.length < 100_000 && new TextDecoder().decode(bytes).includes('"jsonrpc"');
}
