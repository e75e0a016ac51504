/**
 * Reads state by `eth_call`: many calls in one through Multicall3, else as a JSON-RPC batch. Reads the newest state
 * together with the header of the block that it belongs to.
 */
import { withTimeout } from "../../core/clock.ts";
import { type Address, quantity } from "../../core/hex.ts";
import type { BlockRef } from "../../events/types.ts";
import { aggregateCalls, aggregatedResults, selectorOf } from "../calls.ts";
import type { EndpointPool, RunOptions } from "../endpoint/endpoint-pool.ts";
import type { BlockHeader, BlockTag, Call, CallResult, CallsAtHead, Endpoint, OverriddenCall } from "../port.ts";
import { isStateUnavailable, isUnknownRefusal, RpcError } from "../rpc-errors.ts";
import { benchLaggards, headerFrom, missingBlock, newestHeaderOf } from "./headers.ts";

/** On Arbitrum `block.number` is L1's. A precompile returns the chain's own number (Arbitrum docs, ArbSys). */
const ARBITRUM_CHAIN_ID = 42161;
const ARB_SYS = "0x0000000000000000000000000000000000000064" as Address;
const BLOCK_NUMBER = selectorOf("getBlockNumber()");
const ARB_BLOCK_NUMBER = selectorOf("arbBlockNumber()");
/** Most calls in one `aggregate3`. For small getters this is far below the gas cap of an `eth_call`. */
const MULTICALL_MAX = 500;
/** The bound that is learned goes no lower: a single contract that burns its gas must not make all reads small. */
const MULTICALL_MIN = 100;
/** Calls by which the size grows again with each aggregate of full size that had gas enough. */
const MULTICALL_STEP = 10;

/** A caller that gets no answer at this block can read at the newest one. */
const ATTEMPTS_AT_BLOCK = 2;

/** Reads without Multicall3 after its code was missing. It may be missing only because the node is still syncing. */
const READS_WITHOUT_MULTICALL = 100;

/** Code that returns the word 42: PUSH1 42, MSTORE at 0, RETURN 32. */
const RETURNS_42 = "0x602a60005260206000f3";
/** An endpoint that doesn't take overrides is asked again after this long, in ms. A balancer may have nodes that do. */
const WITHOUT_OVERRIDES_MS = 600_000;

/** Longest time for an overridden call with its retry, in ms: a reader waits for it. */
const OVERRIDDEN_MS = 5_000;

const WORD = /^0x[0-9a-f]{64}$/i;
const WORD_LENGTH = 66;

export interface CallOptions {
  readonly chainId: number;
  /** Undefined if the chain has none: then calls go alone. */
  readonly multicall: Address | undefined;
  /** The block that this process shows as the chain's head. Reads of the newest state must not be older. */
  readonly shownHead?: () => BlockRef | undefined;
}

export class CallReader {
  readonly #pool: EndpointPool;
  readonly #options: CallOptions;
  #readsWithoutMulticall = 0;
  /** Calls for which a node's gas has been enough lately. */
  #most = MULTICALL_MAX;
  /** Monotonic times until which endpoints count as not taking overrides. */
  readonly #withoutOverrides = new WeakMap<Endpoint, number>();

