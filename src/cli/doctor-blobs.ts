/** What `doctor` finds about the store of blobs: it writes, reads, lists and deletes a probe. */
import type { Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { blobUrlOf, placeSecrets, type S3Place } from "../core/s3-place.ts";
import { S3Store } from "../log/s3-store.ts";
import type { DoctorFinding } from "./doctor-endpoints.ts";

const FOLDER = "probes/";

/** @param place undefined if the log keeps its blobs itself: then there is nothing to try */
export async function blobFindings(place: S3Place | undefined, clock: Clock): Promise<DoctorFinding[]> {
  if (place === undefined) return [];
  const what = "blobs";
  const where = blobUrlOf(place);
  const store = new S3Store(place, clock);
  const name = `${FOLDER}${crypto.randomUUID()}`;
  const bytes = new TextEncoder().encode(name);
  try {
    await store.put(name, bytes);
    const [read, listed] = [await store.get(name), await store.list(FOLDER, { after: "", limit: 1_000 })];
    await store.delete(name);
    if (read === undefined || !Buffer.from(bytes).equals(read) || !listed.includes(name)) {
      const advice = "Events name a blob as soon as it is written. Use a store that reads its own writes.";
      return [{ what, result: "fault", text: `${where} did not return a probe that was just written`, advice }];
    }
    // A store that hides objects from these keys would refuse here, and each missing blob would look like a fault.
    if (await store.has(name)) {
      const advice = "Nothing is lost, but probes stay behind: let the keys delete objects.";
      return [{ what, result: "warning", text: `${where} still has a probe that was deleted`, advice }];
    }
    return [{ what, result: "ok", text: `${where} takes, returns, lists and deletes a probe` }];
  } catch (error) {
    const advice = "Pages are served without it; metadata and pictures wait until it answers.";
    return [{ what, result: "fault", text: messageOf(error, placeSecrets(place)), advice }];
  }
}
