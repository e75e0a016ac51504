/** The client: the two operations, the routes for operators, and live messages. */
import { Feed } from "./feed.ts";
import { type ClientOptions, type Query, Requests } from "./requests.ts";
import type { SubscribeOptions, Subscription } from "./subscription.ts";
import type {
  CollectionDetails,
  CollectionEstimate,
  CollectionList,
  Holder,
  HolderList,
  IndexAnswer,
  Key,
  KeyRequest,
  KeyText,
  KnownToken,
  KnownTokenList,
  ListedCollection,
  NftPage,
  NftRecord,
  PriceSeries,
  ServiceStatus,
  TokenDetails,
  TokenList,
  TokenPrice,
  TraitList,
} from "./types.ts";

interface Cancelled {
  readonly signal?: AbortSignal;
}

/** Parameters of a listing, as the API names them. */
export interface NftQuery extends Cancelled {
  /** Name or code of the chain. Default: eth. */
  readonly chain?: string;
  readonly format?: "decimal" | "hex";
  readonly limit?: number;
  readonly totalRanges?: number;
  readonly range?: number;
  readonly cursor?: string;
  readonly normalizeMetadata?: boolean;
  readonly media_items?: boolean;
  readonly disable_total?: boolean;
  /** A record per token and owner. */
  readonly holders?: boolean;
  readonly as_of_block?: number;
  readonly metadata_as_of?: string;
}

/** Parameters of a price, as the API names them. */
export interface PriceQuery extends Cancelled {
  /** Name or code of the chain. Default: eth. */
  readonly chain?: string;
  readonly include?: readonly string[];
  readonly exchange?: string;
  readonly to_block?: number;
  readonly min_liquidity_usd?: number;
}

/** The block that an answer is valid for. */
export interface AsOf {
  readonly block: number;
  readonly hash: string | null;
  readonly time: string | null;
  /** `stale` while the server is cut off from its log. */
  readonly finality: "finalized" | "latest" | "stale";
}

/** An answer with the block that it is valid for; null if it depends on none. */
export type Answer<T> = T & { readonly asOf: AsOf | null };

