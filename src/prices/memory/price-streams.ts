/**
 * Reads and writes the price streams. Appends are queued per stream with the expected version. On a `ConcurrencyError`
 * the journal reads the other process's events, drops its own ones that are known by then, and retries. An append is
 * durable when it resolves. Passes all events it reads to `onRead`, so that memory learns those of other processes.
 */
import type { Address } from "../../core/hex.ts";
import { chainStream, type PriceEvent, type PriceObserved, parseStream, type StreamName } from "../../events/types.ts";
import { allStreams, appendWithRetry, type EventLog, type StreamHead } from "../../log/event-log.ts";
import {
  afterGap,
  type Coverage,
  coverageOf,
  evolvePrice,
  headlineOf,
  initialPriceState,
  latest,
  type PriceState,
  sameCoverage,
  UNCOVERED,
} from "./projection.ts";

/** Consecutive conflicts before giving up. Each one means that another process made progress. */
const MAX_CONFLICTS = 16;
/**
 * Events read at each end of a stream when it is opened: facts are at the beginning, states at the end. The reference
 * stream begins with its pools: at most 110 pairs at eight venues each, of which most do not exist.
 */
const EDGE = 1_024;
/** An unchanged state is recorded again after this many seconds, to show that clients still ask for the price. */
const STILL_ASKED_SECONDS = 600;

interface Tail {
  version: number;
  state: PriceState;
  coverage: Coverage;
}

export interface AppendOptions {
  /** True for the follower's events: all are kept except exact repetitions. */
  readonly followed?: boolean;
  /** Replaces the stream's coverage. `block` dates the event that carries the headline if there is no other event. */
  readonly coverage?: Coverage;
  readonly block?: number;
  /** Version of the chain's stream that the follower is at. The log refuses a follower that was paused meanwhile. */
  readonly chainVersion?: number;
}

export class Journal {
  readonly #log: EventLog;
  readonly #onRead: (stream: StreamName, events: readonly PriceEvent[]) => void;
  readonly #tails = new Map<StreamName, Tail>();
  readonly #queues = new Map<StreamName, Promise<unknown>>();

  constructor(log: EventLog, onRead: (stream: StreamName, events: readonly PriceEvent[]) => void) {
    this.#log = log;
    this.#onRead = onRead;
  }

  /** Returns the stream's state. Reads it from the log the first time and keeps it until `close`. */
  async open(stream: StreamName): Promise<PriceState> {
    return (await this.#queued(stream, () => this.#tail(stream))).state;
  }

  // A stream as last read or written here: its state, its coverage, and its version, which is 0 without any event.

  state(stream: StreamName): PriceState {
    return this.#tails.get(stream)?.state ?? initialPriceState;
  }

  coverage(stream: StreamName): Coverage {
    return this.#tails.get(stream)?.coverage ?? UNCOVERED;
  }

  version(stream: StreamName): number {
    return this.#tails.get(stream)?.version ?? 0;
  }

  /** Appends the events that are news to the stream. Resolves once durable. */
  append(stream: StreamName, events: readonly PriceEvent[], options: AppendOptions = {}): Promise<void> {
    const { chainVersion } = options;
    return this.#queued(stream, async () => {
      let after: Omit<Tail, "version"> | undefined;
      const version = await appendWithRetry(this.#log, MAX_CONFLICTS, async (attempt) => {
        const known = await this.#tail(stream);
        const tail = attempt === 1 ? known : await this.#catchUp(stream, known);
        const prepared = prepare(tail, events, options);
        after = prepared.after;
        if (prepared.fresh.length === 0) return undefined;
        const headline = prepared.isCovered ? {} : { headline: headlineOf(prepared.after.coverage) };
        const chain = chainStream(parseStream(stream).chainId);
        const guard = chainVersion === undefined ? {} : { guard: { stream: chain, version: chainVersion } };
        return { stream, events: prepared.fresh, expectedVersion: tail.version, ...headline, ...guard };
      });
      if (version !== undefined && after !== undefined) this.#tails.set(stream, { version, ...after });
    });
  }

  /** Reads events and coverage that other processes appended to the open streams. */
  async refresh(streams: readonly StreamName[]): Promise<void> {
    const heads = await this.#log.heads(streams.filter((stream) => this.#tails.has(stream)));
    const grown = heads.filter(({ stream, version }) => version > this.version(stream));
    await Promise.all(
      grown.map((head) =>
        this.#queued(head.stream, async () => {
          const tail = this.#tails.get(head.stream);
          if (tail !== undefined && tail.version < head.version) await this.#catchUp(head.stream, tail);
        }),
      ),
    );
  }

  /** Returns the tokens that a session follows, by their streams' headlines, in order of address. */
  async followedBy(chainId: number, session: string, limit: number): Promise<Address[]> {
    const prefix = `price/${chainId}/`;
    const found: Address[] = [];
    for await (const { stream, headline } of allStreams(this.#log, prefix)) {
      if (found.length === limit) break;
      const { session: own, from } = coverageOf(headline);
      if (own === session && from !== undefined) found.push(stream.slice(prefix.length) as Address);
    }
    return found;
  }

  /** Forgets a stream. The next use reads it again. */
  close(stream: StreamName): void {
    this.#tails.delete(stream);
  }

  #queued<T>(stream: StreamName, work: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(stream) ?? Promise.resolve();
    const result = before.then(work, work);
    const settled: Promise<unknown> = result
      .catch(() => undefined)
      .then(() => {
        if (this.#queues.get(stream) === settled) this.#queues.delete(stream);
      });
    this.#queues.set(stream, settled);
    return result;
  }

  async #tail(stream: StreamName): Promise<Tail> {
    const kept = this.#tails.get(stream);
    if (kept !== undefined) return kept;
    const first = await this.#log.read(stream, { limit: EDGE });
    const events = first.map((recorded) => recorded.event as PriceEvent);
    let version = first.at(-1)?.version ?? 0;
    let state = events.reduce(evolvePrice, initialPriceState);
    if (first.length === EDGE) {
      const last = (await this.#log.readBackwards(stream, { limit: EDGE })).reverse();
      if (last[0]!.version > version + 1) state = afterGap(state);
      const later = last.filter((recorded) => recorded.version > version).map(({ event }) => event as PriceEvent);
      state = later.reduce(evolvePrice, state);
      events.push(...later);
      version = last.at(-1)!.version;
    }
    return this.#catchUp(stream, { version, state, coverage: UNCOVERED }, events);
  }

  /** Reads to the end of the stream. Takes the headline only there: a later one refers to events not read yet. */
  async #catchUp(stream: StreamName, tail: Tail, before: readonly PriceEvent[] = []): Promise<Tail> {
    const missed: PriceEvent[] = [];
    let { version } = tail;
    let head: StreamHead;
    do {
      const page = await this.#log.read(stream, { from: version + 1 });
      missed.push(...page.map((recorded) => recorded.event as PriceEvent));
      version = page.at(-1)?.version ?? version;
      head = await this.#log.head(stream);
    } while (head.version > version);
    const read = { version, state: missed.reduce(evolvePrice, tail.state), coverage: coverageOf(head.headline) };
    this.#tails.set(stream, read);
    if (before.length + missed.length > 0) this.#onRead(stream, [...before, ...missed]);
    return read;
  }
}

