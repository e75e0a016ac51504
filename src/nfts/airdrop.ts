/**
 * Whether a collection's history has the shape of an airdrop: many receivers who did nothing for it. The log does not
 * say who paid for a mint, so this goes by what self-minting cannot look like: each block with mints hands tokens to
 * dozens of different receivers, on average over the whole history, and nearly nothing has moved since.
 */
import { otherWork } from "../core/own-thread.ts";
import type { BalanceHistory } from "./balances.ts";
import type { Ledger } from "./ledger.ts";
import type { OwnerHistory } from "./owners.ts";

/** The id under which it goes into the log. */
export const AIRDROP_SHAPE = "airdrop-shape";

/** Fewer receivers than these are a team, not a mailing list. */
const MIN_RECEIVERS = 200;
/**
 * Different receivers to a block with mints. Minting oneself costs 70,000 gas and more, so that fifty in one block take
 * a tenth of it; a sale may do that for a few blocks, but never on average with its slow ones.
 */
const MIN_PER_BLOCK = 50;
/** Share of all transfers that are mints: what people wanted is sold and given away. */
const MIN_MINTED = 0.97;

/** Facts looked at in one go: a millisecond. */
const SLICE = 65_536;

/**
 * Looks at the whole history, in slices; costs a pass over it only where the cheap conditions hold. What comes in meanwhile
 * is little beside it, and has the shape looked at again.
 */
export async function isAirdropShaped({ addresses, owners, balances, rows }: Ledger): Promise<boolean> {
  const receivers = addresses.count - 1;
  const transfers = owners.count + balances.count;
  if (receivers < MIN_RECEIVERS || rows.ranges.length > 0) return false;
  // Somebody who received many for himself is a minter, not a mailing list.
  if (receivers < transfers / 2) return false;
  const minted =
    (await countOf(owners, (entry) => owners.prev(entry) === -1)) +
    (await countOf(balances, (transfer) => balances.isMint(transfer)));
  if (minted < transfers * MIN_MINTED) return false;
  const blocks = (await blocksIn(owners)) + (await blocksIn(balances));
  return receivers >= blocks * MIN_PER_BLOCK;
}

/** Different blocks of a history, which lie in order. */
const blocksIn = (history: OwnerHistory | BalanceHistory): Promise<number> =>
  countOf(history, (i) => i === 0 || history.block(i) !== history.block(i - 1));

/** How many facts of a history are such. */
async function countOf(history: OwnerHistory | BalanceHistory, isSuch: (index: number) => boolean): Promise<number> {
  let count = 0;
  for (let i = 0; i < history.count; i++) {
    if (i % SLICE === SLICE - 1) await otherWork();
    // A reorg may have taken the rest.
    if (i < history.count && isSuch(i)) count++;
  }
  return count;
}
