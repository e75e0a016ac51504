/**
 * The chain of a chaos run: three collections, a block each second with transfers, and a fork now and then, all drawn
 * from the seed. It mines every block itself, so it knows each hash, and when a block left the chain. It also reads the
 * truth that answers are compared with, from the node and never through the service.
 */
import { Interface } from "ethers";
import { type Anvil, type ReplacementTransaction, reorg, startAnvil } from "../local-chain/anvil.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { type Deployed, deploy, prepare, queue, transact } from "../local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../local-chain/mainnet.ts";
import { seedMarket } from "../local-chain/market.ts";
import { createRandom, type Random } from "../local-chain/random.ts";

export interface ChaosCollection {
  readonly address: string;
  readonly deployed: Deployed;
  /** Blocks between two blocks with transfers. */
  readonly every: number;
  /** Ids 0 to nextId - 1 were minted. A fork can take some of the mints back. */
  nextId: number;
}

export interface Transfer {
  readonly block: number;
  readonly tokenId: string;
}

/** Owner by token id, in decimal and lower case. */
export type Owners = ReadonlyMap<string, string>;

export interface ChaosChain {
  readonly anvil: Anvil;
  readonly collections: readonly ChaosCollection[];
  /** Tokens with a price, and one without. */
  readonly tokens: readonly string[];
  readonly head: { readonly number: number; readonly hash: string };
  /** Rejects if a block can't be mined: an error of this script. Never resolves. */
  readonly failed: Promise<never>;
  /** Starts to mine a block each second. */
  start(): void;
  /** Stops mining after the block that is under way. */
  stop(): Promise<void>;
  /** Mines a block with transfers of all collections. Resolves with its number. */
  mineForAll(): Promise<number>;
  /** Replaces all blocks above `ancestor`, with other transfers. No other block is mined while `meanwhile` runs. */
  replaceAbove(ancestor: number, meanwhile: () => Promise<void>): Promise<void>;
  isKnown(hash: string): boolean;
  isCanonical(hash: string): boolean;
  /** Monotonic time at which the block left the chain. Undefined for a block of the chain. */
  leftAt(hash: string): number | undefined;
  /** The owners after the block with this hash, as the contract says. */
  ownersAt(collection: ChaosCollection, hash: string): Promise<Owners>;
  /** The transfers of the chain's present blocks, oldest first. */
  transfers(collection: ChaosCollection, fromBlock: number, toBlock: number): Promise<Transfer[]>;
  close(): Promise<void>;
}

const BLOCK_MS = 1_000;
/** With 8 slots in an epoch, blocks are final after 16. No fork may reach deeper. */
const SLOTS = 8;
const MAX_FORK = 3;
const DEEPEST_FORK = 12;
/** A fork each so many blocks, on average. */
const FORK_EVERY = 15;
const FIRST_TOKENS = 60;
const MOVES_A_BLOCK = 2;
/** Blocks between two transfers of each collection. */
const PACES = [1, 1, 7];
const MARKET_HOURS = 3;
const UNKNOWN_TOKEN = "0x00000000000000000000000000000000c0ffee01";

const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
const VIEWS = new Interface([
  "function ownerOf(uint256 id) view returns (address)",
  "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) payable returns ((bool success, bytes returnData)[])",
]);

const hex = (value: number): string => `0x${value.toString(16)}`;

export async function startChaosChain(seed: number): Promise<ChaosChain> {
  const random = createRandom(seed);
  const genesisTimestamp = Math.floor(Date.now() / 1_000) - MARKET_HOURS * 3_600 - 60;
  const anvil = await startAnvil({ genesisTimestamp, slotsInAnEpoch: SLOTS });
  await placeMainnet(anvil);
  const market = await seedMarket(anvil, { hours: MARKET_HOURS });
  const artifact = await contractArtifact("PlainNft");
  const collections: ChaosCollection[] = [];
  for (const [at, every] of PACES.entries()) {
    const deployed = await deploy(anvil, artifact, [`Chaos ${at}`, `C${at}`]);
    await transact(anvil, deployed.contract, "mintMany", [anvil.accounts[1], 0, FIRST_TOKENS]);
    collections.push({ address: deployed.address.toLowerCase(), deployed, every, nextId: FIRST_TOKENS });
  }
  // The collections' history is final before the run begins, so that no fork reaches it.
  await anvil.mine(3 * SLOTS);
  await anvil.send("evm_setAutomine", [false]);
  const tokens = [market.demo.address, MAINNET.weth, MAINNET.usdc, UNKNOWN_TOKEN].map((one) => one.toLowerCase());
  const chain = new MinedChain(anvil, random, collections, tokens);
  const head = await height(anvil);
  await chain.record(head - DEEPEST_FORK, head);
  return chain;
}

const height = async (anvil: Anvil): Promise<number> => Number(await anvil.send("eth_blockNumber"));

class MinedChain implements ChaosChain {
  readonly anvil: Anvil;
  readonly collections: readonly ChaosCollection[];
  readonly tokens: readonly string[];
  readonly #random: Random;
  readonly #canonical = new Map<number, string>();
  readonly #numbers = new Map<string, number>();
  readonly #left = new Map<string, number>();
  head = { number: 0, hash: "" };
  /** The end of the work on the chain: works run one after the other. */
  #last: Promise<unknown> = Promise.resolve();
  #mining: Promise<void> | undefined;
  #isStopped = true;
  readonly #failure = Promise.withResolvers<never>();
  readonly failed = this.#failure.promise;

  constructor(anvil: Anvil, random: Random, collections: readonly ChaosCollection[], tokens: readonly string[]) {
    this.anvil = anvil;
    this.#random = random;
    this.collections = collections;
    this.tokens = tokens;
  }

