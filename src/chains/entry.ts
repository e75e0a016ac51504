/**
 * The form of a chain's entry, in the built-in data and in the operator's file, and the check of such a file.
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { parseOperatorJson } from "../core/bounded-files.ts";
import { POOL_STYLES } from "./styles.ts";

const Address = Type.RegExp(/^0x[0-9a-f]{40}$/, { description: "an address, lower case" });
const Hash = Type.RegExp(/^0x[0-9a-f]{64}$/, { description: "32 bytes of hex, lower case" });
const Name = Type.RegExp(/^[a-z0-9][a-z0-9 _.-]{0,31}$/, { description: "a name of lower-case letters and digits" });
const Text = Type.String({ minLength: 1, maxLength: 64 });
const Decimals = Type.Integer({ minimum: 0, maximum: 77 });
const Url = Type.RegExp(/^(?:https?|wss?):\/\/[^\s]{1,512}$/, { description: "an http(s) or ws(s) URL" });
const Sources = Type.Optional(
  Type.Array(Type.String({ maxLength: 200 }), { description: "the publishers of the fact" }),
);
const listOf = <T extends TSchema>(item: T, maxItems = 64) => Type.Optional(Type.Array(item, { maxItems }));
const STRICT = { additionalProperties: false };

/**
 * A month of a chain with four blocks a second. What is kept of the blocks that are not final is bounded however many they
 * are (`chain/kept-headers.ts`); a collection reads them in parts when it joins.
 */
export const MAX_FINALITY_DEPTH = 10_000_000;

const coin = { symbol: Text, address: Address, decimals: Decimals };

