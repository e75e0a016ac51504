/**
 * Detects that an endpoint has no old state, by behaviour instead of error messages. Every account has a balance at
 * every block. So a node that refuses `eth_getBalance` at an old block, and answers it at its head, has dropped that
 * state. Pruned go-ethereum, for example, says only "not supported".
 */
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { quantity, ZERO_ADDRESS } from "../../core/hex.ts";
import { isUnknownRefusal, RpcError, STATE_METHODS } from "../rpc-errors.ts";

/** Probes before a refusal is believed, over ten seconds in all. A single refusal may be temporary. */
const PROBES = 3;
const PROBE_WAIT_MS = 5_000;
/** A finding expires after this: an archive node may have replaced the node. */
const KNOWN_MS = 300_000;
/** Every node keeps the state of its newest blocks. A refusal there has another reason, such as a fork. */
const ALWAYS_KEPT = 32;

interface PrunedStateOptions {
  readonly label: string;
  readonly clock: Clock;
  readonly ask: (method: string, params: unknown[]) => Promise<unknown>;
}

export class PrunedStateDetector {
  readonly #options: PrunedStateOptions;
  /** The newest block whose state is known to be gone, and the time when that expires. */
  #goneTo = -1;
  #knownUntil = 0;
  /** The newest refused block that the running probe covers, and that probe. */
  #refused = -1;
  #probing: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(options: PrunedStateOptions) {
    this.#options = options;
  }

  /**
   * Sends the request, and turns a refusal of old state into `state_unavailable`. Waits for the probe if that is not
   * known yet.
   * @throws RpcError `state_unavailable` if the endpoint has no state of that block; without a request if known
   */
  async request(method: string, params: unknown[]): Promise<unknown> {
    const { ask, clock } = this.#options;
    // All methods that read state have the block as the second parameter.
    const block = STATE_METHODS.has(method) ? blockOf(params[1]) : Number.NaN;
    if (Number.isNaN(block)) return ask(method, params);
    if (block <= this.#goneTo && clock.monotonic() < this.#knownUntil) throw this.#gone(method, block);
    try {
      const result = await ask(method, params);
      if (block <= this.#goneTo) this.#goneTo = -1;
      return result;
    } catch (error) {
      if (!isUnknownRefusal(error)) throw error;
      await this.#awaitProbe(block);
      throw block <= this.#goneTo ? this.#gone(method, block) : error;
    }
  }

  #gone(method: string, block: number): RpcError {
    const meta = { endpoint: this.#options.label, method, block };
    return new RpcError("state_unavailable", `the endpoint has no state of block ${block}`, { meta });
  }

  /** Resolves when it is known whether the block's state is gone. */
  async #awaitProbe(block: number): Promise<void> {
    this.#refused = Math.max(this.#refused, block);
    // The finding is for all questions, so it does not end with the one that was refused first.
    this.#probing ??= Budget.outside(() => this.#probe())
      .catch(() => undefined)
      .finally(() => {
        this.#probing = undefined;
        this.#refused = -1;
      });
    await this.#probing;
  }

  /** @throws the abort reason when the detector is closed */
  async #probe(): Promise<void> {
    const { clock } = this.#options;
    // An expired finding needs only one probe to be confirmed.
    const probes = this.#goneTo >= 0 ? 1 : PROBES;
    // Waits for the other refusals of the same batch, which arrive in the same turn.
    await Promise.resolve();
    const block = this.#refused;
    for (let probe = 1; probe <= probes; probe++) {
      if (probe > 1) await clock.sleep(PROBE_WAIT_MS, this.#closing.signal);
      if (!(await this.#isRefusedAt(block))) return;
    }
    this.#goneTo = Math.max(this.#goneTo, block);
    this.#knownUntil = clock.monotonic() + KNOWN_MS;
  }

  /** True if the endpoint refuses a balance at an old block, but answers at its head. */
  async #isRefusedAt(block: number): Promise<boolean> {
    const { ask } = this.#options;
    const [then, now, head] = await Promise.allSettled([
      ask("eth_getBalance", [ZERO_ADDRESS, quantity(block)]),
      ask("eth_getBalance", [ZERO_ADDRESS, "latest"]),
      ask("eth_blockNumber", []),
    ]);
    if (then.status !== "rejected" || now.status !== "fulfilled" || head.status !== "fulfilled") return false;
    const isClassified = then.reason instanceof RpcError && then.reason.kind === "state_unavailable";
    return (isClassified || isUnknownRefusal(then.reason)) && Number(head.value) - block >= ALWAYS_KEPT;
  }

  close(): void {
    this.#closing.abort();
  }
}

/** Returns a block tag's number, NaN for a name such as `latest`. */
const blockOf = (tag: unknown): number =>
  typeof tag === "string" && /^0x[0-9a-f]+$/i.test(tag) ? Number(tag) : Number.NaN;
