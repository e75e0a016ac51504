/** Requests block headers from one endpoint, and parses and checks them. Does no failover and no retry. */
import { parseQuantity, quantity, toHash } from "../core/hex.ts";
import type { Endpoint } from "./endpoint.ts";
import { RpcError } from "./errors.ts";
import type { BlockHeader } from "./port.ts";

const NO_BLOOM = `0x${"0".repeat(512)}`;
const BLOOM = /^0x[0-9a-f]{512}$/;

/** Returns the newest block of this endpoint. @throws RpcError, of kind `transient` if the endpoint shows none */
export async function newestBy(endpoint: Endpoint): Promise<BlockHeader> {
  const header = await headerBy(endpoint, "latest");
  if (header !== undefined) return header;
  throw new RpcError("transient", "the endpoint has no newest block", { meta: { endpoint: endpoint.label } });
}

/** Returns this endpoint's header of a block. Undefined above its head. @throws RpcError */
export async function headerBy(
  endpoint: Endpoint,
  block: number | "latest" | "finalized",
): Promise<BlockHeader | undefined> {
  const tag = typeof block === "number" ? quantity(block) : block;
  return parseHeader(await endpoint.request("eth_getBlockByNumber", [tag, false]), block, endpoint.label);
}

/** Attempts per URL for data that it must have. Several nodes may be behind the URL, and some of them may lag. */
const TRIES = 6;

/**
 * Repeats a request, without a wait, until its answer is not undefined. The next answer may come from another node
 * behind the same URL. @throws RpcError
 */
export async function fromAnyNode<T>(ask: () => Promise<T | undefined>): Promise<T | undefined> {
  for (let tried = 1; ; tried++) {
    const answer = await ask();
    if (answer !== undefined || tried === TRIES) return answer;
  }
}

/**
 * Parses the header of an `eth_getBlockByNumber` answer. Undefined for null (a block above the node's head).
 * @throws RpcError `lie` if a field is missing, or the number differs from the requested one
 */
export function parseHeader(wire: unknown, asked: number | string, endpoint: string): BlockHeader | undefined {
  if (wire === null || wire === undefined) return undefined;
  const fields = wire as Record<string, unknown>;
  try {
    const header = {
      number: parseQuantity(fields["number"]),
      hash: toHash(String(fields["hash"])),
      parentHash: toHash(String(fields["parentHash"])),
      timestamp: parseQuantity(fields["timestamp"]),
      logsBloom: bloomIn(fields["logsBloom"]),
    };
    if (typeof asked === "number" && header.number !== asked) throw new TypeError("not the requested block");
    return header;
  } catch (error) {
    throw new RpcError("lie", "the endpoint's block header is wrong", {
      meta: { endpoint, block: asked },
      cause: error,
    });
  }
}

/** Reads the bloom. A missing or malformed bloom matches no log. */
function bloomIn(field: unknown): string {
  const bloom = String(field).toLowerCase();
  return BLOOM.test(bloom) ? bloom : NO_BLOOM;
}
