/** Headers of blocks that are there: below the node's head, or final. */
import { RpcError } from "../rpc/errors.ts";
import type { BlockHeader, ChainReader } from "../rpc/port.ts";

/** Headers asked for in one batch. */
const BATCH = 100;

/** The headers, in the order asked. @throws AppError, RpcError `transient` when the node lacks one: it lags */
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

/** From one number to another, both included; falling when `to` is the lower one. */
export function numbersBetween(from: number, to: number): number[] {
  const step = to < from ? -1 : 1;
  return Array.from({ length: Math.abs(to - from) + 1 }, (_, i) => from + i * step);
}
