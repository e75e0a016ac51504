/**
 * A reorg of every depth from 1 to 64, the finality depth, while the service follows and subscribers listen. A proxy
 * holds each of the follower's polls until the test releases it. One poll must be enough to correct the listing, the
 * listing at replaced heights, the price and the socket.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import WebSocket from "ws";
import { type Anvil, inOneBlock, quantity, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, prepare, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair, type Pool, V2_PAIR_ABI } from "../../scripts/local-chain/pools.ts";
import { createRandom } from "../../scripts/local-chain/random.ts";
import { Gate } from "../support/long/gate.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const MAX_DEPTH = 64;
const TOKENS = 30;
const SUBSCRIBERS = 3;
const ETHER = 10n ** 18n;
const USD = 10n ** 6n;
const SEED = Number(process.env["REORGS_SEED"] ?? Date.now() % 1_000_000);

interface Told {
  readonly type: string;
  readonly block?: number;
  readonly hash?: string;
}

const random = createRandom(SEED);
const gate = new Gate();
const subscribers: { socket: WebSocket; messages: Told[] }[] = [];
let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let nft: Deployed;
let token: Deployed;
let pool: Pool;

const tip = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
const hashOf = async (block: number): Promise<string> =>
  ((await anvil.send("eth_getBlockByNumber", [quantity(block), false])) as { hash: string }).hash;

/** Owners of all tokens at a block, by id. */
function ownersAt(block: number): Promise<string[]> {
  const ownerOf = nft.contract.getFunction("ownerOf");
  const ids = Array.from({ length: TOKENS }, (_, id) => id);
  return Promise.all(
    ids.map(async (id) => ((await ownerOf.staticCall(id, { blockTag: block })) as string).toLowerCase()),
  );
}

/** Wei for one whole token, from the pair's reserves at a block. */
async function weiAt(block: number): Promise<string> {
  const returned = (await anvil.send("eth_call", [
    { to: pool.address, data: "0x0902f1ac" },
    quantity(block),
  ])) as string;
  const [r0, r1] = [0, 1].map((index) => BigInt(`0x${returned.slice(2 + index * 64, 66 + index * 64)}`));
  const [own, weth] = pool.token0.toLowerCase() === token.address.toLowerCase() ? [r0!, r1!] : [r1!, r0!];
  return ((weth * ETHER) / own).toString();
}

const price = (query = "") => service.get(`/api/v2/erc20/${token.address}/price${query}`);

async function subscribe(): Promise<void> {
  const messages: Told[] = [];
  const socket = new WebSocket(service.socketUrl, { headers: { "X-Api-Key": TEST_KEY } });
  socket.on("message", (data) => messages.push(JSON.parse(String(data))));
  socket.on("open", () => socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address: nft.address })));
  await eventually("the subscription is confirmed", async () => messages.find(({ type }) => type === "status"));
  subscribers.push({ socket, messages });
}

beforeAll(async () => {
  console.log(`REORGS_SEED=${SEED}`);
  // The genesis is in the past, so the follower considers every block overdue and never waits for the next one.
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  await placeMainnet(anvil);
  const factory = MAINNET.uniswapV2Factory;
  token = await deploy(anvil, await contractArtifact("TestToken"), ["Forked", "FORK", 18]);
  const weth = { factory, tokenB: MAINNET.weth };
  await createV2Pair(anvil, { ...weth, tokenA: MAINNET.usdc, amountA: 3_000_000n * USD, amountB: 1_000n * ETHER });
  pool = await createV2Pair(anvil, {
    ...weth,
    tokenA: token.address,
    amountA: 100_000n * ETHER,
    amountB: 100n * ETHER,
  });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Forked", "FORK"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 0n, BigInt(TOKENS)]);
  await anvil.mine(MAX_DEPTH + 6);
  proxy = await startRpcProxy(anvil.url, { onRequest: gate.onRequest });
  service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  await synced(service, nft.address, await tip());
  await eventually("the token has a price", async () => ((await price()).status === 200 ? true : undefined));
  // Blocks above the first final one, each followed when it is mined.
  for (let i = 0; i <= MAX_DEPTH; i++) await busyBlock();
  await synced(service, nft.address, await tip());
  await eventually("the price is at the head", async () => {
    const { headers } = await price();
    return Number(headers.get("x-as-of-block")) === (await tip()) ? true : undefined;
  });
  for (let i = 0; i < SUBSCRIBERS; i++) await subscribe();
  await gate.close();
}, 300_000);
afterAll(async () => {
  gate.open();
  for (const { socket } of subscribers) socket.terminate();
  await service?.stop();
  await proxy?.stop();
  await anvil?.stop();
});

