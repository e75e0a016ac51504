/**
 * Routers that exchanges have released, where two public sources name the same one. Tokens may treat these addresses apart, so
 * a wallet's sale is simulated through them as well. Each must prove by `factory()` that it is its exchange's (`wallet.ts`).
 */
import { type Address, toAddress } from "../../core/hex.ts";
import { addressWord, selectorOf, wordOf } from "../../rpc/calls.ts";
import type { Pool } from "../market/pools.ts";
import { signedWord } from "../styles/abi.ts";

/** The arguments of a router's sale: the path of tokens, or a single pool with or without a deadline. */
type SaleForm = "path" | "single with deadline" | "single";

interface ReleasedRouter {
  readonly address: Address;
  readonly form: SaleForm;
}

/** Uniswap v3 has one factory and one router on several chains. */
const UNISWAP_V3 = [
  "0x1f98431c8ad98523631ae4a59f267346ea31f984",
  "0xe592427a0aece92de3edee1f18e0157c05861564",
  "single with deadline",
] as const;

const RELEASED: readonly (readonly [chainId: number, factory: string, router: string, form: SaleForm])[] = [
  [1, "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f", "0x7a250d5630b4cf539739df2c5dacb4c659f2488d", "path"],
  [56, "0xca143ce32fe78f1f7019d7d551a6402fc5350c73", "0x10ed43c718714eb63d5aa57b78b54704e256024e", "path"],
  [8453, "0x8909dc15e40173ff4699343b6eb8132c65e18ec6", "0x4752ba5dbc23f44d87826276bf6fd6b1c372ad24", "path"],
  [8453, "0x33128a8fc17869897dce68ed026d694621f6fdfd", "0x2626664c2603336e57b271c5c0b26f421741e481", "single"],
  [1, ...UNISWAP_V3],
  [10, ...UNISWAP_V3],
  [137, ...UNISWAP_V3],
  [42_161, ...UNISWAP_V3],
];

/** By the chain's id and the factory. */
const ROUTERS: ReadonlyMap<string, ReleasedRouter> = new Map(
  RELEASED.map(([chainId, factory, router, form]) => [`${chainId} ${factory}`, { address: toAddress(router), form }]),
);

/** The router that its exchange has released for a pool; undefined if none is known. */
export const releasedRouter = (chainId: number, { factory }: Pool): ReleasedRouter | undefined =>
  ROUTERS.get(`${chainId} ${factory}`);

const SELLS: Readonly<Record<SaleForm, string>> = {
  path: selectorOf("swapExactTokensForTokensSupportingFeeOnTransferTokens(uint256,uint256,address[],address,uint256)"),
  "single with deadline": selectorOf(
    "exactInputSingle((address,address,uint24,address,uint256,uint256,uint256,uint160))",
  ),
  single: selectorOf("exactInputSingle((address,address,uint24,address,uint256,uint256,uint160))"),
};

/** The call data of a sale by this router, at any price and at any time. */
export function routerSale(
  { form }: ReleasedRouter,
  { pool, input, output }: { readonly pool: Pool; readonly input: Address; readonly output: Address },
  { amount, to }: { readonly amount: bigint; readonly to: Address },
): string {
  const pair = [addressWord(input), addressWord(output)];
  const [units, noBound, noDeadline] = [signedWord(amount), wordOf(0), "f".repeat(64)];
  if (form === "path") {
    const path = [wordOf(pair.length), ...pair];
    return [SELLS[form], units, noBound, wordOf(5 * 32), addressWord(to), noDeadline, ...path].join("");
  }
  const deadline = form === "single" ? [] : [noDeadline];
  return [SELLS[form], ...pair, wordOf(pool.fee), addressWord(to), ...deadline, units, noBound, noBound].join("");
}
