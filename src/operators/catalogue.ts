/**
 * All collections of the log as operators list them, from the headlines of their streams. It hydrates nothing, reads
 * the headlines when it is first asked, and then only those of streams that grew. While nobody asks, it costs nothing.
 */
import type { Chain, Chains } from "../chains/chains.ts";
import type { Address } from "../core/hex.ts";
import { singleFlight } from "../core/work.ts";
import { nftStream, parseStream, type StreamName } from "../events/types.ts";
import { type EventLog, type StreamHead, streamPages } from "../log/event-log.ts";
import { awaitsProof, fromHeadline, type IndexState } from "../nft/collections/headline.ts";
import { doubtOf, historyText } from "../nft/collections/history-words.ts";
import { progressOf } from "../nft/collections/progress.ts";
import { COLLECTION_STATUSES, type CollectionStatus, type ListedCollection } from "./models.ts";

export interface DescribedCollection {
  readonly entry: ListedCollection;
  readonly flags: {
    readonly possibleSpam: boolean;
    readonly verifiedCollection: boolean;
    /** The rules behind the flags; null without a flag. */
    readonly rule: string | null;
  };
}

interface CatalogueFilter {
  readonly chain?: Chain | undefined;
  readonly status?: CollectionStatus | undefined;
  /** Part of the address, the name or the symbol, in lower case. */
  readonly text?: string | undefined;
}

interface CatalogueRow {
  readonly chain: Chain;
  readonly address: Address;
  readonly state: IndexState;
}

interface CatalogueOptions {
  readonly chains: Pick<Chains, "byId">;
  readonly log: Pick<EventLog, "streams" | "heads" | "subscribe">;
  /** Number of tokens of a collection that is in memory. */
  readonly nftsInMemory: (stream: StreamName) => number | undefined;
  /** The first block of a chain whose header doesn't make its hash, as older ones do. */
  readonly headersChangedAt?: (chainId: number) => number | undefined;
}

/** Heads per query. */
const HEADS_AT_ONCE = 1_000;

export class Catalogue {
  readonly #options: CatalogueOptions;
  readonly #rows = new Map<StreamName, CatalogueRow>();
  /** Names of `#rows` in order. */
  #names: StreamName[] = [];
  /** By chain, the streams that are followed; empty after a change. */
  readonly #followed = new Map<number, readonly StreamName[]>();
  /** Streams that grew since their headline was read. */
  #grown = new Set<StreamName>();
  /** True once the headlines are being read. Until then no stream needs to be noted. */
  #isAsked = false;
  #isLoaded = false;
  readonly #read = singleFlight(() => this.#readNow());
  readonly #unsubscribe: () => void;

