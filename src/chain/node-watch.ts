/**
 * Decides when a process gives a lease up because its own node fails it, and when it asks for the lease again. So a
 * replica whose node answers can take over. Each kind of work of a chain has its own watch.
 */
import { type Clock, withTimeout } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { RpcChainReader } from "../rpc/reading/reader.ts";
import { RpcError } from "../rpc/rpc-errors.ts";
import type { Lease } from "./lease.ts";

/**
 * A node is silent if its endpoints answered nothing for half of this time, although requests were pending, and then
 * don't show their head in the other half. Another process asks for the free lease within a second.
 */
const SILENT_MS = 4_000;
/** This time doubles with each silent turn in a row, up to 16 s, so that a slow node can still do its work. */
const MAX_DOUBLINGS = 2;
/** Failed pieces of work in a row. Each failed after four attempts at all endpoints, so this takes 2 to 4 s. */
const MAX_FAILURES = 2;
/**
 * A process that gave its lease up doesn't ask for it during this time, which doubles with each failed turn in a row.
 * Another process asks each second, and one with many leases yields for 2 s.
 */
const HOLD_OFF_MS = 3_000;
/** Work that was requested meanwhile waits only this long: another process has asked for the lease by then. */
const REQUESTED_MS = 1_100;
/** A request for the head without an answer is repeated after this time, because its connection may be dead. */
const HUNG_MS = 5_000;
/** A job that waits for a node that is down asks it this often. */
const RECHECK_MS = 1_000;

/** True if the node is at fault for the failure of a read. */
const isNodeFault = (error: unknown): boolean =>
  (error instanceof RpcError && error.retryable) || (error instanceof AppError && error.code === "chain_unavailable");

interface NodeWatchOptions {
  readonly reader: Pick<RpcChainReader, "head" | "silentMs">;
  readonly clock: Clock;
}

interface HoldOffOptions {
  readonly signal: AbortSignal;
  /** Wait between two requests to the node, in ms. */
  readonly probeMs: number;
  /** Longest hold-off while the node answers, in ms. */
  readonly maxMs: number;
  /** Longest hold-off while it does not, in ms. */
  readonly maxDownMs: number;
  /** The head that did not move, if the node was stuck. A newer one ends the hold-off. */
  readonly stuckAt?: number | undefined;
  /** True if work waits for the next turn. */
  readonly isRequested?: () => boolean;
}

export class NodeWatch {
  readonly #options: NodeWatchOptions;
  /** Failed turns in a row, and those among them in which the node was silent or hung. */
  #failedTurns = 0;
  #silentTurns = 0;
  /** Failed pieces of work in a row. */
  #failures = 0;
  #handedOverAt = 0;
  /** True if the node did not even show its head when the lease was handed over. */
  #wasHeadless = false;
  /** True from a failure until the node answers again. */
  #isDown = false;
  /** The request for the head that is running, and when it began. */
  #asked: { readonly at: number; readonly head: Promise<number | undefined> } | undefined;
  #checked: { readonly at: number; readonly answer: Promise<boolean> } | undefined;

  constructor(options: NodeWatchOptions) {
    this.#options = options;
  }

