/** The documents: their fields, and the parser that takes only these. `../README.md` describes them for readers. */
import type { Address, Hash } from "../../core/hex.ts";
import type { ProofResult } from "./claim.ts";
import type { HeaderFields } from "./header.ts";
import {
  addressText,
  amongst,
  hashText,
  hexBytes,
  listOf,
  mapOf,
  matching,
  nullOr,
  objectOf,
  type Parse,
  plainText,
  trueOrFalse,
  wholeNumberUpTo,
} from "./parse.ts";
import type { AccountRead } from "./proven-state.ts";

/** Name and version of the form. A document of another version is refused. */
export const FORMAT = "evm-proof/1";
export const STATE_KINDS = ["owner", "amount", "owners", "amounts", "price"] as const;
export type StateKind = (typeof STATE_KINDS)[number];
export const PROOF_KINDS = [...STATE_KINDS, "transfer"] as const;
export type ProofKind = (typeof PROOF_KINDS)[number];

/** Bounds of a document: one of the largest that are honest has 2,000 nodes. */
export const MAX_DOCUMENT = 16 * 2 ** 20;
const [MAX_NODES, MAX_NODE] = [50_000, 64 * 1024];
const [MAX_CODES, MAX_CODE] = [256, 128 * 1024];
const [MAX_CALLS, MAX_CALL_DATA, MAX_ANSWER] = [256, 4_096, 64 * 1024];
const [MAX_ACCOUNTS, MAX_SLOTS] = [512, 20_000];

/** What all documents have. */
interface DocumentHead {
  readonly format: typeof FORMAT;
  readonly kind: ProofKind;
  /** The claim in words. A verifier makes them itself and compares. */
  readonly claim: string;
  readonly chainId: number;
  /** Hash of the block: what a verifier must know from another source. */
  readonly blockHash: Hash;
  /** All fields of the header, as JSON-RPC names them. */
  readonly header: HeaderFields;
  /** What the claim is about. Each kind has a parser of its own. */
  readonly subject: object;
  readonly result: ProofResult;
  /** Trie nodes in RLP, in the order in which a verifier needs them. */
  readonly nodes: readonly string[];
}

/** A call with what it returned. */
export interface DocumentedCall {
  readonly to: Address;
  readonly data: string;
  readonly ok: boolean;
  readonly result: string;
}

export interface StateDocument extends DocumentHead {
  readonly kind: StateKind;
  readonly calls: readonly DocumentedCall[];
  /** The accounts and slots that the calls read, in the order of their first read. */
  readonly state: readonly AccountRead[];
  /** Code by its hash. */
  readonly codes: Readonly<Record<string, string>>;
}

export interface TransferDocument extends DocumentHead {
  readonly kind: "transfer";
}

export type ProofDocument = StateDocument | TransferDocument;

const anObject: Parse<object> = (value, at) => mapOf(plainText(100), (one) => one, 64)(value, at);

const head = {
  format: amongst(FORMAT),
  claim: plainText(4_000),
  chainId: wholeNumberUpTo(Number.MAX_SAFE_INTEGER),
  blockHash: hashText,
  header: mapOf(matching(/^[a-zA-Z0-9]{1,40}$/, "a name of a field"), bytesOrNumber, 64),
  subject: anObject,
  result: mapOf(matching(/^[a-zA-Z0-9/]{1,128}$/, "a name of a result"), plainValue, 256),
  nodes: listOf(hexBytes(MAX_NODE), MAX_NODES),
};

function bytesOrNumber(value: unknown, at: string): string {
  return matching(/^0x[0-9a-f]{0,4096}$/, "lower-case hex")(value, at);
}

function plainValue(value: unknown, at: string): string | boolean | null {
  return value === null || typeof value === "boolean" ? value : plainText(200)(value, at);
}

const stateDocument = objectOf<StateDocument>({
  ...head,
  kind: amongst(...STATE_KINDS),
  calls: listOf(
    objectOf<DocumentedCall>({
      to: addressText,
      data: hexBytes(MAX_CALL_DATA),
      ok: trueOrFalse,
      result: hexBytes(MAX_ANSWER),
    }),
    MAX_CALLS,
  ),
  state: listOf(
    objectOf<AccountRead>({
      address: addressText,
      codeHash: nullOr(hashText),
      slots: mapOf(hashText, hexBytes(32), MAX_SLOTS),
    }),
    MAX_ACCOUNTS,
  ),
  codes: mapOf(hashText, hexBytes(MAX_CODE), MAX_CODES),
});

const transferDocument = objectOf<TransferDocument>({ ...head, kind: amongst("transfer") });

/** Parses a document. @throws ProofRefused that names the place */
export function parseDocument(value: unknown): ProofDocument {
  const kind = amongst(...PROOF_KINDS)((value as { kind?: unknown } | null | undefined)?.kind, "kind");
  return kind === "transfer" ? transferDocument(value, "") : stateDocument(value, "");
}
