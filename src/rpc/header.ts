/** Block headers as nodes send them, read and checked. */
import { parseQuantity, quantity, toHash } from "../core/hex.ts";
import type { Endpoint } from "./endpoint.ts";
import { RpcError } from "./errors.ts";
import type { BlockHeader } from "./port.ts";

const NO_BLOOM = `0x${"0".repeat(512)}`;
const BLOOM = /^0x[0-9a-f]{512}$/;

/** The newest block of this very endpoint. @throws RpcError, `transient` when it shows none */
export async function newestBy(endpoint: Endpoint): Promise<BlockHeader> {
  const header = await headerBy(endpoint, "latest");
  if (header !== undefined) return header;
  throw new RpcError("transient", "the endpoint has no newest block", { meta: { endpoint: endpoint.label } });
}

/** The header that this very endpoint has; undefined above its head. @throws RpcError */
export async function headerBy(
  endpoint: Endpoint,
  block: number | "latest" | "finalized",
): Promise<BlockHeader | undefined> {
  const tag = typeof block === "number" ? quantity(block) : block;
  return parseHeader(await endpoint.request("eth_getBlockByNumber", [tag, false]), block, endpoint.label);
}

/** How often one URL is asked for what it must have: behind it may be several nodes, some of them late. */
const TRIES = 6;

/**
 * The first answer that is not undefined, of several to the same request without a wait: the next one may come from
 * another node behind the same URL. @throws RpcError
 */
export async function fromAnyNode<T>(ask: () => Promise<T | undefined>): Promise<T | undefined> {
  for (let tried = 1; ; tried++) {
    const answer = await ask();
    if (answer !== undefined || tried === TRIES) return answer;
  }
}

/**
 * The header in an `eth_getBlockByNumber` answer; undefined for null (above the node's head).
 * @throws RpcError `lie` when a field is missing or the number is not the one asked for
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
    if (typeof asked === "number" && header.number !== asked) throw new TypeError("another block than asked");
    return header;
  } catch (error) {
    throw new RpcError("lie", "the endpoint's block header is wrong", {
      meta: { endpoint, block: asked },
      cause: error,
    });
  }
}

/** Whoever has none, or what is none, vouches for no log by it. */
function bloomIn(field: unknown): string {
  const bloom = String(field).toLowerCase();
  return BLOOM.test(bloom) ? bloom : NO_BLOOM;
}
