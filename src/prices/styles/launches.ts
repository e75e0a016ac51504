/**
 * Finds the pools of launchpads in Uniswap v4 by state alone: one `eth_call` without a target asks the launchpads' getters
 * about many tokens, by `launch-finder.sol`.
 */
import type { Launchpad } from "../../chains/launchpads.ts";
import { type Address, ZERO_ADDRESS } from "../../core/hex.ts";
import { addressWord, selectorOf, wordOf } from "../../rpc/calls.ts";
import type { CallResult } from "../../rpc/port.ts";
import type { Pool } from "../market/pools.ts";
import { abiWord, abiWords, addressAt, type CallPlan } from "./abi.ts";
// The creation code by solc 0.8.37 over its IR with 200 runs, for the EVM of Paris, without metadata. A test compiles it anew.
import LAUNCH_FINDER from "./launch-finder.txt";
import type { Venue } from "./style.ts";
import { keyedPool } from "./v4.ts";

/** Tokens in a call. Each launchpad takes at most 240,000 of gas for one. */
const TOKENS_PER_CALL = 40;
/** Words of a finding: the token, the way, and the key of the pool. */
const WORDS = 7;

/** Finds the pools that a venue's launchpads name for tokens. */
export function planLaunches(venue: Venue, tokens: readonly Address[]): CallPlan<Pool[]> {
  const pads = (venue.launchpads ?? []).filter(({ getters = [] }) => getters.length > 0);
  const parts = Array.from({ length: pads.length === 0 ? 0 : Math.ceil(tokens.length / TOKENS_PER_CALL) }, (_, at) =>
    tokens.slice(at * TOKENS_PER_CALL, (at + 1) * TOKENS_PER_CALL),
  );
  return {
    calls: parts.map((part) => ({ to: undefined, data: codeFor(part, pads) })),
    read: (results) => parts.flatMap((_, at) => foundIn(results[at], venue, pads)),
  };
}

function codeFor(tokens: readonly Address[], pads: readonly Launchpad[]): `0x${string}` {
  const ways = pads.flatMap(({ getters = [] }) => {
    const [first, next] = getters;
    const selector = (call: string | undefined) =>
      (call === undefined ? "" : selectorOf(call).slice(2)).padEnd(64, "0");
    return [
      ...[addressWord(first?.to ?? ZERO_ADDRESS), selector(first?.call)],
      ...[wordOf(next?.word ?? 0), selector(next?.call)],
    ];
  });
  const list = [wordOf(tokens.length), ...tokens.map(addressWord)];
  const head = [wordOf(64), wordOf((2 + list.length) * 32)];
  return `0x${LAUNCH_FINDER}${[...head, ...list, wordOf(pads.length), ...ways].join("")}`;
}

function foundIn(result: CallResult | undefined, venue: Venue, pads: readonly Launchpad[]): Pool[] {
  if (!result?.ok) return [];
  // The offset of the list, and its length.
  const count = Number(abiWord(result.data, 1) ?? 0n);
  if (abiWords(result.data, 2 + WORDS * count) === undefined) return [];
  return Array.from({ length: count }, (_, index) => 2 + index * WORDS).flatMap((at) => {
    const [way, fee, spacing] = [at + 1, at + 4, at + 5].map((place) => Number(abiWord(result.data, place)));
    const [currency0, currency1, hooks] = [at + 2, at + 3, at + 6].map((place) => addressAt(result.data, place)!);
    // Any token can name any pool: only the launchpad's own hooks count.
    if (pads[way!]?.hooks.includes(hooks!) !== true) return [];
    return [keyedPool(venue, { currency0: currency0!, fee: fee!, spacing: spacing!, hooks: hooks! }, currency1!)];
  });
}
