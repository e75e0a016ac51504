/**
 * Looks for another way to sell before a token is called unsellable: later, at other times of the day, in smaller parts, in
 * whole tokens, with more gas, by the wallet's own transfer, and through the routers that the token names or that traded
 * with the pool of late. If one goes through, the word is null.
 */
import { type Address, type Hash, ZERO_ADDRESS } from "../../core/hex.ts";
import { topicOf } from "../../core/keccak.ts";
import { addressWord, selectorOf } from "../../rpc/calls.ts";
import type { CallResult, ChainLog, ChainReader, SimulatedTransaction } from "../../rpc/port.ts";
import { undefinedIfUnreadable } from "../search/past-source.ts";
import { abiWord, abiWords, addressAnswer, addressAt, signedWord } from "../styles/abi.ts";
import { poolContract } from "../styles/style.ts";
import { logsOf, STYLES } from "../styles/styles.ts";
import {
  accountsOf,
  approval,
  blockAfter,
  gasMoney,
  purchase,
  SMALL_GAS,
  sale,
  TRADE_GAS,
  toldIn,
  type WalletTrades,
  type Way,
  wrapping,
} from "./wallet.ts";

const [HOUR, DAY] = [3_600, 86_400] as const;
/**
 * Tokens rest after a purchase for some blocks or for some time: two months here. Nodes may fill the gap with blocks, of
 * which they take at most 256 in a request. The first trial is now, one is a third of a day later in it, and one is two
 * thirds later: a market that is open for eight hours a day is open at one of them.
 */
const REST = { blocks: 250, seconds: 60 * DAY + 16 * HOUR } as const;
const HALF_REST = 30 * DAY + 8 * HOUR;
/** Some tokens let holders sell only in blocks whose number is a multiple of ten, fifty or a hundred. */
const ROUND = 100;
/** Limits on the size of a transfer or of a holding are rarely so small beside a pool; daily ones are smaller. */
const [SMALLER, SMALLEST] = [64n, 1_000n] as const;
/** Nor are least sizes so large. */
const LARGER = 16n;
/** Most gas of a transaction (EIP-7825), nearly. One such sale is tried: nodes limit the gas of a block and of a request. */
const MOST_GAS = 16_000_000;
/** Blocks in which the contracts that traded with the pool are looked for, the logs read of them, and the routers tried. */
const [TRADERS_WITHIN, MOST_LOGS, MOST_ROUTERS] = [1_000, 10_000, 4];
const ANY_AMOUNT = (1n << 256n) - 1n;

const TRANSFER = selectorOf("transfer(address,uint256)");
/** Getters by which tokens name the router that they know. */
const ROUTER_GETTERS = [
  "uniswapV2Router",
  "router",
  "uniswapRouter",
  "dexRouter",
  "pancakeRouter",
  "uniswapV2Router02",
];

/**
 * Why a token may be sellable though its simulated sale failed. Undefined if every way to sell failed.
 * @param received the units that the purchase brought
 * @param isPaid true if the token paid and the pool refused: then a transfer that goes through shows nothing new
 */
export async function wayToSell(
  reader: ChainReader,
  way: Way,
  { received, isPaid }: { readonly received: bigint; readonly isPaid: boolean },
): Promise<string | undefined> {
  const bought = purchase(way);
  const [large, small] = [received / 2n, received / SMALLER];
  // Some tokens take no unlimited approval, and some no other.
  const approvals = [approval(way, received), approval(way, ANY_AMOUNT)];
  const last = blockAfter(
    bought,
    partsOf(received, way).map(({ amount }) => sale(way, amount)),
    REST,
  );
  const round = Math.floor((last.number - 1) / ROUND) * ROUND;
  const gap = { blocks: round - bought.number, seconds: HALF_REST };
  const later = blockAfter(bought, [...approvals, sale(way, large, MOST_GAS)], gap);
  const names = ROUTER_GETTERS.map((name) => walletCall(way, selectorOf(`${name}()`)));
  const after = blockAfter(last, [transferToPool(way, small), ...names]);
  const [results, logs] = await Promise.all([
    reader.simulate([bought, later, last, after], way.block.number),
    recentLogs(reader, way),
  ]);
  if (results === undefined) return "the node did not simulate another sale";
  const [, , sold, ...others] = results.slice(bought.transactions.length);
  if (sold!.ok) return "one after a month, with more gas, went through";
  const soldPart = partsOf(received, way).find((_, index) => others[index]!.ok);
  if (soldPart !== undefined) return `one of ${soldPart.name} after two months went through`;
  const [given, ...named] = others.slice(last.transactions.length);
  if (!isPaid && hasPaid(given!)) return "the seller's own transfer to the pool went through";
  const known = [...named.flatMap((one) => addressAnswer(one) ?? []), ...tradersIn(logs ?? [], way)];
  return sellsThrough(reader, way, known, small);
}