  constructor(pool: EndpointPool, options: CallOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  async calls(calls: readonly Call[], block: BlockTag, options: RunOptions = {}): Promise<CallResult[]> {
    if (calls.length === 0) return [];
    return this.#pool.run((endpoint) => this.#callsOn(endpoint, calls, block), { ...options, meta: { block } });
  }

  async #callsOn(endpoint: Endpoint, calls: readonly Call[], block: BlockTag): Promise<CallResult[]> {
    const tag = block === "latest" ? block : quantity(block);
    if (calls.some(isCreation)) return this.#withCreations(endpoint, calls, block);
    if (calls.length > 1 && this.#mayAggregate()) {
      const chunks: Promise<CallResult[] | undefined>[] = [];
      for (let i = 0, most = this.#most; i < calls.length; i += most) {
        chunks.push(this.#inParts(endpoint, calls.slice(i, i + most), tag));
      }
      const results = await Promise.all(chunks);
      if (results.every((chunk) => chunk !== undefined)) return results.flat();
    }
    return Promise.all(calls.map((call) => this.#single(endpoint, call, tag)));
  }

  /** Creation code runs in a call of its own beside the others, in the same batch. */
  async #withCreations(endpoint: Endpoint, calls: readonly Call[], block: BlockTag): Promise<CallResult[]> {
    const tag = block === "latest" ? block : quantity(block);
    const [others, ...created] = await Promise.all([
      this.#callsOn(
        endpoint,
        calls.filter((one) => !isCreation(one)),
        block,
      ),
      ...calls.filter(isCreation).map((one) => this.#create(endpoint, one, tag)),
    ]);
    return inOrder(calls, created, others);
  }

  /** Like `#single`. A node that does not run such calls refuses them in words of its own, which is no fault of it. */
  async #create(endpoint: Endpoint, call: Call, tag: string): Promise<CallResult & { readonly block?: number }> {
    try {
      const result = await this.#single(endpoint, call, tag);
      const [block, data] = [result.data.slice(0, WORD_LENGTH), `0x${result.data.slice(WORD_LENGTH)}`];
      return result.ok && WORD.test(block) ? { ok: true, data, block: Number(block) } : { ok: false, data: "0x" };
    } catch (error) {
      const isRefused = error instanceof RpcError && !error.retryable && !isStateUnavailable(error);
      if (isRefused) return { ok: false, data: "0x" };
      throw error;
    }
  }

  #mayAggregate(): boolean {
    return this.#options.multicall !== undefined && this.#readsWithoutMulticall-- <= 0;
  }

