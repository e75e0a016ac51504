/**
 * Proves the owners of a collection by asking the contract itself on the operator's node: of a history that an archive
 * told, and where the self-audit found other owners. A holding that disagrees is followed to the block from which on it
 * does. If that block's receipts have other logs than the stream, the stream is wrong; if they have the same, the contract
 * contradicts its own logs.
 */
import type { ChainWork } from "../../chain/consumer.ts";
import type { PublishedChain } from "../../chain/view.ts";
import { Budget } from "../../core/budget.ts";
import { AppError, isAbort } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Lifecycle } from "../../core/lifecycle.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { runInSlices, yieldToEventLoop } from "../../core/turns.ts";
import type { Requester } from "../../core/work.ts";
import type { BlockRef, HistoryProven } from "../../events/types.ts";
import { ArchiveDisprovedError, type Archives } from "../../rpc/archive/archives.ts";
import type { CallResult } from "../../rpc/port.ts";
import { isHistoryPruned, isStateUnavailable } from "../../rpc/rpc-errors.ts";
import type { Collection } from "../collections/collection.ts";
import type { IndexState } from "../collections/headline.ts";
import { requesterOf } from "../collections/requests.ts";
import { NEWEST, readHistory } from "../ledger/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { wordsIn } from "./archive-doubts.ts";
import { knownTokens, sampleHoldings } from "./audit.ts";
import { type Claim, type Claims, claimsOf, ownerClaim } from "./claims.ts";
import { findUnexplained, firstStoredOtherwise, lastCompleteBlock } from "./omissions.ts";
import { askWitness, type Witnessed } from "./witnessed.ts";

/** Holdings that are all asked about: twenty calls through Multicall3. */
export const MAX_PROVEN = 10_000;
/** Holdings whose neighbours are looked for. */
const NEIGHBOURS = 20;
/** Holdings asked about where calls go alone. */
const WITHOUT_MULTICALL = 200;
export const CALLS_AT_ONCE = 500;
/** Such requests at the same time, of all collections. */
const ASKED_AT_ONCE = 4;
/** Claims that are followed to the block from which on the contract disagrees: 24 calls each on 14 million blocks. */
const MAX_FOLLOWED = 16;
/** Blocks of disagreeing tokens whose receipts are read, and transfers of one token that are looked through for them. */
const [MAX_TOLD_BLOCKS, MAX_TOLD_TRANSFERS] = [64, 10_000] as const;
/** Time in ms for the search of wrong blocks by old state. */
const SEARCH_MS = 30_000;
/** Attempts, while the node lacks the block or the replica is behind, and the wait between them. */
const ATTEMPTS = 5;
const RETRY_MS = 3_000;

/** What the contract confirmed, as it is recorded. */
type Proven = Pick<HistoryProven, "block" | "holdings" | "of" | "contradicted" | "witness"> & {
  readonly isComplete: boolean;
};

/**
 * The outcome of a proof: what to record; the block whose logs are wrong; why a contradiction can't be settled; or why the
 * owners could not be compared at all.
 */
export type Proof =
  | { readonly proven: Proven }
  | { readonly wrongAt: number }
  | { readonly undecided: string; readonly block: number }
  | { readonly unproven: string };

export interface ProofsOptions extends Pick<ChainWork, "chain" | "log" | "reader" | "clock" | "logger"> {
  readonly lifecycle: Lifecycle;
  readonly archives: Archives;
  readonly view: Pick<PublishedChain, "head" | "finalized">;
  /** The collection as the log has it now. */
  readonly collectionOf: (address: Address) => Promise<Collection>;
  /** The budget that a requester's calls are counted on. */
  readonly accountOf: (requester: Requester) => Budget;
  /** Called after an outcome that the follower should write soon. */
  readonly onFound: () => void;
}

export class HistoryProofs {
  readonly #options: ProofsOptions;
  readonly #running = new Set<Address>();
  #found = new Map<Address, Proof>();
  readonly #asking = new Semaphore(ASKED_AT_ONCE);

  constructor(options: ProofsOptions) {
    this.#options = options;
  }

  /** Returns the outcomes since the last call. */
  takeFound(): ReadonlyMap<Address, Proof> {
    const found = this.#found;
    this.#found = new Map();
    return found;
  }

