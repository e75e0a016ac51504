/** The part of a path that names a collection, and the collection that it names. */

import type { Chain } from "../../chains/chains.ts";
import { Refusal } from "../../core/errors.ts";
import { NFT_ADDRESS } from "../../core/examples.ts";
import type { Address } from "../../core/hex.ts";
import type { Catalogue } from "../../operators/catalogue.ts";
import type { CollectionStatus } from "../../operators/models.ts";
import { type ChainDeps, enabledChain, type NftChain } from "../wire/answered-block.ts";
import { addressPart, chainPart, type ParsedValues } from "../wire/parameters.ts";

/** One collection. */
export const ONE_COLLECTION = "/api/collections/:chain/:address";
export const COLLECTION_PARTS = { chain: chainPart, address: addressPart(NFT_ADDRESS, "The contract") };

export interface CollectionDeps extends ChainDeps {
  readonly catalogue: Catalogue;
}

type CollectionPath = ParsedValues<typeof COLLECTION_PARTS>;

interface CollectionInPath extends CollectionPath {
  /** The parts of its chain. */
  readonly runtime: NftChain;
  /** Status before the request. */
  readonly before: CollectionStatus;
}

/** The collection of a path. @throws Refusal 400, 404 if it was never requested */
export async function requestedCollection(
  { chain, address }: CollectionPath,
  deps: CollectionDeps,
): Promise<CollectionInPath> {
  const runtime = enabledChain(chain, deps);
  const before = await deps.catalogue.find(chain.chainId, address);
  if (before !== undefined) return { chain, address, runtime, before: before.status };
  throw neverRequested(chain, address);
}

export const neverRequested = ({ name }: Chain, address: Address): Refusal =>
  new Refusal("not_found", `the collection ${address} on ${name} was never requested`);
