/**
 * The chain that wire recordings are made on: mainnet's exchanges with a day of swaps, and one contract of each kind of
 * NFT. Every address, id, amount and block time is the same in each run; block hashes are not, because the node puts a
 * random value into each header.
 */
import { type Anvil, inOneBlock, reorg, setTimestampInterval, startAnvil } from "../local-chain/anvil.ts";
import { seedCollections } from "../local-chain/collections.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { type Deployed, deploy, prepare, queue, transact } from "../local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../local-chain/mainnet.ts";
import { seedMarket } from "../local-chain/market.ts";

const GENESIS = 1_700_000_000;
const BLOCK_SECONDS = 12;
const MARKET_HOURS = 27;

export interface RecordedChain {
  readonly anvil: Anvil;
  /** NFT contracts by kind, and contracts that hold no NFT. Addresses in lower case. */
  readonly addresses: Readonly<Record<string, string>>;
  /** First block of the market and its last, for questions about the past. */
  readonly market: { readonly first: number; readonly last: number };
  readonly head: number;
  /** Moves two tokens of `plain` and mints a third, in one new block. */
  moveHead(): Promise<void>;
  /** Replaces the newest block by one in which another token of `plain` moves. */
  replaceHead(): Promise<void>;
}

/** Starts the chain and fills it. The caller stops `anvil`. */
export async function startRecordedChain(): Promise<RecordedChain> {
  const anvil = await startAnvil({ genesisTimestamp: GENESIS, slotsInAnEpoch: 1 });
  await setTimestampInterval(anvil, BLOCK_SECONDS);
  await placeMainnet(anvil);
  const first = await blockNumber(anvil);
  const market = await seedMarket(anvil, { hours: MARKET_HOURS });
  const last = await blockNumber(anvil);
  const { plain, batch, multi } = await seedCollections(anvil);
  const odd = await seedOdd(anvil);
  const addresses: Record<string, string> = {
    plain: plain.address,
    batch: batch.address,
    multi: multi.address,
    ...odd,
    demo: market.demo.address,
    weth: MAINNET.weth,
    usdc: MAINNET.usdc,
    dai: MAINNET.dai,
    wallet: anvil.accounts[3]!,
  };
  for (const [name, address] of Object.entries(addresses)) addresses[name] = address.toLowerCase();
  await anvil.mine(3);
  const [alice, bob] = [anvil.accounts[8]!, anvil.accounts[9]!];
  const ids = [...plain.owners.keys()];
  const ownerOf = (id: bigint) => plain.owners.get(id)!;
  const transfer = [ids[3]!, ids[5]!, ids[7]!] as const;
  return {
    anvil,
    addresses,
    market: { first, last },
    head: await blockNumber(anvil),
    moveHead: () =>
      inOneBlock(anvil, async () => {
        for (const id of transfer.slice(0, 2)) {
          await queue(anvil, plain.contract, "transferFrom", [ownerOf(id), alice, id], { from: ownerOf(id) });
        }
        await queue(anvil, plain.contract, "mint", [bob, 9_000]);
      }),
    replaceHead: async () => {
      const id = transfer[2];
      const call = await prepare(plain.contract, "transferFrom", [ownerOf(id), bob, id]);
      await reorg(anvil, 1, [{ block: 0, from: ownerOf(id), to: call.to, data: call.data }]);
    },
  };
}

/**
 * Contracts older than the standards, a contract with odd names, and one that holds neither code of an NFT nor a log.
 */
async function seedOdd(anvil: Anvil): Promise<Record<string, string>> {
  const [alice, bob] = [anvil.accounts[1]!, anvil.accounts[2]!];
  const make = async (name: string, args: readonly unknown[] = []): Promise<Deployed> =>
    await deploy(anvil, await contractArtifact(name), args);
  const kitties = await make("Kitties");
  await transact(anvil, kitties.contract, "breed", [alice, 5]);
  await transact(anvil, kitties.contract, "transfer", [bob, 2], { from: alice });
  const quoted = await make("PlainNft", ['Quote " and \\', "<b>&"]);
  await transact(anvil, quoted.contract, "mintMany", [alice, 1, 12]);
  const empty = await make("PlainNft", ["Empty", "NONE"]);
  return { kitties: kitties.address, quoted: quoted.address, empty: empty.address };
}

async function blockNumber(anvil: Anvil): Promise<number> {
  return Number(await anvil.send("eth_blockNumber"));
}