/** Returns calls that move some tokens and the pair's price. They are valid for the state at `block`. */
async function callsAt(block: number): Promise<{ from: string; to: string; data: string }[]> {
  const owners = await ownersAt(block);
  const sender = anvil.accounts[0] as string;
  const pair = contractAt(anvil, pool.address, V2_PAIR_ABI);
  const first = random.below(TOKENS);
  const calls = [];
  for (let i = 0; i < 3; i++) {
    const id = (first + i) % TOKENS;
    calls.push(await prepare(nft.contract, "move", [owners[id], random.pick(anvil.accounts.slice(1)), BigInt(id)]));
  }
  const amount = BigInt(1 + random.below(1_000_000)) * 10n ** 15n;
  calls.push(await prepare(token.contract, "mint", [pool.address, amount]), await prepare(pair, "sync"));
  return calls.map(({ to, data }) => ({ from: sender, to, data }));
}

/** Mines a block with moves and another price. */
async function busyBlock(): Promise<void> {
  const calls = await callsAt(await tip());
  await inOneBlock(anvil, async () => {
    for (const call of calls) {
      await anvil.send("eth_sendTransaction", [{ ...call, gas: quantity(10_000_000), gasPrice: "0x0" }]);
    }
  });
}

/** Replaces the newest blocks. The first and the last new block differ from the old ones in content. */
async function reorganise(depth: number): Promise<void> {
  const ancestor = (await tip()) - depth;
  const calls = await callsAt(ancestor);
  const moves = calls.filter(({ to }) => to.toLowerCase() === nft.address.toLowerCase());
  const rest = calls.filter((call) => !moves.includes(call));
  await reorg(anvil, depth, [
    ...moves.map((call) => ({ block: 0, ...call })),
    ...rest.map((call) => ({ block: depth - 1, ...call })),
  ]);
}

/** Returns true if listing and price are at the chain's head. No poll runs meanwhile. */
async function tellsHead(): Promise<boolean> {
  const hash = await hashOf(await tip());
  const [listing, quote] = await Promise.all([service.get(`/api/v2/nft/${nft.address}?limit=1`), price()]);
  return listing.headers.get("x-as-of-hash") === hash && quote.headers.get("x-as-of-hash") === hash;
}

async function expectTruth(block: number, query: string): Promise<void> {
  const [hash, owners, wei] = await Promise.all([hashOf(block), ownersAt(block), weiAt(block)]);
  const listing = await service.get(`/api/v2/nft/${nft.address}?limit=500${query}`);
  expect(listing.status).toBe(200);
  expect(listing.headers.get("x-as-of-hash")).toBe(hash);
  expect(listing.body.result.map(({ owner_of }: { owner_of: string }) => owner_of)).toEqual(owners);
  const quote = await price(query === "" ? "" : `?to_block=${block}`);
  expect(quote.headers.get("x-as-of-hash")).toBe(hash);
  expect(quote.body.nativePrice.value).toBe(wei);
}

test("shows the winning branch within one poll after a reorg of each depth", async () => {
  for (let depth = 1; depth <= MAX_DEPTH; depth++) {
    for (let i = 0; i < 2; i++) await busyBlock();
    await gate.poll();
    await eventually(`head shown, depth ${depth}`, async () => ((await tellsHead()) ? true : undefined));
    const [head, before] = [await tip(), subscribers.map(({ messages }) => messages.length)];
    const [lostHash, ancestor] = [await hashOf(head), { block: head - depth, hash: await hashOf(head - depth) }];
    await reorganise(depth);
    expect(await hashOf(head)).not.toBe(lostHash);

    const already = gate.polls;
    await gate.poll();
    // The next poll is held, so nothing but the released one can correct them. What it read may still be on its way to an answer.
    await eventually(`the branch shown, depth ${depth}`, async () => ((await tellsHead()) ? true : undefined));
    expect(gate.polls - already).toBe(1);
    await expectTruth(head, "");
    const heights = new Set([head - depth + 1, head - random.below(depth), head - random.below(depth), head - depth]);
    for (const block of heights) await expectTruth(block, `&as_of_block=${block}`);
    for (const [index, { messages }] of subscribers.entries()) {
      const news = () => messages.slice(before[index]);
      await eventually("the socket announces the new branch", async () =>
        news().find(({ type }) => type === "transfers"),
      );
      const told = news().filter(({ type }) => type === "reorged");
      expect(told.map(({ block, hash }) => ({ block, hash }))).toEqual([ancestor]);
    }
  }
  console.log(`reorganisations at depths 1 to ${MAX_DEPTH}: one poll each, REORGS_SEED=${SEED}`);
}, 300_000);
