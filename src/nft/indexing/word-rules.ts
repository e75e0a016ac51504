/** Judges a collection by its name and symbol, and by the operator's lists. A rule has an id, which the event log keeps. Pure. */
import type { Address } from "../../core/hex.ts";
import type { FlagsChanged } from "../../events/types.ts";
import type { FlagLists } from "../collections/operator-lists.ts";

/** Increase it with every change to a word rule: collections judged with a lower version are judged again. */
export const RULES_VERSION = 1;

/** `rule`: ids of the rules that matched, joined by a comma; "" for none. */
type Flags = Omit<FlagsChanged, "type">;

/** Letters of other scripts that scammers use in Latin words, with the Latin letter that they resemble. */
const LOOKALIKES: Readonly<Record<string, string>> = Object.fromEntries(
  [
    ["асеіјорѕухһԁԛԝ", "aceijopsyxhdqw"],
    ["αεικνορτυχ", "aeiknoptux"],
    ["ıɑɡ", "iag"],
  ].flatMap(([from = "", to = ""]) => [...from].map((letter, at) => [letter, to[at] as string])),
);

/**
 * The text as a human reads it: normal width, no invisible letters or accents, look-alikes and hidden dots resolved.
 */
function plainText(text: string): string {
  return text
    .normalize("NFKD")
    .replace(/[\p{Cf}\p{M}]/gu, "")
    .toLowerCase()
    .replace(/[^\0-\x7f]/gu, (letter) => LOOKALIKES[letter] ?? letter)
    .replace(/[。｡]|\s*(?:\[\.\]|\(\.\)|\[dot\]|\(dot\))\s*/g, ".")
    .replace(/\s+/g, " ")
    .trim();
}

/** Top-level domains of such sites. Endings of brand names like `zed.run` or `ether.cards` are left out. */
const SITE_ENDINGS =
  "com|net|org|io|cc|xyz|app|site|online|link|live|click|top|vip|pro|gifts?|claims|promo|events|finance|info|biz|lol|lat|cfd|sbs|icu|ru|gg|tech|website|store|shop|space|today|network";
/** Top-level domains that are English words, too: they count only with a path after them. */
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
/** An amount of money. */
const MONEY = "(?:[$€£] ?\\d|\\b\\d[\\d.,]*k? ?(?:\\$|€|£|(?:usd[ct]?|dai|w?eth|steth|bnb|matic|w?btc|dollars?)\\b))";
/** A word for a promised gift. */
const LURE = "\\b(?:rewards?|bonus|vouchers?|coupons?|gifts?|prizes?|cashback)\\b";

/** The rules on words; the first match counts. */
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

/** The first rule that matches the contract's name or symbol, as `name-…` or `symbol-…`; "" for none. */
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

/** The facts of a collection that the rules use. */
interface FlagFacts {
  readonly chainId: number;
  readonly address: Address;
  /** Rules that matched its words and its history; "" for none. */
  readonly wordRule: string;
  readonly shapeRule: string;
}

/** The flags of a collection. An entry in the operator's lists overrides every other rule. */
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
