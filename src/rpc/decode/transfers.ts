/**
 * Decodes verified logs into columns of transfers. Free functions on primitives: this is the hot loop of a backfill and
 * runs in a worker. Skips and counts a malformed log under a known topic; a hostile contract must not make it throw.
 */
import { id } from "ethers";
import type { Hash } from "../../core/hex.ts";
import { TransferKind } from "../../events/columns.ts";
import type { TransferForm } from "../../events/types.ts";
import { type Announcement, addCat, createdMove, Echoes, mayEcho } from "./pre-standard.ts";
import { addressOfTopic, addSingle, TransferBuilder, writeWords, ZERO_ADDRESS } from "./transfer-builder.ts";
import type { VerifiedLog } from "./verify.ts";

// First topics of the events that are read as NFT transfers, computed from their signatures.

const topic = (signature: string): Hash => id(signature) as Hash;

/** ERC-721, also in its pre-standard forms. ERC-20 has the same topic. */
export const TRANSFER = topic("Transfer(address,address,uint256)");
/** ERC-1155. */
export const TRANSFER_SINGLE = topic("TransferSingle(address,address,address,uint256,uint256)");
export const TRANSFER_BATCH = topic("TransferBatch(address,address,address,uint256[],uint256[])");
/** ERC-2309. */
export const CONSECUTIVE_TRANSFER = topic("ConsecutiveTransfer(uint256,uint256,address,address)");
/**
 * ERC-821, the drafts behind Decentraland's LAND. From, to and id are indexed, operator and data are not
 * (github.com/decentraland/erc721: contracts/IAssetRegistry.sol for the first, contracts/IERC721Base.sol for the
 * second).
 */
export const TRANSFER_821 = topic("Transfer(address,address,uint256,address,bytes,bytes)");
export const TRANSFER_821_SECOND = topic("Transfer(address,address,uint256,address,bytes)");
/**
 * Mints and burns of the first draft's earliest logic. Holder, id and operator are indexed
 * (github.com/decentraland/land: contracts/registry/StandardAssetRegistry.sol). In other contracts these event names
 * may mean something else.
 */
export const CREATE_821 = topic("Create(address,uint256,address,string)");
export const DESTROY_821 = topic("Destroy(address,uint256,address)");
/**
 * MoonCats. Rescued: recipient and id are indexed. Adopted: id, from and to are indexed
 * (github.com/ponderware/MoonCatRescue-Contract). Genesis cats have no owner before their adoption.
 */
export const CAT_RESCUED = topic("CatRescued(address,bytes5)");
export const CAT_ADOPTED = topic("CatAdopted(bytes5,uint256,address,address)");
/** CryptoPunks. */
export const ASSIGN = topic("Assign(address,uint256)");
export const PUNK_TRANSFER = topic("PunkTransfer(address,address,uint256)");
export const PUNK_BOUGHT = topic("PunkBought(uint256,uint256,address,address)");

/** Events that identify the kind of an NFT contract. */
export const IDENTIFYING_TOPICS: readonly Hash[] = [
  TRANSFER,
  TRANSFER_SINGLE,
  TRANSFER_BATCH,
  CONSECUTIVE_TRANSFER,
  ASSIGN,
  PUNK_TRANSFER,
  PUNK_BOUGHT,
  TRANSFER_821,
  TRANSFER_821_SECOND,
  CAT_RESCUED,
  CAT_ADOPTED,
];

/** Topics requested of a contract that may be any kind of NFT. */
export const NFT_TOPICS: readonly Hash[] = [...IDENTIFYING_TOPICS, CREATE_821, DESTROY_821];

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
