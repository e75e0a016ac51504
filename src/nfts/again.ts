/**
 * Decides when a contract that is not an NFT is identified again. It may have been deployed, or upgraded to an NFT,
 * since. A request or a subscription triggers the check, at most once in the given time.
 */
import type { Collection } from "./collection.ts";

/** @param leastMs least time between two identifications */
export function isToBeIdentifiedAnew(
  { status, identifiedAt }: Pick<Collection, "status" | "identifiedAt">,
  now: number,
  leastMs: number,
): boolean {
  return (status === "not_nft" || status === "not_a_contract") && now - identifiedAt >= leastMs;
}
