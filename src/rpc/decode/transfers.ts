/**
 * Decodes verified logs into columns of transfers. Free functions on primitives: this is the hot loop of a backfill and
 * runs in a worker. Counts odd logs under a known topic, and reads of them what can be read; a hostile contract must not
 * make it throw.
 */
import type { Hash } from "../../core/hex.ts";
import { encodeTransfers, TransferKind } from "../../events/columns.ts";
import type { TransferForm } from "../../events/types.ts";
import type { ChainLog } from "../port.ts";
import {
  ASSIGN,
  CAT_ADOPTED,
  CAT_RESCUED,
  CONSECUTIVE_TRANSFER,
  CREATE_821,
  DESTROY_821,
  PUNK_BOUGHT,
  PUNK_TRANSFER,
  TRANSFER,
  TRANSFER_821,
  TRANSFER_821_SECOND,
  TRANSFER_6909,
  TRANSFER_BATCH,
  TRANSFER_SINGLE,
} from "./transfer-topics.ts";

interface DecodedTransfers {
  /** Columns in the format of `TransfersCommitted`. */
  readonly transfers: Uint8Array;
  readonly count: number;
  /** Logs under a known topic whose data do not fit the event. Some transfers of an odd log may still be readable. */
  readonly malformed: number;
}

/** The state of one pass over the logs of a contract. */
interface Pass {
  readonly builder: TransferBuilder;
  readonly forms: ReadonlySet<TransferForm>;
  /** Undefined if no log can be an echo. */
  readonly echoes: Echoes | undefined;
  /** The last `Transfer` of CryptoPunks. */
  punkTransfer: ChainLog | undefined;
}

/**
 * Adds the transfers of a log. Returns false if the log is odd. An odd log with too few words has no transfer. One with
 * too much data, or with lists of different lengths, has those that its words hold: the contract emitted them.
 */
type Decode = (log: ChainLog, pass: Pass) => boolean;

/** The decoder of each topic, and the form that it belongs to. `Transfer` belongs to several, told apart by shape. */
const DECODERS: readonly { readonly topic: Hash; readonly form?: TransferForm; readonly decode: Decode }[] = [
  { topic: TRANSFER, decode: transfer },
  { topic: TRANSFER_SINGLE, form: "erc1155", decode: transferSingle },
  { topic: TRANSFER_BATCH, form: "erc1155", decode: transferBatch },
  { topic: TRANSFER_6909, form: "erc6909", decode: transfer6909 },
  { topic: CONSECUTIVE_TRANSFER, form: "erc2309", decode: consecutiveTransfer },
  { topic: ASSIGN, form: "cryptopunks", decode: assign },
  { topic: PUNK_TRANSFER, form: "cryptopunks", decode: punkTransfer },
  { topic: PUNK_BOUGHT, form: "cryptopunks", decode: punkBought },
  { topic: TRANSFER_821, form: "erc821", decode: draftEvent("draft", ([, from, to, id]) => [from, to, id]) },
  { topic: TRANSFER_821_SECOND, form: "erc821", decode: draftEvent("draft", ([, from, to, id]) => [from, to, id]) },
  { topic: CAT_RESCUED, form: "mooncats", decode: catRescued },
  { topic: CAT_ADOPTED, form: "mooncats", decode: catAdopted },
  { topic: CREATE_821, form: "erc821-created", decode: draftEvent("created", ([, to, id]) => [ZERO_TOPIC, to, id]) },
  {
    topic: DESTROY_821,
    form: "erc821-created",
    decode: draftEvent("created", ([, from, id]) => [from, ZERO_TOPIC, id]),
  },
];

/** Topics requested of a contract that may be any kind of NFT. */
export const NFT_TOPICS: readonly Hash[] = DECODERS.map(({ topic }) => topic);

/** Events that identify the kind of an NFT contract. */
export const IDENTIFYING_TOPICS = NFT_TOPICS.filter((topic) => topic !== CREATE_821 && topic !== DESTROY_821);

/** Decodes logs of one contract. Skips logs of forms that are not in `forms`. */
export function decodeTransferLogs(logs: readonly ChainLog[], forms: readonly TransferForm[]): DecodedTransfers {
  const accepted = new Set(forms);
  const decoders = new Map<string, Decode>();
  for (const { topic, form, decode } of DECODERS) {
    if (form === undefined || accepted.has(form)) decoders.set(topic, decode);
  }
  const builder = new TransferBuilder();
  // Without a log of ERC-821, no transfer is announced twice.
  const echoes =
    accepted.has("erc821") && logs.some(({ topics }) => DRAFT_TOPICS.has(topics[0] ?? "")) ? new Echoes() : undefined;
  const pass: Pass = { builder, forms: accepted, echoes, punkTransfer: undefined };
  let malformed = 0;
  for (const log of logs) {
    const decode = decoders.get(log.topics[0] ?? "");
    if (decode !== undefined && !decode(log, pass)) malformed++;
  }
  return { transfers: builder.finish(), count: builder.count, malformed };
}

