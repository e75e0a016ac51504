/**
 * Finds out by an endpoint's behaviour that it keeps no old state, whatever words it refuses in. Any account has a
 * balance at any block, so a node that refuses `eth_getBalance` at an old block, and answers at its head, has dropped
 * that block's state. Pruned go-ethereum says only "not supported", for one.
 */
import type { Clock } from "../core/clock.ts";
import { quantity } from "../core/hex.ts";
import { isUnknownRefusal, RpcError } from "./errors.ts";

/** Where a method that reads state has its block among its parameters. */
const BLOCK_AT: Readonly<Record<string, number>> = {
  eth_call: 1,
  eth_getBalance: 1,
  eth_getCode: 1,
  eth_getTransactionCount: 1,
};
const ZERO_ADDRESS = `0x${"0".repeat(40)}`;
/** One refusal may be a gateway's mood: the endpoint is asked this often, over ten seconds, before it is believed. */
const PROBES = 3;
const PROBE_WAIT_MS = 5_000;
/** A finding is taken up again after this: the node may have been exchanged for an archive node. */
const KNOWN_MS = 300_000;
/** Every node keeps the state of its newest blocks; a refusal there has another reason, such as a fork. */
const ALWAYS_KEPT = 32;

export interface OldStateOptions {
  readonly label: string;
  readonly clock: Clock;
  /** One request to the endpoint. @throws RpcError */
  readonly ask: (method: string, params: unknown[]) => Promise<unknown>;
}

export class OldState {
  readonly #options: OldStateOptions;
  /** The newest block whose state is known to be gone, and until when that is believed. */
  #goneTo = -1;
  #knownUntil = 0;
  /** The newest block of those whose refusal is being looked into, and the look. */
  #refused = -1;
  #probing: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(options: OldStateOptions) {
    this.#options = options;
  }

  /**
   * Asks the endpoint, and tells a refusal of old state from other failures. Where that is not known yet, waits for the
   * finding.
   * @throws RpcError `state_unavailable` where the endpoint has no state of that block, without a request where known
   */
  async request(method: string, params: unknown[]): Promise<unknown> {
    const { ask, clock } = this.#options;
    const at = BLOCK_AT[method];
    const block = at === undefined ? Number.NaN : blockOf(params[at]);
    if (Number.isNaN(block)) return ask(method, params);
    if (block <= this.#goneTo && clock.monotonic() < this.#knownUntil) throw this.#gone(method, block);
    try {
      const result = await ask(method, params);
      if (block <= this.#goneTo) this.#goneTo = -1;
      return result;
    } catch (error) {
      if (!isUnknownRefusal(error)) throw error;
      await this.#look(block);
      throw block <= this.#goneTo ? this.#gone(method, block) : error;
    }
  }

  #gone(method: string, block: number): RpcError {
    const { label } = this.#options;
    return new RpcError("state_unavailable", `the endpoint has no state of block ${block}`, {
      meta: { endpoint: label, method, block },
    });
  }

  /** Resolves once it is known whether the state of the block is gone. */
  async #look(block: number): Promise<void> {
    this.#refused = Math.max(this.#refused, block);
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined;
      this.#refused = -1;
    });
    await this.#probing;
  }

  async #probe(): Promise<void> {
    const { clock } = this.#options;
    // What was known for five minutes, and is still so, needs one look.
    const looks = this.#goneTo >= 0 ? 1 : PROBES;
    // The other requests of the batch are refused in the same turn.
    await Promise.resolve();
    const block = this.#refused;
    for (let look = 1; look <= looks; look++) {
      if (!(await this.#isRefusedAt(block))) return;
      if (look === looks) break;
      try {
        await clock.sleep(PROBE_WAIT_MS, this.#closing.signal);
      } catch {
        return;
      }
    }
    this.#goneTo = Math.max(this.#goneTo, block);
    this.#knownUntil = clock.monotonic() + KNOWN_MS;
  }

  /** Whether the endpoint refuses a balance at an old block, though it gives one at its head. */
  async #isRefusedAt(block: number): Promise<boolean> {
    const { ask } = this.#options;
    const [then, now, head] = await Promise.allSettled([
      ask("eth_getBalance", [ZERO_ADDRESS, quantity(block)]),
      ask("eth_getBalance", [ZERO_ADDRESS, "latest"]),
      ask("eth_blockNumber", []),
    ]);
    if (then.status !== "rejected" || now.status !== "fulfilled" || head.status !== "fulfilled") return false;
    const isSaid = then.reason instanceof RpcError && then.reason.kind === "state_unavailable";
    return (isSaid || isUnknownRefusal(then.reason)) && Number(head.value) - block >= ALWAYS_KEPT;
  }

  close(): void {
    this.#closing.abort();
  }
}

/** The number of a block; NaN for a tag. */
const blockOf = (tag: unknown): number =>
  typeof tag === "string" && /^0x[0-9a-f]+$/i.test(tag) ? Number(tag) : Number.NaN;
