/**
 * The fold of a chain's stream, and the clock of the chain: the version and the head that readers of this process see. A
 * move first brings collections and prices to the new head, then shows it, and then tells its listeners.
 *
 * Invariant: each collection in memory has the logs of all blocks up to the shown head, and depends on no reorganisation
 * that is not shown.
 */
import { secondsIn } from "../core/block-time.ts";
import { InvariantError, invariant } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import {
  type BlockRef,
  type ChainEvent,
  chainStream,
  type HeaderRef,
  type Recorded,
  type RevertedRange,
  type StreamName,
} from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { CatchUp } from "../log/hot-streams.ts";
import type { ChainView, FollowedChain } from "./consumer.ts";
import { HEADER_BOUNDS, type HeaderBounds, keepRevert, thinnedOut } from "./kept-headers.ts";

/** Most checksums of the stream's newest events that are kept. Older ones are read from the log. */
const MAX_CHECKSUMS = 4_096;
/** Most orphaned blocks that are kept. A cursor on an older one has long been answered. */
const MAX_ORPHANED = 4_096;

export interface ChainState {
  readonly bounds: HeaderBounds;
  version: number;
  head: HeaderRef | undefined;
  finalized: BlockRef | undefined;
  /** Headers of the final block, the head, and the blocks between that were read and are kept, by number. */
  readonly headers: Map<number, HeaderRef>;
  /** Orphaned block hashes with their numbers, oldest first. */
  readonly orphaned: Map<Hash, number>;
  /** Reorganisations, oldest first. Each goes less deep than the later ones, or it is left out. */
  reverts: readonly RevertedRange[];
  /** The final block that the node's chain lacks. Undefined in normal operation. */
  halted: BlockRef | undefined;
  /** The holder that follows, if an event since the last checkpoint says so. */
  follower: string | undefined;
  /** Events since the last checkpoint. */
  sinceCheckpoint: number;
}

export function initialChainState(bounds = HEADER_BOUNDS): ChainState {
  return {
    bounds,
    version: 0,
    head: undefined,
    finalized: undefined,
    headers: new Map(),
    orphaned: new Map(),
    reverts: [],
    halted: undefined,
    follower: undefined,
    sinceCheckpoint: 0,
  };
}

function orphan(state: ChainState, blocks: readonly BlockRef[]): void {
  for (const { hash, number } of blocks) state.orphaned.set(hash, number);
  for (const hash of state.orphaned.keys()) {
    if (state.orphaned.size <= MAX_ORPHANED) break;
    state.orphaned.delete(hash);
  }
}

/** True if the next event with headers thins out those that are held. */
export const isFull = ({ headers, bounds }: ChainState): boolean => headers.size > bounds.most;

/** Bounds the headers by what the events say alone, so that each process keeps the same ones. */
function bound(state: ChainState): void {
  if (!isFull(state)) return;
  const { headers, bounds } = state;
  const kept = new Set(thinnedOut([...headers.values()], bounds).map(({ number }) => number));
  for (const number of headers.keys()) if (!kept.has(number)) headers.delete(number);
}

/** @param before the header below the first one, if it is known */
function assertLinked(headers: readonly HeaderRef[], before: HeaderRef | undefined): void {
  headers.forEach((header, at) => {
    const parent = at === 0 ? before : headers[at - 1];
    const isLinked = parent === undefined || parent.number !== header.number - 1 || parent.hash === header.parentHash;
    invariant(isLinked, "headers are not linked", { block: header.number });
  });
}

function addHeaders(state: ChainState, headers: readonly HeaderRef[]): void {
  for (const header of headers.map(inSeconds)) {
    state.headers.set(header.number, header);
    // A fork can be taken back.
    state.orphaned.delete(header.hash);
  }
  state.head = state.headers.get(headers.at(-1)?.number ?? -1);
}

/** Older releases recorded the times of some nodes in their own units. */
function inSeconds(header: HeaderRef): HeaderRef {
  const timestamp = secondsIn(header.timestamp) ?? header.timestamp;
  return timestamp === header.timestamp ? header : { ...header, timestamp };
}

/**
 * Folds one event in place. Only a checkpoint may follow a gap: a reader starts there in mid-stream. If it throws, the
 * state is as before.
 * @throws InvariantError
 */
export function evolveChain(state: ChainState, event: ChainEvent, version: number): void {
  if (version <= state.version) return;
  const checkpoint = event.type === "ChainCheckpointed";
  invariant(version === state.version + 1 || (checkpoint && state.version === 0), "an event is missing", { version });
  change(state, event, version);
  state.version = version;
  state.sinceCheckpoint = checkpoint ? 0 : state.sinceCheckpoint + 1;
}

