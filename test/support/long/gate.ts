/**
 * Holds the follower's polls at a proxy and releases them one at a time, so that a test can count them and see the
 * effect of each.
 */
import type { Intervention, RpcCall } from "../rpc-proxy.ts";

export class Gate {
  polls = 0;
  #closed = false;
  #next: PromiseWithResolvers<void> | undefined;
  #arrived = Promise.withResolvers<void>();

  /** For a proxy's `onRequest`. A poll is a request of the newest block. */
  readonly onRequest = ({ method, params }: RpcCall): Intervention | undefined => {
    if (method !== "eth_getBlockByNumber" || params[0] !== "latest") return undefined;
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

  /** Releases one poll. Resolves when the next one arrives, which means that the released one is over. */
  async poll(): Promise<void> {
    const held = this.#next;
    this.#arrived = Promise.withResolvers<void>();
    held?.resolve();
    await this.#arrived.promise;
  }

  open(): void {
    this.#closed = false;
    this.#next?.resolve();
  }
}