/** Reads `Transfer` by the number of its indexed arguments. ERC-721 indexes all three, older contracts two or none. */
function transfer(log: ChainLog, pass: Pass): boolean {
  const { topics, data } = log;
  const { builder, forms } = pass;
  if (forms.has("cryptopunks")) {
    pass.punkTransfer = log;
    return true;
  }
  if (topics.length === 4) {
    const [, from, to, id] = topics as unknown as FourTopics;
    if (forms.has("erc721")) addUnlessEcho(log, pass, "standard", from, to, id);
    return data.length === 2;
  }
  if (topics.length === 3 && data.length >= 66) {
    if (forms.has("erc721-id-in-data")) {
      addSingle(builder, TransferKind.erc721, log, addressIn(log, 1), addressIn(log, 2), wordAt(data, 0));
    }
    return data.length === 66;
  }
  if (topics.length !== 1 || data.length < 194) return false;
  if (forms.has("erc721-unindexed")) {
    addSingle(builder, TransferKind.erc721, log, addressAt(data, 2), addressAt(data, 66), wordAt(data, 2));
  }
  return data.length === 194;
}

function transferSingle(log: ChainLog, { builder }: Pass): boolean {
  const { topics, data } = log;
  if (topics.length !== 4 || data.length < 130) return false;
  const at = builder.add(TransferKind.erc1155, log, addressIn(log, 2), addressIn(log, 3));
  writeWords(data, 2, builder.ids, at);
  writeWords(data, 66, builder.amounts, at);
  return data.length === 130;
}

/** Lists of different lengths are paired up to the shorter one. */
function transferBatch(log: ChainLog, { builder }: Pass): boolean {
  const { data, topics } = log;
  const idsAt = smallAt(data, 0);
  const amountsAt = smallAt(data, 32);
  if (topics.length !== 4 || idsAt < 0 || amountsAt < 0) return false;
  const [ids, amounts] = [smallAt(data, idsAt), smallAt(data, amountsAt)];
  const length = Math.min(ids, amounts);
  if (length < 0) return false;
  const firstId = 2 + (idsAt + 32) * 2;
  const firstAmount = 2 + (amountsAt + 32) * 2;
  if (Math.max(firstId, firstAmount) + length * 64 > data.length) return false;
  const [from, to] = [addressIn(log, 2), addressIn(log, 3)];
  for (let i = 0; i < length; i++) {
    const at = builder.add(TransferKind.erc1155, log, from, to);
    writeWords(data, firstId + i * 64, builder.ids, at);
    writeWords(data, firstAmount + i * 64, builder.amounts, at);
  }
  return ids === amounts;
}

function transfer6909(log: ChainLog, { builder }: Pass): boolean {
  const { topics, data } = log;
  if (topics.length !== 4 || data.length < 130) return false;
  const at = builder.add(TransferKind.erc6909, log, addressIn(log, 1), addressIn(log, 2));
  writeWords(topics[3] as string, 2, builder.ids, at);
  writeWords(data, 66, builder.amounts, at);
  return data.length === 130;
}

/** Longest id range; a longer one is cut to this. No honest collection is larger, and positions stay exact. */
const MAX_RANGE = 2 ** 40;

/** Adds an ERC-2309 range. Its amount is the number of ids. */
function consecutiveTransfer(log: ChainLog, { builder }: Pass): boolean {
  const { data, topics } = log;
  if (topics.length !== 4 || data.length < 66) return false;
  const firstId = topics[1] as string;
  const [first, last] = [BigInt(firstId), BigInt(`0x${wordAt(data, 0)}`)];
  if (last < first) return false;
  const length = last - first + 1n;
  const at = builder.add(TransferKind.range, log, addressIn(log, 2), addressIn(log, 3));
  writeWords(firstId, 2, builder.ids, at);
  builder.amounts.fill(0, at * 8, at * 8 + 8);
  const kept = length > BigInt(MAX_RANGE) ? MAX_RANGE : Number(length);
  builder.amounts[at * 8] = kept % 2 ** 32;
  builder.amounts[at * 8 + 1] = Math.floor(kept / 2 ** 32);
  return data.length === 66;
}

