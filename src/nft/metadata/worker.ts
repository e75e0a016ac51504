/**
 * The metadata worker of one chain. It runs in the process that holds the chain's metadata lease, visits a few due
 * collections at a time, and sleeps until the next one is due. A request, a change of a collection, an event of its
 * metadata stream, or the end of a visit wakes it. The remaining work follows from the log, so another process that
 * takes over the lease continues after the last recorded outcome.
 */

import { isHandedOver, type Lease, type Leases } from "../../chain/lease.ts";
import type { NodeWatch } from "../../chain/node-watch.ts";
import { backoffMs } from "../../core/clock.ts";
import { isAbort, messageOf } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { Lane, NO_KEY, type Requester, type Shares } from "../../core/work.ts";
import type { TokenRef } from "../../events/columns.ts";
import { type MetadataEvent, metadataStream, type Recorded, type StreamName } from "../../events/types.ts";
import { streamPages } from "../../log/event-log.ts";
import { fromHeadline } from "../collections/headline.ts";
import { requesterOf } from "../collections/requests.ts";
import { appendMetadata, tokensOf } from "./books.ts";
import { DueTokens } from "./due-tokens.ts";
import type { MediaWorker } from "./media-worker.ts";
import { Visit, type VisitContext } from "./visit.ts";

interface WorkerOptions extends Omit<VisitContext, "reading"> {
  readonly leases: Leases;
  readonly node: NodeWatch;
  readonly media: MediaWorker;
  /** Called when an operator has requested the metadata of a collection again. */
  readonly onRefresh: (address: Address) => void;
  /** First wait before a finished collection is sampled, in ms; it doubles up to a day. */
  readonly sampleMs: number;
}

/** Collections visited at once. The collections of one key on slow hosts leave places to those of other keys. */
const VISITS: Shares = { places: 9, perKey: 6, forOperators: 1 };
/** Longest visit while other collections wait: on a slow host a large collection takes days. */
const TURN_MS = 15_000;
const RETRY_BASE_MS = 2_000;
const RETRY_MAX_MS = 300_000;
const MAX_SAMPLE_MS = 86_400_000;
/** Longest sleep between two checks for due collections. */
const IDLE_MS = 60_000;
/** Interval of requests to a node that is down. */
const PROBE_MS = 1_000;
/** Longest wait for such a node. Pictures, and tokens whose URI is known, need no node. */
const MAX_DOWN_MS = 10_000;
/** Older requests in the log are ignored: their clients are gone. */
const MAX_REQUEST_AGE_MS = 60_000;

/** A collection in the worker's queue. */
interface CollectionWork {
  readonly address: Address;
  /** The key that requested the collection. */
  requester: Requester;
  readonly due: DueTokens;
  /** When to visit it, in ms since the epoch; infinite during a visit, unless a token became due. */
  dueAt: number;
  /** Consecutive failed visits. */
  failures: number;
  /** When to sample it, in ms since the epoch. */
  sampleAt: number;
  /** Wait before the sample after that, in ms. */
  sampleWait: number;
  /** True if outcomes were written since the last `MetadataSettled` event. */
  isUnsettled: boolean;
}

/** Collections that are due, and those that are visited. */
type Visits = Lane<CollectionWork>;

interface VisitTurn {
  readonly signal: AbortSignal;
  /** True while a due collection waits for a place. */
  readonly isCrowded: () => boolean;
}

