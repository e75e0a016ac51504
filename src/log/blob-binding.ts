/**
 * Binds a log to the store of its blobs. A setting of the log and an object of the store have the same name, so that no process
 * starts on the log without the store, or with another one: a missing blob would look like one that never was.
 */
import { AppError, BlobsUnavailable } from "../core/errors.ts";
import type { EventLog } from "./event-log.ts";
import type { S3Store } from "./s3-store.ts";

/** The setting of a log that has blobs in a store. */
export const BLOB_STORE = "blob-store";

const markOf = (id: string): string => `logs/${id}`;

/** Binds the log, if it is not bound. The mark comes first, so that a bound log always has one. @throws AppError */
export async function bindStore(log: Pick<EventLog, "setting" | "findSetting">, store: S3Store): Promise<void> {
  const bound = await log.findSetting(BLOB_STORE);
  if (bound !== undefined) return assertMark(store, bound);
  const id = crypto.randomUUID();
  await store.put(markOf(id), new TextEncoder().encode("a log has its blobs here\n"));
  const { value } = await log.setting(BLOB_STORE, () => id);
  if (value === id) return;
  // Another process has bound the log meanwhile.
  await store.delete(markOf(id));
  await assertMark(store, value);
}

/**
 * Asserts that this process has the store of the log's blobs. A store that can't be reached is only reported: pages can be
 * served without it.
 * @throws AppError if the log has another store, or the process has none
 */
export async function assertStore(
  log: Pick<EventLog, "findSetting">,
  store: S3Store | undefined,
  onUnreachable: (error: BlobsUnavailable) => void,
): Promise<void> {
  const bound = await log.findSetting(BLOB_STORE);
  if (bound === undefined) return;
  if (store === undefined) throw missingStore("BLOB_URL");
  await assertMark(store, bound).catch(whileReachable(onUnreachable));
}

/** Handles the error of a store: reports one that may answer later, and throws every other one. */
export const whileReachable =
  (onUnreachable: (error: BlobsUnavailable) => void) =>
  (error: unknown): void => {
    if (!(error instanceof BlobsUnavailable) || !error.retryable) throw error;
    onUnreachable(error);
  };

/** @param option the variable or the option that must name the store */
export const missingStore = (option: string): AppError =>
  new AppError(`${option}: this log has its blobs in an S3 store; name it as it was named before`, {
    code: "configuration",
  });

async function assertMark(store: S3Store, id: string): Promise<void> {
  if (await store.has(markOf(id))) return;
  throw new AppError("BLOB_URL: this is not the store of this log's blobs; name the bucket and prefix of before", {
    code: "configuration",
  });
}
