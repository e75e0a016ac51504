/**
 * The followed collections of one chain, as a consumer of the follower: accepts joined collections, writes the
 * transfers of new blocks to their streams, reverts them at a reorg. Writes only the streams that a block touches.
 */
import type { AdvancedBlocks, ChainChange, ChainConsumer, ChainWork, FollowedChain } from "../../chain/consumer.ts";
import { isCanonical } from "../../chain/view.ts";
import { withTimeout } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import { countText, durationText, wholeText } from "../../core/format.ts";
import type { Address, Hash } from "../../core/hex.ts";
import {
  type BlockRange,
  type BlockRef,
  type HeaderRef,
  type NftEvent,
  parseStream,
  type StreamName,
} from "../../events/types.ts";
import { allStreams, type StreamHead } from "../../log/event-log.ts";
import { NFT_TOPICS } from "../../rpc/decode/transfers.ts";
import type { BlockHeader, ChainLog, LogsInDoubt } from "../../rpc/port.ts";
import { LogsInDoubtError } from "../../rpc/rpc-errors.ts";
import { failureOf } from "../collections/failures.ts";
import { fromHeadline, type IndexState, namedAtOf, nameText, nextBlock, toHeadline } from "../collections/headline.ts";
import { beginAnew, requesterOf } from "../collections/requests.ts";
import type { AuditFinding } from "./audit.ts";
import { type FollowedCollection, FollowedStreams, type StreamChange } from "./collection-streams.ts";
import { type ContractDescriptions, DESCRIPTION_TOPICS, DueDescriptions, describedIn } from "./descriptions.ts";
import type { FlagRules } from "./flags.ts";
import { formsGained } from "./identify.ts";
import { JoiningCollections } from "./joining.ts";
import { endOfLife, hasCodeAfter, MAX_ENDS, wasGone } from "./lives.ts";
import type { HistoryProofs } from "./proof.ts";
import { SecondReadings } from "./second-readings.ts";
import { WatchedContracts } from "./watched-contracts.ts";
import { RULES_VERSION } from "./word-rules.ts";

interface CollectionsOptions extends Omit<ChainWork, "leases"> {
  readonly flags: FlagRules;
  readonly proofs: Pick<HistoryProofs, "prove" | "takeFound">;
  readonly descriptions: Pick<ContractDescriptions, "readAgain">;
  /** Called with the head of each stream when this process begins to follow, and of a collection that needs a job again. */
  readonly onHead?: (head: StreamHead) => void;
  /** Called with the followed head if a collection that joins can go on there at once. */
  readonly onPartRead?: (head: HeaderRef) => void;
}

/** Most contracts whose code came or went that wait to be looked into. */
const MAX_CHANGED = 100;
/** Most collections of an older release whose names are judged again in one poll. */
const MAX_REJUDGED = 200;
/** Longest wait of a poll for contracts that are read again, in ms. Reads that take longer are looked at by a later poll. */
const DESCRIPTIONS_MS = 2_000;

/** True if a headline tells already that the contract has code, or has none. */
const isCodeKnown = ({ destroyedAt, hadCode }: IndexState, hasCode: boolean): boolean =>
  hasCode ? hadCode && destroyedAt === null : destroyedAt !== null;

export class FollowedCollections implements ChainConsumer {
  readonly name = "collections";
  readonly topics = [...NFT_TOPICS, ...DESCRIPTION_TOPICS];
  /** The contracts that are no NFTs. */
  readonly watched: WatchedContracts;
  readonly #options: CollectionsOptions;
  readonly #streams: FollowedStreams;
  #chain: FollowedChain | undefined;
  readonly #followed = new Map<Address, FollowedCollection>();
  readonly #joining: JoiningCollections;
  /** Collections that were completed and not counted yet. The log line of their completion waits for the counts. */
  readonly #unlogged = new Set<Address>();
  /** Followed collections whose proof and counts may be missing. Only a process that follows the chain makes them. */
  readonly #unexamined = new Set<Address>();
  readonly #readings: SecondReadings;
  /** Followed contracts whose code came or went, and the block at which that was seen. */
  readonly #changedCode = new Map<Address, number>();
  /** Followed contracts that may say something else of themselves than before. */
  readonly #due: DueDescriptions;

