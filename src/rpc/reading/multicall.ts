/**
 * Many calls in one request through Multicall3. Learns how many calls a node has gas for, and goes without the contract
 * for a while where its code is missing.
 */
import { Budget } from "../../core/budget.ts";
import { type Address, quantity } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { aggregateCalls, aggregatedResults } from "../call-batches.ts";
import type { Call, CallResult, Endpoint } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import type { GasBounds } from "./gas-bounds.ts";
import { bytesIn, requestParsed } from "./one-call.ts";
import { isRefused } from "./refused-calls.ts";
import type { AssertRuns, RunOfMany } from "./run-of-many.ts";

/** Most calls in one `aggregate3`. For small getters this is far below the gas cap of an `eth_call`. */
const MULTICALL_MAX = 500;
/** The bound that is learned goes no lower: a single contract that burns its gas must not make all reads small. */
const MULTICALL_MIN = 100;
/** Calls by which the size grows again with each aggregate of full size that had gas enough. */
const MULTICALL_STEP = 10;
/** Reads without Multicall3 after its code was missing. It may be missing only because the node is still syncing. */
const READS_WITHOUT_MULTICALL = 100;

export class Multicall {
  readonly #address: Address | undefined;
  readonly #gas: GasBounds;
  readonly #assertRuns: AssertRuns;
  #readsWithoutMulticall = 0;
  #most = MULTICALL_MAX;

  /** @param address undefined if the chain has none */
  constructor(address: Address | undefined, gas: GasBounds, assertRuns: AssertRuns) {
    this.#address = address;
    this.#gas = gas;
    this.#assertRuns = assertRuns;
  }

  /** False while Multicall3 counts as missing. Call it once for each read. */
  mayRun(): boolean {
    return this.#address !== undefined && this.#readsWithoutMulticall-- <= 0;
  }

  /** Most calls to put into one request: a node's gas has been enough for so many lately. */
  get most(): number {
    return this.#most;
  }

  /** Lowers the bound, because so many calls took too much gas together. */
  tookTooMuch(calls: number): void {
    this.#most = Math.min(this.#most, Math.max(MULTICALL_MIN, Math.ceil(calls / 2)));
  }

  /** Runs the calls. Undefined if Multicall3 does not exist at that block. */
  async run(
    endpoint: Endpoint,
    calls: readonly Call[],
    run: RunOfMany,
  ): Promise<CallResult[] | "out of gas" | undefined> {
    const { tag, isOneOfMany, data = Budget.timed(() => aggregateCalls(calls)) } = run;
    const returned = await this.#returned(endpoint, data, { tag, gas: this.#gas.gasFor(endpoint, calls, run) });
    if (returned === "out of gas") {
      await this.#assertRuns(endpoint, tag);
      return returned;
    }
    if (returned === "0x") {
      // An old block may be older than the contract. At the newest block, the chain does not have it.
      if (tag !== "latest") return undefined;
      await this.#assertRuns(endpoint);
      this.#readsWithoutMulticall = READS_WITHOUT_MULTICALL;
      return undefined;
    }
    if (isOneOfMany === true) await yieldToEventLoop();
    try {
      const results = Budget.timed(() => aggregatedResults(returned, calls.length));
      if (calls.length >= this.#most) this.#most = Math.min(MULTICALL_MAX, this.#most + MULTICALL_STEP);
      return results;
    } catch (cause) {
      throw new RpcError("lie", "the answer of Multicall3 is malformed", { meta: { endpoint: endpoint.label }, cause });
    }
  }

  /** The bytes that Multicall3 returns, which are none if it does not exist at that block; or "out of gas". */
  async #returned(
    endpoint: Endpoint,
    data: string,
    { tag, gas }: { readonly tag: string; readonly gas?: number | undefined },
  ): Promise<string> {
    try {
      const call = { to: this.#address, data, ...(gas && { gas: quantity(gas) }) };
      return await requestParsed(endpoint, "eth_call", [call, tag], bytesIn);
    } catch (error) {
      // The endpoint may refuse the bound itself, or count gas in its own way.
      if (gas !== undefined && isRefused(error) && !(await this.#gas.areTakenBy(endpoint))) {
        return this.#returned(endpoint, data, { tag });
      }
      // Each call may fail, so only gas makes all of them revert: there are too many, or a contract burns it.
      if (error instanceof RpcError && error.kind === "revert") return "out of gas";
      throw error;
    }
  }
}

/** Lists of 500 calls that are encoded without a pause: a millisecond. Other calls of the read wait for them, to share a batch. */
const ENCODED_AT_ONCE = 4;

/** Encodes lists of calls, with pauses for the event loop, before any is sent: so all go into as few batches as possible. */
export async function encodedParts(parts: readonly (readonly Call[])[]) {
  const encoded: { readonly part: readonly Call[]; readonly data: string }[] = [];
  for (const [at, part] of parts.entries()) {
    if (at > 0 && at % ENCODED_AT_ONCE === 0) await yieldToEventLoop();
    encoded.push({ part, data: Budget.timed(() => aggregateCalls(part)) });
  }
  return encoded;
}
