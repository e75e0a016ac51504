/**
 * Any of the twelve chains on anvil, with what prices need: its tokens at their addresses, and real Uniswap bytecode
 * (or the stand-in for Camelot's) at the factory of each of its exchanges. Out: functions that make pools.
 */
import v2Factory from "@uniswap/v2-core/build/UniswapV2Factory.json";
import { type Anvil, inOneBlock, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import {
  contractAt,
  deploy,
  placeCode,
  placeSlot,
  queue,
  read,
  transact,
} from "../../../scripts/local-chain/contracts.ts";
import { placeMainnet, placeV3Factory, queueFeeTiers, V3_OPERATOR } from "../../../scripts/local-chain/mainnet.ts";
import { createV2Pair, createV3Pool, fund, type Pool, sortTokens } from "../../../scripts/local-chain/pools.ts";
import { type Chain, MULTICALL3 } from "../../../src/chains/chains.ts";
import { type Deployment, exchangesOf } from "../../../src/chains/exchanges.ts";
import { referenceTokens } from "../../../src/chains/tokens.ts";
import { type Address, toAddress } from "../../../src/core/hex.ts";
import type { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { readerOf } from "./anvil.ts";

/** Factories for which `createV2Pair` places pairs itself, at the addresses that follow from the fork's own code. */
const FORKED = new Set(["0xc0aee478e3658e2610c5f7a4a2e1777ce9e4f2ac", "0x1097053fd2ea711dad45caccc45eff7548fcb362"]);
/**
 * Code for the precompile with the own block number of Arbitrum and chains like it. It returns `block.number`: NUMBER, MSTORE at 0, RETURN 32.
 */
const ARB_SYS = { address: "0x0000000000000000000000000000000000000064", code: "0x435f5260205ff3" };

/** The exchanges of a chain that can be placed at their addresses. `styles.ts` has the other styles, elsewhere. */
export const placesOf = (chain: Chain): readonly Deployment[] =>
  exchangesOf(chain).filter(({ style }) => style === "v2" || style === "v2-camelot" || style === "v3");

/** Starts the chain with all tokens and factories and no pool. `firstBlock` is the genesis block's number. */
export async function startChain(chain: Chain, { firstBlock = 0 } = {}): Promise<Anvil> {
  const anvil = await startAnvil({ chainId: chain.chainId, extraArgs: ["--number", String(firstBlock)] });
  if (chain.chainId === 1) {
    await placeMainnet(anvil);
    for (const { factory, style } of placesOf(chain)) {
      if ((await anvil.send("eth_getCode", [factory, "latest"])) !== "0x") continue;
      if (style !== "v3") await placeV2Factory(anvil, factory);
      else {
        await placeV3Factory(anvil, factory);
        await inOneBlock(anvil, () => queueFeeTiers(anvil, factory));
      }
    }
    return anvil;
  }
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  await placeCode(anvil, V3_OPERATOR, (await contractArtifact("V3Operator")).deployedBytecode);
  if (chain.name === "arbitrum" || chain.name === "robinhood") await placeCode(anvil, ARB_SYS.address, ARB_SYS.code);
  for (const { factory, style } of placesOf(chain)) {
    if (style === "v3") await placeV3Factory(anvil, factory);
    else await placeV2Factory(anvil, factory, style === "v2-camelot" ? style : "v2");
  }
  const { abi, deployedBytecode } = await contractArtifact("TestToken");
  const tokens = referenceTokens(chain);
  for (const { address } of tokens) await placeCode(anvil, address, deployedBytecode);
  await inOneBlock(anvil, async () => {
    for (const { address, symbol, decimals } of tokens) {
      await queue(anvil, contractAt(anvil, address, abi), "init", [symbol, symbol, decimals]);
    }
    for (const { factory, style } of placesOf(chain)) if (style === "v3") await queueFeeTiers(anvil, factory);
  });
  return anvil;
}

export async function placeV2Factory(anvil: Anvil, factory: Address, style: "v2" | "v2-camelot" = "v2"): Promise<void> {
  if (style === "v2-camelot" || FORKED.has(factory)) {
    const name = style === "v2-camelot" ? "CamelotFactory" : "ForkedV2Factory";
    return placeCode(anvil, factory, (await contractArtifact(name)).deployedBytecode);
  }
  await placeCode(anvil, factory, v2Factory.evm.deployedBytecode.object);
  await placeSlot(anvil, factory, 1, anvil.accounts[0]!);
}

export interface PoolAmounts {
  readonly tokenA: Address;
  readonly amountA: bigint;
  readonly tokenB: Address;
  readonly amountB: bigint;
}

/** Creates a pool of any style with these amounts. */
export function createPool(
  anvil: Anvil,
  at: Pick<Deployment, "factory" | "style">,
  amounts: PoolAmounts,
): Promise<Pool> {
  const { factory, style } = at;
  // A fee that every exchange of the style has.
  if (style === "v3") return createV3Pool(anvil, { ...amounts, factory, fee: 500 });
  return style === "v2" ? createV2Pair(anvil, { ...amounts, factory }) : createCamelotPair(anvil, factory, amounts);
}

/** Creates a pair of the stand-in for Camelot's, on the xy curve until a test sets another. */
export async function createCamelotPair(anvil: Anvil, factory: string, amounts: PoolAmounts): Promise<Pool> {
  const [token0, token1] = sortTokens(amounts.tokenA, amounts.tokenB);
  const maker = contractAt(anvil, factory, (await contractArtifact("CamelotFactory")).abi);
  await transact(anvil, maker, "createPair", [token0, token1]);
  const address = await read<string>(maker, "getPair", [token0, token1]);
  await fund(anvil, amounts.tokenA, address, amounts.amountA);
  await fund(anvil, amounts.tokenB, address, amounts.amountB);
  await transact(anvil, await camelotPair(anvil, address), "sync");
  return { address, token0, token1 };
}

export const camelotPair = async (anvil: Anvil, address: string) =>
  contractAt(anvil, address, (await contractArtifact("CamelotPair")).abi);

/** A chain with Multicall3, its reader, and a token in place of its wrapped coin. The caller stops it. */
export async function startPoolChain(): Promise<{ anvil: Anvil; reader: RpcChainReader; wrapped: Address }> {
  const anvil = await startAnvil();
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  return { anvil, reader: readerOf(anvil.url), wrapped: await newToken(anvil) };
}

/** Deploys an ordinary token, with 18 decimals by default. */
export async function newToken(anvil: Anvil, decimals = 18): Promise<Address> {
  return toAddress((await deploy(anvil, await contractArtifact("TestToken"), ["Demo", "DEMO", decimals])).address);
}

/** The price of `token` (per 1e18 units) in the other token, from the pool's state at the head. */
export async function priceIn(anvil: Anvil, pool: Pool, token: Address): Promise<{ n: bigint; d: bigint }> {
  const words = async (data: string) => {
    const returned = (await anvil.send("eth_call", [{ to: pool.address, data }, "latest"])) as string;
    return [0, 1].map((index) => BigInt(`0x${returned.slice(2 + index * 64, 66 + index * 64)}`)) as [bigint, bigint];
  };
  const isFirst = pool.token0.toLowerCase() === token;
  // slot0() on v3, getReserves() otherwise.
  const slot0 = await words("0x3850c7bd").catch(() => undefined);
  const [n, d] = slot0 === undefined ? (await words("0x0902f1ac")).reverse() : [slot0[0] ** 2n, 1n << 192n];
  return isFirst ? { n: n!, d: d! } : { n: d!, d: n! };
}
