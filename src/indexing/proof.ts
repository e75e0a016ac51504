/**
 * Proves the owners of a collection by asking the contract itself on the operator's node: of a history that an archive
 * told, and where the self-audit found other owners. A holding that disagrees is followed to the block from which on it
 * does. If that block's receipts have other logs than the stream, the stream is wrong; if they have the same, the contract
 * contradicts its own logs.
 */
import type { ChainWork } from "../chain/consumer.ts";
import type { PublishedChain } from "../chain/view.ts";
import type { Collection } from "../collections/collection.ts";
import type { IndexState } from "../collections/headline.ts";
import { yieldToEventLoop } from "../core/background.ts";
import { AppError, isAbort } from "../core/errors.ts";
import { type Address, ZERO_ADDRESS } from "../core/hex.ts";
import type { Lifecycle } from "../core/lifecycle.ts";
import { hasAmounts, TransferKind } from "../events/columns.ts";
import type { BlockRange, BlockRef, HistoryProven } from "../events/types.ts";
import { entryOfToken } from "../ledger/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { countEntries, readSlice } from "../ledger/listing.ts";
import { type Position, START } from "../ledger/rows.ts";
import type { Slot } from "../ledger/tables.ts";
import { addressIn, wordIn } from "../rpc/calls.ts";
import type { Call, CallResult } from "../rpc/port.ts";
import { isStateUnavailable } from "../rpc/rpc-errors.ts";
import { callOf, type Holding, knownTokens, sampleHoldings } from "./audit.ts";
import {
  DEAD,
  findUnexplained,
  isStoredOtherwise,
  lastCompleteBlock,
  ownerCall,
  type SingleKind,
} from "./omissions.ts";

/** Holdings that are all asked about: twenty calls through Multicall3. */
export const MAX_PROVEN = 10_000;
/** Holdings whose neighbours are looked for. */
const NEIGHBOURS = 20;
/** Holdings drawn from a larger collection, and holdings asked about where calls go alone. */
const SAMPLED_HOLDINGS = 2_000;
const WITHOUT_MULTICALL = 200;
export const CALLS_AT_ONCE = 500;
const HOLDINGS_AT_ONCE = 1_000;
/** Disagreeing holdings that are followed to their block: 24 calls each on a chain of 14 million blocks. */
const MAX_FOLLOWED = 8;
/** Attempts, while the node lacks the block or the replica is behind, and the wait between them. */
const ATTEMPTS = 5;
const RETRY_MS = 3_000;

/** A fact about a token that the contract can be asked for: its owner, or a balance, as a number. */
interface Claim {
  readonly call: Call;
  /** What the contract's answer says. */
  readonly says: (result: CallResult | undefined) => bigint;
  /** What the log says as of a block. */
  readonly logged: (block: number) => bigint;
  /** True for an id that no log has. */
  readonly isUnlogged?: boolean;
}

/** The outcome of a proof: what to record, the block whose logs are wrong, or why neither is known. */
export type Proof =
  | { readonly proven: Pick<HistoryProven, "block" | "holdings" | "of" | "contradicted"> }
  | { readonly wrongAt: number }
  | { readonly undecided: string };

export interface ProofsOptions extends Pick<ChainWork, "chain" | "log" | "reader" | "clock" | "logger"> {
  readonly lifecycle: Lifecycle;
  readonly view: Pick<PublishedChain, "head" | "version">;
  /** The collection as the log has it now. */
  readonly collectionOf: (address: Address) => Promise<Collection>;
  /** Called after an outcome that the follower should write soon. */
  readonly onFound: () => void;
}

export class HistoryProofs {
  readonly #options: ProofsOptions;
  readonly #running = new Set<Address>();
  #found = new Map<Address, Proof>();

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
    const { lifecycle, logger, chain, clock, onFound } = this.#options;
    if (this.#running.has(address) || this.#found.has(address)) return;
    this.#running.add(address);
    lifecycle.run(`owners of ${chain.name}/${address}`, async (signal) => {
      let why = "the replica or its node is behind";
      try {
        for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
          const proof = await this.#attempt(address, state).catch((error: unknown) => {
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
        if (state.ownersDoubtBlock === null) return;
        this.#found.set(address, { undecided: why });
        onFound();
      } finally {
        this.#running.delete(address);
      }
    });
  }

