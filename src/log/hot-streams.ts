/**
 * The cache of projections in memory, for one kind of stream: hydrated from the log on first use, kept current by the
 * log's wake-ups, evicted by bytes. Callers get the state as it is; no call waits for a node. A state may be folded
 * further at any await.
 */
import { LRUCache } from "lru-cache";
import { Budget } from "../core/budget.ts";
import { isAbort } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { Semaphore } from "../core/semaphore.ts";
import { yieldToEventLoop } from "../core/turns.ts";
import { SingleFlight } from "../core/work.ts";
import { attachmentOf } from "../events/codec.ts";
import type { DomainEvent, Recorded, StreamName } from "../events/types.ts";
import type { EventLog } from "./event-log.ts";

/** How one kind of stream becomes a state. `version` of a state is that of the last event folded into it. */
interface Projection<S extends { readonly version: number }, E extends DomainEvent> {
  /** Returns the state before the first event, or a later one from a snapshot. */
  load(stream: StreamName): S | Promise<S>;
  /** Folds one event in place. Yields after about `slice` units of work. */
  evolve(stream: StreamName, state: S, recorded: Recorded<E>, slice: number): Iterable<void>;
  /** Units of work of an event: transfers, or 1. */
  weight(event: E): number;
  /** Bytes of a state in memory. */
  bytes(state: S): number;
  /** Number of first events of a page that may be folded now. All by default. The rest waits for `resume`. */
  readonly foldable?: (stream: StreamName, page: readonly Recorded<E>[]) => number;
  /** Called once after hydration, to release slack. */
  trim?(state: S): void;
}

interface HotStreamsOptions<S extends { readonly version: number }, E extends DomainEvent> {
  readonly log: EventLog;
  readonly logger: Logger;
  /** The first part of the streams' names. */
  readonly kind: "nft" | "metadata" | "priced";
  readonly projection: Projection<S, E>;
  /** Bytes of all states in memory together. */
  readonly maxBytes: number;
  /** True if the state of a stream without events is cached, too. Without it, made-up names can't fill the cache. */
  readonly keepsEmpty: boolean;
  /** Called after each folded event. */
  readonly onEvent?: (stream: StreamName, state: S, recorded: Recorded<E>) => void;
  /** Called after each folded page of events. */
  readonly onPage?: (stream: StreamName, state: S, page: readonly Recorded<E>[]) => void;
  /** Called with each read of a state. @param isHit false if it is not in memory and has to be hydrated */
  readonly onRead?: (isHit: boolean) => void;
  /** Called after a hydration or a catch-up. */
  readonly onCaughtUp?: (stream: StreamName, state: S) => void;
}

interface Hot<S, E extends DomainEvent> {
  readonly stream: StreamName;
  readonly state: S;
  readonly appended: AppendedEvents<E>;
  readonly catchUp: CatchUp;
}

/** Concurrent hydrations. The cache doesn't count their memory yet, and each one slows down the rest. */
const MAX_HYDRATIONS = 16;
/** Bytes per read of the log. */
const READ_BYTES = 256 * 1024;
/** Units of work per slice when following, before requests get their turn: 0.1 ms of the request thread. */
const SLICE = 500;
/** The same for a hydration, which a request waits for: 1 ms. */
const HYDRATION_SLICE = 5_000;
/**
 * Reads of the log for the next page that may be folded. The event that allows the fold of an earlier one stands right behind
 * it, perhaps in the next page. All the rest of a stream may be gigabytes, if the chain is far behind.
 */
