/**
 * One contract of every kind that holds NFTs, with random calls to each: mints, transfers, burns, sales. The world
 * keeps the holdings it expects and makes valid calls for them. `refresh` sets them to the chain's state after a reorg.
 */
import { Interface } from "ethers";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy } from "../../scripts/local-chain/contracts.ts";
import type { Random } from "../../scripts/local-chain/random.ts";

export const ZERO = `0x${"00".repeat(20)}`;

export interface Call {
  readonly method: string;
  readonly args: readonly unknown[];
  readonly from?: string;
  readonly value?: bigint;
}

/** Amounts above zero by id and owner. A token with a single owner has one entry of 1. */
export type Holdings = Map<bigint, Map<string, bigint>>;

export interface Kind {
  readonly name: string;
  /** Contract types of the rows in the listing. */
  readonly types: readonly ("ERC721" | "ERC1155" | "ERC6909" | "CRYPTOPUNKS" | "MOONCATS")[];
  readonly deploy: (anvil: Anvil, people: readonly string[]) => Promise<Deployed>;
  /** The view that returns a token's owner. Undefined: the contract has balances. */
  readonly ownerView: "ownerOf" | "punkIndexToAddress" | "catOwners" | undefined;
  /** Converts an id to the view's argument, if they differ. */
  readonly idArgument?: (id: bigint) => unknown;
  /** Ids that may exist at present. */
  readonly ids: (world: World) => readonly bigint[];
  /** One random step: usually one call, sometimes two related calls. */
  readonly act: (world: World) => Call[];
}

/** A deployed contract of a kind, with its expected holdings. */
export interface World {
  readonly kind: Kind;
  readonly deployed: Deployed;
  readonly people: readonly string[];
  readonly random: Random;
  holdings: Holdings;
  /** Number of ids issued so far, for contracts that number tokens themselves. */
  minted: number;
}

const make =
  (artifact: string, args: readonly unknown[] = []) =>
  async (anvil: Anvil) =>
    deploy(anvil, await contractArtifact(artifact), args);

const numbers = (count: number, first = 0): bigint[] => Array.from({ length: count }, (_, i) => BigInt(first + i));
const FEW = numbers(24);

function set(world: World, id: bigint, owner: string | undefined): void {
  if (owner === undefined || owner === ZERO) world.holdings.delete(id);
  else world.holdings.set(id, new Map([[owner, 1n]]));
}

const ownerOf = (world: World, id: bigint): string => [...(world.holdings.get(id)?.keys() ?? [])][0] ?? ZERO;

/** Returns a token with an owner, or undefined if there is none. */
function anyToken(world: World): { id: bigint; from: string } | undefined {
  if (world.holdings.size === 0) return undefined;
  const id = world.random.pick([...world.holdings.keys()]);
  return { id, from: ownerOf(world, id) };
}

function transferOrBurn(world: World, transfer: string, burn: (id: bigint, from: string) => Call): Call[] {
  const token = anyToken(world);
  if (token === undefined) return [];
  const { id, from } = token;
  if (world.random.below(5) === 0) {
    set(world, id, undefined);
    return [burn(id, from)];
  }
  // Sometimes the owner transfers to itself.
  const to = world.random.pick([...world.people, from]);
  set(world, id, to);
  return [{ method: transfer, args: transfer === "transfer" ? [to, id] : [from, to, id], from }];
}

/** For contracts in which the caller chooses the id, so a burned id may come back. */
function actFree(world: World, batches: boolean): Call[] {
  const { random, people } = world;
  const free = world.kind.ids(world).filter((id) => !world.holdings.has(id));
  if (free.length > 0 && random.below(3) === 0) {
    const to = random.pick(people);
    const id = random.pick(free);
    if (batches && free.includes(id + 1n) && random.below(3) === 0) {
      set(world, id, to);
      set(world, id + 1n, to);
      return [{ method: "mintMany", args: [to, id, 2] }];
    }
    set(world, id, to);
    return [{ method: "mint", args: [to, id] }];
  }
  return transferOrBurn(world, "transferFrom", (burned, from) => ({ method: "burn", args: [burned], from }));
}

/** For contracts that number the ids themselves. */
function actCounted(world: World, mint: string, first: number): Call[] {
  const { random, people } = world;
  if (world.minted < 40 && random.below(3) === 0) {
    const to = random.pick(people);
    const count = 1 + random.below(4);
    for (let i = 0; i < count; i++) set(world, BigInt(first + world.minted++), to);
    return [{ method: mint, args: [to, count] }];
  }
  if (mint === "breed") {
    return transferOrBurn(world, "transfer", (id, from) => ({ method: "transfer", args: [ZERO, id], from }));
  }
  return transferOrBurn(world, "transferFrom", (id, from) => ({ method: "burn", args: [id], from }));
}

