/**
 * An index of tokens by parts of their addresses, symbols and names. In: tokens in order. Out: the first ones that have a
 * text. The texts stand in buffers, which the runtime searches at gigabytes a second: that takes less time than an index
 * of letters, and a tenth of its memory.
 */
import type { KnownToken } from "./models.ts";

/** Tokens of a block: the least that a search looks through. */
const BLOCK_TOKENS = 512;
/** What a search does per slice, in tokens that are compared: half a millisecond. */
const TOKENS_PER_SLICE = 2_048;
/** Bytes that are searched in the time of one comparison. */
const BYTES_PER_TOKEN = 8_192;
/** Tokens that are added per slice: half a millisecond. */
const ADDED_PER_SLICE = 256;
/** Ends each text. No token has it in its symbol or name. */
const END = "\n";

/** The texts of some consecutive tokens. */
class TextBlock {
  readonly bytes: Buffer;
  /** Where the text of each token begins. */
  readonly #starts: Uint32Array;

  constructor(texts: readonly string[]) {
    this.bytes = Buffer.from(texts.join(""));
    this.#starts = new Uint32Array(texts.length);
    let start = 0;
    for (const [at, text] of texts.entries()) {
      this.#starts[at] = start;
      start += Buffer.byteLength(text);
    }
  }

  /** Adds the places of the tokens whose texts have these bytes. */
  find(needle: Buffer, found: Set<number>): void {
    const starts = this.#starts;
    let at = 0;
    for (let hit = this.bytes.indexOf(needle); hit >= 0; ) {
      while (at + 1 < starts.length && (starts[at + 1] as number) <= hit) at++;
      found.add(at);
      if (at + 1 === starts.length) return;
      hit = this.bytes.indexOf(needle, starts[at + 1]);
    }
  }
}

/** Texts that an address can have, and whole addresses. */
const PART_OF_ADDRESS = /^0?x?[0-9a-f]{0,40}$/;
const ADDRESS = /^0x[0-9a-f]{40}$/;

/** Maps that share their keys: a map copies its entries when it grows, and 100,000 of them would take 8 ms. */
class ShardedMap<V> {
  readonly #maps = Array.from({ length: 64 }, () => new Map<string, V>());

  /** The map that a key belongs to. */
  of(key: string): Map<string, V> {
    let hash = 0;
    for (let at = Math.max(0, key.length - 6); at < key.length; at++) hash = (hash * 31 + key.charCodeAt(at)) | 0;
    return this.#maps[hash & 63] as Map<string, V>;
  }
}

const NONE = -1;

/**
 * The tokens in their order. Several may be of one chain and address: then an answer has the first one of them that has
 * the text.
 */
export class TokenIndex {
  readonly #tokens: KnownToken[] = [];
  /** By token: the number of its chain and address. */
  readonly #places: number[] = [];
  /** By place: its first token. By token: the next one of its place. */
  readonly #first: number[] = [];
  readonly #next: number[] = [];
  readonly #bySymbol = new ShardedMap<number[]>();
  readonly #placeOf = new ShardedMap<number>();
  readonly #chains = new Set<string>();
  readonly #words: TextBlock[] = [];
  readonly #addresses: TextBlock[] = [];

  private constructor() {}

  /** Makes an index in slices. @param tokens in order, addresses in lower case */
  static *make(tokens: Iterable<KnownToken>): Generator<void, TokenIndex> {
    const index = new TokenIndex();
    let words: string[] = [];
    let addresses: string[] = [];
    const endBlock = () => {
      index.#words.push(new TextBlock(words));
      index.#addresses.push(new TextBlock(addresses));
      [words, addresses] = [[], []];
    };
    let added = 0;
    for (const token of tokens) {
      if (++added % ADDED_PER_SLICE === 0) yield;
      const isFirst = index.#add(token);
      if (isFirst === undefined) continue;
      words.push([token.symbol, token.name ?? ""].map((word) => word.toLowerCase() + END).join(""));
      // The first token of a place has all texts that its address has.
      addresses.push(isFirst ? token.address + END : "");
      if (words.length === BLOCK_TOKENS) endBlock();
    }
    endBlock();
    return index;
  }

