/**
 * The headline of an NFT stream: what a worker must know to go on, derived from the stream's events and kept on its row,
 * so that starting with thousands of collections reads one row each and replays nothing.
 */
import type { Hash } from "../core/hex.ts";
import type { TransferForm } from "../events/types.ts";
import type { Headline } from "../log/port.ts";

export type IndexStatus =
  /** Asked for, nothing known yet. */
  | "requested"
  /** Identified; history is being read. */
  | "backfilling"
  /** History is read to a final block; the chain's follower is to take over. */
  | "joining"
  | "following"
  | "not_nft"
  | "not_a_contract";

export interface IndexState {
  readonly status: IndexStatus;
  readonly forms: readonly TransferForm[];
  readonly startBlock: number;
  /** Newest block that is in, -1 for none. */
  readonly end: number;
  readonly endHash: Hash | "";
  /** Failures in a row. */
  readonly attempt: number;
  /** When to try again, ms since the epoch; 0 for now. */
  readonly retryAt: number;
  /** When the contract was identified, ms since the epoch. */
  readonly identifiedAt: number;
}

export const REQUESTED: IndexState = {
  status: "requested",
  forms: [],
  startBlock: 0,
  end: -1,
  endHash: "",
  attempt: 0,
  retryAt: 0,
  identifiedAt: 0,
};

export function toHeadline(state: IndexState): Headline {
  return { ...state, forms: state.forms.join(",") };
}

/** The state in a headline; a stream without one was only asked for. */
export function fromHeadline(headline: Headline | undefined): IndexState {
  if (headline === undefined) return REQUESTED;
  const forms = String(headline["forms"] ?? "");
  return {
    status: headline["status"] as IndexStatus,
    forms: forms === "" ? [] : (forms.split(",") as TransferForm[]),
    startBlock: Number(headline["startBlock"]),
    end: Number(headline["end"]),
    endHash: String(headline["endHash"]) as Hash | "",
    attempt: Number(headline["attempt"]),
    retryAt: Number(headline["retryAt"]),
    identifiedAt: Number(headline["identifiedAt"]),
  };
}

/** First block a worker has to read next. */
export const nextBlock = (state: IndexState): number => (state.end < 0 ? state.startBlock : state.end + 1);
