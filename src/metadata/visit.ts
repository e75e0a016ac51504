/**
 * One visit to a collection: fetches due tokens until none is left, a window of tokens at a time. A slow token blocks
 * only its own place in the window. Outcomes are appended to the log as they arrive.
 */

import type { ChainView } from "../chain/consumer.ts";
import type { HotCollections } from "../collections/hot-collections.ts";
import { yieldToEventLoop } from "../core/background.ts";
import type { Clock } from "../core/clock.ts";
import type { AppError } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { TransferKind } from "../events/columns.ts";
import type { MetadataReason } from "../events/types.ts";
import type { Slot } from "../ledger/tables.ts";
import type { EventLog } from "../log/event-log.ts";
import type { MetadataBook } from "./book.ts";
import type { MetadataBooks } from "./books.ts";
import { documentOf, hashOf, isPermanent, MetadataFailure, type OutcomeDocument, retryMs, toBlob } from "./outcome.ts";
import { appendMetadata, Outbox, outcomeEvents, type TokenOutcome } from "./outcome-writer.ts";
import type { Resolver } from "./resolve/resolver.ts";
import type { TokenUriReader } from "./token-uris.ts";
import { type CollectionWork, keyOf, type Token } from "./work.ts";

export interface VisitContext {
  readonly chainId: number;
  readonly log: EventLog;
  readonly clock: Clock;
  readonly books: MetadataBooks;
  readonly projections: HotCollections;
  readonly view: ChainView;
  readonly asker: TokenUriReader;
  readonly resolver: Resolver;
  readonly logger: Logger;
  readonly observe: (outcome: MetadataReason | "resolved" | "repaired") => void;
  /** Stored bytes of a collection's metadata above which only tokens that clients read are fetched. */
  readonly maxStoredBytes: number;
  /** The same limit for its book in memory. */
  readonly maxBookBytes: number;
}

/** The stored document of a token's outcome. */
type Stored = Pick<TokenOutcome, "hash" | "bytes">;

/** State of the book when the contract was asked. */
interface BookState {
  readonly book: MetadataBook;
  /** Version of the book. */
  readonly since: number;
}

/** Tokens of one collection in flight at once, so that one collection can't take all slots. */
const WINDOW = 48;
/** URIs per batch: the largest on-chain drawings cost a million gas each. */
const ASK_BATCH = 40;
const SAMPLE = 5;

export class Visit {
  readonly #context: VisitContext;
  readonly #work: CollectionWork;
  readonly #signal: AbortSignal;
  readonly #isTurnOver: () => boolean;
  readonly #running = new Set<Promise<void>>();
  readonly #outbox: Outbox<TokenOutcome>;
  /** The first failure. It ends the visit; the worker waits before the next one. */
  #failure: unknown;
  #hasWarned = false;
  /** Bytes of outcomes that are not in the book yet. */
  #unwrittenBytes = 0;
  /** Number of outcomes written. */
  written = 0;