const MOST_READS = 2;
/** Most bytes of buffered events. A fold that falls behind by more reads the log. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024;

export class HotStreams<S extends { readonly version: number }, E extends DomainEvent> {
  readonly #options: HotStreamsOptions<S, E>;
  readonly #hot: LRUCache<StreamName, Hot<S, E>>;
  readonly #hydrating = new SingleFlight<StreamName, Hot<S, E>>();
  readonly #slots = new Semaphore(MAX_HYDRATIONS);
  /** The running catch-ups. */
  readonly #passes = new Set<Promise<void>>();
  /** Streams that grew while they are being hydrated. */
  readonly #grown = new Set<StreamName>();
  /** Newest versions of streams in memory that have events which may not be folded yet. */
  readonly #waiting = new Map<StreamName, number>();
  readonly #pinned = new Map<StreamName, number>();
  readonly #unsubscribe: () => void;

  constructor(options: HotStreamsOptions<S, E>) {
    this.#options = options;
    const { log, maxBytes, projection } = options;
    // Cap the size at the cache's: the cache would refuse a larger one, and each request would fold it again.
    const sizeCalculation = ({ state }: Hot<S, E>) => Math.min(maxBytes, Math.max(1, projection.bytes(state)));
    this.#hot = new LRUCache({ maxSize: maxBytes, sizeCalculation });
    this.#unsubscribe = log.subscribe((stream, version, appended) => this.#onWakeUp(stream, version, appended));
  }

  /** Bytes of all states in memory. */
  get bytes(): number {
    return this.#hot.calculatedSize;
  }

  get size(): number {
    return this.#hot.size;
  }

  /** The names of the streams in memory that start with `prefix`. */
  names(prefix: string): StreamName[] {
    return [...this.#hot.keys()].filter((stream) => stream.startsWith(prefix));
  }

  *states(): Generator<S> {
    for (const { state } of this.#hot.values()) yield state;
  }

  /** The state as current as the last wake-up; version 0 for a stream without events. */
  async get(stream: StreamName): Promise<S> {
    const hot = this.#hot.get(stream);
    this.#options.onRead?.(hot !== undefined);
    return (hot ?? (await this.#hydrate(stream))).state;
  }

  /** Like `get`, but reads the log's head first: another process may have appended events without a wake-up yet. */
  async newest(stream: StreamName): Promise<S> {
    const { version } = await this.#options.log.head(stream);
    const state = await this.get(stream);
    await this.#catchUpTo(stream, version);
    return this.#hot.peek(stream)?.state ?? state;
  }

  /** The state as the log has it now. One that is not in memory is folded apart: neither kept nor counted, nor told of. */
  async apart(stream: StreamName): Promise<S> {
    if (this.#hot.has(stream)) return this.newest(stream);
    const { projection } = this.#options;
    const state = await projection.load(stream);
    const appended = new AppendedEvents<E>();
    while ((await this.#readOn({ stream, state, appended, isApart: true }, SLICE)) > 0);
    return state;
  }

  /** The state if it is in memory. */
  peek(stream: StreamName): S | undefined {
    return this.#hot.get(stream)?.state;
  }

  /** True if wake-ups keep the stream current. */
  isFollowed(stream: StreamName): boolean {
    return this.#hot.has(stream) || this.#pinned.has(stream);
  }

  /** Keeps the stream followed, even after an eviction. Returns the function that releases it. */
  pin(stream: StreamName): () => void {
    this.#pinned.set(stream, (this.#pinned.get(stream) ?? 0) + 1);
    return () => {
      const left = (this.#pinned.get(stream) ?? 1) - 1;
      if (left === 0) this.#pinned.delete(stream);
      else this.#pinned.set(stream, left);
    };
  }

  /**
   * Resolves once every state in memory of the streams that start with `prefix` has folded what the log has now, as far as
   * it may. It doesn't wait for hydrations, but they also do so before they resolve.
   */
  async settle(prefix: string): Promise<void> {
    const hydrating = this.#hydrating.keys().filter((stream) => stream.startsWith(prefix));
    const streams = [...this.names(prefix), ...hydrating];
    if (streams.length === 0) return;
    const heads = await this.#options.log.heads(streams);
    await Promise.all(heads.map(({ stream, version }) => this.#catchUpTo(stream, version)));
  }

  /** Folds what has waited, and may be folded by now, in streams that start with `prefix`. */
  async resume(prefix: string): Promise<void> {
    const waiting = [...this.#waiting].filter(([stream]) => stream.startsWith(prefix));
    for (const [stream] of waiting) this.#waiting.delete(stream);
    await Promise.all(waiting.map(([stream, version]) => this.#catchUpTo(stream, version)));
  }

  /** Resolves once the catch-ups that are running now have ended. A failed one drops its state, so it leaves nothing behind. */
  async caughtUp(): Promise<void> {
    await Promise.allSettled(this.#passes);
  }

  /** The running catch-up of a stream, if there is one. */
  catchUpOf(stream: StreamName): Promise<void> | undefined {
    return this.#hot.peek(stream)?.catchUp.running;
  }

  /** Updates the size of a state in the cache, after readers added indexes to it. */
  updateSize(stream: StreamName): void {
    const hot = this.#hot.peek(stream);
    if (hot === undefined) return;
    // The cache keeps the old size if the same value is set again, so delete it first.
    this.#hot.delete(stream);
    this.#hot.set(stream, hot);
  }

  /** Stops following the log, and drops all states. */
  close(): void {
    this.#unsubscribe();
    this.#hot.clear();
  }

  #catchUpTo(stream: StreamName, version: number): Promise<void> | undefined {
    const hot = this.#hot.peek(stream);
    if (hot === undefined) {
      if (this.#hydrating.has(stream)) this.#grown.add(stream);
      return undefined;
    }
    return hot.state.version < version ? hot.catchUp.to(version) : undefined;
  }

  #onWakeUp(stream: StreamName, version: number, appended: readonly Recorded[] | undefined): void {
    if (!stream.startsWith(`${this.#options.kind}/`)) return;
    const hot = this.#hot.peek(stream);
    if (hot !== undefined) {
      if (hot.state.version >= version) return;
      if (appended !== undefined) hot.appended.add(appended as readonly Recorded<E>[]);
      this.#background(hot.catchUp.to(version), stream);
    } else if (this.#hydrating.has(stream)) {
      this.#grown.add(stream);
    } else if (this.#pinned.has(stream)) {
      this.#background(this.#hydrate(stream), stream);
    }
  }

  #background(work: Promise<unknown>, stream: StreamName): void {
    work.catch((error: unknown) => {
      if (!isAbort(error)) this.#options.logger.error({ err: error, stream }, "failed to fold new events of a stream");
    });
  }

  #hydrate(stream: StreamName): Promise<Hot<S, E>> {
    const load = () => this.#slots.run(() => this.#load(stream));
    return this.#hydrating.run(stream, () => load().finally(() => this.#grown.delete(stream)));
  }

  async #load(stream: StreamName): Promise<Hot<S, E>> {
    const { projection, keepsEmpty, onCaughtUp } = this.#options;
    // Many hydrations may start at once, and the first slice of each takes up to a millisecond.
    if (this.#hydrating.keys().length > 0) await yieldToEventLoop();
    const state = await projection.load(stream);
    const appended = new AppendedEvents<E>();
    const catchUp = new CatchUp(state, (target) => {
      const pass = this.#run(hot, target).finally(() => this.#passes.delete(pass));
      this.#passes.add(pass);
      return pass;
    });
    const hot: Hot<S, E> = { stream, state, appended, catchUp };
    // Wake-ups don't reach it before it is in the cache, so read on as long as the stream grows.
    do {
      this.#grown.delete(stream);
      while ((await this.#readOn(hot, HYDRATION_SLICE)) > 0);
    } while (this.#grown.has(stream));
    projection.trim?.(state);
    if (state.version > 0 || keepsEmpty) this.#hot.set(stream, hot);
    onCaughtUp?.(stream, state);
    return hot;
  }

  /**
   * Folds the part of one page of the log that may be folded, in slices. Returns its number of events.
   * @param to version up to which the log is known to have events; by default whatever it has
   */
  async #readOn(
    hot: Pick<Hot<S, E>, "stream" | "state" | "appended"> & { readonly isApart?: true },
    slice: number,
    to = Number.POSITIVE_INFINITY,
  ): Promise<number> {
    const { projection, ...options } = this.#options;
    const { onEvent, onPage } = hot.isApart === true ? {} : options;
    const { stream, state } = hot;
    const page = await this.#foldablePage(hot, to);
    if (page.length === 0) return 0;
    let work = 0;
    for (const recorded of page) {
      for (const _ of projection.evolve(stream, state, recorded, slice)) await yieldToEventLoop();
      onEvent?.(stream, state, recorded);
      work += projection.weight(recorded.event);
      if (work >= slice) {
        work = 0;
        await yieldToEventLoop();
      }
    }
    onPage?.(stream, state, page);
    await yieldToEventLoop();
    return page.length;
  }

  /**
   * The next events that may be folded: from memory, or else from the log. A later event may allow the fold of earlier ones.
   * @param to version up to which the log is known to have events
   */
  async #foldablePage(
    { stream, state, appended }: Pick<Hot<S, E>, "stream" | "state" | "appended">,
    to: number,
  ): Promise<readonly Recorded<E>[]> {
    const { log, projection } = this.#options;
    const options = { maxBytes: READ_BYTES, isReadingOn: to === Number.POSITIVE_INFINITY };
    const taken = appended.take(state.version + 1, READ_BYTES);
    let page: readonly Recorded<E>[] = taken;
    for (let reads = 0; ; reads++) {
      const count = projection.foldable?.(stream, page) ?? page.length;
      if (count > 0) {
        appended.putBack(taken.slice(count));
        return page.slice(0, count);
      }
      if (reads === MOST_READS) break;
      const last = page.at(-1)?.version ?? state.version;
      const next = last < to ? await log.read(stream, { ...options, from: last + 1 }) : [];
      if (next.length === 0) break;
      page = [...page, ...(next as Recorded<E>[])];
    }
    const waiting = page.at(-1)?.version;
    if (waiting !== undefined) this.#waiting.set(stream, waiting);
    appended.putBack(taken);
    return [];
  }

  async #run(hot: Hot<S, E>, target: () => number): Promise<void> {
    const { stream, state } = hot;
    // One block may move many streams, and folding all of them is too much for one turn of the event loop.
    if (this.#passes.size > 0) await yieldToEventLoop();
    try {
      while (state.version < target() && (await this.#readOn(hot, SLICE, target())) > 0);
    } catch (error) {
      // The state may be half folded. Drop it; the next request hydrates it again.
      this.#hot.delete(stream);
      throw error;
    }
    hot.appended.drop(state.version);
    if (this.#hot.peek(stream) === hot) this.updateSize(stream);
    this.#options.onCaughtUp?.(stream, state);
  }
}

const attachedBytes = (event: DomainEvent): number => attachmentOf(event)?.length ?? 0;

/**
 * Buffers events that this process appended to a stream in memory, until they are folded. Without it, the fold would
 * read them back from the log: a millisecond of the request thread for ten thousand transfers, or a round trip.
 */
class AppendedEvents<E extends DomainEvent> {
  /** Consecutive versions. */
  #events: Recorded<E>[] = [];
  #bytes = 0;

  /** Adds events that are durable in the log. */
  add(events: readonly Recorded<E>[]): void {
    const last = this.#events.at(-1)?.version;
    if (last !== undefined && events[0]?.version !== last + 1) this.#clear();
    for (const recorded of events) {
      this.#events.push(recorded);
      this.#bytes += attachedBytes(recorded.event);
    }
    if (this.#bytes > MAX_BUFFERED_BYTES) this.#clear();
  }

  /**
   * Removes and returns the events from `version` on, up to and including the one that reaches `maxBytes`. Returns none
   * if that version is not buffered.
   */
  take(version: number, maxBytes: number): Recorded<E>[] {
    this.drop(version - 1);
    if (this.#events[0]?.version !== version) return [];
    let [to, bytes] = [0, 0];
    for (const { event } of this.#events) {
      if (bytes >= maxBytes) break;
      bytes += attachedBytes(event);
      to++;
    }
    this.#bytes -= bytes;
    return this.#events.splice(0, to);
  }

  /** Takes back events that were taken and not folded. Later ones may have been added meanwhile. */
  putBack(events: readonly Recorded<E>[]): void {
    const later = this.#events;
    this.#clear();
    this.add(events);
    this.add(later.filter(({ version }) => version > (events.at(-1)?.version ?? 0)));
  }

  /** Drops the events up to `version`, which are folded. */
  drop(version: number): void {
    const after = this.#events.findIndex((recorded) => recorded.version > version);
    if (after < 0) this.#clear();
    else for (const { event } of this.#events.splice(0, after)) this.#bytes -= attachedBytes(event);
  }

  #clear(): void {
    this.#events = [];
    this.#bytes = 0;
  }
}

/** Brings a state to a version of its stream. Runs at most one pass at a time. */
export class CatchUp {
  readonly #state: { readonly version: number };
  readonly #run: (target: () => number) => Promise<void>;
  /** The running pass. */
  running: Promise<void> | undefined;
  #target = 0;
  #hasFailed = false;

  /** @param run folds until the state is at `target()`, which may grow meanwhile, or at the end of the stream */
  constructor(state: { readonly version: number }, run: (target: () => number) => Promise<void>) {
    this.#state = state;
    this.#run = run;
  }

  async #pass(): Promise<void> {
    this.#hasFailed = true;
    try {
      await this.#run(() => this.#target);
      this.#hasFailed = false;
    } finally {
      this.running = undefined;
    }
  }

  /** Waits for the running pass, and repeats one that has failed. Rejects if it fails again. */
  async settle(): Promise<void> {
    await this.running?.catch(() => undefined);
    if (this.#hasFailed) await this.to(this.#target);
  }

  /** Resolves once the state is at `version`, or at the end of the stream. */
  async to(version: number): Promise<void> {
    this.#target = Math.max(this.#target, version);
    while (this.#state.version < version) {
      // The running pass may have read its last page already. Then another pass follows.
      if (this.running !== undefined) await this.running;
      else {
        const before = this.#state.version;
        // Several questions wait for this pass, so the answer to the one that begins it must not end it.
        this.running = Budget.outside(() => this.#pass());
        await this.running;
        if (this.#state.version === before) return;
      }
    }
  }
}
