/** Transfers as contracts announced them before there was a standard, where that takes more than reading the arguments. */
import { TransferKind } from "../events/columns.ts";
import { CAT_RESCUED, CREATE_821, DESTROY_821, TRANSFER_821, TRANSFER_821_SECOND } from "./topics.ts";
import { addressOfTopic, addSingle, type TransferBuilder, ZERO } from "./transfer-builder.ts";
import type { VerifiedLog } from "./verify.ts";

/** How a contract may announce one and the same transfer: as ERC-721, as an ERC-821 draft, as a creation or destruction. */
export type Announcement = "standard" | "draft" | "created";

/**
 * Transfers that a contract announces in several ways: the further announcements in a transaction echo the first. LAND's
 * logics each announce in one way; a logic that announces in two is a small step away.
 */
export class Echoes {
  #transaction = "";
  readonly #counts = new Map<string, Record<Announcement, number>>();

  /** Says if the log repeats in one way what an earlier log of its transaction announced in another; topics are of from, to, id. */
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

/** From, to and id of a creation or destruction, as topics. */
export function createdMove({ topics }: VerifiedLog): [from: string, to: string, id: string] {
  const [event, holder, id] = topics as [string, string, string];
  return event === CREATE_821 ? [ZERO_TOPIC, holder, id] : [holder, ZERO_TOPIC, id];
}

/** Says if the log may be an echo, or have one. */
export function mayEcho({ topics }: VerifiedLog): boolean {
  return DRAFT_TOPICS.has(topics[0] ?? "");
}

/** The digits of a word that holds five bytes at its start, as the number they spell; undefined where there is more. */
function catIdOf(topic: string): string | undefined {
  return /^0{54}$/.test(topic.slice(12)) ? topic.slice(2, 12).padStart(64, "0") : undefined;
}

/** Adds a cat's rescue or adoption; false when it is malformed. */
export function addCat(builder: TransferBuilder, log: VerifiedLog): boolean {
  const { topics, data } = log;
  const isRescue = topics[0] === CAT_RESCUED;
  if (isRescue ? topics.length !== 3 || data !== "0x" : topics.length !== 4 || data.length !== 66) return false;
  const id = catIdOf(topics[isRescue ? 2 : 1] as string);
  if (id === undefined) return false;
  const from = isRescue ? ZERO : addressOfTopic(topics[2] as string);
  addSingle(builder, TransferKind.mooncats, log, from, addressOfTopic(topics[isRescue ? 1 : 3] as string), id);
  return true;
}
