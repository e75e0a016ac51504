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
  const { url, label, timeoutMs, maxBytes } = target;
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
    const declared = Number(response.headers.get("content-length") ?? 0);
    if (declared > maxBytes) throw new RpcError("range", "the answer is too large", { meta: { endpoint: label } });
    bytes = new Uint8Array(await response.arrayBuffer());
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
  if (bytes.length > maxBytes) {
    throw new RpcError("range", "the answer is too large", { meta: { endpoint: label, bytes: bytes.length } });
  }
  // Many providers send a JSON-RPC error with a 4xx status: the body says more than the number.
  if (!response.ok && !(response.status !== 429 && looksLikeJsonRpc(bytes))) {
    throw classifyHttpStatus(response.status, response.headers.get("retry-after"), { endpoint: label });
  }
  return bytes;
}

function looksLikeJsonRpc(bytes: Uint8Array): boolean {
  return bytes.length < 100_000 && new TextDecoder().decode(bytes).includes('"jsonrpc"');
}
