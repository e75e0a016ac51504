/** Reads headers of blocks that every node must have: below its head, or final. */
import { RpcError } from "../rpc/errors.ts";
import type { BlockHeader, ChainReader } from "../rpc/port.ts";

/** Headers per request. */
const BATCH = 100;

/** Returns the headers in the given order. @throws AppError; RpcError `transient` if the node lacks one (is behind) */
export async function presentHeaders(
  reader: Pick<ChainReader, "headers">,
  numbers: readonly number[],
): Promise<BlockHeader[]> {
  const present: BlockHeader[] = [];
  for (let at = 0; at < numbers.length; at += BATCH) {
    const asked = numbers.slice(at, at + BATCH);
    for (const [index, header] of (await reader.headers(asked, true)).entries()) {
      if (header === undefined) {
        throw new RpcError("transient", "the node lacks a block below its head", { meta: { block: asked[index] } });
      }
      present.push(header);
    }
  }
  return present;
}

/** Returns the numbers from one block to another, both included. Descends if `to` is lower. */
export function numbersBetween(from: number, to: number): number[] {
  const step = to < from ? -1 : 1;
  return Array.from({ length: Math.abs(to - from) + 1 }, (_, i) => from + i * step);
}
