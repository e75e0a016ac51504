/**
 * Well-known names of contracts that answer neither `name()` nor `symbol()`. A contract's own answer takes precedence,
 * and so does the operator's list.
 */
import { type Address, toAddress } from "../../core/hex.ts";
import type { ContractNames } from "./name-list.ts";

interface KnownName extends ContractNames {
  /** Chain ids. */
  readonly chains: readonly number[];
  readonly address: Address;
  /** Public page with the address and the name. */
  readonly source: string;
}

export const KNOWN_NAMES: readonly KnownName[] = [
  {
    // If the contract answers, its own name is CRYPTOPUNKS.
    name: "CryptoPunks",
    symbol: "Ͼ",
    chains: [1],
    address: toAddress("0xb47e3cd837ddf8e4c57f05d70ab865de6e193bbb"),
    source: "https://github.com/larvalabs/cryptopunks",
  },
  {
    name: "Ethereum Name Service",
    symbol: "ENS",
    // The base registrar of .eth has one address on mainnet and Sepolia.
    chains: [1, 11155111],
    address: toAddress("0x57f1887a8bf19b14fc0df6fd9b2acc9af147ea85"),
    source: "https://docs.ens.domains/learn/deployments",
  },
];

const NAMES = new Map(KNOWN_NAMES.flatMap((known) => known.chains.map((id) => [`${id}/${known.address}`, known])));

/** The built-in name of a contract, if there is one. */
export const knownName = (chainId: number, address: Address): ContractNames | undefined =>
  NAMES.get(`${chainId}/${address}`);