type FourTopics = readonly [string, string, string, string];

/** Decodes an event of an ERC-821 draft. `moveOf` returns the topics of sender, receiver and id. */
function draftEvent(form: Announcement, moveOf: (topics: FourTopics) => readonly [string, string, string]): Decode {
  return (log, pass) => {
    if (log.topics.length !== 4) return false;
    addUnlessEcho(log, pass, form, ...moveOf(log.topics as unknown as FourTopics));
    return true;
  };
}

function catRescued(log: ChainLog, { builder }: Pass): boolean {
  const { topics, data } = log;
  const id = topics.length === 3 ? catIdOf(topics[2] as string) : undefined;
  if (id !== undefined) addSingle(builder, TransferKind.mooncats, log, ZERO_ADDRESS_DIGITS, addressIn(log, 1), id);
  return id !== undefined && data.length === 2;
}

function catAdopted(log: ChainLog, { builder }: Pass): boolean {
  const { topics, data } = log;
  const id = topics.length === 4 && data.length >= 66 ? catIdOf(topics[1] as string) : undefined;
  if (id !== undefined) addSingle(builder, TransferKind.mooncats, log, addressIn(log, 2), addressIn(log, 3), id);
  return id !== undefined && data.length === 66;
}

/** Returns a cat's five-byte id, left-aligned in its topic, as 64 digits. Undefined if the topic holds more bytes. */
function catIdOf(topic: string): string | undefined {
  return /^0{54}$/.test(topic.slice(12)) ? topic.slice(2, 12).padStart(64, "0") : undefined;
}

function assign(log: ChainLog, { builder }: Pass): boolean {
  const { topics, data } = log;
  if (topics.length !== 2 || data.length < 66) return false;
  addSingle(builder, TransferKind.cryptopunks, log, ZERO_ADDRESS_DIGITS, addressIn(log, 1), wordAt(data, 0));
  return data.length === 66;
}

function punkTransfer(log: ChainLog, { builder }: Pass): boolean {
  const { topics, data } = log;
  if (topics.length !== 3 || data.length < 66) return false;
  addSingle(builder, TransferKind.cryptopunks, log, addressIn(log, 1), addressIn(log, 2), wordAt(data, 0));
  return data.length === 66;
}

/** After an accepted bid `PunkBought` has no buyer (a bug of CryptoPunks). The `Transfer` before it names the buyer. */
function punkBought(log: ChainLog, { builder, punkTransfer: before }: Pass): boolean {
  const { topics, transactionHash } = log;
  if (topics.length !== 4) return false;
  const seller = addressIn(log, 2);
  let buyer = addressIn(log, 3);
  if (buyer === ZERO_ADDRESS_DIGITS && before?.transactionHash === transactionHash && before.topics.length >= 3) {
    if (addressIn(before, 1) === seller) buyer = addressIn(before, 2);
  }
  addSingle(builder, TransferKind.cryptopunks, log, seller, buyer, (topics[1] as string).slice(2));
  return true;
}

/** The form in which a contract announces a transfer: ERC-721, an ERC-821 draft, or a creation or destruction. */
type Announcement = "standard" | "draft" | "created";

/** Adds the transfer of one ERC-721 token, unless an earlier log announced it in another form. */
function addUnlessEcho(
  log: ChainLog,
  { builder, echoes }: Pass,
  form: Announcement,
  from: string,
  to: string,
  id: string,
): void {
  if (echoes?.isEcho(log, form, `${from},${to},${id}`)) return;
  addSingle(builder, TransferKind.erc721, log, addressOfTopic(from), addressOfTopic(to), id.slice(2));
}

/**
 * Finds transfers that a contract announces in several forms: later announcements in a transaction echo the first. Each
 * logic of LAND announces in one form only, but an upgrade could easily announce in two.
 */
class Echoes {
  #transaction = "";
  readonly #counts = new Map<string, Record<Announcement, number>>();

  /** True if an earlier log of the transaction announced the same move (topics of from, to and id) in another form. */
  isEcho({ transactionHash, blockNumber }: ChainLog, form: Announcement, move: string): boolean {
    const transaction = `${blockNumber} ${transactionHash}`;
    if (transaction !== this.#transaction) {
      this.#transaction = transaction;
      this.#counts.clear();
    }
    const counts = this.#counts.get(move) ?? { standard: 0, draft: 0, created: 0 };
    this.#counts.set(move, counts);
    const announced = Math.max(counts.standard, counts.draft, counts.created);
    counts[form]++;
    return counts[form] <= announced;
  }
}

