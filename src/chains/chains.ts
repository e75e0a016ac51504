/**
 * The chains that a process knows: identity, coins, stablecoins, timing and default endpoints. Built in are the twelve
 * of the contract and those of today, from `chains.json`; the operator may add to them. Every address is lower case. The
 * sources are packages and public repositories; no fact was read from a live node.
 */

import { type Address, type Hash, ZERO_ADDRESS } from "../core/hex.ts";
import builtIn from "./chains.json" with { type: "json" };
import type { ChainEntry } from "./entry.ts";

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

/** An entry of the data, whose addresses have passed the schema. */
export interface Chain
  extends Omit<ChainEntry, "wrappedNative" | "stablecoins" | "connectors" | "multicall3" | "exchanges" | "endpoints"> {
  /** Chain id in hex, lower case. */
  readonly code: string;
  readonly wrappedNative: ChainToken;
  /** In the order of preference as the dollar, when depth doesn't decide. */
  readonly stablecoins: readonly Stablecoin[];
  /** Besides the wrapped native coin and the stablecoins, in the order of trial. */
  readonly connectors: readonly ChainToken[];
  /** Undefined if the chain has none: then calls go alone. */
  readonly multicall3?: Address;
  readonly exchanges: NonNullable<ChainEntry["exchanges"]>;
  readonly endpoints: readonly string[];
}

const chainOf = (entry: ChainEntry): Chain =>
  // The schema has checked that addresses are lower case.
  ({
    ...entry,
    code: `0x${entry.chainId.toString(16)}`,
    stablecoins: entry.stablecoins ?? [],
    connectors: entry.connectors ?? [],
    exchanges: entry.exchanges ?? [],
    endpoints: entry.endpoints ?? [],
  }) as unknown as Chain;

/** In the order of the contract's table, then those of today; the first is the default. */
export const CHAINS: readonly Chain[] = (builtIn as unknown as readonly ChainEntry[]).map(chainOf);

export const DEFAULT_CHAIN: Chain = CHAINS[0]!;

/** Multicall3, at the same address on almost every chain. */
export const MULTICALL3 = DEFAULT_CHAIN.multicall3!;

