/**
 * Simulates the purchase and the sale of a priced token at the head, by one `eth_call` in which an empty address has the
 * code of `sale-probe.sol` and some coins. It trades with the pools of the route themselves, so it needs neither a router
 * nor a token's storage. What it can't tell is null.
 */
import { keccak256 } from "ethers";
import type { PoolStyle } from "../../chains/exchanges.ts";
import { AppError } from "../../core/errors.ts";
import { type Address, toAddress, ZERO_ADDRESS } from "../../core/hex.ts";
import { addressWord, selectorOf, wordOf } from "../../rpc/calls.ts";
import type { CallResult, ChainReader } from "../../rpc/port.ts";
import { ranked, sidesOf } from "../market/market.ts";
import {
  depthByMove,
  divide,
  format,
  minimum,
  multiply,
  type Pool,
  powerOfTen,
  type Rational,
  rational,
  truncate,
} from "../market/pools.ts";
import type { Quote } from "../market/quote.ts";
import { abiWord, abiWords, textAnswer } from "../styles/abi.ts";
import { poolContract } from "../styles/style.ts";
import { mayChangeAmounts } from "../styles/v4.ts";

export interface Sale {
  /** Null if it can't be known. */
  readonly sellable: boolean | null;
  /** The part of a payment that doesn't arrive, in per cent to the hundredth. */
  readonly buyTaxPercent: string | null;
  readonly sellTaxPercent: string | null;
  /** Set unless the token sells and both taxes are at most 5 %. */
  readonly why?: string;
}

/** A trade with one pool. */
interface Step {
  readonly pool: Pool;
  readonly input: Address;
  readonly output: Address;
}

/** What was sent and what arrived, in both directions, in the tokens' smallest units. */
interface Trade {
  readonly sent: bigint;
  readonly arrived: bigint;
  readonly paid: bigint;
  readonly received: bigint;
}

/** The probe's ways to trade, in the order of its `Kind`. */
const KINDS = ["reserves", "quoted", "callback", "manager"] as const;
const KIND_OF: Readonly<Record<PoolStyle, (typeof KINDS)[number]>> = {
  v2: "reserves",
  "v2-camelot": "quoted",
  v3: "callback",
  slipstream: "callback",
  "algebra-v1": "callback",
  "algebra-integral": "callback",
  "solidly-v1": "quoted",
  "solidly-v2": "quoted",
  v4: "manager",
};

/** The part of the route's depth that is traded: small beside limits that tokens set on the size of a transfer. */
const PART = rational(1n, 1_000n);
/** Balances of rebasing tokens are rounded by a unit or two. */
const ROUNDING = 2n;
/** With fewer units, a hundredth of a per cent is less than the rounding. */
const LEAST_UNITS = 20_000n;
/** Smallest units in a trade. Pools pay nothing for a few. */
const LEAST_TRADED = 100n;
/**
 * Per cent of a purchase that a sale of all of it gives back. Fees keep little of it, unless hooks or plugins set them; the
 * probe asks pairs for a tenth less than is due.
 */
const LEAST_BACK = 85n;
const MOST_TAX = rational(5n);
const CONFIDENCE_LIMIT = rational(1n, 10n);
const MAX_REASON = 120;

const RUN = selectorOf("run(address,uint256,(uint8,address,address,address,(address,address,uint24,int24,address))[])");
const PAYMENT_REFUSED = selectorOf("PaymentRefused(bool,bytes)");
const WRAPPED_ERROR = selectorOf("WrappedError(address,bytes4,bytes,bytes)");
const ERROR_TEXT = selectorOf("Error(string)");

const unknown = (why: string): Sale => ({ sellable: null, buyTaxPercent: null, sellTaxPercent: null, why });

/** The endpoints failed. Another attempt may tell more. */
export const UNANSWERED: Sale = unknown("the endpoints didn't answer the simulation");

