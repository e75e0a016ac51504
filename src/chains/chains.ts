/**
 * The twelve chains of the contract: identity, coins, stablecoins, timing and default endpoints. Pure data with
 * selectors. Every address is lower case. The sources are packages (viem, @uniswap/sdk-core,
 * @uniswap/default-token-list, @pancakeswap/*), named beside each fact in the project's chain table; no fact was read
 * from a live node.
 */

import { AppError } from "../core/errors.ts";
import { type Address, toAddress } from "../core/hex.ts";

interface Coin {
  /** The coin's name in price answers. */
  readonly name: string;
  readonly symbol: string;
  readonly decimals: number;
}

export interface ChainToken {
  readonly symbol: string;
  readonly address: Address;
  /** The issuer's data. The contract's own answer wins if it was read. */
  readonly decimals: number;
}

export interface Stablecoin extends ChainToken {
  /** Unix seconds from which the token no longer stands for one dollar. */
  readonly pegLostAt?: number;
}

/** The facts of one chain, as its entry states them. */
interface ChainFacts {
  readonly name: string;
  readonly chainId: number;
  readonly native: Coin;
  readonly wrappedNative: ChainToken;
  /** In the order of preference as the dollar, when depth doesn't decide. */
  readonly stablecoins: readonly Stablecoin[];
  /** Seconds between blocks, now or when the chain last moved. */
  readonly blockSeconds: number;
  /** Blocks after which a block is final if the node has no `finalized` tag. */
  readonly finalityDepth: number;
  /** Published public endpoints. The operator replaces them by `RPC_URL_<CHAIN>`. */
  readonly endpoints: readonly string[];
}

/** Multicall3, at the same address on every chain. */
export const MULTICALL3 = toAddress("0xca11bde05977b3631167028862be2a173976ca11");

/** 2023-07-06T00:00:00Z: the bridge behind Fantom's Multichain tokens was drained. */
const PEG_LOST = 1_688_601_600;

const token = (symbol: string, address: string, decimals: number): ChainToken => ({
  symbol,
  address: toAddress(address),
  decimals,
});

const stable = (symbol: string, address: string, decimals: number, pegLostAt?: number): Stablecoin => ({
  ...token(symbol, address, decimals),
  ...(pegLostAt === undefined ? {} : { pegLostAt }),
});

