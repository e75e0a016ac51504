/**
 * Calls by creation code, which runs without a contract: many calls in one, getters with a bound on each, and the
 * beginnings of codes. It is an option of nodes, so this module notes for a while which endpoints don't run it.
 */
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { type Address, ZERO_ADDRESS } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { SingleFlight } from "../../core/work.ts";
import { costlyAmong, deploylessCalls, deploylessCodes, deploylessGetters } from "../call-batches.ts";
import type { Call, CallResult, CodeStart, Endpoint } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import type { GasBounds } from "./gas-bounds.ts";
import { bytesIn, callOn, requestParsed } from "./one-call.ts";
import { callRefusable, isRefused, refusalOf } from "./refused-calls.ts";
import { type AssertRuns, FAILED, type RunOfMany, readResults } from "./run-of-many.ts";

/** Creation code that a node accepts, in hex digits (EIP-3860: 49,152 bytes). */
const MAX_CREATION = 2 * 49_152;
/** An endpoint is asked again after this long if it runs creation code, in ms. A balancer may have nodes that do. */
const CREATIONS_MS = 600_000;
/** Below this many addresses their code is asked for one by one. */
const FEW_CODES = 3;

const WORD = /^0x[0-9a-f]{64}$/i;
const WORD_LENGTH = 66;

interface GetterBounds {
  readonly tag: string;
  readonly gasEach: number;
  /** Most bytes of an answer. */
  readonly mostBytes: number;
}

interface BoundedGetters {
  readonly results: CallResult[];
  /** Places of getters whose gas was not enough. */
  readonly burning: readonly number[];
  /** Places of getters whose answers were too long. */
  readonly long: readonly number[];
}

export class CreationCalls {
  readonly #clock: Clock;
  readonly #gas: GasBounds;
  readonly #assertRuns: AssertRuns;
  /** Monotonic times until which endpoints count as not running creation code. */
  readonly #without = new WeakMap<Endpoint, number>();
  readonly #probing = new SingleFlight<Endpoint, void>();

  constructor(clock: Clock, gas: GasBounds, assertRuns: AssertRuns) {
    this.#clock = clock;
    this.#gas = gas;
    this.#assertRuns = assertRuns;
  }

  /** @throws RpcError `unsupported` with the meta `isCreation` if the endpoint doesn't run creation code */
  assertRunBy(endpoint: Endpoint): void {
    if (!this.isWithout(endpoint)) return;
    throw new RpcError("unsupported", "the endpoint does not run calls without a contract", {
      meta: { endpoint: endpoint.label, isCreation: true },
    });
  }

  /** Runs a call that is creation code. Its result begins with the number of the block. */
  async run(endpoint: Endpoint, call: Call, tag: string): Promise<CallResult & { readonly block?: number }> {
    const result = await this.#run(endpoint, call, tag);
    const [block, data] = [result.data.slice(0, WORD_LENGTH), `0x${result.data.slice(WORD_LENGTH)}`];
    return result.ok && WORD.test(block) ? { ok: true, data, block: Number(block) } : FAILED;
  }