/** Simulates a purchase and a sale of the quoted token at the quote's block. Never throws for an endpoint's fault. */
export async function saleOf(reader: ChainReader, quote: Quote): Promise<Sale> {
  const { market, token, usd, native, route } = quote;
  const { chain, block } = market;
  if (market.isPast) return unknown("sales are simulated at the head only");
  const steps = stepsTo(quote);
  if (route === undefined || steps === undefined) return unknown("no pools lead from the chain's coin to the token");
  if (steps.some(({ pool: { key } }) => key && mayChangeAmounts(key.hooks))) {
    return unknown("the pool's hooks may change the amounts");
  }
  if (native === undefined || usd.n === 0n) return unknown("the chain's coin has no price");
  const depthUsd = minimum(route.depthUsd, depthByMove(route.moveUsd));
  const tokens = divide(multiply(depthUsd, PART), usd);
  const amount = truncate(multiply(multiply(tokens, native), powerOfTen(chain.native.decimals)));
  const units = truncate(multiply(tokens, powerOfTen(market.facts.decimals ?? 0)));
  if (amount < LEAST_TRADED || units < LEAST_TRADED)
    return unknown("the pool is too small for a trade that moves nothing");
  // A contract can't know the hash of the block that it runs in, so no token recognises the address.
  const to = addressFrom(`${block.hash}${token.slice(2)}`);
  const accounts = { [to]: { code: `0x${SALE_PROBE}`, balance: amount } };
  const data = dataOf(chain.wrappedNative.address, amount, steps);
  try {
    const result = await reader.callOverridden({ from: addressFrom(to), to, data, accounts }, block.number);
    if (result === undefined) return unknown("the endpoints don't take state overrides");
    return toldBy(result, steps, token === chain.wrappedNative.address);
  } catch (error) {
    if (error instanceof AppError) return UNANSWERED;
    throw error;
  }
}

const addressFrom = (hex: string): Address => toAddress(`0x${keccak256(hex).slice(26)}`);

/** Why the confidence in the price is limited: the token can't be sold, or keeps more than 5 % of a transfer. */
export function limitOf(sale: Sale): string | undefined {
  return sale.sellable === false || isTaxed(sale) ? sale.why : undefined;
}

/** Limits the confidence in the price of such a token to 0.1. */
export const cappedBySale = (confidence: Rational, sale: Sale): Rational =>
  limitOf(sale) === undefined ? confidence : minimum(confidence, CONFIDENCE_LIMIT);

const isTaxed = ({ buyTaxPercent, sellTaxPercent }: Sale): boolean =>
  [buyTaxPercent, sellTaxPercent].some((tax) => tax !== null && Number(tax) > Number(format(MOST_TAX)));

/**
 * The trades from the wrapped coin to the token: those of the route backwards, after one from the coin if the route
 * doesn't pass it. For the wrapped coin itself, the trade of the route. Undefined if there is no way.
 */
function stepsTo({ market, token, route }: Quote): readonly Step[] | undefined {
  const native = market.chain.wrappedNative.address;
  const legs = route?.legs ?? [];
  if (token === native) return legs.slice(0, 1).map(({ pool, base, quote }) => ({ pool, input: base, output: quote }));
  const passing = legs.findIndex(({ quote }) => quote === native);
  const own = passing < 0 ? legs : legs.slice(0, passing + 1);
  const steps = own.map(({ pool, base, quote }) => ({ pool, input: quote, output: base })).reverse();
  const from = steps[0]?.input;
  if (from === undefined) return undefined;
  if (from === native) return steps;
  const sides = sidesOf(market, native, (quote) => quote === from);
  const [first] = ranked(
    market,
    sides.filter(({ depth }) => depth.n > 0n),
  );
  return first && [{ pool: first.pool, input: native, output: from }, ...steps];
}

const amountWord = (amount: bigint): string => amount.toString(16).padStart(64, "0");

function dataOf(wrapped: Address, amount: bigint, steps: readonly Step[]): `0x${string}` {
  const legs = steps.flatMap(({ pool, input, output }) => {
    const { key = { currency0: ZERO_ADDRESS, fee: 0, spacing: 0, hooks: ZERO_ADDRESS } } = pool;
    return [
      wordOf(KINDS.indexOf(KIND_OF[pool.style])),
      ...[pool.key === undefined ? poolContract(pool) : pool.factory, input, output].map(addressWord),
      ...[addressWord(key.currency0), addressWord(pool.token1)],
      ...[wordOf(key.fee), wordOf(key.spacing), addressWord(key.hooks)],
    ];
  });
  const head = [addressWord(wrapped), amountWord(amount), wordOf(3 * 32), wordOf(steps.length)];
  return `${RUN}${[...head, ...legs].join("")}` as `0x${string}`;
}

