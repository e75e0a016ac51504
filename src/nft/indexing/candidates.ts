/**
 * Contracts that keys of scope `read` request and that the log doesn't know, or knows as no NFT. In: an address. Out: a
 * request in the log if there is something to index, else a verdict that stays in memory. Each key has its share of the
 * work, and nothing is written for an address without code and logs.
 */

import type { ChainWork } from "../../chain/consumer.ts";
import { Budget } from "../../core/budget.ts";
import { backoffMs, withTimeout } from "../../core/clock.ts";
import { countedCache } from "../../core/counted-cache.ts";
import { isAbort, messageOf, Refusal } from "../../core/errors.ts";
import { type Address, SYSTEM_ADDRESS } from "../../core/hex.ts";
import type { Lifecycle } from "../../core/lifecycle.ts";
import { Lane, type Requester, type Shares } from "../../core/work.ts";
import { nftStream } from "../../events/types.ts";
import type { Archives } from "../../rpc/archive/archives.ts";
import { NEVER_EMPTY } from "../../rpc/reading/many-calls.ts";
import { fromHeadline } from "../collections/headline.ts";
import { type ContractRef, requestIdentification, requestIndexing } from "../collections/requests.ts";
import { addressesTold } from "./first-told.ts";
import { identify, nextLogs } from "./identify.ts";
import { firstDelegations, isContract } from "./lives.ts";

/** The result of a look: neither code nor an NFT log, or code and still no NFT. */
export type Verdict = "not_a_contract" | "not_nft";

/** A failed attempt, and the next one in ms since the epoch. */
export interface Delay {
  readonly reason: string;
  readonly retryAt: number;
}

export interface CandidatesOptions extends Pick<ChainWork, "chain" | "log" | "reader" | "clock" | "logger"> {
  readonly lifecycle: Lifecycle;
  readonly archives: Archives;
  /** The account of a key's calls. */
  readonly accountOf: (requester: Requester) => Budget;
  /** Called when a requested address turned out to be no contract, which the log doesn't record. */
  readonly onVerdict: (address: Address, verdict: Verdict) => void;
  /** Called when an address could not be looked at, with the reason and the time of the next attempt. */
  readonly onDelayed: (address: Address, delay: Delay) => void;
  /** Age from which a verdict is checked again, in ms. */
  readonly staleMs: number;
}

/** An address that waits for its verdict. */
interface Candidate {
  /** Version of the stream that says that the contract is no NFT; 0 for an address that the log doesn't know. */
  readonly version: number;
  readonly hasCode: boolean;
}

/** Verdicts in memory: 50,000 of 200 bytes are 10 MB. An address whose verdict was dropped is looked at again. */
const MAX_VERDICTS = 50_000;
/** Addresses of one key that may wait. The quota of a key is far below. */
const MAX_WAITING = 2_000;
/** Addresses per look: one batch of requests. And addresses per search: one filter. */
const CODE_READS_AT_ONCE = 100;
/** A key has one look, one identification and one search under way. What arrives meanwhile shares the next one. */
const CODE_READS: Shares = { places: 4, perKey: 1, forOperators: 0 };
const IDENTIFICATIONS: Shares = { places: 2, perKey: 1, forOperators: 0 };
const SEARCHES: Shares = { places: 1, perKey: 1, forOperators: 0 };
/** A search serves a hundred addresses as well as one. */
const GATHER_MS = 250;
/** After each answer a search waits this many times as long: it takes a quarter of one request at a time. */
const REST = 3;
/** Time after which a look counts as failed for good: a silent node may take half a minute to fail. */
const LOOK_MS = 6_000;
/** Failures in a row after which addresses are recorded unseen. */
const FAILED_CODE_READS = 2;
const [RETRY_BASE_MS, RETRY_MAX_MS] = [1_000, 60_000];

/** One kind of work on waiting addresses. */
interface StageOptions {
  readonly shares: Shares;
  /** Most addresses of a key in one run. */
  readonly atOnce: number;
  /** Wait for further addresses of the same key. */
  readonly gatherMs: number;
  readonly work: (addresses: readonly Address[], requester: Requester, signal: AbortSignal) => Promise<void>;
}

type Stage = Lane<Address>;

interface StageRun {
  readonly addresses: readonly Address[];
  readonly requester: Requester;
  readonly signal: AbortSignal;
}

interface CandidateSearch {
  /** True if all of the addresses have sent transactions. */
  readonly isOfAccounts: boolean;
  readonly requester: Requester;
  readonly signal: AbortSignal;
}

export class Candidates {
  readonly #options: CandidatesOptions;
  readonly #waiting = new Map<Address, Candidate>();
  readonly #verdicts = countedCache<Address, { readonly verdict: Verdict; readonly atMs: number }>(MAX_VERDICTS);
  readonly #codeReads: Stage;
  readonly #identifications: Stage;
  readonly #searches: Stage;
  readonly #accountSearches: Stage;
  /** Failures in a row. */
  #failures = 0;

