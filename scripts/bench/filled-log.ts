/** A SQLite log in a temporary folder with one synthetic collection in it. */
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { openLog } from "../../src/log/open.ts";
import type { EventLog } from "../../src/log/port.ts";
import type { Collection } from "../../src/nfts/collection.ts";
import { CollectionProjections } from "../../src/nfts/projections.ts";
import { type FillOptions, fill } from "./fill.ts";
import { temporaryFolder } from "./service.ts";

export const FILLED_ADDRESS = `0x${"be".repeat(20)}` as Address;

export interface FilledLog {
  readonly log: EventLog;
  readonly path: string;
  readonly url: string;
  /** Ms that the appends took. */
  readonly appendMs: number;
  /** The collection folded anew, and the ms it took from an empty memory. */
  hydrate(): Promise<{ collection: Collection; ms: number }>;
  /** Closes the log and resolves; the file stays. */
  close(): Promise<void>;
  remove(): void;
}

export async function filledLog(options: Partial<FillOptions> & Pick<FillOptions, "tokens">): Promise<FilledLog> {
  const folder = temporaryFolder();
  const log = await openLog(folder.logUrl, systemClock, silentLogger);
  const common = { chainId: 1, address: FILLED_ADDRESS, kind: TransferKind.erc721, moves: 2 };
  const appendMs = await fill(log, { ...common, ...options });
  const hydrate = async () => {
    const projections = new CollectionProjections({ log, logger: silentLogger, maxBytes: 2 ** 35 });
    const started = performance.now();
    const collection = await projections.get(options.chainId ?? 1, FILLED_ADDRESS);
    const ms = performance.now() - started;
    projections.close();
    return { collection, ms };
  };
  return {
    log,
    path: folder.path,
    url: folder.logUrl,
    appendMs,
    hydrate,
    close: () => log.close(),
    remove: folder.remove,
  };
}
