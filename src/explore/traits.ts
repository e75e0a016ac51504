/**
 * The traits of a collection: which tokens have which values, from the normalised metadata as it is now. Made in slices,
 * and kept while it is asked for.
 */
import { LRUCache } from "lru-cache";
import { yieldToEventLoop } from "../core/background.ts";
import type { Clock } from "../core/clock.ts";
import { invalidParameter } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { ExportSource, ExportStart, FactsOf } from "../exports/walk.ts";
import { batchesOf } from "../exports/walk.ts";
import type { Entry } from "../ledger/entries.ts";
import type { RecordFacts } from "../listings/record.ts";

/** Most tokens of a collection whose traits are indexed. */
export const MAX_INDEXED = 100_000;
/** Memory for indexes, and about what a trait of a token and a value take. */
const MAX_BYTES = 64 << 20;
const [MEMBER_BYTES, VALUE_BYTES, TOKEN_BYTES] = [8, 200, 100] as const;
/** An index is made again at most this often while metadata arrives. */
const LEAST_AGE_MS = 5_000;
/** Longest text of a type or a value. Longer ones are no traits that a filter could name. */
const MAX_TEXT = 200;
/** Values of one type that are listed. A type with more is a number or a name, not a trait. */
const MAX_VALUES = 500;

export interface TraitValue {
  readonly value: string;
  readonly count: number;
}

export interface Trait {
  readonly type: string;
  /** Number of different values. */
  readonly distinct: number;
  /** The most frequent values. */
  readonly values: readonly TraitValue[];
}

const NONE: ReadonlySet<string> = new Set();

/** Names a token in the index. */
export const tokenKey = ({ kind, id }: Pick<Entry, "kind" | "id">): string => `${kind}/${id}`;

export class TraitIndex {
  /** Tokens in the collection, and those with metadata. */
  tokens = 0;
  indexed = 0;
  readonly #members = new Map<string, Map<string, Set<string>>>();
  #memberships = 0;
  #values = 0;

  get bytes(): number {
    return this.#memberships * MEMBER_BYTES + this.#values * VALUE_BYTES + this.tokens * TOKEN_BYTES;
  }

  /** Adds tokens with their metadata, as a page has them. */
  add(entries: readonly Entry[], facts: readonly RecordFacts[]): void {
    for (const [i, entry] of entries.entries()) {
      this.tokens++;
      const { metadata = "null", normalized = "" } = facts[i] ?? {};
      if (metadata === "null" || normalized === "") continue;
      this.indexed++;
      const key = tokenKey(entry);
      for (const [type, value] of traitsIn(normalized)) this.#addOne(type, value, key);
    }
  }

  #addOne(type: string, value: string, key: string): void {
    const values = this.#members.get(type) ?? new Map<string, Set<string>>();
    this.#members.set(type, values);
    const members = values.get(value) ?? new Set<string>();
    if (members.size === 0) this.#values++;
    this.#memberships++;
    values.set(value, members.add(key));
  }

  /** Returns the tokens that have all of these traits, each `Type:Value`. */
  having(traits: readonly string[]): ReadonlySet<string> {
    const sets = traits.map((trait) => this.#named(trait)).sort((a, b) => a.size - b.size);
    const [smallest = NONE, ...others] = sets;
    return new Set([...smallest].filter((key) => others.every((members) => members.has(key))));
  }

  /** The tokens of one trait. A type may contain colons, too, so each colon may be the one that ends it. */
  #named(trait: string): ReadonlySet<string> {
    for (let at = trait.indexOf(":"); at >= 0; at = trait.indexOf(":", at + 1)) {
      const members = this.#members.get(trait.slice(0, at))?.get(trait.slice(at + 1));
      if (members !== undefined) return members;
    }
    return NONE;
  }

  /** Returns all traits, those of most tokens first. */
  list(): Trait[] {
    const traits = Array.from(this.#members, ([type, values]) => {
      const counted = Array.from(values, ([value, { size: count }]) => ({ value, count }));
      counted.sort((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1));
      const tokens = counted.reduce((sum, { count }) => sum + count, 0);
      return { type, tokens, distinct: counted.length, values: counted.slice(0, MAX_VALUES) };
    });
    traits.sort((a, b) => b.tokens - a.tokens || (a.type < b.type ? -1 : 1));
    return traits.map(({ type, distinct, values }) => ({ type, distinct, values }));
  }
}

interface Attribute {
  readonly trait_type?: unknown;
  readonly value?: unknown;
}

/** Types and values of the attributes in the JSON of normalised metadata. */
function traitsIn(normalized: string): [string, string][] {
  const { attributes = [] } = JSON.parse(normalized) as { readonly attributes?: readonly Attribute[] };
  return attributes.flatMap(({ trait_type: type, value }): [string, string][] => {
    const isPlain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
    if (typeof type !== "string" || !isPlain) return [];
    const text = String(value);
    return type.length <= MAX_TEXT && text.length <= MAX_TEXT ? [[type, text]] : [];
  });
}

interface Kept {
  readonly index: TraitIndex;
  /** Versions of the collection and of its metadata that it was made of. */
  readonly made: string;
  readonly madeMs: number;
}

interface IndexRequest {
  readonly source: ExportSource;
  readonly start: ExportStart;
  readonly factsOf: FactsOf;
  /** Changes with the collection and with its metadata. */
  readonly version: string;
}

export class TraitIndexes {
  readonly #clock: Clock;
  readonly #kept = new LRUCache<string, Kept>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ index }) => Math.min(MAX_BYTES, 1 + index.bytes),
  });
  readonly #making = new Map<string, Promise<TraitIndex>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Bytes of all indexes. */
  get bytes(): number {
    return this.#kept.calculatedSize;
  }

  /** Returns the index of a collection as it is now, or was five seconds ago. @throws ApiError 400 for a larger one */
  async of({ source, start, factsOf, version }: IndexRequest, tokens: number): Promise<TraitIndex> {
    if (tokens > MAX_INDEXED) {
      const text = `traits are known up to ${MAX_INDEXED} tokens; this collection has ${tokens}`;
      throw invalidParameter("trait", text);
    }
    const key = nameOf(source);
    const known = this.#kept.get(key);
    const isFresh = known !== undefined && this.#clock.monotonic() - known.madeMs < LEAST_AGE_MS;
    if (known !== undefined && (isFresh || known.made === version)) return known.index;
    const making = this.#making.get(key) ?? this.#make(key, { source, start, factsOf, version });
    return making;
  }

  #make(key: string, { source, start, factsOf, version }: IndexRequest): Promise<TraitIndex> {
    const making = (async () => {
      const index = new TraitIndex();
      for await (const { entries, facts } of batchesOf(source, start, factsOf)) {
        index.add(entries, facts);
        await yieldToEventLoop();
      }
      this.#kept.set(key, { index, made: version, madeMs: this.#clock.monotonic() });
      return index;
    })().finally(() => this.#making.delete(key));
    this.#making.set(key, making);
    return making;
  }
}

const nameOf = ({ chainId, address }: { readonly chainId: number; readonly address: Address }): string =>
  `${chainId}/${address}`;
