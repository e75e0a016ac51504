/**
 * Whether a collection's history has the shape of an airdrop: many receivers who did nothing for it. The log does not
 * say who paid for a mint, so this goes by what self-minting cannot look like: each block with mints hands tokens to
 * dozens of different receivers, on average over the whole history, and nearly nothing has moved since.
 */
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

/** Looks at the whole history; costs a pass over it only where the cheap conditions hold. */
export function isAirdropShaped({ addresses, owners, balances, rows }: Ledger): boolean {
  const receivers = addresses.count - 1;
  const transfers = owners.count + balances.count;
  if (receivers < MIN_RECEIVERS || rows.ranges.length > 0) return false;
  // Somebody who received many for himself is a minter, not a mailing list.
  if (receivers < transfers / 2) return false;
  let minted = 0;
  for (let entry = 0; entry < owners.count; entry++) if (owners.prev(entry) === -1) minted++;
  for (let transfer = 0; transfer < balances.count; transfer++) if (balances.isMint(transfer)) minted++;
  const blocks = blocksIn(owners) + blocksIn(balances);
  return minted >= transfers * MIN_MINTED && receivers >= blocks * MIN_PER_BLOCK;
}

/** Different blocks of a history, which lie in order. */
function blocksIn(history: OwnerHistory | BalanceHistory): number {
  let blocks = 0;
  for (let i = 0; i < history.count; i++) if (i === 0 || history.block(i) !== history.block(i - 1)) blocks++;
  return blocks;
}