function actPunks(world: World): Call[] {
  const { random, people } = world;
  const token = anyToken(world);
  if (token === undefined || random.below(4) === 0) {
    // Another assignment may still replace an owner.
    const [id, to] = [random.pick(FEW), random.pick(people)];
    set(world, id, to);
    return [{ method: "setInitialOwner", args: [to, id] }];
  }
  const { id, from } = token;
  const to = random.pick(people.filter((person) => person !== from));
  set(world, id, to);
  switch (random.below(3)) {
    case 0:
      return [{ method: "transferPunk", args: [to, id], from }];
    case 1:
      return [
        { method: "offerPunkForSale", args: [id, 5], from },
        { method: "buyPunk", args: [id], from: to, value: 5n },
      ];
    default:
      // A bid higher than all before. When it is accepted, PunkBought lacks the buyer.
      return [
        { method: "enterBidForPunk", args: [id], from: to, value: BigInt(1 + random.below(9)) },
        { method: "acceptBidForPunk", args: [id, 0], from },
      ];
  }
}

/** Parcels around the middle of the map, with LAND's ids: x in the upper half of the word, y in the lower. */
const PARCELS = [-2n, -1n, 0n, 1n].flatMap((x) =>
  [-3n, -2n, -1n, 0n, 1n].map((y) => (BigInt.asUintN(128, x) << 128n) | BigInt.asUintN(128, y)),
);
/** Number of LAND's logics. The real contract rarely emits the old drafts' events, but here all are used repeatedly. */
const LOGICS = 5;

function actLand(world: World): Call[] {
  const { random } = world;
  const calls = actFree(world, true);
  return random.below(4) === 0 ? [{ method: "upgrade", args: [random.below(LOGICS)] }, ...calls] : calls;
}

const catId = (id: bigint): string => `0x${id.toString(16).padStart(10, "0")}`;
const CATS = numbers(20).map((n) => (n < 4n ? 0xff00000ca7n + (n << 24n) : 0x0054fc2a11n + n * 0x01000001n));

function actCats(world: World): Call[] {
  const { random, people } = world;
  const token = anyToken(world);
  const free = CATS.filter((id) => !world.holdings.has(id));
  if (token === undefined || (free.length > 0 && random.below(3) === 0)) {
    const [id, to] = [random.pick(free), random.pick(people)];
    set(world, id, to);
    const method = id >= 0xff00000000n ? "adoptGenesisCat" : "rescueCat";
    return [{ method, args: [to, catId(id)] }];
  }
  const { id, from } = token;
  // Sometimes the owner transfers to itself.
  const to = random.pick([...people, from]);
  set(world, id, to);
  if (random.below(2) === 0) return [{ method: "giveCat", args: [to, catId(id)], from }];
  return [
    { method: "makeAdoptionOffer", args: [catId(id), 7], from },
    { method: "acceptAdoptionOffer", args: [catId(id)], from: to, value: 7n },
  ];
}

function move(world: World, id: bigint, from: string, to: string, amount: bigint): void {
  const holders = world.holdings.get(id) ?? new Map<string, bigint>();
  world.holdings.set(id, holders);
  for (const [owner, change] of [
    [from, -amount],
    [to, amount],
  ] as const) {
    if (owner === ZERO) continue;
    const now = (holders.get(owner) ?? 0n) + change;
    if (now === 0n) holders.delete(owner);
    else holders.set(owner, now);
  }
}

const MULTI_IDS = numbers(8, 1);

function actMulti(world: World): Call[] {
  const { random, people } = world;
  const held = [...world.holdings].flatMap(([id, holders]) =>
    [...holders].map(([owner, amount]) => ({ id, owner, amount })),
  );
  const to = random.pick(people);
  const [a, b] = [random.pick(MULTI_IDS), random.pick(MULTI_IDS)];
  if (held.length < 6 || random.below(4) === 0) {
    if (random.below(2) === 0) {
      move(world, a, ZERO, to, 5n);
      return [{ method: "mint", args: [to, a, 5] }];
    }
    // One id twice in a batch, and an amount of zero.
    for (const [id, amount] of [
      [a, 1n],
      [b, 2n],
      [a, 3n],
    ] as const)
      move(world, id, ZERO, to, amount);
    return [
      {
        method: "mintBatch",
        args: [to, [a, b, a, b], [1, 2, 3, 0]],
      },
    ];
  }
  const { id, owner, amount } = random.pick(held);
  const part = random.below(3) === 0 ? amount : 1n + BigInt(random.below(Number(amount)));
  switch (random.below(7)) {
    case 0:
      move(world, id, owner, ZERO, part);
      return [{ method: "burn", args: [owner, id, part] }];
    case 1:
      move(world, id, owner, ZERO, amount);
      return [{ method: "burnBatch", args: [owner, [id, id], [amount, 0]] }];
    case 2:
      return [{ method: "safeTransferFrom", args: [owner, owner, id, part, "0x"], from: owner }];
    case 3:
      move(world, id, owner, to, amount);
      return [
        {
          method: "safeBatchTransferFrom",
          args: [owner, to, [id, id, a], [part, amount - part, 0], "0x"],
          from: owner,
        },
      ];
    default:
      move(world, id, owner, to, part);
      return [{ method: "safeTransferFrom", args: [owner, to, id, part, "0x"], from: owner }];
  }
}

