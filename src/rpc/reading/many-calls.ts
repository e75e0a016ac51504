/**
 * Runs many calls in as few requests to an endpoint as possible: through Multicall3, else by creation code, else one by
 * one. Calls of contracts that nobody vouches for, or that were costly, run apart from the others, with little gas.
 */
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { type Address, quantity } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { SingleFlight } from "../../core/work.ts";
import { selectorOf } from "../calls.ts";
import type { BlockTag, Call, CallResult, CodeStart, Endpoint } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import { CostlyContracts } from "./costly-contracts.ts";
import { CreationCalls, TooLong } from "./creation-calls.ts";
import { GasBounds } from "./gas-bounds.ts";
import { encodedParts, Multicall } from "./multicall.ts";
import { callOn } from "./one-call.ts";
import { callRefusable } from "./refused-calls.ts";
import {
  type AssertRuns,
  FAILED,
  isProofOfRun,
  OUT_OF_GAS_RESULT,
  type RunOfMany,
  TOO_LONG_RESULT,
} from "./run-of-many.ts";

/**
 * On Arbitrum and Robinhood Chain, which runs the same software, `block.number` is L1's. A precompile returns the chain's
 * own number (Arbitrum docs, ArbSys).
 */
const NITRO_CHAIN_IDS: ReadonlySet<number> = new Set([42161, 4663]);
const ARB_SYS = "0x0000000000000000000000000000000000000064" as Address;
const BLOCK_NUMBER = selectorOf("getBlockNumber()");
/** The precompile that returns its input. */
export const IDENTITY = "0x0000000000000000000000000000000000000004" as Address;
/** An endpoint that runs calls answers this one with a byte. */
export const NEVER_EMPTY: Call = { to: IDENTITY, data: "0x2a" };
const ARB_BLOCK_NUMBER = selectorOf("arbBlockNumber()");

/**
 * Gas of calls that run apart. It is enough for a hundred lookups of a factory, and bounds their answers: memory costs a
 * fifth of a gas and more for each byte, and they are copied twice.
 */
const APART_GAS = 8_000_000;
/** Gas of a getter of a contract that may be costly. A proxy of a rebasing token takes a tenth of it. */
const GETTER_GAS = 300_000;
/** Most bytes of such a getter's answer. */
const GETTER_BYTES = 4_096;
/** Bounds of each of many texts: large drawings on a chain take a million gas. */
const MANY_TEXTS = { gasEach: 1_200_000, mostBytes: 300_000 };
/** Bounds of a text alone: what most nodes give a call, and the base64 of the largest document that is stored. */
const ONE_TEXT = { gasEach: 50_000_000, mostBytes: 1_500_000 };
/** Calls that are sorted between two turns of the event loop: a millisecond. */
const SORTED_AT_ONCE = 4_000;
/** Getters with bounds in one request: below the bound of creation code. */
const GUARDED_MAX = 150;

/** Calls whose own answers tell soon enough that the endpoint runs calls. */
const FEW = 20;

