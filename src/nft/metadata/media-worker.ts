/**
 * Examines the pictures of tokens that clients read, in turns by collection, a few at a time. Runs beside the
 * metadata worker under the same lease. Results go to the collection's metadata stream. A fault of the machine is no
 * result: the picture waits and is tried again.
 */
import { LRUCache } from "lru-cache";
import { backoffMs } from "../../core/clock.ts";
import { countedCache } from "../../core/counted-cache.ts";
import { BlobsUnavailable, isAbort } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { Logger } from "../../core/logger.ts";
import type { TokenRef } from "../../events/columns.ts";
import { encodeTokens } from "../../events/token-columns.ts";
import { metadataStream } from "../../events/types.ts";
import { appendMetadata, type MetadataBooks, Outbox } from "./books.ts";
import { keyOf, RequestQueue } from "./due-tokens.ts";
import {
  type Doubt,
  type ExaminerOptions,
  examine,
  isExaminationDue,
  type MediaDocument,
  uriName,
} from "./media/media.ts";
import { PreviewsUnavailable } from "./media/previews.ts";
import { fromBlob, toBlob } from "./outcome-documents.ts";
import { type TokenTexts, textOfToken } from "./token-texts.ts";

interface MediaWorkerOptions extends ExaminerOptions {
  readonly chainId: number;
  readonly logger: Logger;
  readonly books: MetadataBooks;
  readonly texts: TokenTexts;
  /** Bytes of memory for the results of examined pictures. */
  readonly maxBytes: number;
  readonly observe: (status: MediaDocument["status"]) => void;
}

/** Result of an examination: enough to decide if the picture is examined again. */
interface ExaminedPicture extends Pick<MediaDocument, "status" | "updatedAt" | "version"> {
  /** Hash of its document. */
  readonly hash: Hash;
}

interface PictureRequest {
  readonly address: Address;
  readonly token: TokenRef;
}

/** The URI of a picture, and the collection that is the first to show it. */
interface Picture {
  readonly uri: string;
  readonly collection: string;
}

interface FoundPicture extends PictureRequest {
  readonly hash: Hash;
}

const PARALLEL = 4;
/** Most pictures that wait. */
const MAX_REQUESTS = 20_000;
/** Backoff after a failure to write to the log. */
const WRITE_BASE_MS = 2_000;
const WRITE_MAX_MS = 300_000;
/**
 * Examinations in doubt after which a picture counts as at fault itself. A picture that overran its limits once may have
 * met a busy machine. A picture in a process that ended may have been a bystander.
 */
const MAX_DOUBTS: Readonly<Record<Doubt, number>> = { overran: 2, interrupted: 4 };
/** Backoff after an examination in doubt. */
const DOUBT_BASE_MS = 2_000;
const DOUBT_MAX_MS = 60_000;
/** Most pictures whose doubts are counted. */
const MAX_DOUBTED = 10_000;

/** The examination ended in doubt, and is repeated after `waitMs`. */
class Doubtful extends Error {
  readonly waitMs: number;

  constructor(waitMs: number) {
    super("the examination is repeated");
    this.waitMs = waitMs;
  }
}