/** True if a transfer went through. Some tokens return nothing, and some return false. */
const hasPaid = ({ ok, data }: CallResult): boolean => ok && (data === "0x" || abiWord(data, 0) === 1n);

/** The amounts that the wallet tries to sell of what it holds, each above zero. */
function partsOf(received: bigint, { decimals }: Way): readonly { readonly name: string; readonly amount: bigint }[] {
  const [small, one] = [received / SMALLER, 10n ** BigInt(decimals)];
  const whole = (amount: bigint) => amount - (amount % one);
  return [
    { name: "all", amount: received },
    { name: "a smaller part", amount: small },
    { name: "a thousandth", amount: received / SMALLEST },
    { name: "whole tokens", amount: whole(small) || whole(received) },
  ].filter(({ amount }) => amount > 0n);
}

/** Every style's swaps. Algebra's later ones tell two fees more. */
const SWAPS: readonly Hash[] = [
  ...Object.values(STYLES).flatMap(({ exact }) => Object.keys(exact?.swaps ?? {}) as Hash[]),
  topicOf("Swap(address,address,int256,int256,uint160,uint128,int24,uint24,uint24)"),
];

/** The logs of the token's pool of late; undefined if one request can't read them. */
async function recentLogs(reader: ChainReader, way: Way): Promise<readonly ChainLog[] | undefined> {
  const { pool } = way.steps.at(-1)!;
  const topics = [...new Set([...(Object.keys(STYLES[pool.style].events) as Hash[]), ...SWAPS])];
  const { number } = way.block;
  const blocks = { fromBlock: Math.max(0, number - TRADERS_WITHIN + 1), toBlock: number };
  const bounds = { maxLogs: MOST_LOGS, requests: { left: 1 } };
  return undefinedIfUnreadable(reader.logs({ ...logsOf(pool, topics), ...blocks, ...bounds }));
}

/** The contracts that traded with the token's pool, the newest first. */
function tradersIn(logs: readonly ChainLog[], way: Way): readonly Address[] {
  // The first topic of a manager's log is the pool's id.
  const at = way.steps.at(-1)!.pool.key === undefined ? 1 : 2;
  return logs.toReversed().flatMap(({ topics: words }) => addressAt(words[at] ?? "0x", 0) ?? []);
}

/** True for the log of a swap that the token paid. */
function isSale({ topics, data }: ChainLog, { steps, token }: Way): boolean {
  const { pool } = steps.at(-1)!;
  const at = pool.token0 === token ? 0 : 1;
  const words = abiWords(data, 4);
  if (words === undefined || !SWAPS.includes(topics[0]!)) return false;
  const { sale: form } = STYLES[pool.style];
  // A pair tells what came in of both tokens and what went out. A pool counts what it gets, and a manager what it gives.
  if (form === "reserves" || form === "quoted") return words[at]! > words[at + 2]!;
  const amount = BigInt.asIntN(256, words[at]!);
  return form === "manager" ? amount < 0n : amount > 0n;
}

