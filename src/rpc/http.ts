/**
 * One JSON-RPC exchange over http(s): sends a payload and returns the answer's bytes, within a timeout and a size
 * limit. Runs on two threads: the main thread, and the decode worker for large answers. Errors never contain the URL,
 * only the endpoint's label.
 */
import { ACCEPTED_ENCODINGS, EncodingError, readBody } from "../core/decompress.ts";
import { classifyHttpStatus, connectionFault, RpcError } from "./rpc-errors.ts";

/** The destination of a request, with its limits. */
export interface HttpTarget {
  readonly url: string;
  readonly label: string;
  readonly timeoutMs: number;
  /** Larger answers are refused before they are parsed. */
  readonly maxBytes: number;
  /** The operator's proxy for this URL. */
  readonly proxy?: string | undefined;
  /** True to open a connection for this request, because kept ones may be dead. */
  readonly isFresh?: boolean;
}

/** Sends a payload and returns the answer's bytes. @throws RpcError `transient`, `late`, `rate` or `range` */
export async function post(target: HttpTarget, payload: string, signal?: AbortSignal): Promise<Uint8Array> {
  const { url, label, timeoutMs, proxy, isFresh = false } = target;
  const timeout = AbortSignal.timeout(timeoutMs);
  let response: Response;
  let bytes: Uint8Array;
  try {
    response = await fetch(url, {
      method: "POST",
      body: payload,
      headers: {
        "content-type": "application/json",
        accept: "application/json",
        "accept-encoding": ACCEPTED_ENCODINGS,
      },
      // The runtime would decompress without a limit.
      decompress: false,
      redirect: "error",
      keepalive: !isFresh,
      ...(proxy === undefined ? {} : { proxy }),
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    });
    bytes = await bodyOf(response, target);
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (error instanceof RpcError) throw error;
    const isLate = timeout.aborted;
    const reason = isLate ? `no answer within ${timeoutMs} ms` : connectionFault(error);
    // No `cause`: its text contains the URL.
    throw new RpcError(isLate ? "late" : "transient", `the endpoint could not be reached: ${reason}`, {
      meta: { endpoint: label },
    });
  }
  // Many providers send a JSON-RPC error with a 4xx status. The body says more than the status.
  if (!response.ok && !(!CLIENT_STATUS.has(response.status) && looksLikeJsonRpc(bytes))) {
    const body = new TextDecoder().decode(bytes.subarray(0, MAX_ERROR_BODY));
    throw classifyHttpStatus(response.status, response.headers.get("retry-after"), { endpoint: label }, body);
  }
  return bytes;
}

/** Statuses about the client, whatever the body says: no key, no paid plan, too many requests. */
const CLIENT_STATUS = new Set([401, 402, 429]);
const MAX_ERROR_BODY = 8_192;

/**
 * Reads the answer's bytes, and stops at the size limit. Trusts `content-length`, except for a compressed or chunked
 * answer, whose length it does not give. Then counts the bytes as they arrive, which costs small answers more.
 * @throws RpcError `range`, `transient`
 */
async function bodyOf(response: Response, { label, maxBytes }: HttpTarget): Promise<Uint8Array> {
  const { headers } = response;
  const encoding = headers.get("content-encoding");
  const isOther = encoding !== null || headers.has("transfer-encoding");
  const declared = isOther ? null : headers.get("content-length");
  const length = Number(declared ?? 0);
  if (declared !== null && length <= maxBytes) return new Uint8Array(await response.arrayBuffer());
  // `body` is read only here. Access makes the response a stream, which takes a fifth longer for a large answer.
  const { body } = response;
  try {
    if (length > maxBytes) throw tooLarge(label, length);
    const { bytes, isTooLarge, error } = await readBody(body, { encoding, maxBytes });
    if (isTooLarge) throw tooLarge(label, maxBytes + 1);
    if (error === undefined) return bytes;
    if (!(error instanceof EncodingError)) throw error;
    throw new RpcError("transient", `the answer can't be read: ${error.message}`, { meta: { endpoint: label } });
  } finally {
    // Not awaited: an endpoint that keeps sending may never confirm the cancel.
    body?.cancel().catch(() => undefined);
  }
}

const tooLarge = (endpoint: string, bytes: number): RpcError =>
  new RpcError("range", "the answer is too large", { meta: { endpoint, bytes } });

function looksLikeJsonRpc(bytes: Uint8Array): boolean {
  return bytes.length < 100_000 && new TextDecoder().decode(bytes).includes('"jsonrpc"');
}
