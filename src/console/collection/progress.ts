/** What the messages of a collection tell: how far its indexing is, and what happened. */
import type { FailedMessage, FeedMessage } from "../../client/index.ts";

export type Happening =
  | { readonly is: "reorged"; readonly time: string; readonly block: number }
  | { readonly is: "failed"; readonly time: string; readonly reason: string };

/** How far the indexing is, as the socket tells. */
export interface ShownProgress {
  readonly isDone: boolean;
  readonly percent: number | null;
  readonly blocksLeft: number | null;
  readonly transfers: number | null;
  /** Why nothing moves. */
  readonly reason: string | undefined;
  readonly failure: FailedMessage | undefined;
  /** What can't be known of the collection, as the newest message says. */
  readonly inDoubt: { readonly block: number; readonly reason: string } | undefined;
  /** True once a message said how far the indexing is. */
  readonly isHeard: boolean;
  /** True if the collection was complete before: an operator removed it, or has it indexed again. */
  readonly isReset: boolean;
}

/** Before the first message. */
export const NO_PROGRESS: ShownProgress = {
  ...{ isDone: false, percent: null, blocksLeft: null, transfers: null },
  ...{ reason: undefined, failure: undefined, isReset: false, isHeard: false },
  inDoubt: undefined,
};

/** True once a message tells that the contract's history is being read. Until then nothing is known of the address. */
export const isBeingRead = ({ transfers, percent, reason, isReset }: ShownProgress): boolean =>
  transfers !== null || (percent ?? 0) > 0 || reason !== undefined || isReset;

/** True if the newest page may be out of date. */
export function isNews(message: FeedMessage): boolean {
  if (message.type === "status") return message.status !== "SYNCED" || message.gap === true;
  if (message.type === "failed") return message.nextTry === null;
  return ["indexed", "transfers", "reorged"].includes(message.type);
}

/** @param wasReady true if the collection was complete before the message */
export function progressAfter(before: ShownProgress, message: FeedMessage, wasReady: boolean): ShownProgress {
  switch (message.type) {
    case "status": {
      const isDone = message.status === "SYNCED";
      const isReset = !isDone && (before.isReset || wasReady);
      return {
        ...(isReset ? NO_PROGRESS : before),
        ...{ isDone, isReset, isHeard: true },
        percent: message.percent,
        failure: undefined,
        inDoubt: message.inDoubt,
      };
    }
    case "progress": {
      const { percent, blocksLeft, transfers, reason } = message;
      return { ...before, isHeard: true, percent, blocksLeft, transfers, reason, failure: undefined };
    }
    case "indexed":
      return {
        ...before,
        ...{ isHeard: true, isDone: true, isReset: false, percent: 100, reason: undefined, failure: undefined },
      };
    case "failed":
      return { ...before, isHeard: true, failure: message, inDoubt: message.inDoubt };
    default:
      return before;
  }
}

export function happeningOf(message: FeedMessage): Happening | undefined {
  const time = new Date().toISOString();
  if (message.type === "reorged") return { is: "reorged", time, block: message.block };
  if (message.type === "failed") return { is: "failed", time, reason: message.reason };
  return undefined;
}
