/**
 * What a wallet does to buy a token and to sell it, as transactions in a row: an account without code buys through a router
 * in one block, approves and sells in the next. The router is `sale-probe.sol` at an empty address, which trades with the
 * pools of the route themselves. Where a node simulates single calls only, a contract takes the place of the wallet.
 */
import { type Address, toAddress } from "../../core/hex.ts";
import { keccakOf } from "../../core/keccak.ts";
import type { BlockRef } from "../../events/types.ts";
import { addressWord, selectorOf, wordOf } from "../../rpc/calls.ts";
import type { CallResult, ChainReader, SimulatedBlock, SimulatedTransaction } from "../../rpc/port.ts";
import { abiWord, abiWords, addressAnswer, signedWord } from "../styles/abi.ts";
import { legWordsOf, type ProbeStep } from "./legs.ts";
import { releasedRouter, routerSale } from "./released-routers.ts";
// The runtime code by solc 0.8.37 over its IR with 200 runs, for the EVM of Paris, without metadata. A test compiles it anew.
import SALE_PROBE from "./sale-probe.txt";

/** The way of a wallet from the chain's coin to the token and back over the last pool. */
export interface Way {
  readonly token: Address;
  /** From the wrapped coin on; the last one ends at the token. */
  readonly steps: readonly ProbeStep[];
  readonly wrapped: Address;
  /** Wei to buy for. */
  readonly amount: bigint;
  /** Smallest units of the token that the price promises for them. */
  readonly units: bigint;
  /** Of the token. */
  readonly decimals: number;
  /** The chain's id. */
  readonly chainId: number;
  readonly block: BlockRef & { readonly timestamp: number };
}

/** What was sent and what arrived, in both directions, in the tokens' smallest units. */
export interface ProbeTrade {
  readonly sent: bigint;
  readonly arrived: bigint;
  readonly paid: bigint;
  readonly received: bigint;
}

/** The trades up to the first one that failed, and its revert data. */
export interface WalletTrades {
  /** One for each step, and then the sale. */
  readonly trades: readonly ProbeTrade[];
  readonly reason: string;
  /** True if the token refused the wallet's approval before the sale. */
  readonly isApproval?: boolean;
  /** Whether the exchange's own router sold the token before; undefined if none is known. */
  readonly released?: CallResult | undefined;
}

const LEG = "(uint8,address,address,address,(address,address,uint24,int24,address))";
const WRAP = selectorOf("wrap(address)");
const ADVANCE = selectorOf(`advance(${LEG},address)`);
const SELL = selectorOf(`sell(${LEG},uint256)`);
const RUN = selectorOf(`run(address,address,uint256,${LEG}[])`);
const FACTORY = selectorOf("factory()");
const APPROVE = selectorOf("approve(address,uint256)");

/** Gas of a transaction that trades, and of a smaller one. A block of any chain has room for all of them. */
export const TRADE_GAS = 4_000_000;
export const SMALL_GAS = 800_000;
/** Wei that pay for gas at least, and by how much more at most: a wallet that holds many coins is no usual one. */
const [LEAST_GAS_MONEY, MORE_GAS_MONEY] = [4n * 10n ** 17n, 5n * 10n ** 17n];
/** Seconds between blocks, where only their order matters. */
const BLOCK_SECONDS = 12;

/** The address that a hash of these bytes gives. */
export const addressFrom = (hex: string): Address => toAddress(`0x${keccakOf(hex).slice(26)}`);

/** The accounts of a simulation. A contract can't know the hash of the block that it runs in, so no token foresees them. */
export function accountsOf({ block, token }: Way): { readonly wallet: Address; readonly router: Address } {
  const router = addressFrom(`${block.hash}${token.slice(2)}`);
  return { router, wallet: addressFrom(router) };
}

/** A number that no token foresees, like the accounts. */
const saltOf = (way: Way): string => keccakOf(`${way.block.hash}${accountsOf(way).wallet.slice(2)}`);

/** The probe's code, with a salt after its end: so the hash of the code is another one for each block and token. */
const probeCode = (way: Way): string => `0x${SALE_PROBE}${saltOf(way).slice(2)}`;

/** Wei that an account of a simulation has beside what it spends. */
export const gasMoney = (way: Way): bigint => LEAST_GAS_MONEY + (BigInt(saltOf(way)) % MORE_GAS_MONEY);

/** The last step backwards. */
function wayBack({ steps }: Way): ProbeStep {
  const { pool, input, output } = steps.at(-1)!;
  return { pool, input: output, output: input };
}

/** Hands coins to the router, which wraps them. */
export function wrapping(way: Way, value: bigint, to = accountsOf(way).router): SimulatedTransaction {
  return { from: accountsOf(way).wallet, to, data: `${WRAP}${addressWord(way.wrapped)}`, value, gas: SMALL_GAS };
}

/**
 * The block in which the wallet buys.
 * @param routers the addresses that have the probe's code; the first one buys
 */
export function purchase(way: Way, amount = way.amount, routers = [accountsOf(way).router]): SimulatedBlock {
  const { block, steps } = way;
  const { wallet: from, router: to } = accountsOf(way);
  const code = probeCode(way);
  const trades = steps.map((step, index) => {
    const receiver = addressWord(index === steps.length - 1 ? from : to);
    return { from, to, data: `${ADVANCE}${legWordsOf(step)}${receiver}`, gas: TRADE_GAS };
  });
  return {
    ...{ number: block.number + 1, timestamp: block.timestamp + BLOCK_SECONDS },
    accounts: {
      [from]: { balance: amount + gasMoney(way) },
      ...Object.fromEntries(routers.map((router) => [router, { code }])),
    },
    transactions: [wrapping(way, amount), ...trades],
  };
}