const FACTS = [
  {
    name: "eth",
    chainId: 1,
    native: { name: "Ether", symbol: "ETH", decimals: 18 },
    wrappedNative: token("WETH", "0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2", 18),
    stablecoins: [
      stable("USDC", "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", 6),
      stable("USDT", "0xdac17f958d2ee523a2206206994597c13d831ec7", 6),
      stable("DAI", "0x6b175474e89094c44da98b954eedeac495271d0f", 18),
    ],
    blockSeconds: 12,
    finalityDepth: 64,
    endpoints: ["https://eth.merkle.io"],
  },
  {
    name: "goerli",
    chainId: 5,
    native: { name: "Ether", symbol: "ETH", decimals: 18 },
    wrappedNative: token("WETH", "0xb4fbf271143f4fbf7b91a5ded31805e42b2208d6", 18),
    stablecoins: [stable("USDC", "0x07865c6e87b9f70255377e024ace6630c1eaa37f", 6)],
    blockSeconds: 12,
    finalityDepth: 64,
    endpoints: ["https://5.rpc.thirdweb.com"],
  },
  {
    name: "sepolia",
    chainId: 11155111,
    native: { name: "Ether", symbol: "ETH", decimals: 18 },
    wrappedNative: token("WETH", "0xfff9976782d46cc05630d1f6ebab18b2324d6b14", 18),
    stablecoins: [stable("USDC", "0x1c7d4b196cb0c7b01d743fbc6116a902379c7238", 6)],
    blockSeconds: 12,
    finalityDepth: 64,
    endpoints: ["https://sepolia.drpc.org"],
  },
  {
    name: "polygon",
    chainId: 137,
    native: { name: "Matic", symbol: "POL", decimals: 18 },
    wrappedNative: token("WMATIC", "0x0d500b1d8e8ef31e21c99d1db9a6444d3adf1270", 18),
    stablecoins: [
      stable("USDC", "0x3c499c542cef5e3811e1192ce70d8cc03d5c3359", 6),
      stable("USDC.e", "0x2791bca1f2de4661ed88a30c99a7a9449aa84174", 6),
      stable("USDT", "0xc2132d05d31c914a87c6611c10748aeb04b58e8f", 6),
      stable("DAI", "0x8f3cf7ad23cd3cadbd9735aff958023239c6a063", 18),
    ],
    blockSeconds: 2,
    finalityDepth: 256,
    endpoints: ["https://polygon-rpc.com"],
  },
  {
    name: "mumbai",
    chainId: 80001,
    native: { name: "Matic", symbol: "MATIC", decimals: 18 },
    wrappedNative: token("WMATIC", "0x9c3c9283d3e44854697cd22d3faa240cfb032889", 18),
    stablecoins: [],
    blockSeconds: 2,
    finalityDepth: 256,
    endpoints: ["https://80001.rpc.thirdweb.com"],
  },
  {
    name: "bsc",
    chainId: 56,
    native: { name: "Binance Coin", symbol: "BNB", decimals: 18 },
    wrappedNative: token("WBNB", "0xbb4cdb9cbd36b01bd1cbaebf2de08d9173bc095c", 18),
    stablecoins: [
      stable("USDT", "0x55d398326f99059ff775485246999027b3197955", 18),
      stable("USDC", "0x8ac76a51cc950d9822d68b83fe1ad97b32cd580d", 18),
      stable("BUSD", "0xe9e7cea3dedca5984780bafc599bd69add087d56", 18),
      stable("DAI", "0x1af3f329e8be154074d8769d1ffa4ee058b1dbc3", 18),
    ],
    blockSeconds: 0.45,
    finalityDepth: 32,
    endpoints: ["https://56.rpc.thirdweb.com"],
  },
  {
    name: "bsc testnet",
    chainId: 97,
    native: { name: "Binance Coin", symbol: "tBNB", decimals: 18 },
    wrappedNative: token("WBNB", "0xae13d989dac2f0debff460ac112a837c89baa7cd", 18),
    stablecoins: [
      stable("BUSD", "0xab1a4d4f1d656d2450692d237fdd6c7f9146e814", 18),
      stable("USDC", "0x64544969ed7ebf5f083679233325356ebe738930", 18),
      stable("USDT", "0x0fb5d7c73fa349a90392f873a4fa1ecf6a3d0a96", 18),
    ],
    blockSeconds: 0.45,
    finalityDepth: 32,
    endpoints: ["https://data-seed-prebsc-1-s1.bnbchain.org:8545"],
  },
  {
    name: "avalanche",
    chainId: 43114,
    native: { name: "Avalanche", symbol: "AVAX", decimals: 18 },
    wrappedNative: token("WAVAX", "0xb31f66aa3c1e785363f0875a1b74e27b85fd66c7", 18),
    stablecoins: [
      stable("USDC", "0xb97ef9ef8734c71904d8002f8b6bc66dd9c48a6e", 6),
      stable("USDT", "0x9702230a8ea53601f5cd2dc00fdbc13d4df4a8c7", 6),
      stable("USDC.e", "0xa7d7079b0fead91f3e65f86e8915cb59c1a4c664", 6),
      stable("DAI.e", "0xd586e7f844cea2f87f50152665bcbc2c279d8d70", 18),
    ],
    blockSeconds: 1.7,
    finalityDepth: 16,
    endpoints: ["https://api.avax.network/ext/bc/C/rpc"],
  },
  {
    name: "fantom",
    chainId: 250,
    native: { name: "Fantom", symbol: "FTM", decimals: 18 },
    wrappedNative: token("WFTM", "0x21be370d5312f44cb42ce377bc9b8a0cef1a4c83", 18),
    stablecoins: [
      stable("USDC (Multichain)", "0x04068da6c83afcfa0e13ba15a6696662335d5b75", 6, PEG_LOST),
      stable("fUSDT (Multichain)", "0x049d68029688eabf473097a2fc38ef61633a3c7a", 6, PEG_LOST),
      stable("DAI (Multichain)", "0x8d11ec38a3eb5e956b052f67da8bdc9bef8abf3e", 18, PEG_LOST),
      stable("axlUSDC", "0x1b6382dbdea11d97f24495c9a90b7c88469134a4", 6),
      stable("USDC (Stargate/LayerZero)", "0x28a92dde19d9989f39a49905d7c9c2fac7799bdf", 6),
      stable("USDT (Stargate/LayerZero)", "0xcc1b99ddac1a33c201a742a1851662e87bc7f22c", 6),
    ],
    blockSeconds: 1,
    finalityDepth: 16,
    endpoints: ["https://250.rpc.thirdweb.com"],
  },
  {
    name: "palm",
    chainId: 11297108109,
    native: { name: "PALM", symbol: "PALM", decimals: 18 },
    wrappedNative: token("WPALM", "0xf98cabf0a963452c5536330408b2590567611a71", 18),
    stablecoins: [stable("DAI", "0x4c1f6fcbd233241bf2f4d02811e3bf8429bc27b8", 18)],
    blockSeconds: 5 /* not confirmed */,
    finalityDepth: 64,
    endpoints: ["https://palm-mainnet.public.blastapi.io", "wss://palm-mainnet.public.blastapi.io"],
  },
  {
    name: "cronos",
    chainId: 25,
    native: { name: "Cronos", symbol: "CRO", decimals: 18 },
    wrappedNative: token("WCRO", "0x5c7f8a570d578ed84e63fdfa7b1ee72deae1ae23", 18),
    stablecoins: [
      stable("USDC", "0xc21223249ca28397b4b6541dffaecc539bff0c59", 6),
      stable("USDT", "0x66e428c3f67a68878562e79a0234c1f83c208770", 6),
      stable("DAI", "0xf2001b145b43032aaf5ee2884e456ccd805f677d", 18),
    ],
    blockSeconds: 5.6,
    finalityDepth: 16,
    endpoints: ["https://evm.cronos.org"],
  },
  {
    name: "arbitrum",
    chainId: 42161,
    native: { name: "Ether", symbol: "ETH", decimals: 18 },
    wrappedNative: token("WETH", "0x82af49447d8a07e3bd95bd0d56f35241523fbab1", 18),
    stablecoins: [
      stable("USDC", "0xaf88d065e77c8cc2239327c5edb3a432268e5831", 6),
      stable("USDC.e", "0xff970a61a04b1ca14834a43f5de4533ebddb5cc8", 6),
      stable("USDT", "0xfd086bc7cd5c481dcc9c85ebe478a1c0b69fcbb9", 6),
      stable("DAI", "0xda10009cbd5d07dd0cecc66161fc93d7c9000da1", 18),
    ],
    blockSeconds: 0.25,
    finalityDepth: 2400,
    endpoints: ["https://arb1.arbitrum.io/rpc"],
  },
] as const satisfies readonly ChainFacts[];

