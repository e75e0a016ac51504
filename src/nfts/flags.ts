/**
 * The rules behind `possible_spam` and `verified_collection`: pure, each with an id that goes into the log. In: what a
 * contract calls itself, whether its history has the shape of an airdrop, and the operator's lists. Out: the flags and
 * the rule that fired; without a rule there is no flag.
 */
import type { Address } from "../core/hex.ts";

/** Raised whenever a rule on words changes: collections judged by an older number are judged anew. */
export const RULES_VERSION = 1;

/** What the operator's two files say. */
export interface FlagLists {
  isSpam(chainId: number, address: Address): boolean;
  isVerified(chainId: number, address: Address): boolean;
}

export interface Flags {
  readonly possibleSpam: boolean;
  readonly verifiedCollection: boolean;
  /** Ids of the rules that fired, joined by a comma; "" for none. */
  readonly rule: string;
}

export const NO_LISTS: FlagLists = { isSpam: () => false, isVerified: () => false };

/** Letters of other scripts that scammers write Latin words with, as the Latin letter they look like. */
const LOOKALIKES: Readonly<Record<string, string>> = Object.fromEntries(
  [
    ["асеіјорѕухһԁԛԝ", "aceijopsyxhdqw"],
    ["αεικνορτυχ", "aeiknoptux"],
    ["ıɑɡ", "iag"],
  ].flatMap(([from = "", to = ""]) => [...from].map((letter, at) => [letter, to[at] as string])),
);

/** The text as a reader takes it: one width, no invisible letters or accents, look-alikes and hidden dots resolved. */
export function plainText(text: string): string {
  return text
    .normalize("NFKD")
    .replace(/[\p{Cf}\p{M}]/gu, "")
    .toLowerCase()
    .replace(/[^\0-\x7f]/gu, (letter) => LOOKALIKES[letter] ?? letter)
    .replace(/[。｡]|\s*(?:\[\.\]|\(\.\)|\[dot\]|\(dot\))\s*/g, ".")
    .replace(/\s+/g, " ")
    .trim();
}

/** Endings under which such sites live; brands such as `zed.run` or `ether.cards` are left alone. */
const SITE_ENDINGS =
  "com|net|org|io|cc|xyz|app|site|online|link|live|click|top|vip|pro|gifts?|claims|promo|events|finance|info|biz|lol|lat|cfd|sbs|icu|ru|gg|tech|website|store|shop|space|today|network";
/** Endings that are words, too: believed with a path behind them. */
const WORD_ENDINGS = "me|in|us|to|co|is|it|at|fun|ly";
const NAME = "(?<![a-z0-9.@-])[a-z0-9][a-z0-9-]+(?:\\.[a-z0-9-]+)*\\.";
const SITE = new RegExp(
  [
    "https?:",
    "\\bwww\\.",
    "\\bt\\.me/",
    `${NAME}(?:${SITE_ENDINGS})(?![a-z0-9-]|\\.[a-z0-9])`,
    `${NAME}(?:${WORD_ENDINGS})/`,
  ].join("|"),
);
/** An amount of money, and what it is dangled as. */
const MONEY = "(?:[$€£] ?\\d|\\b\\d[\\d.,]*k? ?(?:\\$|€|£|(?:usd[ct]?|dai|w?eth|steth|bnb|matic|w?btc|dollars?)\\b))";
const LURE = "\\b(?:rewards?|bonus|vouchers?|coupons?|gifts?|prizes?|cashback)\\b";

/** The rules on words, in the order in which they are told. */
const WORD_RULES: readonly { readonly id: string; readonly pattern: RegExp }[] = [
  { id: "url", pattern: SITE },
  {
    id: "visit",
    pattern: /\bvisit\b.+\bto\b|\b(?:go|head) to\b.+\b(?:to|and|for)\b.*\b(?:claim|get|receive|redeem|swap)\b/,
  },
  {
    id: "claim",
    pattern:
      /\bclaim (?:(?:your|ur|my|free|now|here|it|this|at|on|from|via|by|until|before|rewards?|bonus|prizes?|gifts?|airdrops?|tokens?|vouchers?|tickets?|w?eth|usd[ct]?)\b|[$\d])|\bclaim ?(?:!|:|->|=>|→)|(?:\b(?:to|and|free|can|please|now|rewards?|bonus|prizes?|gifts?|tokens?|vouchers?)|&) claim\b|\bclaimable\b|^claim$/,
  },
  { id: "airdrop", pattern: /\bair ?-?drops?\b|\bgive ?-?aways?\b/ },
  { id: "reward", pattern: new RegExp(`${MONEY}.*${LURE}|${LURE}.*${MONEY}`) },
];

/** The first rule that fires on the contract's own words, as `name-…` or `symbol-…`; "" for none. */
export function ruleOfWords({ name, symbol }: { readonly name: string; readonly symbol: string }): string {
  for (const [where, words] of [
    ["name", plainText(name)],
    ["symbol", plainText(symbol)],
  ] as const) {
    const fired = WORD_RULES.find(({ pattern }) => pattern.test(words));
    if (fired !== undefined) return `${where}-${fired.id}`;
  }
  return "";
}

/** What is known of a collection that rules go by. */
export interface FlagFacts {
  readonly chainId: number;
  readonly address: Address;
  /** Rules that fired on its words and on its history; "" for none. */
  readonly wordRule: string;
  readonly shapeRule: string;
}

/** The flags that these facts and lists give. The operator's word stands above every rule. */
export function judge({ chainId, address, wordRule, shapeRule }: FlagFacts, lists: FlagLists): Flags {
  const spam = lists.isSpam(chainId, address);
  const verifiedCollection = lists.isVerified(chainId, address);
  if (spam || verifiedCollection) {
    const rule = [spam ? "spam-list" : "", verifiedCollection ? "verified-list" : ""].filter(Boolean).join(",");
    return { possibleSpam: spam, verifiedCollection, rule };
  }
  const rule = [wordRule, shapeRule].filter(Boolean).join(",");
  return { possibleSpam: rule !== "", verifiedCollection: false, rule };
}
