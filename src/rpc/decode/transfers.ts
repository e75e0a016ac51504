/**
 * Decodes verified logs into columns of transfers. Free functions on primitives: this is the hot loop of a backfill and
 * runs in a worker. Skips and counts a malformed log under a known topic; a hostile contract must not make it throw.
 */
import { TransferKind } from "../../events/columns.ts";
import type { TransferForm } from "../../events/types.ts";
import { type Announcement, addCat, createdMove, Echoes, mayEcho } from "./pre-standard.ts";
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
  TRANSFER_BATCH,
  TRANSFER_SINGLE,
} from "./topics.ts";
import { addressOfTopic, addSingle, TransferBuilder, writeWords, ZERO_ADDRESS } from "./transfer-builder.ts";
import type { VerifiedLog } from "./verify.ts";

interface DecodedTransfers {
  /** Columns in the format of `TransfersCommitted`. */
  readonly transfers: Uint8Array;
  readonly count: number;
  /** Logs under a known topic whose data do not fit the event. */
  readonly malformed: number;
}

/** Longest id range; a longer one is cut to this. No honest collection is larger, and positions stay exact. */
const MAX_RANGE = 2 ** 40;

/** The address in the 32-byte word at digit `start`: the word's last 40 digits. */
const addressAt = (hex: string, start: number): string => hex.slice(start + 24, start + 64);

/** Reads the offset or length in the word at byte `at` of ABI data. Returns -1 if it cannot lie inside the data. */
function smallAt(data: string, at: number): number {
  const start = 2 + at * 2;
  if (start + 64 > data.length) return -1;
  const value = Number.parseInt(data.slice(start, start + 64), 16);
  return value <= data.length ? value : -1;
}

/** Adds the id and amount pairs of a `TransferBatch`. Returns false if its ABI data are malformed. */
function addBatch(builder: TransferBuilder, log: VerifiedLog): boolean {
  const { data, topics } = log;
  const idsAt = smallAt(data, 0);
  const amountsAt = smallAt(data, 32);
  if (idsAt < 0 || amountsAt < 0) return false;
  const length = smallAt(data, idsAt);
  if (length < 0 || smallAt(data, amountsAt) !== length) return false;
  const firstId = 2 + (idsAt + 32) * 2;
  const firstAmount = 2 + (amountsAt + 32) * 2;
  if (Math.max(firstId, firstAmount) + length * 64 > data.length) return false;
  const from = addressOfTopic(topics[2] as string);
  const to = addressOfTopic(topics[3] as string);
  for (let i = 0; i < length; i++) {
    const at = builder.add(TransferKind.erc1155, log, from, to);
    writeWords(data, firstId + i * 64, builder.ids, at);
    writeWords(data, firstAmount + i * 64, builder.amounts, at);
  }
  return true;
}

/** Adds an ERC-2309 range. Returns false if it is malformed. */
function addRange(builder: TransferBuilder, log: VerifiedLog): boolean {
  const { data, topics } = log;
  if (topics.length !== 4 || data.length !== 66) return false;
  const first = BigInt(topics[1] as string);
  const last = BigInt(data);
  if (last < first) return false;
  const length = last - first + 1n;
  const at = builder.add(
    TransferKind.range,
    log,
    addressOfTopic(topics[2] as string),
    addressOfTopic(topics[3] as string),
  );
  writeWords(topics[1] as string, 2, builder.ids, at);
  builder.amounts.fill(0, at * 8, at * 8 + 8);
  const kept = length > BigInt(MAX_RANGE) ? MAX_RANGE : Number(length);
  builder.amounts[at * 8] = kept % 2 ** 32;
  builder.amounts[at * 8 + 1] = Math.floor(kept / 2 ** 32);
  return true;
}

