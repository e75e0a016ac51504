/**
 * The chain as this process's readers see it: folds the chain's stream, which this or another process writes. Shows a
 * new head only after all readers that answer "as of the head" have processed the events appended before it.
 */
import { type BlockRef, type ChainEvent, chainStream, type HeaderRef, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { CatchUp } from "../log/hot-streams.ts";
import type { ChainView } from "./consumer.ts";
import { type ChainState, evolveChain, initialChainState, isCanonical } from "./state.ts";

/** The change that the projection has just folded. */
type ChainChange =
  | { readonly type: "advanced"; readonly head: HeaderRef }
  | { readonly type: "reverted"; readonly ancestor: BlockRef; readonly orphaned: readonly BlockRef[] }
  /** The head stays the same; only the version moves. */
  | { readonly type: "noted" };

const PAGE = 256;

/** Returns the state of a chain's stream, read from its newest checkpoint on. */
export async function loadChainState(log: EventLog, stream: StreamName): Promise<ChainState> {
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
  await foldFrom(log, stream, state, start);
  return state;
}

/** Folds all events from version `from` on and returns them. */
async function foldFrom(log: EventLog, stream: StreamName, state: ChainState, from: number): Promise<ChainEvent[]> {
  const events: ChainEvent[] = [];
  for (let next = from; ; ) {
    const page = await log.read(stream, { from: next });
    if (page.length === 0) return events;
    for (const { event, version } of page) {
      evolveChain(state, event as ChainEvent, version);
      events.push(event as ChainEvent);
      next = version + 1;
    }
  }
}

export class PublishedChain implements ChainView {
  readonly #log: EventLog;
  readonly #stream: StreamName;
  readonly #settle: () => Promise<void>;
  readonly #listeners = new Set<(change: ChainChange) => void>();
  #state: ChainState = initialChainState();
  readonly #catchUp = new CatchUp(this, (target) => this.#run(target));

  /** @param settle resolves when all readers that answer as of the head have caught up with the log */
  constructor(log: EventLog, chainId: number, settle: () => Promise<void>) {
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
    this.#state = await loadChainState(this.#log, this.#stream);
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

  onChange(listener: (change: ChainChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Folds new events of the stream. Resolves when `version` is shown, or the stream has no more events. */
  catchUp(version: number): Promise<void> {
    return this.#catchUp.to(version);
  }

  async #run(target: () => number): Promise<void> {
    while (this.#state.version < target()) {
      const page = await this.#log.read(this.#stream, { from: this.#state.version + 1 });
      if (page.length === 0) return;
      await this.#settle();
      for (const { event, version } of page) {
        evolveChain(this.#state, event as ChainEvent, version);
        this.#tell(event as ChainEvent);
      }
    }
  }

  #tell(event: ChainEvent): void {
    const head = this.#state.head;
    for (const listener of this.#listeners) {
      if (event.type === "HeadAdvanced" && head !== undefined) listener({ type: "advanced", head });
      else if (event.type === "ChainReverted") {
        listener({ type: "reverted", ancestor: event.ancestor, orphaned: event.orphaned });
      } else listener({ type: "noted" });
    }
  }
}