/** The events of an append that are news to the stream, and the tail after them. */
function prepare(tail: Tail, events: readonly PriceEvent[], options: AppendOptions) {
  const fresh: PriceEvent[] = [];
  let { state } = tail;
  const isNews = options.followed ? isUnsaid : isWorthSaying;
  for (const event of events) {
    if (!isNews(state, event)) continue;
    fresh.push(event);
    state = evolvePrice(state, event);
  }
  const coverage = options.coverage ?? tail.coverage;
  const isCovered = sameCoverage(coverage, tail.coverage);
  // A headline is stored with events only. The token's facts are appended again to carry it.
  if (!isCovered && fresh.length === 0 && state.token !== undefined) {
    fresh.push({ ...state.token, block: options.block ?? state.token.block });
    state = evolvePrice(state, fresh[0]!);
  }
  return { fresh, isCovered, after: { state, coverage } };
}

/** True if the stream does not have this event for this very block yet. */
function isUnsaid(state: PriceState, event: PriceEvent): boolean {
  if (event.type !== "PriceObserved") return isWorthSaying(state, event);
  const said = latest(state, event.pool, event.block);
  if (said === undefined || said.block !== event.block || said.blockHash !== event.blockHash) return true;
  return says(event, said);
}

/** True if the state differs from the recorded one, or if it has a balance that the recorded one lacks. */
function says(event: PriceObserved, said: PriceObserved): boolean {
  const isFuller = (now?: string, before?: string): boolean => now !== undefined && before === undefined;
  if (isFuller(event.balance0, said.balance0) || isFuller(event.balance1, said.balance1)) return true;
  return JSON.stringify(said.state) !== JSON.stringify(event.state);
}

function isWorthSaying(state: PriceState, event: PriceEvent): boolean {
  switch (event.type) {
    case "TokenIdentified": {
      const { token } = state;
      return token?.name !== event.name || token.symbol !== event.symbol || token.decimals !== event.decimals;
    }
    case "PoolDiscovered": {
      const known = state.pools.get(event.pool)?.discovered;
      return known === undefined || known.stableCurve !== event.stableCurve;
    }
    case "PriceObserved": {
      const last = latest(state, event.pool, event.block);
      if (last === undefined || event.timestamp - last.timestamp >= STILL_ASKED_SECONDS) return true;
      return says(event, last);
    }
    case "BlocksReverted":
      return [...state.pools.values()].some(
        ({ observations }) => (observations.at(-1)?.block ?? -1) > event.ancestor.number,
      );
    default:
      return event satisfies never;
  }
}