  /** Proves the owners of a collection that has joined, in the background. */
  prove(address: Address, state: IndexState): void {
    const { lifecycle, logger, chain, clock, accountOf, onFound } = this.#options;
    if (this.#running.has(address) || this.#found.has(address)) return;
    this.#running.add(address);
    lifecycle.run(`owners of ${chain.name}/${address}`, async (signal) => {
      let why = "the replica or its node is behind";
      // The key that had the collection indexed pays for the proof, too.
      const spending = new Budget({ payer: accountOf(requesterOf(state)), signal });
      const seen: EarlierFindings = { contradictedAt: undefined, witnessed: undefined };
      try {
        for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
          const trying = spending.run(() => this.#attempt(address, state, seen, signal));
          const proof = await trying.catch((error: unknown) => {
            if (isAbort(error) || !(error instanceof AppError)) throw error;
            logger.debug({ err: error, chain: chain.name, address, attempt }, "owners could not be proven");
            why = error.message;
            return undefined;
          });
          if (proof !== undefined) {
            this.#found.set(address, proof);
            onFound();
            return;
          }
          await clock.sleep(RETRY_MS, signal);
        }
        const { contradictedAt: block } = seen;
        // Owners that only the node told and nothing contradicts need no proof.
        if (block === undefined && !isWholly(state)) return;
        this.#found.set(address, block === undefined ? { unproven: why } : { undecided: why, block });
        onFound();
      } finally {
        this.#running.delete(address);
      }
    });
  }

  async #attempt(
    address: Address,
    state: IndexState,
    seen: EarlierFindings,
    signal: AbortSignal,
  ): Promise<Proof | undefined> {
    const { chain, reader, view, collectionOf, clock, log } = this.#options;
    const collection = await collectionOf(address);
    const head = view.head();
    if (head === undefined || collection.status !== "synced") return undefined;
    const block = { number: head.number, hash: head.hash };
    const claims = await claimsOf(collection, address, block.number, {
      most: chain.multicall3 === undefined ? WITHOUT_MULTICALL : isWholly(state) ? MAX_PROVEN : CALLS_AT_ONCE,
      isCounted: isWholly(state),
      random: () => clock.random(),
    });
    const [compared, missing] = await Promise.all([
      this.#compare(claims, block),
      this.#missing(address, collection, block),
    ]);
    const forms = collection.identified?.forms ?? state.forms;
    const stored = { reader, log, chainId: chain.chainId, address, forms };
    const { isAsked, wrongHoldings } = compared;
    // A transfer from a holder that had nothing shows that another one is missing.
    const range = collection.ledger.missingTransferRange;
    const isMissing = range !== undefined && range.toBlock <= state.end;
    const isMiscounted = compared.isCounting && compared.wrongCounts.length > 0;
    const isDenied = isMiscounted || wrongHoldings.length + compared.wrongUnlogged.length > 0 || missing !== undefined;
    // Whatever fails from here on, the contradiction was seen.
    if (isMissing || isDenied) seen.contradictedAt = block.number;
    if (isMissing) {
      const last = await lastCompleteBlock(stored, range);
      if (last !== undefined) return { wrongAt: last.number + 1 };
    }
    const witnessed = await this.#witness(stored, state, seen, signal);
    if (typeof witnessed === "object") return { ...witnessed, block: block.number };
    if (typeof witnessed === "number") return { wrongAt: witnessed };
    const wrongAt = await this.#inTime(signal, () =>
      this.#wrongAt(collection, compared, { stored, missing, state, head: block }),
    );
    if (typeof wrongAt === "number") return { wrongAt };
    if (wrongAt !== undefined) {
      seen.contradictedAt = block.number;
      // The newest blocks can be compared with their receipts, whichever token is missing.
      const newest = { fromBlock: state.startBlock, toBlock: block.number };
      const last = await lastCompleteBlock(stored, newest).catch((error: unknown) => {
        if (isHistoryPruned(error)) return undefined;
        throw error;
      });
      return last === undefined ? { ...wrongAt, block: block.number } : { wrongAt: last.number + 1 };
    }
    const contradicted = wrongHoldings.length + compared.wrongUnlogged.length;
    const holdings = isAsked ? claims.holdings.length - wrongHoldings.length : 0;
    // Counts that agree show how many tokens there are. Which ones, only the owners of all of them show.
    const isComplete = compared.isCounted && holdings === claims.of && contradicted === 0;
    const witness = witnessed === undefined ? {} : { witness: witnessed };
    return { proven: { block: block.number, holdings, of: claims.of, contradicted, isComplete, ...witness } };
  }

  /**
   * Compares what archives told with a second one. Returns the second one's label if it tells the same of all of it; the
   * first block that is stored wrong if the receipts say so; `undecided` if the node can't tell which of them is wrong.
   * Undefined without a second archive, or if that one is wrong or has only a part.
   */
  async #witness(
    stored: DifferingClaims["stored"],
    { archives: told, archivedTo, distrusted, startBlock }: IndexState,
    seen: EarlierFindings,
    signal: AbortSignal,
  ): Promise<string | number | { readonly undecided: string } | undefined> {
    const { archives, view } = this.#options;
    const final = view.finalized();
    if (told === "" || final === undefined) return undefined;
    const others = [...wordsIn(told), ...wordsIn(distrusted)];
    const range = { fromBlock: startBlock, toBlock: archivedTo ?? final.number };
    // The archive is not asked for the whole history again by each attempt.
    seen.witnessed ??= await askWitness({ ...stored, archives, others, signal }, range);
    if (seen.witnessed === undefined) return undefined;
    const { witness, differsAt, isWhole } = seen.witnessed;
    if (differsAt === undefined) return isWhole ? witness.label : undefined;
    const forged = await this.#firstForged(stored, [differsAt], final);
    if (forged !== undefined && forged !== "unread") return differsAt;
    const why = `two archives tell different logs of block ${differsAt}, and no endpoint has its receipts`;
    if (forged === "unread") return { undecided: why };
    archives.rest(witness, new ArchiveDisprovedError(witness.label, differsAt, true));
    return undefined;
  }

  /** Asks the contract for all claims at a block. */
  async #compare({ holdings, unlogged, counts, supply }: Claims, block: BlockRef): Promise<Compared> {
    const asked = supply === undefined ? [] : [supply];
    const [owned, counted, total] = await Promise.all([
      this.#differing([...holdings, ...unlogged], block),
      this.#differing(counts, block),
      this.#differing(asked, block),
    ]);
    // A contract without the view answers none.
    const isAsked = owned.results.some((result) => result.ok && result.data.length === 66);
    const wrong = new Set(isAsked ? owned.claims : []);
    const wrongUnlogged = unlogged.filter((claim) => wrong.has(claim));
    const answered = counts.filter((claim, at) => claim.says(counted.results[at]) !== undefined).length;
    const isSupplied = supply !== undefined && supply.says(total.results[0]) !== undefined;
    return {
      isAsked,
      wrongHoldings: holdings.filter((claim) => wrong.has(claim)),
      // A contract that names an owner for every number is not believed about ids without a log.
      wrongUnlogged: wrongUnlogged.length < unlogged.length ? wrongUnlogged : [],
      wrongCounts: counted.claims,
      // One that disagrees about most owners counts something else than tokens.
      isCounting: 2 * counted.claims.length < answered,
      wrongSupply: total.claims,
      isCounted: isSupplied && total.claims.length === 0 && counted.claims.length === 0,
    };
  }

  /** Asks for claims. Returns the answers, and the claims that the contract answers otherwise. */
  async #differing(
    claims: readonly Claim[],
    block: BlockRef,
  ): Promise<{ readonly results: readonly CallResult[]; readonly claims: readonly Claim[] }> {
    const ask = async (some: readonly Claim[]): Promise<readonly CallResult[]> => {
      const calls = some.map(({ call }) => call);
      return this.#asking.run(async () => (await this.#options.reader.callsAtBlock(calls, block)).results);
    };
    const parts = Array.from({ length: Math.ceil(claims.length / CALLS_AT_ONCE) }, (_, part) =>
      claims.slice(part * CALLS_AT_ONCE, (part + 1) * CALLS_AT_ONCE),
    );
    const results = (await Promise.all(parts.map(ask))).flat();
    const differing: Claim[] = [];
    for (const [at, claim] of claims.entries()) {
      if (at % CALLS_AT_ONCE === CALLS_AT_ONCE - 1) await yieldToEventLoop();
      const said = claim.says(results[at]);
      if (said !== undefined && !claim.isSaid(said, await claim.logged(block.number))) differing.push(claim);
    }
    return { results, claims: differing };
  }

  /**
   * Returns the first block that is stored wrong, as differing claims show; `undecided` if something differs and neither a
   * wrong block nor the contract's own contradiction explains it. The cases are: 1) a block with a told log of a differing
   * token has other logs in its receipts; 2) old state shows the block from which on a claim differs, and its receipts have
   * other logs; 3) they have the same logs, and the contract contradicts itself; 4) no node has that state.
   */
  async #wrongAt(
    { ledger }: Collection,
    { wrongHoldings, wrongUnlogged, wrongCounts, wrongSupply, isCounting }: Compared,
    { stored, missing, state, head }: DifferingClaims,
  ): Promise<number | { readonly undecided: string } | undefined> {
    const forged = await this.#firstForged(stored, await toldBlocks(ledger, wrongHoldings, head.number), head);
    if (typeof forged === "number") return forged;
    const decisive = [...wrongHoldings.slice(0, MAX_FOLLOWED), ...wrongUnlogged.slice(0, MAX_FOLLOWED)];
    if (missing !== undefined) decisive.push(missing);
    const counts = wrongCounts.slice(0, MAX_FOLLOWED);
    if (isCounting) decisive.push(...counts);
    const isWrongAt = async (at: number) => {
      const found = await this.#firstForged(stored, [at], head);
      return found === "unread" ? undefined : found !== undefined;
    };
    const own = await this.#firstWrong(decisive, state.startBlock, head, isWrongAt);
    if (own.wrongAt !== undefined) return own.wrongAt;
    // These prove nothing by themselves: many contracts count otherwise.
    const others = [...wrongSupply, ...(isCounting ? [] : counts)];
    const other = await this.#firstWrong(others, state.startBlock, head, isWrongAt);
    if (other.wrongAt !== undefined) return other.wrongAt;
    if (own.lost === undefined) return undefined;
    return {
      undecided: `no endpoint has the state or the receipts of block ${own.lost} or before, which tell the difference`,
    };
  }

  /**
   * Like `firstStoredOtherwise`. `unread` if none of the blocks that the node has is wrong, and it has pruned the others.
   */
  async #firstForged(
    stored: DifferingClaims["stored"],
    blocks: readonly number[],
    head: BlockRef,
  ): Promise<number | "unread" | undefined> {
    try {
      return await firstStoredOtherwise(stored, blocks);
    } catch (error) {
      if (!isHistoryPruned(error)) throw error;
      const from = await this.#options.reader.receiptsStart(head.number);
      const there = blocks.filter((block) => block >= from);
      return (await firstStoredOtherwise(stored, there)) ?? "unread";
    }
  }

  /** Runs the search for a wrong block. A node that doesn't answer about old blocks leaves the owners in doubt. */
  async #inTime<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T | { readonly undecided: string }> {
    const over = new AbortController();
    const cancel = this.#options.clock.after(SEARCH_MS, () => over.abort(new DOMException("too late", "AbortError")));
    try {
      return await new Budget({ payer: Budget.current, signal: AbortSignal.any([signal, over.signal]) }).run(work);
    } catch (error) {
      if (!over.signal.aborted) throw error;
      return { undecided: `no endpoint told the state of old blocks within ${SEARCH_MS / 1_000} seconds` };
    } finally {
      cancel();
    }
  }

  /**
   * Returns the first block that is stored wrong, as these claims show. `lost` is the lowest block with a difference that
   * begins before the nodes' state.
   */
  async #firstWrong(
    claims: readonly Claim[],
    start: number,
    head: BlockRef,
    isWrongAt: (block: number) => Promise<boolean | undefined>,
  ): Promise<{ readonly wrongAt: number | undefined; readonly lost: number | undefined }> {
    let [wrongAt, lost]: (number | undefined)[] = [];
    for (const claim of claims) {
      const end: number = wrongAt === undefined ? head.number : wrongAt - 1;
      const result = wrongAt === undefined ? undefined : await this.#stateAt(claim, end);
      if (wrongAt !== undefined && (result === undefined || (await isAgreed(claim, result, end)))) continue;
      const { at, known } = await this.#firstDifference(claim, start, end);
      const isWrong = at === undefined ? undefined : await isWrongAt(at);
      if (isWrong === undefined) lost = Math.min(lost ?? known, known);
      else if (isWrong) wrongAt = at;
    }
    return { wrongAt, lost };
  }

  /**
   * Searches for the first block at which contract and log disagree, between the start, before which both had nothing,
   * and a block with a difference. `at` is undefined if the node lacks the state to tell, and `known` is the lowest block with a difference.
   */
  async #firstDifference(
    claim: Claim,
    start: number,
    end: number,
  ): Promise<{ readonly at: number | undefined; readonly known: number }> {
    let [agrees, differs] = [Math.max(-1, start - 1), end];
    let hasState = true;
    while (differs - agrees > 1) {
      const middle = Math.floor((agrees + differs) / 2);
      const result = await this.#stateAt(claim, middle);
      if (result === undefined) [agrees, hasState] = [middle, false];
      else if (await isAgreed(claim, result, middle)) [agrees, hasState] = [middle, true];
      else differs = middle;
    }
    return { at: hasState ? differs : undefined, known: differs };
  }

  /** The contract's answer at a block; undefined if no node has that state. */
  async #stateAt({ call }: Claim, block: number): Promise<CallResult | undefined> {
    try {
      return (await this.#options.reader.calls([call], block))[0];
    } catch (error) {
      if (isStateUnavailable(error)) return undefined;
      throw error;
    }
  }

  /** A token that the contract has and no log explains; undefined if none was found. */
  async #missing(address: Address, collection: Collection, block: BlockRef): Promise<Claim | undefined> {
    const { reader, clock } = this.#options;
    const random = () => clock.random();
    const holdings = sampleHoldings(collection, block.number, { count: NEIGHBOURS, random });
    const known = knownTokens(collection, block.number, holdings);
    if (known === undefined) return undefined;
    const { tokens } = await findUnexplained({ reader, address, block: block.number, random }, known);
    const [first] = tokens;
    return first && ownerClaim(collection.ledger, address, { kind: known.kind, id: first.id });
  }
}

