/**
 * The traits of a collection: which tokens have which values, from the normalised metadata as it is now. What is kept
 * depends on the metadata only; the tokens that count at a block come from the listing of that block each time. A
 * collection's author chooses how many traits there are, so an index is bounded while it is built.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import { invalidParameter } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { runInSlices, yieldToEventLoop } from "../../core/turns.ts";
import { SingleFlight } from "../../core/work.ts";
import type { TransferKind } from "../../events/columns.ts";
import type { Amount } from "../ledger/amounts.ts";
import type { Entry } from "../ledger/entries.ts";
import type { TokenTraits } from "../listings/token-traits.ts";
import type { WalkSource } from "../walks/snapshot.ts";
import { batchesOf, type StartedWalk } from "../walks/walk.ts";

/** Most tokens of a collection whose traits are indexed. */
const MAX_INDEXED = 100_000;
/** Part of the memory for indexes that one collection may take. */
const MAX_PART = 0.5;
/** Upper bounds of what a token, one of its traits and a value take: ids, numbers, strings and the entries of maps. */
const [TOKEN_BYTES, TRAIT_BYTES, VALUE_BYTES, CHARACTER_BYTES] = [160, 4, 160, 2] as const;
/** An index is made again at most this often while metadata arrives. */
const LEAST_AGE_MS = 5_000;
/** Values of one type, and of all types, that are listed. A type with more is a number or a name, not a trait. */
const MAX_VALUES = 500;
const MAX_LISTED = 20_000;
/** Traits that are indexed, and values that are ordered, between two turns of the event loop: 1 ms. */
const SLICE_VALUES = 2_000;
/** Part of that memory that counted listings of one collection may take, and what a listed value takes in them. */
const COUNTED_PART = 0.1;
const LISTED_BYTES = 64;

interface TraitValue {
  readonly value: string;
  readonly count: number;
}

interface Trait {
  readonly type: string;
  /** Number of different values. */
  readonly distinct: number;
  /** The most frequent values. */
  readonly values: readonly TraitValue[];
}

/** The traits of a listing. */
interface TraitCounts {
  /** Tokens in the listing, and those with indexed metadata. */
  readonly tokens: number;
  readonly indexed: number;
  /** True if the collection has more traits than are indexed or listed. */
  readonly isTruncated: boolean;
  readonly traits: readonly Trait[];
}

/** The place of a token without indexed metadata. */
const NOWHERE = -1;

/** The traits of the tokens of one collection, as far as they were read. */
export class TraitIndex {
  readonly #maxBytes: number;
  /** Place of each token's values in `#lists`, by its kind and id. */
  readonly #tokens: Partial<Record<TransferKind, Map<Amount, number>>> = {};
  /** The values of each token: how many, then their numbers. A list of its own for each of 20,000 tokens takes 20 ms. */
  #lists = new Uint32Array(1_024);
  #end = 0;
  /** Number of each value by type and text, and type and text by number. */
  readonly #numbers = new Map<string, Map<string, number>>();
  readonly #types: string[] = [];
  readonly #values: string[] = [];
  /** True if the index is full. What was not read by then is not read any more. */
  isFull = false;
  bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get valueCount(): number {
    return this.#values.length;
  }

  has({ kind, id }: Entry): boolean {
    return this.#tokens[kind]?.has(id) === true;
  }

  typeOf(number: number): string {
    return this.#types[number] as string;
  }

  valueOf(number: number): string {
    return this.#values[number] as string;
  }

