/** The rules by which prices are made, as one number. A stored price answers only under the rules that made it. */
import type { Chain } from "../../chains/chains.ts";
import type { Deployment } from "../../chains/exchanges.ts";
import { launchpadsOf } from "../../chains/launchpads.ts";

/** Raised by whoever changes how a price follows from states of pools, or which pools rank. */
const RULES = 1;

/** CRC-32 of all that decides which price a state of the chain has: its tokens of reference, its exchanges, and `RULES`. */
export function pricingRules(chain: Chain, exchanges: readonly Deployment[]): number {
  const { chainId, wrappedNative, native, stablecoins, connectors } = chain;
  const ranked = exchanges.map(({ factory, style, fees, spacings }) => [factory, style, fees, spacings ?? []]);
  const said = [RULES, chainId, wrappedNative, native, stablecoins, connectors, ranked, launchpadsOf(chain)];
  return Bun.hash.crc32(JSON.stringify(said));
}
