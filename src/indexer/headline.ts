/**
 * The headline of an NFT stream: the state that a worker needs to go on. Derived from the stream's events and kept on
 * its row, so that a start with thousands of collections reads one row per collection and replays no events.
 */
import type { Hash } from "../core/hex.ts";
import type { TransferForm } from "../events/types.ts";
import type { Headline } from "../log/port.ts";

export type IndexStatus =
  /** Requested, not identified yet. */
  | "requested"
  /** Identified; the history is being read. */
  | "backfilling"
  /** The history is read up to a final block, and the chain's follower is due to take over. */
  | "joining"
  | "following"
  | "not_nft"
  | "not_a_contract";

export interface IndexState {
  readonly status: IndexStatus;
  readonly forms: readonly TransferForm[];
  readonly startBlock: number;
  /** Newest block that is stored, -1 for none. */
  readonly end: number;
  readonly endHash: Hash | "";
  /** Failures in a row. */
  readonly attempt: number;
  /** Time of the next attempt, ms since the epoch; 0 for at once. */
  readonly retryAt: number;
  /** Time of the identification, ms since the epoch. */
  readonly identifiedAt: number;
  /** Version of the rules that judged the name, 0 for none yet; the rules that matched the name and the history. */
  readonly rulesVersion: number;
  readonly wordRule: string;
  readonly shapeRule: string;
  /** The flags in the stream, and the rule that they name. */
  readonly spam: boolean;
  readonly verified: boolean;
  readonly flagRule: string;
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
  rulesVersion: 0,
  wordRule: "",
  shapeRule: "",
  spam: false,
  verified: false,
  flagRule: "",
};

export function toHeadline(state: IndexState): Headline {
  return { ...state, forms: state.forms.join(",") };
}

/** Reads the state from a headline. A stream without one was only requested. */
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
    // Headlines from before the flags lack these fields.
    rulesVersion: Number(headline["rulesVersion"] ?? 0),
    wordRule: String(headline["wordRule"] ?? ""),
    shapeRule: String(headline["shapeRule"] ?? ""),
    spam: headline["spam"] === true,
    verified: headline["verified"] === true,
    flagRule: String(headline["flagRule"] ?? ""),
  };
}

/** The first block that a worker has to read next. */
export const nextBlock = (state: IndexState): number => (state.end < 0 ? state.startBlock : state.end + 1);