  /** Adds one to the count of each value of a token. False if it has no indexed metadata. */
  count(entry: Entry, counts: Uint32Array): boolean {
    const place = this.#placeOf(entry);
    if (place === NOWHERE) return false;
    const last = place + (this.#lists[place] as number);
    for (let at = place + 1; at <= last; at++) counts[this.#lists[at] as number]!++;
    return true;
  }

  /** Adds the first tokens, in slices: those up to the one that fills the index. Returns their count. */
  *add(entries: readonly Entry[], { types, typeOf, values, traits, ends }: TokenTraits): Generator<void, number> {
    const numbers = new Int32Array(values.length).fill(-1);
    const numberOf = (trait: number) =>
      this.#numberOf(types[typeOf[trait] as number] as string, values[trait] as string);
    let [from, sliced, added] = [0, 0, 0];
    for (; added < ends.length && !this.isFull; added++) {
      const [entry, end] = [entries[added] as Entry, ends[added] as number];
      const place = end < 0 ? NOWHERE : this.#beginList(end - from);
      for (; from < end; from++) {
        const trait = traits[from] as number;
        if ((numbers[trait] as number) < 0) numbers[trait] = numberOf(trait) ?? -1;
        const number = numbers[trait] as number;
        if (number < 0) break;
        this.#lists[this.#end++] = number;
        sliced++;
      }
      this.#endList(entry, place);
      if (sliced < SLICE_VALUES) continue;
      sliced = 0;
      yield;
    }
    return added;
  }

  /** Makes room for a token's values. Returns their place. */
  #beginList(most: number): number {
    if (this.#end + most >= this.#lists.length) {
      const wider = new Uint32Array(2 * this.#lists.length + most);
      wider.set(this.#lists);
      this.#lists = wider;
    }
    return this.#end++;
  }

  /** Notes a token with the values since its place. Another question may have added it meanwhile. */
  #endList({ kind, id }: Entry, place: number): void {
    this.#tokens[kind] ??= new Map();
    const tokens = this.#tokens[kind];
    if (tokens.has(id)) {
      if (place !== NOWHERE) this.#end = place;
      return;
    }
    const count = place === NOWHERE ? 0 : this.#end - place - 1;
    if (place !== NOWHERE) this.#lists[place] = count;
    tokens.set(id, place);
    this.bytes += TOKEN_BYTES + count * TRAIT_BYTES;
    if (this.bytes >= this.#maxBytes) this.isFull = true;
  }

  #placeOf({ kind, id }: Entry): number {
    return this.#tokens[kind]?.get(id) ?? NOWHERE;
  }

  /** The number of a value; undefined if there is no room for a new one. */
  #numberOf(type: string, value: string): number | undefined {
    let values = this.#numbers.get(type);
    const known = values?.get(value);
    if (known !== undefined) return known;
    const added =
      VALUE_BYTES + value.length * CHARACTER_BYTES + (values === undefined ? VALUE_BYTES + type.length * 2 : 0);
    if (this.bytes + added > this.#maxBytes) {
      this.isFull = true;
      return undefined;
    }
    this.bytes += added;
    if (values === undefined) {
      values = new Map();
      this.#numbers.set(type, values);
    }
    this.#types.push(type);
    const number = this.#values.push(value) - 1;
    values.set(value, number);
    return number;
  }

  /** Returns a check for tokens that have all of these traits, each `Type:Value`. */
  having(traits: readonly string[]): (entry: Entry) => boolean {
    const numbers = traits.map((trait) => this.#named(trait));
    return (entry) => {
      const place = this.#placeOf(entry);
      return place !== NOWHERE && numbers.every((number) => number !== undefined && this.#isListed(place, number));
    };
  }

  #isListed(place: number, number: number): boolean {
    const last = place + (this.#lists[place] as number);
    for (let at = place + 1; at <= last; at++) if (this.#lists[at] === number) return true;
    return false;
  }

  /** The number of one trait. A type may contain colons, too, so each colon may be the one that ends it. */
  #named(trait: string): number | undefined {
    for (let at = trait.indexOf(":"); at >= 0; at = trait.indexOf(":", at + 1)) {
      const number = this.#numbers.get(trait.slice(0, at))?.get(trait.slice(at + 1));
      if (number !== undefined) return number;
    }
    return undefined;
  }
}

const byFrequency = (a: TraitValue, b: TraitValue): number =>
  b.count - a.count || (a.value < b.value ? -1 : a.value > b.value ? 1 : 0);

/** The most frequent values of a type, kept while they are counted. */
class MostFrequent {
  #values: TraitValue[] = [];
  /** The least frequent value of a full list. Most values of a type of names come after it, and are not sorted. */
  #last: TraitValue | undefined;
  distinct = 0;
  tokens = 0;

  add(value: string, count: number): void {
    this.distinct++;
    this.tokens += count;
    const added = { value, count };
    if (this.#last !== undefined && byFrequency(added, this.#last) > 0) return;
    this.#values.push(added);
    if (this.#values.length < 2 * MAX_VALUES) return;
    this.#values = this.sorted();
    this.#last = this.#values.at(-1);
  }

  sorted(): TraitValue[] {
    return this.#values.sort(byFrequency).slice(0, MAX_VALUES);
  }
}

/** Orders the counted values, in slices. @param counts tokens by the number of the value */
export async function countedTraits(
  index: TraitIndex,
  counts: Uint32Array,
): Promise<{ traits: Trait[]; isTruncated: boolean }> {
  const byType = new Map<string, MostFrequent>();
  for (let number = 0; number < counts.length; number++) {
    if (number % SLICE_VALUES === SLICE_VALUES - 1) await yieldToEventLoop();
    const count = counts[number] as number;
    if (count === 0) continue;
    byType.getOrInsertComputed(index.typeOf(number), () => new MostFrequent()).add(index.valueOf(number), count);
  }
  // Sorting even all types of a full index takes some milliseconds.
  const types = [...byType].sort(([a, { tokens: x }], [b, { tokens: y }]) => y - x || (a < b ? -1 : 1));
  const traits: Trait[] = [];
  let room = MAX_LISTED;
  for (const [type, frequent] of types) {
    if (room <= 0) return { traits, isTruncated: true };
    const values = frequent.sorted().slice(0, room);
    room -= values.length;
    traits.push({ type, distinct: frequent.distinct, values });
    if (traits.length % 100 === 0) await yieldToEventLoop();
  }
  return { traits, isTruncated: false };
}

interface KeptTraits {
  readonly index: TraitIndex;
  /** Version of the metadata that it was made of. */
  readonly made: string;
  readonly madeMs: number;
  /** Counts of listings of which each token was read, by the listing. */
  readonly counted: LRUCache<string, TraitCounts>;
  /** Reads of listings that run. */
  readonly reading: SingleFlight<string, TraitCounts>;
}

interface IndexRequest {
  readonly source: WalkSource;
  /** The listing of the tokens, from its start. */
  readonly start: StartedWalk;
  /** Returns the traits of the first entries, of at least one. */
  readonly traitsOf: (entries: readonly Entry[]) => Promise<TokenTraits>;
  /** Changes with the collection's metadata. */
  readonly metadataVersion: string;
  /** Names the listing: changes with the block, and with the collection at that block. */
  readonly listing: string;
}

export class TraitIndexes {
  readonly #clock: Clock;
  readonly #maxBytes: number;
  readonly #kept: LRUCache<string, KeptTraits>;

  constructor(clock: Clock, maxBytes: number) {
    this.#clock = clock;
    this.#maxBytes = maxBytes;
    this.#kept = new LRUCache({ maxSize: maxBytes, sizeCalculation: keptBytes });
  }

  /** Bytes of all indexes. */
  get bytes(): number {
    return this.#kept.calculatedSize;
  }

  /**
   * Returns the index and the counts for a listing, with the metadata as it is now, or was five seconds ago.
   * @throws Refusal `invalid_parameter` for a larger collection, `cursor_reorged` if the listing's block is lost
   */
  async of(request: IndexRequest, tokens: number): Promise<{ index: TraitIndex; counts: TraitCounts }> {
    if (tokens > MAX_INDEXED) {
      const text = `traits are known up to ${MAX_INDEXED} tokens; this collection has ${tokens}`;
      throw invalidParameter("trait", text);
    }
    const key = nameOf(request.source);
    const kept = this.#current(key, request.metadataVersion);
    const { index, counted, reading } = kept;
    const known = counted.get(request.listing);
    if (known !== undefined) return { index, counts: known };
    const counts = await reading.run(request.listing, async () => {
      const read = await countListing(index, request);
      counted.set(request.listing, read);
      return read;
    });
    // The index has grown. It may have been replaced by one with newer metadata meanwhile.
    if (this.#kept.peek(key) === kept) this.#kept.set(key, kept);
    return { index, counts };
  }

  #current(key: string, metadataVersion: string): KeptTraits {
    const known = this.#kept.get(key);
    const now = this.#clock.monotonic();
    const isFresh = known !== undefined && now - known.madeMs < LEAST_AGE_MS;
    if (known !== undefined && (isFresh || known.made === metadataVersion)) return known;
    const kept: KeptTraits = {
      index: new TraitIndex(this.#maxBytes * MAX_PART),
      made: metadataVersion,
      madeMs: now,
      counted: new LRUCache({ maxSize: Math.ceil(this.#maxBytes * COUNTED_PART), sizeCalculation: countedBytes }),
      reading: new SingleFlight(),
    };
    this.#kept.set(key, kept);
    return kept;
  }
}

/** Reads the metadata of the tokens of a listing that the index lacks, and counts the traits of all. */
async function countListing(
  index: TraitIndex,
  { source, start, traitsOf }: Pick<IndexRequest, "source" | "start" | "traitsOf">,
): Promise<TraitCounts> {
  let [tokens, indexed] = [0, 0];
  let counts = new Uint32Array(1_024);
  const factsOf = async (entries: readonly Entry[]) => {
    if (index.isFull || entries.every((entry) => index.has(entry))) return entries.map(() => null);
    const added = await runInSlices(index.add(entries, await traitsOf(entries)));
    return entries.slice(0, added).map(() => null);
  };
  for await (const { entries } of batchesOf(source, start, { factsOf })) {
    if (index.valueCount > counts.length) {
      const wider = new Uint32Array(Math.max(2 * counts.length, index.valueCount));
      wider.set(counts);
      counts = wider;
    }
    tokens += entries.length;
    for (const entry of entries) if (index.count(entry, counts)) indexed++;
  }
  const { traits, isTruncated } = await countedTraits(index, counts);
  return { tokens, indexed, isTruncated: index.isFull || isTruncated, traits };
}

const keptBytes = ({ index, counted }: KeptTraits): number => 1 + index.bytes + counted.calculatedSize;

/** Upper bound of what the counts of a listing take. Their texts are the index's own. */
const countedBytes = ({ traits }: TraitCounts): number =>
  traits.reduce<number>((sum, { values }) => sum + VALUE_BYTES + values.length * LISTED_BYTES, VALUE_BYTES);

const nameOf = ({ chainId, address }: { readonly chainId: number; readonly address: Address }): string =>
  `${chainId}/${address}`;
