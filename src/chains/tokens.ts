/**
 * Connectors: the tokens through which one without a direct pool is priced, beside the stablecoins. Addresses on eth,
 * polygon, avalanche and arbitrum are those of `@uniswap/default-token-list` 22.21.0, which also has bsc's ETH; bsc's
 * BTCB and cronos' two agree in several public repositories.
 */
import { type Address, toAddress } from "../core/hex.ts";
import type { Chain, ChainName, ChainToken } from "./chains.ts";

const token = (symbol: string, address: string, decimals: number): ChainToken => ({
  symbol,
  address: toAddress(address),
  decimals,
});

const CONNECTORS: Readonly<Partial<Record<ChainName, readonly ChainToken[]>>> = {
  eth: [token("WBTC", "0x2260fac5e5542a773aa44fbcfedf7c193bc2c599", 8)],
  polygon: [
    token("WETH", "0x7ceb23fd6bc0add59e62ac25578270cff1b9f619", 18),
    token("WBTC", "0x1bfd67037b42cf73acf2047067bd4f2c47d9bfd6", 8),
  ],
  bsc: [
    token("BTCB", "0x7130d2a12b9bcbfae4f2634d864a1ee1ce3ead9c", 18),
    token("ETH", "0x2170ed0880ac9a755fd29b2688956bd959f933f8", 18),
  ],
  avalanche: [
    token("WETH.e", "0x49d5c2bdffac6ce2bfdb6640f4f80f226bc10bab", 18),
    token("WBTC.e", "0x50b7545627a5162f82a992c33b87adc75187b218", 8),
  ],
  cronos: [
    token("WETH", "0xe44fd7fcb2b1581822d0c862b68222998a0c299a", 18),
    token("WBTC", "0x062e66477faf219f25d27dced647bf57c3107d52", 8),
  ],
  arbitrum: [
    token("WBTC", "0x2f2a2543b76a4166549f7aab2e75bef0aefc5b0f", 8),
    token("ARB", "0x912ce59144191c1204e64559fe8253a0e49e6548", 18),
  ],
};

/** The connectors of a chain beside its wrapped native and its stablecoins, in the order in which they are tried. */
export function connectorsOf(chain: Chain): readonly ChainToken[] {
  return CONNECTORS[chain.name] ?? [];
}

/** Wrapped native, stablecoins, connectors: every token that may stand on the quote side of a pool. */
export function referenceTokens(chain: Chain): readonly ChainToken[] {
  return [chain.wrappedNative, ...chain.stablecoins, ...connectorsOf(chain)];
}

/** Whether a token belongs to the chain's reference tokens. */
export function isReference(chain: Chain, address: Address): boolean {
  return referenceTokens(chain).some((entry) => entry.address === address);
}