export interface CollectionQuery extends Cancelled {
  readonly chain?: string;
  readonly status?: ListedCollection["status"];
  readonly text?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface PageQuery extends Cancelled {
  readonly as_of_block?: number;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface TokenQuery extends PageQuery {
  readonly owner?: string;
  /** Each `Type:Value`. */
  readonly trait?: readonly string[];
}

export interface TokenDetailsQuery extends PageQuery {
  /** ISO time: the metadata as it was known then. */
  readonly metadata_as_of?: string;
}

export interface SeriesQuery extends Cancelled {
  /** A block, or an ISO time. Default: 24 hours before `to`. */
  readonly from?: number | string;
  /** A block, or an ISO time. Default: the newest block. */
  readonly to?: number | string;
  /** At most 200. Default 50. */
  readonly points?: number;
  /** True for prices that are stored only: they come at once, and other points have none. */
  readonly stored?: boolean;
}

export interface ExportQuery extends Cancelled {
  readonly format?: "csv" | "jsonl" | "parquet";
  /** A row per owner in place of a row per token. */
  readonly holders?: boolean;
  /** Default: the newest final block that has the collection, else the newest shown one. */
  readonly as_of_block?: number;
}

/** A contract on a chain. */
export interface Contract {
  readonly chain?: string;
  readonly address: string;
}

export class Client {
  readonly #requests: Requests;
  readonly #feed: Feed;

  constructor(options: ClientOptions) {
    this.#requests = new Requests(options);
    this.#feed = new Feed(options);
  }

  /** Returns one page of a collection's NFTs. @throws ServiceError */
  async nftPage(address: string, { signal, ...query }: NftQuery = {}): Promise<Answer<NftPage>> {
    const { body, headers } = await this.#get<NftPage>(`/api/v2/nft/${address}`, query, signal);
    return { ...body, asOf: asOfHeaders(headers) };
  }

  /**
   * Yields the pages of a listing, all as of the block of the first one. @throws ServiceError `cursor_reorged` if that
   * block left the chain meanwhile
   */
  async *nftPages(address: string, query: NftQuery = {}): AsyncGenerator<Answer<NftPage>> {
    yield* pages((cursor) => this.nftPage(address, { ...query, ...cursor }), query);
  }

  /** Yields all NFTs of a collection as of one block. @throws ServiceError */
  async *nfts(address: string, query: NftQuery = {}): AsyncGenerator<NftRecord> {
    for await (const { result } of this.nftPages(address, query)) yield* result;
  }

  /** Returns the price of a token. @throws ServiceError */
  async price(address: string, { signal, include, ...query }: PriceQuery = {}): Promise<Answer<TokenPrice>> {
    const asked = { ...query, include: include?.join(",") };
    const { body, headers } = await this.#get<TokenPrice>(`/api/v2/erc20/${address}/price`, asked, signal);
    return { ...body, asOf: asOfHeaders(headers) };
  }

  /** Returns one page of a collection's owners by what they hold. @throws ServiceError */
  async holderPage(contract: Contract, { signal, ...query }: PageQuery = {}): Promise<Answer<HolderList>> {
    const { body, headers } = await this.#get<HolderList>(`${pathOf(contract)}/holders`, query, signal);
    return { ...body, asOf: asOfHeaders(headers) };
  }

  /** Returns the prices of a token at evenly spaced blocks. @throws ServiceError */
  async priceSeries({ chain = "eth", address }: Contract, query: SeriesQuery = {}): Promise<PriceSeries> {
    const { signal, ...asked } = query;
    const path = `/api/prices/${encodeURIComponent(chain)}/${address}/series`;
    return (await this.#get<PriceSeries>(path, asked, signal)).body;
  }

  /** Returns ERC-20 tokens whose address, symbol or name has the text. @throws ServiceError */
  async findTokens(
    text: string,
    { limit, signal }: Cancelled & { readonly limit?: number } = {},
  ): Promise<readonly KnownToken[]> {
    return (await this.#get<KnownTokenList>("/api/tokens", { text, limit }, signal)).body.result;
  }

  /** Yields the owners of a collection by what they hold, all as of one block. @throws ServiceError */
  async *holders(contract: Contract, query: PageQuery = {}): AsyncGenerator<Holder> {
    for await (const { result } of pages((cursor) => this.holderPage(contract, { ...query, ...cursor }), query))
      yield* result;
  }

  /** Returns one page of the tokens of an owner, or of those with certain traits. @throws ServiceError */
  async tokenPage(contract: Contract, { signal, ...query }: TokenQuery = {}): Promise<Answer<TokenList>> {
    const { body, headers } = await this.#get<TokenList>(`${pathOf(contract)}/tokens`, query, signal);
    return { ...body, asOf: asOfHeaders(headers) };
  }

  /** Yields the tokens of an owner, or those with certain traits (`Type:Value`), as of one block. @throws ServiceError */
  async *tokens(contract: Contract, query: TokenQuery = {}): AsyncGenerator<NftRecord> {
    for await (const { result } of pages((cursor) => this.tokenPage(contract, { ...query, ...cursor }), query))
      yield* result;
  }

  /** Returns a collection's progress, flags and metadata. @throws ServiceError */
  async collection(contract: Contract, { signal }: Cancelled = {}): Promise<CollectionDetails> {
    return (await this.#get<CollectionDetails>(pathOf(contract), {}, signal)).body;
  }

  /** Returns a token with its newest transfers, and a cursor for older ones. @throws ServiceError */
  async token(
    contract: Contract,
    id: string | bigint,
    { signal, ...query }: TokenDetailsQuery = {},
  ): Promise<TokenDetails> {
    return (await this.#get<TokenDetails>(`${pathOf(contract)}/tokens/${id}`, query, signal)).body;
  }

  /** Returns how many tokens have which trait. @throws ServiceError */
  async traits(contract: Contract, { signal }: Cancelled = {}): Promise<TraitList> {
    return (await this.#get<TraitList>(`${pathOf(contract)}/traits`, {}, signal)).body;
  }

  /**
   * Returns the file of a collection at one block: all its tokens, or its owners. Its body arrives as it is read.
   * @throws ServiceError
   */
  exported(contract: Contract, { signal, ...query }: ExportQuery): Promise<Response> {
    return this.#requests.response(`${pathOf(contract)}/export`, { query, signal });
  }

  /**
   * Subscribes to the messages of a collection, over as few sockets as the service allows. An unknown one gets indexed.
   * @throws TypeError if it is subscribed to already, or the runtime has no WebSocket
   */
  subscribe(address: string, options: SubscribeOptions = {}): Subscription {
    return this.#feed.subscribe(address, options);
  }

  /** Ends all subscriptions. */
  close(): void {
    this.#feed.close();
  }

  /** Returns the state of the service. For keys of scope `operate`, like all further methods. @throws ServiceError */
  async status({ signal }: Cancelled = {}): Promise<ServiceStatus> {
    return (await this.#get<ServiceStatus>("/api/status", {}, signal)).body;
  }

  /** Returns one page of the known collections. @throws ServiceError */
  async collectionPage({ signal, ...query }: CollectionQuery = {}): Promise<CollectionList> {
    return (await this.#get<CollectionList>("/api/collections", query, signal)).body;
  }

  /** Yields the known collections. @throws ServiceError */
  async *collections(query: CollectionQuery = {}): AsyncGenerator<ListedCollection> {
    for await (const { result } of pages((cursor) => this.collectionPage({ ...query, ...cursor }), query))
      yield* result;
  }

  /** Requests the indexing of at most 500 collections. Returns what each was before. @throws ServiceError */
  async index(contracts: readonly Contract[]): Promise<IndexAnswer> {
    const items = contracts.map(({ chain = "eth", address }) => ({ chain, address }));
    return (await this.#requests.json<IndexAnswer>("/api/collections", { method: "POST", body: { items } })).body;
  }

  /** Returns what indexing a contract would cost. @throws ServiceError */
  async estimate(contract: Contract, { signal }: Cancelled = {}): Promise<CollectionEstimate> {
    return (await this.#get<CollectionEstimate>(`${pathOf(contract)}/estimate`, {}, signal)).body;
  }

  /** Has a collection indexed anew. @throws ServiceError */
  async reindex(contract: Contract): Promise<void> {
    await this.#requests.response(`${pathOf(contract)}/reindex`, { method: "POST" });
  }

  /** Has the metadata of at most 500 tokens fetched again, by default of all. @throws ServiceError */
  async refresh(contract: Contract, tokenIds?: readonly string[]): Promise<void> {
    const body = tokenIds === undefined ? {} : { tokenIds };
    await this.#requests.response(`${pathOf(contract)}/refresh`, { method: "POST", body });
  }

  /** Stops following a collection. @throws ServiceError */
  async remove(contract: Contract): Promise<void> {
    await this.#requests.response(pathOf(contract), { method: "DELETE" });
  }

  /** Returns the API keys, without their texts. @throws ServiceError */
  async keys({ signal }: Cancelled = {}): Promise<readonly Key[]> {
    return (await this.#get<{ result: readonly Key[] }>("/api/keys", {}, signal)).body.result;
  }

  /** Adds a key. Its text is in this answer only. @throws ServiceError */
  async addKey(key: KeyRequest): Promise<KeyText> {
    return (await this.#requests.json<KeyText>("/api/keys", { method: "POST", body: key })).body;
  }

  /** Gives a key a new text. The former one stays valid for a while. @throws ServiceError */
  async rotateKey(name: string, graceSeconds?: number): Promise<KeyText> {
    const body = graceSeconds === undefined ? {} : { graceSeconds };
    const path = `/api/keys/${encodeURIComponent(name)}/rotate`;
    return (await this.#requests.json<KeyText>(path, { method: "POST", body })).body;
  }

  /** Revokes a key and closes its sockets. @throws ServiceError */
  async revokeKey(name: string): Promise<void> {
    await this.#requests.response(`/api/keys/${encodeURIComponent(name)}`, { method: "DELETE" });
  }

  #get<T>(path: string, query: Query, signal: AbortSignal | undefined): Promise<{ body: T; headers: Headers }> {
    return this.#requests.json<T>(path, { query, signal });
  }
}

/** Yields a page and all that follow it. */
async function* pages<T extends { readonly cursor: string | null }>(
  load: (at: { readonly cursor?: string }) => Promise<T>,
  { cursor: first }: { readonly cursor?: string },
): AsyncGenerator<T> {
  for (
    let page = await load(first === undefined ? {} : { cursor: first });
    ;
    page = await load({ cursor: page.cursor })
  ) {
    yield page;
    if (page.cursor === null) return;
  }
}

const pathOf = ({ chain = "eth", address }: Contract): string =>
  `/api/collections/${encodeURIComponent(chain)}/${address}`;

function asOfHeaders(headers: Headers): AsOf | null {
  const block = headers.get("x-as-of-block");
  if (block === null) return null;
  return {
    block: Number(block),
    hash: headers.get("x-as-of-hash"),
    time: headers.get("x-as-of-time"),
    finality: headers.get("x-finality") as AsOf["finality"],
  };
}
