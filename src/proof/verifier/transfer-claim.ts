/**
 * The claim that a transfer happened: its log, in the receipt that the header's receipts root commits to. It needs no
 * state, so it can be made of old blocks. It does not say that nothing happened since.
 */
import { id } from "ethers/hash";
import { encodeRlp, type RlpStructuredData } from "ethers/utils";
import type { Address } from "../../core/hex.ts";
import { type ProofResult, wordsOfBlock } from "./claim.ts";
import { blockOf } from "./claims.ts";
import { FORMAT, type TransferDocument } from "./document.ts";
import { delayReason, type HeaderFields } from "./header.ts";
import { addressText, numberText, objectOf, wholeNumberUpTo } from "./parse.ts";
import { demand } from "./refusal.ts";
import { decodedOf, type Nodes, valueIn } from "./trie.ts";

export interface TransferSubject {
  readonly contract: Address;
  /** Decimal. */
  readonly tokenId: string;
  /** Place of the transaction in its block, and of the log among those of the transaction. */
  readonly transaction: number;
  readonly log: number;
}

const MAX_PLACE = 1_000_000;
const subjectOf = objectOf<TransferSubject>({
  contract: addressText,
  tokenId: numberText,
  transaction: wholeNumberUpTo(MAX_PLACE),
  log: wholeNumberUpTo(MAX_PLACE),
});

/** A log as receipts have it. Hex with 0x. */
export interface ReceiptLog {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
}

/** What a log says of one token. */
interface ToldTransfer {
  readonly from: string;
  readonly to: string;
  readonly amount: bigint;
}

/** Reads a log of one form; undefined if it is of another token, or of another form. */
type ReadTransfer = (log: ReceiptLog, tokenId: bigint) => ToldTransfer | undefined;

const wordOf = (data: string, at: number): bigint | undefined => {
  const digits = data.slice(2 + at * 64, 66 + at * 64);
  return digits.length === 64 ? BigInt(`0x${digits}`) : undefined;
};
const addressOf = (word: string | bigint | undefined): string =>
  `0x${(BigInt(word ?? 0) & ((1n << 160n) - 1n)).toString(16).padStart(40, "0")}`;
const only = (isRight: boolean, from: string | bigint | undefined, to: string | bigint | undefined, amount = 1n) =>
  isRight ? { from: addressOf(from), to: addressOf(to), amount } : undefined;

/** ERC-721's event, with all arguments indexed, with the id in the data, or with none indexed (CryptoKitties). */
const single: ReadTransfer = ({ topics: [, from, to, indexed], data }, tokenId) => {
  if (to === undefined) return only(wordOf(data, 2) === tokenId, wordOf(data, 0), wordOf(data, 1));
  const number = indexed === undefined ? wordOf(data, 0) : BigInt(indexed);
  return only(number === tokenId, from, to);
};

/** ERC-2309: all ids of a range. */
const consecutive: ReadTransfer = ({ topics: [, first, from, to], data }, tokenId) => {
  const last = wordOf(data, 0);
  if (first === undefined || last === undefined) return undefined;
  return only(BigInt(first) <= tokenId && tokenId <= last, from, to);
};

const amountOfOne: ReadTransfer = ({ topics: [, , from, to], data }, tokenId) =>
  only(wordOf(data, 0) === tokenId, from, to, wordOf(data, 1));

const batch: ReadTransfer = ({ topics: [, , from, to], data }, tokenId) => {
  const [ids, amounts] = [listAt(data, 0), listAt(data, 1)];
  const own = ids.flatMap((one, at) => (one === tokenId ? [amounts[at] ?? 0n] : []));
  return only(
    own.length > 0,
    from,
    to,
    own.reduce((sum, amount) => sum + amount, 0n),
  );
};

const MAX_BATCH = 10_000n;

/** The numbers of a list whose offset is the word at `at`. */
function listAt(data: string, at: number): bigint[] {
  const offset = wordOf(data, at) ?? 0n;
  if (offset % 32n !== 0n || offset > BigInt(data.length)) return [];
  const start = Number(offset / 32n);
  const count = wordOf(data, start) ?? 0n;
  if (count > MAX_BATCH) return [];
  return Array.from({ length: Number(count) }, (_, index) => wordOf(data, start + 1 + index) ?? 0n);
}

