/** The client: the operations of the service, walks over their pages, and live messages. */
import type { Answer, AsOf, CallOf, Cancelled, QueryOf } from "./calls.ts";
import { Feed } from "./feed.ts";
import { HostedOperations } from "./hosted.ts";
import { pages, rowsOf } from "./pages.ts";
import { type ClientOptions, type Query, Requests, type ServiceError } from "./requests.ts";
import type { PriceFeedMessage, PriceSubscribeOptions, SubscribeOptions, Subscription } from "./subscription.ts";
import type { CollectionTransfer, Holder, Key, KnownToken, ListedCollection, NftRecord, Operations } from "./types.ts";

type AnswerOf<Name extends keyof Operations> = Operations[Name]["answer"];

const NFTS = "GET /api/v2/nft/:address";
const PRICE = "GET /api/v2/erc20/:address/price";
const PRICES = "POST /api/v2/erc20/prices";
const HOLDERS = "GET /api/collections/:chain/:address/holders";
const TOKENS = "GET /api/collections/:chain/:address/tokens";
const TOKEN = "GET /api/collections/:chain/:address/tokens/:id";
const TRANSFERS = "GET /api/collections/:chain/:address/transfers";
const TOKEN_TRANSFERS = "GET /api/collections/:chain/:address/tokens/:id/transfers";
const TOKEN_HOLDERS = "GET /api/collections/:chain/:address/tokens/:id/holders";
const SERIES = "GET /api/prices/:chain/:address/series";
const EXPORT = "GET /api/collections/:chain/:address/export";
const PROOFS = "GET /api/collections/:chain/:address/proofs";
const COLLECTIONS = "GET /api/collections";

/** Parameters of a listing, as the API names them. */
export type NftQuery = QueryOf<typeof NFTS>;
/** Parameters of a price, as the API names them. */
export type PriceQuery = Omit<QueryOf<typeof PRICE>, "include"> & { readonly include?: readonly string[] };
/** Parameters of many prices. */
export type PricesQuery = Omit<QueryOf<typeof PRICES>, "include"> & { readonly include?: readonly string[] };
export type CollectionQuery = QueryOf<typeof COLLECTIONS>;
export type PageQuery = QueryOf<typeof HOLDERS>;
export type TokenQuery = QueryOf<typeof TOKENS>;
export type TokenDetailsQuery = QueryOf<typeof TOKEN>;
export type TransfersQuery = QueryOf<typeof TRANSFERS>;
export type TokenTransfersQuery = QueryOf<typeof TOKEN_TRANSFERS>;
export type ExportQuery = QueryOf<typeof EXPORT>;
export type KeptProofsQuery = QueryOf<typeof PROOFS>;
/** Parameters of a series. Its ends are blocks or ISO times. */
export type SeriesQuery = Omit<QueryOf<typeof SERIES>, "from" | "to"> & {
  readonly from?: number | string;
  readonly to?: number | string;
};

type CallArguments<Name extends keyof Operations> =
  Record<never, never> extends CallOf<Name> ? [request?: CallOf<Name>] : [request: CallOf<Name>];

/** A contract on a chain. */
export interface Contract {
  readonly chain?: string;
  readonly address: string;
}

export class Client {
  /** The operations around a listing and a price, in the hosted service's form. */
  readonly hosted = new HostedOperations((name, request) =>
    this.call(name, ...([request] as CallArguments<typeof name>)),
  );
  readonly #requests: Requests;
  readonly #feed: Feed;
  readonly #onChainState: ClientOptions["onChainState"];
  /** Chains whose last answer was that they can't be read. */
  readonly #unreachable = new Set<string>();

  constructor(options: ClientOptions) {
    this.#onChainState = options.onChainState;
    this.#requests = new Requests(options);
    this.#feed = new Feed(options);
  }

  /**
   * Calls any operation by its method and path, as the API's document names them: `client.call("GET /api/keys")`.
   * @throws ServiceError
   */
  async call<Name extends keyof Operations>(
    name: Name,
    ...[request = {} as CallOf<Name>]: CallArguments<Name>
  ): Promise<Answer<AnswerOf<Name>>> {
    const [path, sent] = sentOf(name, request);
    const onRefusal = (error: ServiceError) => this.#chainRefused(chainOf(request), error);
    const { body, headers } = await this.#requests.json<AnswerOf<Name>>(path, { ...sent, onRefusal });
    const asOf = asOfHeaders(headers);
    const trouble = headers.get("x-chain-status") ?? undefined;
    // An answer without a block tells nothing of the chain.
    if (asOf !== null || trouble !== undefined) this.#chainAnswered(chainOf(request), trouble);
    return Object.assign(body as AnswerOf<Name> & object, { asOf });
  }

