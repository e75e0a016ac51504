/**
 * What clients of hosted services called, and what takes its place here, by the id of an operation. `scripts/migration.ts` writes the
 * page from it, so a route or a parameter that is gone fails there.
 */

export interface MigratedOperation {
  /** As the other service names it. */
  readonly what: string;
  /** Id of the operation here; absent if there is none. */
  readonly id?: string;
  /** Example of a query. */
  readonly query?: string;
  readonly differs: string;
  readonly missing: string;
}

export interface ClosedService {
  readonly name: string;
  readonly intro: string;
  readonly rows: readonly MigratedOperation[];
  /** A request for the shell. */
  readonly example: string;
}

export const MIGRATED: readonly ClosedService[] = [
  {
    name: "Moralis",
    intro:
      "Operations that have Moralis' own form are listed below by their names in its SDK, and the unmodified SDK works:\n[moralis.ts](moralis.ts) sets its `evmApiBaseUrl`, and nothing else. Moralis goes on, but it removed operations: on 24 October\nand 6 December 2024 ([first](https://docs.moralis.com/changelog/planned-deprecations) and\n[second](https://docs.moralis.com/changelog/endpoint-deprecations) notice), and on 31 July 2026\n([updates](https://docs.moralis.com/changelog.md)).",
    rows: [
      {
        what: "`/nft/{address}/traits`",
        id: "listTraits",
        differs: "Up to 100,000 tokens",
        missing: "Rarity",
      },
      {
        what: "`/nft/{address}/{token_id}/stats`, ended in 2024",
        id: "getToken",
        differs: "A client counts the history",
        missing: "Sales",
      },
      {
        what: "`/nft/transfers` and those of a block, ended in 2024",
        id: "subscribe",
        differs: "By contract, from now on",
        missing: "All contracts of a chain",
      },
      {
        what: "`/erc20/{address}/holders/historical`, ended in 2026",
        differs: "–",
        missing: "Yes",
      },
    ],
    example:
      'curl -H "X-API-Key: $SERVICE_KEY" "$BASE/api/v2/nft/$APES?chain=0x1&format=decimal&limit=100&normalizeMetadata=true"',
  },
  {
    name: "Alchemy",
    intro:
      "Alchemy's NFT API goes on. These operations of it ended on 30 September 2026, in both versions\n([changelog](https://www.alchemy.com/docs/changelog/2026/8/18)).",
    rows: [
      {
        what: "`getNFTsForContract`",
        id: "getContractNFTs",
        query: "normalizeMetadata=true",
        differs: "Pages are true at one block",
        missing: "–",
      },
      {
        what: "`getNFTMetadata`, `getNFTMetadataBatch`",
        id: "getMultipleNFTs",
        differs: "Up to 100 in one request",
        missing: "–",
      },
      {
        what: "`getNFTsForOwner`",
        id: "getWalletNFTs",
        query: "exclude_spam=true",
        differs: "Of the collections that are indexed here",
        missing: "Contracts that nobody asked for",
      },
      {
        what: "`getOwnersForNFT`, `getOwnersForContract`",
        id: "getNFTOwners",
        differs: "A record for each token and owner",
        missing: "–",
      },
      {
        what: "`getTokenMetadata`",
        id: "getTokenMetadata",
        query: "addresses=0x…",
        differs: "Up to 100 tokens",
        missing: "–",
      },
      {
        what: "`isHolderOfContract`, `isHolderOfCollection`",
        id: "findTokens",
        query: "owner=0x…&limit=1",
        differs: "Yes if `result` has a record. At any block, too",
        missing: "–",
      },
      {
        what: "`summarizeNFTAttributes`",
        id: "listTraits",
        differs: "`indexed` says how many tokens were counted",
        missing: "Collections above 100,000 tokens",
      },
      {
        what: "`computeRarity`",
        id: "listTraits",
        differs: "Counts, from which a client computes a rarity",
        missing: "The rarity itself",
      },
      {
        what: "`getCollectionMetadata`",
        id: "getNFTContractMetadata",
        differs: "With picture and link of the contract's own document",
        missing: "Floor price",
      },
      {
        what: "`searchContractMetadata`",
        id: "listCollections",
        query: "text=ape",
        differs: "Of scope `operate`; among the indexed collections",
        missing: "All contracts of a chain",
      },
      {
        what: "`getSpamContracts`, `isAirdrop`",
        id: "getContractNFTs",
        query: "limit=1",
        differs: "`possible_spam` of one contract",
        missing: "A list, and a reason",
      },
      {
        what: "`invalidateContract`",
        id: "refreshMetadata",
        differs: "For a key of scope `operate`",
        missing: "–",
      },
      {
        what: "`getCollectionsForOwner`",
        differs: "Of the collections that are indexed here",
        missing: "Contracts that nobody asked for",
        id: "getWalletNFTCollections",
        query: "token_counts=true",
      },
      {
        what: "`getNFTSales`",
        differs: "–",
        missing: "Yes",
      },
    ],
    example: 'curl -H "X-API-Key: $SERVICE_KEY" "$BASE/api/collections/eth/$APES/traits"',
  },
  {
    name: "Reservoir",
    intro:
      "Reservoir ended its NFT API on 15 October 2025\n([Moralis](https://docs.moralis.com/get-started/tutorials/migration-guides/migrating-from-reservoir-to-moralis)). Reservoir\nwas first of all a market. That half has no place here.",
    rows: [
      {
        what: "`tokens/v7` of a collection",
        id: "getContractNFTs",
        query: "normalizeMetadata=true&media_items=true",
        differs: "One contract; its cursor is of one block",
        missing: "Order by price, markets, several contracts",
      },
      {
        what: "`tokens/v7` with attributes",
        id: "findTokens",
        query: "trait=Background:Blue",
        differs: "`trait` repeats; up to 100,000 tokens",
        missing: "–",
      },
      {
        what: "`tokens/ids/v1`",
        id: "getContractNFTs",
        query: "limit=500",
        differs: "Ids come with their records",
        missing: "–",
      },
      {
        what: "Attributes of a collection",
        id: "listTraits",
        differs: "Counts by value",
        missing: "Floor prices of attributes",
      },
      {
        what: "Owners of a collection",
        id: "listHolders",
        differs: "At any block",
        missing: "–",
      },
      {
        what: "`users/{user}/tokens/v10`",
        id: "getWalletNFTs",
        differs: "Of the collections that are indexed here",
        missing: "Contracts that nobody asked for",
      },
      {
        what: "`tokens/{token}/activity/v5`",
        id: "getNFTTransfers",
        differs: "Mints, transfers and burns, with transactions",
        missing: "Sales, listings, bids",
      },
      {
        what: "`transfers/bulk/v2`",
        id: "subscribe",
        differs: "The ids of moved tokens, from now on",
        missing: "The past as one list",
      },
      {
        what: "`collections/activity/v6`",
        id: "subscribe",
        differs: "As above",
        missing: "Sales, listings, bids",
      },
      {
        what: "`tokens/refresh/v2`",
        id: "reSyncMetadata",
        differs: "Each token once in ten minutes",
        missing: "–",
      },
      {
        what: "`tokens/floor/v1`, `sales/v6`",
        differs: "–",
        missing: "Yes",
      },
      {
        what: "Orders, buying, selling, minting",
        differs: "–",
        missing: "Yes",
      },
    ],
    example:
      'curl -G -H "X-API-Key: $SERVICE_KEY" --data-urlencode "trait=Background:Blue" "$BASE/api/collections/eth/$APES/tokens"',
  },
  {
    name: "SimpleHash",
    intro:
      "Phantom bought SimpleHash, and SimpleHash's APIs ended on 27 March 2025\n([Alchemy](https://www.alchemy.com/blog/migrating-nft-data-from-simplehash-to-alchemy),\n[Moralis](https://docs.moralis.com/web3-data-api/evm/simplehash-migration-guide)).",
    rows: [
      {
        what: "NFTs by contract",
        id: "getContractNFTs",
        query: "normalizeMetadata=true&media_items=true",
        differs: "The owner is in the record. Order: first appearance",
        missing: "Floor price, last sale, rarity",
      },
      {
        what: "NFT by token id",
        id: "getNFTMetadata",
        differs: "One record, as the listing has it",
        missing: "Floor price, last sale, rarity",
        query: "normalizeMetadata=true",
      },
      {
        what: "NFTs by token list",
        id: "getMultipleNFTs",
        differs: "Up to 100 in one request, by a body",
        missing: "–",
      },
      {
        what: "NFTs by wallet",
        id: "getWalletNFTs",
        query: "normalizeMetadata=true",
        differs: "Of the collections that are indexed here: `x-covered` says of how many",
        missing: "Contracts that nobody asked for",
      },
      {
        what: "Contracts and collections by wallet",
        differs: "Of the collections that are indexed here",
        missing: "Contracts that nobody asked for",
        id: "getWalletNFTCollections",
        query: "token_counts=true",
      },
      {
        what: "Owners by contract, top collectors",
        id: "listHolders",
        query: "as_of_block=18000000",
        differs: "With rank and share, at any block",
        missing: "–",
      },
      {
        what: "Owners by NFT",
        id: "getNFTTokenIdOwners",
        differs: "Those who came last first",
        missing: "–",
      },
      {
        what: "Transfers by NFT",
        id: "getNFTTransfers",
        differs: "With times and transactions, by cursor, in both orders",
        missing: "Sales and prices",
      },
      {
        what: "Transfers by contract or wallet",
        id: "listTransfers",
        query: "from=0x…",
        differs: "One contract per request, at any block",
        missing: "All contracts of a wallet",
      },
      {
        what: "Traits of a collection",
        id: "listTraits",
        differs: "Counts by value, up to 100,000 tokens",
        missing: "Rarity",
      },
      {
        what: "Refresh metadata",
        id: "reSyncMetadata",
        differs: "Each token once in ten minutes; all of a contract for a key of scope `operate`",
        missing: "–",
      },
      {
        what: "Token prices, now and in the past",
        id: "getTokenPrice",
        query: "to_block=18000000",
        differs: "At a block, recomputable by `include=provenance`",
        missing: "Candles",
      },
      {
        what: "Historical token prices",
        id: "listPrices",
        query: "from=2026-01-01&to=2026-02-01&points=31",
        differs: "At most 200 points",
        missing: "Volume",
      },
      {
        what: "Fungible balances, top wallets, swaps",
        differs: "–",
        missing: "Yes",
      },
      {
        what: "Floor prices, listings, bids",
        differs: "–",
        missing: "Yes",
      },
      {
        what: "Webhooks",
        id: "subscribe",
        differs: "The client connects, and resumes by `since`",
        missing: "Deliveries to a URL",
      },
    ],
    example:
      'curl -H "X-API-Key: $SERVICE_KEY" "$BASE/api/collections/eth/$APES/holders?as_of_block=18000000&limit=500"',
  },
  {
    name: "Sim",
    intro:
      "Dune closed Sim on 1 August 2026 ([Dune](https://dune.com/blog/sunsetting-sim), [Codex](https://docs.codex.io/migrations/dune-sim),\n[Moralis](https://docs.moralis.com/get-started/tutorials/migration-guides/migrating-from-sim-by-dune-to-moralis)). Most of Sim\nbegins with a wallet, and this service knows a wallet's tokens of the contracts that it has indexed. It takes the place of few of\nSim's operations.",
    rows: [
      {
        what: "`/v1/evm/collectibles/{address}`",
        id: "getWalletNFTs",
        differs: "Of the collections that are indexed here",
        missing: "Contracts that nobody asked for",
      },
      {
        what: "Token information: name, symbol, price",
        id: "getTokenPrice",
        query: "include=percent_change",
        differs: "Names the pools that the price follows from",
        missing: "Supply, market capitalisation",
      },
      {
        what: "Historical prices",
        id: "listPrices",
        differs: "At most 200 points",
        missing: "–",
      },
      {
        what: "Token holders",
        id: "listHolders",
        differs: "NFT contracts only",
        missing: "Holders of ERC-20 tokens",
      },
      {
        what: "`/v1/evm/activity/{address}`",
        id: "subscribe",
        differs: "By contract, not by wallet",
        missing: "A wallet's activity",
      },
      {
        what: "Subscriptions by webhook",
        id: "subscribe",
        differs: "The client connects",
        missing: "Deliveries to a URL",
      },
      {
        what: "`/v1/evm/balances/{address}`",
        differs: "–",
        missing: "Yes",
      },
      {
        what: "`/v1/evm/transactions/{address}`",
        differs: "–",
        missing: "Yes",
      },
      {
        what: "DeFi positions, Solana",
        differs: "–",
        missing: "Yes",
      },
    ],
    example: 'curl -H "X-API-Key: $SERVICE_KEY" "$BASE/api/collections/eth/$APES/tokens?owner=$WALLET"',
  },
];
