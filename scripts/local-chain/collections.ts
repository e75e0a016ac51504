/**
 * Gives a local chain three NFT collections with a history: an ERC-721, an ERC721A and an ERC-1155, with mints one by
 * one and in batches, transfers between several accounts, and burns. The same seed on a fresh chain makes the same
 * history. Out: the contracts, and the final owners, so that a test can compare.
 */
import { type Anvil, inOneBlock } from "./anvil.ts";
import { contractArtifact } from "./compile.ts";
import { type Deployed, deploy, placeCopy, queue } from "./contracts.ts";
import { createRandom, type Random } from "./random.ts";

/** A collection whose tokens have one owner each; burnt ones are absent. Addresses in lower case. */
export interface UniqueCollection extends Deployed {
  owners: ReadonlyMap<bigint, string>;
}

/** A collection of amounts: id, then owner, then amount above zero. */
export interface AmountCollection extends Deployed {
  balances: ReadonlyMap<bigint, ReadonlyMap<string, bigint>>;
}

export interface Collections {
  /** OpenZeppelin's ERC-721, ids from 1. */
  plain: UniqueCollection;
  /** ERC721A, ids from 0. */
  batch: UniqueCollection;
  /** OpenZeppelin's ERC-1155, ids from 1 to 40. */
  multi: AmountCollection;
}

interface Setting {
  anvil: Anvil;
  random: Random;
  /** Accounts that mint, trade and burn. */
  people: readonly string[];
}

const PLAIN_TOKENS = 240;
const BATCH_TOKENS = 300;
const MULTI_IDS = 40;
const TRANSACTIONS_PER_BLOCK = 40;

/**
 * Deploys and fills the three collections: some 700 transactions in 20 blocks, in about a second.
 * @param options `drawnAt`: the first collection is at this address, and draws a picture of its own for each token
 */
export async function seedCollections(
  anvil: Anvil,
  { seed = 1, drawnAt }: { readonly seed?: number; readonly drawnAt?: string } = {},
): Promise<Collections> {
  const setting = { anvil, random: createRandom(seed), people: anvil.accounts.slice(1, 9) };
  return { plain: await seedPlain(setting, drawnAt), batch: await seedBatch(setting), multi: await seedMulti(setting) };
}

async function seedPlain(setting: Setting, drawnAt: string | undefined): Promise<UniqueCollection> {
  const { anvil, random, people } = setting;
  const artifact = await contractArtifact(drawnAt === undefined ? "PlainNft" : "DrawnNft");
  const original = await deploy(anvil, artifact, ["Demo Editions", "EDIT"]);
  const deployed = drawnAt === undefined ? original : await placeCopy(anvil, original, drawnAt);
  const owners = new Map<bigint, string>();
  await inBlocks(anvil, async function* () {
    const metadata = inlineMetadata("Edition", "4a6fa5");
    if (drawnAt === undefined) yield queue(anvil, deployed.contract, "setBaseURI", metadata);
    for (let id = 1; id <= PLAIN_TOKENS; ) {
      const to = random.pick(people);
      // Now and then a dozen in one transaction.
      const count = Math.min(random.below(4) === 0 ? 12 : 1, PLAIN_TOKENS - id + 1);
      yield count === 1
        ? queue(anvil, deployed.contract, "mint", [to, id])
        : queue(anvil, deployed.contract, "mintMany", [to, id, count]);
      for (const end = id + count; id < end; id++) owners.set(BigInt(id), to);
    }
    yield* trade(setting, deployed, owners);
  });
  return { ...deployed, owners };
}

async function seedBatch(setting: Setting): Promise<UniqueCollection> {
  const { anvil, random, people } = setting;
  const deployed = await deploy(anvil, await contractArtifact("BatchNft"), ["Demo Batches", "BATCH"]);
  const owners = new Map<bigint, string>();
  await inBlocks(anvil, async function* () {
    yield queue(anvil, deployed.contract, "setBaseURI", inlineMetadata("Batch", "b5651d"));
    for (let id = 0; id < BATCH_TOKENS; ) {
      const to = random.pick(people);
      const quantity = Math.min(1 + random.below(20), BATCH_TOKENS - id);
      yield queue(anvil, deployed.contract, "mint", [to, quantity]);
      for (const end = id + quantity; id < end; id++) owners.set(BigInt(id), to);
    }
    yield* trade(setting, deployed, owners);
  });
  return { ...deployed, owners };
}