  /** Runs many calls in one request. Undefined if the endpoint doesn't run creation code. */
  async runMany(
    endpoint: Endpoint,
    calls: readonly Call[],
    { tag, gas = this.#gas.gasFor(endpoint, calls), isOneOfMany }: RunOfMany,
  ): Promise<CallResult[] | TooLong | "out of gas" | undefined> {
    if (this.isWithout(endpoint)) return undefined;
    const creation = Budget.timed(() => deploylessCalls(calls));
    if (creation.length > MAX_CREATION) return new TooLong(Math.ceil(creation.length / MAX_CREATION));
    const { ok, data } = await this.#run(endpoint, { to: undefined, data: creation }, tag, gas);
    if (this.isWithout(endpoint)) return undefined;
    if (isOneOfMany === true) await yieldToEventLoop();
    const results = ok ? undefined : readResults(data, calls.length);
    if (results !== undefined) return results;
    if (gas !== undefined && !(await this.#gas.areTakenBy(endpoint))) return this.runMany(endpoint, calls, { tag });
    // A node that doesn't run creation code runs none without a call either.
    const empty = await callRefusable(endpoint, { to: undefined, data: deploylessCalls([]) }, "latest");
    if (!empty.ok && readResults(empty.data, 0) !== undefined) return "out of gas";
    await this.#assertRuns(endpoint);
    this.#noteWithout(endpoint);
    return undefined;
  }

  /** Runs getters with a bound on each. Undefined if the endpoint can't. */
  async runGetters(
    endpoint: Endpoint,
    calls: readonly Call[],
    { tag, gasEach, mostBytes }: GetterBounds,
  ): Promise<BoundedGetters | undefined> {
    if (this.isWithout(endpoint)) return undefined;
    const data = deploylessGetters(calls, gasEach, mostBytes);
    if (data.length > MAX_CREATION) return undefined;
    const { ok, data: returned } = await this.#run(endpoint, { to: undefined, data }, tag);
    const results = ok ? undefined : readResults(returned, calls.length);
    if (results === undefined) return undefined;
    const { burning, long } = costlyAmong(returned);
    // An answer that is too long is none that a getter gives.
    for (const at of long) results[at] = { ok: true, data: "0x" };
    return { results, burning, long };
  }

  /** The beginnings of the newest codes of addresses. */
  async codesOn(endpoint: Endpoint, addresses: readonly Address[]): Promise<CodeStart[]> {
    if (addresses.length > FEW_CODES && !this.isWithout(endpoint)) {
      const creation = { to: undefined, data: deploylessCodes(addresses) };
      const { data } = await this.#run(endpoint, creation, "latest");
      const words = data.slice(2).match(/.{64}/g) ?? [];
      if (words.length === addresses.length) return words.map(codeStartOf);
    }
    const ask = (address: Address) => requestParsed(endpoint, "eth_getCode", [address, "latest"], bytesIn);
    const codes = await Promise.all(addresses.map(ask));
    return codes.map((code) => ({
      bytes: code.length / 2 - 1,
      start: code.slice(2, 8).padEnd(6, "0").toLowerCase(),
    }));
  }

  /**
   * A node that doesn't run creation code refuses it in words of its own. Such a refusal fails this call alone, as long as
   * the endpoint answers a call with a target.
   */
  async #run(endpoint: Endpoint, call: Call, tag: string, gas?: number): Promise<CallResult> {
    if (this.isWithout(endpoint)) return FAILED;
    try {
      return await callOn(endpoint, call, tag, { gas });
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal === undefined || refusal === "lie") throw error;
      // A known refusal is an answer. After any other failure a call with a target shows whether the endpoint is well.
      await this.#probing.run(endpoint, () => this.#probe(endpoint, refusal === "known" ? undefined : tag));
      if (refusal === "lost" && !this.isWithout(endpoint)) throw error;
      return FAILED;
    }
  }

  /**
   * Asks whether the endpoint runs any creation code, and notes it if not.
   * @param tag the block at which it must run a call with a target; undefined if that need not be asked
   * @throws RpcError if it runs no call at all at that block
   */
  async #probe(endpoint: Endpoint, tag: string | undefined): Promise<void> {
    // One after the other: it may refuse a whole batch.
    if (tag !== undefined) await callOn(endpoint, { to: ZERO_ADDRESS, data: "0x" }, tag);
    const isRun = await runsCreationCode(endpoint).catch((error: unknown) => {
      if (refusalOf(error) === "stateless") return false;
      throw error;
    });
    if (!isRun) this.#noteWithout(endpoint);
  }

  /** True if the endpoint counts as not running creation code: each such call fails, and it is not asked. */
  isWithout(endpoint: Endpoint): boolean {
    return (this.#without.get(endpoint) ?? 0) > this.#clock.monotonic();
  }

  #noteWithout(endpoint: Endpoint): void {
    this.#without.set(endpoint, this.#clock.monotonic() + CREATIONS_MS);
  }
}

/** Calls whose creation code is longer than a node accepts. */
export class TooLong {
  /** Parts that are short enough, unless their calls differ much in length. */
  readonly parts: number;

  constructor(parts: number) {
    this.parts = parts;
  }
}

/** True if the endpoint runs creation code in an `eth_call` without a target. @throws RpcError if it doesn't answer */
export async function runsCreationCode(endpoint: Endpoint): Promise<boolean> {
  const empty = await callOn(endpoint, { to: undefined, data: deploylessCalls([]) }, "latest").catch(
    (error: unknown) => {
      if (isRefused(error)) return FAILED;
      throw error;
    },
  );
  return !empty.ok && readResults(empty.data, 0) !== undefined;
}

/** Reads a word of deployless.sol: the number of bytes, times 2^24, and the first three bytes. */
const codeStartOf = (word: string): CodeStart => ({ bytes: Number(`0x${word.slice(0, -6)}`), start: word.slice(-6) });