  /** Runs calls through Multicall3, in halves if they take too much gas. Undefined if it does not exist at that block. */
  async #inParts(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[] | undefined> {
    const [first, second] = calls;
    if (first !== undefined && second === undefined) return [await this.#single(endpoint, first, tag)];
    const results = await this.#aggregate(endpoint, calls, tag);
    if (results !== "out of gas") return results;
    const half = Math.ceil(calls.length / 2);
    this.#most = Math.min(this.#most, Math.max(MULTICALL_MIN, half));
    const halves = [calls.slice(0, half), calls.slice(half)].map((part) => this.#inParts(endpoint, part, tag));
    const parts = await Promise.all(halves);
    return parts.every((part) => part !== undefined) ? parts.flat() : undefined;
  }

  /** Runs calls in one request through Multicall3. Undefined if it does not exist at that block. */
  async #aggregate(
    endpoint: Endpoint,
    calls: readonly Call[],
    tag: string,
  ): Promise<CallResult[] | "out of gas" | undefined> {
    const data = aggregateCalls(calls);
    let returned: string;
    try {
      returned = await requestParsed(endpoint, "eth_call", [{ to: this.#options.multicall, data }, tag], bytesIn);
    } catch (error) {
      // Each call may fail, so only gas makes all of them revert: there are too many, or a contract burns it.
      if (error instanceof RpcError && error.kind === "revert") return "out of gas";
      throw error;
    }
    if (returned === "0x") {
      // At an old block, the contract may only be younger. At the newest block, the chain does not have it.
      if (tag === "latest") this.#readsWithoutMulticall = READS_WITHOUT_MULTICALL;
      return undefined;
    }
    try {
      const results = aggregatedResults(returned, calls.length);
      if (calls.length >= this.#most) this.#most = Math.min(MULTICALL_MAX, this.#most + MULTICALL_STEP);
      return results;
    } catch (cause) {
      throw new RpcError("lie", "the answer of Multicall3 is malformed", { meta: { endpoint: endpoint.label }, cause });
    }
  }

  async #single(
    endpoint: Endpoint,
    { from, to, data: input }: Call & { readonly from?: Address },
    tag: string,
    overrides?: Readonly<Record<string, unknown>>,
  ): Promise<CallResult> {
    try {
      const call = { ...(from && { from }), ...(to && { to }), data: input };
      const params = overrides === undefined ? [call, tag] : [call, tag, overrides];
      const data = await requestParsed(endpoint, "eth_call", params, bytesIn);
      return { ok: true, data };
    } catch (error) {
      if (error instanceof RpcError && error.kind === "revert") return { ok: false, data: error.data ?? "0x" };
      throw error;
    }
  }

  /** Undefined if no endpoint takes overrides. */
  async callOverridden(call: OverriddenCall, block: number): Promise<CallResult | undefined> {
    const ask = (endpoint: Endpoint) => this.#overriddenOn(endpoint, call, quantity(block));
    const run = this.#pool.run(ask, { attempts: ATTEMPTS_AT_BLOCK, meta: { block } }).catch((error: unknown) => {
      if (error instanceof RpcError && error.kind === "unsupported") return undefined;
      throw error;
    });
    const answer = await withTimeout(this.#pool.clock, OVERRIDDEN_MS, run);
    if (answer === undefined) throw new RpcError("late", "the overridden call took too long", { meta: { block } });
    return answer.value;
  }

  async #overriddenOn(endpoint: Endpoint, call: OverriddenCall, tag: string): Promise<CallResult> {
    const now = this.#pool.clock.monotonic();
    if ((this.#withoutOverrides.get(endpoint) ?? now) > now) throw withoutOverrides(endpoint);
    const { from, to, data, accounts } = call;
    const overrides = Object.fromEntries(
      Object.entries(accounts).map(([account, { code, balance }]) => [account, { code, balance: quantity(balance) }]),
    );
    const result = await this.#single(endpoint, { from, to, data }, tag, overrides).catch((error: unknown) => {
      if (isUnknownRefusal(error)) return error;
      throw error;
    });
    // A node that ignores overrides finds no code there.
    if (!(result instanceof RpcError) && result.data !== "0x") return result;
    if (!(await this.#takesOverrides(endpoint, to, tag))) {
      this.#withoutOverrides.set(endpoint, now + WITHOUT_OVERRIDES_MS);
      throw withoutOverrides(endpoint);
    }
    if (result instanceof RpcError) throw result;
    return result;
  }

  /** True if the endpoint runs code that only an override puts there. @throws RpcError if it doesn't answer at all */
  async #takesOverrides(endpoint: Endpoint, to: Address, tag: string): Promise<boolean> {
    const [overridden] = await Promise.all([
      this.#single(endpoint, { to, data: "0x" }, tag, { [to]: { code: RETURNS_42 } }).catch((error: unknown) => {
        if (isUnknownRefusal(error)) return undefined;
        throw error;
      }),
      // Its failure is the endpoint's, whatever it says about overrides.
      this.#single(endpoint, { to, data: "0x" }, tag),
    ]);
    return overridden?.ok === true && WORD.test(overridden.data) && BigInt(overridden.data) === 42n;
  }

  async callsAtBlock(calls: readonly Call[], { number, hash }: BlockRef): Promise<CallsAtHead> {
    const ask = async (endpoint: Endpoint): Promise<CallsAtHead> => {
      const [results, header] = await Promise.all([
        calls.length === 0 ? [] : this.#callsOn(endpoint, calls, number),
        headerFrom(endpoint, number),
      ]);
      // It is behind, or on another branch.
      if (header?.hash !== hash) throw missingBlock(number, endpoint);
      return { header, results };
    };
    return this.#pool.run(ask, { attempts: ATTEMPTS_AT_BLOCK, meta: { block: number } });
  }

  async callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    const pinned = await this.#pool.run((endpoint) => this.#callsPinned(endpoint, calls));
    if (pinned !== undefined) return pinned;
    const header = await this.#pool.run(async (endpoint) => this.#notBehind(await newestHeaderOf(endpoint), endpoint));
    try {
      // No failover: an endpoint that is behind has only the state of its own head.
      return { header, results: await this.calls(calls, header.number, { failover: "none" }) };
    } catch (error) {
      // The endpoint that gave the head is behind, and the other ones have dropped that block's state.
      if (!isStateUnavailable(error) || !(await benchLaggards(this.#pool, header))) throw error;
      const newest = await this.#pool.run(newestHeaderOf);
      return { header: newest, results: await this.calls(calls, newest.number) };
    }
  }

  /** Returns the header. @throws RpcError `transient` if it is older than the block that this process shows as head */
  #notBehind(header: BlockHeader, endpoint: Endpoint): BlockHeader {
    const shown = this.#options.shownHead?.();
    if (shown === undefined || header.number >= shown.number) return header;
    throw new RpcError("transient", `the endpoint is behind block ${shown.number}`, {
      meta: { endpoint: endpoint.label, block: header.number },
    });
  }

  /**
   * Reads head and calls in one batch. Each `aggregate3` also reads the block number, which tells the block that
   * answered, as creation code does. Undefined if Multicall3 is missing, if the calls take too much gas, or if the head
   * moved between two of them.
   */
  async #callsPinned(endpoint: Endpoint, calls: readonly Call[]): Promise<CallsAtHead | undefined> {
    if (!this.#mayAggregate()) return undefined;
    const arbitrum = this.#options.chainId === ARBITRUM_CHAIN_ID;
    const number: Call = arbitrum
      ? { to: ARB_SYS, data: ARB_BLOCK_NUMBER }
      : { to: this.#options.multicall!, data: BLOCK_NUMBER };
    const others = calls.filter((one) => !isCreation(one));
    const chunks: Promise<CallResult[] | "out of gas" | undefined>[] = [];
    for (let i = 0, most = this.#most - 1; i === 0 || i < others.length; i += most) {
      chunks.push(this.#aggregate(endpoint, [number, ...others.slice(i, i + most)], "latest"));
    }
    const creations = calls.filter(isCreation).map((one) => this.#create(endpoint, one, "latest"));
    const [header, created, ...given] = await Promise.all([
      newestHeaderOf(endpoint),
      Promise.all(creations),
      ...chunks,
    ]);
    const answers = given.map((results) => (results === "out of gas" ? undefined : results));
    const blocks = answers.map((results) => {
      const answered = results?.[0];
      return answered?.ok === true && WORD.test(answered.data) ? Number(answered.data) : undefined;
    });
    const [block] = blocks;
    const isOneBlock = [...blocks, ...created.flatMap((one) => one.block ?? [])].every((other) => other === block);
    if (block === undefined || !isOneBlock) return undefined;
    // The head moved between header and calls. That is rare, and one more request settles it.
    const exact = block === header.number ? header : await headerFrom(endpoint, block);
    if (exact === undefined) return undefined;
    this.#notBehind(exact, endpoint);
    return {
      header: exact,
      results: inOrder(
        calls,
        created,
        answers.flatMap((results) => results!.slice(1)),
      ),
    };
  }
}

const withoutOverrides = ({ label: endpoint }: Endpoint): RpcError =>
  new RpcError("unsupported", "the endpoint does not take state overrides", { meta: { endpoint } });

const isCreation = ({ to }: Call): boolean => to === undefined;

/** Puts the results of creation code and those of the other calls in the calls' order. */
function inOrder(calls: readonly Call[], created: readonly CallResult[], others: readonly CallResult[]): CallResult[] {
  const [ofCreations, ofOthers] = [created.values(), others.values()];
  return calls.map((one) => (isCreation(one) ? ofCreations : ofOthers).next().value!);
}

/** Sends a request and reads the answer with `read`. @throws RpcError, of kind `transient` if `read` throws */
export async function requestParsed<T>(
  endpoint: Endpoint,
  method: string,
  params: unknown[],
  read: (answer: unknown) => T,
): Promise<T> {
  const answer = await endpoint.request(method, params);
  try {
    return read(answer);
  } catch (cause) {
    const meta = { endpoint: endpoint.label };
    throw new RpcError("transient", `the answer to ${method} is malformed`, { meta, cause });
  }
}

const BYTES = /^0x[0-9a-f]*$/i;

/** Reads bytes as nodes send them: hex with 0x. @throws TypeError */
export function bytesIn(answer: unknown): string {
  if (typeof answer !== "string" || !BYTES.test(answer)) throw new TypeError("not bytes in hex");
  return answer;
}
