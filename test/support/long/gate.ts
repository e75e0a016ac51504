/**
 * Holds the follower's polls at a proxy and releases them one at a time, so that a test can count them and see the
 * effect of each.
 */
import type { Intervention, RpcCall } from "../rpc-proxy.ts";

const BLOCK = "eth_getBlockByNumber";

export class Gate {
  polls = 0;
  #closed = false;
  #next: PromiseWithResolvers<void> | undefined;
  #arrived = Promise.withResolvers<void>();

  /**
   * For a proxy's `onRequest`. The follower's poll asks for blocks only, the newest one among them. A price that the service reads at
   * the head asks for that block beside its calls, and is no poll. The service repeats a poll that gets no answer for some seconds.
   */
  readonly onRequest = ({ method, params, batch }: RpcCall): Intervention | undefined => {
    if (method !== BLOCK || params[0] !== "latest" || batch.some((one) => one !== BLOCK)) return undefined;
    if (this.#next !== undefined) return { delayUntil: this.#next.promise };
    this.polls++;
    if (!this.#closed) return undefined;
    this.#next = Promise.withResolvers<void>();
    this.#arrived.resolve();
    return { delayUntil: this.#next.promise };
  };

  /** Holds all polls from now on. Resolves when one is held. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#arrived.promise;
  }

  /** Releases one poll. Resolves when the next one arrives: the released one has read all that it needs. */
  async poll(): Promise<void> {
    this.#arrived = Promise.withResolvers<void>();
    this.#release();
    await this.#arrived.promise;
  }

  open(): void {
    this.#closed = false;
    this.#release();
  }

  #release(): void {
    this.#next?.resolve();
    this.#next = undefined;
  }
}
