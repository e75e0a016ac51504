/** How much gas many calls are given in one request, and whether an endpoint takes a bound on gas at all. */
import type { Clock } from "../../core/clock.ts";
import type { Address } from "../../core/hex.ts";
import { aggregateCalls, deploylessCalls } from "../call-batches.ts";
import type { Call, Endpoint } from "../port.ts";
import { callOn } from "./one-call.ts";
import { isRefused } from "./refused-calls.ts";
import { type AssertRuns, FAILED, type RunOfMany, readResults } from "./run-of-many.ts";

/**
 * Gas of many getters in one call, 50,000 for each, and of a long text alone. Nodes give 50 million and more, which a contract
 * that burns it would turn into seconds. Some refuse more than their block's gas limit, which is 30 million on development
 * nodes.
 */
const GETTERS_GAS = 25_000_000;
/** An endpoint is asked again after this long if it counts gas like others do, in ms. */
const GAS_MS = 600_000;

export class GasBounds {
  readonly #clock: Clock;
  readonly #multicall: Address | undefined;
  readonly #assertRuns: AssertRuns;
  /** Whether endpoints run calls with a bound on gas, and until which monotonic time that is known. */
  readonly #known = new WeakMap<Endpoint, { readonly isUsual: boolean; readonly until: number }>();

  /** @param multicall undefined if the chain has none */
  constructor(clock: Clock, multicall: Address | undefined, assertRuns: AssertRuns) {
    this.#clock = clock;
    this.#multicall = multicall;
    this.#assertRuns = assertRuns;
  }

  /** The gas of many calls; undefined for as much as the node gives. */
  gasFor(endpoint: Endpoint, calls: readonly Call[], { gas }: Pick<RunOfMany, "gas"> = {}): number | undefined {
    const { isUsual, until } = this.#known.get(endpoint) ?? { isUsual: true, until: 0 };
    if (!isUsual && until > this.#clock.monotonic()) return undefined;
    return (
      gas ?? (calls.every(({ isGetter, isText }) => isGetter === true || isText === true) ? GETTERS_GAS : undefined)
    );
  }

  /**
   * False if the endpoint runs no call at all with a bound on gas. Some chains count the cost of the data as gas, and some
   * nodes refuse a bound above their own.
   */
  async areTakenBy(endpoint: Endpoint): Promise<boolean> {
    const now = this.#clock.monotonic();
    const known = this.#known.get(endpoint);
    if (known !== undefined && known.until > now) return known.isUsual;
    const to = this.#multicall;
    const data = to === undefined ? deploylessCalls([]) : aggregateCalls([]);
    const ran = await callOn(endpoint, { to, data }, "latest", { gas: GETTERS_GAS }).catch((error: unknown) => {
      if (isRefused(error)) return FAILED;
      throw error;
    });
    const isUsual = ran.ok || (to === undefined && readResults(ran.data, 0) !== undefined);
    if (!isUsual) await this.#assertRuns(endpoint);
    this.#known.set(endpoint, { isUsual, until: now + GAS_MS });
    return isUsual;
  }
}