function change(state: ChainState, event: ChainEvent, version: number): void {
  switch (event.type) {
    case "HeadAdvanced":
      invariant(event.headers.length > 0, "a head without headers", { version });
      assertLinked(event.headers, state.headers.get((event.headers[0] as HeaderRef).number - 1));
      bound(state);
      addHeaders(state, event.headers);
      state.halted = undefined;
      return;
    case "FollowingBegan":
      state.follower = event.holder;
      return;
    case "ChainHalted":
      state.halted = event.finalized;
      return;
    case "ChainReverted": {
      invariant(event.ancestor.number >= (state.finalized?.number ?? 0), "a revert below the finalised block", {
        ancestor: event.ancestor.number,
      });
      const ancestor = state.headers.get(event.ancestor.number);
      invariant(ancestor?.hash === event.ancestor.hash, "a revert to a block that is not held", { version });
      for (const { number } of event.orphaned) state.headers.delete(number);
      orphan(state, event.orphaned);
      state.reverts = keepRevert(state.reverts, {
        ...{ version, ancestor: ancestor.number, top: state.head?.number ?? ancestor.number },
      });
      state.head = ancestor;
      return;
    }
    case "ChainFinalized":
      state.finalized = event.block;
      for (const number of state.headers.keys()) if (number < event.block.number) state.headers.delete(number);
      return;
    case "ChainCheckpointed":
      assertLinked(event.headers, undefined);
      state.headers.clear();
      state.orphaned.clear();
      addHeaders(state, event.headers);
      orphan(state, event.orphaned);
      state.reverts = event.reverts;
      state.finalized = event.finalized;
      return;
    default:
      throw new InvariantError(`not an event of a chain stream: ${(event as { type: string }).type}`);
  }
}

/** Returns the checkpoint of a state. Undefined for a halted chain, which a checkpoint cannot express. */
export function checkpointOf(state: ChainState): ChainEvent | undefined {
  if (state.finalized === undefined || state.head === undefined || state.halted !== undefined) return undefined;
  return {
    type: "ChainCheckpointed",
    headers: thinnedOut([...state.headers.values()], state.bounds),
    finalized: state.finalized,
    orphaned: [...state.orphaned].map(([hash, number]) => ({ hash, number })),
    reverts: state.reverts,
  };
}

/** True if the block is on the canonical chain, as far as the state knows. */
export function isCanonical(state: Pick<FollowedChain, "headers" | "orphaned">, block: BlockRef): boolean {
  const held = state.headers.get(block.number);
  if (held !== undefined) return held.hash === block.hash;
  return !state.orphaned.has(block.hash);
}

/**
 * True if a block whose header is not kept may have been orphaned.
 * @param since version of the chain's stream at which the block was canonical. Without it, only reorganisations count
 *   that went deeper than the blocks whose headers are all kept: of those, the hash is known
 */
function mayHaveLeft({ bounds, finalized, reverts }: ChainState, { number }: BlockRef, since?: number): boolean {
  if (since !== undefined) return reverts.some(({ version, ancestor }) => version > since && ancestor < number);
  if (number <= (finalized?.number ?? -1)) return false;
  return reverts.some(({ ancestor, top }) => top - ancestor >= bounds.newest && ancestor < number && number <= top);
}

/** The version of the chain's stream at which something was recorded, and the block up to which it tells. */
export interface ChainPlace {
  readonly chainVersion: number;
  readonly block: number;
}

/** A move of the shown chain. */
export interface Moved {
  readonly head: HeaderRef | undefined;
  /** The newest block that stayed, if blocks were reverted. */
  readonly ancestor: BlockRef | undefined;
}

type MoveListener = (moved: Moved) => void;

const PAGE = 256;

interface LoadOptions {
  /** Called with each event that was read. */
  readonly onFolded?: (recorded: Recorded) => void;
  readonly bounds?: HeaderBounds | undefined;
}

/** Returns the state of a chain's stream, read from its newest checkpoint on. */
export async function loadChainState(
  log: EventLog,
  stream: StreamName,
  { onFolded, bounds }: LoadOptions = {},
): Promise<ChainState> {
  const state = initialChainState(bounds);
  let before: number | undefined;
  let start = 1;
  for (;;) {
    const page = await log.readBackwards(stream, { limit: PAGE, ...(before === undefined ? {} : { before }) });
    const checkpoint = page.find((recorded) => recorded.event.type === "ChainCheckpointed");
    const oldest = page.at(-1);
    if (checkpoint !== undefined) start = checkpoint.version;
    if (checkpoint !== undefined || oldest === undefined || oldest.version === 1) break;
    before = oldest.version;
  }
  for (let next = start; ; ) {
    const page = await log.read(stream, { from: next });
    if (page.length === 0) return state;
    for (const recorded of page) {
      evolveChain(state, recorded.event as ChainEvent, recorded.version);
      onFolded?.(recorded);
      next = recorded.version + 1;
    }
  }
}

export class PublishedChain implements ChainView {
  readonly #log: EventLog;
  readonly #stream: StreamName;
  readonly #settle: (head: HeaderRef | undefined) => Promise<void>;
  readonly #listeners = new Set<MoveListener>();
  #state: ChainState;
  /** Checksums of the newest events by version, oldest first. */
  readonly #checksums = new Map<number, number>();
  /** The head and the version that are shown next, while the readers are brought to them. */
  #next: { readonly head: HeaderRef; readonly version: number } | undefined;
  readonly #catchUp = new CatchUp(this, (target) => this.#run(target));

