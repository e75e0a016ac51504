/**
 * Launchpads by chain: a launchpad makes pools of new tokens in Uniswap v4, with hooks of its own. Hooks and getters have two
 * publishers; none was read from a live node.
 */
import type { Address } from "../core/hex.ts";
import { type Chain, knownChains } from "./chains.ts";

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

/** What was made of the chains that were known then. */
let made: { readonly of: readonly Chain[]; readonly hooks: ReadonlySet<Address> } | undefined;

/** True for the hooks of a known launchpad. */
export function isLaunchHook(hooks: Address): boolean {
  const chains = knownChains();
  if (made?.of !== chains) {
    const all = chains.flatMap((chain) => launchpadsOf(chain).flatMap((launchpad) => launchpad.hooks));
    made = { of: chains, hooks: new Set(all) };
  }
  return made.hooks.has(hooks);
}
