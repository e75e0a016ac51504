/**
 * Holds up the follower's polls at a proxy and lets them through one at a time, so that they can be counted and what one
 * of them brings can be told from what the next one does.
 */
import type { Intervention, RpcCall } from "../../support/rpc-proxy.ts";

export class Gate {
  polls = 0;
  #closed = false;
  #next: PromiseWithResolvers<void> | undefined;
  #arrived = Promise.withResolvers<void>();

  /** For a proxy's `onRequest`: a poll is what asks for the newest block. */
  readonly onRequest = ({ method, params }: RpcCall): Intervention | undefined => {
    if (method !== "eth_getBlockByNumber" || params[0] !== "latest") return undefined;
    this.polls++;
    if (!this.#closed) return undefined;
    this.#next = Promise.withResolvers<void>();
    this.#arrived.resolve();
    return { delayUntil: this.#next.promise };
  };

  /** From now on polls wait; resolves when one does. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#arrived.promise;
  }

  /** One poll: it is over when the next one arrives. */
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
