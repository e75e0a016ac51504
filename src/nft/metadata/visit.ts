/**
 * One visit to a collection: fetches due tokens until none is left, a window of tokens at a time. A slow token blocks
 * only its own place in the window. Outcomes are appended to the log as they arrive. After an interruption, each token
 * without a written outcome goes back to the queue.
 */
import type { ChainView } from "../../chain/consumer.ts";
import type { Clock } from "../../core/clock.ts";
import type { AppError } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { Logger } from "../../core/logger.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { type TokenRef, TransferKind } from "../../events/columns.ts";
import { type MetadataReason, metadataStream } from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import type { HotCollections } from "../collections/hot-collections.ts";
import type { Slot } from "../ledger/tables.ts";
import { MAX_ID, type MetadataBook } from "./book.ts";
import { appendMetadata, type MetadataBooks, Outbox, outcomeEvents, type TokenOutcome } from "./books.ts";
import type { DueTokens } from "./due-tokens.ts";
import { storeDocument, storeText } from "./outcome-documents.ts";
import { isPermanent, MetadataFailure } from "./resolve/failure.ts";
import type { Resolver } from "./resolve/resolver.ts";
import { retryMs } from "./retry-times.ts";
import type { TokenUri, TokenUriReader } from "./token-uris.ts";

export interface VisitContext {
  readonly chainId: number;
  readonly log: EventLog;
  readonly clock: Clock;
  readonly books: MetadataBooks;
  readonly projections: HotCollections;
  readonly view: ChainView;
  readonly uriReader: TokenUriReader;
  /** Runs a read from the chain's node. */
  readonly reading: <T>(read: () => Promise<T>) => Promise<T>;
  readonly resolver: Resolver;
  readonly logger: Logger;
  readonly observe: (outcome: MetadataReason | "resolved" | "repaired") => void;
  /** Stored bytes of a collection's metadata above which only tokens that clients read are fetched. */
  readonly maxStoredBytes: number;
  /** The same limit for its book in memory. */
  readonly maxBookBytes: number;
}

/** The book, and its version when the URIs were read. */
interface BookState {
  readonly book: MetadataBook;
  readonly since: number;
}

interface VisitTarget {
  readonly address: Address;
  readonly due: DueTokens;
  readonly signal: AbortSignal;
  /** Called before each pick. Returns true if the visit should end for another collection. */
  readonly isTurnOver: () => boolean;
}

/** Tokens of one collection in flight at once, so that one collection can't take all slots. */
const WINDOW = 48;
/** URIs per batch: the largest on-chain drawings cost a million gas each. */
const URI_BATCH = 40;
/** Tokens per sample. */
const SAMPLE = 5;

export class Visit {
  readonly #context: VisitContext;
  readonly #target: VisitTarget;
  readonly #running = new Set<Promise<void>>();
  readonly #outbox: Outbox<TokenOutcome>;
  /** The first failure. It ends the visit; the worker waits before the next one. */
  #failure: unknown;
  #hasWarned = false;
  /** Bytes of outcomes that are not in the book yet. */
  #unwrittenBytes = 0;
  /** Number of outcomes written. */
  written = 0;

