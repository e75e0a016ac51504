/** What the service's own record says of a collection. */
import { type Client, type CollectionDetails, ServiceError } from "../../client/index.ts";
import type { Where } from "./place.ts";

/** Flags and metadata of a collection; undefined if the service doesn't know it, or has no such route. */
export async function detailsOf(
  client: Client,
  where: Where,
  signal: AbortSignal,
): Promise<CollectionDetails | undefined> {
  try {
    return await client.collection(where, { signal });
  } catch (error) {
    if (error instanceof ServiceError && error.status === 404) return undefined;
    throw error;
  }
}
