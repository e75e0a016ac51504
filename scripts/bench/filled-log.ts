/** A SQLite log in a temporary folder with one synthetic collection in it. */
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { nftStream } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import type { Collection } from "../../src/nft/collections/collection.ts";
import { HotCollections } from "../../src/nft/collections/hot-collections.ts";
import { Snapshots } from "../../src/nft/collections/snapshots.ts";
import { type FillOptions, fill } from "./fill.ts";
import { temporaryFolder } from "./service.ts";

export const FILLED_ADDRESS = `0x${"be".repeat(20)}` as Address;

export interface FilledLog {
  readonly log: EventLog;
  readonly path: string;
  readonly url: string;
  /** Ms of the appends. */
  readonly appendMs: number;
  /** Loads the collection into an empty memory, from a snapshot or from the log. Returns it with the ms. */
  hydrate(snapshots?: Snapshots): Promise<{ collection: Collection; ms: number }>;
  /** Writes a snapshot of the collection and resolves with its store. */
  snapshot(): Promise<Snapshots>;
  /** Closes the log and resolves; the file stays. */
  close(): Promise<void>;
  remove(): void;
}

export async function filledLog(options: Partial<FillOptions> & Pick<FillOptions, "tokens">): Promise<FilledLog> {
  const folder = temporaryFolder();
  const log = await openLog(folder.logUrl, systemClock, silentLogger);
  const common = { chainId: 1, address: FILLED_ADDRESS, kind: TransferKind.erc721, moves: 2 };
  const appendMs = await fill(log, { ...common, ...options });
  const chainId = options.chainId ?? 1;
  const hydrate = async (snapshots?: Snapshots) => {
    const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 2 ** 35, snapshots });
    const started = performance.now();
    const collection = await projections.get(chainId, FILLED_ADDRESS);
    const ms = performance.now() - started;
    await projections.close();
    return { collection, ms };
  };
  const snapshot = async () => {
    const kept = join(folder.path, "snapshots");
    const snapshots = new Snapshots({ folder: kept, maxBytes: 2 ** 35, log, logger: silentLogger });
    const { collection } = await hydrate();
    const isWritten = await snapshots.save(nftStream(chainId, FILLED_ADDRESS), collection, () => false);
    if (!isWritten) throw new Error("the snapshot was not written");
    return snapshots;
  };
  return {
    log,
    path: folder.path,
    url: folder.logUrl,
    appendMs,
    hydrate,
    snapshot,
    close: () => log.close(),
    remove: folder.remove,
  };
}