  /**
   * Runs work that reads from the node, and hands the lease over if the node is silent. Awaits the work even then.
   * @param longestMs time after which the work hangs, even if the node shows its head. Doubles like the other times
   */
  async whileAnswering<T>(lease: Lease, work: () => Promise<T>, longestMs = Number.POSITIVE_INFINITY): Promise<T> {
    const { clock, reader } = this.#options;
    const factor = 2 ** Math.min(this.#silentTurns, MAX_DOUBLINGS);
    const half = (SILENT_MS / 2) * factor;
    const began = clock.monotonic();
    let isOver = false;
    let cancel: () => void = () => undefined;
    const isSilent = () => reader.silentMs() >= half;
    const check = async () => {
      const isHanging = clock.monotonic() - began >= longestMs * factor;
      const isDown = isHanging || (isSilent() && (await this.#head(half)) === undefined && isSilent());
      if (isOver || lease.signal.aborted) return;
      if (isDown) this.#silent(lease, isHanging);
      else cancel = clock.after(half, () => void check());
    };
    cancel = clock.after(half, () => void check());
    try {
      const value = await work();
      // A node that is always this slow keeps its longer times.
      if (clock.monotonic() - began < SILENT_MS / 2) this.#silentTurns = 0;
      return value;
    } finally {
      isOver = true;
      cancel();
    }
  }

  #silent(lease: Lease, isHanging: boolean): void {
    this.#silentTurns++;
    this.handOver(lease, isHanging ? "the node hangs" : "no endpoint answers", !isHanging);
  }

  /** Records that work ended well. */
  succeeded(): void {
    this.#failedTurns = 0;
    this.#failures = 0;
    this.#isDown = false;
  }

  /**
   * Records a failure of work. Hands the lease over if the node is at fault, and not for the first time.
   * @param isHeadless true if the node did not even show its head
   */
  failed(error: unknown, lease?: Lease, isHeadless = false): void {
    if (!isNodeFault(error)) return;
    this.#isDown = true;
    if (lease !== undefined && ++this.#failures >= MAX_FAILURES) this.handOver(lease, "the node fails", isHeadless);
  }

  handOver(lease: Lease, reason: string, isHeadless = false): void {
    if (lease.signal.aborted) return;
    this.#failedTurns++;
    this.#wasHeadless = isHeadless;
    this.#failures = 0;
    this.#isDown = true;
    this.#handedOverAt = this.#options.clock.monotonic();
    lease.handOver(reason);
  }

  /** The head's number, if the node answers within `ms` ms. */
  async #head(ms: number): Promise<number | undefined> {
    const { clock, reader } = this.#options;
    const now = clock.monotonic();
    if (this.#asked === undefined || now - this.#asked.at >= HUNG_MS) {
      const head = reader.head(1).then(
        ({ number }) => number,
        () => undefined,
      );
      const asked = { at: now, head };
      this.#asked = asked;
      void head.then(() => {
        if (this.#asked === asked) this.#asked = undefined;
      });
    }
    return (await withTimeout(clock, ms, this.#asked.head))?.value;
  }

  /** False if the node failed, and does not answer now either. All callers share one request per second. */
  async isUp(): Promise<boolean> {
    if (!this.#isDown) return true;
    const now = this.#options.clock.monotonic();
    if (this.#checked === undefined || now - this.#checked.at >= RECHECK_MS) {
      this.#checked = { at: now, answer: this.#head(SILENT_MS).then((head) => head !== undefined) };
    }
    const isUp = await this.#checked.answer;
    if (isUp) this.#isDown = false;
    return isUp;
  }

  /**
   * Waits until the process may ask for the lease again.
   * 1. The node was down and answers again: at once. If that ended several turns in a row, it must be seen here.
   * 2. The node was stuck and shows a newer block: at once.
   * 3. The node answers all the time: after a while that doubles with each failed turn in a row.
   * 4. Work is requested: once another process has had its chance.
   * 5. The node stays down: after `maxDownMs`. There may be work that needs no node.
   * @throws the signal's reason
   */
  async holdOff({ signal, probeMs, maxMs, maxDownMs, stuckAt, isRequested }: HoldOffOptions): Promise<void> {
    const { clock } = this.#options;
    const wait = Math.min(Math.max(HOLD_OFF_MS, maxMs), HOLD_OFF_MS * 2 ** Math.max(0, this.#failedTurns - 1));
    for (let wasDown = this.#wasHeadless && this.#failedTurns === 1; ; ) {
      const head = await this.#head(Math.max(probeMs, REQUESTED_MS));
      signal.throwIfAborted();
      const waited = clock.monotonic() - this.#handedOverAt;
      if (head === undefined) wasDown = true;
      else if (wasDown || waited >= wait || (stuckAt !== undefined && head > stuckAt)) return;
      if (waited >= maxDownMs || (waited >= REQUESTED_MS && isRequested?.())) return;
      await clock.sleep(probeMs, signal);
    }
  }
}
