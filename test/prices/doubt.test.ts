/**
 * A pool whose logs of a block contradict themselves at the only node: the pool's own state counts at the head, where no
 * logs of it are read, and never a price that lacks those logs.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair, type Pool, swapV2, V2_PAIR_ABI } from "../../scripts/local-chain/pools.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

interface WireLog {
  readonly address: string;
  readonly blockNumber: string;
}

const ETHER = 10n ** 18n;
const USD = 10n ** 6n;
let anvil: Anvil;

const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

interface Pair {
  readonly token: Deployed;
  readonly pool: Pool;
}

/** A token with one pair against dollars. */
async function newPair(amountB: bigint): Promise<Pair> {
  const token = await deploy(anvil, await contractArtifact("TestToken"), ["Demo", "DEMO", 18]);
  const amounts = { tokenA: token.address, amountA: 1_000n * ETHER, tokenB: MAINNET.usdc, amountB };
  return { token, pool: await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts }) };
}

/** Gives the pair more of its token twice, each in its own transaction with a `Sync`. */
async function fillTwice({ token, pool }: Pair): Promise<void> {
  for (const amount of [100n, 200n]) {
    await queue(anvil, token.contract, "mint", [pool.address, amount * ETHER]);
    await queue(anvil, contractAt(anvil, pool.address, V2_PAIR_ABI), "sync");
  }
}

/** Dollars for one whole token, from the reserves of its pair with USDC at a block. */
async function dollars({ token, pool }: Pair, block: number): Promise<number> {
  const call = { to: pool.address, data: "0x0902f1ac" };
  const returned = (await anvil.send("eth_call", [call, `0x${block.toString(16)}`])) as string;
  const [r0, r1] = [0, 1].map((index) => Number(BigInt(`0x${returned.slice(2 + index * 64, 66 + index * 64)}`)));
  const isFirst = pool.token0.toLowerCase() === token.address.toLowerCase();
  return isFirst ? (r1! * 1e12) / r0! : (r0! * 1e12) / r1!;
}

/** The price once the service is at a block. */
function priced(service: TestService, { token }: Pair, block: number): Promise<number> {
  return eventually(`a price at block ${block}`, async () => {
    const { body, headers } = await service.get(`/api/v2/erc20/${token.address}/price`);
    return Number(headers.get("x-as-of-block")) >= block ? (body.usdPrice as number) : undefined;
  });
}

beforeAll(async () => {
  anvil = await startAnvil();
  await placeMainnet(anvil);
  // Pays for native prices.
  await createV2Pair(anvil, {
    ...{ factory: MAINNET.uniswapV2Factory, tokenA: MAINNET.weth, amountA: 100n * ETHER },
    ...{ tokenB: MAINNET.usdc, amountB: 300_000n * USD },
  });
});
afterAll(() => anvil.stop());

test("is priced by its state, at the block and after it", async () => {
  const [odd, sound] = [await newPair(2_000n * USD), await newPair(3_000n * USD)];
  let bad = Number.POSITIVE_INFINITY;
  const isBad = ({ address, blockNumber }: WireLog) =>
    address.toLowerCase() === odd.pool.address.toLowerCase() && Number(blockNumber) === bad;
  const spoil = (logs: readonly WireLog[]) =>
    logs.map((log) => (isBad(log) ? { ...log, logIndex: "0x0", transactionIndex: "0x0" } : log));
  let isSpoilt = 0;
  const proxy = await startRpcProxy(anvil.url, {
    onResult: ({ method }, result) => {
      if (method === "eth_getLogs") {
        isSpoilt += (result as WireLog[]).filter(isBad).length;
        return spoil(result as WireLog[]);
      }
      if (method !== "eth_getBlockReceipts") return result;
      return (result as { logs: WireLog[] }[]).map((receipt) => ({ ...receipt, logs: spoil(receipt.logs) }));
    },
  });
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  for (const pair of [odd, sound]) {
    const block = await height();
    expect(await priced(service, pair, block)).toBeCloseTo(await dollars(pair, block), 6);
  }
  // Both pools are read ahead from here on.
  await swapV2(anvil, { pool: odd.pool.address, tokenIn: MAINNET.usdc, amountIn: 100n * USD });
  expect(await priced(service, odd, await height())).toBeCloseTo(await dollars(odd, await height()), 6);
  bad = (await height()) + 1;
  await inOneBlock(anvil, async () => {
    for (const pair of [odd, sound]) await fillTwice(pair);
  });
  const swapped = await height();
  expect(swapped).toBe(bad);
  for (const pair of [odd, sound]) {
    expect(await priced(service, pair, swapped)).toBeCloseTo(await dollars(pair, swapped), 6);
  }
  await transact(anvil, sound.token.contract, "mint", [anvil.accounts[1]!, 1n]);
  expect(await priced(service, odd, await height())).toBeCloseTo(await dollars(odd, swapped), 6);
  await swapV2(anvil, { pool: odd.pool.address, tokenIn: MAINNET.usdc, amountIn: 50n * USD });
  expect(await priced(service, odd, await height())).toBeCloseTo(await dollars(odd, await height()), 6);
  expect(isSpoilt).toBe(0);
  for (const block of [bad - 1, swapped, await height()]) {
    const { status, body } = await service.get(`/api/v2/erc20/${odd.token.address}/price?to_block=${block}`);
    if (status !== 503) expect(body.usdPrice).toBeCloseTo(await dollars(odd, block), 6);
  }
  await service.stop();
  await proxy.stop();
});