  start(): void {
    this.#isStopped = false;
    const mine = async () => {
      for (let due = performance.now(); !this.#isStopped; ) {
        due += BLOCK_MS;
        await this.#exclusively(() => this.#step());
        await Bun.sleep(Math.max(0, due - performance.now()));
      }
    };
    this.#mining = mine().catch(this.#failure.reject);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#mining;
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #step(): Promise<void> {
    if (this.#random.below(FORK_EVERY) === 0) await this.#replace(this.head.number - 1 - this.#random.below(MAX_FORK));
    const next = this.head.number + 1;
    await this.#mine(this.collections.filter(({ every }) => next % every === 0));
  }

  async #mine(moving: readonly ChaosCollection[]): Promise<void> {
    const random = this.#random;
    const { anvil } = this;
    for (const collection of moving) {
      const { contract } = collection.deployed;
      const owners = [...(await this.#ownersAt(collection, this.head.hash))];
      await queue(anvil, contract, "mint", [this.#account(), collection.nextId++]);
      for (let move = 0; move < MOVES_A_BLOCK; move++) {
        const [[id, owner]] = owners.splice(random.below(owners.length), 1) as [[string, string]];
        if (random.below(20) === 0) await queue(anvil, contract, "burn", [id]);
        else await queue(anvil, contract, "move", [owner, this.#account(), id]);
      }
    }
    await anvil.mine();
    await this.record(this.head.number + 1, this.head.number + 1);
  }

  async #replace(ancestor: number): Promise<void> {
    const depth = this.head.number - ancestor;
    if (depth < 1 || depth > DEEPEST_FORK) throw new Error(`a fork of ${depth} blocks is not possible`);
    const replacements: ReplacementTransaction[] = [];
    for (const collection of this.collections) {
      const owners = [...(await this.#ownersAt(collection, this.#canonical.get(ancestor)!))];
      for (let block = 0; block < depth; block++) {
        if ((ancestor + 1 + block) % collection.every !== 0) continue;
        const [[id, owner]] = owners.splice(this.#random.below(owners.length), 1) as [[string, string]];
        const call = await prepare(collection.deployed.contract, "move", [owner, this.#account(), id]);
        replacements.push({ block, from: this.anvil.accounts[9]!, to: call.to, data: call.data });
      }
    }
    await reorg(this.anvil, depth, replacements);
    await this.record(ancestor + 1, await height(this.anvil));
  }

  #account(): string {
    return this.#random.pick(this.anvil.accounts.slice(1, 9));
  }

  mineForAll(): Promise<number> {
    return this.#exclusively(async () => {
      await this.#mine(this.collections);
      return this.head.number;
    });
  }

  replaceAbove(ancestor: number, meanwhile: () => Promise<void>): Promise<void> {
    return this.#exclusively(async () => {
      await this.#replace(Math.max(ancestor, this.head.number - DEEPEST_FORK));
      await meanwhile();
    });
  }

  /** Notes the blocks that the node has now, and that those in their place have left the chain. */
  async record(from: number, to: number): Promise<void> {
    for (let number = from; number <= to; number++) {
      const { hash } = (await this.anvil.send("eth_getBlockByNumber", [hex(number), false])) as { hash: string };
      const before = this.#canonical.get(number);
      if (before !== undefined && before !== hash) this.#left.set(before, performance.now());
      this.#canonical.set(number, hash);
      this.#numbers.set(hash, number);
      this.head = { number, hash };
    }
  }

  isKnown(hash: string): boolean {
    return this.#numbers.has(hash);
  }

  isCanonical(hash: string): boolean {
    const number = this.#numbers.get(hash);
    return number !== undefined && this.#canonical.get(number) === hash;
  }

  leftAt(hash: string): number | undefined {
    return this.#left.get(hash);
  }

  /** Waits for mining to pause: while a block is mined, the node answers for it in place of the head before. */
  ownersAt(collection: ChaosCollection, hash: string): Promise<Owners> {
    return this.#exclusively(() => this.#ownersAt(collection, hash));
  }

  async #ownersAt({ address, nextId }: ChaosCollection, blockHash: string): Promise<Owners> {
    const target = address;
    const calls = Array.from({ length: nextId }, (_, id) => {
      return { target, allowFailure: true, callData: VIEWS.encodeFunctionData("ownerOf", [id]) };
    });
    const call = { to: MAINNET.multicall3, data: VIEWS.encodeFunctionData("aggregate3", [calls]), gas: hex(2e9) };
    const answer = (await this.anvil.send("eth_call", [call, { blockHash }])) as string;
    const [results] = VIEWS.decodeFunctionResult("aggregate3", answer);
    const owners = new Map<string, string>();
    for (const [id, { success, returnData }] of (results as { success: boolean; returnData: string }[]).entries()) {
      // The owner is the last 20 of 32 bytes. A burnt token reverts.
      if (success) owners.set(String(id), `0x${returnData.slice(-40)}`.toLowerCase());
    }
    return owners;
  }

  async transfers({ address }: ChaosCollection, fromBlock: number, toBlock: number): Promise<Transfer[]> {
    const filter = { address, topics: [TRANSFER], fromBlock: hex(fromBlock), toBlock: hex(toBlock) };
    const logs = (await this.anvil.send("eth_getLogs", [filter])) as { blockNumber: string; topics: string[] }[];
    return logs.map(({ blockNumber, topics }) => ({
      block: Number(blockNumber),
      tokenId: BigInt(topics[3]!).toString(),
    }));
  }

  async close(): Promise<void> {
    await this.stop();
    await this.anvil.stop();
  }
}