  /** Adds a token. Returns whether it is the first one of its place; undefined if an earlier one has all of its texts. */
  #add(token: KnownToken): boolean | undefined {
    const key = `${token.chain}/${token.address}`;
    const number = this.#tokens.length;
    const place = this.#placeOf.of(key).getOrInsertComputed(key, () => this.#first.push(number) - 1);
    this.#chains.add(token.chain);
    let last = NONE;
    for (let at = this.#first[place] as number; at !== NONE && at !== number; at = this.#next[at] as number) {
      const { symbol, name } = this.#tokens[at] as KnownToken;
      if (symbol === token.symbol && name === token.name) return undefined;
      last = at;
    }
    if (last !== NONE) this.#next[last] = number;
    this.#tokens.push(token);
    this.#places.push(place);
    this.#next.push(NONE);
    const symbol = token.symbol.toLowerCase();
    this.#bySymbol
      .of(symbol)
      .getOrInsertComputed(symbol, () => [])
      .push(number);
    return last === NONE;
  }

  /**
   * Finds up to `limit` tokens in slices: those with the text as their symbol, then the rest in their order.
   * @param text in lower case; part of the address, the symbol or the name
   */
  *search(text: string, limit: number): Generator<void, KnownToken[]> {
    const found = yield* this.#named(text, limit);
    /** Places that have their token. */
    const decided = new Set(found.map((number) => this.#places[number] as number));
    const needle = Buffer.from(/^\P{Cs}*/u.exec(text)?.[0] ?? "");
    const isWhole = ADDRESS.test(text);
    const isPart = !isWhole && PART_OF_ADDRESS.test(text);
    const whole = isWhole ? this.#withAddress(text) : [];
    let steps = 0;
    for (let block = 0; block < this.#words.length && found.length < limit; block++) {
      const texts = [this.#words[block], ...(isPart ? [this.#addresses[block]] : [])] as TextBlock[];
      const hits = new Set<number>();
      for (const number of whole) if (Math.floor(number / BLOCK_TOKENS) === block) hits.add(number % BLOCK_TOKENS);
      for (const one of texts) one.find(needle, hits);
      for (const hit of [...hits].sort((a, b) => a - b)) {
        const number = block * BLOCK_TOKENS + hit;
        const place = this.#places[number] as number;
        if (found.length === limit || decided.has(place) || !this.#hasText(number, text)) continue;
        decided.add(place);
        found.push(number);
      }
      steps += hits.size + texts.reduce((bytes, one) => bytes + one.bytes.length, 0) / BYTES_PER_TOKEN;
      if (steps < TOKENS_PER_SLICE) continue;
      steps = 0;
      yield;
    }
    return found.map((number) => this.#tokens[number] as KnownToken);
  }

  /** The first token of each chain with the address. */
  #withAddress(address: string): number[] {
    const places = [...this.#chains].map((chain) => this.#placeOf.of(`${chain}/${address}`).get(`${chain}/${address}`));
    return places.filter((place) => place !== undefined).map((place) => this.#first[place] as number);
  }

  /** The first tokens with the text as their symbol, unless an earlier token of their place has the text. */
  *#named(text: string, limit: number): Generator<void, number[]> {
    const found: number[] = [];
    const seen = new Set<number>();
    let steps = 0;
    for (const number of this.#bySymbol.of(text).get(text) ?? []) {
      const place = this.#places[number] as number;
      if (!seen.has(place)) {
        seen.add(place);
        let first = this.#first[place] as number;
        for (; first !== number && !this.#hasText(first, text); steps++) first = this.#next[first] as number;
        if (first === number) found.push(number);
        if (found.length === limit) break;
      }
      if (++steps < TOKENS_PER_SLICE) continue;
      steps = 0;
      yield;
    }
    return found;
  }

  #hasText(number: number, text: string): boolean {
    const { address, symbol, name } = this.#tokens[number] as KnownToken;
    return [address, symbol, name].some((part) => part?.toLowerCase().includes(text));
  }
}