export class MetadataWorker {
  readonly #options: WorkerOptions;
  readonly #works = new Map<Address, CollectionWork>();
  /** True if this process holds the chain's metadata lease. */
  holding = false;
  #wake: () => void = () => undefined;

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  get inFlight(): number {
    let count = 0;
    for (const work of this.#works.values()) count += work.due.requests.inFlight;
    return count;
  }

  /** Waits for the lease and works while it is held, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, leases, node, chainId, logger } = this.#options;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await leases.run(`metadata/${chainId}`, { signal }, (lease) => this.#serve(lease));
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (isHandedOver(error)) {
          logger.info({ chainId, reason: messageOf(error) }, "another process may fetch metadata");
          const waits = { probeMs: PROBE_MS, maxMs: MAX_DOWN_MS, maxDownMs: MAX_DOWN_MS };
          await node.holdOff({ signal, ...waits }).catch(() => undefined);
          continue;
        }
        failures++;
        logger.debug({ err: error, chainId, attempt: failures }, "metadata work was interrupted");
        await clock.sleep(backoffMs(clock, failures, RETRY_BASE_MS, RETRY_MAX_MS), signal).catch(() => undefined);
      }
    }
  }

  async #serve(lease: Lease): Promise<void> {
    const { media, clock } = this.#options;
    const done = new AbortController();
    const signal = AbortSignal.any([lease.signal, done.signal]);
    const pictures = media.run(signal);
    const visiting = new Set<Promise<void>>();
    const visits: Visits = new Lane({
      shares: VISITS,
      isStopping: () => signal.aborted,
      start: (work) => {
        const visit = this.#visit(work, lease, { signal, isCrowded: () => visits.isCrowded });
        visiting.add(visit);
        return visit.finally(() => visiting.delete(visit));
      },
      ended: () => this.#wake(),
    });
    try {
      await this.#load();
      this.holding = true;
      while (!signal.aborted) {
        const next = this.#startDue(visits);
        await this.#sleep(Math.max(10, next - clock.now()), signal);
      }
      lease.assertHeld();
    } finally {
      this.holding = false;
      done.abort(new DOMException("the metadata worker stops", "AbortError"));
      await Promise.all([...visiting, pictures]);
      this.#works.clear();
    }
  }

  /**
   * Loads the collections of the chain. Each may have work left, which its first visit finds out. A collection that is
   * settled and unchanged since stays in the log until it is due, so that a start doesn't replay all of them.
   */
  async #load(): Promise<void> {
    const { log, chainId } = this.#options;
    for await (const page of streamPages(log, `nft/${chainId}/`)) {
      const followed = page.filter(({ headline }) => headline?.["status"] === "following");
      const heads = await log.heads(followed.map(({ stream }) => metadataStream(chainId, parseAddress(stream))));
      const headOf = new Map(heads.map((head) => [parseAddress(head.stream), head]));
      for (const { stream, version, headline: byFollower } of followed) {
        const work = this.#work(parseAddress(stream), requesterOf(fromHeadline(byFollower)));
        const { headline, version: end } = headOf.get(work.address) ?? {};
        if (headline?.["at"] !== end || headline?.["collection"] !== version) continue;
        work.dueAt = Number(headline["dueAt"]);
        work.sampleAt = Number(headline["sampleAt"]);
        work.sampleWait = Number(headline["sampleWait"]);
      }
    }
  }