/** What the probe returned: the trades up to the first one that failed, and its revert data. */
interface Told {
  readonly trades: readonly Trade[];
  readonly reason: string;
}

function tradesIn(data: string): Told | undefined {
  const [at, reasonAt] = abiWords(data, 2) ?? [];
  if (at !== 64n || reasonAt === undefined || reasonAt > BigInt(data.length)) return undefined;
  const place = Number(reasonAt) / 32;
  // The trades lie before the revert data, after their number.
  const words = (abiWords(data, place) ?? []).slice(3);
  const trades = Array.from({ length: words.length / 4 }, (_, index) => {
    const [sent = 0n, arrived = 0n, paid = 0n, received = 0n] = words.slice(index * 4);
    return { sent, arrived, paid, received };
  });
  const start = 2 + (place + 1) * 64;
  return { trades, reason: `0x${data.slice(start, start + Number(abiWord(data, place) ?? 0n) * 2)}` };
}

/** Judges the trades: a failed one, balances that lie, a pool that pays nothing back, and taxes, in this order. */
function toldBy(result: CallResult, steps: readonly Step[], isWrapped: boolean): Sale {
  const told = result.ok ? tradesIn(result.data) : undefined;
  if (told === undefined) return unknown("the node gives too little gas, or the chain's coin can't be wrapped");
  const { trades } = told;
  // The wrapped coin is there from the beginning, so it is sold first.
  const [bought, sold] = isWrapped ? [1, 0] : [steps.length - 1, steps.length];
  const [purchase, sale] = [trades[bought], trades[sold]];
  const taxes = {
    buyTaxPercent: purchase === undefined ? null : lost(purchase.paid, purchase.received),
    sellTaxPercent: sale === undefined ? null : lost(sale.sent, sale.arrived),
  };
  if (purchase === undefined || sale === undefined) return { ...failureOf(told, steps, isWrapped), ...taxes };
  if (purchase.received > purchase.paid + ROUNDING || sale.arrived > sale.sent + ROUNDING) {
    return unknown("balanceOf shows more than was transferred");
  }
  const back = (purchase.paid * sale.paid * 100n) / (purchase.arrived * sale.arrived || 1n);
  if (back < LEAST_BACK) {
    const why = `the pool pays back ${back} % of what it is paid, beside the token's taxes`;
    return { sellable: false, ...taxes, why };
  }
  const passed = { sellable: true, ...taxes };
  const { buyTaxPercent, sellTaxPercent } = taxes;
  if (buyTaxPercent === null || sellTaxPercent === null) {
    return { ...passed, why: "its units are too large to tell its taxes" };
  }
  if (!isTaxed(passed)) return passed;
  return { ...passed, why: `the token keeps ${buyTaxPercent} % of a purchase and ${sellTaxPercent} % of a sale` };
}

/** Says whether the trade that failed speaks against the token, against another one, or against the pool's hooks. */
function failureOf({ trades, reason }: Told, steps: readonly Step[], isWrapped: boolean) {
  const words = wordsOf(reason);
  const isPayment = reason.startsWith(PAYMENT_REFUSED);
  const isSale = trades.length === steps.length;
  const isPurchase = trades.length === steps.length - 1;
  const { hooks = ZERO_ADDRESS } = steps.at(-1)?.pool.key ?? {};
  if (hooks !== ZERO_ADDRESS && (isSale || isPurchase) && !isPayment) {
    return unknown(`the pool's hooks may want another caller: ${words}`);
  }
  // A purchase is paid in another token.
  if (isWrapped || !(isSale || (isPurchase && !isPayment)))
    return unknown(`a trade with another token failed: ${words}`);
  // A token that rests after a purchase refuses the sale for that block.
  const failed = isSale ? "sale in the block of the purchase" : "purchase";
  return { sellable: false, why: `the simulated ${failed} failed: ${words}` };
}

