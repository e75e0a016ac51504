/** Reads state by `eth_call` from the endpoints of a chain: at a block, at the newest one with its header, or on overridden state. */
import { withTimeout } from "../../core/clock.ts";
import { type Address, quantity } from "../../core/hex.ts";
import type { BlockRef } from "../../events/types.ts";
import type { EndpointPool, RunOptions } from "../endpoint/endpoint-pool.ts";
import type {
  BlockHeader,
  BlockTag,
  Call,
  CallResult,
  CallsAtHead,
  CodeStart,
  Endpoint,
  OverriddenCall,
} from "../port.ts";
import { isStateUnavailable, isUnknownRefusal, RpcError, rpcErrorOf } from "../rpc-errors.ts";
import { benchLaggards, headerFrom, missingBlock, newestHeaderOf } from "./headers.ts";
import { ManyCalls } from "./many-calls.ts";
import { callOn } from "./one-call.ts";

/** A caller that gets no answer at this block can read at the newest one. */
const ATTEMPTS_AT_BLOCK = 2;

/** Code that returns the word 42: PUSH1 42, MSTORE at 0, RETURN 32. */
const RETURNS_42 = "0x602a60005260206000f3";
/** An endpoint that doesn't take overrides is asked again after this long, in ms. A balancer may have nodes that do. */
const WITHOUT_OVERRIDES_MS = 600_000;

/** Longest time for an overridden call with its retry, in ms: a reader waits for it. */
const OVERRIDDEN_MS = 5_000;

const WORD = /^0x[0-9a-f]{64}$/i;

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
  readonly #many: ManyCalls;
  /** Monotonic times until which endpoints count as not taking overrides. */
  readonly #withoutOverrides = new WeakMap<Endpoint, number>();

  constructor(pool: EndpointPool, options: CallOptions) {
    this.#pool = pool;
    this.#options = options;
    this.#many = new ManyCalls({ ...options, clock: pool.clock });
  }

  isCostly(address: Address): boolean {
    return this.#many.isCostly(address);
  }

  async codes(addresses: readonly Address[]): Promise<CodeStart[]> {
    return addresses.length === 0 ? [] : this.#pool.run((endpoint) => this.#many.codesOn(endpoint, addresses));
  }

  async calls(calls: readonly Call[], block: BlockTag, options: RunOptions = {}): Promise<CallResult[]> {
    if (calls.length === 0) return [];
    return this.#wherePossible(calls, (needsCreations) =>
      this.#pool.run((endpoint) => this.#many.on(endpoint, calls, block, needsCreations), {
        ...options,
        meta: { block },
      }),
    );
  }

  /** Reads from an endpoint that runs calls without a contract, if there is one and any of the calls is so. */
  async #wherePossible<T>(calls: readonly Call[], read: (needsCreations: boolean) => Promise<T>): Promise<T> {
    const hasChoice = this.#pool.endpoints.length > 1 && calls.some(({ to }) => to === undefined);
    if (!hasChoice) return read(false);
    try {
      return await read(true);
    } catch (error) {
      if (rpcErrorOf(error)?.meta["isCreation"] !== true) throw error;
      return read(false);
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
    const result = await callOn(endpoint, { from, to, data }, tag, { overrides }).catch((error: unknown) => {
      if (isUnknownRefusal(error)) return error;
      throw error;
    });
    // A node that ignores overrides finds no code there.
    if (!(result instanceof RpcError) && !result.ok) await this.#many.assertRuns(endpoint, tag);
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
      callOn(endpoint, { to, data: "0x" }, tag, { overrides: { [to]: { code: RETURNS_42 } } }).catch(
        (error: unknown) => {
          if (isUnknownRefusal(error)) return undefined;
          throw error;
        },
      ),
      // Its failure is the endpoint's, whatever it says about overrides.
      callOn(endpoint, { to, data: "0x" }, tag),
    ]);
    return overridden?.ok === true && WORD.test(overridden.data) && BigInt(overridden.data) === 42n;
  }

  callsAtBlock(calls: readonly Call[], block: BlockRef): Promise<CallsAtHead> {
    return this.#wherePossible(calls, (needsCreations) => this.#callsAt(calls, block, needsCreations));
  }

  #callsAt(calls: readonly Call[], { number, hash }: BlockRef, needsCreations: boolean): Promise<CallsAtHead> {
    const ask = async (endpoint: Endpoint): Promise<CallsAtHead> => {
      const [results, header] = await Promise.all([
        calls.length === 0 ? [] : this.#many.on(endpoint, calls, number, needsCreations),
        headerFrom(endpoint, number),
      ]);
      // It is behind, or on another branch.
      if (header?.hash !== hash) throw missingBlock(number, endpoint);
      return { header, results };
    };
    return this.#pool.run(ask, { attempts: ATTEMPTS_AT_BLOCK, meta: { block: number } });
  }

  async callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    // Asked for before: an operation without a request would count as an answer of the endpoint.
    const pinned = this.#many.mayAggregate()
      ? await this.#wherePossible(calls, (needsCreations) =>
          this.#pool.run((endpoint) => this.#callsPinned(endpoint, calls, needsCreations)),
        )
      : undefined;
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

  /** Reads head and calls in one batch. Undefined if the calls don't tell their block, or not all the same. */
  async #callsPinned(
    endpoint: Endpoint,
    calls: readonly Call[],
    needsCreations: boolean,
  ): Promise<CallsAtHead | undefined> {
    const many = await this.#many.atHead(endpoint, calls, () => newestHeaderOf(endpoint), needsCreations);
    if (many === undefined) return undefined;
    const { block, results, beside: header } = many;
    // The head moved between header and calls. That is rare, and one more request settles it.
    const exact = block === header.number ? header : await headerFrom(endpoint, block);
    if (exact === undefined) return undefined;
    this.#notBehind(exact, endpoint);
    return { header: exact, results };
  }
}

const withoutOverrides = ({ label: endpoint }: Endpoint): RpcError =>
  new RpcError("unsupported", "the endpoint does not take state overrides", { meta: { endpoint } });
