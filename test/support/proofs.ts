/** Contracts of every kind that proofs are made of, each with tokens, and a prover over a local chain. */
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, placeCode, transact } from "../../scripts/local-chain/contracts.ts";
import { CHAINS, type Chain } from "../../src/chains/chains.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { Prover } from "../../src/proof/prover.ts";
import { RunThread } from "../../src/proof/run-thread.ts";
import type { StateDocument, StateKind } from "../../src/proof/verifier/document.ts";
import type { OwnerView } from "../../src/proof/verifier/token-claims.ts";
import { DecodePool } from "../../src/rpc/decode/decode-pool.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import { EndpointProvider } from "../../src/rpc/endpoint/provider.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";

/** A prover whose endpoint counts requests over HTTP. */
export interface TestProver {
  readonly prover: Prover;
  readonly reader: RpcChainReader;
  /** Requests since the last call of this. */
  requests(): number;
  close(): void;
}

export function proverOver(url: string, chain: Chain = CHAINS[0] as Chain): TestProver {
  let requests = 0;
  const decoder = new DecodePool(1);
  const limits = { timeoutMs: 60_000, maxBytes: 2 ** 26 };
  const endpoint = new EndpointProvider({
    ...{ url, label: "eth#1", chainId: chain.chainId, ...limits, clock: systemClock, decoder },
    onRequest: () => requests++,
  });
  const pool = new EndpointPool({ chain: chain.name, endpoints: [endpoint], clock: systemClock });
  const facts = { chainId: chain.chainId, multicall: undefined, finalityDepth: 5, depthIsSet: true };
  const reader = new RpcChainReader({ ...facts, pool });
  const thread = new RunThread(systemClock);
  return {
    prover: new Prover({ chain, reader, thread }),
    reader,
    requests() {
      const made = requests;
      requests = 0;
      return made;
    },
    close() {
      thread.close();
      pool.close();
      decoder.close();
    },
  };
}

/** Something to prove, and what must come of it. */
export interface ProofCase {
  /** The kind of contract. */
  readonly name: string;
  readonly kind: StateKind;
  readonly subject: { readonly contract: Address; readonly tokenId: string } & Readonly<Record<string, string>>;
  readonly result: StateDocument["result"];
}

const lower = (address: string): Address => address.toLowerCase() as Address;

/** Tokens of a contract. */
interface Owned {
  readonly name: string;
  readonly address: string;
  readonly view?: OwnerView;
  /** By token. */
  readonly owners: Readonly<Record<string, string | null>>;
}

const ownerCases = ({ name, address, owners, view = "ownerOf(uint256)" }: Owned): ProofCase[] =>
  Object.entries(owners).map(([tokenId, owner]) => ({
    ...{ name, kind: "owner" as const, subject: { contract: lower(address), tokenId, view } },
    result: { owner: owner === null ? null : lower(owner) },
  }));

/** Slots that the far token of a 721A reads back. */
export const FAR_TOKENS = 300;

/** A local chain with contracts of every kind, and what is to be proven of them at its head. */
export interface ProofWorld {
  readonly anvil: Anvil;
  readonly cases: readonly ProofCase[];
  /** `UnprovableNft`, whose tokens depend on what no proof is about. */
  readonly unprovable: Deployed;
  /** `LyingNft`, which gives its only token, 1, to another owner than its log. */
  readonly liar: Deployed;
  stop(): Promise<void>;
}

/**
 * @param many tokens that are minted in one contract of each of two kinds, for many proofs
 * @param far slots that the far token of a 721A reads back
 */
export async function startProofWorld(many = 0, far = FAR_TOKENS): Promise<ProofWorld> {
  const anvil = await startAnvil();
  const cases = [
    ...(await singles(anvil, many, far)),
    ...(await proxies(anvil)),
    ...(await others(anvil)),
    ...(await amounts(anvil)),
  ];
  const callee = `0x${"0c".repeat(20)}`;
  // An opcode that no fork has.
  await placeCode(anvil, callee, "0x0c");
  const unprovable = await made(anvil, "UnprovableNft", [callee]);
  for (let id = 1; id <= 7; id++) await transact(anvil, unprovable.contract, "mint", [anvil.accounts[1], id]);
  const liar = await made(anvil, "LyingNft");
  await transact(anvil, liar.contract, "mint", [anvil.accounts[1], anvil.accounts[2], 1]);
  return { anvil, cases, unprovable, liar, stop: () => anvil.stop() };
}

const made = async (anvil: Anvil, name: string, args: readonly unknown[] = []): Promise<Deployed> =>
  deploy(anvil, await contractArtifact(name), args);

