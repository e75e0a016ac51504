/** Owners of a ranking as columns, which another thread takes: the ranking hands them over, a page or a file reads them. */
import { ADDRESS_BYTES, bytesToHex } from "../../core/hex.ts";

/** What one owner holds. */
export interface Holder {
  /** 0x and 40 lower-case digits. */
  readonly owner: string;
  /** Number of token ids. */
  readonly tokens: number;
  /** Sum of the amounts: for ERC-721 the same as `tokens`. */
  readonly units: bigint;
}

/** A holder with its place. */
export interface RankedHolder extends Holder {
  /** Part of all units, from 0 to 1, rounded down to 12 digits. */
  readonly share: number;
  /** 1 plus the number of owners that hold more units; owners with equal units share a rank. */
  readonly rank: number;
}

const SHARE_DIGITS = 10n ** 12n;

/** Some owners of a ranking, in a form that another thread takes. */
export interface HolderColumns {
  /** Place of the first one, 0 being the first of the ranking, and its rank. */
  readonly from: number;
  readonly rank: number;
  /** 20 bytes each. */
  readonly addresses: Uint8Array;
  readonly tokens: Float64Array;
  readonly units: Float64Array;
  /** Units of the first owners, if they are no exact numbers. */
  readonly large: readonly bigint[];
  /** Units of all owners of the ranking together. */
  readonly allUnits: bigint;
}

/** Reads the columns of some owners. */
export function holdersOfColumns({ from, rank, addresses, tokens, ...columns }: HolderColumns): RankedHolder[] {
  const holders: RankedHolder[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const units = columns.large[at] ?? BigInt(columns.units[at] as number);
    const before = holders.at(-1);
    const own = before === undefined ? rank : before.units === units ? before.rank : 1 + from + at;
    const share = Number((units * SHARE_DIGITS) / columns.allUnits) / 1e12;
    const owner = bytesToHex(addresses.subarray(at * ADDRESS_BYTES, (at + 1) * ADDRESS_BYTES));
    holders.push({ owner, tokens: tokens[at] as number, units, share, rank: own });
  }
  return holders;
}
