/**
 * The port for bulk history from archives. A source reads a range of final blocks for one filter, in parts that follow
 * each other without a gap. Implemented over a public archive (`portal.ts`), and by the simulation.
 * `nft/indexing/history.ts` decides what a part must prove before it is stored.
 */
import { AppError, type ErrorMeta } from "../../core/errors.ts";
import type { BlockRange, BlockRef } from "../../events/types.ts";
import type { ArchivedRange, ChainLog, LogFilter, TouchedBlocks, TransferFilter } from "../port.ts";

/** Consecutive blocks that one answer told. */
interface HistoryPart extends BlockRange {
  /** Time in ms that the archive took for it, with failed attempts, without waits for the operator's own rate limit. */
  readonly tookMs: number;
}

/** Transfers of consecutive blocks. */
export interface TransfersPart extends HistoryPart {
  readonly decoded: Pick<ArchivedRange, "transfers" | "count" | "malformed" | "toHash">;
  /** What the archive must prove. */
  readonly touched: TouchedBlocks;
}

/** Logs of consecutive blocks. */
export interface LogsPart extends HistoryPart {
  readonly logs: readonly ChainLog[];
  /** Unix times in seconds of the blocks that hold a log, by number. */
  readonly times: ReadonlyMap<number, number>;
}

/** A place to read history from. Each part begins after the one before; the last one ends with the range. */
export interface HistorySource {
  /** Replaces the URL in logs and errors: `archive of eth#1`. */
  readonly label: string;
  /** The newest block that it has. @throws ArchiveError, as `retry` if it tells none */
  head(signal?: AbortSignal): Promise<BlockRef>;
  /** Reads the transfers of a contract, in columns: they are decoded off this thread. @throws ArchiveError */
  transfers(filter: TransferFilter, signal: AbortSignal): AsyncIterable<TransfersPart>;
  /** Reads logs of any contracts, for few logs in many blocks. @throws ArchiveError */
  logs(filter: LogFilter, signal: AbortSignal): AsyncIterable<LogsPart>;
}

/** What operators see of an archive. */
export interface ArchiveStatus {
  readonly label: string;
  readonly state: "ready" | "resting" | "asleep";
  readonly reason: string | null;
}

/** What the caller should do after an archive's failure. */
type ArchiveAction =
  /** The same request may succeed later. */
  | "retry"
  /** The archive has no blocks below `from`. */
  | "shift"
  /** The request was too large: ask for fewer blocks or contracts. */
  | "split"
  /** The archive is on another branch than the request. */
  | "fork"
  /** The archive contradicts itself or the request. */
  | "distrust"
  /** It won't answer: it doesn't know the data set, or refuses the key. */
  | "give up";

export class ArchiveError extends AppError {
  readonly action: ArchiveAction;
  readonly retryAfterMs: number | undefined;
  /** With `shift`: the archive's first block. */
  readonly from: number | undefined;

  constructor(
    action: ArchiveAction,
    message: string,
    options: {
      readonly meta?: ErrorMeta;
      readonly retryAfterMs?: number | undefined;
      readonly from?: number;
      readonly cause?: unknown;
    } = {},
  ) {
    const { meta = {}, cause } = options;
    const code = `archive_${action.replace(" ", "_")}`;
    super(message, { code, retryable: action === "retry", meta, ...(cause === undefined ? {} : { cause }) });
    this.action = action;
    this.retryAfterMs = options.retryAfterMs;
    this.from = options.from;
  }
}
