/**
 * The metadata worker of one chain. It runs in the process that holds the chain's metadata lease, visits a few
 * collections at a time, and sleeps until a collection is due, requested or changed. The remaining work follows from
 * the log, so another process that takes over the lease continues after the last recorded outcome.
 */
import { type Lease, withLease } from "../chain/lease.ts";
import { isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { backoffMs } from "../core/retry.ts";
import { decodeTokens, type TransferKind } from "../events/columns.ts";
import { type MetadataEvent, metadataStream, parseStream, type Recorded, type StreamName } from "../events/types.ts";
import { idToBigInt, loadId } from "../ledger/token-slots.ts";
import type { MediaWorker } from "./media/media-worker.ts";
import { appendMetadata } from "./outcome-writer.ts";
import { Visit, type VisitContext } from "./visit.ts";
import { CollectionWork, type Token } from "./work.ts";

interface WorkerOptions extends VisitContext {
  readonly holder: string;
  readonly media: MediaWorker;
  /** First wait before a finished collection is sampled, in ms; it doubles up to a day. */
  readonly sampleMs: number;
}

/** Collections visited at once. */
const PARALLEL = 6;
/** Longest visit while other collections wait: on a slow host a large collection takes days. */
const TURN_MS = 15_000;
const RETRY_BASE_MS = 2_000;
const RETRY_MAX_MS = 300_000;
const MAX_SAMPLE_MS = 86_400_000;
/** Longest sleep between two checks for due collections. */
const IDLE_MS = 60_000;
const MAX_WISH_AGE_MS = 60_000;
const PAGE = 1_000;

export class MetadataWorker {
  readonly #options: WorkerOptions;
  readonly #works = new Map<Address, CollectionWork>();
  readonly #visiting = new Map<Address, Promise<void>>();
  #holding = false;
  /** True if a collection is due but all places are taken. */
  #isCrowded = false;
  #wake: (() => void) | undefined;

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  /** True if this process holds the chain's metadata lease. */
  get holding(): boolean {
    return this.#holding;
  }

  /** Number of tokens in flight. */
  get inFlight(): number {
    let count = 0;
    for (const work of this.#works.values()) count += work.inFlight.size;
    return count;
  }

  /** Waits for the lease and works while it is held, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { log, clock, holder, chainId, logger } = this.#options;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await withLease({ log, clock, name: `metadata/${chainId}`, holder, signal }, (lease) => this.#serve(lease));
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        failures++;
        logger.debug({ err: error, chainId, attempt: failures }, "metadata work was interrupted");
        await clock.sleep(backoffMs(clock, failures, RETRY_BASE_MS, RETRY_MAX_MS), signal).catch(() => undefined);
      }
    }
  }

  async #serve(lease: Lease): Promise<void> {
    const { media } = this.#options;
    const done = new AbortController();
    const signal = AbortSignal.any([lease.signal, done.signal]);
    const pictures = media.run(signal);
    try {
      await this.#load();
      this.#holding = true;
      while (!signal.aborted) {
        const next = this.#startDue(signal);
        await this.#sleep(next, signal);
      }
      lease.assertHeld();
    } finally {
      this.#holding = false;
      done.abort(new DOMException("the metadata worker stops", "AbortError"));
      await Promise.all([...this.#visiting.values(), pictures]);
      this.#works.clear();
    }
  }

  /**
   * Loads the collections of the chain. Each may have work left, which its first visit finds out. A collection that is
   * settled and unchanged since stays in the log until it is due, so that a start doesn't replay all of them.
   */
  async #load(): Promise<void> {
    const { log, chainId } = this.#options;
    for (let after = ""; ; ) {
      const page = await log.streams(`nft/${chainId}/`, { after, limit: PAGE });
      const followed = page.filter(({ headline }) => headline?.["status"] === "following");
      const heads = await log.heads(followed.map(({ stream }) => metadataStream(chainId, parseAddress(stream))));
      const settled = new Map(
        heads
          .filter((head) => head.headline?.["at"] === head.version)
          .map(({ stream, headline }) => [parseAddress(stream), headline]),
      );
      for (const { stream, version } of followed) {
        const work = this.#work(parseAddress(stream));
        const before = settled.get(work.address);
        if (before?.["collection"] !== version) continue;
        work.dueAt = Number(before["dueAt"]);
        work.sampleAt = Number(before["sampleAt"]);
        work.sampleWait = Number(before["sampleWait"]);
      }
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) return;
      after = last.stream;
    }
  }

  #workOf(stream: StreamName): CollectionWork | undefined {
    const parsed = parseStream(stream);
    return parsed.kind === "chain" ? undefined : this.#work(parsed.address);
  }

  #work(address: Address): CollectionWork {
    let work = this.#works.get(address);
    if (work === undefined) {
      const { clock, sampleMs } = this.#options;
      work = new CollectionWork(address, clock.now() + sampleMs);
      this.#works.set(address, work);
    }
    return work;
  }

  /** Starts visits to due collections while places are free. Returns the time when the next one is due. */
  #startDue(signal: AbortSignal): number {
    const now = this.#options.clock.now();
    let next = now + IDLE_MS;
    this.#isCrowded = false;
    for (const work of this.#works.values()) {
      if (this.#visiting.has(work.address)) continue;
      if (work.dueAt > now) {
        next = Math.min(next, work.dueAt);
        continue;
      }
      if (this.#visiting.size >= PARALLEL) {
        this.#isCrowded = true;
        break;
      }
      const visit = this.#visit(work, signal).finally(() => {
        this.#visiting.delete(work.address);
        this.#nudge();
      });
      this.#visiting.set(work.address, visit);
      this.#putLast(work);
    }
    return next;
  }

  /** Moves a collection to the end of the queue, after a visit or when it gives up its place. */
  #putLast(work: CollectionWork): void {
    this.#works.delete(work.address);
    this.#works.set(work.address, work);
  }

  async #visit(work: CollectionWork, signal: AbortSignal): Promise<void> {
    const { clock, logger, sampleMs } = this.#options;
    work.dueAt = Number.POSITIVE_INFINITY;
    const turnEnds = clock.monotonic() + TURN_MS;
    const isTurnOver = () => this.#isCrowded && clock.monotonic() >= turnEnds;
    const visit = new Visit(this.#options, work, signal, isTurnOver);
    try {
      const isDone = await visit.run();
      if (!isDone) {
        work.isUnsettled ||= visit.written > 0;
        work.interruptions = 0;
        work.dueAt = 0;
        this.#putLast(work);
        return;
      }
      const isSampled = clock.now() >= work.sampleAt;
      if (isSampled) {
        // If changes would not be fetched, there is no use in looking for them.
        const isOutdated = !work.isFull && (await visit.sample());
        work.sampleWait = isOutdated ? sampleMs : Math.min(MAX_SAMPLE_MS, Math.max(sampleMs, work.sampleWait * 2));
        work.sampleAt = clock.now() + work.sampleWait;
      }
      work.interruptions = 0;
      work.dueAt = Math.min(work.dueAt, work.nextRetry, work.nextOutdated, work.sampleAt);
      work.isUnsettled ||= visit.written > 0 || isSampled;
      if (work.isUnsettled && work.dueAt > clock.now()) await this.#settle(work);
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      work.interruptions++;
      const wait = backoffMs(clock, work.interruptions, RETRY_BASE_MS, RETRY_MAX_MS);
      const level = work.interruptions > 1 ? "warn" : "debug";
      logger[level]({ err: error, address: work.address, retryInMs: wait }, "a visit for metadata failed");
      work.dueAt = clock.now() + wait;
    }
  }

  /** Records the progress of the collection, for the next process that holds the lease. */
  async #settle(work: CollectionWork): Promise<void> {
    const { chainId } = this.#options;
    const { address, dueAt, sampleAt, sampleWait, seen } = work;
    if (seen < 0) return;
    work.isUnsettled = false;
    const event = { type: "MetadataSettled", collection: seen, dueAt } as const;
    await appendMetadata(this.#options, { chainId, address }, [event], {
      collection: seen,
      dueAt,
      sampleAt,
      sampleWait,
    });
  }

  #nudge(): void {
    this.#wake?.();
  }

  /** Sleeps until the time `at`, a nudge or an abort. */
  #sleep(at: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    return new Promise((resolve) => {
      const wake = () => {
        cancel();
        signal.removeEventListener("abort", wake);
        this.#wake = undefined;
        resolve();
      };
      const cancel = clock.after(Math.max(10, at - clock.now()), wake);
      this.#wake = wake;
      signal.addEventListener("abort", wake, { once: true });
      if (signal.aborted) wake();
    });
  }

  /** Queues tokens that a client read. Does nothing if another process holds the lease. */
  request(address: Address, tokens: readonly Token[]): void {
    if (!this.#holding || tokens.length === 0) return;
    const work = this.#work(address);
    work.want(tokens);
    this.#due(work);
  }

  /**
   * Handles growth of a stream: a collection may have new tokens, a metadata stream new requests or outdated ranges.
   */
  onWakeUp(stream: StreamName): void {
    const { chainId, log, books, logger } = this.#options;
    if (!this.#holding) return;
    if (stream.startsWith(`metadata/${chainId}/`)) {
      // The read delivers the new events to `onEvents`.
      books.get(chainId, parseAddress(stream)).catch((error: unknown) => {
        logger.debug({ err: error, stream }, "failed to read a metadata stream");
      });
      return;
    }
    if (!stream.startsWith(`nft/${chainId}/`)) return;
    const known = this.#works.get(parseAddress(stream));
    if (known !== undefined) {
      this.#due(known);
      return;
    }
    log.head(stream).then(
      ({ headline }) => {
        if (headline?.["status"] !== "following" || !this.#holding) return;
        this.#workOf(stream);
        this.#nudge();
      },
      // Ignore the error: the next wake-up finds the collection.
      () => undefined,
    );
  }

  /** Handles new events of a metadata stream, of any process. */
  onEvents(address: Address, events: readonly Recorded<MetadataEvent>[]): void {
    if (!this.#holding) return;
    for (const { event, time } of events) {
      if (event.type === "MetadataOutdated") this.#due(this.#work(address));
      // A replay of the stream also delivers old requests. Their readers are gone.
      if (event.type !== "MetadataRequested" || this.#options.clock.now() - time > MAX_WISH_AGE_MS) continue;
      const tokens = tokensOf(event.tokens);
      if (event.media) this.#options.media.want(address, tokens);
      else this.request(address, tokens);
    }
  }

  #due(work: CollectionWork): void {
    work.dueAt = 0;
    this.#nudge();
  }
}

const parseAddress = (stream: StreamName): Address => {
  const parsed = parseStream(stream);
  return parsed.kind === "chain" ? ("" as Address) : parsed.address;
};

/** The tokens of an event's columns. */
export function tokensOf(bytes: Uint8Array): Token[] {
  const { count, kinds, words, ids } = decodeTokens(bytes);
  const id = new Uint32Array(8);
  return Array.from({ length: count }, (_, i) => {
    loadId({ words, values: ids }, i, id);
    return { kind: kinds[i] as TransferKind, id: idToBigInt(id) };
  });
}
