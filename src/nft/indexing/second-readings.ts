/**
 * Second readings of followed collections: of blocks that may lack a log, and of owners that the contract denies. What
 * turns out to be wrong is read again or indexed anew. What can't be told stays in doubt, and is tried again.
 */

import type { ChainWork } from "../../chain/consumer.ts";
import { countedCache } from "../../core/counted-cache.ts";
import type { Address } from "../../core/hex.ts";
import type { BlockRange, BlockRef, NftEvent } from "../../events/types.ts";
import { awaitsProof, type IndexState, nextBlock } from "../collections/headline.ts";
import { beginAnew, requesterOf } from "../collections/requests.ts";
import { doubtsAfter } from "./archive-doubts.ts";
import type { AuditFinding } from "./audit.ts";
import type { FollowedCollection, FollowedStreams } from "./collection-streams.ts";
import { lastCompleteBlock } from "./omissions.ts";
import type { HistoryProofs, Proof } from "./proof.ts";

interface ReadingsOptions extends Pick<ChainWork, "chain" | "log" | "reader" | "clock" | "logger" | "observer"> {
  readonly proofs: Pick<HistoryProofs, "prove" | "takeFound">;
  readonly streams: Pick<FollowedStreams, "append" | "committed" | "chainVersion">;
  readonly followed: ReadonlyMap<Address, FollowedCollection>;
  /** Called with a collection that is to join again, by receipts, from where its stream now ends. */
  readonly onReadAgain: (followed: FollowedCollection) => void;
  /** Called with a collection that is indexed anew. */
  readonly onBegunAnew: (address: Address) => Promise<void>;
}

/** Most collections that wait for a second reading, and ms between two readings of one collection. */
const MAX_WAITING = 100;
const RECHECK_MS = 600_000;
/** The same for a contract that is known to contradict its own logs. */
const CONTRADICTED_MS = 86_400_000;

export class SecondReadings {
  readonly #options: ReadingsOptions;
  /** Blocks that are compared with their receipts. `isKnown`: receipts have shown already that logs were wrong. */
  readonly #blocks = new Map<Address, { readonly blocks: BlockRange; readonly isKnown: boolean }>();
  /** Owners that the self-audit found to be others, until they are recorded. */
  readonly #owners = new Map<Address, AuditFinding>();
  /** When owners that stay in doubt are read again, on the monotonic clock, and the wait after that reading, in ms. */
  readonly #undecided = new Map<Address, { readonly at: number; readonly waitMs: number }>();
  /** Monotonic time of a collection's last reading. */
  readonly #rechecked = countedCache<Address, number>(1_000);

  constructor(options: ReadingsOptions) {
    this.#options = options;
  }

