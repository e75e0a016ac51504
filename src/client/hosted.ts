/** The operations that have the hosted service's form, as methods of `client.hosted`: what stands around a listing and a price. */
import type { Answer, CallOf, Cancelled, QueryOf } from "./calls.ts";
import { rowsOf } from "./pages.ts";
import type { HostedTransferPage, NftRecord, Operations, WalletCollectionPage } from "./types.ts";

type CallByName = <Name extends keyof Operations>(
  name: Name,
  request: CallOf<Name>,
) => Promise<Answer<Operations[Name]["answer"]>>;

const CONTRACT = "GET /api/v2/nft/:address/metadata";
const NFT = "GET /api/v2/nft/:address/:token_id";
const OWNERS = "GET /api/v2/nft/:address/owners";
const NFT_OWNERS = "GET /api/v2/nft/:address/:token_id/owners";
const TRANSFERS = "GET /api/v2/nft/:address/transfers";
const NFT_TRANSFERS = "GET /api/v2/nft/:address/:token_id/transfers";
const MANY = "POST /api/v2/nft/getMultipleNFTs";
const SYNC = "PUT /api/v2/nft/:address/sync";
const RESYNC = "GET /api/v2/nft/:address/:token_id/metadata/resync";
const WALLET = "GET /api/v2/:address/nft";
const WALLET_COLLECTIONS = "GET /api/v2/:address/nft/collections";
const METADATA = "GET /api/v2/erc20/metadata";
const PAIR = "GET /api/v2/:address/:token1/pairAddress";
const RESERVES = "GET /api/v2/:address/reserves";
const DATE = "GET /api/v2/dateToBlock";

type TransferRecord = HostedTransferPage["result"][number];
type WalletCollectionRecord = WalletCollectionPage["result"][number];

export class HostedOperations {
  readonly #call: CallByName;

  constructor(call: CallByName) {
    this.#call = call;
  }

  /** Returns the name, the symbol and the document of a contract. @throws ServiceError `not_found` until it is identified */
  contract(address: string, { signal, ...query }: QueryOf<typeof CONTRACT> = {}) {
    return this.#call(CONTRACT, { path: { address }, query, signal });
  }

  /** Returns one NFT. @throws ServiceError `not_found` if it does not exist, or is not indexed yet */
  nft(address: string, id: string | bigint, { signal, ...query }: QueryOf<typeof NFT> = {}) {
    return this.#call(NFT, { path: { address, token_id: `${id}` }, query, signal });
  }

  /** Returns up to 100 NFTs in their order, null for one that does not exist or is not indexed yet. @throws ServiceError */
  nfts(body: Operations[typeof MANY]["body"], { signal, ...query }: QueryOf<typeof MANY> = {}) {
    return this.#call(MANY, { body, query, signal } as CallOf<typeof MANY>);
  }

  /** Returns a page of the owners of a contract's NFTs. @throws ServiceError */
  ownerPage(address: string, { signal, ...query }: QueryOf<typeof OWNERS> = {}) {
    return this.#call(OWNERS, { path: { address }, query, signal });
  }

  /** Yields a record for each token and owner of a contract, as of one block. @throws ServiceError */
  owners(address: string, query: QueryOf<typeof OWNERS> = {}): AsyncGenerator<NftRecord> {
    return rowsOf((page) => this.ownerPage(address, page), query);
  }

  /** Returns a page of the owners of one NFT. @throws ServiceError */
  nftOwnerPage(address: string, id: string | bigint, { signal, ...query }: QueryOf<typeof NFT_OWNERS> = {}) {
    return this.#call(NFT_OWNERS, { path: { address, token_id: `${id}` }, query, signal });
  }

  /** Yields the owners of one NFT, those who came last first, as of one block. @throws ServiceError */
  nftOwners(address: string, id: string | bigint, query: QueryOf<typeof NFT_OWNERS> = {}): AsyncGenerator<NftRecord> {
    return rowsOf((page) => this.nftOwnerPage(address, id, page), query);
  }

  /** Returns a page of a contract's transfers, with times and transactions. @throws ServiceError */
  transferPage(address: string, { signal, ...query }: QueryOf<typeof TRANSFERS> = {}) {
    return this.#call(TRANSFERS, { path: { address }, query, signal });
  }