  constructor(options: CollectionsOptions) {
    this.#options = options;
    const { chain, log, reader, clock, logger, observer, verify, flags } = options;
    const streams = new FollowedStreams(options);
    this.#streams = streams;
    this.#due = new DueDescriptions(clock);
    this.watched = new WatchedContracts(options);
    this.#readings = new SecondReadings({
      ...options,
      streams,
      followed: this.#followed,
      onReadAgain: (followed) => {
        flags.judgeShape(followed.address);
        this.#followed.delete(followed.address);
        this.#joining.add({ ...followed, byReceipts: true });
      },
      onBegunAnew: (address) => this.#handBack(address),
    });
    this.#joining = new JoiningCollections({
      reader,
      streams,
      clock,
      verify,
      onJoined: (followed) => {
        this.#followed.set(followed.address, followed);
        this.#unlogged.add(followed.address);
        // A wake-up by the append that completed it may have come before.
        this.#unexamined.delete(followed.address);
        // The announcements between the identification and the join were not read.
        if (followed.state.end > namedAtOf(followed.state)) this.#due.add(followed.address);
        flags.judgeShape(followed.address);
        this.#readings.joined(followed);
        observer.completed();
      },
      onHandedBack: (head) => options.onHead?.(head),
      onPartRead: (head) => options.onPartRead?.(head),
      part: options.bounds?.joinPart,
      onMovedOn: async (address) => this.offer(await log.head(streams.nameOf(address))),
      onFailed: ({ address, state: { attempt } }, error, retryInMs) => {
        logger.warn({ err: error, chain: chain.name, address, attempt, retryInMs }, "joining failed");
        observer.failed();
      },
    });
  }

  addresses(): readonly Address[] {
    return [...this.#followed.keys()];
  }

  needsBlocks(): boolean {
    return this.#followed.size > 0 || this.#joining.isWaiting;
  }

  async begin(chain: FollowedChain): Promise<void> {
    await this.#load();
    this.#streams.chain = chain;
    this.#chain = chain;
    await this.#reconcile(chain);
  }

  /** Reads the followed and the joining collections from the streams' headlines. */
  async #load(): Promise<void> {
    this.#followed.clear();
    this.#joining.clear();
    this.#due.clear();
    const { log, chain, onHead } = this.#options;
    for await (const head of allStreams(log, `nft/${chain.chainId}/`)) {
      this.offer(head);
      onHead?.(head);
    }
  }

  /**
   * Version of a stream that this process follows, or followed when it last followed the chain. Undefined for another
   * stream.
   */
  versionOf(stream: StreamName): number | undefined {
    const parsed = parseStream(stream);
    return parsed.kind === "nft" ? this.#followed.get(parsed.address)?.version : undefined;
  }

  /** Accepts a stream if its headline says that it is followed, ready to join, or no NFT's and therefore watched. */
  offer(head: StreamHead): void {
    this.watched.offer(head);
    const parsed = parseStream(head.stream);
    if (parsed.kind !== "nft") return;
    const state = fromHeadline(head.headline);
    const known = this.#followed.get(parsed.address);
    const isSame = state.status === "following" && state.base === known?.state.base;
    if (known !== undefined && (isSame || head.version <= known.version)) {
      adopt(known, head, state);
      return;
    }
    // An operator had it indexed anew, or removed.
    if (known !== undefined) this.#followed.delete(parsed.address);
    const followed = { address: parsed.address, version: head.version, state };
    if (state.status === "joining") this.#joining.offer(followed);
    else if (state.status === "following") {
      this.#followed.set(parsed.address, followed);
      this.#unexamined.add(parsed.address);
      if (state.isNameDue) this.#due.add(parsed.address);
    }
  }

  /** Like `offer`, for a collection that becomes ready with a pending append. */
  offerPending(address: Address, state: IndexState, appended: Promise<StreamHead>): void {
    if (!this.#followed.has(address)) this.#joining.expect(address, state, appended);
  }

  /** Checks blocks in doubt, then completes the collections that wait to join. False if one needs a newer head. */
  async atHead(head: HeaderRef): Promise<boolean> {
    await this.#readings.recheck();
    await this.#checkCode();
    const { chain } = this.#streams;
    const final = this.#chain?.finalized?.number ?? -1;
    const isEnough = await this.#joining.join({ head, final, headerOf: (number) => chain?.headers.get(number) });
    await this.#readDescriptions();
    return isEnough;
  }

  /** Records blocks between which a transfer of the collection is missing, as a followed block shows. */
  doubt(address: Address, blocks: BlockRange, isKnown = false): void {
    this.#readings.doubt(address, blocks, isKnown);
  }

  /** Has the owners of a collection compared with the contract, which names others. */
  doubtOwners(address: Address, finding: AuditFinding): void {
    this.#readings.doubtOwners(address, finding);
  }

  suspected(address: Address, blocks: BlockRange): void {
    this.doubt(address, blocks, true);
  }

  /** Records that the contract of a collection had code at a block, or none. */
  codeSeen(address: Address, block: number, hasCode: boolean): void {
    const followed = this.#followed.get(address);
    if (followed === undefined || isCodeKnown(followed.state, hasCode)) return;
    if (this.#changedCode.size < MAX_CHANGED && !this.#changedCode.has(address)) this.#changedCode.set(address, block);
  }

  /** Reads contracts again that announced a change. What can't be read now is read at a later poll. */
  async #readDescriptions(): Promise<void> {
    const due = this.#due.take().filter((address) => this.#followed.has(address));
    if (due.length === 0) return;
    const { descriptions, clock } = this.#options;
    const read = new Set<Address>();
    const reads = due.map((address) => descriptions.readAgain(address).then(() => read.add(address)));
    const outcomes = await withTimeout(clock, DESCRIPTIONS_MS, Promise.allSettled(reads));
    for (const failed of outcomes?.value ?? []) {
      if (failed.status === "rejected" && !(failed.reason instanceof AppError)) throw failed.reason;
    }
    for (const address of due) {
      if (read.has(address)) await this.#described(address);
      else this.#due.add(address);
    }
  }

  /** Takes over what was recorded of a contract that was read again. */
  async #described(address: Address): Promise<void> {
    const head = await this.#options.log.head(this.#streams.nameOf(address));
    this.offer(head);
    const followed = this.#followed.get(address);
    // It is indexed anew.
    if (followed === undefined) this.#options.onHead?.(head);
    else if (followed.state.isNameDue) {
      followed.state = { ...followed.state, isNameDue: false };
      await this.#streams.restate(followed, followed.state);
    }
  }

  /** Looks into one contract whose code has changed, once the block is final at which that was seen. */
  async #checkCode(): Promise<void> {
    const final = this.#chain?.finalized?.number ?? -1;
    const [address, block] = [...this.#changedCode].find(([, seenAt]) => seenAt <= final) ?? [];
    if (address === undefined || block === undefined) return;
    this.#changedCode.delete(address);
    const followed = this.#followed.get(address);
    if (followed === undefined) return;
    const { reader, logger, chain } = this.#options;
    let read: { readonly hasCode: boolean; readonly end: BlockRef | undefined };
    try {
      const hasCode = await hasCodeAfter(reader, address, block);
      // A reorg took the change back.
      if (isCodeKnown(followed.state, hasCode)) return;
      read = { hasCode, end: await this.#endOf(followed, hasCode, block) };
    } catch (error) {
      // The next audit sees it again.
      logger.debug({ err: error, chain: chain.name, address }, "the code of a contract could not be read");
      return;
    }
    await this.#codeChanged(followed, read, block);
  }

  /**
   * The end of a contract that is not recorded yet, if its code was gone or there again after a block. The tokens of a
   * contract that was requested after its end stay listed until there is another contract.
   */
  async #endOf({ address, state }: FollowedCollection, hasCode: boolean, block: number): Promise<BlockRef | undefined> {
    const { destroyedAt, hadCode, lastEnd, startBlock, ends } = state;
    if (ends >= MAX_ENDS || (!hasCode && !hadCode)) return undefined;
    const { reader } = this.#options;
    const known = [startBlock, state.target ?? startBlock, state.end];
    const end = hasCode ? destroyedAt : await endOfLife(reader, address, { known, by: block });
    if (end === null || end === lastEnd) return undefined;
    // It was not final when it was noted, so a reorg may have taken it back.
    if (hasCode && !(await wasGone(reader, address, end))) return undefined;
    const [header] = await reader.presentHeaders([end]);
    return header && { number: header.number, hash: header.hash };
  }

  async #codeChanged(
    followed: FollowedCollection,
    { hasCode, end }: { readonly hasCode: boolean; readonly end: BlockRef | undefined },
    seenAt: number,
  ): Promise<void> {
    const { chain, logger, flags } = this.#options;
    const { address, state: before } = followed;
    const { chainVersion } = this.#streams;
    const block = end?.number ?? seenAt;
    const text = hasCode ? "a contract is there again" : "a contract was destroyed";
    if (!hasCode || before.destroyedAt !== null) logger.warn({ chain: chain.name, address, block }, text);
    const life = hasCode ? { destroyedAt: null, hadCode: true } : { destroyedAt: block };
    if (end === undefined) {
      followed.state = { ...before, ...life };
      await this.#streams.restate(followed, followed.state);
      return;
    }
    const isPast = before.end > end.number;
    // What was folded of later blocks belongs to another contract, and is read again.
    const events: NftEvent[] = isPast ? [{ type: "BlocksReverted", ancestor: end, chainVersion, rejoins: true }] : [];
    events.push({ type: "ContractDestroyed", block: end.number, chainVersion });
    await this.#streams.append({ followed, events, work: life });
    flags.judgeShape(address);
    if (!isPast) return;
    this.#followed.delete(address);
    this.#joining.add(followed);
  }

  /** Tells the subscribers of joining collections the reason for the delay. */
  stalled(reason: string): void {
    const { logger, chain } = this.#options;
    this.#joining.stalled(reason).catch((error: unknown) => {
      logger.debug({ err: error, chain: chain.name }, "the stall of a joining collection could not be recorded");
    });
  }

  /** Begins what is missing of the collections that were offered since the last poll. */
  #examine(): void {
    for (const address of this.#unexamined) {
      const followed = this.#followed.get(address);
      if (followed === undefined) continue;
      this.#readings.resume(followed);
      if (followed.state.nfts === null) this.#options.flags.catchUp(address);
    }
    this.#unexamined.clear();
  }

  /** Writes flags that differ from the stream's, by the current rules and lists, even if no endpoint answers. */
  async prepare(): Promise<void> {
    this.#examine();
    await this.#readings.writeProven();
    await this.#writeMeasured();
    const { flags } = this.#options;
    let rejudged = 0;
    for (const followed of this.#followed.values()) {
      const { address, state } = followed;
      const isOld = state.rulesVersion !== RULES_VERSION;
      if (isOld && ++rejudged > MAX_REJUDGED) continue;
      const change = isOld ? await flags.rejudged(address, state) : flags.due(address, state);
      const { events } = change;
      const isSettled = !isOld && change.state.shapeRule === state.shapeRule;
      if (events.length > 0) await this.#streams.append({ followed, events, work: change.state });
      else if (!isSettled) followed.state = { ...state, ...change.state };
    }
  }

  /** Writes the counts of measured collections to their headlines, which other processes read. */
  async #writeMeasured(): Promise<void> {
    const { flags, log } = this.#options;
    for (const [address, { version, ...measured }] of flags.takeMeasured()) {
      const followed = this.#followed.get(address);
      if (followed === undefined) continue;
      if (followed.version !== version) {
        // Blocks came or went meanwhile, and the count is of before.
        flags.judgeShape(address);
        continue;
      }
      // The count of the events is exact. A ledger joins entries of a batch that have the same id.
      const transfers = followed.state.transfers ?? measured.transfers;
      followed.state = { ...followed.state, ...measured, transfers };
      if (this.#unlogged.delete(address)) this.#logIndexed(followed);
      const headline = toHeadline(followed.state);
      await log.replaceHeadline({ stream: this.#streams.nameOf(address), version: followed.version, headline });
    }
  }

  #logIndexed({ address, state: { name, nfts, transfers, calls, requestedAt, finishedAt } }: FollowedCollection): void {
    const { chain, logger } = this.#options;
    const ms = requestedAt === null || finishedAt === null ? null : finishedAt - requestedAt;
    const parts = [
      ...(nfts === null ? [] : [`${wholeText(nfts)} NFTs`]),
      ...(transfers === null ? [] : [`${countText(transfers)} transfers`]),
      ...(calls === null ? [] : [`${wholeText(calls)} calls`]),
      ...(ms === null ? [] : [durationText(ms)]),
    ];
    const fields = { chain: chain.name, address, name, nfts, transfers, calls, ms };
    logger.info(fields, `indexed ${nameText(chain, address, name)} ${parts.join(" · ")}`);
  }

  saw(headers: readonly BlockHeader[]): void {
    this.#joining.addHeaders(headers);
  }

  async apply(change: ChainChange): Promise<void> {
    if (change.type === "advanced") await this.#advance(change);
    else {
      // What they said in a lost block may be otherwise on the new branch.
      await this.#nameDue(
        [...this.#followed.values()].filter(({ state }) => namedAtOf(state) > change.ancestor.number),
        { namedAt: change.ancestor.number },
      );
      const above = [...this.#followed.values()].filter(({ state }) => state.end > change.ancestor.number);
      const orphaned = new Set<string>(change.orphaned.map(({ hash }) => hash));
      const joining = await this.#joiningOn(orphaned, change.ancestor.number);
      await this.#revertEach([...above, ...joining], change.ancestor);
    }
  }

  /**
   * The joining collections that end on one of these followed blocks, or on another one above `ancestor`: they left for a
   * block in doubt, are read again, or join in parts. All others end on a block that their endpoint called final. It is
   * not known to be on the followed branch.
   */
  async #joiningOn(blocks: Pick<ReadonlySet<string>, "has">, ancestor: number): Promise<FollowedCollection[]> {
    return (await this.#joining.settled()).filter(({ state: { end, endHash, endsAboveFinal } }) => {
      return endHash !== "" && (blocks.has(endHash) || (endsAboveFinal && end > ancestor));
    });
  }

  /** Notes, durably, that contracts are to be read again once the head is reached. */
  async #nameDue(list: readonly FollowedCollection[], change: Partial<IndexState> = {}): Promise<void> {
    for (const followed of list) {
      this.#due.add(followed.address);
      if (followed.state.isNameDue && change.namedAt === undefined) continue;
      const state = { ...followed.state, ...change, isNameDue: true };
      await this.#streams.restate(followed, state);
      followed.state = state;
    }
  }

  async #advance(batch: AdvancedBlocks): Promise<void> {
    this.#joining.addHeaders(batch.headers);
    const byAddress = new Map<Address, ChainLog[]>();
    const announcing = new Set<Address>();
    for (const log of batch.logs) {
      if (DESCRIPTION_TOPICS.includes(log.topics[0] as Hash)) {
        announcing.add(log.address);
        continue;
      }
      const list = byAddress.get(log.address);
      if (list === undefined) byAddress.set(log.address, [log]);
      else list.push(log);
    }
    await this.#nameDue([...announcing].flatMap((address) => this.#followed.get(address) ?? []));
    const changes: StreamChange[] = [];
    const counts: { readonly address: Address; readonly count: number }[] = [];
    const leaving = batch.doubts.flatMap((doubt) => this.#leave(doubt, batch) ?? []);
    for (const change of leaving) {
      byAddress.delete(change.followed.address);
      changes.push(change);
    }
    for (const [address, logs] of byAddress) {
      const followed = this.#followed.get(address);
      // After a crash a stream may see a batch again. Skip the blocks that it already has.
      if (followed === undefined || followed.state.end >= batch.to.number) continue;
      const fresh = logs.filter((log) => log.blockNumber > followed.state.end);
      if (fresh.length === 0) continue;
      const event = this.#streams.committed(followed.state, fresh, nextBlock(followed.state), batch.to);
      changes.push({ followed, events: [event] });
      counts.push({ address, count: event.count });
    }
    await this.#streams.appendAll(changes);
    await this.#changeKinds(byAddress);
    for (const { address, count } of counts) this.#options.flags.countTransfers(address, count);
    for (const { followed } of leaving) {
      this.#followed.delete(followed.address);
      this.#joining.add(followed);
    }
  }

  /** Has collections indexed anew whose contracts use other forms of log than before: earlier ones were passed over. */
  async #changeKinds(byAddress: ReadonlyMap<Address, readonly ChainLog[]>): Promise<void> {
    const { log, clock, chain, logger } = this.#options;
    for (const [address, logs] of byAddress) {
      const followed = this.#followed.get(address);
      const forms = followed && formsGained(logs, followed.state.forms);
      if (followed === undefined || forms === undefined) continue;
      logger.info({ chain: chain.name, address, forms: forms.join(",") }, "a contract has another kind: indexing anew");
      const contract = { chainId: chain.chainId, address };
      await beginAnew({ log, clock }, contract, "ReindexRequested", requesterOf(followed.state), { forms });
      await this.#handBack(address);
    }
  }

  /** Leaves a collection that is indexed anew to the jobs. */
  async #handBack(address: Address): Promise<void> {
    this.#followed.delete(address);
    this.#options.onHead?.(await this.#options.log.head(this.#streams.nameOf(address)));
  }

  /**
   * The chain goes on without a collection whose logs of a block can't be read. It ends at the block before the batch, is
   * marked, and joins again when its logs can be read. Undefined if it isn't followed, or has the batch already.
   */
  #leave(doubt: LogsInDoubt, { fromBlock, to }: AdvancedBlocks): StreamChange | undefined {
    const { chain, logger, clock, observer } = this.#options;
    const followed = this.#followed.get(doubt.contract);
    if (followed === undefined || followed.state.end >= to.number) return undefined;
    const { address, state: before } = followed;
    const { event, waitMs } = failureOf(new LogsInDoubtError(doubt), before, clock);
    const { block, reason } = doubt;
    logger.warn(
      { chain: chain.name, address, block, reason, retryInMs: waitMs },
      "all answers about a block contradict themselves: its collection is in doubt",
    );
    observer.failed();
    const last = this.#streams.chain?.headers.get(fromBlock - 1);
    if (last === undefined || nextBlock(before) > last.number) return { followed, events: [event] };
    // Pages keep the blocks without a log up to here.
    const quiet = this.#streams.committed(before, [], nextBlock(before), last);
    return { followed, events: [quiet, event] };
  }

  async #revertEach(list: readonly FollowedCollection[], ancestor: BlockRef, rejoins = false): Promise<void> {
    const { chainVersion } = this.#streams;
    const event: NftEvent = { type: "BlocksReverted", ancestor, chainVersion, ...(rejoins ? { rejoins } : {}) };
    await this.#streams.appendAll(list.map((followed) => ({ followed, events: [event] })));
    for (const { address } of list) this.#options.flags.judgeShape(address);
  }

  /**
   * Repairs streams after a crash in the middle of a poll. A stream ahead of the chain's head is reverted to the head.
   * A stream that ends on an orphaned block is reverted to the final block, which all branches share, and joins again.
   */
  async #reconcile(chain: FollowedChain): Promise<void> {
    const { head, finalized } = chain;
    if (head === undefined || finalized === undefined) return;
    const astray: FollowedCollection[] = [];
    const ahead: FollowedCollection[] = [];
    for (const followed of [...this.#followed.values(), ...(await this.#joiningOn(chain.orphaned, head.number))]) {
      const { end, endHash } = followed.state;
      if (end <= finalized.number || endHash === "") continue;
      if (!isCanonical(chain, { number: end, hash: endHash })) astray.push(followed);
      else if (end > head.number) ahead.push(followed);
    }
    await this.#revertEach(ahead, head);
    await this.#revertEach(astray, finalized, true);
    for (const followed of astray) {
      this.#followed.delete(followed.address);
      this.#joining.add(followed);
    }
  }
}

/** Takes over what another writer recorded of a followed contract. Its blocks are written by the follower alone. */
function adopt(known: FollowedCollection, { version }: StreamHead, state: IndexState): void {
  if (version <= known.version || state.status !== "following" || state.end !== known.state.end) return;
  known.version = version;
  known.state = { ...known.state, ...describedIn(state), bytes: state.bytes };
}
