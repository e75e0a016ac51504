/** A request to one endpoint with a checked answer, and one `eth_call`. */
import { type Address, quantity } from "../../core/hex.ts";
import type { Call, CallResult, Endpoint } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import { OUT_OF_GAS_RESULT } from "./run-of-many.ts";

const OUT_OF_GAS = /out ?of ?gas/i;

/** One call, with or without a bound on its gas, on the state of a block or on overridden state. */
export async function callOn(
  endpoint: Endpoint,
  { from, to, data: input }: Call & { readonly from?: Address },
  tag: string,
  { gas, overrides }: CallExtras = {},
): Promise<CallResult> {
  try {
    const call = { ...(from && { from }), ...(to && { to }), data: input, ...(gas && { gas: quantity(gas) }) };
    const params = overrides === undefined ? [call, tag] : [call, tag, overrides];
    const data = await requestParsed(endpoint, "eth_call", params, bytesIn);
    return { ok: true, data };
  } catch (error) {
    if (error instanceof RpcError && error.kind === "revert") {
      if (error.data === undefined && OUT_OF_GAS.test(error.message)) return OUT_OF_GAS_RESULT;
      return { ok: false, data: error.data ?? "0x" };
    }
    throw error;
  }
}

interface CallExtras {
  /** Undefined for as much as the node gives. */
  readonly gas?: number | undefined;
  readonly overrides?: Readonly<Record<string, unknown>>;
}

/** Sends a request and reads the answer with `read`. @throws RpcError, of kind `transient` if `read` throws */
export async function requestParsed<T>(
  endpoint: Endpoint,
  method: string,
  params: unknown[],
  read: (answer: unknown) => T,
): Promise<T> {
  const answer = await endpoint.request(method, params);
  try {
    return read(answer);
  } catch (cause) {
    const meta = { endpoint: endpoint.label };
    throw new RpcError("transient", `the answer to ${method} is malformed`, { meta, cause });
  }
}

const BYTES = /^0x[0-9a-f]*$/i;

/** Reads bytes as nodes send them: hex with 0x. @throws TypeError */
export function bytesIn(answer: unknown): string {
  if (typeof answer !== "string" || !BYTES.test(answer)) throw new TypeError("not bytes in hex");
  return answer;
}
