/**
 * Runs many calls in one request to an endpoint: through Multicall3, else by creation code, else one by one. Calls of
 * contracts that nobody vouches for, or that were costly, run apart from the others, with little gas.
 */
import { LRUCache } from "lru-cache";
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { type Address, quantity, ZERO_ADDRESS } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { SingleFlight } from "../../core/work.ts";
import {
  aggregateCalls,
  aggregatedResults,
  costlyAmong,
  deploylessCalls,
  deploylessCodes,
  deploylessGetters,
  selectorOf,
} from "../calls.ts";
import type { BlockTag, Call, CallResult, CodeStart, Endpoint } from "../port.ts";
import { isStateUnavailable, isUnknownRefusal, RpcError, type RpcErrorKind } from "../rpc-errors.ts";
import { bytesIn, callOn, requestParsed } from "./one-call.ts";

/**
 * On Arbitrum and Robinhood Chain, which runs the same software, `block.number` is L1's. A precompile returns the chain's
 * own number (Arbitrum docs, ArbSys).
 */
const NITRO_CHAIN_IDS: ReadonlySet<number> = new Set([42161, 4663]);
const ARB_SYS = "0x0000000000000000000000000000000000000064" as Address;
const BLOCK_NUMBER = selectorOf("getBlockNumber()");
const ARB_BLOCK_NUMBER = selectorOf("arbBlockNumber()");
/** Most calls in one `aggregate3`. For small getters this is far below the gas cap of an `eth_call`. */
const MULTICALL_MAX = 500;
/** The bound that is learned goes no lower: a single contract that burns its gas must not make all reads small. */
const MULTICALL_MIN = 100;
/** Calls by which the size grows again with each aggregate of full size that had gas enough. */
const MULTICALL_STEP = 10;

/** Reads without Multicall3 after its code was missing. It may be missing only because the node is still syncing. */
const READS_WITHOUT_MULTICALL = 100;

/**
 * Gas of calls that run apart. It is enough for a hundred lookups of a factory, and bounds their answers: memory costs a
 * fifth of a gas and more for each byte, and they are copied twice.
 */
const APART_GAS = 8_000_000;
/**
 * Gas of many getters in one call: 50,000 for each. Nodes give 50 million and more, which a contract that burns it would turn
 * into seconds. Some refuse more than their block's gas limit, which is 30 million on development nodes.
 */
const GETTERS_GAS = 25_000_000;
/** Gas and bytes of a getter of a contract that may be costly. A proxy of a rebasing token takes a tenth of the gas. */
const [GETTER_GAS, GETTER_BYTES] = [300_000, 4_096] as const;
/** Getters with bounds in one request: below the bound of creation code. */
const GUARDED_MAX = 150;
/** An endpoint is asked again after this long if it counts gas like others do, in ms. */
const GAS_MS = 600_000;
/** An answer of a getter that is longer than this is long, in hex digits. A name has some dozens of characters. */
const LONG_ANSWER = 2 << 10;
/** Longest long answers of one contract's getters in one read. */
const MAX_LONG_ANSWERS = 32 << 10;
/** Costly contracts are noted for this long, in ms. */
const COSTLY_MS = 600_000;
const MAX_COSTLY = 10_000;
/** Creation code that a node accepts, in hex digits (EIP-3860: 49,152 bytes). */
const MAX_CREATION = 2 * 49_152;
/** An endpoint is asked again after this long if it runs creation code, in ms. A balancer may have nodes that do. */
const CREATIONS_MS = 600_000;
/** Below this many addresses their code is asked for one by one. */
const FEW_CODES = 3;

const WORD = /^0x[0-9a-f]{64}$/i;
const WORD_LENGTH = 66;

interface ManyCallsOptions {
  readonly clock: Clock;
  readonly chainId: number;
  /** Undefined if the chain has none. */
  readonly multicall: Address | undefined;
}

/** Results in the calls' order, and the block that they are of. */
interface NumberedResults {
  readonly results: CallResult[];
  readonly block: number;
}

export class ManyCalls {
  readonly #options: ManyCallsOptions;
  #readsWithoutMulticall = 0;
  /** Calls for which a node's gas has been enough lately. */
  #most = MULTICALL_MAX;
  /** Contracts whose getters took too much gas or gave too long answers lately. */
  readonly #costly = new LRUCache<Address, true>({ max: MAX_COSTLY, ttl: COSTLY_MS });
  /** Whether endpoints run calls with a bound on gas, and until which monotonic time that is known. */
  readonly #gas = new WeakMap<Endpoint, { readonly isUsual: boolean; readonly until: number }>();
  /** Monotonic times until which endpoints count as not running creation code. */
  readonly #withoutCreations = new WeakMap<Endpoint, number>();
  readonly #probing = new SingleFlight<Endpoint, void>();

