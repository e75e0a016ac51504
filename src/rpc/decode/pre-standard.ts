/** Decodes transfers of contracts from before the ERC-721 standard that need more than their arguments read. */
import { TransferKind } from "../../events/columns.ts";
import { CAT_RESCUED, CREATE_821, DESTROY_821, TRANSFER_821, TRANSFER_821_SECOND } from "./topics.ts";
import { addressOfTopic, addSingle, type TransferBuilder, ZERO_ADDRESS } from "./transfer-builder.ts";
import type { VerifiedLog } from "./verify.ts";

/** The form in which a contract announces a transfer: ERC-721, an ERC-821 draft, or a creation or destruction. */
export type Announcement = "standard" | "draft" | "created";

/**
 * Finds transfers that a contract announces in several forms: later announcements in a transaction echo the first. Each
 * logic of LAND announces in one form only, but an upgrade could easily announce in two.
 */
export class Echoes {
  #transaction = "";
  readonly #counts = new Map<string, Record<Announcement, number>>();

  /** True if an earlier log of the transaction announced the same move (topics of from, to and id) in another form. */
  isEcho({ transactionHash, blockNumber }: VerifiedLog, way: Announcement, move: readonly string[]): boolean {
    const transaction = `${blockNumber} ${transactionHash}`;
    if (transaction !== this.#transaction) {
      this.#transaction = transaction;
      this.#counts.clear();
    }
    const key = move.join();
    const counts = this.#counts.get(key) ?? { standard: 0, draft: 0, created: 0 };
    this.#counts.set(key, counts);
    const told = Math.max(counts.standard, counts.draft, counts.created);
    counts[way]++;
    return counts[way] <= told;
  }
}

const DRAFT_TOPICS: ReadonlySet<string> = new Set([TRANSFER_821, TRANSFER_821_SECOND, CREATE_821, DESTROY_821]);
const ZERO_TOPIC = `0x${"0".repeat(64)}`;

/** Returns the topics of from, to and id for a creation or destruction. */
export function createdMove({ topics }: VerifiedLog): [from: string, to: string, id: string] {
  const [event, holder, id] = topics as [string, string, string];
  return event === CREATE_821 ? [ZERO_TOPIC, holder, id] : [holder, ZERO_TOPIC, id];
}

/** True if the log may be an echo, or may be echoed. */
export function mayEcho({ topics }: VerifiedLog): boolean {
  return DRAFT_TOPICS.has(topics[0] ?? "");
}

/** Returns a cat's five-byte id, left-aligned in its topic, as 64 digits. Undefined if the topic holds more bytes. */
function catIdOf(topic: string): string | undefined {
  return /^0{54}$/.test(topic.slice(12)) ? topic.slice(2, 12).padStart(64, "0") : undefined;
}

/** Adds a cat's rescue or adoption. Returns false if it is malformed. */
export function addCat(builder: TransferBuilder, log: VerifiedLog): boolean {
  const { topics, data } = log;
  const isRescue = topics[0] === CAT_RESCUED;
  if (isRescue ? topics.length !== 3 || data !== "0x" : topics.length !== 4 || data.length !== 66) return false;
  const id = catIdOf(topics[isRescue ? 2 : 1] as string);
  if (id === undefined) return false;
  const from = isRescue ? ZERO_ADDRESS : addressOfTopic(topics[2] as string);
  addSingle(builder, TransferKind.mooncats, log, from, addressOfTopic(topics[isRescue ? 1 : 3] as string), id);
  return true;
}