  async #attempt(address: Address, state: IndexState): Promise<Proof | undefined> {
    const { chain, reader, view, collectionOf, clock, log } = this.#options;
    const collection = await collectionOf(address);
    const head = view.head();
    const isShown = collection.status === "synced" && collection.chainVersion <= view.version;
    if (head === undefined || !isShown) return undefined;
    const block = { number: head.number, hash: head.hash };
    const random = () => clock.random();
    const { claims, of } = await claimsOf(collection, address, block.number, {
      most: chain.multicall3 === undefined ? WITHOUT_MULTICALL : isWholly(state) ? MAX_PROVEN : CALLS_AT_ONCE,
      random,
    });
    const results = await this.#ask(claims, block);
    // A contract without the view answers none.
    const isAsked = results.some((result) => result.ok && result.data.length === 66);
    const isWrong = (claim: Claim, at: number) => isAsked && claim.says(results[at]) !== claim.logged(block.number);
    // A contract that names an owner for every number is not believed about ids without a log.
    const isUsable = claims.some((claim, at) => claim.isUnlogged === true && !isWrong(claim, at));
    const differing = claims.filter((claim, at) => isWrong(claim, at) && (isUsable || claim.isUnlogged !== true));
    const contradicted = differing.length;
    const own = claims.filter(({ isUnlogged }) => isUnlogged !== true).length;
    const forms = collection.identified?.forms ?? state.forms;
    const stored = { reader, log, chainId: chain.chainId, address, forms };
    // A transfer from a holder that had nothing shows that another one is missing.
    const range = collection.ledger.missingTransferRange;
    if (range !== undefined && range.toBlock <= state.end) {
      const last = await lastCompleteBlock(stored, range);
      if (last !== undefined) return { wrongAt: last.number + 1 };
    }
    const missing = await this.#missing(address, collection, block);
    const followed = [...differing.slice(0, MAX_FOLLOWED), ...(missing === undefined ? [] : [missing])];
    const { wrongAt, lost } = await this.#firstWrong(followed, state.startBlock, block, (at) =>
      isStoredOtherwise(stored, at),
    );
    if (wrongAt !== undefined) return { wrongAt };
    if (lost !== undefined && state.ownersDoubtBlock !== null) {
      // Without old state, the newest blocks are compared with their receipts. Older ones can't be told.
      const last = await lastCompleteBlock(stored, { fromBlock: state.startBlock, toBlock: block.number });
      if (last !== undefined) return { wrongAt: last.number + 1 };
      return { undecided: `no endpoint has the state before block ${lost}, which tells the block of the difference` };
    }
    const holdings = isAsked ? Math.max(0, own - contradicted) : 0;
    return { proven: { block: block.number, holdings, of, contradicted } };
  }

  /**
   * Returns the first block that is stored wrong, as these claims show. `lost` is the lowest block with a difference that
   * begins before the nodes' state.
   */
  async #firstWrong(
    claims: readonly Claim[],
    start: number,
    head: BlockRef,
    isWrongAt: (block: number) => Promise<boolean>,
  ): Promise<{ readonly wrongAt: number | undefined; readonly lost: number | undefined }> {
    let [wrongAt, lost]: (number | undefined)[] = [];
    for (const claim of claims) {
      const end: number = wrongAt === undefined ? head.number : wrongAt - 1;
      const result = wrongAt === undefined ? undefined : await this.#stateAt(claim, end);
      if (wrongAt !== undefined && (result === undefined || claim.says(result) === claim.logged(end))) continue;
      const { at, known } = await this.#firstDifference(claim, start, end);
      if (at === undefined) lost = Math.min(lost ?? known, known);
      else if (await isWrongAt(at)) wrongAt = at;
    }
    return { wrongAt, lost };
  }

  async #ask(claims: readonly Claim[], block: BlockRef): Promise<CallResult[]> {
    const results: CallResult[] = [];
    for (let at = 0; at < claims.length; at += CALLS_AT_ONCE) {
      const calls = claims.slice(at, at + CALLS_AT_ONCE).map(({ call }) => call);
      for (const result of (await this.#options.reader.callsAtBlock(calls, block)).results) results.push(result);
    }
    return results;
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
      else if (claim.says(result) === claim.logged(middle)) [agrees, hasState] = [middle, true];
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

/** True if all owners are asked for: an archive told them, or some are known to be others. */
const isWholly = ({ archives, ownersDoubtBlock }: IndexState): boolean => archives !== "" || ownersDoubtBlock !== null;

/** All holdings of a collection at a block and its burned tokens, or a sample of the holdings, and how many there are. */
async function claimsOf(
  collection: Collection,
  address: Address,
  block: number,
  { most, random }: { readonly most: number; readonly random: () => number },
): Promise<{ readonly claims: readonly Claim[]; readonly of: number }> {
  const { ledger } = collection;
  const { balances, tokens } = ledger;
  let of = countEntries(ledger, block, false);
  for (let one = balances.nextHolding(0); one < balances.count; one = balances.nextHolding(one + 1)) of++;
  if (Math.max(of, tokens.count) > most) {
    const count = Math.min(most, SAMPLED_HOLDINGS);
    const drawn = sampleHoldings(collection, block, { count, random });
    return { claims: drawn.map((holding) => claimOf(ledger, address, holding)), of };
  }
  const claims: Claim[] = [];
  const live = new Set<string>();
  for (let from: Position | undefined = START; from !== undefined; await yieldToEventLoop()) {
    const slice = readSlice(ledger, { block, holders: false, from, limit: HOLDINGS_AT_ONCE });
    from = slice.next;
    for (const { kind, id } of slice.entries) {
      if (hasAmounts(kind)) continue;
      live.add(`${kind} ${id}`);
      claims.push(ownerClaim(ledger, address, { kind, id: BigInt(id) }));
    }
  }
  for (let slot = 0; slot < tokens.count; slot++) {
    const [kind, id] = [tokens.kind(slot as Slot), tokens.id(slot as Slot)];
    if (hasAmounts(kind) || live.has(`${kind} ${id}`)) continue;
    claims.push(ownerClaim(ledger, address, { kind, id }));
  }
  for (const id of unloggedIds(ledger, most - claims.length)) {
    claims.push({ ...ownerClaim(ledger, address, { kind: TransferKind.erc721, id }), isUnlogged: true });
  }
  for (let one = balances.nextHolding(0); one < balances.count; one = balances.nextHolding(one + 1)) {
    const slot = balances.holdingSlot(one);
    const owner = ledger.addresses.hex(balances.holdingOwner(one)) as Address;
    const holding = { kind: tokens.kind(slot), id: tokens.id(slot), owner, amount: 0n };
    claims.push({
      call: callOf(address, holding),
      says: (result) => wordIn(result) ?? 0n,
      logged: (at) => BigInt(balances.heldAfter(balances.entryAt(one, at))),
    });
  }
  return { claims, of: claims.filter(({ isUnlogged }) => isUnlogged !== true).length };
}

/** Ids above the highest one that are asked about, too. */
const ABOVE = 32n;

/**
 * Ids without a log below and just above the highest logged one: an archive may have left out all logs of a token. None
 * if there are more than `most`, as where ids are hashes.
 */
function unloggedIds({ tokens, rows }: Ledger, most: number): bigint[] {
  let highest = -1n;
  const logged = new Set<bigint>();
  for (let slot = 0; slot < tokens.count; slot++) {
    if (tokens.kind(slot as Slot) !== TransferKind.erc721) continue;
    const id = tokens.id(slot as Slot);
    logged.add(id);
    if (id > highest) highest = id;
  }
  for (const { id, count } of rows.ranges) if (id + BigInt(count) - 1n > highest) highest = id + BigInt(count) - 1n;
  if (highest < 0n || highest + ABOVE > BigInt(logged.size + most)) return [];
  const ids: bigint[] = [];
  for (let id = 0n; id <= highest + ABOVE; id++) if (!logged.has(id) && rows.rangeOf(id) < 0) ids.push(id);
  return ids.slice(0, most);
}

function claimOf(ledger: Ledger, address: Address, holding: Holding): Claim {
  const { kind, id, amount } = holding;
  if (!hasAmounts(kind)) return ownerClaim(ledger, address, { kind, id });
  return { call: callOf(address, holding), says: (result) => wordIn(result) ?? 0n, logged: () => amount };
}

/** The owner of a token that has one, as a number; 0 for none. Contracts burn to the zero address or to the dead one. */
function ownerClaim(ledger: Ledger, address: Address, { kind, id }: { kind: SingleKind; id: bigint }): Claim {
  const numberOf = (owner: string | undefined) =>
    owner === undefined || owner === ZERO_ADDRESS || owner === DEAD ? 0n : BigInt(owner);
  return {
    call: ownerCall(address, kind, id),
    says: (result) => numberOf(addressIn(result)),
    logged: (block) => {
      const entry = entryOfToken(ledger, { kind, id }, block);
      return numberOf(entry && ledger.addresses.hex(entry.owner));
    },
  };
}

// What an archive was wrong about, as the headline keeps it for the new index.

/** Blocks around a wrong one that only the node may tell. */
const AROUND = 500;
/** Ranges that are left to the node before the archive as a whole is not believed. */
const MAX_RANGES = 3;

export const wordsIn = (text: string): string[] => text.split(",").filter(Boolean);

/** Reads ranges `from-to`, in rising order. */
export const rangesIn = (text: string): BlockRange[] =>
  wordsIn(text)
    .map((range) => range.split("-").map(Number) as [number, number])
    .map(([fromBlock, toBlock]) => ({ fromBlock, toBlock }))
    .sort((a, b) => a.fromBlock - b.fromBlock);

/**
 * What the next index of a collection must not believe. An archive that is on another branch, or wrong for the fourth
 * time, is not asked for it again; before that, the node reads the blocks around the wrong one.
 */
export function doubtsAfter(
  { distrusted, nodeRanges }: Pick<IndexState, "distrusted" | "nodeRanges">,
  { archive, wrongAt, isOfLogs }: { readonly archive: string; readonly wrongAt: number; readonly isOfLogs: boolean },
): Pick<IndexState, "distrusted" | "nodeRanges"> {
  const ranges = wordsIn(nodeRanges);
  if (!isOfLogs || ranges.length >= MAX_RANGES) {
    return { distrusted: [...new Set([...wordsIn(distrusted), ...wordsIn(archive)])].join(","), nodeRanges };
  }
  const range = `${Math.max(0, wrongAt - AROUND)}-${wrongAt + AROUND}`;
  return { distrusted, nodeRanges: [...ranges, range].join(",") };
}