/** Addresses of the chains' block explorers without a slash at the end, by name, alias and code. */
export const explorersOf = (chains: readonly Chain[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    chains.flatMap(({ name, aliases = [], code, explorer = "" }) =>
      /^https?:/.test(explorer) ? [name, ...aliases, code].map((one) => [one, explorer.replace(/\/+$/, "")]) : [],
    ),
  );

/** The chains that the contract lists. */
export const CONTRACT_CHAINS: readonly Chain[] = CHAINS.slice(0, 12);

/**
 * A development chain of any id. Its own id keeps its streams apart from those of every real chain, whatever the node
 * says; once the node has said its id, that names the chain, too, unless another chain has it.
 */
export const LOCAL_CHAIN = "local";
const LOCAL: ChainEntry = {
  name: LOCAL_CHAIN,
  chainId: Number.MAX_SAFE_INTEGER,
  native: { name: "Ether", symbol: "ETH", decimals: 18 },
  wrappedNative: { symbol: "WETH", address: `0x${"0".repeat(40)}`, decimals: 18 },
  multicall3: "0xca11bde05977b3631167028862be2a173976ca11",
  blockSeconds: 1,
  finalityDepth: 64,
};

/** Ids of development chains, above every real chain's: 48 bits of the genesis block's hash follow. */
const LOCAL_IDS = 2 ** 52;

interface ChainsOptions {
  /** The operator's. One with the name of a built-in chain takes its place. */
  readonly added?: readonly ChainEntry[];
  /** True with a development chain. */
  readonly hasLocal?: boolean;
}

/** The chains that a process knows, and which of them are enabled. */
export class Chains {
  #all: readonly Chain[] = [];
  #byId = new Map<number, Chain>();
  #bySelector = new Map<string, Chain>();
  /** Names of the enabled chains; undefined until the configuration is read. */
  #enabled: ReadonlySet<string> | undefined;

  constructor({ added = [], hasLocal = false }: ChainsOptions = {}) {
    const own = [...(hasLocal && !added.some(({ name }) => name === LOCAL_CHAIN) ? [LOCAL] : []), ...added];
    const byName = new Map(own.map((entry) => [entry.name, chainOf(asLocal(entry))]));
    this.#install([...CHAINS.map((chain) => byName.get(chain.name) ?? chain), ...[...byName.values()].filter(isNew)]);
  }

  #install(chains: readonly Chain[]): void {
    this.#all = chains;
    this.#byId = new Map(chains.map((chain) => [chain.chainId, chain]));
    this.#bySelector = new Map(chains.flatMap((chain) => selectorsOf(chain).map((text) => [text, chain] as const)));
  }

  /** Every chain, whether it is enabled or not. */
  get all(): readonly Chain[] {
    return this.#all;
  }

  /** The chain of a request that names none: an operator's entry may have taken the place of the built-in one. */
  get default(): Chain {
    return this.#all[0]!;
  }

  /** True if the contract lists the chain, also where an operator's entry has taken the place of the built-in one. */
  isInContract(chain: Chain): boolean {
    return this.#all.slice(0, CONTRACT_CHAINS.length).includes(chain);
  }

  /** The chains that messages and documents name: the contract's first, then the others that are enabled. */
  get named(): readonly Chain[] {
    return this.#all.filter((chain, at) => at < CONTRACT_CHAINS.length || this.#enabled?.has(chain.name) !== false);
  }

  /**
   * The chain with this name (`eth`, `bsc testnet`), alias (`op`) or id (`0x1`, `0xA86A`, `1`, `eip155:1`), in any case; else
   * undefined.
   */
  parse(text: string): Chain | undefined {
    return this.#bySelector.get(text.toLowerCase());
  }

  /** The chain with this id; undefined if it is not known. */
  byId(chainId: number): Chain | undefined {
    return this.#byId.get(chainId);
  }

  /** The name of the chain with this id; the id if it is not known. */
  nameOf(chainId: number): string {
    return this.#byId.get(chainId)?.name ?? String(chainId);
  }

  /** Says which chains are enabled, so that messages name no others beside the contract's. */
  enable(chains: readonly Chain[]): void {
    this.#enabled = new Set(chains.map(({ name }) => name));
  }

  /** Says that a chain is not enabled, and which ones are. */
  notEnabledText({ name }: Chain): string {
    const others = this.#all.filter((chain) => this.#enabled?.has(chain.name)).map((chain) => chain.name);
    const which = others.length === 0 ? "" : `; enabled: ${others.join(", ")}`;
    return `chain ${name} is not enabled on this server${which}`;
  }

  /**
   * Gives the development chain an id of its genesis block, so that one that began anew has streams of its own. Returns the
   * chain; undefined if there is none.
   */
  placeLocal(genesis: Hash): Chain | undefined {
    const local = this.#all.find(({ name }) => name === LOCAL_CHAIN);
    if (local === undefined) return undefined;
    const chainId = LOCAL_IDS + Number.parseInt(genesis.slice(2, 14), 16);
    const placed: Chain = { ...local, chainId, code: `0x${chainId.toString(16)}` };
    this.#install(this.#all.map((chain) => (chain.name === LOCAL_CHAIN ? placed : chain)));
    return placed;
  }

  /** Has the node's own id name the development chain. */
  nameLocal(nodeId: number): void {
    const local = this.#all.find(({ name }) => name === LOCAL_CHAIN);
    const ids = idsOf(nodeId);
    if (local !== undefined && !ids.some((id) => this.#bySelector.has(id)))
      for (const id of ids) this.#bySelector.set(id, local);
  }
}

/** An operator's facts of the development chain keep its own id. */
const asLocal = (entry: ChainEntry): ChainEntry =>
  entry.name === LOCAL_CHAIN ? { ...entry, chainId: LOCAL.chainId } : entry;

/** Why an operator's entry can't be: its id or another name is a built-in chain's; undefined if it can. */
export function takenBy({ name, aliases = [], chainId }: ChainEntry): string | undefined {
  for (const chain of CHAINS) {
    if (chain.name === name) continue;
    if (chain.chainId === chainId && name !== LOCAL_CHAIN) return `chainId: ${chainId} is ${chain.name}'s`;
    const word = [name, ...aliases].find((text) => selectorsOf(chain).includes(text));
    if (word !== undefined) return `${word}: is a name of the built-in chain ${chain.name}`;
  }
  return undefined;
}

const isNew = ({ name }: Chain): boolean => CHAINS.every((chain) => chain.name !== name);

/** Every text that names a chain, lower case: name, aliases, and its id in hex, in decimal and by CAIP-2. */
const selectorsOf = (chain: Pick<ChainEntry, "name" | "aliases" | "chainId">): readonly string[] => [
  ...[chain.name, ...(chain.aliases ?? [])],
  ...idsOf(chain.chainId),
];

/** The id of a chain as texts: `0x1`, `1`, `eip155:1` (chainagnostic.org/CAIPs/caip-2). */
const idsOf = (chainId: number): readonly string[] => [`0x${chainId.toString(16)}`, `${chainId}`, `eip155:${chainId}`];

/** The stablecoins that still stand for one dollar at a time, in Unix seconds. */
export function dollarsAt(chain: Chain, timestamp: number): readonly Stablecoin[] {
  return chain.stablecoins.filter((coin) => coin.pegLostAt === undefined || timestamp < coin.pegLostAt);
}

const NATIVE_PLACEHOLDERS = [`0x${"e".repeat(40)}`, ZERO_ADDRESS] as readonly string[];

/**
 * The token by which an address is priced: the wrapped coin for a placeholder of the native coin, else the address itself.
 * Placeholders are addresses that clients write where a token is asked for: 0xeeee…eeee (ERC-7528,
 * eips.ethereum.org/EIPS/eip-7528), the zero address, and those of the chain's entry.
 */
export function pricedToken({ nativePlaceholders = [], wrappedNative }: Chain, address: Address): Address {
  const isPlaceholder = NATIVE_PLACEHOLDERS.includes(address) || nativePlaceholders.includes(address);
  // A development chain may have no wrapped coin.
  return isPlaceholder && wrappedNative.address !== ZERO_ADDRESS ? wrappedNative.address : address;
}