  constructor(options: ManyCallsOptions) {
    this.#options = options;
  }

  /**
   * Runs calls at one block, in as few requests as possible.
   * @param needsCreations true to refuse calls without a contract where the endpoint doesn't run them; else they fail alone
   * @throws RpcError `unsupported` with the meta `isCreation`
   */
  async on(endpoint: Endpoint, calls: readonly Call[], block: BlockTag, needsCreations = false): Promise<CallResult[]> {
    const tag = block === "latest" ? block : quantity(block);
    const { groups, nameOf } = this.#grouped(calls);
    if (needsCreations) this.#assertCreations(endpoint);
    const results = await Promise.all([...groups].map(([name, own]) => this.#groupOn(endpoint, { name, own, tag })));
    // It has refused them for the first time.
    if (needsCreations) this.#assertCreations(endpoint);
    return inOrder(nameOf, new Map([...groups.keys()].map((name, at) => [name, results[at]!])));
  }

  /** Calls that run together, by name: creation code, what runs apart, and all others. */
  #grouped(calls: readonly Call[]): Grouped {
    const nameOf = calls.map((one) => this.#groupOf(one));
    return { nameOf, groups: Map.groupBy(calls, (_, at) => nameOf[at]!) };
  }

  #groupOf({ to, apart, isGetter, isNew }: Call): string {
    if (to === undefined) return CREATIONS;
    if (apart !== undefined) return apart;
    if (isNew === true) return NEW;
    return isGetter === true && this.#costly.has(to) ? to : TOGETHER;
  }

  #groupOn(endpoint: Endpoint, { name, own, tag }: CallGroup): Promise<CallResult[]> {
    // Creation code runs in a call of its own beside the others, in the same batch.
    if (name === CREATIONS) return Promise.all(own.map((one) => this.#create(endpoint, one, tag)));
    if (name === TOGETHER) return this.#together(endpoint, own, tag);
    if (name === NEW) return this.#new(endpoint, own, tag);
    // Getters that are costly alone are bounded one by one.
    return this.#costly.has(name as Address) ? this.#new(endpoint, own, tag) : this.#apart(endpoint, own, tag);
  }

  /** Runs getters with a bound on each, where the node can. */
  async #new(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[]> {
    const parts = await Promise.all(
      chunked(calls, GUARDED_MAX).map(async (part) => {
        const guarded = await this.#guarded(endpoint, part, tag);
        return guarded ?? this.#together(endpoint, part, tag);
      }),
    );
    return parts.flat();
  }

  async #together(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[]> {
    if (calls.length > 1) {
      const encoded = await encodedParts(chunked(calls, this.#most));
      const parts = await Promise.all(
        encoded.map(({ part, data }) => this.#inParts(endpoint, part, { tag, data, isOneOfMany: encoded.length > 1 })),
      );
      if (parts.every((part) => part !== undefined)) return parts.flat();
    }
    return Promise.all(calls.map((call) => callOn(endpoint, call, tag)));
  }

  /**
   * Runs calls in one request with little gas. If it is not enough, each getter of a costly contract gets a share of it, and
   * calls of a contract that nobody vouches for all fail.
   */
  async #apart(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[]> {
    const results = calls.length > 1 ? await this.#aggregate(endpoint, calls, { tag, gas: APART_GAS }) : undefined;
    if (results instanceof TooLong) {
      const parts = chunked(calls, Math.ceil(calls.length / results.parts));
      return (await Promise.all(parts.map((part) => this.#apart(endpoint, part, tag)))).flat();
    }
    if (results === "out of gas") {
      if (!calls.every(isOwnGetter)) return calls.map(() => FAILED);
      const shared = await this.#inShares(endpoint, calls, tag);
      return shared ?? Promise.all(calls.map((call) => this.#refusable(endpoint, call, tag, APART_GAS)));
    }
    return results ?? Promise.all(calls.map((call) => callOn(endpoint, call, tag, { gas: APART_GAS })));
  }

  /**
   * Runs a costly contract's getters in one request, each with its share of the gas: one that takes all of it, as an
   * unknown function of an old contract does, leaves the other ones theirs. Undefined if the node can't run them like this.
   */
  async #inShares(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[] | undefined> {
    const found = await this.#bounded(endpoint, calls, { tag, gasEach: Math.floor(APART_GAS / calls.length) });
    return found?.results;
  }

  isCostly(address: Address): boolean {
    return this.#costly.has(address);
  }

  /** Notes the contracts whose getters gave too long answers. */
  #noteCostly(calls: readonly Call[], results: readonly CallResult[]): void {
    const digits = new Map<Address, number>();
    for (const [at, { to, isGetter }] of calls.entries()) {
      const { length } = results[at]!.data;
      if (to === undefined || isGetter !== true || length < LONG_ANSWER) continue;
      const sum = (digits.get(to) ?? 0) + length;
      digits.set(to, sum);
      if (sum > MAX_LONG_ANSWERS) this.#costly.set(to, true);
    }
  }

  /**
   * Runs calls at the newest block, and tells its number: each `aggregate3` reads it, too, and so does creation code.
   * Undefined if Multicall3 is missing, if the calls take too much gas, or if the head moved between two of them.
   * @param beside makes another request in the same batch
   */
  async atHead<T>(
    endpoint: Endpoint,
    calls: readonly Call[],
    beside: () => Promise<T>,
    needsCreations = false,
  ): Promise<(NumberedResults & { readonly beside: T }) | undefined> {
    if (needsCreations) this.#assertCreations(endpoint);
    const number: Call = NITRO_CHAIN_IDS.has(this.#options.chainId)
      ? { to: ARB_SYS, data: ARB_BLOCK_NUMBER, isGetter: true }
      : { to: this.#options.multicall!, data: BLOCK_NUMBER, isGetter: true };
    const { groups, nameOf } = this.#grouped(calls);
    const together = groups.get(TOGETHER) ?? [];
    const parts = together.length === 0 ? [[]] : chunked(together, this.#most - 1);
    const encoded = await encodedParts(parts.map((part) => [number, ...part]));
    const apart = [...groups].filter(([name]) => name !== TOGETHER && name !== CREATIONS);
    const isOneOfMany = encoded.length > 1;
    const [other, created, given] = await Promise.all([
      beside(),
      Promise.all((groups.get(CREATIONS) ?? []).map((one) => this.#create(endpoint, one, "latest"))),
      Promise.all([
        ...encoded.map(({ part, data }) => this.#withNumber(endpoint, part, { data, isOneOfMany })),
        ...apart.map(([name, own]) =>
          name === NEW || this.#costly.has(name as Address)
            ? this.#boundedWithNumber(endpoint, number, own)
            : this.#withNumber(endpoint, [number, ...own], { gas: APART_GAS }),
        ),
      ]),
    ]);
    if (needsCreations) this.#assertCreations(endpoint);
    if (!given.every((one) => one !== undefined)) return undefined;
    const [block, ...others] = [...given, ...created].flatMap((one) => one.block ?? []);
    if (block === undefined || others.some((other) => other !== block)) return undefined;
    const ofParts = given.slice(0, encoded.length).flatMap(({ results }) => results);
    const ofApart = apart.map(([name], at) => [name, given[encoded.length + at]!.results] as const);
    const results = new Map<string, readonly CallResult[]>([[CREATIONS, created], [TOGETHER, ofParts], ...ofApart]);
    for (const [name, own] of groups) if (name !== CREATIONS) this.#noteCostly(own, results.get(name)!);
    return { block, results: inOrder(nameOf, results), beside: other };
  }

  /** Runs getters with a bound on each at the newest block, and tells its number. Undefined if the node can't. */
  async #boundedWithNumber(endpoint: Endpoint, number: Call, getters: readonly Call[]) {
    const parts = await Promise.all(
      chunked(getters, GUARDED_MAX).map((part) => this.#guarded(endpoint, [number, ...part], "latest")),
    );
    const blocks = parts.map((part) => (part?.[0]?.ok === true ? Number(part[0].data) : undefined));
    const [block] = blocks;
    if (block === undefined || blocks.some((other) => other !== block)) return undefined;
    return { results: parts.flatMap((part) => part!.slice(1)), block };
  }

  /**
   * Runs calls at the newest block; the first one tells its number. Undefined if it doesn't, or if the calls take too much
   * gas together. Calls of contracts that nobody vouches for fail then, at whichever block.
   */
  async #withNumber(
    endpoint: Endpoint,
    calls: readonly Call[],
    run: Omit<RunOfMany, "tag">,
  ): Promise<{ readonly results: readonly CallResult[]; readonly block: number | undefined } | undefined> {
    let answers = await this.#byContract(endpoint, calls, { tag: "latest", ...run });
    if (answers === "out of gas" && run.gas !== undefined) {
      if (!calls.every(isOwnGetter)) return { results: calls.slice(1).map(() => FAILED), block: undefined };
      answers = await this.#inShares(endpoint, calls, "latest");
    }
    if (typeof answers !== "object") return undefined;
    const [number, ...results] = answers;
    return number?.ok === true && WORD.test(number.data) ? { results, block: Number(number.data) } : undefined;
  }
  /** The beginnings of the newest codes of addresses. */
  async codesOn(endpoint: Endpoint, addresses: readonly Address[]): Promise<CodeStart[]> {
    if (addresses.length > FEW_CODES && !this.#isWithoutCreations(endpoint)) {
      const creation = { to: undefined, data: deploylessCodes(addresses) };
      const { data } = await this.#creation(endpoint, creation, "latest");
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

  async #create(endpoint: Endpoint, call: Call, tag: string): Promise<CallResult & { readonly block?: number }> {
    const result = await this.#creation(endpoint, call, tag);
    const [block, data] = [result.data.slice(0, WORD_LENGTH), `0x${result.data.slice(WORD_LENGTH)}`];
    return result.ok && WORD.test(block) ? { ok: true, data, block: Number(block) } : FAILED;
  }

  /**
   * Runs creation code, which is an option of nodes. A node that doesn't run it refuses it in words of its own. Such a
   * refusal fails this call alone, as long as the endpoint answers a call with a target.
   */
  async #creation(endpoint: Endpoint, call: Call, tag: string, gas?: number): Promise<CallResult> {
    if (this.#isWithoutCreations(endpoint)) return FAILED;
    try {
      return await callOn(endpoint, call, tag, { gas });
    } catch (error) {
      if (!(error instanceof RpcError) || NO_REFUSALS.includes(error.kind)) throw error;
      // A known refusal is an answer. After any other failure a call with a target shows whether the endpoint is well.
      const isAnswer = !error.retryable && !isStateUnavailable(error);
      await this.#probing.run(endpoint, () => this.#probeCreations(endpoint, isAnswer ? undefined : tag));
      const isLost = error.retryable && !isUnknownRefusal(error);
      if (isLost && !this.#isWithoutCreations(endpoint)) throw error;
      return FAILED;
    }
  }

  /**
   * Asks whether the endpoint runs any creation code, and notes it if not.
   * @param tag the block at which it must run a call with a target; undefined if that need not be asked
   * @throws RpcError if it runs no call at all at that block
   */
  async #probeCreations(endpoint: Endpoint, tag: string | undefined): Promise<void> {
    // One after the other: it may refuse a whole batch.
    if (tag !== undefined) await callOn(endpoint, { to: ZERO_ADDRESS, data: "0x" }, tag);
    const isRun = await runsCreationCode(endpoint).catch((error: unknown) => {
      if (error instanceof RpcError && !NO_REFUSALS.includes(error.kind)) return false;
      throw error;
    });
    if (!isRun) this.#noteWithoutCreations(endpoint);
  }

  /** @throws RpcError `unsupported` if the endpoint doesn't run creation code */
  #assertCreations(endpoint: Endpoint): void {
    if (!this.#isWithoutCreations(endpoint)) return;
    throw new RpcError("unsupported", "the endpoint does not run calls without a contract", {
      meta: { endpoint: endpoint.label, isCreation: true },
    });
  }

  #noteWithoutCreations(endpoint: Endpoint): void {
    this.#withoutCreations.set(endpoint, this.#options.clock.monotonic() + CREATIONS_MS);
  }

  async #refusable(endpoint: Endpoint, call: Call, tag: string, gas?: number): Promise<CallResult> {
    try {
      return await callOn(endpoint, call, tag, { gas });
    } catch (error) {
      const isRefused = error instanceof RpcError && !error.retryable && !isStateUnavailable(error);
      if (isRefused) return FAILED;
      throw error;
    }
  }

  /** False while Multicall3 counts as missing. Call it once for each read. */
  mayAggregate(): boolean {
    return this.#options.multicall !== undefined && this.#readsWithoutMulticall-- <= 0;
  }

  /** Runs calls in one request, in halves if they take too much gas. Undefined if the node can't run many in one. */
  async #inParts(endpoint: Endpoint, calls: readonly Call[], run: RunOfMany): Promise<CallResult[] | undefined> {
    const { tag } = run;
    const [first, second] = calls;
    if (first !== undefined && second === undefined) return [await this.#alone(endpoint, first, run)];
    const results = await this.#aggregate(endpoint, calls, run);
    if (results instanceof TooLong) return this.#divided(endpoint, calls, { ...run, parts: results.parts });
    if (results !== "out of gas") return results;
    if (calls.every(({ isGetter }) => isGetter === true)) {
      const guarded = await this.#guarded(endpoint, calls, tag);
      if (guarded !== undefined) return guarded;
    }
    // One contract's getters need little gas, however many there are. They get it apart from now on.
    if (calls.every(({ to, isGetter }) => isGetter === true && to === first?.to)) {
      this.#costly.set(first!.to!, true);
      return this.#apart(endpoint, calls, tag);
    }
    this.#most = Math.min(this.#most, Math.max(MULTICALL_MIN, Math.ceil(calls.length / 2)));
    return this.#divided(endpoint, calls, { tag, isPart: true, parts: 2 });
  }

  async #divided(
    endpoint: Endpoint,
    calls: readonly Call[],
    { tag, isPart = false, parts }: Pick<RunOfMany, "tag" | "isPart"> & { readonly parts: number },
  ): Promise<CallResult[] | undefined> {
    const some = chunked(calls, Math.ceil(calls.length / parts));
    const results = await Promise.all(some.map((part) => this.#inParts(endpoint, part, { tag, isPart })));
    return results.every((part) => part !== undefined) ? results.flat() : undefined;
  }

  /** Runs getters with a bound on each, and apart those that need more. Undefined if the node can't run so many like this. */
  async #guarded(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[] | undefined> {
    const found = await this.#bounded(endpoint, calls, { tag, gasEach: GETTER_GAS });
    if (found === undefined) return undefined;
    const { results, costly } = found;
    const byContract = Map.groupBy(costly, (at) => calls[at]!.to!);
    const again = [...byContract].map(async ([contract, places]) => {
      this.#costly.set(contract, true);
      const own = await this.#apart(
        endpoint,
        places.map((at) => calls[at]!),
        tag,
      );
      for (const [nth, at] of places.entries()) results[at] = own[nth]!;
    });
    await Promise.all(again);
    return results;
  }

  /** Runs getters with a bound on each. `costly`: the places of those that need more. Undefined if the node can't. */
  async #bounded(
    endpoint: Endpoint,
    calls: readonly Call[],
    { tag, gasEach }: { readonly tag: string; readonly gasEach: number },
  ): Promise<{ readonly results: CallResult[]; readonly costly: readonly number[] } | undefined> {
    if (this.#isWithoutCreations(endpoint)) return undefined;
    const data = deploylessGetters(calls, gasEach, GETTER_BYTES);
    if (data.length > MAX_CREATION) return undefined;
    const { ok, data: returned } = await this.#creation(endpoint, { to: undefined, data }, tag);
    const results = ok ? undefined : readResults(returned, calls.length);
    if (results === undefined) return undefined;
    const { burning, long } = costlyAmong(returned);
    for (const at of long) {
      this.#costly.set(calls[at]!.to!, true);
      // An answer that is too long is none that a getter gives.
      results[at] = { ok: true, data: "0x" };
    }
    return { results, costly: burning };
  }

  /** Runs a single call. A getter that fails alone, after all of them took too much gas, counts as the one that took it. */
  async #alone(endpoint: Endpoint, call: Call, { tag, isPart = false }: RunOfMany): Promise<CallResult> {
    if (!isPart || call.isGetter !== true) return callOn(endpoint, call, tag);
    const result = await this.#refusable(endpoint, call, tag, this.#gasFor(endpoint, [call], { gas: APART_GAS }));
    if (!result.ok && call.to !== undefined) this.#costly.set(call.to, true);
    return result;
  }

  /** Runs calls in one request: through Multicall3, else by creation code. Undefined if the node runs neither at that block. */
  async #aggregate(
    endpoint: Endpoint,
    calls: readonly Call[],
    run: RunOfMany,
  ): Promise<CallResult[] | TooLong | "out of gas" | undefined> {
    const results =
      (this.mayAggregate() ? await this.#byContract(endpoint, calls, run) : undefined) ??
      (await this.#byCreation(endpoint, calls, run));
    if (Array.isArray(results)) this.#noteCostly(calls, results);
    return results;
  }

  /** Undefined if Multicall3 does not exist at that block. */
  async #byContract(
    endpoint: Endpoint,
    calls: readonly Call[],
    run: RunOfMany,
  ): Promise<CallResult[] | "out of gas" | undefined> {
    const { tag, isOneOfMany, data = Budget.timed(() => aggregateCalls(calls)) } = run;
    const gas = this.#gasFor(endpoint, calls, run);
    const returned = await this.#multicall(endpoint, data, tag, gas).catch(async (error: unknown) => {
      // The endpoint may refuse the bound itself.
      if (gas === undefined || !isRefusal(error) || (await this.#takesGas(endpoint))) throw error;
      return undefined;
    });
    if (returned === undefined) return this.#byContract(endpoint, calls, run);
    if (returned === "out of gas") {
      const isEnough = gas === undefined || (await this.#takesGas(endpoint));
      return isEnough ? returned : this.#byContract(endpoint, calls, run);
    }
    if (returned === "0x") {
      // At an old block, the contract may only be younger. At the newest block, the chain does not have it.
      if (tag === "latest") this.#readsWithoutMulticall = READS_WITHOUT_MULTICALL;
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

  /** Returns what Multicall3 returns: nothing if it does not exist at that block. */
  async #multicall(endpoint: Endpoint, data: string, tag: string, gas: number | undefined): Promise<string> {
    try {
      const call = { to: this.#options.multicall, data, ...(gas && { gas: quantity(gas) }) };
      return await requestParsed(endpoint, "eth_call", [call, tag], bytesIn);
    } catch (error) {
      // Each call may fail, so only gas makes all of them revert: there are too many, or a contract burns it.
      if (error instanceof RpcError && error.kind === "revert") return "out of gas";
      throw error;
    }
  }

  /** The gas of many calls; undefined for as much as the node gives. */
  #gasFor(endpoint: Endpoint, calls: readonly Call[], { gas }: Pick<RunOfMany, "gas">): number | undefined {
    const { isUsual, until } = this.#gas.get(endpoint) ?? { isUsual: true, until: 0 };
    if (!isUsual && until > this.#options.clock.monotonic()) return undefined;
    return gas ?? (calls.every(({ isGetter }) => isGetter === true) ? GETTERS_GAS : undefined);
  }

  /**
   * False if the endpoint runs no call at all with a bound on gas. Some chains count the cost of the data as gas, and some
   * nodes refuse a bound above their own.
   */
  async #takesGas(endpoint: Endpoint): Promise<boolean> {
    const now = this.#options.clock.monotonic();
    const known = this.#gas.get(endpoint);
    if (known !== undefined && known.until > now) return known.isUsual;
    const { multicall: to } = this.#options;
    const data = to === undefined ? deploylessCalls([]) : aggregateCalls([]);
    const ran = await callOn(endpoint, { to, data }, "latest", { gas: GETTERS_GAS }).catch((error: unknown) => {
      if (isRefusal(error)) return FAILED;
      throw error;
    });
    const isUsual = ran.ok || (to === undefined && readResults(ran.data, 0) !== undefined);
    this.#gas.set(endpoint, { isUsual, until: now + GAS_MS });
    return isUsual;
  }

  /** Undefined if the endpoint doesn't run creation code. */
  async #byCreation(
    endpoint: Endpoint,
    calls: readonly Call[],
    { tag, gas = this.#gasFor(endpoint, calls, {}), isOneOfMany }: RunOfMany,
  ): Promise<CallResult[] | TooLong | "out of gas" | undefined> {
    if (this.#isWithoutCreations(endpoint)) return undefined;
    const creation = Budget.timed(() => deploylessCalls(calls));
    if (creation.length > MAX_CREATION) return new TooLong(Math.ceil(creation.length / MAX_CREATION));
    const { ok, data } = await this.#creation(endpoint, { to: undefined, data: creation }, tag, gas);
    if (this.#isWithoutCreations(endpoint)) return undefined;
    if (isOneOfMany === true) await yieldToEventLoop();
    const results = ok ? undefined : readResults(data, calls.length);
    if (results !== undefined) return results;
    if (gas !== undefined && !(await this.#takesGas(endpoint))) return this.#byCreation(endpoint, calls, { tag });
    // A node that doesn't run creation code runs none without a call either.
    const empty = await this.#refusable(endpoint, { to: undefined, data: deploylessCalls([]) }, "latest");
    if (!empty.ok && readResults(empty.data, 0) !== undefined) return "out of gas";
    this.#noteWithoutCreations(endpoint);
    return undefined;
  }

  #isWithoutCreations(endpoint: Endpoint): boolean {
    return (this.#withoutCreations.get(endpoint) ?? 0) > this.#options.clock.monotonic();
  }
}

/** True for a getter that runs apart only while its contract counts as costly. */
const isOwnGetter = ({ isGetter, apart }: Call): boolean => isGetter === true && apart === undefined;

const FAILED: CallResult = { ok: false, data: "0x" };

/** Failures that say nothing about what an endpoint can do. */
const NO_REFUSALS: readonly RpcErrorKind[] = ["rate", "late", "lie"];

/** Groups of calls beside those that run apart. */
const [CREATIONS, TOGETHER, NEW] = ["creations", "together", "new"] as const;

interface Grouped {
  readonly groups: ReadonlyMap<string, readonly Call[]>;
  /** The name of each call's group, in the calls' order. */
  readonly nameOf: readonly string[];
}

/** Puts the results of groups in the calls' order. */
function inOrder(nameOf: readonly string[], results: ReadonlyMap<string, readonly CallResult[]>): CallResult[] {
  const next = new Map([...results].map(([name, own]) => [name, own.values()]));
  return nameOf.map((name) => next.get(name)!.next().value!);
}

/** Calls whose creation code is longer than a node accepts. */
class TooLong {
  /** Parts that are short enough, unless their calls differ much in length. */
  readonly parts: number;

  constructor(parts: number) {
    this.parts = parts;
  }
}

interface CallGroup {
  readonly name: string;
  readonly own: readonly Call[];
  readonly tag: string;
}

interface RunOfMany {
  readonly tag: string;
  /** Undefined: as much as the node gives. */
  readonly gas?: number;
  /** True if more lists of calls are answered at the same time: each is decoded in a turn of its own. */
  readonly isOneOfMany?: boolean;
  /** True for a part of calls that took too much gas together. */
  readonly isPart?: boolean;
  /** The calls as the data of `aggregate3`, if they are encoded already. */
  readonly data?: string;
}

const chunked = (calls: readonly Call[], most: number): (readonly Call[])[] =>
  Array.from({ length: Math.ceil(calls.length / most) }, (_, at) => calls.slice(at * most, (at + 1) * most));

/** Lists of 500 calls that are encoded without a pause: some milliseconds. */
const ENCODED_AT_ONCE = 4;

/** Encodes lists of calls, with pauses for the event loop. All are sent together then, in as few batches as possible. */
async function encodedParts(parts: readonly (readonly Call[])[]) {
  const encoded: { readonly part: readonly Call[]; readonly data: string }[] = [];
  for (const [at, part] of parts.entries()) {
    if (at > 0 && at % ENCODED_AT_ONCE === 0) await yieldToEventLoop();
    encoded.push({ part, data: Budget.timed(() => aggregateCalls(part)) });
  }
  return encoded;
}

/** True if an endpoint answered that it doesn't run a call like this, in whichever words. */
const isRefusal = (error: unknown): error is RpcError =>
  error instanceof RpcError && !isStateUnavailable(error) && error.kind !== "late" && error.kind !== "rate";

/** True if the endpoint runs creation code in an `eth_call` without a target. @throws RpcError if it doesn't answer */
export async function runsCreationCode(endpoint: Endpoint): Promise<boolean> {
  const empty = await callOn(endpoint, { to: undefined, data: deploylessCalls([]) }, "latest").catch(
    (error: unknown) => {
      if (isRefusal(error)) return FAILED;
      throw error;
    },
  );
  return !empty.ok && readResults(empty.data, 0) !== undefined;
}

/** Undefined if the data are no results of so many calls. */
function readResults(data: string, calls: number): CallResult[] | undefined {
  try {
    return Budget.timed(() => aggregatedResults(data, calls));
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Reads a word of deployless.sol: the number of bytes, times 2^24, and the first three bytes. */
const codeStartOf = (word: string): CodeStart => ({ bytes: Number(`0x${word.slice(0, -6)}`), start: word.slice(-6) });
