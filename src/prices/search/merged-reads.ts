/**
 * A reader that merges what the items of one question read in the same turn: calls at one block are one read, in which
 * each call is made once, and so are headers. Prices of a hundred tokens at one block share the pools that tell the dollar.
 */
import { Budget } from "../../core/budget.ts";
import { SingleFlight } from "../../core/work.ts";
import type { BlockRef } from "../../events/types.ts";
import type {
  ArchivedPart,
  BlockHeader,
  BlockTag,
  Call,
  CallResult,
  CallsAtHead,
  ChainLog,
  ChainReader,
  LogFilter,
} from "../../rpc/port.ts";

/** One read for several items, and the place of each item's wants in it. */
export class Gathering<T, R> {
  readonly #nameOf: (one: T) => string;
  readonly #places = new Map<string, number>();
  readonly #wanted: T[] = [];
  readonly #result: Promise<R>;

  /** @param read begins at the end of this turn */
  constructor(nameOf: (one: T) => string, read: (wanted: readonly T[]) => Promise<R>) {
    this.#nameOf = nameOf;
    this.#result = new Promise((resolve) => setImmediate(resolve)).then(() => read(this.#wanted));
  }

  async add(wanted: readonly T[]): Promise<{ readonly result: R; readonly places: readonly number[] }> {
    const places = wanted.map((one) => {
      const name = this.#nameOf(one);
      const place = this.#places.get(name) ?? this.#wanted.push(one) - 1;
      this.#places.set(name, place);
      return place;
    });
    return { result: await this.#result, places };
  }
}

const nameOfCall = ({ to, data, apart = "" }: Call): string => `${to ?? ""} ${data} ${apart}`;

type CallsRead = Pick<CallsAtHead, "results"> & Partial<CallsAtHead>;

/** The reads of one question that have not begun. */
class Merger {
  readonly #reader: ChainReader;
  readonly #question: Budget;
  readonly #calls = new Map<string, Gathering<Call, CallsRead>>();
  readonly #logs = new SingleFlight<
    string,
    { readonly logs: ChainLog[]; readonly archived: readonly ArchivedPart[] }
  >();
  #headers: Gathering<number, readonly (BlockHeader | undefined)[]> | undefined;

  constructor(reader: ChainReader, question: Budget) {
    this.#reader = reader;
    this.#question = question;
  }

  async calls(calls: readonly Call[], block: BlockTag): Promise<CallResult[]> {
    const read = async (all: readonly Call[]) => ({ results: await this.#reader.calls(all, block) });
    return (await this.#callsBy(`tag ${block}`, calls, read)).results;
  }

  callsAtBlock(calls: readonly Call[], block: BlockRef): Promise<CallsAtHead> {
    return this.#callsBy(`block ${block.hash}`, calls, (all) => this.#reader.callsAtBlock(all, block));
  }

  callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    return this.#callsBy("head", calls, (all) => this.#reader.callsAtHead(all));
  }

  async #callsBy<R extends CallsRead>(
    name: string,
    calls: readonly Call[],
    read: (all: readonly Call[]) => Promise<R>,
  ): Promise<R & { readonly results: CallResult[] }> {
    const gathering = this.#calls.getOrInsertComputed(
      name,
      () =>
        new Gathering(nameOfCall, (all) => {
          this.#calls.delete(name);
          return this.#question.run(() => read(all));
        }),
    );
    const { result, places } = await gathering.add(calls);
    return { ...(result as R), results: places.map((place) => result.results[place]!) };
  }

  /** Requests for the same logs that come while they are read share the read. */
  async logs(filter: LogFilter): Promise<ChainLog[]> {
    const { requests: _, onArchived, ...asked } = filter;
    const { logs, archived } = await this.#logs.run(JSON.stringify(asked), async () => {
      const parts: ArchivedPart[] = [];
      return { logs: await this.#reader.logs({ ...filter, onArchived: (part) => parts.push(part) }), archived: parts };
    });
    for (const part of archived) onArchived?.(part);
    return logs;
  }

  async headers(numbers: readonly number[]): Promise<(BlockHeader | undefined)[]> {
    this.#headers ??= new Gathering(String, (all) => {
      this.#headers = undefined;
      return this.#question.run(() => this.#reader.headers(all));
    });
    const { result, places } = await this.#headers.add(numbers);
    return places.map((place) => result[place]);
  }
}

/** Merges the reads that the items of a question make, each on a budget of its own. Other reads begin at once. */
export function mergedReads(reader: ChainReader): ChainReader {
  const mergers = new WeakMap<Budget, Merger>();
  const merger = (): Merger | undefined => {
    const question = Budget.current?.question;
    if (question === undefined || question.items <= 1) return undefined;
    // A read for all items together has none beside it. Naming its twenty thousand calls takes 50 ms.
    if (question === Budget.current) return undefined;
    const known = mergers.get(question) ?? new Merger(reader, question);
    mergers.set(question, known);
    return known;
  };
  const merged: Pick<ChainReader, "calls" | "callsAtBlock" | "callsAtHead" | "header" | "headers" | "logs"> = {
    logs: (filter) => (merger() ?? reader).logs(filter),
    calls: (...asked) => (merger() ?? reader).calls(...asked),
    callsAtBlock: (...asked) => (merger() ?? reader).callsAtBlock(...asked),
    callsAtHead: (...asked) => (merger() ?? reader).callsAtHead(...asked),
    headers: (numbers) => (merger() ?? reader).headers(numbers),
    header: async (number) => {
      const found = (await merger()?.headers([number]))?.[0];
      // A read of many headers asks one endpoint only.
      return found ?? reader.header(number);
    },
  };
  return new Proxy<ChainReader>(reader, {
    get: (target, name) => {
      if (Object.hasOwn(merged, name)) return Reflect.get(merged, name);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