function actClaims(world: World): Call[] {
  const { random, people } = world;
  const held = [...world.holdings].flatMap(([id, holders]) =>
    [...holders].map(([owner, amount]) => ({ id, owner, amount })),
  );
  const to = random.pick(people);
  if (held.length < 6 || random.below(4) === 0) {
    const id = random.pick(MULTI_IDS);
    move(world, id, ZERO, to, 5n);
    return [{ method: "mint", args: [to, id, 5] }];
  }
  const { id, owner, amount } = random.pick(held);
  const part = random.below(3) === 0 ? amount : 1n + BigInt(random.below(Number(amount)));
  switch (random.below(6)) {
    case 0:
      move(world, id, owner, ZERO, part);
      return [{ method: "burn", args: [owner, id, part] }];
    case 1:
      return [{ method: "transfer", args: [owner, id, part], from: owner }];
    case 2:
      return [{ method: "transfer", args: [to, id, 0], from: owner }];
    default:
      move(world, id, owner, to, part);
      return [{ method: "transfer", args: [to, id, part], from: owner }];
  }
}

async function deployProxy(anvil: Anvil): Promise<Deployed> {
  const implementation = await contractArtifact("ProxiedNft");
  const code = await deploy(anvil, implementation);
  const data = new Interface(implementation.abi).encodeFunctionData("initialize", ["Proxied", "PRX"]);
  const proxy = await deploy(anvil, await contractArtifact("NftProxy"), [code.address, data]);
  return { ...proxy, contract: contractAt(anvil, proxy.address, implementation.abi) };
}

const SINGLE = { types: ["ERC721"], ownerView: "ownerOf" } as const;
const free = (name: string, args: readonly unknown[] = []): Kind => ({
  name,
  ...SINGLE,
  deploy: make(name, args),
  ids: () => FEW,
  act: (world) => actFree(world, true),
});

/** Number of ids that the constructor announces by ERC-2309. */
const CONSECUTIVE = 150;

export const KINDS: readonly Kind[] = [
  free("PlainNft", ["Plain", "PLN"]),
  free("BareNft"),
  free("ThreeTopicNft"),
  free("Bytes32Nft"),
  { ...free("Hybrid"), types: ["ERC721", "ERC1155"] },
  { ...free("ClaimHybrid"), types: ["ERC721", "ERC6909"] },
  { ...free("NftProxy"), deploy: deployProxy, act: (world) => actFree(world, false) },
  {
    name: "BatchNft",
    ...SINGLE,
    deploy: make("BatchNft", ["Batch", "BAT"]),
    ids: (world) => numbers(world.minted),
    act: (world) => actCounted(world, "mint", 0),
  },
  {
    name: "ConsecutiveNft",
    ...SINGLE,
    deploy: async (anvil, people) => make("ConsecutiveNft", ["Con", "CON", people[0], CONSECUTIVE])(anvil),
    ids: (world) => numbers(CONSECUTIVE + world.minted),
    act: (world) => actCounted(world, "mint", CONSECUTIVE),
  },
  {
    name: "Kitties",
    ...SINGLE,
    deploy: make("Kitties"),
    ids: (world) => numbers(world.minted, 1),
    act: (world) => actCounted(world, "breed", 1),
  },
  {
    name: "Punks",
    types: ["CRYPTOPUNKS"],
    ownerView: "punkIndexToAddress",
    deploy: make("Punks"),
    ids: () => FEW,
    act: actPunks,
  },
  { ...free("AssetRegistry"), ids: () => PARCELS },
  { ...free("CreatingRegistry"), ids: () => PARCELS },
  { ...free("Land"), ids: () => PARCELS, act: actLand },
  {
    name: "MoonCats",
    types: ["MOONCATS"],
    ownerView: "catOwners",
    idArgument: catId,
    deploy: make("MoonCats"),
    ids: () => CATS,
    act: actCats,
  },
  {
    name: "MultiToken",
    types: ["ERC1155"],
    ownerView: undefined,
    deploy: make("MultiToken", ["Multi", "MUL", ""]),
    ids: () => MULTI_IDS,
    act: actMulti,
  },
  ...["Claims", "SilentClaims"].map(
    (name): Kind => ({
      name,
      types: ["ERC6909"],
      ownerView: undefined,
      deploy: make(name),
      ids: () => MULTI_IDS,
      act: actClaims,
    }),
  ),
];
