/**
 * The chain that costly questions are asked about: a market, an old pool below thousands of blocks, tokens and factories
 * made to be dear, a collection of many tokens, one with a transfer in each of its blocks, and one with large metadata.
 */
import { type Anvil, startAnvil } from "../../local-chain/anvil.ts";
import { contractArtifact } from "../../local-chain/compile.ts";
import { deploy, transact } from "../../local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../local-chain/mainnet.ts";
import { seedMarket } from "../../local-chain/market.ts";
import { createV2Pair } from "../../local-chain/pools.ts";

const ETHER = 10n ** 18n;
const HOURS = 27;
const SECONDS_PER_HOUR = 3_600;
/** Tokens that one transaction announces: a tenth of a block's gas. */
const PER_TRANSACTION = 5_000;
/** Bytes of a document, of which a page shows two forms. */
const DOCUMENT_BYTES = 50_000;
/** How often a question is asked. */
const TURNS = 3;
export const [HEAVY_TOKENS, SPREAD_TRANSFERS, WHALE_TOKENS] = [500, 500, 2_000] as const;

export interface WorldSizes {
  /** NFTs of the large collection. */
  readonly tokens: number;
  /** NFTs of each collection with traits. */
  readonly traits: number;
  /** Blocks above the market. */
  readonly blocks: number;
  /** Tokens of each kind. */
  readonly fresh: number;
}

export interface World {
  readonly anvil: Anvil;
  head(): number;
  readonly large: string;
  /** One for each turn, since traits are read once. */
  readonly traits: readonly string[];
  readonly heavy: string;
  readonly spread: string;
  readonly whale: string;
  /** A token that trades in a pool whose last swap lies below all empty blocks, and the block of its first liquidity. */
  readonly old: string;
  readonly oldFrom: number;
  /** Tokens with a pool, and tokens without one. */
  readonly fresh: readonly string[];
  readonly poolless: readonly string[];
  readonly longName: readonly string[];
  readonly gasBurner: readonly string[];
  readonly largeAnswers: string;
  readonly endlessAnswers: string;
  stop(): Promise<void>;
}

/** Serves the documents of the heavy collection. */
function serveDocuments() {
  const filler = "x".repeat(DOCUMENT_BYTES);
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) =>
      Response.json({ name: url, description: filler, attributes: [{ trait_type: "A", value: url }] }),
  });
}

async function many<T>(count: number, make: () => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  while (made.length < count) made.push(await make());
  return made;
}

async function tokensOf(anvil: Anvil, { fresh }: WorldSizes) {
  const token = await contractArtifact("TestToken");
  const newToken = async (name: string) => (await deploy(anvil, token, [name, name.toUpperCase(), 18])).address;
  const pooled = async () => {
    const address = await newToken("Fresh");
    const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: address, amountB: 1_000n * ETHER };
    await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts });
    return address;
  };
  const hostile = async (name: string) => (await deploy(anvil, await contractArtifact(name))).address;
  return {
    fresh: await many(fresh, pooled),
    poolless: await many(fresh, () => newToken("Alone")),
    longName: await many(6, () => hostile("LongNameToken")),
    gasBurner: await many(4, () => hostile("GreedyToken")),
    largeAnswers: await hostile("LargeAnswers"),
    endlessAnswers: await hostile("EndlessAnswers"),
  };
}

async function collectionsOf(anvil: Anvil, { tokens, traits }: WorldSizes, documents: string) {
  const artifact = await contractArtifact("SpreadNft");
  const whale = anvil.accounts[9] as string;
  const collection = async (count: number, uri?: readonly [string, string]) => {
    const { address, contract } = await deploy(anvil, artifact, [whale, WHALE_TOKENS]);
    if (uri !== undefined) await transact(anvil, contract, "setBaseURI", uri);
    for (let done = 0; done < count; done += PER_TRANSACTION) {
      await transact(anvil, contract, "mintMany", [Math.min(PER_TRANSACTION, count - done)]);
    }
    return { address, contract };
  };
  const data =
    'data:application/json,{"attributes":[{"trait_type":"Kind","value":"one"},{"trait_type":"Number","value":"';
  const spread = await collection(0);
  for (let i = 0; i < SPREAD_TRANSFERS; i++) await transact(anvil, spread.contract, "mintMany", [1]);
  return {
    whale,
    spread: spread.address,
    large: (await collection(tokens)).address,
    traits: await many(TURNS, async () => (await collection(traits, [data, '"}]}'])).address),
    heavy: (await collection(HEAVY_TOKENS, [documents, ""])).address,
  };
}

export async function startWorld(sizes: WorldSizes): Promise<World> {
  // Blocks advance by a second each unless a swap sets their time.
  const genesisTimestamp = Math.floor(Date.now() / 1_000) - HOURS * SECONDS_PER_HOUR - sizes.blocks - 3_000;
  const anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp });
  const documents = serveDocuments();
  await placeMainnet(anvil);
  await seedMarket(anvil, { hours: HOURS });
  const old = (await deploy(anvil, await contractArtifact("TestToken"), ["Old", "OLD", 18])).address;
  const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: old, amountB: 1_000n * ETHER };
  await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts });
  const oldFrom = Number(await anvil.send("eth_blockNumber"));
  for (let mined = 0; mined < sizes.blocks; mined += 200) await anvil.mine(200);
  const tokens = await tokensOf(anvil, sizes);
  const collections = await collectionsOf(anvil, sizes, documents.url.href);
  await anvil.mine(3);
  const head = Number(await anvil.send("eth_blockNumber"));
  return {
    ...tokens,
    ...collections,
    ...{ anvil, old, oldFrom },
    head: () => head,
    stop: async () => {
      await anvil.stop();
      await documents.stop(true);
    },
  };
}

/** What a service was not asked about yet. Each is taken once. */
export interface Supply {
  fresh(count: number): string[];
  poolless(count: number): string[];
  /** Addresses without code. */
  random(count: number): string[];
}

export function supplyOf(world: World): Supply {
  const [fresh, poolless] = [[...world.fresh], [...world.poolless]];
  let random = 0;
  const take = (from: string[], count: number): string[] => {
    if (from.length < count) throw new Error("the world has too few new tokens for the questions");
    return from.splice(0, count);
  };
  const addressOf = (n: number) => `0x${(0x1234_5678n * 2n ** 128n + BigInt(n)).toString(16).padStart(40, "0")}`;
  return {
    fresh: (count) => take(fresh, count),
    poolless: (count) => take(poolless, count),
    random: (count) => Array.from({ length: count }, () => addressOf(random++)),
  };
}