  /** Records blocks of a followed collection between which a transfer is missing. */
  doubt(address: Address, blocks: BlockRange, isKnown: boolean): void {
    if (this.#blocks.get(address)?.isKnown === true || !this.#options.followed.has(address)) return;
    if (this.#blocks.size < MAX_WAITING) this.#blocks.set(address, { blocks, isKnown });
  }

  /**
   * Checks one collection's blocks in doubt against their receipts. If an endpoint omitted logs, the collection is
   * re-read by receipts from the block before. At most once per collection in ten minutes: some contracts announce
   * transfers that never happened.
   */
  async recheck(): Promise<void> {
    const { chain, log, reader, clock, logger, observer } = this.#options;
    const [next] = this.#blocks;
    if (next === undefined) return;
    const [address, { blocks, isKnown }] = next;
    this.#blocks.delete(address);
    const followed = this.#options.followed.get(address);
    if (followed === undefined || (!isKnown && this.#hasRead(address, RECHECK_MS))) return;
    this.#rechecked.set(address, clock.monotonic());
    const { chainId } = chain;
    let ancestor: BlockRef | undefined;
    try {
      ancestor = await lastCompleteBlock({ reader, log, chainId, address, forms: followed.state.forms }, blocks);
    } catch (error) {
      logger.debug({ err: error, chain: chain.name, address, ...blocks }, "the check of blocks in doubt failed");
      return;
    }
    if (ancestor === undefined) return;
    logger.warn(
      { chain: chain.name, address, block: ancestor.number + 1 },
      "an endpoint omitted logs: the collection is re-read from this block",
    );
    observer.omitted();
    this.#rechecked.delete(address);
    await this.#readAgain(followed, ancestor);
  }

  /** Has a collection read again by receipts, from the block after this one on. */
  async #readAgain(followed: FollowedCollection, last: BlockRef): Promise<void> {
    const { state } = followed;
    const { chainVersion } = this.#options.streams;
    const events: NftEvent[] = [{ type: "BlocksReverted", ancestor: last, chainVersion, rejoins: true }];
    // The blocks of the doubt are among those that are read again.
    if (state.ownersDoubtBlock !== null) events.push({ type: "OwnersSettled", contradicted: 0 });
    // The stream of a collection that no block has touched since ends below.
    if (last.number > state.end) events.unshift(this.#options.streams.committed(state, [], nextBlock(state), last));
    await this.#options.streams.append({ followed, events });
    this.#options.onReadAgain(followed);
  }

  /** Has the owners proven of a collection that has joined, if an archive told its history, or if endpoints may differ. */
  joined(followed: FollowedCollection): void {
    const { proofs, reader } = this.#options;
    // Several endpoints may tell different logs where no bloom decides.
    if (followed.state.archives === "" && reader.endpointCount > 1) proofs.prove(followed.address, followed.state);
    else this.resume(followed);
  }

  /** Has the owners proven that a former process left unproven, or in doubt. */
  resume({ address, state }: FollowedCollection): void {
    if (isUnsettled(state)) this.#options.proofs.prove(address, state);
  }

  /** Records what was proven, and has collections read again of which the stream is wrong. */
  async writeProven(): Promise<void> {
    const { proofs, clock } = this.#options;
    for (const [address, proof] of proofs.takeFound()) {
      const followed = this.#options.followed.get(address);
      if (followed === undefined) continue;
      if ("wrongAt" in proof) {
        await this.#wrongAt(followed, proof.wrongAt);
        continue;
      }
      const isSecond = followed.state.ownersDoubtBlock !== null;
      const isContradicted = "undecided" in proof || ("proven" in proof && proof.proven.contradicted > 0);
      if (isSecond || isContradicted) this.#rechecked.set(address, clock.monotonic());
      if ("proven" in proof) await this.#proven(followed, proof.proven);
      else if ("undecided" in proof) await this.#stayInDoubt(followed, proof.undecided, proof.block);
      else if (isSecond) await this.#stayInDoubt(followed, proof.unproven);
      else await this.#leaveUnproven(followed, proof.unproven);
    }
    await this.#rereadOwners();
  }

  async #proven(followed: FollowedCollection, proven: Extract<Proof, { proven: unknown }>["proven"]): Promise<void> {
    const { state } = followed;
    const { archives, touched, hashed, sampled, byRoot, absent, blocks = 0, provableFrom = null } = state;
    const { ownersDoubtBlock } = state;
    const counts = { archives, touched, hashed, sampled, byRoot, absent, blocks, provableFrom };
    const events: NftEvent[] = [];
    if (archives !== "") events.push({ type: "HistoryProven", ...counts, ...proven });
    if (ownersDoubtBlock !== null) events.push({ type: "OwnersSettled", contradicted: proven.contradicted });
    if (events.length > 0) await this.#options.streams.append({ followed, events });
  }

  /** The stream is wrong from a block on. What archives told is indexed anew, what nodes told is read again. */
  async #wrongAt(followed: FollowedCollection, wrongAt: number): Promise<void> {
    const { log, clock, chain, logger, reader, observer } = this.#options;
    const { address, state } = followed;
    const place = { chain: chain.name, address, block: wrongAt };
    if (state.archives === "") {
      const [last] = await reader.presentHeaders([Math.max(0, wrongAt - 1)]);
      if (last === undefined) return;
      logger.warn(place, "an endpoint omitted logs, as the contract's owners show: the collection is re-read");
      observer.omitted();
      await this.#readAgain(followed, { number: last.number, hash: last.hash });
      return;
    }
    const doubts = doubtsAfter(state, { archive: state.archives, wrongAt, isOfLogs: true });
    const text = "an archive told wrong logs, as the contract's owners show: indexing anew";
    logger.warn({ ...place, archives: state.archives, ...doubts }, text);
    const contract = { chainId: chain.chainId, address };
    await beginAnew({ log, clock }, contract, "ReindexRequested", requesterOf(state), doubts);
    await this.#options.onBegunAnew(address);
  }

  /**
   * The contract names other owners than its logs: its blocks are read a second time. If that can't tell why, the
   * collection stays in doubt, and the reading is tried again.
   */
  doubtOwners(address: Address, { block, reason }: AuditFinding): void {
    const followed = this.#options.followed.get(address);
    if (followed === undefined || followed.state.ownersDoubtBlock !== null || this.#owners.has(address)) return;
    // A contract that contradicts its own logs goes on doing so.
    if (followed.state.contradicted > 0 && this.#hasRead(address, CONTRADICTED_MS)) return;
    if (this.#owners.size < MAX_WAITING) this.#owners.set(address, { block, reason });
  }

  /** True if the collection had a second reading within these ms. */
  #hasRead(address: Address, ms: number): boolean {
    return this.#options.clock.monotonic() < (this.#rechecked.get(address) ?? Number.NEGATIVE_INFINITY) + ms;
  }

  /** Records new doubts about owners, and begins the second readings that are due. */
  async #rereadOwners(): Promise<void> {
    const { proofs, clock, logger, chain } = this.#options;
    for (const [address, { block, reason }] of this.#owners) {
      this.#owners.delete(address);
      const followed = this.#options.followed.get(address);
      if (followed === undefined) continue;
      logger.info({ chain: chain.name, address, block, reason }, "owners are in doubt: their blocks are read again");
      await this.#options.streams.append({ followed, events: [{ type: "OwnersDoubted", block, reason }] });
      if (this.#hasRead(address, RECHECK_MS)) this.#waitFor(address, RECHECK_MS);
      else proofs.prove(address, followed.state);
    }
    for (const [address, { at, waitMs }] of this.#undecided) {
      if (clock.monotonic() < at) continue;
      const followed = this.#options.followed.get(address);
      if (followed === undefined || !isUnsettled(followed.state)) this.#undecided.delete(address);
      else {
        this.#waitFor(address, waitMs);
        proofs.prove(address, followed.state);
      }
    }
  }

  /**
   * A reading could not tell why the contract names other owners.
   * @param block where the contract was asked, if the doubt is new
   */
  async #stayInDoubt(followed: FollowedCollection, why: string, block?: number): Promise<void> {
    const { logger, chain, streams } = this.#options;
    const { address, state } = followed;
    if (state.ownersDoubtBlock === null && block !== undefined) {
      const reason = `the contract names other owners than its logs, and ${why}`;
      await streams.append({ followed, events: [{ type: "OwnersDoubted", block, reason }] });
    }
    const said = { block: followed.state.ownersDoubtBlock, why, retryInMs: this.#tryLater(address) };
    logger.warn({ chain: chain.name, address, ...said }, "owners stay in doubt");
  }

  /** Records that the owners could not be compared with the contract. The comparison is tried again. */
  async #leaveUnproven(followed: FollowedCollection, why: string): Promise<void> {
    const { logger, chain, streams } = this.#options;
    const { address, state } = followed;
    const { archives, touched, hashed, sampled, byRoot, absent, blocks = 0, provableFrom = null, end } = state;
    const counts = { archives, touched, hashed, sampled, byRoot, absent, blocks, provableFrom, block: end };
    const none = { holdings: 0, of: 0, contradicted: 0, isComplete: false };
    await streams.append({ followed, events: [{ type: "HistoryProven", ...counts, ...none }] });
    const said = { why, retryInMs: this.#tryLater(address) };
    logger.warn({ chain: chain.name, address, ...said }, "owners could not be proven");
  }

  /** Has the owners of a collection read again later. Returns the wait in ms, which doubles each time. */
  #tryLater(address: Address): number {
    // A reading takes up to some hundred calls, and an endpoint may be silent for days.
    const waitMs = Math.min((this.#undecided.get(address)?.waitMs ?? RECHECK_MS / 2) * 2, CONTRADICTED_MS);
    this.#waitFor(address, waitMs);
    return waitMs;
  }

  #waitFor(address: Address, waitMs: number): void {
    this.#undecided.set(address, { at: this.#options.clock.monotonic() + waitMs, waitMs });
  }
}

/** True if the owners of a collection are in doubt, or an archive told them and the contract was not asked yet. */
const isUnsettled = (state: IndexState): boolean => {
  const { archives, holdings, of, ownersDoubtBlock } = state;
  return ownersDoubtBlock !== null || awaitsProof(state) || (archives !== "" && holdings === 0 && of === 0);
};
