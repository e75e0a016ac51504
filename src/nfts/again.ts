/**
 * When a contract that was found to be no NFT is looked at again: whoever asks for it, by a request or a subscription, has
 * it identified anew, unless that was done not long ago. It may have been deployed, or become an NFT, since.
 */
import type { Collection } from "./collection.ts";

/** @param leastMs between two identifications */
export function isToBeIdentifiedAnew(
  { status, identifiedAt }: Pick<Collection, "status" | "identifiedAt">,
  now: number,
  leastMs: number,
): boolean {
  return (status === "not_nft" || status === "not_a_contract") && now - identifiedAt >= leastMs;
}
