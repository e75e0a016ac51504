/**
 * Launchpads by chain: a launchpad makes pools of new tokens in Uniswap v4, with hooks of its own. Hooks and getters have two
 * publishers; none was read from a live node.
 */
import type { Address } from "../core/hex.ts";
import type { Chain } from "./chains.ts";

/** A getter that is called with a token. */
interface Getter {
  /** Undefined for the token itself. */
  readonly to?: Address;
  /** The word of the answer before that names the contract to ask. */
  readonly word?: number;
  readonly call: string;
}

export interface Launchpad {
  readonly name: string;
  readonly hooks: readonly Address[];
  /** The fee and the tick spacing that its pools with the wrapped coin usually have. */
  readonly fee?: number;
  readonly spacing?: number;
  /** They lead from a token to the key of its pool. */
  readonly getters?: readonly Getter[];
}

/** The launchpads of a chain. The schema has checked that addresses are lower case. */
export const launchpadsOf = (chain: Chain): readonly Launchpad[] =>
  (chain.launchpads ?? []) as unknown as readonly Launchpad[];

/** The hooks of a chain's launchpads. */
const HOOKS = new WeakMap<Chain, ReadonlySet<Address>>();

/** True for the hooks of a launchpad of the chain. */
export const isLaunchHook = (chain: Chain, hooks: Address): boolean =>
  HOOKS.getOrInsertComputed(chain, () => new Set(launchpadsOf(chain).flatMap((one) => one.hooks))).has(hooks);
