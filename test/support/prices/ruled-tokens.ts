/** The rules of `RuledToken`, and kinds of tokens that have one or several of them. */
const RULES = [
  ...["BuyTax", "SellTax", "TransferTax", "SellsFeesBefore", "SellsFeesAfter", "BlocksOfRest", "SecondsOfRest"],
  ...["HoldersWithoutCode", "OriginOnly", "NoContractCaller", "MostTransfer", "MostWallet", "LeastTransfer"],
  ...["BansBuyers", "OpensAt", "BuysClosed", "SalesClosed", "SendingClosed", "Remainder", "FeeOnTop"],
  ...["ApproveReverts", "ApproveFalse", "ApproveIgnored", "ApproveFromZero", "ApproveNarrow", "ApproveNotAll"],
  ...["AllowanceFails", "RebaseUp", "RebaseDown", "ReturnsFalse", "FalseOnSale", "SilentOnSale", "ReturnsNothing"],
  ...["Paused", "BurnsGas", "TakesGas", "ListedSellers", "KnownRouterOnly", "BurnsFromPool", "NoZero"],
  ...["MostGasPrice", "LeastGasPrice", "OneTransferABlock", "EarlySellTax", "CallsReceiver", "ShowsTwice"],
  ...["RestAfterSale", "BansContracts", "MostSalesABlock", "SpendsWhole", "NamesNoRouter"],
  ...["BansKnownRouter", "SellersWithCoins", "CallersOfCode", "DailyPart", "ListedOnly", "OpensLater", "LotSize"],
  "BlockStep",
] as const;
type RuleName = (typeof RULES)[number];

/** The rules of one token with their settings. */
export type Rules = Partial<Record<RuleName, bigint>>;

/** The numbers of the rules and their settings, as `arm` takes them. */
export const ruleArguments = (rules: Rules): readonly [readonly number[], readonly bigint[]] => [
  Object.keys(rules).map((name) => RULES.indexOf(name as RuleName)),
  Object.values(rules) as bigint[],
];

const TOKEN = 10n ** 18n;
const GWEI = 10n ** 9n;
/** A time that no test reaches, in seconds. */
const NEVER = 1n << 40n;
const ON = 1n;
const [HOUR, DAY] = [3_600n, 86_400n] as const;

/** A kind of token: what the probe must say of it on a pair, and on a pool of Uniswap v3 if that differs. */
export interface Kind {
  readonly name: string;
  readonly rules: Rules;
  readonly says: boolean | null;
  readonly saysOnV3?: boolean | null;
  /** True if a wallet on the token's list has sold some. */
  readonly isSoldByListed?: true;
  /** Tokens that the contract has gathered as fees. */
  readonly gathered?: bigint;
}

const kind = (says: boolean | null, name: string, rules: Rules, more: Partial<Kind> = {}): Kind => ({
  ...{ name, rules, says },
  ...more,
});

/** A pool of Uniswap v3 refuses a payment of which a part doesn't arrive. */
const REFUSED_BY_V3 = { saysOnV3: false } as const;
const FEES = { gathered: 100n * TOKEN } as const;

const TAXED: readonly Kind[] = [
  kind(true, "no rule", {}),
  kind(true, "1 % of purchases", { BuyTax: 100n }),
  kind(true, "5 % of purchases", { BuyTax: 500n }),
  kind(true, "30 % of purchases", { BuyTax: 3_000n }),
  kind(true, "60 % of purchases", { BuyTax: 6_000n }),
  kind(true, "95 % of purchases", { BuyTax: 9_500n }),
  kind(null, "all of purchases", { BuyTax: 10_000n }),
  kind(true, "1 % of sales", { SellTax: 100n }, REFUSED_BY_V3),
  kind(true, "5 % of sales", { SellTax: 500n }, REFUSED_BY_V3),
  kind(true, "30 % of sales", { SellTax: 3_000n }, REFUSED_BY_V3),
  kind(true, "99 % of sales", { SellTax: 9_900n }, REFUSED_BY_V3),
  kind(false, "all of sales", { SellTax: 10_000n }),
  kind(true, "3 % of both and of transfers", { BuyTax: 300n, SellTax: 300n, TransferTax: 300n }, REFUSED_BY_V3),
  kind(true, "10 % of transfers only", { TransferTax: 1_000n }),
  kind(true, "sells gathered fees before the holder's transfer", { SellTax: 300n, SellsFeesBefore: ON }, FEES),
  kind(true, "sells fees of its own purchase tax", { BuyTax: 500n, SellTax: 500n, SellsFeesBefore: ON }),
  kind(false, "sells gathered fees after the holder's transfer", { SellsFeesAfter: ON }, FEES),
  kind(true, "a fee of 2 % on top", { FeeOnTop: 200n }),
  kind(true, "a fee of 2 % on top and a tax", { FeeOnTop: 200n, SellTax: 200n }, REFUSED_BY_V3),
  kind(true, "burns a hundredth of the pool at a sale", { BurnsFromPool: 100n }),
  kind(null, "all of sales within two blocks of a purchase", { EarlySellTax: 10_000n, SellTax: 300n }, REFUSED_BY_V3),
];