/** The wallet's approval of the router. */
export function approval(way: Way, amount: bigint, spender = accountsOf(way).router): SimulatedTransaction {
  const data = `${APPROVE}${addressWord(spender)}${signedWord(amount)}`;
  return { from: accountsOf(way).wallet, to: way.token, data, gas: SMALL_GAS };
}

/** The wallet's sale through a router that has the probe's code. */
export function sale(way: Way, amount: bigint, gas = TRADE_GAS, to = accountsOf(way).router): SimulatedTransaction {
  const { wallet: from } = accountsOf(way);
  return { from, to, data: `${SELL}${legWordsOf(wayBack(way))}${signedWord(amount)}`, gas };
}

/** A block above another one, by default the next. */
export const blockAfter = (
  { number, timestamp }: SimulatedBlock,
  transactions: readonly SimulatedTransaction[],
  gap = { blocks: 1, seconds: BLOCK_SECONDS },
): SimulatedBlock => ({ number: number + gap.blocks, timestamp: timestamp + gap.seconds, transactions });

/**
 * Buys, sells some in the next block through the exchange's own router if it is known, and so many units through the probe.
 * @returns undefined if no endpoint simulates transactions, or the coin can't be wrapped
 */
export async function sellAsWallet(reader: ChainReader, way: Way, units: bigint): Promise<WalletTrades | undefined> {
  const bought = purchase(way);
  const official = releasedSale(way, units / 2n);
  const between = official === undefined ? [] : [blockAfter(bought, official)];
  const last = blockAfter(between[0] ?? bought, [approval(way, units), sale(way, units)]);
  const results = await reader.simulate([bought, ...between, last], way.block.number);
  if (results === undefined) return undefined;
  const [from, to] = [bought.transactions.length, results.length - last.transactions.length];
  const told = toldIn([...results.slice(0, from), ...results.slice(to)]);
  const [factory, , sold] = results.slice(from, to);
  const isOfFactory = factory !== undefined && addressAnswer(factory) === way.steps.at(-1)!.pool.factory;
  return told && { ...told, released: isOfFactory ? sold : undefined };
}

/** The wallet's sale through the router that the exchange has released: what proves the router, the approval, the sale. */
function releasedSale(way: Way, amount: bigint): readonly SimulatedTransaction[] | undefined {
  const back = wayBack(way);
  const router = releasedRouter(way.chainId, back.pool);
  if (router === undefined) return undefined;
  const from = accountsOf(way).wallet;
  const to = router.address;
  const data = routerSale(router, back, { amount, to: from });
  return [{ from, to, data: FACTORY, gas: SMALL_GAS }, approval(way, amount, to), { from, to, data, gas: TRADE_GAS }];
}

/** What the outcomes of a purchase tell, and of an approval and a sale after it. */
export function toldIn([wrapped, ...results]: readonly CallResult[]): WalletTrades | undefined {
  if (!wrapped!.ok) return undefined;
  const trades: ProbeTrade[] = [];
  const approvalAt = results.length - 2;
  for (const [index, { ok, data }] of results.entries()) {
    const made = index === approvalAt ? undefined : tradeAt(data, 0);
    if (!ok || (index !== approvalAt && made === undefined)) {
      return { trades, reason: data, isApproval: index === approvalAt };
    }
    if (made !== undefined) trades.push(made);
  }
  return { trades, reason: "0x" };
}

function tradeAt(data: string, place: number): ProbeTrade | undefined {
  const [sent, arrived, paid, received] = abiWords(data, place + 4)?.slice(place) ?? [];
  if (sent === undefined || arrived === undefined || paid === undefined || received === undefined) return undefined;
  return { sent, arrived, paid, received };
}

/**
 * Lets a contract buy, approve and sell in one call. Tokens can tell it from a wallet, and from one block to the next.
 * @returns the call's outcome; undefined if no endpoint takes overrides
 */
export function sellAsContract(reader: ChainReader, way: Way): Promise<CallResult | undefined> {
  const { wallet: to, router } = accountsOf(way);
  const code = probeCode(way);
  const accounts = { [to]: { code, balance: way.amount }, [router]: { code, balance: 0n } };
  const legs = way.steps.map((step) => legWordsOf(step)).join("");
  const head = [addressWord(router), addressWord(way.wrapped), signedWord(way.amount), wordOf(4 * 32)];
  const data = `${RUN}${head.join("")}${wordOf(way.steps.length)}${legs}`;
  return reader.callOverridden({ from: addressFrom(to), to, data: data as `0x${string}`, accounts }, way.block.number);
}

/** What the probe returned; undefined for other data. */
export function toldByContract(data: string): WalletTrades | undefined {
  const [at, reasonAt] = abiWords(data, 2) ?? [];
  if (at !== 64n || reasonAt === undefined || reasonAt > BigInt(data.length)) return undefined;
  const place = Number(reasonAt) / 32;
  // The trades lie before the revert data, after their number.
  const trades = Array.from({ length: (place - 3) / 4 }, (_, index) => tradeAt(data, 3 + index * 4)!);
  const start = 2 + (place + 1) * 64;
  return { trades, reason: `0x${data.slice(start, start + Number(abiWord(data, place) ?? 0n) * 2)}` };
}