  /** Yields the transfers of a contract as of one block. @throws ServiceError */
  transfers(address: string, query: QueryOf<typeof TRANSFERS> = {}): AsyncGenerator<TransferRecord> {
    return rowsOf((page) => this.transferPage(address, page), query);
  }

  /** Returns a page of one NFT's transfers. @throws ServiceError */
  nftTransferPage(address: string, id: string | bigint, { signal, ...query }: QueryOf<typeof NFT_TRANSFERS> = {}) {
    return this.#call(NFT_TRANSFERS, { path: { address, token_id: `${id}` }, query, signal });
  }

  /** Yields the transfers of one NFT as of one block. @throws ServiceError */
  nftTransfers(
    address: string,
    id: string | bigint,
    query: QueryOf<typeof NFT_TRANSFERS> = {},
  ): AsyncGenerator<TransferRecord> {
    return rowsOf((page) => this.nftTransferPage(address, id, page), query);
  }

  /** Has a contract indexed. @throws ServiceError */
  sync(address: string, { signal, ...query }: QueryOf<typeof SYNC> = {}) {
    return this.#call(SYNC, { path: { address }, query, signal });
  }

  /** Has the metadata of one NFT fetched again. @throws ServiceError */
  resync(address: string, id: string | bigint, { signal, ...query }: QueryOf<typeof RESYNC> = {}) {
    return this.#call(RESYNC, { path: { address, token_id: `${id}` }, query, signal });
  }

  /** Returns a page of a wallet's NFTs, of the collections that are indexed. @throws ServiceError */
  walletPage(wallet: string, { signal, ...query }: QueryOf<typeof WALLET> = {}) {
    return this.#call(WALLET, { path: { address: wallet }, query, signal });
  }

  /** Yields a wallet's NFTs, of the collections that are indexed, as of one block. @throws ServiceError */
  wallet(wallet: string, query: QueryOf<typeof WALLET> = {}): AsyncGenerator<NftRecord> {
    return rowsOf((page) => this.walletPage(wallet, page), query);
  }

  /** Returns a page of the collections that a wallet holds tokens of. @throws ServiceError */
  walletCollectionPage(wallet: string, { signal, ...query }: QueryOf<typeof WALLET_COLLECTIONS> = {}) {
    return this.#call(WALLET_COLLECTIONS, { path: { address: wallet }, query, signal });
  }

  /** Yields the collections that a wallet holds tokens of, as of one block. @throws ServiceError */
  walletCollections(
    wallet: string,
    query: QueryOf<typeof WALLET_COLLECTIONS> = {},
  ): AsyncGenerator<WalletCollectionRecord> {
    return rowsOf((page) => this.walletCollectionPage(wallet, page), query);
  }

  /** Returns name, symbol and decimals of up to 100 tokens. @throws ServiceError */
  tokens(addresses: readonly string[], { signal, ...query }: Omit<QueryOf<typeof METADATA>, "addresses"> = {}) {
    return this.#call(METADATA, { query: { ...query, addresses }, signal });
  }

  /** Returns the pool of two tokens at an exchange. @throws ServiceError `not_found` if there is none */
  pair(
    tokens: readonly [string, string],
    exchange: string,
    { signal, ...query }: Omit<QueryOf<typeof PAIR>, "exchange"> = {},
  ) {
    const [address, token1] = tokens;
    return this.#call(PAIR, { path: { address, token1 }, query: { ...query, exchange }, signal });
  }

  /** Returns the reserves of a pair, now or at a block. @throws ServiceError `not_found` if the contract is no pair */
  reserves(pair: string, { signal, ...query }: QueryOf<typeof RESERVES> = {}) {
    return this.#call(RESERVES, { path: { address: pair }, query, signal });
  }

  /** Returns the last block at or before a time. @throws ServiceError `not_found` if the chain began later */
  blockAt(date: Date, { signal, ...query }: Omit<QueryOf<typeof DATE>, "date"> = {}) {
    return this.#call(DATE, { query: { ...query, date: date.toISOString() }, signal });
  }

  /** Returns the version of the service. @throws ServiceError */
  version({ signal }: Cancelled = {}) {
    return this.#call("GET /api/v2/web3/version", { signal });
  }
}
