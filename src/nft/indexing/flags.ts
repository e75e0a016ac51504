/**
 * Spam and verification flags: the rules (pure, each with an id that the event log stores), the shape of an airdrop,
 * and the `FlagsChanged` events for the stream's current writer, so that no two processes write them.
 */
import type { ChainWork } from "../../chain/consumer.ts";
import { isAbort } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Lifecycle } from "../../core/lifecycle.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { type ContractIdentified, type FlagsChanged, type NftEvent, nftStream } from "../../events/types.ts";
import type { IndexState } from "../collections/headline.ts";
import type { FlagLists } from "../collections/operator-lists.ts";
import type { BalanceHistory } from "../ledger/balances.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { OwnerHistory } from "../ledger/owners.ts";

// Detects airdrops: collections minted to many receivers without their request. The log does not say which account
// paid for a mint, so the rule tests for a shape that self-minting cannot have: over the whole history, the average
// block with mints has dozens of different receivers, and nearly no token has moved since.

/** Id of the rule in the event log. */
const AIRDROP_SHAPE = "airdrop-shape";

/** Fewer receivers are likely a team. */
const MIN_RECEIVERS = 200;
/**
 * Least average number of different receivers per block with mints. A self-mint costs at least 70,000 gas, so fifty of
 * them take a tenth of a block. A sale may reach that in a few blocks, but not on average with its slow blocks.
 */
const MIN_PER_BLOCK = 50;
/** Least share of mints among all transfers: tokens with a demand are sold and given away. */
const MIN_MINTED = 0.97;

/** Facts per slice: a millisecond. */
const SLICE = 65_536;

/**
 * True if the collection has the shape of an airdrop. Reads the whole history, in slices, but only if the cheap
 * conditions hold. Transfers that arrive meanwhile are few, and trigger another check.
 */
export async function isAirdropShaped({ addresses, owners, balances, rows }: Ledger): Promise<boolean> {
  const receivers = addresses.count - 1;
  const transfers = owners.count + balances.count;
  if (receivers < MIN_RECEIVERS || rows.ranges.length > 0) return false;
  // Few receivers with many tokens each are minters, not airdrop receivers.
  if (receivers < transfers / 2) return false;
  const minted =
    (await countOf(owners, (entry) => owners.prev(entry) === -1)) +
    (await countOf(balances, (transfer) => balances.isMint(transfer)));
  if (minted < transfers * MIN_MINTED) return false;
  const blocks = (await blocksIn(owners)) + (await blocksIn(balances));
  return receivers >= blocks * MIN_PER_BLOCK;
}

/** Number of different blocks of a history, which is in order of blocks. */
const blocksIn = (history: OwnerHistory | BalanceHistory): Promise<number> =>
  countOf(history, (i) => i === 0 || history.block(i) !== history.block(i - 1));

/** Number of facts of a history for which `isSuch` holds. */
async function countOf(history: OwnerHistory | BalanceHistory, isSuch: (index: number) => boolean): Promise<number> {
  let count = 0;
  for (let i = 0; i < history.count; i++) {
    if (i % SLICE === SLICE - 1) await yieldToEventLoop();
    // A reorg may have removed the rest meanwhile.
    if (i < history.count && isSuch(i)) count++;
  }
  return count;
}

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

/** The history's shape is judged again after this many transfers, and after a tenth of the previous count. */
const RESHAPE_AFTER = 100;

/** Wait before each collection of an older release is measured: 10,000 of them take an hour. */
const PACE_MS = 300;

export interface FlagsOptions extends Pick<ChainWork, "clock" | "log" | "logger"> {
  readonly chainId: number;
  readonly lifecycle: Lifecycle;
  /** The operator's current lists of spam and of verified collections. */
  readonly lists: () => FlagLists;
  /** Judges the shape of a collection's history. Without it no flag depends on history. */
  readonly shapeOf?: ShapeOf | undefined;
  /** Called after a finding that the follower should write soon. */
  readonly onFound: () => void;
}

/** What the whole history of a collection tells. The rest comes from its events, for headlines that lack it. */
export interface Measured {
  /** Version of the stream that was measured. */
  readonly version: number;
  readonly transfers: number;
  readonly nfts: number;
  readonly name: string | null;
  readonly symbol: string | null;
  readonly standard: string | null;
  /** Head at the identification. */
  readonly target: number | null;
}

/**
 * Measures a collection. `airdrop` is true if its transfers have an airdrop's shape.
 * @param isApart true to leave a collection that is not in memory out of it
 */
export type ShapeOf = (
  address: Address,
  isApart: boolean,
) => Promise<{ readonly airdrop: boolean; readonly measured: Measured }>;

/** What is known of the judgement of a collection, beside its flags. */
type FlagState = Pick<IndexState, "rulesVersion" | "wordRule" | "shapeRule">;

interface FlagChange {
  readonly events: readonly FlagsChanged[];
  readonly state: Partial<FlagState>;
}

const NOTHING: FlagChange = { events: [], state: {} };