const WORD = /^0x[0-9a-f]{64}$/i;

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
  /** All questions use what the service learns here about an endpoint, so no single one pays for the call. */
  readonly #assertRunsForAll: AssertRuns = (endpoint, tag = "latest") =>
    Budget.outside(() => this.assertRuns(endpoint, tag));
  readonly #gas: GasBounds;
  readonly #multicall: Multicall;
  readonly #creations: CreationCalls;
  readonly #costly = new CostlyContracts();
  readonly #probing = new SingleFlight<string, void>();

  constructor(options: ManyCallsOptions) {
    this.#options = options;
    this.#gas = new GasBounds(options.clock, options.multicall, this.#assertRunsForAll);
    this.#multicall = new Multicall(options.multicall, this.#gas, this.#assertRunsForAll);
    this.#creations = new CreationCalls(options.clock, this.#gas, this.#assertRunsForAll);
  }

  /**
   * Runs calls at one block, in as few requests as possible.
   * @param needsCreations true to refuse calls without a contract where the endpoint doesn't run them; else they fail alone
   * @throws RpcError `unsupported` with the meta `isCreation`
   */
  async on(endpoint: Endpoint, calls: readonly Call[], block: BlockTag, needsCreations = false): Promise<CallResult[]> {
    const tag = block === "latest" ? block : quantity(block);
    const { groups, nameOf } = await this.#grouped(calls);
    if (needsCreations) this.#creations.assertRunBy(endpoint);
    const results = await Promise.all([...groups].map(([name, own]) => this.#groupOn(endpoint, { name, own, tag })));
    // It has refused them for the first time.
    if (needsCreations) this.#creations.assertRunBy(endpoint);
    const hasAsked = groups.has(CREATIONS) && !this.#creations.isWithout(endpoint);
    if (hasAsked && !results.flat().some(isProofOfRun)) await this.assertRuns(endpoint, tag);
    return inOrder(nameOf, new Map([...groups.keys()].map((name, at) => [name, results[at]!])));
  }

  /** Calls that run together, by name: creation code, what runs apart, and all others. Pauses for the event loop. */
  async #grouped(calls: readonly Call[]): Promise<Grouped> {
    const nameOf: string[] = [];
    const groups = new Map<string, Call[]>();
    for (const call of calls) {
      const name = this.#groupOf(call);
      groups.getOrInsertComputed(name, () => []).push(call);
      if (nameOf.push(name) % SORTED_AT_ONCE === 0) await yieldToEventLoop();
    }
    return { nameOf, groups };
  }

  #groupOf({ to, apart, isGetter, isNew, isText }: Call): string {
    if (to === undefined) return CREATIONS;
    if (isText === true) return TEXTS;
    if (apart !== undefined) return apart;
    if (isNew === true) return NEW;
    return isGetter === true && this.#costly.has(to) ? to : TOGETHER;
  }

  #groupOn(endpoint: Endpoint, { name, own, tag }: CallGroup): Promise<CallResult[]> {
    // Creation code runs in a call of its own beside the others, in the same batch.
    if (name === CREATIONS) return Promise.all(own.map((one) => this.#creations.run(endpoint, one, tag)));
    if (name === TOGETHER) return this.#together(endpoint, own, tag);
    if (name === NEW) return this.#new(endpoint, own, tag);
    if (name === TEXTS) return this.#texts(endpoint, own, tag);
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

  /** Runs getters of long texts with a bound on each, where the node can. One that exceeds its bound may be run alone. */
  async #texts(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[]> {
    const isMany = calls.length > 1;
    const bounds = { tag, ...(isMany ? MANY_TEXTS : ONE_TEXT) };
    const bounded = await this.#creations.runGetters(endpoint, calls, bounds);
    if (bounded !== undefined) {
      for (const at of bounded.burning) bounded.results[at] = OUT_OF_GAS_RESULT;
      for (const at of bounded.long) bounded.results[at] = TOO_LONG_RESULT;
      return bounded.results;
    }
    const together = isMany && this.mayAggregate() ? await this.#multicall.run(endpoint, calls, { tag }) : undefined;
    if (together === "out of gas") return calls.map(() => OUT_OF_GAS_RESULT);
    return together ?? Promise.all(calls.map((call) => this.#text(endpoint, call, tag)));
  }

  async #text(endpoint: Endpoint, call: Call, tag: string): Promise<CallResult> {
    const gas = this.#gas.gasFor(endpoint, [call]);
    const result = await callRefusable(endpoint, call, tag, gas);
    if (!isProofOfRun(result)) await this.assertRuns(endpoint, tag);
    // The endpoint may refuse the bound itself.
    const isAnswer = result.ok || gas === undefined || (await this.#gas.areTakenBy(endpoint));
    return isAnswer ? result : callOn(endpoint, call, tag);
  }

  async #together(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[]> {
    if (calls.length > 1) {
      const encoded = await encodedParts(chunked(calls, this.#multicall.most));
      const parts = await Promise.all(
        encoded.map(({ part, data }) => this.#inParts(endpoint, part, { tag, data, isOneOfMany: encoded.length > 1 })),
      );
      if (parts.every((part) => part !== undefined)) return parts.flat();
    }
    return this.#oneByOne(endpoint, calls, tag);
  }

  /**
   * An account without code has an empty answer to each call, and a contract may revert each. So does everything on a node
   * that runs none.
   * @throws RpcError `transient` if the endpoint runs no calls
   */
  async #oneByOne(endpoint: Endpoint, calls: readonly Call[], tag: string, gas?: number): Promise<CallResult[]> {
    // None of the ways to join calls works here. That may mean that no call does, and a question pays for all of them.
    const isAskedBefore = calls.length > FEW;
    if (isAskedBefore) await this.assertRuns(endpoint, tag);
    const results = await Promise.all(calls.map((call) => callOn(endpoint, call, tag, { gas })));
    if (!isAskedBefore && !results.some(isProofOfRun)) await this.assertRuns(endpoint, tag);
    return results;
  }

  /** @throws RpcError `transient` if the endpoint answers nothing, or reverts, to a call that never does either */
  assertRuns(endpoint: Endpoint, tag: string): Promise<void> {
    return this.#probing.run(`${endpoint.label} ${tag}`, async () => {
      if (isProofOfRun(await callOn(endpoint, NEVER_EMPTY, tag))) return;
      // Some chains lack the precompile, and they have Multicall3.
      const { multicall } = this.#options;
      if (multicall && isProofOfRun(await callOn(endpoint, { to: multicall, data: BLOCK_NUMBER }, tag))) return;
      throw new RpcError("transient", "the endpoint runs no calls", { meta: { endpoint: endpoint.label } });
    });
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
      return shared ?? Promise.all(calls.map((call) => callRefusable(endpoint, call, tag, APART_GAS)));
    }
    return results ?? this.#oneByOne(endpoint, calls, tag, APART_GAS);
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
    if (needsCreations) this.#creations.assertRunBy(endpoint);
    const number: Call = NITRO_CHAIN_IDS.has(this.#options.chainId)
      ? { to: ARB_SYS, data: ARB_BLOCK_NUMBER, isGetter: true }
      : { to: this.#options.multicall!, data: BLOCK_NUMBER, isGetter: true };
    const { groups, nameOf } = await this.#grouped(calls);
    const together = groups.get(TOGETHER) ?? [];
    const parts = together.length === 0 ? [[]] : chunked(together, this.#multicall.most - 1);
    const encoded = await encodedParts(parts.map((part) => [number, ...part]));
    const apart = [...groups].filter(([name]) => name !== TOGETHER && name !== CREATIONS);
    const isOneOfMany = encoded.length > 1;
    const [other, created, given] = await Promise.all([
      beside(),
      Promise.all((groups.get(CREATIONS) ?? []).map((one) => this.#creations.run(endpoint, one, "latest"))),
      Promise.all([
        ...encoded.map(({ part, data }) => this.#withNumber(endpoint, part, { data, isOneOfMany })),
        ...apart.map(([name, own]) =>
          name === NEW || this.#costly.has(name as Address)
            ? this.#boundedWithNumber(endpoint, number, own)
            : this.#withNumber(endpoint, [number, ...own], { gas: APART_GAS }),
        ),
      ]),
    ]);
    if (needsCreations) this.#creations.assertRunBy(endpoint);
    if (!given.every((one) => one !== undefined)) return undefined;
    const [block, ...others] = [...given, ...created].flatMap((one) => one.block ?? []);
    if (block === undefined || others.some((other) => other !== block)) return undefined;
    const ofParts = given.slice(0, encoded.length).flatMap(({ results }) => results);
    const ofApart = apart.map(([name], at) => [name, given[encoded.length + at]!.results] as const);
    const results = new Map<string, readonly CallResult[]>([[CREATIONS, created], [TOGETHER, ofParts], ...ofApart]);
    for (const [name, own] of groups) if (name !== CREATIONS) this.#costly.noteLongAnswers(own, results.get(name)!);
    return { block, results: await inOrder(nameOf, results), beside: other };
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
    let answers = await this.#multicall.run(endpoint, calls, { tag: "latest", ...run });
    if (answers === "out of gas" && run.gas !== undefined) {
      if (!calls.every(isOwnGetter)) return { results: calls.slice(1).map(() => FAILED), block: undefined };
      answers = await this.#inShares(endpoint, calls, "latest");
    }
    if (typeof answers !== "object") return undefined;
    const [number, ...results] = answers;
    return number?.ok === true && WORD.test(number.data) ? { results, block: Number(number.data) } : undefined;
  }

  /** The beginnings of the newest codes of addresses. */
  codesOn(endpoint: Endpoint, addresses: readonly Address[]): Promise<CodeStart[]> {
    return this.#creations.codesOn(endpoint, addresses);
  }

  /** False while Multicall3 counts as missing. Call it once for each read. */
  mayAggregate(): boolean {
    return this.#multicall.mayRun();
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
      this.#costly.note(first!.to!);
      return this.#apart(endpoint, calls, tag);
    }
    this.#multicall.tookTooMuch(calls.length);
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
    const { results, burning } = found;
    const byContract = Map.groupBy(burning, (at) => calls[at]!.to!);
    const again = [...byContract].map(async ([contract, places]) => {
      this.#costly.note(contract);
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

  /** Runs getters with a bound on each. Undefined if the node can't. */
  async #bounded(endpoint: Endpoint, calls: readonly Call[], run: { readonly tag: string; readonly gasEach: number }) {
    const found = await this.#creations.runGetters(endpoint, calls, { ...run, mostBytes: GETTER_BYTES });
    for (const at of found?.long ?? []) this.#costly.note(calls[at]!.to!);
    return found;
  }

  /** Runs a single call. A getter that fails alone, after all of them took too much gas, counts as the one that took it. */
  async #alone(endpoint: Endpoint, call: Call, { tag, isPart = false }: RunOfMany): Promise<CallResult> {
    if (!isPart || call.isGetter !== true) return callOn(endpoint, call, tag);
    const result = await callRefusable(endpoint, call, tag, this.#gas.gasFor(endpoint, [call], { gas: APART_GAS }));
    if (!result.ok && call.to !== undefined) this.#costly.note(call.to);
    return result;
  }

  /** Runs calls in one request: through Multicall3, else by creation code. Undefined if the node runs neither at that block. */
  async #aggregate(
    endpoint: Endpoint,
    calls: readonly Call[],
    run: RunOfMany,
  ): Promise<CallResult[] | TooLong | "out of gas" | undefined> {
    const results =
      (this.mayAggregate() ? await this.#multicall.run(endpoint, calls, run) : undefined) ??
      (await this.#creations.runMany(endpoint, calls, run));
    if (Array.isArray(results)) this.#costly.noteLongAnswers(calls, results);
    return results;
  }
}

/** True for a getter that runs apart only while its contract counts as costly. */
const isOwnGetter = ({ isGetter, apart }: Call): boolean => isGetter === true && apart === undefined;

/** Groups of calls beside those that run apart. */
const [CREATIONS, TOGETHER, NEW, TEXTS] = ["creations", "together", "new", "texts"] as const;

interface Grouped {
  readonly groups: ReadonlyMap<string, readonly Call[]>;
  /** The name of each call's group, in the calls' order. */
  readonly nameOf: readonly string[];
}

/** Puts the results of groups in the calls' order. */
async function inOrder(
  nameOf: readonly string[],
  results: ReadonlyMap<string, readonly CallResult[]>,
): Promise<CallResult[]> {
  const next = new Map([...results].map(([name, own]) => [name, own.values()]));
  const ordered: CallResult[] = [];
  for (const name of nameOf) {
    if (ordered.push(next.get(name)!.next().value!) % SORTED_AT_ONCE === 0) await yieldToEventLoop();
  }
  return ordered;
}

interface CallGroup {
  readonly name: string;
  readonly own: readonly Call[];
  readonly tag: string;
}

const chunked = (calls: readonly Call[], most: number): (readonly Call[])[] =>
  Array.from({ length: Math.ceil(calls.length / most) }, (_, at) => calls.slice(at * most, (at + 1) * most));