/** The part of `sent` that did not arrive, in per cent, rounded to the hundredth; null if the units are too few for it. */
function lost(sent: bigint, arrived: bigint): string | null {
  if (sent < LEAST_UNITS) return null;
  const missing = sent - arrived;
  if (missing <= ROUNDING) return "0";
  return format(rational((missing * 10_000n + sent / 2n) / sent, 100n));
}

/** Says which part of a trade failed, and the reason that the contract gave. */
function wordsOf(reason: string): string {
  if (!reason.startsWith(PAYMENT_REFUSED)) return `the pool or the token's transfer from it reverted${textOf(reason)}`;
  if (argumentOf(reason, 0) !== 1n) return "the transfer to the pool returned false";
  return `the transfer to the pool reverted${textOf(bytesArgument(reason, 1))}`;
}

const argumentOf = (data: string, index: number): bigint | undefined => abiWord(`0x${data.slice(10)}`, index);

/** Decodes a `bytes` argument of an error, as far as the probe kept it. */
function bytesArgument(data: string, index: number): string {
  const place = Number(argumentOf(data, index) ?? 0n) / 32;
  const length = Number(argumentOf(data, place) ?? 0n);
  const start = 10 + (place + 1) * 64;
  return `0x${data.slice(start, start + length * 2)}`;
}

function textOf(error: string): string {
  // Uniswap v4 wraps the errors of tokens and hooks.
  const data = error.startsWith(WRAPPED_ERROR) ? bytesArgument(error, 2) : error;
  if (data === "0x") return " without a reason";
  if (!data.startsWith(ERROR_TEXT)) return ` with the error ${data.slice(0, 10)}`;
  return ` (${(textAnswer({ ok: true, data: `0x${data.slice(10)}` }) ?? "").slice(0, MAX_REASON)})`;
}

/**
 * The runtime code of `sale-probe.sol`, by solc 0.8.37 over its IR with 200 runs, for the EVM of Paris, without metadata.
 * A test compiles it anew and compares.
 */