const RESTING: readonly Kind[] = [
  kind(true, "rests for the block", { BlocksOfRest: 1n }),
  kind(null, "rests for three blocks", { BlocksOfRest: 3n }),
  kind(null, "rests for sixty blocks", { BlocksOfRest: 60n }),
  kind(null, "cools down for ten minutes", { SecondsOfRest: 600n }),
  kind(null, "cools down for a week", { SecondsOfRest: 604_800n }),
  kind(null, "cools down for ten minutes, and takes no unlimited approval", { SecondsOfRest: 600n, ApproveNotAll: ON }),
  kind(null, "cools down for six hours", { SecondsOfRest: 21_600n }),
  kind(null, "locked for 45 days", { SecondsOfRest: 45n * DAY }),
  kind(null, "a market that opens in one hour for eight a day", { OpensLater: HOUR }),
  kind(null, "a market that opens in ten hours for eight a day", { OpensLater: 10n * HOUR }),
  kind(null, "sales in every hundredth block", { BlockStep: 100n }),
  kind(true, "one transfer of an origin in a block", { OneTransferABlock: ON }),
  kind(true, "rests for ten blocks after a sale", { RestAfterSale: 10n }),
  kind(true, "one sale in a block", { MostSalesABlock: 1n }),
  kind(null, "cools down for an hour, and takes only some", {
    SecondsOfRest: 3_600n,
    MostTransfer: 5_000n * TOKEN,
  }),
];

const CALLERS: readonly Kind[] = [
  kind(true, "only accounts without code may hold it", { HoldersWithoutCode: ON }),
  kind(true, "only the origin may trade", { OriginOnly: ON }),
  kind(null, "no contract may call it", { NoContractCaller: ON }),
  kind(true, "bans contracts that receive it", { BansContracts: ON }),
  kind(true, "calls its receivers", { CallsReceiver: ON }),
  kind(null, "only the router that it knows may sell it", { KnownRouterOnly: ON }),
  kind(false, "bans its buyers", { BansBuyers: ON }),
  kind(false, "only listed sellers", { ListedSellers: ON }),
  kind(null, "only listed accounts, of which one sold", { ListedOnly: ON }, { isSoldByListed: true }),
  kind(false, "only listed accounts, of which none sold", { ListedOnly: ON }),
  kind(true, "no gas price above 100 gwei", { MostGasPrice: 100n * GWEI }),
  kind(true, "no gas price of nothing", { LeastGasPrice: 1n }),
];

const AMOUNTS: readonly Kind[] = [
  kind(true, "a large limit on transfers", { MostTransfer: 20_000n * TOKEN }),
  kind(null, "a small limit on transfers", { MostTransfer: 50n * TOKEN }),
  kind(true, "a large limit on wallets", { MostWallet: 20_000n * TOKEN }),
  kind(null, "a small limit on wallets", { MostWallet: 50n * TOKEN }),
  kind(true, "a least transfer", { LeastTransfer: 10n * TOKEN }),
  kind(null, "a least transfer of more than a half", { LeastTransfer: 700n * TOKEN }),
  kind(null, "a least transfer of more than is traded", { LeastTransfer: 3_000n * TOKEN }),
  kind(null, "a hundredth of a holding a day", { DailyPart: 100n }),
  // On the pair the first trial is of whole tokens by chance.
  kind(true, "whole tokens only", { LotSize: TOKEN }, { saysOnV3: null }),
  kind(true, "no transfer of nothing", { NoZero: ON }),
  kind(true, "a unit must be left", { Remainder: 1n }),
  kind(true, "ten tokens must be left", { Remainder: 10n * TOKEN }),
];

const ALLOWANCES: readonly Kind[] = [
  kind(false, "refuses approvals", { ApproveReverts: ON }),
  kind(true, "answers false to approvals", { ApproveFalse: ON }),
  kind(null, "ignores approvals", { ApproveIgnored: ON }),
  kind(true, "wants approvals set to zero first", { ApproveFromZero: ON }),
  kind(true, "takes approvals of 96 bits", { ApproveNarrow: ON }),
  kind(true, "takes no unlimited approvals", { ApproveNotAll: ON }),
  kind(true, "spends an allowance as a whole only", { SpendsWhole: ON }),
  kind(null, "no allowance for the pool", { AllowanceFails: ON }),
];

const ANSWERS: readonly Kind[] = [
  kind(true, "returns nothing", { ReturnsNothing: ON }),
  kind(false, "returns false", { ReturnsFalse: ON }),
  kind(false, "returns false at a sale", { FalseOnSale: ON }),
  kind(false, "moves nothing at a sale", { SilentOnSale: ON }),
  kind(null, "shows holders twice their balance", { ShowsTwice: ON }),
  kind(null, "shows holders more with each block", { RebaseUp: 100_000n }),
  kind(null, "shows holders less with each block", { RebaseDown: 100_000n }),
];

const CLOSED: readonly Kind[] = [
  kind(false, "paused", { Paused: ON }),
  kind(false, "not open yet", { OpensAt: NEVER }),
  kind(null, "closed to purchases only", { BuysClosed: ON }),
  kind(null, "closed to purchases, and to transfers of nothing", { BuysClosed: ON, NoZero: ON }),
  kind(false, "closed to sales", { SalesClosed: ON }),
  kind(false, "closed to sending", { SendingClosed: ON }),
  kind(false, "closed to sales, with a tax", { SalesClosed: ON, BuyTax: 500n, SellTax: 500n }),
  kind(false, "burns all gas at a sale", { BurnsGas: ON }),
  kind(true, "takes two million gas at a sale", { TakesGas: 2_000_000n }),
  kind(null, "takes six million gas at a sale", { TakesGas: 6_000_000n }),
];

export const KINDS: readonly Kind[] = [
  ...[TAXED, RESTING, CALLERS, AMOUNTS].flat(),
  ...[ALLOWANCES, ANSWERS, CLOSED].flat(),
];
