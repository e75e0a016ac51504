/** The worker that makes documents. It starts with the first one, and takes one run after the other. */
import { Budget } from "../core/budget.ts";
import type { Clock } from "../core/clock.ts";
import { Semaphore } from "../core/semaphore.ts";
import type { RunReply, RunRequest } from "./run-worker.ts";
import { RunTooLong } from "./verifier/refusal.ts";

/** Longest time of a run, in ms. Ordinary ones take 30. */
const RUN_MS = 5_000;
/** Longest time until a new thread has loaded its code, in ms: a second on a busy machine. */
const START_MS = 30_000;

export class RunThread {
  readonly #clock: Clock;
  readonly #turns = new Semaphore(1);
  #worker: Worker | undefined;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs a request in its turn, and charges the question with its time. */
  async run(request: RunRequest): Promise<RunReply> {
    const { current: budget } = Budget;
    return this.#turns.run(async () => {
      const started = this.#clock.monotonic();
      try {
        return await this.#once(request);
      } finally {
        budget?.add({ ms: this.#clock.monotonic() - started });
      }
    }, budget?.signal);
  }

  #once(request: RunRequest): Promise<RunReply> {
    if (this.#isClosed) return Promise.resolve({ refused: "the service stops" });
    const isNew = this.#worker === undefined;
    const worker = this.#worker ?? new Worker(new URL("./run-worker.ts", import.meta.url).href);
    this.#worker = worker;
    worker.ref();
    return new Promise((resolve) => {
      const settle = (reply: RunReply, isOver: boolean) => {
        stop();
        if (isOver) this.#end(worker);
        else worker.unref();
        resolve(reply);
      };
      const late = { refused: new RunTooLong(RUN_MS).message, isLate: true };
      const stop = this.#clock.after(isNew ? START_MS : RUN_MS, () => settle(late, true));
      worker.onmessage = ({ data }: MessageEvent<RunReply>) => settle(data, false);
      worker.onerror = ({ message }: ErrorEvent) => settle({ refused: `the run crashed: ${message}` }, true);
      worker.postMessage(request);
    });
  }

  #end(worker: Worker): void {
    worker.terminate();
    if (this.#worker === worker) this.#worker = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.#worker?.terminate();
    this.#worker = undefined;
  }
}