export const SALE_PROBE: string = [
  "60806040526004361015610028575b3615610021573461002357610021611280565b005b600080fd5b60003560e01c80630fc6cdef14610058",
  "57806391dd7346146100535763dc0b81250361000e5761042c565b610392565b34610023576060366003190112610023576004356100758161",
  "0112565b60443560243567ffffffffffffffff82116100235736602383011215610023578160040135926100a4846101a9565b926100b26040",
  "519485610176565b84845260246101206020860196028201019036821161002357602401945b8186106100f75750506100e39350610959565b",
  "906100f360405192839283610308565b0390f35b60206101209161010736896101e9565b8152019501946100d0565b6001600160a01b038116",
  "0361002357565b634e487b7160e01b600052604160045260246000fd5b60a0810190811067ffffffffffffffff82111761015557604052565b",
  "610123565b6080810190811067ffffffffffffffff82111761015557604052565b90601f8019910116810190811067ffffffffffffffff8211",
  "1761015557604052565b604051906101a7606083610176565b565b67ffffffffffffffff81116101555760051b60200190565b600411156100",
  "2357565b359062ffffff8216820361002357565b35908160020b820361002357565b8092910391610120831261002357604051610203816101",
  "39565b60a081948335610212816101c1565b8352602084013561022281610112565b6020840152604084013561023581610112565b60408401",
  "52606084013561024881610112565b6060840152607f190112610023576080906101006040519361026985610139565b838101356102768161",
  "0112565b855260a081013561028681610112565b602086015261029760c082016101cb565b60408601526102a860e082016101db565b606086",
  "015201356102b881610112565b828401520152565b60005b8381106102d35750506000910152565b81810151838201526020016102c3565b90",
  "6020916102fc815180928185528580860191016102c0565b601f01601f1916010190565b929160408401936040815282518095526020606082",
  "0193016000955b80871061034357505061034093945060208184039101526102e3565b90565b90936020608082610375600194895160608091",
  "8051845260208101516020850152604081015160408501520151910152565b01950196019590610324565b9060206103409281815201906102",
  "e3565b346100235760203660031901126100235760043567ffffffffffffffff811161002357366023820112156100235780600401359067ff",
  "ffffffffffffff8211610023573660248383010111610023576100f39160246103f19201610be8565b60405191829182610381565b6101a790",
  "9291926080810193606080918051845260208101516020850152604081015160408501520151910152565b3461002357366003190161014081",
  "1261002357610120136100235761012435610453610706565b5061048161045f611016565b60018060a01b03166bffffffffffffffffffffff",
  "ff60a01b6001541617600155565b61049b61048f61048f611022565b6001600160a01b031690565b6040516370a0823160e01b815230600482",
  "01529190602090839060249082905afa9182156105ea57600092610641575b5060036104d6611038565b6104df8161083e565b036106125760",
  "00610539819261050f61051d6104ff61048f61048f611016565b926040519283916020830161104e565b03601f198101835282610176565b60",
  "40519485809481936348c8949160e01b835260048301610381565b03925af180156105ea5761055f916000916105ef575b5060208082518301",
  "0191016107fe565b61056d61048f61048f611022565b6040516370a0823160e01b815230600482015290602090829060249082905afa928315",
  "6105ea576100f3936105aa926000916105bb575b5061078a565b6060820152604051918291826103fd565b6105dd915060203d6020116105e3",
  "575b6105d58183610176565b810190610679565b386105a4565b503d6105cb565b61066d565b61060c91503d806000833e6106048183610176",
  "565b810190611136565b3861054f565b600261061c611038565b6106258161083e565b036106385761063390611795565b61055f565b610633",
  "906114fc565b61065b91925060203d6020116105e3576105d58183610176565b90386104cb565b600091031261002357565b6040513d600082",
  "3e3d90fd5b90816020910312610023575190565b1561068f57565b60405162461bcd60e51b815260206004820152600b60248201526a1b9bdd",
  "081ddc985c1c195960aa1b6044820152606490fd5b634e487b7160e01b600052601160045260246000fd5b90600182018092116106e657565b",
  "6106c2565b90600282018092116106e657565b919082018092116106e657565b604051906107138261015a565b600060608382815282602082",
  "01528260408201520152565b90610735826101a9565b6107426040519182610176565b8281528092610753601f19916101a9565b019060005b",
  "82811061076457505050565b60209061076f610706565b82828501015201610758565b6000198101919082116106e657565b91908203918211",
  "6106e657565b80518210156107ab5760209160051b010190565b634e487b7160e01b600052603260045260246000fd5b156107c857565b6040",
  "5162461bcd60e51b815260206004820152600e60248201526d746f6f206c6974746c652067617360901b6044820152606490fd5b9081608091",
  "03126100235760606000916040519261081b8461015a565b815184526020820151602085015260408201516040850152500151606082015290",
  "565b6004111561084857565b634e487b7160e01b600052602160045260246000fd5b9060048210156108485752565b80516001600160a01b03",
  "908116835260208083015182169084015260408083015162ffffff169084015260608083015160020b9084015260809182015116910152565b",
  "610120909392919361090960806101408301966108cc84825161085e565b6020818101516001600160a01b0390811691860191909152604080",
  "830151821690860152606080830151909116908501520151608083019061086b565b0152565b67ffffffffffffffff811161015557601f0160",
  "1f191660200190565b3d15610954573d9061093a8261090d565b916109486040519384610176565b82523d6000602084013e565b606090565b",
  "600080546001600160a01b0319166001600160a01b03831617905591926060929091906001600160a01b0316803b1561002357604051630d0e",
  "30db60e41b815260008160048186865af180156105ea57610b53575b506040516370a0823160e01b8152306004820152906020908290602490",
  "82905afa9081156105ea576109ef918391600091610b34575b509492941015610688565b610a016109fc85516106d8565b61072b565b936000",
  "9362401640905b8651861015610b2b576080610a62918451808910600014610b1a5750610a32885b86610797565b5185518914610af7575b61",
  "0a47855a116107c1565b60405163dc0b812560e01b81529384928392600484016108ae565b0381600030623d0900f160009181610ac7575b50",
  "610a9d5750505050610a86610929565b915b8352610200825111610a9657565b6102008252565b606081600192610ab0898b9a989a61079756",
  "5b52610abb868a610797565b50015193019492610a0b565b610ae991925060803d8111610af0575b610ae18183610176565b8101906107fe56",
  "5b9038610a75565b503d610ad7565b6060810180516040830180516001600160a01b0390811690935291169052610a3c565b610b26610a3291",
  "61077b565b610a2c565b50505091610a88565b610b4d915060203d6020116105e3576105d58183610176565b386109e4565b80610b62600061",
  "0b6893610176565b80610662565b386109ae565b91906101408382031261002357610b8861012091846101e9565b92013590565b600160ff1b",
  "81146106e65760000390565b9091610bae826101409461086b565b8051151560a0830152602081015160c0830152604001516001600160a01b",
  "031660e082015261012061010082018190526000908201520190565b610bf491810190610b6e565b6060820151608090920180516020810151",
  "91936001600160a01b0392831692168214929190831561100657516001600160a01b031690915b610c34610706565b818152946001600160a0",
  "1b038316610f5457600054610c5d9061048f906001600160a01b031681565b91823b1561002357604051632e1a7d4d60e01b81526004810182",
  "9052926000908490602490829084905af19081156105ea57600493602092610f3f575b50604051630476982d60e21b81529384918290335af1",
  "80156105ea57610d2992600091610f20575b5060208701525b5193602080870195610cdb8751610b8e565b908315610f0357610d0e64010002",
  "76a45b610cf4610198565b861515815293848601526001600160a01b03166040840152565b604051633cf3645360e21b815294859283926004",
  "8401610b9f565b03816000335af19182156105ea57610d7992610d7391600091610ee4575b50610d528160801d90565b90600f0b8315610edd",
  "5780975b60408a01988952519315610ed65750610b8e565b9061078a565b9081610e73575b50508151333b1561002357604051630b0d9c0960",
  "e01b81526001600160a01b0383166004820152306024820152604481019190915260008160648183335af180156105ea57610e5e575b506001",
  "600160a01b031615610df1575b5061034061050f91604051928391602083016103fd565b600054909190610e0b9061048f906001600160a01b",
  "031681565b915191803b1561002357600090600460405180958193630d0e30db60e41b83525af19081156105ea5761050f9261034092610e49",
  "575b509150610dda565b80610b626000610e5893610176565b38610e41565b80610b626000610e6d93610176565b38610dca565b333b156100",
  "2357604051630b0d9c0960e01b81526001600160a01b03919091166004820152306024820152604481019190915260008160648183335af180",
  "156105ea57610ec1575b80610d80565b80610b626000610ed093610176565b38610ebb565b9050610b8e565b8197610d5f565b610efd915060",
  "203d6020116105e3576105d58183610176565b38610d47565b610d0e73fffd8963efd1fc6a506488495d951d5263988d25610cec565b610f39",
  "915060203d6020116105e3576105d58183610176565b38610cc2565b80610b626000610f4e93610176565b38610c9a565b90333b1561002357",
  "604051632961046560e21b81526001600160a01b03841660048201529060008260248183335af19182156105ea57610f9b92610ff1575b5033",
  "84611389565b50604051630476982d60e21b8152906020826004816000335af180156105ea57610d2992600091610fd2575b50602087015261",
  "0cc9565b610feb915060203d6020116105e3576105d58183610176565b38610fc7565b80610b62600061100093610176565b38610f93565b51",
  "6001600160a01b031691610c2c565b60243561034081610112565b60643561034081610112565b3561034081610112565b6004356103408161",
  "01c1565b35610340816101c1565b919061012061014084019361106e81600435611069816101c1565b61085e565b60243561107a8161011256",
  "5b6001600160a01b0316602082015260443561109481610112565b6001600160a01b031660408201526064356110ae81610112565b60016001",
  "60a01b031660608201526084356110c881610112565b6001600160a01b0316608082015260a4356110e281610112565b6001600160a01b0316",
  "60a082015262ffffff6110fe60c46101cb565b1660c082015261110e60e46101db565b60020b60e08201526101043561112381610112565b60",
  "01600160a01b03166101008201520152565b6020818303126100235780519067ffffffffffffffff8211610023570181601f82011215610023",
  "5780516111698161090d565b926111776040519485610176565b818452602082840101116100235761034091602080850191016102c0565b91",
  "909182600411610023578211610023576004916003190190565b90916060828403126100235781359260208301359260408101359067ffffff",
  "ffffffffff8211610023570181601f82011215610023578035906111f28261090d565b926112006040519485610176565b8284526020838301",
  "011161002357816000926020809301838601378301015290565b90816020910312610023575161034081610112565b90605f82029180830460",
  "5f14901517156106e657565b818102929181159184041417156106e657565b811561126a570490565b634e487b7160e01b6000526012600452",
  "60246000fd5b600154611295906001600160a01b031661048f565b33036101a7576112cd6112dd61048f6112b96112b13636611195565b8101",
  "906111b0565b602080829794959397518301019101611222565b9260008213156113475750600255565b6112f26112ed600254338461138956",
  "5b600355565b60035490600254918281108061133e575b61130c57505050565b61132e81611329856113246113339561133b9861078a565b61",
  "124d565b611260565b6106eb565b903390611389565b50565b50801515611303565b60025550565b6020815191015190602081106113615750",
  "90565b6000199060200360031b1b1690565b60409061034093921515815281602082015201906102e3565b6040516370a0823160e01b815260",
  "01600160a01b03838116600483015290939082169190602085602481865afa9485156105ea576000956114bd575b5060405163a9059cbb60e0",
  "1b602082019081526001600160a01b03861660248301526044820192909252600092839290918390611405816064810161050f565b51925af1",
  "611411610929565b9015808015611485575b6114655750506040516370a0823160e01b81526001600160a01b03929092166004830152909190",
  "602090839060249082905afa80156105ea57610340926000916105bb575061078a565b61148160405192839263307bdb1360e01b8452600484",
  "01611370565b0390fd5b5081518015159081611498575b5061141b565b602091501080156114aa575b38611492565b5060016114b68361134d",
  "565b14156114a4565b60009290839296506114dd9060203d6020116105e3576105d58183610176565b959150916113c5565b91908260409103",
  "12610023576020825192015190565b90611505610706565b91611510604461102e565b61151d61048f606461102e565b6001600160a01b0390",
  "9116109061154881611538604461102e565b611542602461102e565b90611389565b90602085019182528452600161155e6004611044565b61",
  "15678161083e565b036116985760206115c29161158261048f61048f602461102e565b90519061158f604461102e565b6040516378a051ad60",
  "e11b815260048101939093526001600160a01b031660248301529092839190829081906044820190565b03915afa9081156105ea5760009161",
  "1679575b5060408401525b6115ec61048f61048f602461102e565b90801561166e576000905b15611666576040840151905b823b1561002357",
  "60405163022c0d9f60e01b815260048101919091526024810191909152306044820152608060648201526000608482018190529091829060a4",
  "90829084905af180156105ea576116575750565b80610b6260006101a793610176565b600090611603565b6040840151906115f7565b611692",
  "915060203d6020116105e3576105d58183610176565b386115d5565b60049060406116ad61048f61048f602461102e565b8151630240bc6b60",
  "e21b815293849182905afa80156105ea576117109260009060009261172a575b50908082861561171a575b50506117046116fd6116f661170a",
  "949551611237565b6064900490565b918261124d565b926106f9565b90611260565b60408401526115dc565b90925090506117046116fd6116",
  "e0565b905061174e915060403d604011611755575b6117468183610176565b8101906114e6565b90386116d5565b503d61173c565b60016001",
  "60a01b039182168152911515602083015260408201929092529116606082015260a060808201819052610340929101906102e3565b9061179e",
  "610706565b91611848604061181c6117b1604461102e565b6117be61048f606461102e565b6001600160a01b0390911610936117e36117dc61",
  "048f80602461102e565b9160011c90565b85156118a55760006401000276a4915b61182a611800604461102e565b87516001600160a01b0390",
  "911660208201529586906040820190565b03601f198101875286610176565b8551630251596160e31b8152968795869485938b306004870161",
  "175c565b03925af19081156105ea5761187b92600091600093611882575b506002546003546020880152865215610ed65750610b8e565b6040",
  "830152565b90925061189e915060403d604011611755576117468183610176565b9138611862565b600073fffd8963efd1fc6a506488495d95",
  "1d5263988d25916117f356",
].join("");