export class MediaWorker {
  readonly #options: MediaWorkerOptions;
  readonly #requests = new RequestQueue<PictureRequest>(
    ({ address, token }) => `${address}/${keyOf(token)}`,
    MAX_REQUESTS,
    ({ address }) => address,
  );
  /** By the name of the URI, because many tokens share one picture. */
  readonly #known: LRUCache<string, Promise<ExaminedPicture>>;
  readonly #outbox: Outbox<FoundPicture>;
  /** Number of examinations in doubt, by the name of the URI. */
  readonly #doubts = countedCache<string, Record<Doubt, number>>(MAX_DOUBTED);
  /** Pictures that wait for their next examination after a doubt; the value cancels the wait. */
  readonly #postponed = new Map<PictureRequest, () => void>();
  /** Consecutive failures to write. */
  #failures = 0;
  /** No examination starts before this time on the monotonic clock. */
  #restUntil = 0;

  constructor(options: MediaWorkerOptions) {
    this.#options = options;
    this.#known = new LRUCache({ maxSize: options.maxBytes, sizeCalculation: (_, name) => 512 + 2 * name.length });
    this.#outbox = new Outbox({
      clock: options.clock,
      write: (found) => this.#write(found),
      onFailure: (found, error) => this.#requeue(found, error),
    });
  }

  /** Queues the pictures of tokens. */
  request(address: Address, tokens: readonly TokenRef[]): void {
    this.#requests.add(tokens.map((token) => ({ address, token })));
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const running = new Set<Promise<void>>();
    signal.addEventListener("abort", () => this.#requests.wake(), { once: true });
    while (!signal.aborted) {
      const rest = this.#restUntil - clock.monotonic();
      if (rest > 0) {
        await clock.sleep(rest, signal).catch(() => undefined);
        continue;
      }
      for (const request of this.#requests.take(PARALLEL - running.size)) {
        const work = this.#handle(request, signal).finally(() => {
          if (!this.#postponed.has(request)) this.#requests.end(request);
          running.delete(work);
        });
        running.add(work);
      }
      await Promise.race([...running, this.#requests.woken()]);
    }
    await Promise.all(running);
    await this.#outbox.flush();
    for (const [request, cancel] of this.#postponed) {
      cancel();
      this.#requests.end(request);
    }
    this.#postponed.clear();
    this.#requests.clear();
    this.#failures = 0;
    this.#restUntil = 0;
  }

  #rest(ms: number): void {
    this.#restUntil = Math.max(this.#restUntil, this.#options.clock.monotonic() + ms);
  }

  async #handle(request: PictureRequest, signal: AbortSignal): Promise<void> {
    const { address, token } = request;
    const { books, chainId, texts, clock, log, logger } = this.#options;
    try {
      const book = await books.get(chainId, address);
      const slot = book.find(token.kind, token.id);
      const good = slot < 0 ? undefined : book.good(slot);
      if (good?.hash === undefined) return;
      const text = await texts.get(good.hash);
      const uri = text === undefined ? null : textOfToken(text, token).image;
      if (uri === null) return;
      const known = book.media(slot);
      const bytes = known === undefined ? undefined : await log.getBlob(known);
      const before = bytes === undefined ? undefined : fromBlob<MediaDocument>(bytes);
      if (before?.uri === uri && !isExaminationDue(before, clock.now())) return;
      const hash = await this.#examined({ uri, collection: metadataStream(chainId, address) }, signal);
      this.#outbox.add({ address, token, hash });
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      if (error instanceof PreviewsUnavailable) {
        this.#rest(error.retryInMs);
        this.#requests.putBack(request);
      } else if (error instanceof BlobsUnavailable) {
        // No other request would ask for the picture until a page shows it again.
        this.#rest(WRITE_BASE_MS);
        this.#requests.putBack(request);
      } else if (error instanceof Doubtful) this.#postpone(request, error.waitMs);
      else logger.warn({ err: error }, "failed to examine a picture");
    }
  }

  /** Queues the picture again after `ms` ms. Until then it stays in flight, so that a new request starts no other try. */
  #postpone(request: PictureRequest, ms: number): void {
    const cancel = this.#options.clock.after(ms, () => {
      this.#postponed.delete(request);
      this.#requests.putBack(request);
    });
    this.#postponed.set(request, cancel);
  }

  async #examined(picture: Picture, signal: AbortSignal): Promise<Hash> {
    const name = uriName(picture.uri);
    // Await only a hit: a second request of the same picture must find the first one's examination.
    const known = this.#known.get(name);
    const examined = known && (await known);
    if (examined !== undefined && !isExaminationDue(examined, this.#options.clock.now())) return examined.hash;
    const examining = this.#examine(picture, signal);
    this.#known.set(name, examining);
    // An exception is a fault of this machine, not of the picture, so don't remember it.
    examining.catch(() => this.#known.delete(name));
    return (await examining).hash;
  }

  async #examine(picture: Picture, signal: AbortSignal): Promise<ExaminedPicture> {
    const { log, observe } = this.#options;
    const { document, doubt } = await examine(this.#options, picture, signal);
    if (doubt === undefined) this.#doubts.delete(uriName(picture.uri));
    else this.#assertEnoughDoubts(uriName(picture.uri), doubt);
    observe(document.status);
    const { status, updatedAt, version = 0 } = document;
    return { status, updatedAt, version, hash: await log.putBlob(toBlob(document)) };
  }

  /** Counts a doubt about a picture. @throws Doubtful unless it is enough for a result */
  #assertEnoughDoubts(name: string, doubt: Doubt): void {
    const doubts = this.#doubts.get(name) ?? { overran: 0, interrupted: 0 };
    this.#doubts.set(name, doubts);
    const count = ++doubts[doubt];
    if (count >= MAX_DOUBTS[doubt]) this.#doubts.delete(name);
    else throw new Doubtful(backoffMs(this.#options.clock, count, DOUBT_BASE_MS, DOUBT_MAX_MS));
  }

  async #write(found: readonly FoundPicture[]): Promise<void> {
    for (const [address, group] of Map.groupBy(found, ({ address }) => address)) {
      const tokens = encodeTokens(group.map(({ token, hash }) => ({ ...token, hash })));
      const event = { type: "MediaExamined", count: group.length, tokens } as const;
      await appendMetadata(this.#options, { chainId: this.#options.chainId, address }, [event]);
    }
    this.#failures = 0;
  }

  /** Queues tokens again after their results could not be written. The retry finds the pictures in memory. */
  #requeue(found: readonly FoundPicture[], error: unknown): void {
    const { clock, chainId, logger } = this.#options;
    const wait = backoffMs(clock, ++this.#failures, WRITE_BASE_MS, WRITE_MAX_MS);
    this.#rest(wait);
    logger.warn({ err: error, chainId, retryInMs: wait }, "failed to write the results of examined pictures");
    this.#requests.add(found);
  }
}
