/**
 * The holders of one token after a block, those who came last first. A token of one owner has one; of a token with amounts
 * the transfers tell who ever held it, so a page costs the transfers between its first holder and its last one.
 */
import { hasAmounts, type TransferKind } from "../../events/columns.ts";
import type { Entry } from "./entries.ts";
import { entryOfToken, kindsOf } from "./history.ts";
import type { Ledger } from "./ledger.ts";
import { PAUSED } from "./trails.ts";

/** The kind of the token, by its place among the kinds with this id, and the transfer to begin with. */
export type HolderPlace = readonly [kind: number, transfer: number];

/** In place of a transfer: the newest one. */
const NEWEST_TRANSFER = -1;
/** Transfers that are looked at per slice. */
const PER_SLICE = 4_096;
/** Transfers that one reading looks at. Its page then ends early. */
const MAX_LOOKED_AT = 1_000_000;

interface TokenHoldersOptions {
  readonly block: number;
  readonly from: HolderPlace | undefined;
  readonly limit: number;
}

interface TokenHolders {
  readonly entries: readonly Entry[];
  /** The place of the next holder; undefined at the end. */
  readonly next: HolderPlace | undefined;
}

/** Reads up to `limit` holders of a token id, in slices. A contract may have tokens of several kinds with the same id. */
export function* readTokenHolders(
  ledger: Ledger,
  id: bigint,
  { block, from, limit }: TokenHoldersOptions,
): Generator<void, TokenHolders> {
  const kinds = kindsOf(ledger, id);
  const entries: Entry[] = [];
  for (let at = from?.[0] ?? 0; at < kinds.length; at++) {
    const kind = kinds[at] as TransferKind;
    if (!hasAmounts(kind)) {
      const entry = entryOfToken(ledger, { kind, id }, block);
      if (entry === undefined) continue;
      if (entries.length === limit) return { entries, next: [at, NEWEST_TRANSFER] };
      entries.push({ ...entry, blockMinted: yield* firstHeld(ledger, { kind, id, block }, entry.owner) });
      continue;
    }
    const first = from?.[0] === at ? from[1] : NEWEST_TRANSFER;
    const next = yield* readHoldings(ledger, { kind, id, block, first, limit }, entries);
    if (next !== undefined) return { entries, next: [at, next] };
  }
  return { entries, next: undefined };
}

/** The block in which the owner of a token got it first, as a listing by owners has it. */
function* firstHeld(
  { tokens, links, owners, rows }: Ledger,
  { kind, id, block }: Pick<Holdings, "kind" | "id" | "block">,
  owner: number,
): Generator<void, number> {
  const slot = tokens.findId(kind, id);
  const range = rows.ranges[rows.rangeOf(id)];
  let at = slot < 0 ? -1 : owners.find(links.tail(slot), block);
  for (; at === PAUSED; at = owners.find(links.tail(slot), block)) yield;
  let first = block;
  for (let looked = 1; at >= 0; at = owners.prev(at), looked++) {
    if (owners.to(at) === owner) first = owners.block(at);
    if (looked % PER_SLICE === 0) yield;
  }
  // The token's first owner may have got it with a range of ids.
  return (at < -1 || slot < 0) && range !== undefined && range.to === owner ? range.block : first;
}

interface Holdings {
  readonly kind: TransferKind;
  readonly id: bigint;
  readonly block: number;
  readonly first: number;
  readonly limit: number;
}

/** Adds holdings to `entries`. Returns the transfer at which the next page begins; undefined at the end. */
function* readHoldings(
  ledger: Ledger,
  { kind, id, block, first, limit }: Holdings,
  entries: Entry[],
): Generator<void, number | undefined> {
  const { tokens, links, balances } = ledger;
  const slot = tokens.findId(kind, id);
  const newest = () => balances.findTransfer(slot, links.tail(slot), block);
  let transfer = first === NEWEST_TRANSFER ? newest() : first;
  for (; transfer === PAUSED; transfer = newest()) yield;
  for (let looked = 1; transfer >= 0; transfer = balances.prev(transfer), looked++) {
    if (looked === MAX_LOOKED_AT) return transfer;
    if (looked % PER_SLICE === 0) yield;
    // A holding has the number of the transfer that created it.
    if (balances.nextHolding(transfer) !== transfer) continue;
    const holding = transfer;
    let last = balances.findEntry(holding, block);
    for (; last === PAUSED; last = balances.findEntry(holding, block)) yield;
    const amount = balances.heldAfter(last);
    if (amount === 0) continue;
    if (entries.length === limit) return transfer;
    entries.push({
      ...{ kind, id: tokens.idAmount(slot), owner: balances.holdingOwner(holding), amount, minter: -1 },
      ...{ block: balances.block(last >>> 1), blockMinted: balances.block(holding) },
    });
  }
  return undefined;
}