/** True if a contract's answer agrees with the log. A count that it doesn't answer yet is that of no tokens. */
const isAgreed = async (claim: Claim, result: CallResult | undefined, block: number): Promise<boolean> =>
  claim.isSaid(claim.says(result) ?? 0n, await claim.logged(block));

/** What the attempts of a proof have seen. */
interface EarlierFindings {
  /** Block at which the contract contradicted the log. */
  contradictedAt: number | undefined;
  witnessed: Witnessed | undefined;
}

/** What a contract's answers show of the claims. */
interface Compared {
  /** True if it answered any claim about a holding. */
  readonly isAsked: boolean;
  readonly wrongHoldings: readonly Claim[];
  readonly wrongUnlogged: readonly Claim[];
  readonly wrongCounts: readonly Claim[];
  /** True if its numbers of tokens are believed. */
  readonly isCounting: boolean;
  readonly wrongSupply: readonly Claim[];
  /** True if it counts as many tokens as the log has. */
  readonly isCounted: boolean;
}

/** What is needed to follow differing claims to their block. */
interface DifferingClaims {
  readonly stored: Parameters<typeof firstStoredOtherwise>[0];
  readonly missing: Claim | undefined;
  readonly state: IndexState;
  readonly head: BlockRef;
}

/** True if all owners are asked for: an archive told them, or some are known to be others. */
const isWholly = ({ archives, ownersDoubtBlock }: IndexState): boolean => archives !== "" || ownersDoubtBlock !== null;

/** The blocks that hold the told transfers of the claims' tokens, in rising order. */
async function toldBlocks(ledger: Ledger, claims: readonly Claim[], block: number): Promise<number[]> {
  const blocks = new Set<number>();
  for (const { token } of claims) {
    if (token === undefined) continue;
    const limits = { block, from: NEWEST, limit: MAX_TOLD_TRANSFERS };
    const { transfers } = await runInSlices(readHistory(ledger, token, limits));
    for (const { block: at, from, to } of transfers) {
      if (token.owner === undefined || token.owner === from || token.owner === to) blocks.add(at);
      if (blocks.size === MAX_TOLD_BLOCKS) return [...blocks].sort((a, b) => a - b);
    }
  }
  return [...blocks].sort((a, b) => a - b);
}
