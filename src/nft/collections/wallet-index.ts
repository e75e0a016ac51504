/**
 * Which collections an address may hold tokens of: a filter per collection over all addresses that its transfers name. It
 * is made when it is first asked for, of the ledgers in memory and else of the log, in slices, and then follows the log.
 * It never misses a holder: what an address gave away, or a reorganisation took back, stays in a filter.
 */
import { assertWanted, runInSlices } from "../../core/turns.ts";
import { SingleFlight } from "../../core/work.ts";
import { addressesIn } from "../../events/columns.ts";
import type { NftEvent, Recorded, StreamName } from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import { AddressFilter, type AddressProbe, probeOf } from "./address-filter.ts";
import { type Collection, ledgersOf } from "./collection.ts";
import { fromHeadline } from "./headline.ts";
import type { HotCollections } from "./hot-collections.ts";

interface WalletIndexOptions {
  readonly log: Pick<EventLog, "read" | "head" | "subscribe">;
  readonly projections: Pick<HotCollections, "peek">;
  /** Bytes of all filters together. */
  readonly maxBytes: number;
}

/** Addresses that are added per slice: about a millisecond. */
const PER_SLICE = 16_384;
/** Memory of an entry beside its filter. */
const ENTRY_BYTES = 200;

/** A collection whose filter has no room is looked into whenever any wallet is asked about. */
type WalletFilter = AddressFilter | "unknown";

export class WalletIndex {
  readonly #options: WalletIndexOptions;
  readonly #entries = new Map<StreamName, WalletFilter>();
  readonly #making = new SingleFlight<StreamName, void>();
  /** Streams that grew while their filter is being made. */
  readonly #grown = new Set<StreamName>();
  readonly #unsubscribe: () => void;
  #bytes = 0;
  /** By chain, counts what may change an answer: any event of a collection. */
  readonly #versions = new Map<number, number>();

  constructor(options: WalletIndexOptions) {
    this.#options = options;
    this.#unsubscribe = options.log.subscribe((stream, _version, appended) => this.#onWakeUp(stream, appended));
  }

  close(): void {
    this.#unsubscribe();
  }

  /** Bytes of the filters. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A number that changes with any event of the chain's collections. */
  versionOf(chainId: number): number {
    return this.#versions.get(chainId) ?? 0;
  }

  /** Those of the collections that the owner may hold tokens of, in their order. Makes the filters that are missing. */
  async candidates(streams: readonly StreamName[], owner: string): Promise<StreamName[]> {
    const missing = streams.filter((stream) => !this.#entries.has(stream));
    for (const stream of missing) await this.#making.run(stream, () => this.#make(stream));
    const probe: AddressProbe = probeOf(owner);
    return streams.filter((stream) => {
      const entry = this.#entries.get(stream);
      // One that was dropped meanwhile may hold anything.
      return entry === undefined || entry === "unknown" || entry.mayHave(probe);
    });
  }

  async #make(stream: StreamName): Promise<void> {
    for (;;) {
      this.#grown.delete(stream);
      const hot = this.#options.projections.peek(stream);
      const entry = hot === undefined ? await this.#ofLog(stream) : await this.#ofMemory(stream, hot);
      // The stream grew while it was read: its new addresses may be missing.
      if (this.#grown.delete(stream)) continue;
      this.#set(stream, entry);
      return;
    }
  }

  /** Takes the addresses of a collection's ledgers, and of the events that it has not folded yet. */
  async #ofMemory(stream: StreamName, hot: Collection): Promise<WalletFilter> {
    const { version } = hot;
    const tables = ledgersOf(hot).map(({ addresses }) => addresses);
    const entry = this.#filterFor(tables.reduce((sum, { count }) => sum + count, 0));
    if (entry === "unknown") return entry;
    await runInSlices(filled(entry, tables));
    for await (const addresses of this.#readFrom(stream, version + 1)) entry.addBytes(addresses);
    return entry;
  }

  #filterFor(count: number): WalletFilter {
    const fits = this.#bytes + AddressFilter.bytesFor(count) + ENTRY_BYTES <= this.#options.maxBytes;
    return fits ? new AddressFilter(count) : "unknown";
  }

  /** Reads the addresses of a collection that is not in memory, without folding its transfers. */
  async #ofLog(stream: StreamName): Promise<WalletFilter> {
    const { log } = this.#options;
    const { base } = fromHeadline((await log.head(stream)).headline);
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const addresses of this.#readFrom(stream, Math.max(1, base))) {
      parts.push(addresses);
      bytes += addresses.length;
      // An address that comes in several events counts for each of them, so this is a bound.
      if (AddressFilter.bytesFor(bytes / 20) > this.#options.maxBytes) return "unknown";
    }
    const entry = this.#filterFor(bytes / 20);
    if (entry !== "unknown") for (const part of parts) await runInSlices(filledWith(entry, part));
    return entry;
  }

  /** The addresses that each event of a stream names, from a version on. */
  async *#readFrom(stream: StreamName, version: number): AsyncGenerator<Uint8Array> {
    for (let from = version; ; ) {
      const page = (await this.#options.log.read(stream, { from })) as readonly Recorded<NftEvent>[];
      for (const { event } of page) if (event.type === "TransfersCommitted") yield addressesIn(event.transfers);
      const last = page.at(-1);
      if (last === undefined) return;
      from = last.version + 1;
      assertWanted();
    }
  }

  #set(stream: StreamName, entry: WalletFilter): void {
    this.#drop(stream);
    this.#entries.set(stream, entry);
    this.#bytes += bytesOf(entry);
  }

  #drop(stream: StreamName): void {
    const entry = this.#entries.get(stream);
    if (entry === undefined) return;
    this.#bytes -= bytesOf(entry);
    this.#entries.delete(stream);
  }

  #onWakeUp(stream: StreamName, appended: readonly Recorded[] | undefined): void {
    if (!stream.startsWith("nft/")) return;
    const chainId = Number(stream.split("/")[1]);
    this.#versions.set(chainId, this.versionOf(chainId) + 1);
    if (this.#making.has(stream)) this.#grown.add(stream);
    const entry = this.#entries.get(stream);
    if (entry === undefined) return;
    // The event of another process has to be read from the log.
    let isDue = appended === undefined;
    if (entry !== "unknown") {
      for (const { event } of appended ?? []) {
        if (event.type === "TransfersCommitted") entry.addBytes(addressesIn(event.transfers));
      }
      isDue ||= entry.isFull;
    }
    if (isDue) this.#drop(stream);
  }
}

const bytesOf = (entry: WalletFilter): number => ENTRY_BYTES + (entry === "unknown" ? 0 : entry.bytes);

interface Addresses {
  readonly count: number;
  visit(from: number, to: number, visit: (words: Int32Array, at: number) => void): void;
}

/** Adds the addresses of the tables, in slices. */
function* filled(entry: AddressFilter, tables: readonly Addresses[]): Generator<void, void> {
  const add = (words: Int32Array, at: number) => entry.add(words, at);
  for (const table of tables) {
    for (let from = 0; from < table.count; from += PER_SLICE) {
      table.visit(from, from + PER_SLICE, add);
      yield;
    }
  }
}

function* filledWith(filter: AddressFilter, addresses: Uint8Array): Generator<void, void> {
  for (let from = 0; from < addresses.length; from += PER_SLICE * 20) {
    filter.addBytes(addresses.subarray(from, from + PER_SLICE * 20));
    yield;
  }
}
