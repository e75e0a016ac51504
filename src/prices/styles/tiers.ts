/**
 * The kinds of pools that a factory makes now, as it tells them by state: the fees of Uniswap v3 and its forks, or the
 * tick spacings of Slipstream. `tier-finder.sol` reads them in one `eth_call` without a target, which also finds pools at
 * those that the data lack.
 */
import type { Address } from "../../core/hex.ts";
import { addressWord, wordOf } from "../../rpc/calls.ts";
import type { CallResult } from "../../rpc/port.ts";
import { abiWord, abiWords, addressAt, answer, type CallPlan, call } from "./abi.ts";
// The creation code by solc 0.8.37 over its IR with 200 runs, for the EVM of Paris, without metadata. A test compiles it anew.
import TIER_FINDER from "./tier-finder.txt";

/** Tiers of a factory that count. Known ones have four to seven, and any account can make a factory of its own. */
const MAX_TIERS = 24;
/** Pairs that one call looks for. Nodes bound the length of creation code. */
const MAX_PAIRS = 400;

/** What is asked of a factory, whose pools at some tiers are found by its getters. */
export interface TierQuestion {
  readonly factory: Address;
  readonly known: readonly number[];
  readonly pairs: readonly (readonly [Address, Address])[];
}

/** A factory's tiers. `others`: the pools at those that were not known; undefined if they were not looked for. */
export interface TiersRead {
  readonly tiers: readonly number[];
  readonly others:
    | readonly { readonly pair: readonly [Address, Address]; readonly tier: number; readonly pool: Address }[]
    | undefined;
}

/** Reads the tiers of a factory; undefined for a contract that doesn't tell any. */
export type ReadTiers = (question: TierQuestion) => CallPlan<TiersRead | undefined>;

/** The numbers of a list that begins at a word; undefined for other data. */
function listAt(data: string, place: number): readonly bigint[] | undefined {
  const count = Number(abiWord(data, place) ?? 0n);
  return count <= MAX_TIERS ? abiWords(data, place + 1 + count)?.slice(place + 1) : undefined;
}

function finderCall(isBySpacing: boolean, { factory, known, pairs }: TierQuestion) {
  const list = [wordOf(known.length), ...known.map(wordOf)];
  const words = [
    ...[wordOf(isBySpacing ? 1 : 0), addressWord(factory), wordOf(MAX_TIERS)],
    ...[wordOf(5 * 32), wordOf((5 + list.length) * 32), ...list, wordOf(pairs.length)],
    ...pairs.flatMap((pair) => pair.map(addressWord)),
  ];
  return { to: undefined, data: `0x${TIER_FINDER}${words.join("")}` };
}

function foundIn(result: CallResult | undefined, pairs: TierQuestion["pairs"]): TiersRead | undefined {
  if (!result?.ok) return undefined;
  // The reader has taken the number of the block off.
  const [tiersAt, foundAt] = [0, 1].map((at) => Number(abiWord(result.data, at) ?? 0n) / 32 - 1);
  const tiers = listAt(result.data, tiersAt!)?.map(Number);
  const count = Number(abiWord(result.data, foundAt!) ?? 0n);
  if (tiers === undefined || result.data.length < 2 + 64 * (foundAt! + 1 + 3 * count)) return undefined;
  const others = Array.from({ length: count }, (_, index) => {
    const at = foundAt! + 1 + 3 * index;
    const [pair, tier] = [abiWord(result.data, at), abiWord(result.data, at + 1)].map(Number);
    return { pair: pairs[pair!]!, tier: tier!, pool: addressAt(result.data, at + 2)! };
  });
  return { tiers, others };
}

/** Reads tiers by the finder; if the node doesn't run such calls, by getters, which find no pools. */
function planTiers(
  isBySpacing: boolean,
  question: TierQuestion,
  byGetters: CallPlan<readonly number[] | undefined>,
): CallPlan<TiersRead | undefined> {
  const hasAll = question.pairs.length <= MAX_PAIRS;
  const pairs = hasAll ? question.pairs : [];
  return {
    calls: [finderCall(isBySpacing, { ...question, pairs }), ...byGetters.calls],
    read([found, ...results]) {
      const read = foundIn(found, pairs);
      if (read !== undefined) return hasAll ? read : { ...read, others: undefined };
      const tiers = byGetters.read(results);
      return tiers && { tiers, others: undefined };
    },
  };
}

/**
 * Reads the fees that a factory has enabled, in hundredths of a basis point.
 * @param usual those that a node tells that runs no call without a target
 */
export const feesReader =
  (usual: readonly number[]): ReadTiers =>
  (question) =>
    planTiers(false, question, {
      calls: usual.map((fee) => call(question.factory, "feeAmountTickSpacing(uint24)", wordOf(fee))),
      read(results) {
        const spacings = usual.map((_, at) => answer(results[at]));
        return spacings.includes(undefined) ? undefined : usual.filter((_, at) => spacings[at] !== 0n);
      },
    });

/** Reads the tick spacings that a factory has enabled. */
export const readSpacings: ReadTiers = (question) =>
  planTiers(true, question, {
    calls: [call(question.factory, "tickSpacings()")],
    read: ([result]) =>
      result?.ok && abiWord(result.data, 0) === 32n ? listAt(result.data, 1)?.map(Number) : undefined,
  });