  #work(address: Address, requester?: Requester): CollectionWork {
    let work = this.#works.get(address);
    if (work === undefined) {
      const { clock, sampleMs } = this.#options;
      const sampleAt = clock.now() + sampleMs;
      const due = new DueTokens();
      const times = { dueAt: 0, failures: 0, sampleAt, sampleWait: 0, isUnsettled: false };
      work = { address, requester: NO_KEY, due, ...times };
      this.#works.set(address, work);
    }
    if (requester !== undefined) work.requester = requester;
    return work;
  }

  /** Gives due collections a turn. Returns the time when the next one is due. */
  #startDue(visits: Visits): number {
    const now = this.#options.clock.now();
    let next = now + IDLE_MS;
    for (const work of this.#works.values()) {
      if (visits.has(work)) continue;
      if (work.dueAt > now) next = Math.min(next, work.dueAt);
      else visits.add(work, work.requester);
    }
    return next;
  }

  async #visit(work: CollectionWork, lease: Lease, { signal, isCrowded }: VisitTurn): Promise<void> {
    const { clock, logger } = this.#options;
    const { address, due } = work;
    work.dueAt = Number.POSITIVE_INFINITY;
    const turnEnds = clock.monotonic() + TURN_MS;
    const isTurnOver = () => isCrowded() && clock.monotonic() >= turnEnds;
    const context = { ...this.#options, reading: this.#readingUnder(lease) };
    const visit = new Visit(context, { address, due, signal, isTurnOver });
    try {
      const isDone = await visit.run();
      work.isUnsettled ||= visit.written > 0;
      if (isDone) await this.#finish(work, visit);
      else {
        work.failures = 0;
        work.dueAt = 0;
      }
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      work.failures++;
      const wait = backoffMs(clock, work.failures, RETRY_BASE_MS, RETRY_MAX_MS);
      const level = work.failures > 1 ? "warn" : "debug";
      logger[level]({ err: error, address, retryInMs: wait }, "a visit for metadata failed");
      work.dueAt = clock.now() + wait;
    }
  }

  /** Runs reads from the node, and hands the lease over if the node fails them. */
  #readingUnder(lease: Lease): VisitContext["reading"] {
    const { node } = this.#options;
    return async (read) => {
      try {
        const answer = await node.whileAnswering(lease, read);
        node.succeeded();
        return answer;
      } catch (error) {
        node.failed(error, lease);
        throw error;
      }
    };
  }

  /** After a visit that has left no due token: takes the sample if it is due, and schedules the next visit. */
  async #finish(work: CollectionWork, visit: Visit): Promise<void> {
    const { clock, sampleMs } = this.#options;
    if (clock.now() >= work.sampleAt) {
      // If changes would not be fetched, there is no use in looking for them.
      const isOutdated = !work.due.isFull && (await visit.sample());
      work.sampleWait = isOutdated ? sampleMs : Math.min(MAX_SAMPLE_MS, Math.max(sampleMs, work.sampleWait * 2));
      work.sampleAt = clock.now() + work.sampleWait;
      work.isUnsettled = true;
    }
    work.failures = 0;
    work.dueAt = Math.min(work.dueAt, work.due.dueAt, work.sampleAt);
    if (work.isUnsettled && work.dueAt > clock.now()) await this.#settle(work);
  }

  /** Records the progress of the collection, for the next process that holds the lease. */
  async #settle(work: CollectionWork): Promise<void> {
    const { chainId } = this.#options;
    const { address, due, dueAt, sampleAt, sampleWait } = work;
    const collection = due.checkedVersion;
    if (collection < 0) return;
    work.isUnsettled = false;
    const event = { type: "MetadataSettled", collection, dueAt } as const;
    await appendMetadata(this.#options, { chainId, address }, [event], { collection, dueAt, sampleAt, sampleWait });
  }

  /** Sleeps for `ms` ms, until a wake-up or an abort. */
  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = () => resolve();
    const cancel = this.#options.clock.after(ms, wake);
    this.#wake = wake;
    signal.addEventListener("abort", wake, { once: true });
    if (signal.aborted) wake();
    await promise;
    cancel();
    signal.removeEventListener("abort", wake);
  }

  /** Queues tokens that a client read. Call it only while this process holds the lease. */
  request(address: Address, tokens: readonly TokenRef[]): void {
    if (tokens.length === 0) return;
    const work = this.#work(address);
    work.due.requests.add(tokens);
    this.#makeDue(work);
  }

  /**
   * Handles growth of a stream: a collection may have new tokens, a metadata stream new requests or outdated ranges.
   * @param appended the new events, if this process appended them
   */
  onWakeUp(stream: StreamName, appended?: readonly Recorded[]): void {
    const { chainId, log, books, logger } = this.#options;
    if (!this.holding) return;
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
      this.#makeDue(known);
      return;
    }
    // Most events of an unknown collection are ranges of its history.
    if (appended?.every(({ event }) => event.type !== "IndexingCompleted")) return;
    log.head(stream).then(
      ({ headline }) => {
        if (headline?.["status"] !== "following" || !this.holding) return;
        this.#work(parseAddress(stream), requesterOf(fromHeadline(headline)));
        this.#wake();
      },
      // Ignore the error: the next wake-up finds the collection.
      () => undefined,
    );
  }

  /** Handles new events of a metadata stream, of any process. */
  onEvents(address: Address, events: readonly Recorded<MetadataEvent>[]): void {
    if (!this.holding) return;
    for (const { event, time } of events) {
      if (event.type === "MetadataOutdated") this.#makeDue(this.#work(address));
      // A replay of the stream also delivers old requests. Their readers are gone.
      if (this.#options.clock.now() - time > MAX_REQUEST_AGE_MS) continue;
      if (event.type === "MetadataOutdated" && event.cause === "requested") this.#options.onRefresh(address);
      if (event.type !== "MetadataRequested") continue;
      const tokens = tokensOf(event.tokens);
      if (event.media) this.#options.media.request(address, tokens);
      else this.request(address, tokens);
    }
  }

  #makeDue(work: CollectionWork): void {
    work.dueAt = 0;
    this.#wake();
  }
}

/** The address in the name of a stream of a collection or of its metadata. */
const parseAddress = (stream: StreamName): Address => stream.split("/")[2] as Address;