  constructor(options: CatalogueOptions) {
    this.#options = options;
    this.#unsubscribe = options.log.subscribe((stream) => {
      if (this.#isAsked && stream.startsWith("nft/")) this.#grown.add(stream);
    });
  }

  close(): void {
    this.#unsubscribe();
  }

  /** Number of collections in doubt, as of the last counts. */
  get inDoubt(): number {
    return [...this.#rows.values()].filter(({ state }) => doubtOf(state) !== null).length;
  }

  /** Number of collections by status. */
  async counts(): Promise<Record<CollectionStatus, number>> {
    await this.#read();
    const counts = Object.fromEntries(COLLECTION_STATUSES.map((status) => [status, 0]));
    for (const { state } of this.#rows.values()) {
      const status = statusOf(state);
      counts[status] = (counts[status] ?? 0) + 1;
    }
    return counts as Record<CollectionStatus, number>;
  }

  /**
   * The collections that pass the filter, by chain id and address.
   * @param after the last entry of the page before
   */
  async page(
    filter: CatalogueFilter,
    { after, limit }: { readonly after: StreamName | undefined; readonly limit: number },
  ): Promise<{ readonly entries: readonly ListedCollection[]; readonly next: StreamName | undefined }> {
    await this.#read();
    const entries: ListedCollection[] = [];
    let last: StreamName | undefined;
    for (let at = after === undefined ? 0 : this.#placeAfter(after); at < this.#names.length; at++) {
      const stream = this.#names[at] as StreamName;
      const row = this.#rows.get(stream) as CatalogueRow;
      if (!passes(row, filter)) continue;
      if (entries.length === limit) return { entries, next: last };
      last = stream;
      entries.push(this.#entryOf(stream, row));
    }
    return { entries, next: undefined };
  }

  /** The collections of a chain that are followed, by address. The same list until one of any chain changes. */
  async followed(chainId: number): Promise<readonly StreamName[]> {
    await this.#read();
    const known = this.#followed.get(chainId);
    if (known !== undefined) return known;
    const prefix = `nft/${chainId}/`;
    const found = this.#names.filter((stream) => {
      const row = stream.startsWith(prefix) ? this.#rows.get(stream) : undefined;
      return row !== undefined && statusOf(row.state) === "following";
    });
    this.#followed.set(chainId, found);
    return found;
  }

  /** One collection; undefined if it was never requested. */
  async find(chainId: number, address: Address): Promise<ListedCollection | undefined> {
    return (await this.describe(chainId, address))?.entry;
  }

  /** One collection with its flags; undefined if it was never requested. */
  async describe(chainId: number, address: Address): Promise<DescribedCollection | undefined> {
    // Another process may have appended without a wake-up yet.
    const stream = nftStream(chainId, address);
    const [head] = await this.#options.log.heads([stream]);
    const row = head && rowOf(head, this.#options.chains);
    if (row === undefined) return undefined;
    const { spam, verified, flagRule } = row.state;
    const flags = { possibleSpam: spam, verifiedCollection: verified, rule: flagRule === "" ? null : flagRule };
    return { entry: this.#entryOf(stream, row), flags };
  }

  /** Index of the first name above `after`. */
  #placeAfter(after: StreamName): number {
    let [low, high] = [0, this.#names.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#names[middle] as StreamName) <= after) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  async #readNow(): Promise<void> {
    const { log } = this.#options;
    this.#isAsked = true;
    const known = this.#rows.size;
    if (!this.#isLoaded) {
      for await (const page of streamPages(log, "nft/")) for (const head of page) this.#add(head);
      this.#isLoaded = true;
    }
    const grown = [...this.#grown];
    this.#grown = new Set();
    try {
      for (let at = 0; at < grown.length; at += HEADS_AT_ONCE) {
        for (const head of await log.heads(grown.slice(at, at + HEADS_AT_ONCE))) this.#add(head);
      }
    } catch (error) {
      for (const stream of grown) this.#grown.add(stream);
      throw error;
    }
    if (this.#rows.size > known) this.#names = [...this.#rows.keys()].sort();
  }

  #add(head: StreamHead): void {
    const row = rowOf(head, this.#options.chains);
    if (row === undefined) return;
    const before = this.#rows.get(head.stream);
    if (before === undefined || statusOf(before.state) !== statusOf(row.state)) this.#followed.clear();
    this.#rows.set(head.stream, row);
  }

  #entryOf(stream: StreamName, { chain, address, state }: CatalogueRow): ListedCollection {
    const { name, symbol, transfers, nfts, requestedAt, finishedAt, attempt, lastError, retryAt, calls, bytes } = state;
    const { destroyedAt } = state;
    const status = statusOf(state);
    return {
      chain: chain.name,
      address,
      name,
      symbol,
      type: typeOf(state),
      status,
      ...progressOf(state),
      transfers,
      nfts: this.#options.nftsInMemory(stream) ?? nfts,
      requestedAt: timeText(requestedAt),
      finishedAt: timeText(finishedAt),
      attempts: attempt,
      lastError,
      inDoubt: doubtOf(state),
      history: state.end < 0 ? null : historyText(state, this.#options.headersChangedAt?.(chain.chainId)),
      proof: state.archives === "" ? null : proofOf(state),
      destroyedAt,
      nextTry: status === "failing" ? timeText(retryAt) : null,
      calls,
      bytes,
    };
  }
}

const proofOf = ({ touched, hashed, sampled, byRoot, absent, provenAt, holdings, of, ...state }: IndexState) => ({
  ...{ touched, hashed, sampled, byRoot, absent, block: provenAt, holdings, of, contradicted: state.contradicted },
  isComplete: state.isComplete ?? null,
  witness: state.witness ?? null,
  provableFrom: state.provableFrom ?? null,
});

/** The row of a stream; undefined if it is not a collection of a known chain. */
function rowOf({ stream, headline }: StreamHead, chains: Pick<Chains, "byId">): CatalogueRow | undefined {
  const parsed = parseStream(stream);
  const chain = chains.byId(parsed.chainId);
  if (parsed.kind !== "nft" || chain === undefined) return undefined;
  return { chain, address: parsed.address, state: fromHeadline(headline) };
}

function statusOf(state: IndexState): CollectionStatus {
  const { status, attempt } = state;
  // Pages are not complete either before an archive's history was compared with the contract.
  if (status === "following" && awaitsProof(state)) return "joining";
  const isOpen = status === "requested" || status === "backfilling" || status === "joining";
  if (isOpen && attempt > 0) return "failing";
  return status === "backfilling" ? "indexing" : status;
}

/** The standard of the collection's tokens; null before it is known. A contract may have the logs of several. */
function typeOf({ forms, standard }: IndexState): string | null {
  const family = forms.find((form) => form === "cryptopunks" || form === "mooncats");
  if (family !== undefined) return family.toUpperCase();
  if (forms.length === 0 || standard !== null) return standard;
  if (!forms.includes("erc1155")) return "ERC721";
  return forms.length === 1 ? "ERC1155" : null;
}

function passes({ chain, address, state }: CatalogueRow, { chain: wanted, status, text }: CatalogueFilter): boolean {
  if (wanted !== undefined && wanted.chainId !== chain.chainId) return false;
  if (status !== undefined && statusOf(state) !== status) return false;
  if (text === undefined) return true;
  return [address, state.name, state.symbol].some((part) => part?.toLowerCase().includes(text));
}

const timeText = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
