/**
 * The fold of a chain's stream, and the chain as this process's readers see it. A new head is shown only after all
 * readers that answer "as of the head" have processed the events appended before it.
 */
import { InvariantError, invariant } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import {
  type BlockRef,
  type ChainEvent,
  chainStream,
  type HeaderRef,
  type Recorded,
  type StreamName,
} from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { CatchUp } from "../log/hot-streams.ts";
import type { ChainView, FollowedChain } from "./consumer.ts";

/** Most checksums of the stream's newest events that are kept. Older ones are read from the log. */
const MAX_CHECKSUMS = 4_096;
/** Most orphaned blocks that are kept. A cursor on an older one has long been answered. */
const MAX_ORPHANED = 4_096;

export interface ChainState {
  version: number;
  head: HeaderRef | undefined;
  finalized: BlockRef | undefined;
  /** Headers of the final block, the head, and the blocks between that were read, by number. */
  readonly headers: Map<number, HeaderRef>;
  /** Orphaned block hashes with their numbers, oldest first. */
  readonly orphaned: Map<Hash, number>;
  /** The final block that the node's chain lacks. Undefined in normal operation. */
  halted: BlockRef | undefined;
  /** The holder that follows, if an event since the last checkpoint says so. */
  follower: string | undefined;
  /** Events since the last checkpoint. */
  sinceCheckpoint: number;
}

export function initialChainState(): ChainState {
  return {
    version: 0,
    head: undefined,
    finalized: undefined,
    headers: new Map(),
    orphaned: new Map(),
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

/** @param before the header below the first one, if it is known */
function assertLinked(headers: readonly HeaderRef[], before: HeaderRef | undefined): void {
  headers.forEach((header, at) => {
    const parent = at === 0 ? before : headers[at - 1];
    const isLinked = parent === undefined || parent.number !== header.number - 1 || parent.hash === header.parentHash;
    invariant(isLinked, "headers are not linked", { block: header.number });
  });
}

function addHeaders(state: ChainState, headers: readonly HeaderRef[]): void {
  for (const header of headers) {
    state.headers.set(header.number, header);
    // A fork can be taken back.
    state.orphaned.delete(header.hash);
  }
  state.head = headers.at(-1);
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
    headers: [...state.headers.values()].sort((a, b) => a.number - b.number),
    finalized: state.finalized,
    orphaned: [...state.orphaned].map(([hash, number]) => ({ hash, number })),
  };
}

/** True if the block is on the canonical chain, as far as the state knows. */
export function isCanonical(state: Pick<FollowedChain, "headers" | "orphaned">, block: BlockRef): boolean {
  const held = state.headers.get(block.number);
  if (held !== undefined) return held.hash === block.hash;
  return !state.orphaned.has(block.hash);
}

/** Called after each folded event. `ancestor` is the newest block that stayed, if blocks were reverted. */
type MoveListener = (ancestor: BlockRef | undefined) => void;

const PAGE = 256;

/**
 * Returns the state of a chain's stream, read from its newest checkpoint on.
 * @param onFolded called with each event that was read
 */
export async function loadChainState(
  log: EventLog,
  stream: StreamName,
  onFolded: (recorded: Recorded) => void = () => undefined,
): Promise<ChainState> {
  const state = initialChainState();
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
      onFolded(recorded);
      next = recorded.version + 1;
    }
  }
}

export class PublishedChain implements ChainView {
  readonly #log: EventLog;
  readonly #stream: StreamName;
  readonly #settle: (head: HeaderRef | undefined) => Promise<void>;
  readonly #listeners = new Set<MoveListener>();
  #state: ChainState = initialChainState();
  /** Checksums of the newest events by version, oldest first. */
  readonly #checksums = new Map<number, number>();
  readonly #catchUp = new CatchUp(this, (target) => this.#run(target));

  /**
   * @param settle resolves when all readers that answer as of the head have caught up with the log. It is given the head
   * that is shown next, if that is a new one
   */
  constructor(log: EventLog, chainId: number, settle: (head: HeaderRef | undefined) => Promise<void>) {
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
    this.#state = await loadChainState(this.#log, this.#stream, (recorded) => this.#keepChecksum(recorded));
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

  isCanonical(block: BlockRef): boolean {
    return isCanonical(this.#state, block);
  }

  onMoved(listener: MoveListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Folds new events of the stream. Resolves when `version` is shown, or the stream has no more events. */
  catchUp(version: number): Promise<void> {
    return this.#catchUp.to(version);
  }

  /** Resolves once everything is shown that this process had a hint of. Rejects if an event can't be folded. */
  settled(): Promise<void> {
    return this.#catchUp.settle();
  }

  async #run(target: () => number): Promise<void> {
    while (this.#state.version < target()) {
      const page = await this.#log.read(this.#stream, { from: this.#state.version + 1 });
      if (page.length === 0) return;
      const last = page.findLast(({ event }) => event.type === "HeadAdvanced" || event.type === "ChainReverted")?.event;
      const next = last?.type === "HeadAdvanced" ? last.headers.at(-1) : undefined;
      await this.#settle(next);
      for (const recorded of page) {
        const event = recorded.event as ChainEvent;
        evolveChain(this.#state, event, recorded.version);
        this.#keepChecksum(recorded);
        const ancestor = event.type === "ChainReverted" ? event.ancestor : undefined;
        for (const listener of this.#listeners) listener(ancestor);
      }
    }
  }
}