  #chainAnswered(chain: string, trouble: string | undefined): void {
    this.#unreachable.delete(chain);
    this.#onChainState?.(chain, trouble);
  }

  #chainRefused(chain: string, { status, code, details }: ServiceError): void {
    if (code === "chain_unavailable") {
      this.#unreachable.add(chain);
      this.#onChainState?.(chain, String(details?.["state"] ?? "unreachable"));
      // Any other code of this status was read from the chain.
    } else if (status === 404 && code !== "not_found" && this.#unreachable.has(chain)) {
      this.#chainAnswered(chain, undefined);
    }
  }

  /** Returns one page of a collection's NFTs. @throws ServiceError */
  nftPage(address: string, { signal, ...query }: NftQuery = {}) {
    return this.call(NFTS, { path: { address }, query, signal });
  }

  /**
   * Yields the pages of a listing, all as of the block of the first one. @throws ServiceError `cursor_reorged` if that
   * block left the chain meanwhile
   */
  nftPages(address: string, query: NftQuery = {}): AsyncGenerator<Answer<AnswerOf<typeof NFTS>>> {
    return pages((page) => this.nftPage(address, page), query);
  }

  /** Yields all NFTs of a collection as of one block. @throws ServiceError */
  nfts(address: string, query: NftQuery = {}): AsyncGenerator<NftRecord> {
    return rowsOf((page) => this.nftPage(address, page), query);
  }

  /** Returns the price of a token. @throws ServiceError */
  price(address: string, { signal, include, ...query }: PriceQuery = {}) {
    return this.call(PRICE, { path: { address }, query: { ...query, include: include?.join(",") }, signal });
  }

  /**
   * Returns the prices of up to 100 tokens in their order, those without `to_block` at one block. Tokens without a price are
   * left out; with `errors` in `include`, they have `code` and `message`. @throws ServiceError
   */
  prices(
    tokens: Operations[typeof PRICES]["body"]["tokens"],
    { signal, include, ...query }: PricesQuery = {},
  ): Promise<Answer<AnswerOf<typeof PRICES>>> {
    return this.call(PRICES, { body: { tokens }, query: { ...query, include: include?.join(",") }, signal });
  }

  /** Returns one page of a collection's owners by what they hold. @throws ServiceError */
  holderPage(contract: Contract, { signal, ...query }: PageQuery = {}) {
    return this.call(HOLDERS, { path: partsOf(contract), query, signal });
  }

  /** Returns the prices of a token at evenly spaced blocks. @throws ServiceError */
  priceSeries(contract: Contract, { signal, from, to, ...query }: SeriesQuery = {}) {
    const ends = { from: from?.toString(), to: to?.toString() };
    return this.call(SERIES, { path: partsOf(contract), query: { ...query, ...ends }, signal });
  }

  /** Returns ERC-20 tokens whose address, symbol or name has the text. @throws ServiceError */
  async findTokens(
    text: string,
    { signal, ...query }: Cancelled & { readonly limit?: number } = {},
  ): Promise<readonly KnownToken[]> {
    return (await this.call("GET /api/tokens", { query: { text, ...query }, signal })).result;
  }

  /** Yields the owners of a collection by what they hold, all as of one block. @throws ServiceError */
  holders(contract: Contract, query: PageQuery = {}): AsyncGenerator<Holder> {
    return rowsOf((page) => this.holderPage(contract, page), query);
  }

  /** Returns one page of the tokens of an owner, or of those with certain traits. @throws ServiceError */
  tokenPage(contract: Contract, { signal, ...query }: TokenQuery = {}) {
    return this.call(TOKENS, { path: partsOf(contract), query, signal });
  }

  /** Yields the tokens of an owner, or those with certain traits (`Type:Value`), as of one block. @throws ServiceError */
  tokens(contract: Contract, query: TokenQuery = {}): AsyncGenerator<NftRecord> {
    return rowsOf((page) => this.tokenPage(contract, page), query);
  }

  /** Returns a collection's progress, flags and metadata. @throws ServiceError */
  collection(contract: Contract, { signal }: Cancelled = {}) {
    return this.call("GET /api/collections/:chain/:address", { path: partsOf(contract), signal });
  }

  /** Returns a token with its newest transfers, and a cursor for older ones. @throws ServiceError */
  token(contract: Contract, id: string | bigint, { signal, ...query }: TokenDetailsQuery = {}) {
    return this.call(TOKEN, { path: { ...partsOf(contract), id: `${id}` }, query, signal });
  }

  /** Returns one page of a collection's transfers, newest first. @throws ServiceError */
  transferPage(contract: Contract, { signal, ...query }: TransfersQuery = {}) {
    return this.call(TRANSFERS, { path: partsOf(contract), query, signal });
  }

  /** Yields the transfers of a collection, newest first, as of one block. @throws ServiceError */
  transfers(contract: Contract, query: TransfersQuery = {}): AsyncGenerator<CollectionTransfer> {
    return rowsOf((page) => this.transferPage(contract, page), query);
  }

  /** Returns one page of a token's transfers, newest first. @throws ServiceError */
  tokenTransferPage(contract: Contract, id: string | bigint, { signal, ...query }: TokenTransfersQuery = {}) {
    return this.call(TOKEN_TRANSFERS, { path: { ...partsOf(contract), id: `${id}` }, query, signal });
  }

  /** Yields the transfers of a token, newest first, as of one block. @throws ServiceError */
  tokenTransfers(
    contract: Contract,
    id: string | bigint,
    query: TokenTransfersQuery = {},
  ): AsyncGenerator<CollectionTransfer> {
    return rowsOf((page) => this.tokenTransferPage(contract, id, page), query);
  }

  /** Returns one page of a token's holders. @throws ServiceError */
  tokenHolderPage(contract: Contract, id: string | bigint, { signal, ...query }: QueryOf<typeof TOKEN_HOLDERS> = {}) {
    return this.call(TOKEN_HOLDERS, { path: { ...partsOf(contract), id: `${id}` }, query, signal });
  }

  /** Yields the holders of a token as of one block. @throws ServiceError */
  tokenHolders(
    contract: Contract,
    id: string | bigint,
    query: QueryOf<typeof TOKEN_HOLDERS> = {},
  ): AsyncGenerator<AnswerOf<typeof TOKEN_HOLDERS>["result"][number]> {
    return rowsOf((page) => this.tokenHolderPage(contract, id, page), query);
  }

  /** Returns the program's version and commit. @throws ServiceError */
  version({ signal }: Cancelled = {}) {
    return this.call("GET /api/version", { signal });
  }

  /** Returns how many tokens have which trait. @throws ServiceError */
  traits(contract: Contract, { signal }: Cancelled = {}) {
    return this.call("GET /api/collections/:chain/:address/traits", { path: partsOf(contract), signal });
  }

  /**
   * Returns the file of a collection at one block: all its tokens, or its owners. Its body arrives as it is read.
   * @throws ServiceError
   */
  exported(contract: Contract, { signal, ...query }: ExportQuery): Promise<Response> {
    return this.#requests.response(...sentOf(EXPORT, { path: partsOf(contract), query, signal }));
  }

  /** The proofs of a collection that are kept of a block, a document a line. Read the body to its end, or cancel it. */
  keptProofs(contract: Contract, { signal, ...query }: KeptProofsQuery = {}): Promise<Response> {
    return this.#requests.response(...sentOf(PROOFS, { path: partsOf(contract), query, signal }));
  }

  /**
   * Subscribes to the messages of a collection, over as few sockets as the service allows. An unknown one gets indexed.
   * @throws TypeError if it is subscribed to already, or the runtime has no WebSocket
   */
  subscribe(address: string, options: SubscribeOptions = {}): Subscription {
    return this.#feed.subscribe({ address }, options);
  }

  /**
   * Subscribes to the price of a token: its present price, and each change of it. A slow reader gets the latest one.
   * @throws TypeError if it is subscribed to already, or the runtime has no WebSocket
   */
  subscribeToPrice(
    token: string,
    { minChangePercent, ...options }: PriceSubscribeOptions = {},
  ): Subscription<PriceFeedMessage> {
    return this.#feed.subscribe({ token, ...(minChangePercent === undefined ? {} : { minChangePercent }) }, options);
  }

  /** Ends all subscriptions. */
  close(): void {
    this.#feed.close();
  }

  /** Returns the state of the service. For keys of scope `operate`, like all further methods. @throws ServiceError */
  status({ signal }: Cancelled = {}) {
    return this.call("GET /api/status", { signal });
  }

  /** Returns one page of the known collections. @throws ServiceError */
  async collectionPage({ signal, ...query }: CollectionQuery = {}) {
    const { result, ...page } = await this.call(COLLECTIONS, { query, signal });
    return { ...page, result: result as readonly ListedCollection[] };
  }

  /** Returns one page of the names of the known collections. For keys of scope `read`, too. @throws ServiceError */
  collectionNames({ signal, ...query }: CollectionQuery = {}) {
    return this.call(COLLECTIONS, { query: { ...query, fields: "names" }, signal });
  }

  /** Yields the known collections. @throws ServiceError */
  collections(query: CollectionQuery = {}): AsyncGenerator<ListedCollection> {
    return rowsOf((page) => this.collectionPage(page), query);
  }

  /** Requests the indexing of at most 500 collections. Returns what each was before. @throws ServiceError */
  index(contracts: readonly Contract[]) {
    return this.call("POST /api/collections", { body: { items: contracts.map(partsOf) } });
  }

  /** Returns what indexing a contract would cost. @throws ServiceError */
  estimate(contract: Contract, { signal }: Cancelled = {}) {
    return this.call("GET /api/collections/:chain/:address/estimate", { path: partsOf(contract), signal });
  }

  /** Has a collection indexed anew. Returns what it was before. @throws ServiceError */
  reindex(contract: Contract) {
    return this.call("POST /api/collections/:chain/:address/reindex", { path: partsOf(contract) });
  }

  /** Has the metadata of at most 500 tokens fetched again, by default of all. @throws ServiceError */
  refresh(contract: Contract, tokenIds?: readonly string[]) {
    const body = tokenIds === undefined ? {} : { tokenIds };
    return this.call("POST /api/collections/:chain/:address/refresh", { path: partsOf(contract), body });
  }

  /** Stops following a collection. Returns what it was before. @throws ServiceError */
  remove(contract: Contract) {
    return this.call("DELETE /api/collections/:chain/:address", { path: partsOf(contract) });
  }

  /** Returns the API keys, without their texts. @throws ServiceError */
  async keys({ signal }: Cancelled = {}): Promise<readonly Key[]> {
    return (await this.call("GET /api/keys", { signal })).result;
  }

  /** Adds a key. Its text is in this answer only. @throws ServiceError */
  addKey(key: Operations["POST /api/keys"]["body"]) {
    return this.call("POST /api/keys", { body: key });
  }

  /** Gives a key a new text. The former one stays valid for a while. @throws ServiceError */
  rotateKey(name: string, graceSeconds?: number) {
    const body = graceSeconds === undefined ? {} : { graceSeconds };
    return this.call("POST /api/keys/:name/rotate", { path: { name }, body });
  }

  /** Revokes a key and closes its sockets. @throws ServiceError */
  async revokeKey(name: string): Promise<void> {
    await this.call("DELETE /api/keys/:name", { path: { name } });
  }
}

/** The chain that a request is about. */
function chainOf({ path, query }: { readonly path?: object; readonly query?: object | undefined }): string {
  const { chain = "eth" }: { readonly chain?: string } = { ...query, ...path };
  return chain;
}

/** The path of a call with its parameters, and the rest of its request. */
function sentOf<Name extends keyof Operations>(name: Name, request: CallOf<Name>): Parameters<Requests["json"]> {
  const [method = "", pattern = ""] = name.split(" ");
  const { path = {}, query, signal, body } = request as CallOf<Name> & { readonly body?: unknown };
  const parts = path as Readonly<Record<string, string>>;
  const target = pattern.replace(/:(\w+)/g, (_, part: string) => encodeURIComponent(parts[part] ?? ""));
  // These change nothing, or have something done that may be done twice.
  const isRead = method === "GET" || method === "PUT" || pattern.startsWith("/api/v2/");
  return [target, { method: method as "GET" | "POST" | "PUT" | "DELETE", isRead, query: query as Query, body, signal }];
}

const partsOf = ({ chain = "eth", address }: Contract) => ({ chain, address });

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