/** Sells at the addresses that the token may know as routers, where the probe takes the place of their code. */
async function sellsThrough(
  reader: ChainReader,
  way: Way,
  known: readonly Address[],
  amount: bigint,
): Promise<string | undefined> {
  const { wallet, router: own } = accountsOf(way);
  const taken = new Set([wallet, own, holderOf(way), ...way.steps.flatMap(({ input, output }) => [input, output])]);
  const routers = [...new Set(known)].filter((one) => one !== ZERO_ADDRESS && !taken.has(one)).slice(0, MOST_ROUTERS);
  if (routers.length === 0) return undefined;
  const bought = purchase(way, way.amount, [own, ...routers]);
  const sales = routers.flatMap((router) => [
    wrapping(way, 1n, router),
    approval(way, ANY_AMOUNT, router),
    sale(way, amount, TRADE_GAS, router),
  ]);
  const results = await reader.simulate([bought, blockAfter(bought, sales, REST)], way.block.number);
  if (results === undefined) return "the node did not simulate a sale through another router";
  const sold = results.slice(bought.transactions.length).filter((_, index) => index % 3 === 2);
  return sold.some(({ ok }) => ok) ? "one through a router that the token knows went through" : undefined;
}

/**
 * Why a token may be sellable though its simulated purchase failed. Undefined if it refuses a transfer of nothing to the
 * pool by the same words as one from it, and its pool has no log of a sale of late: then the token refuses both directions
 * to every account.
 */
export async function wayToBuy(reader: ChainReader, way: Way): Promise<string | undefined> {
  const { wallet } = accountsOf(way);
  const holder = holderOf(way);
  const later = blockAfter(purchase(way), [], REST);
  const bought = { ...purchase(way, way.amount / SMALLER), ...{ number: later.number, timestamp: later.timestamp } };
  const [half, one] = [way.units / SMALLER / 2n, way.units / SMALLER];
  const sold = blockAfter(bought, [approval(way, ANY_AMOUNT), sale(way, half, MOST_GAS)]);
  const from = { from: holder, to: way.token, data: `${TRANSFER}${addressWord(wallet)}${signedWord(one)}` };
  const evidence = {
    ...blockAfter(sold, [{ ...from, gas: SMALL_GAS }, transferToPool(way, 0n)]),
    accounts: { [holder]: { balance: gasMoney(way) } },
  };
  // Again at another time of the day.
  const { number, timestamp } = blockAfter(evidence, [], { blocks: 1, seconds: 16 * HOUR });
  const more = { ...purchase(way, way.amount * LARGER), number, timestamp };
  const [results, logs] = await Promise.all([
    reader.simulate([bought, sold, evidence, more], way.block.number),
    recentLogs(reader, way),
  ]);
  if (results === undefined) return "the node did not simulate another purchase";
  const before = bought.transactions.length + sold.transactions.length;
  const told: WalletTrades | undefined = toldIn(results.slice(0, before));
  if (told !== undefined && told.trades.length >= way.steps.length)
    return "a smaller one after two months went through";
  if (results.at(-1)!.ok) return "a larger one after two months went through";
  const [out, back] = results.slice(before) as [CallResult, CallResult];
  const isClosed = !hasPaid(out) && !hasPaid(back) && out.data.length > 2 && out.data === back.data;
  if (!isClosed) return "a holder may be able to sell nevertheless";
  // A list of those who may trade looks the same to all others.
  if (logs === undefined) return "its recent trades can't be read";
  const last = logs.findLast((log) => isSale(log, way));
  return last && `it was sold in block ${last.blockNumber}`;
}

/** The contract that holds the pool's tokens. */
function holderOf({ steps }: Way): Address {
  const { pool } = steps.at(-1)!;
  return pool.key === undefined ? poolContract(pool) : pool.factory;
}

const walletCall = (way: Way, data: string): SimulatedTransaction => ({
  ...{ from: accountsOf(way).wallet, to: way.token },
  ...{ data, gas: SMALL_GAS },
});

const transferToPool = (way: Way, amount: bigint): SimulatedTransaction =>
  walletCall(way, `${TRANSFER}${addressWord(holderOf(way))}${signedWord(amount)}`);