const inTopic: ReadTransfer = ({ topics: [, from, to, own], data }, tokenId) =>
  only(own !== undefined && BigInt(own) === tokenId, from, to, wordOf(data, 1));

const READERS: ReadonlyMap<string, readonly [event: string, read: ReadTransfer]> = new Map(
  (
    [
      ["Transfer(address,address,uint256)", single],
      ["ConsecutiveTransfer(uint256,uint256,address,address)", consecutive],
      ["TransferSingle(address,address,address,uint256,uint256)", amountOfOne],
      ["TransferBatch(address,address,address,uint256[],uint256[])", batch],
      // ERC-6909, whose id is indexed.
      ["Transfer(address,address,address,uint256,uint256)", inTopic],
    ] as const
  ).map(([event, read]) => [id(event), [event, read]]),
);

/** What a log says of a token; undefined if it says nothing of it in a form that is known here. */
export function transferIn(log: ReceiptLog, tokenId: bigint): (ToldTransfer & { readonly event: string }) | undefined {
  const [event, read] = READERS.get(log.topics[0] ?? "") ?? [];
  const told = read?.(log, tokenId);
  return event === undefined || told === undefined ? undefined : { ...told, event };
}

/** What a document about a transfer is about. */
export interface StatedTransfer {
  readonly kind: "transfer";
  readonly chainId: number;
  readonly header: HeaderFields;
  readonly subject: object;
}

/** @throws ProofRefused if the nodes don't show the transfer */
export function deriveTransfer(stated: StatedTransfer, nodes: Nodes): TransferDocument {
  const { chainId, header } = stated;
  const delay = delayReason(chainId, header);
  demand(delay === undefined, delay ?? "");
  const block = blockOf(stated);
  const subject = subjectOf(stated.subject, "subject");
  const { contract, tokenId, transaction, log: place } = subject;
  const key = encodeRlp(transaction === 0 ? "0x" : numberBytes(transaction));
  const receipt = valueIn(nodes, header["receiptsRoot"] ?? "", key);
  demand(receipt !== undefined, `the block has no transaction ${transaction}`);
  const log = logsOf(receipt)[place];
  demand(log?.address === contract, `log ${place} of transaction ${transaction} is not of ${contract}`);
  const told = transferIn(log, BigInt(tokenId));
  demand(told !== undefined, `log ${place} of transaction ${transaction} tells no transfer of token ${tokenId}`);
  const { from, to, amount, event } = told;
  const result: ProofResult = { from, to, amount: amount.toString(), event };
  const words = `the contract ${contract} announced by ${event} that ${amount} of token ${tokenId} went from ${from} to ${to}, in log ${place} of transaction ${transaction}`;
  const claim = `${wordsOfBlock(block)}: ${words}. This says that it happened, not that nothing happened since.`;
  return {
    ...{ format: FORMAT, kind: "transfer", claim, chainId, blockHash: block.hash, header, subject, result },
    nodes: nodes.used(),
  };
}

const numberBytes = (value: number): string => {
  const digits = value.toString(16);
  return `0x${digits.length % 2 === 0 ? "" : "0"}${digits}`;
};

const FIRST_OF_LISTS = 0xc0;

/** The logs of a receipt (Yellow Paper, section 4.3.1; EIP-2718 for typed ones). @throws ProofRefused */
function logsOf(receipt: string): ReceiptLog[] {
  const isTyped = Number(receipt.slice(0, 4)) < FIRST_OF_LISTS;
  const fields = decodedOf(isTyped ? `0x${receipt.slice(4)}` : receipt);
  const logs = Array.isArray(fields) ? fields[3] : undefined;
  demand(Array.isArray(logs), "a receipt has another form than receipts have");
  return logs.map(logOf);
}

function logOf(rlp: RlpStructuredData): ReceiptLog {
  const [address, topics, data] = Array.isArray(rlp) ? rlp : [];
  const isLog = typeof address === "string" && typeof data === "string" && Array.isArray(topics);
  demand(
    isLog && topics.every((one) => typeof one === "string" && one.length === 66),
    "a log has another form than logs have",
  );
  return { address, topics: topics as readonly string[], data };
}
