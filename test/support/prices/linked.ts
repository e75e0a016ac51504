/**
 * A market in which earlier releases routed through any token of their log: TOKEN has a pool only with OTHER, HALF has
 * a shallow pool with the native coin and a deep one with OTHER, and LATER has one with UNI, which was no connector
 * then. `test/fixtures/linked-prices.json` is such a release's log of this market.
 */
import { toAddress } from "../../../src/core/hex.ts";
import { addressOf, type FakePool } from "./fake-chain.ts";
import { SUSHI, TOKEN, USDC, USDT, WBTC, WETH, type World } from "./world.ts";

export const UNI = toAddress("0x1f9840a85d5af5bf1d1762f925bdaddc4201f984");
export const OTHER = addressOf("other");
export const HALF = addressOf("half");
export const LATER = addressOf("later");
export const CONNECTED = addressOf("connected");
/** The tokens in the order of their requests. */
export const ASKED = [OTHER, TOKEN, HALF, LATER, CONNECTED, WBTC, WETH, USDC] as const;

/** Makes the pools at the first block. */
export function placeLinked(world: World): { linking: FakePool; own: FakePool } {
  for (const [symbol, address] of Object.entries({ OTHER, HALF, LATER, CONNECTED, UNI })) {
    world.chain.token({ address, name: symbol, symbol, decimals: 18 });
  }
  const own = world.pair(OTHER, 10_000n, WETH, 100n);
  const linking = world.pair(TOKEN, 10_000n, OTHER, 5_000n);
  world.pair(HALF, 1_000n, WETH, 10n);
  world.pair(HALF, 100_000n, OTHER, 300_000n, SUSHI);
  world.pair(LATER, 10_000n, UNI, 5_000n);
  world.pair(UNI, 10_000n, WETH, 50n);
  world.pair(CONNECTED, 10_000n, WBTC, 1n);
  world.pair(WBTC, 10n, WETH, 150n);
  world.pair(USDT, 1_000_000n, USDC, 1_000_000n);
  return { linking, own };
}

/** Plays the later blocks, which the old release followed. Calls `shown` after each. */
export async function playLinked(world: World, pools: ReturnType<typeof placeLinked>, shown: () => Promise<void>) {
  for (let round = 1n; round <= 4n; round++) {
    world.chain.mine();
    world.setPair(pools.own, OTHER, 10_000n, 100n + round);
    world.setPair(pools.linking, TOKEN, 10_000n, 5_000n - round);
    await shown();
  }
}