/** Decodes logs of one contract. Skips logs of forms that are not in `forms`. */
export function decodeTransferLogs(logs: readonly VerifiedLog[], forms: readonly TransferForm[]): DecodedTransfers {
  const builder = new TransferBuilder();
  const accepts = new Set(forms);
  const [indexed, idInData, unindexed] = [
    accepts.has("erc721"),
    accepts.has("erc721-id-in-data"),
    accepts.has("erc721-unindexed"),
  ];
  const [erc1155, erc2309, punks] = [accepts.has("erc1155"), accepts.has("erc2309"), accepts.has("cryptopunks")];
  const [erc821, cats] = [accepts.has("erc821"), accepts.has("mooncats")];
  const created = accepts.has("erc821-created");
  // Without a log of ERC-821, no transfer is announced twice.
  const echoes = erc821 && logs.some(mayEcho) ? new Echoes() : undefined;
  const addUnlessEcho = (log: VerifiedLog, way: Announcement, [from, to, id]: readonly [string, string, string]) => {
    if (echoes?.isEcho(log, way, [from, to, id])) return;
    addSingle(builder, TransferKind.erc721, log, addressOfTopic(from), addressOfTopic(to), id.slice(2));
  };
  let malformed = 0;
  // After an accepted bid `PunkBought` has no buyer (a bug of CryptoPunks). The `Transfer` before it names the buyer.
  let beside: VerifiedLog | undefined;

  for (const log of logs) {
    const { topics, data } = log;
    switch (topics[0]) {
      case TRANSFER: {
        if (punks) {
          beside = log;
        } else if (topics.length === 4) {
          if (!indexed) continue;
          const [, from, to, id] = topics as [string, string, string, string];
          addUnlessEcho(log, "standard", [from, to, id]);
        } else if (topics.length === 3 && data.length === 66) {
          if (!idInData) continue;
          const [, from, to] = topics as [string, string, string];
          addSingle(builder, TransferKind.erc721, log, addressOfTopic(from), addressOfTopic(to), data.slice(2));
        } else if (topics.length === 1 && data.length === 194) {
          if (!unindexed) continue;
          const [from, to] = [addressAt(data, 2), addressAt(data, 66)];
          addSingle(builder, TransferKind.erc721, log, from, to, data.slice(130));
        } else malformed++;
        break;
      }
      case TRANSFER_821:
      case TRANSFER_821_SECOND: {
        if (!erc821) continue;
        if (topics.length !== 4) {
          malformed++;
          continue;
        }
        const [, from, to, id] = topics as [string, string, string, string];
        addUnlessEcho(log, "draft", [from, to, id]);
        break;
      }
      case CREATE_821:
      case DESTROY_821: {
        if (!created) continue;
        if (topics.length !== 4) malformed++;
        else addUnlessEcho(log, "created", createdMove(log));
        break;
      }
      case CAT_RESCUED:
      case CAT_ADOPTED: {
        if (cats && !addCat(builder, log)) malformed++;
        break;
      }
      case TRANSFER_SINGLE: {
        if (!erc1155) continue;
        if (topics.length !== 4 || data.length !== 130) {
          malformed++;
          continue;
        }
        const at = builder.add(
          TransferKind.erc1155,
          log,
          addressOfTopic(topics[2] as string),
          addressOfTopic(topics[3] as string),
        );
        writeWords(data, 2, builder.ids, at);
        writeWords(data, 66, builder.amounts, at);
        break;
      }
      case TRANSFER_BATCH: {
        if (!erc1155) continue;
        if (topics.length !== 4 || !addBatch(builder, log)) malformed++;
        break;
      }
      case CONSECUTIVE_TRANSFER: {
        if (!erc2309) continue;
        if (!addRange(builder, log)) malformed++;
        break;
      }
      case ASSIGN: {
        if (!punks) continue;
        if (topics.length !== 2 || data.length !== 66) malformed++;
        else {
          const to = addressOfTopic(topics[1] as string);
          addSingle(builder, TransferKind.cryptopunks, log, ZERO_ADDRESS, to, data.slice(2));
        }
        break;
      }
      case PUNK_TRANSFER: {
        if (!punks) continue;
        if (topics.length !== 3 || data.length !== 66) malformed++;
        else {
          const [, from, to] = topics as [string, string, string];
          addSingle(builder, TransferKind.cryptopunks, log, addressOfTopic(from), addressOfTopic(to), data.slice(2));
        }
        break;
      }
      case PUNK_BOUGHT: {
        if (!punks) continue;
        if (topics.length !== 4) {
          malformed++;
          continue;
        }
        const [, index, seller, buyer] = topics as [string, string, string, string];
        const from = addressOfTopic(seller);
        let to = addressOfTopic(buyer);
        if (to === ZERO_ADDRESS && beside?.transactionHash === log.transactionHash && beside.topics.length >= 3) {
          if (addressOfTopic(beside.topics[1] as string) === from) to = addressOfTopic(beside.topics[2] as string);
        }
        addSingle(builder, TransferKind.cryptopunks, log, from, to, index.slice(2));
        break;
      }
      default:
        break;
    }
  }
  return { transfers: builder.finish(), count: builder.count, malformed };
}

export interface DecodeJob {
  readonly address: string;
  readonly topics: readonly string[];
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly forms: readonly TransferForm[];
  /** Set if the answer is that of a batch. */
  readonly batch?: BatchIds;
}

/** A range whose logs are requested as one element of a batch. */
export interface BatchPart {
  readonly id: number;
  readonly fromBlock: number;
  readonly toBlock: number;
}

export interface DecodedRange {
  readonly transfers: Uint8Array;
  readonly count: number;
  readonly malformed: number;
  /** Logs in the answer, including those that are not transfers. */
  readonly logs: number;
  /** Number and hash of the newest block that holds a log. */
  readonly lastBlock: number | undefined;
  readonly lastHash: string | undefined;
}

/** The elements of a batch: ranges of logs in rising order, and the ids of the requests for headers. */
export interface BatchIds {
  readonly logs: readonly BatchPart[];
  readonly headers: readonly number[];
}
