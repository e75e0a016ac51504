/**
 * Detects airdrops: collections minted to many receivers without their request. The log does not say which account
 * paid for a mint, so the rule tests for a shape that self-minting cannot have: over the whole history, the average
 * block with mints has dozens of different receivers, and nearly no token has moved since.
 */
import { yieldToEventLoop } from "../../core/turns.ts";
import type { BalanceHistory } from "../ledger/balances.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OwnerHistory } from "../ledger/owners.ts";

/** Fewer receivers are likely a team. */
const MIN_RECEIVERS = 200;
/**
 * Least average number of different receivers per block with mints. A self-mint costs at least 70,000 gas, so fifty of
 * them take a tenth of a block. A sale may reach that in a few blocks, but not on average with its slow blocks.
 */
const MIN_PER_BLOCK = 50;
/** Least share of mints among all transfers: tokens with a demand are sold and given away. */
const MIN_MINTED = 0.97;

/** Facts per slice: a millisecond. */
const SLICE = 65_536;

/**
 * True if the collection has the shape of an airdrop. Reads the whole history, in slices, but only if the cheap
 * conditions hold. Transfers that arrive meanwhile are few, and trigger another check.
 */
export async function isAirdropShaped({ addresses, owners, balances, rows }: Ledger): Promise<boolean> {
  const receivers = addresses.count - 1;
  const transfers = owners.count + balances.count;
  if (receivers < MIN_RECEIVERS || rows.ranges.length > 0) return false;
  // Few receivers with many tokens each are minters, not airdrop receivers.
  if (receivers < transfers / 2) return false;
  const minted =
    (await countOf(owners, (entry) => owners.prev(entry) === -1)) +
    (await countOf(balances, (transfer) => balances.isMint(transfer)));
  if (minted < transfers * MIN_MINTED) return false;
  const blocks = (await blocksIn(owners)) + (await blocksIn(balances));
  return receivers >= blocks * MIN_PER_BLOCK;
}

/** Number of different blocks of a history, which is in order of blocks. */
const blocksIn = (history: OwnerHistory | BalanceHistory): Promise<number> =>
  countOf(history, (i) => i === 0 || history.block(i) !== history.block(i - 1));

/** Number of facts of a history for which `isSuch` holds. */
async function countOf(history: OwnerHistory | BalanceHistory, isSuch: (index: number) => boolean): Promise<number> {
  let count = 0;
  for (let i = 0; i < history.count; i++) {
    if (i % SLICE === SLICE - 1) await yieldToEventLoop();
    // A reorg may have removed the rest meanwhile.
    if (i < history.count && isSuch(i)) count++;
  }
  return count;
}