export class FlagRules {
  readonly #options: FlagsOptions;
  /** Shapes found since the start, by collection. */
  readonly #shapes = new Map<Address, string>();
  /** Transfers left until the shape is judged again. */
  readonly #untilShape = new Map<Address, number>();
  /** Results of measuring that the follower has not written yet. */
  #measured = new Map<Address, Measured>();
  /** Measures collections of older releases one after the other. */
  readonly #catchingUp = new Semaphore(1);

  constructor(options: FlagsOptions) {
    this.#options = options;
  }

  /** Returns the change to write together with the contract's identification. */
  identified(
    address: Address,
    state: IndexState,
    { kind, name, symbol }: Pick<ContractIdentified, "kind" | "name" | "symbol">,
  ): FlagChange {
    // A contract without holdings has nothing to flag.
    if (kind !== "nft") return NOTHING;
    return this.#changeOf(address, { ...state, rulesVersion: RULES_VERSION, wordRule: ruleOfWords({ name, symbol }) });
  }

  /** Returns the change that is due for a collection at `state`, mostly none. */
  due(address: Address, state: IndexState): FlagChange {
    const shape = this.#shapes.get(address);
    return this.#changeOf(address, shape === undefined ? state : { ...state, shapeRule: shape });
  }

  #changeOf(address: Address, state: IndexState): FlagChange {
    const { chainId, lists } = this.#options;
    const { rulesVersion, wordRule, shapeRule } = state;
    const { possibleSpam, verifiedCollection, rule } = judge({ chainId, address, wordRule, shapeRule }, lists());
    const isNew = rule !== state.flagRule || possibleSpam !== state.spam || verifiedCollection !== state.verified;
    return {
      events: isNew ? [{ type: "FlagsChanged", possibleSpam, verifiedCollection, rule }] : [],
      state: { rulesVersion, wordRule, shapeRule },
    };
  }

  /** Like `due`, for a collection whose name is new, or was judged by other rules than today's. */
  async rejudged(address: Address, state: IndexState): Promise<FlagChange> {
    const { name, symbol } = state;
    // Headlines of older releases lack the name, which then never changed.
    const identified =
      name === null
        ? await this.#identification(address, state.base)
        : ({ kind: "nft", name, symbol: symbol ?? "" } as const);
    if (identified === undefined) return { events: [], state: { rulesVersion: RULES_VERSION } };
    const shape = this.#shapes.get(address);
    return this.identified(address, shape === undefined ? state : { ...state, shapeRule: shape }, identified);
  }

  /** Finds the stream's identification as an NFT, among the first events. Reads one by one: later events are large. */
  async #identification(address: Address, base: number): Promise<ContractIdentified | undefined> {
    const stream = nftStream(this.#options.chainId, address);
    for (let from = Math.max(1, base); ; from++) {
      const [recorded] = await this.#options.log.read(stream, { from, limit: 1 });
      const event = recorded?.event as NftEvent | undefined;
      if (event === undefined || event.type === "TransfersCommitted") return undefined;
      if (event.type === "ContractIdentified" && event.kind === "nft") return event;
    }
  }

  /** Counts new transfers, and judges the shape again after enough of them. */
  countTransfers(address: Address, count: number): void {
    const left = (this.#untilShape.get(address) ?? RESHAPE_AFTER) - count;
    this.#untilShape.set(address, left);
    if (left <= 0) this.judgeShape(address);
  }

  /** Does work in the background, at a pace that no client feels. */
  #paced<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#catchingUp.run(async () => {
      await this.#options.clock.sleep(PACE_MS, signal);
      return work();
    }, signal);
  }

  /** Returns the collections that were measured since the last call. */
  takeMeasured(): ReadonlyMap<Address, Measured> {
    const measured = this.#measured;
    this.#measured = new Map();
    return measured;
  }

  /** Measures a followed collection whose headline lacks counts, in the background, unless that is under way. */
  catchUp(address: Address): void {
    if (!this.#untilShape.has(address)) this.judgeShape(address, true);
  }

  /** Judges the shape of a completed collection's history and counts it, in the background. */
  judgeShape(address: Address, isApart = false): void {
    const { lifecycle, shapeOf, logger, chainId, onFound } = this.#options;
    if (shapeOf === undefined) return;
    this.#untilShape.set(address, Number.POSITIVE_INFINITY);
    lifecycle.run(`shape of ${chainId}/${address}`, async (signal) => {
      try {
        const judge = () => shapeOf(address, isApart);
        const { airdrop, measured } = await (isApart ? this.#paced(judge, signal) : judge());
        this.#untilShape.set(address, Math.max(RESHAPE_AFTER, measured.transfers / 10));
        this.#measured.set(address, measured);
        const shape = airdrop ? AIRDROP_SHAPE : "";
        const before = this.#shapes.get(address) ?? "";
        this.#shapes.set(address, shape);
        if (shape !== before && !signal.aborted) onFound();
      } catch (error) {
        this.#untilShape.set(address, RESHAPE_AFTER);
        if (!isAbort(error))
          logger.warn({ err: error, chainId, address }, "the shape of a collection's history could not be judged");
      }
    });
  }
}