  /** @param isTurnOver called before each pick; returns true if the visit should end for another collection */
  constructor(context: VisitContext, work: CollectionWork, signal: AbortSignal, isTurnOver: () => boolean) {
    this.#isTurnOver = isTurnOver;
    this.#context = context;
    this.#work = work;
    this.#signal = signal;
    const { chainId, clock } = context;
    const { address } = work;
    this.#outbox = new Outbox({
      clock,
      write: async (outcomes) => {
        await appendMetadata(context, { chainId, address }, outcomeEvents(outcomes));
        const book = await context.books.get(chainId, address);
        this.written += outcomes.length;
        this.#unwrittenBytes -= bytesOf(outcomes);
        // Tokens stay in flight until the book has their outcome. Otherwise they would be picked again.
        for (const { token } of outcomes) work.written(token, book);
      },
      onFailure: (outcomes, error) => {
        this.#failure ??= error;
        this.#unwrittenBytes -= bytesOf(outcomes);
        for (const { token } of outcomes) work.requeue(token);
      },
    });
  }

  /**
   * Runs until no token is due, or the turn is over. Returns true if no token is due.
   * @throws AppError if the chain or the log fails; the outcomes so far are written
   */
  async run(): Promise<boolean> {
    const isDone = await this.#loop().catch((error: unknown) => {
      this.#failure ??= error;
      return false;
    });
    await Promise.all(this.#running);
    await this.#flush();
    return isDone;
  }

  /** Resolves once every outcome is in the log. @throws the first failure of the visit */
  async #flush(): Promise<void> {
    await this.#outbox.flush();
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #loop(): Promise<boolean> {
    const { books, projections, chainId, clock } = this.#context;
    const { address } = this.#work;
    for (;;) {
      this.#signal.throwIfAborted();
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isTurnOver()) return false;
      const room = WINDOW - this.#running.size;
      if (room < ASK_BATCH && this.#running.size > 0 && (room <= 0 || this.#work.urgent === 0)) {
        await Promise.race(this.#running);
        continue;
      }
      const book = await books.get(chainId, address);
      const collection = await projections.get(chainId, address);
      this.#checkLimits(book);
      const { tokens, more } = this.#work.pick(collection, book, { max: Math.min(room, ASK_BATCH), now: clock.now() });
      if (tokens.length > 0) await this.#begin(tokens, { book, since: book.version });
      // The walks of `pick` run in slices between requests.
      else if (more) await yieldToEventLoop();
      else if (this.#running.size > 0) await Promise.race([...this.#running, this.#work.urgentQueued()]);
      else return true;
    }
  }

  /**
   * Checks the collection's limits. A contract's author controls how much metadata there is to store, and by an
   * announcement in each block also how many outcomes the book has. The operator controls how much of it is fetched
   * without a request.
   */
  #checkLimits({ storedBytes, bytes: bookBytes }: MetadataBook): void {
    const { maxStoredBytes, maxBookBytes, logger, chainId } = this.#context;
    const isFull = storedBytes + this.#unwrittenBytes >= maxStoredBytes || bookBytes >= maxBookBytes;
    if (isFull && !this.#work.isFull) {
      const { address } = this.#work;
      const sizes = { storedBytes, maxStoredBytes, bookBytes, maxBookBytes };
      logger.warn({ chainId, address, ...sizes }, "metadata exceeds its limit; only tokens that are read are fetched");
    }
    this.#work.isFull = isFull;
  }

  /** Asks the contract for the tokens' URIs and starts to resolve each. */
  async #begin(tokens: readonly Token[], before: BookState): Promise<void> {
    for (const token of tokens) this.#work.inFlight.add(keyOf(token));
    let uris: (string | undefined)[];
    try {
      uris = await this.#ask(tokens);
    } catch (error) {
      for (const token of tokens) this.#work.requeue(token);
      throw error;
    }
    tokens.forEach((token, index) => {
      const running = this.#resolveOne(token, uris[index], before)
        .catch((error: unknown) => {
          this.#failure ??= error;
        })
        .finally(() => {
          this.#running.delete(running);
        });
      this.#running.add(running);
    });
  }

  /**
   * Asks at the newest known block that concerns the tokens, because a lagging endpoint could answer with the state
   * before their mint or change. The collection may be ahead of the followed head.
   */
  async #ask(tokens: readonly Token[]): Promise<(string | undefined)[]> {
    const { asker, view, books, projections, chainId } = this.#context;
    const { address } = this.#work;
    const head = view.head()?.number;
    if (head === undefined) return asker.ask(address, tokens, "latest");
    const [book, collection] = await Promise.all([books.get(chainId, address), projections.get(chainId, address)]);
    const block = Math.max(head, collection.end?.number ?? 0, book.outdatedBlock);
    try {
      return await asker.ask(address, tokens, block);
    } catch (error) {
      if ((error as AppError).code !== "state_unavailable") throw error;
      return asker.ask(address, tokens, "latest");
    }
  }

  async #resolveOne(token: Token, uri: string | undefined, before: BookState): Promise<void> {
    try {
      this.#record(await this.#resolve(token, uri, before));
    } catch (error) {
      this.#work.requeue(token);
      throw error;
    }
  }

  #record(outcome: TokenOutcome): void {
    const { observe, clock } = this.#context;
    observe(outcome.reason ?? "resolved");
    if (outcome.reason !== undefined) this.#work.failed(clock.now() + retryMs(1, isPermanent(outcome.reason)));
    this.#unwrittenBytes += outcome.bytes;
    this.#outbox.add(outcome);
  }

  /** Returns the token's outcome, after storing its body and document. @throws the signal's reason, AppError */
  async #resolve(token: Token, uri: string | undefined, { book, since }: BookState): Promise<TokenOutcome> {
    const { resolver, chainId, logger, observe } = this.#context;
    this.#signal.throwIfAborted();
    if (uri === undefined) return { token, reason: "no_uri", hash: undefined, bytes: 0, since };
    const known = knownHashes(book, token);
    try {
      return await resolver.metadata(uri, token, this.#signal, async (resolution) => {
        // Counted in addition to `resolved`.
        if ("text" in resolution && resolution.isRepaired) observe("repaired");
        const stored =
          "text" in resolution
            ? await this.#storeText(uri, resolution.text, known)
            : await this.#store({ uri, image: resolution.image }, known);
        return { token, reason: undefined, ...stored, since };
      });
    } catch (error) {
      if (!(error instanceof MetadataFailure)) throw error;
      if (error.cause !== undefined) {
        // Warn once per visit: a hostile collection may have a million such tokens.
        const level = this.#hasWarned ? "debug" : "warn";
        this.#hasWarned = true;
        const { address } = this.#work;
        logger[level](
          { err: error.cause, chainId, address, token: String(token.id) },
          "the content of a token caused an unexpected error",
        );
      }
      return { token, reason: error.reason, ...(await this.#store({ uri }, known)), since };
    }
  }

  async #store(document: OutcomeDocument, known: readonly Hash[], bodyBytes = 0): Promise<Stored> {
    const blob = toBlob(document);
    const hash = await this.#context.log.putBlob(blob);
    return { hash, bytes: known.includes(hash) ? 0 : blob.length + bodyBytes };
  }

  async #storeText(uri: string, text: string, known: readonly Hash[]): Promise<Stored> {
    const bytes = new TextEncoder().encode(text);
    const body = await this.#context.log.putBlob(bytes);
    const document = documentOf(uri, text, body);
    if (document.inline !== undefined && known.length > 0) {
      // Older logs store the URI whole. Keep such a document, so that its token does not count as changed.
      const whole = hashOf(toBlob({ uri, body } satisfies OutcomeDocument));
      if (known.includes(whole)) return { hash: whole, bytes: 0 };
    }
    return this.#store(document, known, bytes.length);
  }

  /**
   * Fetches a few tokens with known metadata again. If half of them changed, for example by a reveal, it marks the
   * whole collection outdated and returns true.
   */
  async sample(): Promise<boolean> {
    const { books, chainId, clock, view } = this.#context;
    const { address } = this.#work;
    const book = await books.get(chainId, address);
    const tokens = pickSample(book, clock);
    if (tokens.length === 0) return false;
    const uris = await this.#ask(tokens);
    const before = { book, since: book.version };
    const outcomes = await Promise.all(tokens.map((token, i) => this.#resolve(token, uris[i], before)));
    const changed = outcomes.filter(({ token, hash, reason }) => {
      const slot = book.find(token.kind, token.id);
      return reason === undefined && hash !== book.good(slot)?.hash;
    });
    for (const outcome of changed) this.#record(outcome);
    await this.#flush();
    if (changed.length * 2 < outcomes.length) return false;
    const block = view.head()?.number ?? 0;
    const whole = { fromId: "0", toId: ((1n << 256n) - 1n).toString() };
    await appendMetadata(this.#context, { chainId, address }, [
      { type: "MetadataOutdated", ...whole, cause: "sampled", block },
    ]);
    return true;
  }
}

const bytesOf = (outcomes: readonly TokenOutcome[]): number => outcomes.reduce((sum, { bytes }) => sum + bytes, 0);

/** Hashes of the token's current documents. */
function knownHashes(book: MetadataBook, { kind, id }: Token): Hash[] {
  const slot = book.find(kind, id);
  if (slot < 0) return [];
  return [book.newest(slot)?.hash, book.good(slot)?.hash].filter((hash) => hash !== undefined);
}

/** Random tokens with metadata. */
function pickSample(book: MetadataBook, clock: Clock): Token[] {
  const { tokens } = book;
  const slots = new Set<number>();
  for (let i = 0; i < SAMPLE * 4 && slots.size < Math.min(SAMPLE, tokens.count); i++) {
    const slot = Math.floor(clock.random() * tokens.count);
    const isOwnFamily =
      tokens.kind(slot as Slot) === TransferKind.cryptopunks || tokens.kind(slot as Slot) === TransferKind.mooncats;
    if (!isOwnFamily && book.good(slot) !== undefined) slots.add(slot);
  }
  return [...slots].map((slot) => ({ kind: tokens.kind(slot as Slot), id: tokens.id(slot as Slot) }));
}