/** Two hundred transfers by the owners and a burn of every twelfth token, mixed. Keeps `owners` up to date. */
async function* trade({ anvil, random, people }: Setting, { contract }: Deployed, owners: Map<bigint, string>) {
  for (let step = 0; step < 200; step++) {
    const id = random.pick([...owners.keys()]);
    const from = owners.get(id)!;
    if (step % 12 === 11) {
      yield queue(anvil, contract, "burn", [id], { from });
      owners.delete(id);
    } else {
      const to = random.pick(people);
      yield queue(anvil, contract, "transferFrom", [from, to, id], { from });
      owners.set(id, to);
    }
  }
}

async function seedMulti({ anvil, random, people }: Setting): Promise<AmountCollection> {
  const uri = `data:application/json,${encodeURIComponent('{"name":"Item ')}{id}${encodeURIComponent('"}')}`;
  const deployed = await deploy(anvil, await contractArtifact("MultiToken"), ["Demo Items", "ITEM", uri]);
  const balances = new Map<bigint, Map<string, bigint>>();
  const add = (id: bigint, owner: string, amount: bigint) => {
    const holders = balances.get(id) ?? new Map<string, bigint>();
    const sum = (holders.get(owner) ?? 0n) + amount;
    if (sum === 0n) holders.delete(owner);
    else holders.set(owner, sum);
    balances.set(id, holders);
  };
  const anyHolding = () => {
    const held = [...balances].flatMap(([id, holders]) =>
      [...holders].map(([owner, amount]) => ({ id, owner, amount })),
    );
    return random.pick(held);
  };

  await inBlocks(anvil, async function* () {
    for (let id = 1n; id <= MULTI_IDS; id++) {
      const to = random.pick(people);
      const amount = BigInt(1 + random.below(50));
      yield queue(anvil, deployed.contract, "mint", [to, id, amount]);
      add(id, to, amount);
    }
    for (let round = 0; round < 20; round++) {
      const to = random.pick(people);
      const first = BigInt(1 + random.below(MULTI_IDS));
      // An id twice in one batch, and an amount of zero: both are allowed and both occur.
      const ids = [first, BigInt(1 + random.below(MULTI_IDS)), first, BigInt(1 + random.below(MULTI_IDS))];
      const amounts = [1n, BigInt(1 + random.below(9)), BigInt(1 + random.below(9)), 0n];
      yield queue(anvil, deployed.contract, "mintBatch", [to, ids, amounts]);
      for (const [at, id] of ids.entries()) add(id, to, amounts[at]!);
    }
    for (let step = 0; step < 120; step++) {
      const { id, owner, amount } = anyHolding();
      const part = step % 5 === 0 ? amount : 1n + BigInt(random.below(Number(amount)));
      if (step % 10 === 9) {
        yield queue(anvil, deployed.contract, "burn", [owner, id, part]);
        add(id, owner, -part);
        continue;
      }
      const to = random.pick(people);
      const method = step % 4 === 0 ? "safeBatchTransferFrom" : "safeTransferFrom";
      const what = step % 4 === 0 ? [[id], [part]] : [id, part];
      yield queue(anvil, deployed.contract, method, [owner, to, ...what, "0x"], { from: owner });
      add(id, owner, -part);
      add(id, to, part);
    }
  });
  return { ...deployed, balances };
}

/** Mines what `steps` queues, some transactions to a block. */
async function inBlocks(anvil: Anvil, steps: () => AsyncGenerator<string, void, void>): Promise<void> {
  const queued = steps();
  for (let done = false; !done; ) {
    await inOneBlock(anvil, async () => {
      for (let sent = 0; sent < TRANSACTIONS_PER_BLOCK && !done; sent++) done = (await queued.next()).done === true;
    });
  }
}

/** Prefix and suffix of token URIs that carry name and picture in themselves, so the demo needs no other server. */
function inlineMetadata(name: string, colour: string): [string, string] {
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" fill="#${colour}"/>` +
    `<circle cx="32" cy="32" r="20" fill="white"/></svg>`;
  const image = `data:image/svg+xml;base64,${btoa(svg)}`;
  const suffix = `","description":"A token of the local demo","image":"${image}"}`;
  return [`data:application/json,${encodeURIComponent(`{"name":"${name} `)}`, encodeURIComponent(suffix)];
}
