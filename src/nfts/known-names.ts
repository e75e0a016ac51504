/**
 * Names of contracts that answer neither `name()` nor `symbol()`, as they are known. What a contract says itself goes
 * before them, and so does the operator's list.
 */
import { type Address, toAddress } from "../core/hex.ts";
import type { ContractNames } from "./name-list.ts";

interface KnownName extends ContractNames {
  /** Chain ids. */
  readonly chains: readonly number[];
  readonly address: Address;
  /** Where the address and the name are told in public. */
  readonly source: string;
}

export const KNOWN_NAMES: readonly KnownName[] = [
  {
    // Where its code answers, it says CRYPTOPUNKS itself.
    name: "CryptoPunks",
    symbol: "Ͼ",
    chains: [1],
    address: toAddress("0xb47e3cd837ddf8e4c57f05d70ab865de6e193bbb"),
    source: "https://github.com/larvalabs/cryptopunks",
  },
  {
    name: "Ethereum Name Service",
    symbol: "ENS",
    // The base registrar of .eth, at one address on main and test networks.
    chains: [1, 11155111],
    address: toAddress("0x57f1887a8bf19b14fc0df6fd9b2acc9af147ea85"),
    source: "https://docs.ens.domains/learn/deployments",
  },
];

const NAMES = new Map(KNOWN_NAMES.flatMap((known) => known.chains.map((id) => [`${id}/${known.address}`, known])));

/** The name that ships for a contract. */
export const knownName = (chainId: number, address: Address): ContractNames | undefined =>
  NAMES.get(`${chainId}/${address}`);