export type ChainName = (typeof FACTS)[number]["name"];

export interface Chain extends ChainFacts {
  readonly name: ChainName;
  /** Chain id in hex, lower case. */
  readonly code: string;
}

/** In the order of the contract's table; the first is the default. */
export const CHAINS: readonly Chain[] = FACTS.map((facts) => ({ ...facts, code: `0x${facts.chainId.toString(16)}` }));

export const DEFAULT_CHAIN: Chain = CHAINS[0]!;

const BY_SELECTOR: ReadonlyMap<string, Chain> = new Map(
  CHAINS.flatMap((chain): [string, Chain][] => [
    [chain.name, chain],
    [chain.code, chain],
  ]),
);
const BY_ID: ReadonlyMap<number, Chain> = new Map(CHAINS.map((chain) => [chain.chainId, chain]));

/** The chain with this name (`eth`, `bsc testnet`) or code (`0x1`, `0xA86A`), in any case; else undefined. */
export function parseChain(text: string): Chain | undefined {
  return BY_SELECTOR.get(text.toLowerCase());
}

/** The chain with this id; undefined if it is none of the twelve. */
export function chainById(chainId: number): Chain | undefined {
  return BY_ID.get(chainId);
}

/** The suffix of a chain's environment variables: `ETH`, `BSC_TESTNET`. */
export function envSuffix(chain: Chain): string {
  return chain.name.toUpperCase().replaceAll(" ", "_");
}

/** The stablecoins that still stand for one dollar at a time, in Unix seconds. */
export function dollarsAt(chain: Chain, timestamp: number): readonly Stablecoin[] {
  return chain.stablecoins.filter((coin) => coin.pegLostAt === undefined || timestamp < coin.pegLostAt);
}

// Price lists of RPC providers: how many units a provider counts for a call of each method. The operator may replace
// the list that is built in.

export interface PriceList {
  readonly name: string;
  /** Units per call by method. */
  readonly units: Readonly<Record<string, number>>;
  /** Units per call of any other method. */
  readonly otherwise: number;
}

/** Compute units of a large provider (alchemy.com/docs/reference/compute-unit-costs, as of 2026-11). */
export const COMPUTE_UNITS: PriceList = {
  name: "compute units",
  units: {
    eth_chainId: 0,
    net_version: 0,
    eth_blockNumber: 10,
    eth_subscribe: 10,
    eth_unsubscribe: 10,
    eth_getBlockByNumber: 20,
    eth_getBlockByHash: 20,
    eth_getBlockReceipts: 20,
    eth_getTransactionReceipt: 20,
    eth_getTransactionCount: 20,
    eth_getCode: 20,
    eth_getBalance: 20,
    eth_getStorageAt: 20,
    web3_clientVersion: 20,
    eth_call: 26,
    eth_getLogs: 60,
  },
  otherwise: 20,
};

/** Units that a provider counts for one call. */
export function unitsOf({ units, otherwise }: PriceList, method: string): number {
  return (Object.hasOwn(units, method) ? units[method] : undefined) ?? otherwise;
}

const isUnits = (value: unknown): value is number => typeof value === "number" && value >= 0 && value <= 1e9;

/**
 * Parses an operator's list: `{"name": "…", "units": {"eth_getLogs": 60}, "otherwise": 20}`.
 * @throws AppError `configuration` that says what is wrong
 */
export function parsePriceList(json: string): PriceList {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    // Falls through: undefined is no list.
  }
  const { name, units, otherwise } = (parsed ?? {}) as Partial<Record<keyof PriceList, unknown>>;
  const isList =
    typeof name === "string" &&
    name.length <= 64 &&
    isUnits(otherwise) &&
    typeof units === "object" &&
    units !== null &&
    Object.values(units).every(isUnits);
  if (!isList) {
    throw new AppError('must be JSON like {"name": "my provider", "units": {"eth_getLogs": 60}, "otherwise": 20}', {
      code: "configuration",
    });
  }
  return { name, units: units as PriceList["units"], otherwise };
}
