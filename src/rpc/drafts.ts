/** Transfers as contracts announced them before there was a standard, where that takes more than reading the arguments. */
import { TransferKind } from "../events/columns.ts";
import { CAT_RESCUED } from "./topics.ts";
import { addressOfTopic, addSingle, type TransferBuilder, ZERO } from "./transfer-builder.ts";
import type { VerifiedLog } from "./verify.ts";

/**
 * Transfers that a contract announces twice, as the ERC-821 drafts do and as ERC-721 does: the second announcement in a
 * transaction echoes the first. LAND's logics each emit one of the two; a logic that emits both is a small step away.
 */
export class Echoes {
  #transaction = "";
  /** Announcements as ERC-721 less those as ERC-821, by transfer. */
  readonly #lead = new Map<string, number>();

  /** Says if the log repeats in one form what an earlier log of its transaction said in the other. */
  isEcho({ topics, transactionHash, blockNumber }: VerifiedLog, step: 1 | -1): boolean {
    const transaction = `${blockNumber} ${transactionHash}`;
    if (transaction !== this.#transaction) {
      this.#transaction = transaction;
      this.#lead.clear();
    }
    const transfer = topics.slice(1).join();
    const lead = this.#lead.get(transfer) ?? 0;
    this.#lead.set(transfer, lead + step);
    return lead * step < 0;
  }
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