/** OpenZeppelin's ERC-721, ERC-721A near and far, CryptoKitties, CryptoPunks and MoonCats. */
async function singles(anvil: Anvil, many: number, far: number): Promise<ProofCase[]> {
  const [, one, other] = anvil.accounts as [string, string, string];
  const plain = await made(anvil, "PlainNft", ["Plain", "PLN"]);
  await transact(anvil, plain.contract, "mintMany", [one, 1, Math.max(20, many)]);
  await transact(anvil, plain.contract, "mint", [other, 100_000]);
  await transact(anvil, plain.contract, "burn", [2]);
  const batch = await made(anvil, "BatchNft", ["Batch", "BAT"]);
  await transact(anvil, batch.contract, "mint", [one, far]);
  await transact(anvil, batch.contract, "mint", [other, Math.max(20, many)]);
  const kitties = await made(anvil, "Kitties");
  await transact(anvil, kitties.contract, "breed", [one, 2]);
  const punks = await made(anvil, "Punks");
  await transact(anvil, punks.contract, "setInitialOwner", [one, 7]);
  const cats = await made(anvil, "MoonCats");
  await transact(anvil, cats.contract, "adoptGenesisCat", [one, "0xff00000ca7"]);
  const more = Array.from({ length: many }, (_, at) => at);
  return [
    ...ownerCases({
      ...{ name: "ERC721", address: plain.address },
      owners: { 1: one, 100000: other, 2: null, ...Object.fromEntries(more.slice(2).map((at) => [at + 1, one])) },
    }),
    ...ownerCases({
      ...{ name: "ERC721A", address: batch.address },
      owners: { 0: one, ...Object.fromEntries(more.map((at) => [far + at, other])) },
    }),
    ...ownerCases({ name: "ERC721A, far", address: batch.address, owners: { [far - 1]: one } }),
    ...ownerCases({ name: "CryptoKitties", address: kitties.address, owners: { 1: one } }),
    ...ownerCases({
      ...{ name: "CryptoPunks", address: punks.address, view: "punkIndexToAddress(uint256)" },
      owners: { 7: one },
    }),
    ...ownerCases({
      ...{ name: "MoonCats", address: cats.address, view: "catOwners(bytes5)" },
      owners: { [0xff00000ca7]: one },
    }),
  ];
}

/** Proxies of three kinds, and a diamond. */
async function proxies(anvil: Anvil): Promise<ProofCase[]> {
  const [, one] = anvil.accounts as [string, string];
  const artifact = await contractArtifact("ProxiedNft");
  const implementation = await made(anvil, "ProxiedNft");
  const begin = implementation.contract.interface.encodeFunctionData("initialize", ["Proxied", "PRX"]);
  const erc1967 = await made(anvil, "NftProxy", [implementation.address, begin]);
  const beacon = await made(anvil, "NftBeacon", [implementation.address]);
  const beaconProxy = await made(anvil, "BeaconNft", [beacon.address]);
  const factory = await made(anvil, "CloneFactory");
  const { logs } = await transact(anvil, factory.contract, "make", [implementation.address]);
  const clone = `0x${logs[0]?.data.slice(26)}`;
  const facet = await made(anvil, "TokenFacet");
  const diamond = await made(anvil, "DiamondNft");
  const selectors = ["mint", "ownerOf", "supportsInterface"].map(
    (name) => facet.contract.getFunction(name).fragment.selector,
  );
  await transact(anvil, diamond.contract, "cut", [selectors, facet.address]);
  const places = { "ERC-1967 proxy": erc1967.address, "beacon proxy": beaconProxy.address, "minimal proxy": clone };
  for (const address of Object.values(places)) {
    await transact(anvil, contractAt(anvil, address, artifact.abi), "mint", [one, 1]);
  }
  const { abi } = await contractArtifact("TokenFacet");
  await transact(anvil, contractAt(anvil, diamond.address, abi), "mint", [one, 1]);
  return Object.entries({ ...places, diamond: diamond.address }).flatMap(([name, address]) =>
    ownerCases({ name, address, owners: { 1: one, 9: null } }),
  );
}

/** Contracts whose owner depends on the time, on another contract or on a balance. */
async function others(anvil: Anvil): Promise<ProofCase[]> {
  const [, one, other] = anvil.accounts as [string, string, string];
  const names = await made(anvil, "ExpiringNames");
  await transact(anvil, names.contract, "register", [one, 1, 2n ** 40n]);
  await transact(anvil, names.contract, "register", [one, 2, 1]);
  const elsewhere = await made(anvil, "OwnersElsewhere", [names.address]);
  await transact(anvil, elsewhere.contract, "announce", [one, 1]);
  const rotating = await made(anvil, "RotatingNft");
  // Whoever's turn it is, the owner is the same.
  await transact(anvil, rotating.contract, "mint", [one, one, 1]);
  const fractional = await made(anvil, "Fractional404");
  await transact(anvil, fractional.contract, "mint", [other, 1]);
  return [
    ...ownerCases({ name: "expiring names", address: names.address, owners: { 1: one, 2: null } }),
    ...ownerCases({ name: "owners in another contract", address: elsewhere.address, owners: { 1: one } }),
    ...ownerCases({ name: "owner by time", address: rotating.address, owners: { 1: one } }),
    ...ownerCases({ name: "ERC-404", address: fractional.address, owners: { 1: other } }),
  ];
}

/** ERC-1155 and ERC-6909. */
async function amounts(anvil: Anvil): Promise<ProofCase[]> {
  const [, one, other] = anvil.accounts as [string, string, string];
  const multi = await made(anvil, "MultiToken", ["Multi", "MUL", ""]);
  await transact(anvil, multi.contract, "mint", [one, 1, 15]);
  const claims = await made(anvil, "Claims");
  await transact(anvil, claims.contract, "mint", [one, 1, 3]);
  return Object.entries({ ERC1155: multi, ERC6909: claims }).flatMap(([name, { address }]) =>
    [one, other].map((owner) => ({
      ...{ name, kind: "amount" as const },
      subject: { contract: lower(address), tokenId: "1", owner: lower(owner) },
      result: { amount: owner === other ? "0" : name === "ERC1155" ? "15" : "3" },
    })),
  );
}
