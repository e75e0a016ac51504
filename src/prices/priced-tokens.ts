/**
 * The ERC-20 tokens that were priced here, found by a part of their address, symbol or name: many are on no list. Reads the
 * beginnings of the tokens' streams when it is first asked, and then only those that are new. While nobody asks, it costs nothing.
 */
import type { Chain } from "../chains/chains.ts";
import { yieldToEventLoop } from "../core/turns.ts";
import { singleFlight } from "../core/work.ts";
import { parseStream, type StreamName } from "../events/types.ts";
import { type EventLog, streamPages } from "../log/event-log.ts";
import type { KnownToken } from "./models.ts";

/** Most tokens that are kept: about a megabyte, and a quarter of a second to read from SQLite. */
const MAX_TOKENS = 5_000;
/** Streams that are read at once, and events of each: a token's facts and pools stand before its first price. */
const [STREAMS_AT_ONCE, FIRST_EVENTS] = [32, 64];
const PREFIX = "priced/";

interface PricedTokensOptions {
  readonly log: Pick<EventLog, "streams" | "read" | "subscribe">;
  /** The enabled chains. */
  readonly chains: readonly Chain[];
}

export class PricedTokens {
  readonly #options: PricedTokensOptions;
  readonly #chains: ReadonlyMap<number, string>;
  readonly #tokens = new Map<StreamName, KnownToken>();
  /** Streams whose token is not known yet. */
  #unread = new Set<StreamName>();
  /** True once the streams are being read. Until then none needs to be noted. */
  #isAsked = false;
  #isLoaded = false;
  readonly #read = singleFlight(() => this.#readNow());
  readonly #unsubscribe: () => void;

  constructor(options: PricedTokensOptions) {
    this.#options = options;
    this.#chains = new Map(options.chains.map(({ chainId, name }) => [chainId, name]));
    this.#unsubscribe = options.log.subscribe((stream) => {
      if (this.#isAsked) this.#note(stream);
    });
  }

  close(): void {
    this.#unsubscribe();
  }

  /** Up to `limit` tokens with a text. @param text in lower case */
  async find(text: string, limit: number): Promise<readonly KnownToken[]> {
    await this.#read();
    const hasText = ({ address, symbol, name }: KnownToken) =>
      [address, symbol, name].some((part) => part?.toLowerCase().includes(text));
    return this.#tokens.values().filter(hasText).take(limit).toArray();
  }

  #note(stream: StreamName): void {
    const isFull = this.#tokens.size + this.#unread.size >= MAX_TOKENS;
    if (stream.startsWith(PREFIX) && !isFull && !this.#tokens.has(stream)) this.#unread.add(stream);
  }

  async #readNow(): Promise<void> {
    const { log } = this.#options;
    this.#isAsked = true;
    if (!this.#isLoaded) {
      for await (const page of streamPages(log, PREFIX)) for (const { stream } of page) this.#note(stream);
      this.#isLoaded = true;
    }
    const streams = [...this.#unread];
    for (let at = 0; at < streams.length; at += STREAMS_AT_ONCE) {
      // A read of SQLite ends in the turn in which it begins.
      if (at > 0) await yieldToEventLoop();
      await Promise.all(streams.slice(at, at + STREAMS_AT_ONCE).map((stream) => this.#readOne(stream)));
    }
  }

  /** Keeps the token of a stream once it has a price. A failed read is tried again at the next question. */
  async #readOne(stream: StreamName): Promise<void> {
    const parsed = parseStream(stream);
    const chain = this.#chains.get(parsed.chainId);
    const events = (await this.#options.log.read(stream, { limit: FIRST_EVENTS })).map(({ event }) => event);
    this.#unread.delete(stream);
    const facts = events.find((event) => event.type === "TokenIdentified");
    const isPriced = events.some((event) => event.type === "TokenPriced");
    if (parsed.kind !== "priced" || chain === undefined || facts === undefined || !isPriced) return;
    const { symbol, name } = facts;
    this.#tokens.set(stream, { chain, address: parsed.address, symbol, name });
  }
}