  constructor(context: VisitContext, target: VisitTarget) {
    this.#context = context;
    this.#target = target;
    const { chainId, clock } = context;
    const { address, due } = target;
    this.#outbox = new Outbox({
      clock,
      write: async (outcomes) => {
        await appendMetadata(context, { chainId, address }, outcomeEvents(outcomes));
        const book = await context.books.get(chainId, address);
        this.written += outcomes.length;
        this.#unwrittenBytes -= outcomeBytes(outcomes);
        // Tokens stay in flight until the book has their outcome. Otherwise they would be picked again.
        for (const { token } of outcomes) due.written(token, book);
      },
      onFailure: (outcomes, error) => {
        this.#unwrittenBytes -= outcomeBytes(outcomes);
        this.#interrupt(
          outcomes.map(({ token }) => token),
          error,
        );
      },
    });
  }

  /** Makes the visit end, and puts the tokens back into the queue. */
  #interrupt(tokens: readonly TokenRef[], error: unknown): void {
    this.#failure ??= error;
    for (const token of tokens) this.#target.due.requests.putBack(token);
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
    const { address, due, signal, isTurnOver } = this.#target;
    for (;;) {
      signal.throwIfAborted();
      if (this.#failure !== undefined) throw this.#failure;
      if (isTurnOver()) return false;
      const room = WINDOW - this.#running.size;
      // Wait for room for a whole batch, unless a client waits for a token.
      if (room <= 0 || (room < URI_BATCH && due.requests.waiting === 0)) {
        await this.#progress();
        continue;
      }
      const book = await books.get(chainId, address);
      const collection = await projections.get(chainId, address);
      this.#checkLimits(book);
      const now = clock.now();
      const tokens = due.pick({ collection, book, now }, Math.min(room, URI_BATCH));
      if (tokens.length > 0) await this.#begin(tokens, { book, since: book.version });
      // The walks of `pick` run in slices between requests.
      else if (due.dueAt <= now) await yieldToEventLoop();
      else if (this.#running.size > 0) await this.#progress();
      else return true;
    }
  }

  /** Resolves when a token in flight has ended, or another one is requested. */
  async #progress(): Promise<void> {
    await Promise.race([...this.#running, this.#target.due.requests.woken()]);
  }

  /**
   * Checks the collection's limits. A contract's author controls how much metadata there is to store, and by an
   * announcement in each block also how many outcomes the book has. The operator controls how much of it is fetched
   * without a request.
   */
  #checkLimits({ storedBytes, bytes: bookBytes }: MetadataBook): void {
    const { maxStoredBytes, maxBookBytes, logger, chainId } = this.#context;
    const { address, due } = this.#target;
    const isFull = storedBytes + this.#unwrittenBytes >= maxStoredBytes || bookBytes >= maxBookBytes;
    if (isFull && !due.isFull) {
      const sizes = { storedBytes, maxStoredBytes, bookBytes, maxBookBytes };
      logger.warn({ chainId, address, ...sizes }, "metadata exceeds its limit; only tokens that are read are fetched");
    }
    due.isFull = isFull;
  }

  /** Reads the tokens' URIs from the contract and starts to resolve each. */
  async #begin(tokens: readonly TokenRef[], before: BookState): Promise<void> {
    const uris = await this.#readUris(tokens).catch((error: unknown) => this.#interrupt(tokens, error));
    if (uris === undefined) return;
    for (const [index, token] of tokens.entries()) {
      const running = this.#resolve(token, uris[index]!, before)
        .then((outcome) => this.#record(outcome))
        .catch((error: unknown) => this.#interrupt([token], error))
        .finally(() => this.#running.delete(running));
      this.#running.add(running);
    }
  }

  /**
   * Reads at the newest known block that concerns the tokens, because a lagging endpoint could answer with the state
   * before their mint or change. The collection may be ahead of the followed head.
   */
  async #readUris(tokens: readonly TokenRef[]): Promise<TokenUri[]> {
    const { uriReader, reading, view, books, projections, chainId } = this.#context;
    const { address } = this.#target;
    const head = view.head()?.number;
    if (head === undefined) return reading(() => uriReader.read(address, tokens, "latest"));
    const [book, collection] = await Promise.all([books.get(chainId, address), projections.get(chainId, address)]);
    const block = Math.max(head, collection.end?.number ?? 0, book.outdatedBlock);
    try {
      return await reading(() => uriReader.read(address, tokens, block));
    } catch (error) {
      if ((error as AppError).code !== "state_unavailable") throw error;
      return reading(() => uriReader.read(address, tokens, "latest"));
    }
  }

  #record(outcome: TokenOutcome): void {
    const { observe, clock } = this.#context;
    if (outcome.token.kind !== TransferKind.contract) observe(outcome.reason ?? "resolved");
    if (outcome.reason !== undefined) this.#target.due.failed(clock.now() + retryMs(1, isPermanent(outcome.reason)));
    this.#unwrittenBytes += outcome.bytes;
    this.#outbox.add(outcome);
  }

  /** Returns the token's outcome, after storing its body and document. @throws the signal's reason, AppError */
  async #resolve(token: TokenRef, { uri, reason }: TokenUri, { book, since }: BookState): Promise<TokenOutcome> {
    const { resolver, chainId, log, logger, observe } = this.#context;
    this.#target.signal.throwIfAborted();
    if (uri === undefined) return { token, reason, hash: undefined, bytes: 0, since };
    const known = knownHashes(book, token);
    const of = { ...token, collection: metadataStream(chainId, this.#target.address) };
    try {
      return await resolver.metadata(uri, of, this.#target.signal, async (resolution) => {
        // Counted in addition to `resolved`.
        if ("text" in resolution && resolution.isRepaired) observe("repaired");
        const stored =
          "text" in resolution
            ? await storeText(log, { uri, text: resolution.text }, known)
            : await storeDocument(log, { uri, image: resolution.image }, known);
        return { token, reason: undefined, ...stored, since };
      });
    } catch (error) {
      if (!(error instanceof MetadataFailure)) throw error;
      if (error.cause !== undefined) {
        // Warn once per visit: a hostile collection may have a million such tokens.
        const level = this.#hasWarned ? "debug" : "warn";
        this.#hasWarned = true;
        const fields = { err: error.cause, chainId, address: this.#target.address, token: String(token.id) };
        logger[level](fields, "the content of a token caused an unexpected error");
      }
      return { token, reason: error.reason, ...(await storeDocument(log, { uri }, known)), since };
    }
  }

  /**
   * Fetches a few tokens with known metadata again. If half of them changed, for example by a reveal, it marks the
   * whole collection outdated and returns true.
   */
  async sample(): Promise<boolean> {
    const { books, chainId, clock, view } = this.#context;
    const { address } = this.#target;
    const book = await books.get(chainId, address);
    const tokens = pickSample(book, clock);
    if (tokens.length === 0) return false;
    const uris = await this.#readUris(tokens);
    const before = { book, since: book.version };
    const outcomes = await Promise.all(tokens.map((token, i) => this.#resolve(token, uris[i]!, before)));
    const changed = outcomes.filter(({ token, hash, reason }) => {
      const slot = book.find(token.kind, token.id);
      return reason === undefined && hash !== book.good(slot)?.hash;
    });
    for (const outcome of changed) this.#record(outcome);
    await this.#flush();
    if (changed.length * 2 < outcomes.length) return false;
    const block = view.head()?.number ?? 0;
    const whole = { fromId: "0", toId: String(MAX_ID) };
    await appendMetadata(this.#context, { chainId, address }, [
      { type: "MetadataOutdated", ...whole, cause: "sampled", block },
    ]);
    return true;
  }
}

const outcomeBytes = (outcomes: readonly TokenOutcome[]): number => outcomes.reduce((sum, { bytes }) => sum + bytes, 0);

/** Hashes of the token's current documents. */
function knownHashes(book: MetadataBook, { kind, id }: TokenRef): Hash[] {
  const slot = book.find(kind, id);
  if (slot < 0) return [];
  return [book.newest(slot)?.hash, book.good(slot)?.hash].filter((hash) => hash !== undefined);
}

/** Random tokens with metadata. */
function pickSample(book: MetadataBook, clock: Clock): TokenRef[] {
  const { tokens } = book;
  const slots = new Set<number>();
  for (let i = 0; i < SAMPLE * 4 && slots.size < Math.min(SAMPLE, tokens.count); i++) {
    const slot = Math.floor(clock.random() * tokens.count);
    const kind = tokens.kind(slot as Slot);
    const isOwnFamily = kind === TransferKind.cryptopunks || kind === TransferKind.mooncats;
    if (!isOwnFamily && !book.isContract(slot) && book.good(slot) !== undefined) slots.add(slot);
  }
  return [...slots].map((slot) => ({ kind: tokens.kind(slot as Slot), id: tokens.id(slot as Slot) }));
}
