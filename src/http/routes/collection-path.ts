/** The part of a path that names a collection, and the collection that it names. */
import type { Chain } from "../../chains/chains.ts";
import { Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Catalogue } from "../../operators/catalogue.ts";
import type { CollectionStatus } from "../../operators/models.ts";
import { NFT_ADDRESS } from "../api/examples.ts";
import { addressPart, chainPart, notEnabled, type ParsedValues } from "../api/parameters.ts";

/** One collection. */
export const ONE_COLLECTION = "/api/collections/:chain/:address";
export const COLLECTION_PARTS = { chain: chainPart, address: addressPart(NFT_ADDRESS, "The contract") };

export interface CollectionDeps {
  readonly catalogue: Catalogue;
  /** True if the chain is enabled. */
  readonly isEnabled: (chainId: number) => boolean;
}

type CollectionPath = ParsedValues<typeof COLLECTION_PARTS>;

interface NamedCollection {
  readonly chain: Chain;
  readonly address: Address;
  /** Status before the request. */
  readonly before: CollectionStatus;
}

/** @throws Refusal 400 unless the chain is enabled */
export function assertEnabled({ chain }: CollectionPath, { isEnabled }: CollectionDeps): void {
  if (!isEnabled(chain.chainId)) throw notEnabled(chain);
}

/** The collection of a path. @throws Refusal 400, 404 if it was never requested */
export async function requestedCollection(
  { chain, address }: CollectionPath,
  deps: CollectionDeps,
): Promise<NamedCollection> {
  assertEnabled({ chain, address }, deps);
  const before = await deps.catalogue.find(chain.chainId, address);
  if (before !== undefined) return { chain, address, before: before.status };
  throw neverRequested(chain, address);
}

export const neverRequested = ({ name }: Chain, address: Address): Refusal =>
  new Refusal("not_found", `the collection ${address} on ${name} was never requested`);
