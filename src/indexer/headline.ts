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
  /** The rules that judged the collection's words, 0 for none yet, and those that fired on words and on history. */
  readonly rulesVersion: number;
  readonly wordRule: string;
  readonly shapeRule: string;
  /** The flags as the stream has them, and the rule it names. */
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
    // A log of before there were flags has none of these.
    rulesVersion: Number(headline["rulesVersion"] ?? 0),
    wordRule: String(headline["wordRule"] ?? ""),
    shapeRule: String(headline["shapeRule"] ?? ""),
    spam: headline["spam"] === true,
    verified: headline["verified"] === true,
    flagRule: String(headline["flagRule"] ?? ""),
  };
}

/** First block a worker has to read next. */
export const nextBlock = (state: IndexState): number => (state.end < 0 ? state.startBlock : state.end + 1);