const ExchangeEntry = Type.Object(
  {
    name: Text,
    style: Type.Union(
      POOL_STYLES.map((style) => Type.Literal(style)),
      { description: `one of ${POOL_STYLES.join(", ")}` },
    ),
    factory: Address,
    /** Makes the pools, where it is not the factory. */
    deployer: Type.Optional(Address),
    /** Keccak-256 of the pool's creation code, for CREATE2. */
    codeHash: Type.Optional(Hash),
    /** The fee tiers, or the one fee of all pools, in hundredths of a basis point; absent if each pool sets its own. */
    fees: listOf(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
    /** The tick spacings of an exchange that names its pools by them. */
    spacings: listOf(Type.Integer({ minimum: 1, maximum: 32_767 })),
    sources: Sources,
  },
  STRICT,
);

/** A launchpad makes pools of tokens in Uniswap v4, with hooks of its own. Its getters lead to them by state. */
const LaunchpadEntry = Type.Object(
  {
    name: Text,
    hooks: Type.Array(Address, { minItems: 1, maxItems: 64, description: "the hooks of its pools" }),
    /** The fee and the tick spacing that its pools with the wrapped coin usually have; 0x800000 for a fee that hooks set. */
    fee: Type.Optional(Type.Integer({ minimum: 0, maximum: 0x800000 })),
    spacing: Type.Optional(Type.Integer({ minimum: 1, maximum: 32_767 })),
    /**
     * Getters that lead from a token to the key of its pool, each called with the token: of a contract, or of the token
     * itself; then of the contract that a word of the answer names.
     */
    getters: listOf(
      Type.Object(
        {
          to: Type.Optional(Address),
          word: Type.Optional(Type.Integer({ minimum: 0, maximum: 63 })),
          call: Type.RegExp(/^[A-Za-z_]\w*\([\w,]*\)$/, { description: "the signature of a function" }),
        },
        STRICT,
      ),
      2,
    ),
    sources: Sources,
  },
  STRICT,
);

export const ChainEntry = Type.Object(
  {
    name: Name,
    aliases: listOf(Name),
    chainId: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    native: Type.Object({ name: Text, symbol: Text, decimals: Decimals }, STRICT),
    wrappedNative: Type.Object(coin, STRICT),
    /** Addresses that stand for the native coin on this chain, beside 0xeeee…eeee and the zero address. */
    nativePlaceholders: listOf(Address, 8),
    stablecoins: listOf(Type.Object({ ...coin, pegLostAt: Type.Optional(Type.Integer({ minimum: 0 })) }, STRICT)),
    /** Tokens through which a token without a direct pool is priced, in the order of trial. */
    connectors: listOf(Type.Object({ ...coin, sources: Sources }, STRICT), 20),
    multicall3: Type.Optional(Address),
    /** Seconds between blocks. */
    blockSeconds: Type.Number({ exclusiveMinimum: 0, maximum: 3_600 }),
    /** Blocks after which a block is final if the node has no `finalized` tag. */
    finalityDepth: Type.Integer({ minimum: 0, maximum: MAX_FINALITY_DEPTH }),
    /** Published public endpoints. The operator replaces them by `RPC_URL_<CHAIN>`. */
    endpoints: listOf(Url, 16),
    /** Data sets of SQD's public Portal, by name (github.com/subsquid/cdn: src/sqd-network/mainnet/metadata.yml). */
    archives: listOf(
      Type.RegExp(/^[a-z0-9][a-z0-9.-]{0,63}$/, { description: "the name of a data set, lower case" }),
      8,
    ),
    /** US dollars that the smaller side of a pool must have. */
    minLiquidityUsd: Type.Optional(Type.Number({ minimum: 0 })),
    exchanges: listOf(ExchangeEntry, 64),
    launchpads: listOf(LaunchpadEntry),
    /** A block explorer's address, without a path (npm viem 2.57.20: chains/definitions). */
    explorer: Type.Optional(Url),
  },
  STRICT,
);
export type ChainEntry = Static<typeof ChainEntry>;

/** Most bytes of an operator's file. */
export const MAX_CHAINS_BYTES = 1 << 20;
const MAX_CHAINS = 1_000;
/** Enough to show that it is the wrong file. */
const MAX_PROBLEMS = 50;

interface CheckedChains {
  readonly entries: readonly ChainEntry[];
  /** Each with the line of the file. */
  readonly problems: readonly string[];
}

/**
 * Checks an operator's file, whose size is already bounded.
 * @param isTaken true for an alias or id of a built-in chain, which only an entry with that chain's name may use
 */
export function checkChains(json: string, isTaken: (entry: ChainEntry) => string | undefined): CheckedChains {
  let data: unknown;
  try {
    data = parseOperatorJson(json);
  } catch (error) {
    return {
      entries: [],
      problems: [`line 1: is not JSON (${error instanceof Error ? error.message : "unreadable"})`],
    };
  }
  if (!Array.isArray(data) || data.length > MAX_CHAINS) {
    return { entries: [], problems: [`line 1: must be a list of at most ${MAX_CHAINS} chains`] };
  }
  const lineOf = linesOf(json);
  const problems: { readonly line: number; readonly text: string }[] = [];
  const tell = (pointer: string, text: string) => problems.push({ line: lineOf(pointer), text });
  const entries: ChainEntry[] = [];
  const seen = new Map<string, number>();
  for (const [at, entry] of data.entries()) {
    const own = [...Value.Errors(ChainEntry, entry)];
    const told = new Set<string>();
    for (const { path, message, schema } of own) {
      if (told.has(path)) continue;
      told.add(path);
      const wanted = schema.description === undefined ? message.toLowerCase() : `must be ${schema.description}`;
      tell(`/${at}${path}`, `${path.slice(1).replaceAll("/", ".") || "the entry"}: ${wanted}`);
    }
    if (own.length > 0) continue;
    const chain = entry as ChainEntry;
    for (const text of [chain.name, ...(chain.aliases ?? []), `${chain.chainId}`]) {
      const other = seen.get(text);
      if (other !== undefined && other !== at) tell(`/${at}`, `${text} is also that of entry ${other + 1}`);
      seen.set(text, at);
    }
    const taken = isTaken(chain);
    if (taken !== undefined) tell(`/${at}`, taken);
    entries.push(chain);
  }
  problems.sort((a, b) => a.line - b.line);
  const told = problems.slice(0, MAX_PROBLEMS).map(({ line, text }) => `line ${line}: ${text}`);
  return { entries, problems: problems.length > told.length ? [...told, "there are more problems"] : told };
}

/** Finds the line of a value by its JSON pointer; that of the nearest enclosing value if it is missing. */
function linesOf(json: string): (pointer: string) => number {
  const lines = new Map<string, number>([["", 1]]);
  let [at, line] = [0, 1];
  const skip = () => {
    for (; /\s/.test(json[at] ?? ""); at++) if (json[at] === "\n") line++;
  };
  const text = () => {
    const start = at++;
    for (; json[at] !== '"'; at++) if (json[at] === "\\") at++;
    return JSON.parse(json.slice(start, ++at)) as string;
  };
  const value = (pointer: string): void => {
    skip();
    lines.set(pointer, line);
    const open = json[at];
    if (open === '"') text();
    else if (open === "[" || open === "{") {
      at++;
      for (let index = 0; ; index++) {
        skip();
        if (json[at] === "]" || json[at] === "}") break;
        const key = open === "[" ? String(index) : text();
        skip();
        if (open === "{") at++;
        value(`${pointer}/${key}`);
        skip();
        if (json[at] === ",") at++;
      }
      at++;
    } else while (at < json.length && !/[\s,\]}]/.test(json[at]!)) at++;
  };
  value("");
  return (pointer) => {
    for (let path = pointer; ; path = path.slice(0, path.lastIndexOf("/"))) {
      const found = lines.get(path);
      if (found !== undefined) return found;
    }
  };
}
