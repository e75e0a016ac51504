/** A local market for benches of prices. */
import { type Anvil, startAnvil } from "../local-chain/anvil.ts";
import { placeMainnet } from "../local-chain/mainnet.ts";
import { type Market, seedMarket } from "../local-chain/market.ts";

/** A chain with pools whose swaps end about now. The caller stops it. */
export async function startMarket(): Promise<{ anvil: Anvil; market: Market }> {
  const anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 27 * 3_600 - 60 });
  await placeMainnet(anvil);
  return { anvil, market: await seedMarket(anvil) };
}