const DRAFT_TOPICS: ReadonlySet<string> = new Set([TRANSFER_821, TRANSFER_821_SECOND, CREATE_821, DESTROY_821]);
const ZERO_TOPIC = `0x${"0".repeat(64)}`;

const addressIn = ({ topics }: ChainLog, index: number): string => addressOfTopic(topics[index] as string);

/** The address in the 32-byte word at digit `start`: the word's last 40 digits. */
const addressAt = (hex: string, start: number): string => hex.slice(start + 24, start + 64);

/** The digits of a word of ABI data. */
const wordAt = (data: string, index: number): string => data.slice(2 + index * 64, 66 + index * 64);

/** Reads the offset or length in the word at byte `at` of ABI data. Returns -1 if it cannot lie inside the data. */
function smallAt(data: string, at: number): number {
  const start = 2 + at * 2;
  if (start + 64 > data.length) return -1;
  const value = Number.parseInt(data.slice(start, start + 64), 16);
  return value <= data.length ? value : -1;
}

/** The zero address, 40 digits without 0x. */
const ZERO_ADDRESS_DIGITS = "0".repeat(40);

/** Growing columns of transfers. Addresses are interned by their 40 hex digits. */
class TransferBuilder {
  count = 0;
  kinds = new Uint8Array(1024);
  blocks = new Uint32Array(1024);
  logIndexes = new Uint32Array(1024);
  from = new Uint32Array(1024);
  to = new Uint32Array(1024);
  ids = new Uint32Array(8 * 1024);
  amounts = new Uint32Array(8 * 1024);
  readonly #dictionary = new Map<string, number>();

  #grow(): void {
    const size = this.kinds.length * 2;
    const widen = <T extends Uint8Array | Uint32Array>(old: T, length: number): T => {
      const grown = new (old.constructor as new (length: number) => T)(length);
      grown.set(old);
      return grown;
    };
    this.kinds = widen(this.kinds, size);
    this.blocks = widen(this.blocks, size);
    this.logIndexes = widen(this.logIndexes, size);
    this.from = widen(this.from, size);
    this.to = widen(this.to, size);
    this.ids = widen(this.ids, size * 8);
    this.amounts = widen(this.amounts, size * 8);
  }

  /** Adds a transfer and returns its index. The caller writes the words of id and amount at that index. */
  add(kind: TransferKind, log: ChainLog, from: string, to: string): number {
    if (this.count === this.kinds.length) this.#grow();
    const at = this.count++;
    this.kinds[at] = kind;
    this.blocks[at] = log.blockNumber;
    this.logIndexes[at] = log.logIndex;
    this.from[at] = this.#intern(from);
    this.to[at] = this.#intern(to);
    return at;
  }

  #intern(digits: string): number {
    let index = this.#dictionary.get(digits);
    if (index === undefined) {
      index = this.#dictionary.size;
      this.#dictionary.set(digits, index);
    }
    return index;
  }

  finish(): Uint8Array {
    const addressCount = this.#dictionary.size;
    const addresses = new Uint8Array(Buffer.from([...this.#dictionary.keys()].join(""), "hex"));
    return encodeTransfers({
      count: this.count,
      addressCount,
      addresses,
      kinds: this.kinds,
      blocks: this.blocks,
      logIndexes: this.logIndexes,
      from: this.from,
      to: this.to,
      ids: { words: 8, values: this.ids },
      amounts: { words: 8, values: this.amounts },
    });
  }
}

/** Writes the 64 hex digits at `start` of `hex` as eight words, lowest first. */
function writeWords(hex: string, start: number, target: Uint32Array, index: number): void {
  const base = index * 8;
  for (let w = 0; w < 8; w++) {
    const end = start + 64 - w * 8;
    target[base + w] = Number.parseInt(hex.slice(end - 8, end), 16);
  }
}

/** Returns the digits of the address in a topic. */
const addressOfTopic = (topic: string): string => topic.slice(26);

/** Adds the transfer of one token with amount 1. `id` is 64 digits. */
function addSingle(
  builder: TransferBuilder,
  kind: TransferKind,
  log: ChainLog,
  from: string,
  to: string,
  id: string,
): void {
  const at = builder.add(kind, log, from, to);
  writeWords(id, 0, builder.ids, at);
  builder.amounts.fill(0, at * 8, at * 8 + 8);
  builder.amounts[at * 8] = 1;
}
