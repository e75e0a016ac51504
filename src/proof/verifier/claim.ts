/** What a kind of document claims: how its subject reads, which calls show it, and what follows from their results. */
import type { Address, Hash } from "../../core/hex.ts";
import type { Parse } from "./parse.ts";
import { demand } from "./refusal.ts";

/** A call of a contract, sent by the zero address without value. */
export interface ProvenCall {
  readonly to: Address;
  /** Hex with 0x. */
  readonly data: string;
  /** True for a getter that the contract may lack: nodes give no access list of a call that fails. */
  readonly isProbe?: true;
}

export interface CallOutcome {
  /** False if the call reverted, or failed in another way than for lack of gas. */
  readonly ok: boolean;
  /** What it returned, or its revert data. Hex with 0x. */
  readonly result: string;
}

/** Gas of one call: an ordinary one takes 30,000, and one that looks 1,000 slots back three million. */
export const CALL_GAS = 10_000_000;

/** The block of a proof, as its header names it. */
export interface ProvenBlock {
  readonly chainId: number;
  readonly number: number;
  readonly hash: Hash;
  /** Unix seconds. */
  readonly timestamp: number;
}

/** What a proof shows, by name. */
export type ProofResult = Readonly<Record<string, string | boolean | null>>;

/** A claim about the state of a block. */
export interface StateClaim<Subject extends object> {
  readonly subject: Parse<Subject>;
  /** The calls that show it. */
  calls(subject: Subject): readonly ProvenCall[];
  /** @throws ProofRefused if the calls answered something else than the claim is about */
  result(subject: Subject, outcomes: readonly CallOutcome[]): ProofResult;
  /** The claim in words, after the words about the block. */
  words(subject: Subject, result: ProofResult): string;
}

/** The words about a block with which each claim begins. */
export function wordsOfBlock({ chainId, number, hash, timestamp }: ProvenBlock): string {
  return `On chain ${chainId}, at block ${number} of ${new Date(timestamp * 1_000).toISOString()} with hash ${hash}`;
}

/** Hex digits of an ABI word, of a number. */
export const abiNumber = (value: string | bigint): string => BigInt(value).toString(16).padStart(64, "0");
export const abiAddress = (address: Address): string => address.slice(2).padStart(64, "0");

/** The number in a word of a successful call's result. @throws ProofRefused */
export function wordAt(outcome: CallOutcome | undefined, at: number, what: string): bigint {
  const digits = outcome?.ok === true ? outcome.result.slice(2 + at * 64, 66 + at * 64) : "";
  demand(digits.length === 64, `${what} gave no number`);
  return BigInt(`0x${digits}`);
}

/** The address that is a call's whole result. @throws ProofRefused */
export function addressResult(outcome: CallOutcome | undefined, what: string): Address {
  demand(outcome?.ok === true && /^0x0{24}[0-9a-f]{40}$/.test(outcome.result), `${what} gave no address`);
  return `0x${outcome.result.slice(26)}` as Address;
}
