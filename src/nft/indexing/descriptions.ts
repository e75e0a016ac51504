/**
 * What contracts say of themselves after their identification: name, symbol, claimed standards, code. Read again when an
 * operator refreshes a collection, by the self-audit, and after the contract's own announcement. Only a difference is
 * written. A read that fails changes nothing.
 */

import type { ChainWork } from "../../chain/consumer.ts";
import type { Clock } from "../../core/clock.ts";
import { countedCache } from "../../core/counted-cache.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { type ContractRenamed, nftStream } from "../../events/types.ts";
import { appendWithRetry } from "../../log/event-log.ts";
import { BEACON_UPGRADED, CONTRACT_URI_UPDATED, UPGRADED } from "../../rpc/decode/topics.ts";
import { foldHeadline, fromHeadline, type IndexState, namedAtOf, toHeadline } from "../collections/headline.ts";
import { beginAnew, type ContractRef, requesterOf, requestIdentification } from "../collections/requests.ts";
import { readDescription, type SelfDescription } from "./identify.ts";

/** Events after which a followed contract is read again. */
export const DESCRIPTION_TOPICS: readonly Hash[] = [CONTRACT_URI_UPDATED, UPGRADED, BEACON_UPGRADED];

/** Attempts to append while a job or the follower writes the stream. */
const ATTEMPTS = 16;

interface DescriptionsOptions extends Pick<ChainWork, "chain" | "log" | "reader" | "clock" | "logger"> {
  /** Called with a block, and whether the contract had code after it. */
  readonly onCode: (address: Address, block: number, hasCode: boolean) => void;
}

export class ContractDescriptions {
  readonly #options: DescriptionsOptions;
  readonly #running = new Map<Address, Promise<boolean>>();

  constructor(options: DescriptionsOptions) {
    this.#options = options;
  }

  /**
   * Reads a contract again and records what differs. Concurrent calls share one read.
   * @returns true if its stream was written
   * @throws AppError if the chain or the log does not answer
   */
  readAgain(address: Address): Promise<boolean> {
    const running = this.#running.get(address);
    if (running !== undefined) return running;
    const read = this.#read(address).finally(() => this.#running.delete(address));
    this.#running.set(address, read);
    return read;
  }

  /**
   * 1. The contract was no NFT: it is identified again.
   * 2. It is not identified yet, or removed: there is nothing to compare.
   * 3. There is no contract and no delegate that answers: what it said last stays.
   * 4. It claims a standard whose logs were passed over so far: it is indexed anew, with these forms and the former ones.
   * 5. It has another name or symbol: that is recorded.
   */
  async #read(address: Address): Promise<boolean> {
    const { chain, log, reader, clock, logger, onCode } = this.#options;
    const contract: ContractRef = { chainId: chain.chainId, address };
    const { version, headline } = await log.head(nftStream(chain.chainId, address));
    const before = fromHeadline(headline);
    if (version === 0) return false;
    if (before.status === "not_nft") {
      await requestIdentification({ log, clock }, contract, version, requesterOf(before));
      return true;
    }
    if (!isDescribed(before)) return false;
    const said = await readDescription(reader, address);
    // A contract that is gone may be back before the audit looks.
    onCode(address, said.block, said.isThere);
    if (!said.isThere) return false;
    if (said.claimed.some((form) => !before.forms.includes(form))) {
      const forms = [...new Set([...before.forms, ...said.claimed])];
      logger.info({ chain: chain.name, address, forms: forms.join(",") }, "a contract has another kind: indexing anew");
      await beginAnew({ log, clock }, contract, "ReindexRequested", requesterOf(before), { forms });
      return true;
    }
    return this.#rename(contract, said);
  }

  async #rename({ chainId, address }: ContractRef, said: SelfDescription): Promise<boolean> {
    const { log, clock, chain, logger } = this.#options;
    const stream = nftStream(chainId, address);
    const { name, symbol, block } = said;
    const event: ContractRenamed = { type: "ContractRenamed", name, symbol, block };
    const written = await appendWithRetry(log, ATTEMPTS, async () => {
      const { version, headline } = await log.head(stream);
      const state = fromHeadline(headline);
      const isSame = state.name === name && state.symbol === symbol;
      // A later read of another process has been recorded meanwhile.
      if (!isDescribed(state) || isSame || block < namedAtOf(state)) return undefined;
      return {
        stream,
        events: [event],
        expectedVersion: version,
        headline: toHeadline(foldHeadline(state, [event], clock.now())),
      };
    });
    if (written === undefined) return false;
    logger.info({ chain: chain.name, address, name, symbol, block }, "a contract has another name or symbol");
    return true;
  }
}

/** True if the collection was identified as an NFT's. */
const isDescribed = ({ status }: IndexState): boolean =>
  status === "following" || status === "joining" || status === "backfilling";

/** What a stream's headline has of the contract's description, which any process may write. */
export const describedIn = (state: IndexState) => {
  const { name, symbol, namedAt, rulesVersion } = state;
  return { name, symbol, namedAt, rulesVersion };
};

/** Reads of one contract within a minute. A contract may announce changes in each block. */
const [READS, READS_MS] = [6, 60_000];
/** Contracts read in one poll. */
const AT_ONCE = 8;

/** Followed contracts that are to be read again, in turns. */
export class DueDescriptions {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #due = new Set<Address>();
  readonly #reads = countedCache<Address, { count: number; readonly since: number }>(1_000);

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  add(address: Address): void {
    this.#due.add(address);
  }

  delete(address: Address): void {
    this.#due.delete(address);
  }

  clear(): void {
    this.#due.clear();
  }

  /** Takes the contracts of the next poll. */
  take(): Address[] {
    const now = this.#clock.monotonic();
    const taken: Address[] = [];
    for (const address of this.#due) {
      if (taken.length === AT_ONCE) break;
      const last = this.#reads.get(address);
      const reads = last !== undefined && now - last.since < READS_MS ? last : { count: 0, since: now };
      if (reads.count >= READS) continue;
      reads.count++;
      this.#reads.set(address, reads);
      this.#due.delete(address);
      taken.push(address);
    }
    return taken;
  }
}
