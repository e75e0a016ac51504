/** Parses the header of an `eth_getBlockByNumber` answer, and refuses one that contradicts the request. Pure. */
import { parseBlockTime } from "../../core/block-time.ts";
import type { Hash } from "../../core/hex.ts";
import { parseQuantity, toHash } from "../../core/hex.ts";
import type { BlockHeader } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import { isHashed } from "./hashes.ts";
import { MAX_NUMBER, WORD } from "./verify-logs.ts";

/** @throws TypeError for a number that can't be stored */
function parseBlockNumber(value: unknown): number {
  const number = parseQuantity(value);
  if (number > MAX_NUMBER) throw new TypeError("a block number above 2^32");
  return number;
}

const NO_BLOOM = `0x${"0".repeat(512)}`;
export const BLOOM = /^0x[0-9a-f]{512}$/;

/**
 * Parses the header of an `eth_getBlockByNumber` answer. Undefined for null (a block above the node's head).
 * @throws RpcError `lie` if a field is missing, or the number differs from the requested one
 */
export function parseHeader(wire: unknown, requested: number | string, endpoint: string): BlockHeader | undefined {
  if (wire === null || wire === undefined) return undefined;
  const fields = wire as Record<string, unknown>;
  const bloom = String(fields["logsBloom"]).toLowerCase();
  const root = String(fields["receiptsRoot"]).toLowerCase();
  const isSettling = fields["settledHeight"] !== undefined && fields["settledHeight"] !== null;
  try {
    const header = {
      number: parseBlockNumber(fields["number"]),
      hash: toHash(String(fields["hash"])),
      parentHash: toHash(String(fields["parentHash"])),
      timestamp: parseBlockTime(fields["timestamp"]),
      // A missing or malformed bloom matches no log.
      logsBloom: BLOOM.test(bloom) ? bloom : NO_BLOOM,
      ...(WORD.test(root) ? { receiptsRoot: root as Hash } : {}),
      ...(isSettling ? { settledHeight: parseQuantity(fields["settledHeight"]) } : {}),
      // One header a poll tells whether the chain's headers still have the known form.
      ...(requested === "latest" ? { isHashed: isHashed(fields) } : {}),
    };
    if (isSettling && (header.settledHeight as number) >= header.number) throw new TypeError("settles itself");
    if (typeof requested === "number" && header.number !== requested) throw new TypeError("not the requested block");
    return header;
  } catch (cause) {
    throw new RpcError("lie", "the endpoint's block header is wrong", { meta: { endpoint, block: requested }, cause });
  }
}