  /**
   * @param settle brings all readers that answer as of the head to what `shows` allows: with the head that is shown next,
   *   before it is shown, and without one after each move, for what was recorded at its version
   */
  constructor(
    log: EventLog,
    chainId: number,
    settle: (head: HeaderRef | undefined) => Promise<void>,
    bounds?: HeaderBounds,
  ) {
    this.#state = initialChainState(bounds);
    this.#log = log;
    this.#stream = chainStream(chainId);
    this.#settle = settle;
  }

  /** Version of the chain's stream that readers see. */
  get version(): number {
    return this.#state.version;
  }

  get stream(): StreamName {
    return this.#stream;
  }

  async load(): Promise<void> {
    const onFolded = (recorded: Recorded) => this.#keepChecksum(recorded);
    this.#state = await loadChainState(this.#log, this.#stream, { onFolded, bounds: this.#state.bounds });
  }

  #keepChecksum({ version, checksum }: Recorded): void {
    this.#checksums.set(version, checksum);
    this.#checksums.delete(version - MAX_CHECKSUMS);
  }

  /** Checksum of the event that readers see last; undefined without one. */
  get checksum(): number | undefined {
    return this.#checksums.get(this.version);
  }

  /** Checksum of the stream's event of a version; undefined if the log has none. */
  checksumOf(version: number): number | Promise<number | undefined> {
    return this.#checksums.get(version) ?? this.#log.checksum(this.#stream, version);
  }

  head(): HeaderRef | undefined {
    return this.#state.head;
  }

  finalized(): BlockRef | undefined {
    return this.#state.finalized;
  }

  /** The final block that the node's chain lacks. While it is set, readers see the state from before the halt. */
  halted(): BlockRef | undefined {
    return this.#state.halted;
  }

  header(number: number): HeaderRef | undefined {
    return this.#state.headers.get(number);
  }

  isCanonical(block: BlockRef, since?: number): boolean {
    if (this.#state.headers.has(block.number)) return isCanonical(this.#state, block);
    return isCanonical(this.#state, block) && !mayHaveLeft(this.#state, block, since);
  }

  onMoved(listener: MoveListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * True if readers may see what was recorded at a place: the version after it is shown, or the version itself with a head
   * that has the block. The follower records blocks before the head that they lead to. After a reorganisation the head may
   * be lower again. During a move, what is shown at its end counts.
   */
  shows({ chainVersion, block }: ChainPlace): boolean {
    const { version, head } = this.#next ?? this.#state;
    return version > chainVersion || (version === chainVersion && (head === undefined || head.number >= block));
  }

  /** Folds new events of the stream. Resolves when `version` is shown, or the stream has no more events. */
  catchUp(version: number): Promise<void> {
    return this.#catchUp.to(version);
  }

  /** Shows all that the log has. */
  async newest(): Promise<void> {
    const { version } = await this.#log.head(this.#stream);
    await this.catchUp(version);
  }

  /** Resolves once everything is shown that this process had a hint of. Rejects if an event can't be folded. */
  settled(): Promise<void> {
    return this.#catchUp.settle();
  }

  async #run(target: () => number): Promise<void> {
    while (this.#state.version < target()) {
      const page = await this.#log.read(this.#stream, { from: this.#state.version + 1 });
      if (page.length === 0) return;
      for (const part of movesOf(page)) await this.#move(part);
    }
  }

  /** Makes one move: a reorganisation, or events without one. */
  async #move(part: readonly Recorded[]): Promise<void> {
    const events = part.map(({ event }) => event as ChainEvent);
    const next = events.findLast((event) => event.type === "HeadAdvanced")?.headers.at(-1);
    if (next !== undefined) await this.#bringReadersTo(next, part.at(-1)?.version ?? this.version);
    for (const recorded of part) {
      evolveChain(this.#state, recorded.event as ChainEvent, recorded.version);
      this.#keepChecksum(recorded);
    }
    const [first] = events;
    const ancestor = first?.type === "ChainReverted" ? first.ancestor : undefined;
    for (const listener of this.#listeners) listener({ head: this.#state.head, ancestor });
    await this.#settle(undefined);
  }

  async #bringReadersTo(head: HeaderRef, version: number): Promise<void> {
    this.#next = { head, version };
    try {
      await this.#settle(head);
    } finally {
      this.#next = undefined;
    }
  }
}

/** Splits events of a chain's stream into moves. Each reorganisation is a move of its own. */
function movesOf(page: readonly Recorded[]): Recorded[][] {
  const moves: Recorded[][] = [];
  let isOpen = false;
  for (const recorded of page) {
    const isRevert = recorded.event.type === "ChainReverted";
    if (isOpen && !isRevert) moves.at(-1)?.push(recorded);
    else moves.push([recorded]);
    isOpen = !isRevert;
  }
  return moves;
}