  constructor(options: CandidatesOptions) {
    this.#options = options;
    this.#codeReads = this.#stage({
      ...{ shares: CODE_READS, atOnce: CODE_READS_AT_ONCE, gatherMs: 0 },
      work: (addresses, requester) => this.#readCode(addresses, requester),
    });
    this.#identifications = this.#stage({
      ...{ shares: IDENTIFICATIONS, atOnce: 1, gatherMs: 0 },
      work: ([address], requester, signal) => this.#identify(address as Address, requester, signal),
    });
    const searches = (isOfAccounts: boolean) =>
      this.#stage({
        ...{ shares: SEARCHES, atOnce: CODE_READS_AT_ONCE, gatherMs: GATHER_MS },
        work: (addresses, requester, signal) => this.#search(addresses, { isOfAccounts, requester, signal }),
      });
    this.#searches = searches(false);
    this.#accountSearches = searches(true);
  }

  #stage(stage: StageOptions): Stage {
    const { lifecycle, chain, clock } = this.#options;
    const { shares, atOnce, gatherMs } = stage;
    const lane: Stage = new Lane({
      shares,
      isStopping: () => lifecycle.stopping,
      start: (address, requester) =>
        lifecycle.run(`new contracts of ${chain.name}`, async (signal) => {
          if (gatherMs > 0) await clock.sleep(gatherMs, signal);
          const addresses = [address, ...lane.takeMore(requester, atOnce - 1)];
          await this.#work(lane, stage, { addresses, requester, signal });
        }),
    });
    return lane;
  }

  /**
   * Has an address looked at, unless it waits already or a verdict is young. Returns the last verdict.
   * @param onNew called before an address is taken in; what it throws refuses the address
   * @throws Refusal `rate_limited` if too many addresses of the key wait
   */
  request(address: Address, requester: Requester, known: Candidate, onNew: () => void): Verdict | undefined {
    // What emits the transfers of ether is no contract on any chain.
    if (address === SYSTEM_ADDRESS) return "not_a_contract";
    const { clock, staleMs } = this.#options;
    const last = this.#verdicts.get(address);
    const isYoung = last !== undefined && clock.now() - last.atMs < staleMs;
    if (isYoung || this.#waiting.has(address)) return last?.verdict;
    const waiting = [this.#codeReads, this.#identifications, this.#searches, this.#accountSearches];
    if (waiting.reduce((sum, stage) => sum + stage.count(requester), 0) >= MAX_WAITING) {
      const text = `${MAX_WAITING} new addresses of this key wait to be looked at already; try again later`;
      throw new Refusal("rate_limited", text, { retryAfter: 60 });
    }
    onNew();
    this.#waiting.set(address, known);
    this.#enqueue(known.hasCode ? this.#identifications : this.#codeReads, [address], requester);
    return last?.verdict;
  }

  #enqueue(stage: Stage, addresses: readonly Address[], requester: Requester): void {
    for (const address of addresses) stage.add(address, requester);
  }

  /** Runs the work of a stage. After a failure its addresses wait for another turn. */
  async #work(stage: Stage, { work: start }: StageOptions, { addresses, requester, signal }: StageRun): Promise<void> {
    const { accountOf, clock, logger, chain } = this.#options;
    try {
      const work = new Budget({ payer: accountOf(requester) }).run(() => start(addresses, requester, signal));
      if (stage !== this.#codeReads) await work;
      else if ((await withTimeout(clock, LOOK_MS, work)) === undefined) {
        work.catch(() => undefined);
        return await this.#recordUnseen(addresses, requester);
      }
      this.#failures = 0;
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      const wait = backoffMs(clock, Math.min(++this.#failures, 16), RETRY_BASE_MS, RETRY_MAX_MS);
      const meta = { chain: chain.name, addresses: addresses.length, retryInMs: Math.round(wait) };
      logger.debug({ err: error, ...meta }, "new contracts could not be looked at");
      if (stage === this.#codeReads && this.#failures >= FAILED_CODE_READS) {
        await this.#recordUnseen(addresses, requester).catch((failure: unknown) => {
          logger.debug({ err: failure, ...meta }, "new contracts could not be recorded");
        });
      }
      // Those with a result meanwhile are not looked at again.
      const open = addresses.filter((address) => this.#waiting.has(address));
      if (open.length === 0) return;
      const delay = { reason: messageOf(error), retryAt: clock.now() + wait };
      for (const address of open) this.#options.onDelayed(address, delay);
      await clock.sleep(wait, signal).catch(() => undefined);
      this.#enqueue(stage, open, requester);
    }
  }

  /** The node of another process may answer. The quota of the key bounds what is recorded. */
  async #recordUnseen(addresses: readonly Address[], requester: Requester): Promise<void> {
    for (const address of addresses) if (this.#waiting.has(address)) await this.#found(address, requester);
  }

  /**
   * Asks for code, and for the number of transactions where there is none, each in one batch. A destroyed contract has
   * sent none. An account that has sent some emits logs only through a delegate.
   */
  async #readCode(addresses: readonly Address[], requester: Requester): Promise<void> {
    const { reader } = this.#options;
    // An endpoint without state says of each address that it has no code, but it runs no call either.
    const { header } = await reader.callsAtHead([NEVER_EMPTY]);
    let without = await this.#withoutCode(addresses, requester);
    // An endpoint that is behind lacks a young contract.
    if (without.length > 0 && (await reader.benchLaggards(header))) {
      without = await this.#withoutCode(without, requester);
    }
    const counts = await Promise.all(without.map((address) => reader.transactionCount(address)));
    const maybeDestroyed = without.filter((_, index) => counts[index] === 0);
    const accounts = without.filter((_, index) => counts[index] !== 0);
    this.#enqueue(this.#searches, maybeDestroyed, requester);
    this.#enqueue(this.#accountSearches, accounts, requester);
  }

  /** Requests the indexing of the addresses with code. Returns the others. */
  async #withoutCode(addresses: readonly Address[], requester: Requester): Promise<Address[]> {
    const codes = await Promise.all(addresses.map((address) => this.#options.reader.code(address, "latest")));
    const found = addresses.filter((_, index) => isContract(codes[index] ?? "0x"));
    for (const address of found) await this.#found(address, requester);
    return addresses.filter((address) => !found.includes(address));
  }

  /** Searches the history for NFT logs of contracts that may be destroyed, or of accounts that may have had a delegate. */
  async #search(addresses: readonly Address[], { isOfAccounts, requester, signal }: CandidateSearch): Promise<void> {
    const { reader, archives, clock } = this.#options;
    const { head, finalized } = await reader.tips();
    const search = reader.logSearch();
    const fromBlock = isOfAccounts ? await firstDelegations(reader, head) : 0;
    const told = await addressesTold(archives, { addresses, fromBlock, toBlock: finalized.number }, signal);
    for (const address of told.found) await this.#found(address, requester);
    let left = addresses.filter((address) => this.#waiting.has(address));
    // One archive's word that there are no logs is none: the node searches all blocks itself.
    for (let from = Math.max(fromBlock, told.through + 1); from <= head.number && left.length > 0; ) {
      signal.throwIfAborted();
      const begun = clock.monotonic();
      const blocks = { fromBlock: from, toBlock: head.number, head, final: finalized.number };
      const read = await nextLogs(search, { ...blocks, addresses: left, onlyCertain: false }, signal);
      for (const address of new Set(read.logs.map((log) => log.address))) await this.#found(address, requester);
      left = left.filter((address) => this.#waiting.has(address));
      from = read.toBlock + 1;
      if (from <= head.number) await clock.sleep((clock.monotonic() - begun) * REST, signal);
    }
    for (const address of left) this.#decide(address, "not_a_contract");
  }

  /** Identifies a contract that was no NFT. Writes only if it is one by now. */
  async #identify(address: Address, requester: Requester, signal: AbortSignal): Promise<void> {
    const { log, reader, archives, chain } = this.#options;
    const known = fromHeadline((await log.head(nftStream(chain.chainId, address))).headline);
    // A search of the whole history is recorded, so that it goes on after a restart.
    const reach = known.searched === null ? "first blocks" : "all";
    const kind = (await identify(reader, address, { reach, known, archives, signal }))?.identified.kind;
    if (kind === undefined || kind === "nft") await this.#found(address, requester);
    else this.#decide(address, kind);
  }

  /** Records the request in the log, from which the jobs take it. */
  async #found(address: Address, requester: Requester): Promise<void> {
    const { log, clock, chain } = this.#options;
    const contract: ContractRef = { chainId: chain.chainId, address };
    const waiting = this.#waiting.get(address);
    if (waiting === undefined) return;
    const { version } = waiting;
    if (version === 0) await requestIndexing({ log, clock }, contract, requester);
    else await requestIdentification({ log, clock }, contract, version, requester);
    this.#waiting.delete(address);
    this.#verdicts.delete(address);
  }

  #decide(address: Address, verdict: Verdict): void {
    // It was recorded meanwhile, because the node took too long.
    if (!this.#waiting.delete(address)) return;
    this.#verdicts.set(address, { verdict, atMs: this.#options.clock.now() });
    this.#options.onVerdict(address, verdict);
  }
}
