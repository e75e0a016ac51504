/**
 * The one writer of price streams in this process: appends are queued per stream, know the version they follow, and on
 * a `ConcurrencyError` read what somebody else wrote and drop what that already says. Durable when resolved.
 */
import { ConcurrencyError, invariant } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { type PriceEvent, parseStream, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import { evolve, initialState, latest, type PriceState } from "./projection.ts";

/** Appends refused one after another before giving up: each means that somebody else got further. */
const MAX_CONFLICTS = 16;
/** Events read at either end of a stream when it is opened: facts stand at the beginning, states at the end. */
const EDGE = 512;

interface Tail {
  version: number;
  state: PriceState;
}

export class Journal {
  readonly #log: EventLog;
  readonly #tails = new Map<StreamName, Tail>();
  readonly #queues = new Map<StreamName, Promise<unknown>>();

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** What the stream says; read from the log the first time, kept until `close`. */
  async open(stream: StreamName): Promise<PriceState> {
    return (await this.#queued(stream, () => this.#tail(stream))).state;
  }

  /**
   * Appends what the stream does not say yet; resolves once durable, with the events that were appended.
   * `news` sees the stream's state and may drop or keep events; by default what `isNews` says.
   */
  append(stream: StreamName, events: readonly PriceEvent[]): Promise<void> {
    return this.#queued(stream, async () => {
      for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
        const tail = await this.#tail(stream);
        const fresh: PriceEvent[] = [];
        let state = tail.state;
        for (const event of events) {
          if (!isNews(state, event)) continue;
          fresh.push(event);
          state = evolve(state, event);
        }
        if (fresh.length === 0) return;
        try {
          const version = await this.#log.append({ stream, events: fresh, expectedVersion: tail.version });
          this.#tails.set(stream, { version, state });
          return;
        } catch (error) {
          if (!(error instanceof ConcurrencyError)) throw error;
          await this.#catchUp(stream, tail);
        }
      }
      invariant(false, "a price stream was never at the version it was read at", { stream });
    });
  }

  /** Tokens of a chain that have a stream, in order of address. */
  async tokens(chainId: number, limit: number): Promise<Address[]> {
    const heads = await this.#log.streams(`price/${chainId}/`, { limit });
    return heads.flatMap(({ stream }) => {
      const parsed = parseStream(stream);
      return parsed.kind === "price" ? [parsed.address] : [];
    });
  }

  /** Forgets a stream; the next use reads it anew. */
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
    let version = first.at(-1)?.version ?? 0;
    const events = first.map((recorded) => recorded.event);
    if (first.length === EDGE) {
      // The middle may be skipped: a fact in it would only be written again, a state in it is not the newest.
      const last = (await this.#log.readBackwards(stream, { limit: EDGE })).reverse();
      events.push(...last.filter((recorded) => recorded.version > version).map((recorded) => recorded.event));
      version = last.at(-1)?.version ?? version;
    }
    const tail = { version, state: events.reduce<PriceState>(fold, initialState) };
    this.#tails.set(stream, tail);
    return tail;
  }

  async #catchUp(stream: StreamName, tail: Tail): Promise<void> {
    let { version, state } = tail;
    for (;;) {
      const missed = await this.#log.read(stream, { from: version + 1 });
      if (missed.length === 0) break;
      state = missed.map((recorded) => recorded.event).reduce<PriceState>(fold, state);
      version = missed.at(-1)!.version;
    }
    this.#tails.set(stream, { version, state });
  }
}

const fold = (state: PriceState, event: { readonly type: string }): PriceState => evolve(state, event as PriceEvent);

/** Whether a stream in this state does not say this yet. */
function isNews(state: PriceState, event: PriceEvent): boolean {
  switch (event.type) {
    case "TokenIdentified": {
      const { token } = state;
      return token?.name !== event.name || token.symbol !== event.symbol || token.decimals !== event.decimals;
    }
    case "PoolDiscovered":
      return !state.pools.has(event.pool);
    case "PriceObserved": {
      const last = latest(state, event.pool);
      if (last === undefined) return true;
      if (event.block < last.block) return false;
      return JSON.stringify(last.state) !== JSON.stringify(event.state);
    }
    case "BlocksReverted":
      return [...state.pools.values()].some(
        ({ observations }) => (observations.at(-1)?.block ?? -1) > event.ancestor.number,
      );
    default:
      return event satisfies never;
  }
}
