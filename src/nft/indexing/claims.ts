/**
 * Reads from a collection's logs what its contract can be asked for: owners, balances, ids without a token, and counts of
 * tokens. A contract's counts can show that a token is missing of which no log tells.
 */
import { Interface } from "ethers/abi";
import { countedCache } from "../../core/counted-cache.ts";
import { type Address, ZERO_ADDRESS } from "../../core/hex.ts";
import { runInSlices, yieldToEventLoop } from "../../core/turns.ts";
import { hasAmounts, type TokenRef, TransferKind } from "../../events/columns.ts";
import { addressIn, wordIn } from "../../rpc/calls.ts";
import type { Call, CallResult } from "../../rpc/port.ts";
import type { Collection } from "../collections/collection.ts";
import { entryOfToken } from "../ledger/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { countEntries, readSlice } from "../ledger/listing.ts";
import { type OwnerSums, sumOwners } from "../ledger/owner-sums.ts";
import { type Position, START } from "../ledger/rows.ts";
import type { Slot } from "../ledger/tables.ts";
import { PAUSED } from "../ledger/trails.ts";
import { callOf, type Holding, sampleHoldings } from "./audit.ts";
import { DEAD, ownerCall, type SingleKind } from "./omissions.ts";

/** Holdings drawn from a larger collection. */
const SAMPLED_HOLDINGS = 1_000;
const HOLDINGS_AT_ONCE = 1_000;
/** The contract is asked for the counts of all owners or ids of a collection of up to so many, and of some of a larger one. */
const [MAX_COUNTED, SAMPLED_COUNTS] = [2_000, 500] as const;
/** Draws for them: most addresses of a collection may hold nothing any more. */
const DRAWS = 10_000;
/** The searches of several claims ask for the sums of the same blocks. */
const MAX_SUMS = 4;

const ABI = new Interface([
  "function balanceOf(address) view returns (uint256)",
  "function totalSupply() view returns (uint256)",
  "function totalSupply(uint256) view returns (uint256)",
]);

/** A fact that the contract can be asked for, as a number: an owner, a balance, or a count. */
export interface Claim {
  readonly call: Call;
  /** Reads the contract's answer; undefined if it has none. */
  readonly says: (result: CallResult | undefined) => bigint | undefined;
  /** True if what the contract says and what the log says are the same. */
  readonly isSaid: (said: bigint, logged: bigint) => boolean;
  /** Returns the log's own figure as of a block. */
  readonly logged: (block: number) => bigint | Promise<bigint>;
  /** The token of a holding; with its owner, if it has amounts. */
  readonly token?: TokenRef & { readonly owner?: number };
}

const isEqual = (said: bigint, logged: bigint): boolean => said === logged;

/** The claims of a collection at a block. */
export interface Claims {
  /** Owners and balances that the log tells, and burned tokens: all, or a sample. */
  readonly holdings: readonly Claim[];
  /** Ids that no log has: a contract that names an owner of one has a token that the log lacks. */
  readonly unlogged: readonly Claim[];
  /** Numbers of tokens of owners, and supplies of ids. A contract may count something else. */
  readonly counts: readonly Claim[];
  /** The number of all tokens, or of all units. Many contracts don't count so: a cap, a constant, or without burns. */
  readonly supply: Claim | undefined;
  /** Number of all of them. That of a sample leaves out burned tokens and spent balances, which no sample has. */
  readonly of: number;
}

interface ClaimsOptions {
  /** Holdings that are all asked for. Of a larger collection, some are drawn. */
  readonly most: number;
  /** True to ask for counts as well. */
  readonly isCounted: boolean;
  readonly random: () => number;
}

/** Returns the claims of a collection at a block. Works in slices. */
export async function claimsOf(
  collection: Collection,
  address: Address,
  block: number,
  { most, isCounted, random }: ClaimsOptions,
): Promise<Claims> {
  const { ledger } = collection;
  const { balances, tokens } = ledger;
  const [listed, of] = [countEntries(ledger, block, false), countEntries(ledger, block, true)];
  let pairs = 0;
  for (let one = balances.nextHolding(0); one < balances.count; one = balances.nextHolding(one + 1)) pairs++;
  const counted = isCounted ? await countsOf(ledger, address, block, random) : { counts: [], supply: undefined };
  // Tokens that burned and balances that were spent are claims, too.
  if (Math.max(listed + pairs, tokens.count) > most) {
    const count = Math.min(most, SAMPLED_HOLDINGS);
    const sample = sampleHoldings(collection, block, { count, random });
    // The draws are independent, and one that comes twice is no second holding that the contract confirms.
    const drawn = new Map(sample.map((holding) => [`${holding.kind} ${holding.id} ${holding.owner}`, holding]));
    const holdings = [...drawn.values()].map((holding) => claimOf(ledger, address, holding, block));
    return { holdings, unlogged: [], of, ...counted };
  }
  const holdings = await allHoldings(ledger, address, block);
  const unlogged = unloggedIds(ledger, most - holdings.length).map((id) =>
    ownerClaim(ledger, address, { kind: TransferKind.erc721, id }),
  );
  return { holdings, unlogged, of: holdings.length, ...counted };
}

async function allHoldings(ledger: Ledger, address: Address, block: number): Promise<Claim[]> {
  const { balances, tokens } = ledger;
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
  for (let one = balances.nextHolding(0); one < balances.count; one = balances.nextHolding(one + 1)) {
    const slot = balances.holdingSlot(one);
    const owner = balances.holdingOwner(one);
    const [kind, id] = [tokens.kind(slot), tokens.id(slot)];
    const holding = { kind, id, owner: ledger.addresses.hex(owner) as Address, amount: 0n };
    claims.push({
      call: callOf(address, holding),
      says: (result) => wordIn(result) ?? 0n,
      isSaid: isEqual,
      logged: (at) => BigInt(balances.heldAfter(balances.entryAt(one, at))),
      token: { kind, id, owner },
    });
  }
  return claims;
}

/** The claims about counts. None for a collection with both kinds of token: its contract's counts mean either. */
async function countsOf(
  ledger: Ledger,
  address: Address,
  block: number,
  random: () => number,
): Promise<Pick<Claims, "counts" | "supply">> {
  const { balances, owners, rows, tokens } = ledger;
  const hasSingles = owners.count > 0 || rows.ranges.length > 0;
  if (hasSingles === balances.count > 0) return { counts: [], supply: undefined };
  const kept = countedCache<number, Promise<OwnerSums>>(MAX_SUMS);
  const sumsAt = (at: number): Promise<OwnerSums> => {
    const known = kept.get(at) ?? runInSlices(sumOwners(ledger, at));
    kept.set(at, known);
    return known;
  };
  const supply: Claim = {
    call: { to: address, data: ABI.encodeFunctionData("totalSupply()") },
    says: wordIn,
    isSaid: isEqual,
    logged: async (at) => (hasSingles ? BigInt(countEntries(ledger, at, false)) : BigInt((await sumsAt(at)).allUnits)),
  };
  if (!hasSingles) {
    const slots = drawn(tokens.count, () => true, random) as Slot[];
    const supplyAt = (slot: Slot, at: number): bigint => {
      let found = balances.findSupply(slot, at);
      while (found === PAUSED) found = balances.findSupply(slot, at);
      return BigInt(found);
    };
    const counts = slots.map(
      (slot): Claim => ({
        call: { to: address, data: ABI.encodeFunctionData("totalSupply(uint256)", [tokens.id(slot)]) },
        says: wordIn,
        isSaid: isEqual,
        logged: (at) => supplyAt(slot, at),
      }),
    );
    return { counts, supply };
  }
  const held = (await sumsAt(block)).tokens;
  const holders = drawn(held.length, (owner) => held[owner] !== 0, random);
  const counts = holders.map((owner): Claim => {
    const holder = ledger.addresses.hex(owner);
    return {
      call: { to: address, data: ABI.encodeFunctionData("balanceOf", [holder]) },
      says: wordIn,
      isSaid: isEqual,
      logged: async (at) => BigInt((await sumsAt(at)).tokens[owner] ?? 0),
    };
  });
  return { counts, supply };
}

/** The numbers below `count` that are wanted; of many, some that are drawn at random, each once. */
function drawn(count: number, isWanted: (value: number) => boolean, random: () => number): number[] {
  if (count <= MAX_COUNTED) return [...Array(count).keys()].filter(isWanted);
  const values = new Set<number>();
  for (let draw = 0; draw < DRAWS && values.size < SAMPLED_COUNTS; draw++) {
    const value = Math.floor(random() * count);
    if (isWanted(value)) values.add(value);
  }
  return [...values];
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

function claimOf(ledger: Ledger, address: Address, holding: Holding, block: number): Claim {
  const { kind, id, amount } = holding;
  if (!hasAmounts(kind)) return ownerClaim(ledger, address, { kind, id });
  const owner = ledger.addresses.find(holding.owner);
  return {
    call: callOf(address, holding),
    says: (result) => wordIn(result) ?? 0n,
    isSaid: isEqual,
    logged: (at) => (at === block ? amount : balanceAt(ledger, { kind, id, owner }, at)),
    token: { kind, id, owner },
  };
}

/** The balance of an owner at a block, by a pass over all holdings: only claims that turn out wrong need it. */
function balanceAt(
  { balances, tokens }: Ledger,
  { kind, id, owner }: TokenRef & { owner: number },
  at: number,
): bigint {
  const slot = tokens.findId(kind, id);
  for (let one = balances.nextHolding(0); one < balances.count; one = balances.nextHolding(one + 1)) {
    const isIt = balances.holdingSlot(one) === slot && balances.holdingOwner(one) === owner;
    if (isIt) return BigInt(balances.heldAfter(balances.entryAt(one, at)));
  }
  return 0n;
}

/** The dead address as a number. */
const DEAD_OWNER = BigInt(DEAD);

/**
 * The owner of a token that has one, as a number; 0 for none. A contract may say of a token that it burned, or of an id that it
 * never had, that the dead address owns it. A token that was sent there is logged so.
 */
export function ownerClaim(ledger: Ledger, address: Address, { kind, id }: { kind: SingleKind; id: bigint }): Claim {
  const numberOf = (owner: string | undefined) => (owner === undefined || owner === ZERO_ADDRESS ? 0n : BigInt(owner));
  return {
    call: ownerCall(address, kind, id),
    says: (result) => numberOf(addressIn(result)),
    isSaid: (said, logged) => said === logged || (logged === 0n && said === DEAD_OWNER),
    logged: (block) => {
      const entry = entryOfToken(ledger, { kind, id }, block);
      return numberOf(entry && ledger.addresses.hex(entry.owner));
    },
    token: { kind, id },
  };
}
