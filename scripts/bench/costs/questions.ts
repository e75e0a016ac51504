/** The dearest questions of each operation that a read key may use, by the operation's id. */
import type { Supply, World } from "./world.ts";

export interface Asked {
  readonly path: string;
  /** POST with a body and GET without one by default. */
  readonly method?: "PUT";
  /** JSON of a POST. */
  readonly body?: unknown;
  /** A message over a socket in place of a request. */
  readonly message?: unknown;
}

/** What a question is made of. `n` counts its turns: each turn asks something that no earlier one has answered. */
export interface Given {
  readonly world: World;
  readonly supply: Supply;
  readonly n: number;
  /** The answer to an earlier request, which is not measured. */
  before(path: string): Promise<{ readonly cursor?: string | null }>;
}

export interface CostlyQuestion {
  readonly name: string;
  /** Items that count as a question each; 1 by default. */
  readonly items?: number;
  /** Where the node calls end, by arithmetic. */
  readonly bound: string;
  /** True if the work that it starts has a share of its own, so that no bound of a question holds for it. */
  readonly startsMore?: true;
  ask(given: Given): Asked | Promise<Asked>;
}

const MEMORY = "0: memory only; 1 for the header of an old block";
const PRICE = "100 = 64 logs + 36 others";
const BATCH = "100 for each token";
const ALL = "percent_change,provenance,pair,depth";
const BATCH_SIZE = 100;

const nft = (address: string, query: string): Asked => ({ path: `/api/v2/nft/${address}?${query}` });
const collection = (address: string, rest: string): Asked => ({ path: `/api/collections/eth/${address}${rest}` });
const price = (address: string, query = ""): Asked => ({
  path: `/api/v2/erc20/${address}/price?include=${ALL}${query}`,
});
const batch = (tokens: readonly string[], fields: (at: number) => object = () => ({})): Asked => ({
  path: `/api/v2/erc20/prices?include=${ALL},errors`,
  body: { tokens: tokens.map((token_address, at) => ({ token_address, ...fields(at) })) },
});
const series = (address: string, query: string): Asked => ({ path: `/api/prices/eth/${address}/series?${query}` });
const heavyTokens = ({ heavy }: World, n: number): object => ({
  tokens: Array.from({ length: BATCH_SIZE }, (_, at) => ({
    token_address: heavy,
    token_id: String(n * BATCH_SIZE + at),
  })),
  ...{ normalizeMetadata: true, media_items: true },
});
const repeated = (one: string): string[] => Array.from({ length: BATCH_SIZE }, () => one);
/** A block below the head, another one in each turn. */
const past = ({ world, n }: Given, below: number): number => world.head() - below - n;
/** Before the pool of the old token, another block in each turn. */
const beforePool = ({ world, n }: Given, at = 0): number => world.oldFrom - 10 - n * BATCH_SIZE - at;

const hosted = (path: string, query = ""): Asked => ({ path: `/api/v2/${path}${query && `?${query}`}` });
const none = (name: string, path: string): readonly CostlyQuestion[] => [{ name, bound: "0", ask: () => ({ path }) }];

const LISTINGS: readonly CostlyQuestion[] = [
  {
    name: "500 of 100,000, with all there is",
    bound: MEMORY,
    ask: ({ world, n }) =>
      nft(world.large, `limit=${500 - n}&normalizeMetadata=true&media_items=true&disable_total=false`),
  },
  {
    name: "500 with metadata of 50 KB each",
    bound: MEMORY,
    ask: ({ world, n }) => nft(world.heavy, `limit=${500 - n}&normalizeMetadata=true&media_items=true`),
  },
  {
    name: "500 holders at an old block, the last of 1,000 ranges",
    bound: MEMORY,
    ask: (given) =>
      nft(given.world.large, `limit=500&holders=true&as_of_block=${past(given, 2)}&totalRanges=1000&range=999`),
  },
  {
    name: "a contract that nobody asked for",
    bound: "its first indexing has a share of its own",
    startsMore: true,
    ask: ({ supply }) => nft(supply.poolless(1)[0] as string, "limit=500"),
  },
];

const PRICES: readonly CostlyQuestion[] = [
  { name: "a new token, all includes", bound: PRICE, ask: ({ supply }) => price(supply.fresh(1)[0] as string) },
  {
    name: "a token without a pool, all includes",
    bound: PRICE,
    ask: ({ supply }) => price(supply.poolless(1)[0] as string),
  },
  { name: "an address without code", bound: PRICE, ask: ({ supply }) => price(supply.random(1)[0] as string) },
  {
    name: "below the pool's first block, all includes",
    bound: PRICE,
    ask: (given) => price(given.world.old, `&to_block=${beforePool(given)}`),
  },
  {
    name: "thousands of blocks above the pool's last swap",
    bound: PRICE,
    ask: (given) => price(given.world.old, `&to_block=${past(given, 1_500)}`),
  },
  {
    name: "a factory that answers 3 MB",
    bound: PRICE,
    ask: ({ world, supply }) => price(supply.fresh(1)[0] as string, `&exchange=${world.largeAnswers}`),
  },
  {
    name: "a factory without end",
    bound: PRICE,
    ask: ({ world, supply }) => price(supply.fresh(1)[0] as string, `&exchange=${world.endlessAnswers}`),
  },
  { name: "a token with a name of 1 MB", bound: PRICE, ask: ({ world, n }) => price(world.longName[n] as string) },
  { name: "a token that burns all gas", bound: PRICE, ask: ({ world, n }) => price(world.gasBurner[n] as string) },
];

const BATCHES: readonly CostlyQuestion[] = (
  [
    ["100 new tokens, all includes", ({ supply }) => batch(supply.fresh(BATCH_SIZE))],
    ["100 tokens without a pool", ({ supply }) => batch(supply.poolless(BATCH_SIZE))],
    ["100 addresses without code", ({ supply }) => batch(supply.random(BATCH_SIZE))],
    [
      "100 blocks below a pool",
      (given) => batch(repeated(given.world.old), (at) => ({ to_block: beforePool(given, at) })),
    ],
    [
      "100 times a factory without end",
      ({ world, supply }) => batch(supply.random(BATCH_SIZE), () => ({ exchange: world.endlessAnswers })),
    ],
    ["100 hostile tokens", ({ world, n }) => batch(repeated(world.longName[3 + n] as string))],
  ] as const satisfies readonly (readonly [string, (given: Given) => Asked])[]
).map(([name, ask]) => ({ name, ask, items: BATCH_SIZE, bound: BATCH }));

const POINTS = 200;

const SERIES: readonly CostlyQuestion[] = (
  [
    [
      "200 points of a token, from its first block",
      (given) => series(given.world.old, `points=${200 - given.n}&from=1`),
    ],
    ["200 points of a new token", ({ supply }) => series(supply.fresh(1)[0] as string, "points=200&from=1")],
    ["200 points of an account", ({ world, n }) => series(world.anvil.accounts[5 + n] as string, "points=200&from=1")],
    ["200 stored points", (given) => series(given.world.old, `points=${200 - given.n}&from=1&stored=true`)],
  ] as const satisfies readonly (readonly [string, (given: Given) => Asked])[]
).map(([name, ask]) => ({ name, ask, items: POINTS, bound: "100 for each point, 64 logs in all" }));

const HOLDERS: readonly CostlyQuestion[] = [
  {
    name: "500 of 50,000 owners, ranked for the first time",
    bound: MEMORY,
    ask: (given) => collection(given.world.large, `/holders?limit=500&as_of_block=${past(given, 3)}`),
  },
  {
    name: "a page from a cursor",
    bound: MEMORY,
    ask: async (given) => {
      const { cursor } = await given.before(`/api/collections/eth/${given.world.large}/holders?limit=500`);
      return collection(
        given.world.large,
        `/holders?limit=${500 - given.n}&cursor=${encodeURIComponent(cursor ?? "")}`,
      );
    },
  },
];

const TOKENS: readonly CostlyQuestion[] = [
  {
    name: "500 of an owner of 2,000",
    bound: MEMORY,
    ask: (given) =>
      collection(given.world.large, `/tokens?limit=500&owner=${given.world.whale}&as_of_block=${past(given, 2)}`),
  },
  {
    name: "500 by a trait that all have",
    bound: MEMORY,
    ask: ({ world, n }) => collection(world.traits[n] as string, `/tokens?limit=${500 - n}&trait=Kind:one`),
  },
  {
    name: "a trait that none has, and an owner",
    bound: MEMORY,
    ask: ({ world, n }) =>
      collection(world.traits[n] as string, `/tokens?limit=${500 - n}&trait=Kind:none&owner=${world.whale}`),
  },
  {
    name: "500 with metadata of 50 KB each",
    bound: MEMORY,
    ask: ({ world, n }) => collection(world.heavy, `/tokens?limit=${500 - n}&owner=${world.whale}`),
  },
];

const TRANSFERS: readonly CostlyQuestion[] = [
  {
    name: "500 in 500 blocks, with times and transactions",
    bound: "80 = 40 blocks, 1 header + 1 log each; + 2 for each 50 headers, + 1 header",
    ask: ({ world, n }) => collection(world.spread, `/transfers?limit=${500 - n}&times=true&transactions=true`),
  },
  {
    name: "the same at an old block",
    bound: "84 = as above",
    ask: (given) =>
      collection(
        given.world.spread,
        `/transfers?limit=500&times=true&transactions=true&as_of_block=${past(given, 160)}`,
      ),
  },
  {
    name: "from one to another that never met",
    bound: MEMORY,
    ask: ({ world, n }) =>
      collection(world.large, `/transfers?limit=${500 - n}&to=${world.whale}&from=${world.anvil.accounts[1]}`),
  },
];

/** What the hosted service's neighbours of the listing cost. */
const HOSTED_NFTS: Readonly<Record<string, readonly CostlyQuestion[]>> = {
  getNFTContractMetadata: [
    { name: "a collection of 100,000", bound: "0", ask: ({ world }) => hosted(`nft/${world.large}/metadata`) },
  ],
  getNFTOwners: [
    {
      name: "500 of 100,000 at an old block, with all there is",
      bound: MEMORY,
      ask: (given) =>
        hosted(
          `nft/${given.world.large}/owners`,
          `limit=500&normalizeMetadata=true&media_items=true&as_of_block=${past(given, 4)}`,
        ),
    },
    {
      name: "500 with metadata of 50 KB each",
      bound: MEMORY,
      ask: ({ world, n }) => hosted(`nft/${world.heavy}/owners`, `limit=${500 - n}&normalizeMetadata=true`),
    },
  ],
  getMultipleNFTs: [
    {
      name: "100 tokens with metadata of 50 KB each",
      items: BATCH_SIZE,
      bound: "0 for each token of an indexed collection",
      ask: ({ world, n }) => ({
        path: "/api/v2/nft/getMultipleNFTs",
        body: heavyTokens(world, n),
      }),
    },
    {
      name: "100 addresses without code",
      items: BATCH_SIZE,
      bound: "the first indexing of each has a share of its own",
      startsMore: true,
      ask: ({ supply }) => ({
        path: "/api/v2/nft/getMultipleNFTs",
        body: { tokens: supply.random(BATCH_SIZE).map((token_address) => ({ token_address, token_id: "1" })) },
      }),
    },
  ],
  syncNFTContract: [
    {
      name: "a contract that nobody asked for",
      bound: "its first indexing has a share of its own",
      startsMore: true,
      ask: ({ supply }) => ({ ...hosted(`nft/${supply.poolless(1)[0]}/sync`), method: "PUT" }),
    },
  ],
  syncNFTContractByGet: [
    {
      name: "a contract that nobody asked for",
      bound: "its first indexing has a share of its own",
      startsMore: true,
      ask: ({ supply }) => hosted(`nft/${supply.poolless(1)[0]}/sync`),
    },
  ],
  getNFTMetadata: [
    {
      name: "a token with metadata of 50 KB at an old block",
      bound: MEMORY,
      ask: (given) =>
        hosted(`nft/${given.world.heavy}/${given.n}`, `normalizeMetadata=true&as_of_block=${past(given, 1)}`),
    },
  ],
  getNFTTokenIdOwners: [
    {
      name: "a token with metadata of 50 KB at an old block",
      bound: MEMORY,
      ask: (given) =>
        hosted(`nft/${given.world.heavy}/${given.n}/owners`, `normalizeMetadata=true&as_of_block=${past(given, 1)}`),
    },
  ],
  reSyncMetadata: [
    {
      name: "a token of a collection",
      bound: "0: fetching has a share of its own",
      startsMore: true,
      ask: ({ world, n }) => hosted(`nft/${world.heavy}/${n}/metadata/resync`, "mode=sync"),
    },
  ],
  getNFTContractTransfers: [
    {
      name: "100 in 100 blocks",
      bound: "82 = 40 blocks, 1 header + 1 log each; + 1 header and the last block by time",
      ask: ({ world, n }) => hosted(`nft/${world.spread}/transfers`, `limit=${100 - n}`),
    },
    {
      name: "between two dates",
      bound: "100: as above, and two searches of a block by time",
      ask: ({ world, n }) =>
        hosted(`nft/${world.spread}/transfers`, `limit=100&order=ASC&from_date=${dateOf(20 - n)}&to_date=${dateOf(1)}`),
    },
  ],
  getNFTTransfers: [
    {
      name: "of one token, between two dates",
      bound: "100: as above",
      ask: ({ world, n }) =>
        hosted(`nft/${world.spread}/${n}/transfers`, `from_date=${dateOf(20 - n)}&to_date=${dateOf(1)}`),
    },
  ],
  getWalletNFTs: [
    {
      name: "500 of an owner of thousands, with all there is",
      bound: MEMORY,
      ask: ({ world, n }) =>
        hosted(`${world.whale}/nft`, `limit=${500 - n}&normalizeMetadata=true&media_items=true&exclude_spam=true`),
    },
    {
      name: "the same at an old block",
      bound: MEMORY,
      ask: (given) => hosted(`${given.world.whale}/nft`, `limit=500&as_of_block=${past(given, 3)}`),
    },
    {
      name: "an owner of nothing",
      bound: MEMORY,
      ask: ({ supply }) => hosted(`${supply.random(1)[0]}/nft`),
    },
  ],
  getWalletNFTCollections: [
    {
      name: "of an owner of thousands, counted",
      bound: MEMORY,
      ask: (given) =>
        hosted(
          `${given.world.whale}/nft/collections`,
          `limit=${50 - given.n}&token_counts=true&as_of_block=${past(given, 3)}`,
        ),
    },
  ],
};

/** A time so many hours before now. */
function dateOf(hoursAgo: number): string {
  return encodeURIComponent(new Date(Date.now() - hoursAgo * 3_600_000).toISOString());
}

/** What the hosted service's neighbours of the price cost. */
const HOSTED_TOKENS: Readonly<Record<string, readonly CostlyQuestion[]>> = {
  getTokenMetadata: (
    [
      ["100 new tokens", ({ supply }) => supply.fresh(BATCH_SIZE)],
      ["100 addresses without code", ({ supply }) => supply.random(BATCH_SIZE)],
      ["100 with names of 1 MB or that burn gas", ({ world }) => [...world.longName, ...world.gasBurner]],
    ] as const satisfies readonly (readonly [string, (given: Given) => readonly string[]])[]
  ).map(([name, tokens]) => ({
    name,
    items: BATCH_SIZE,
    bound: BATCH,
    ask: (given: Given) => {
      const query = tokens(given).map((one, at) => `addresses[${at}]=${one}`);
      return hosted("erc20/metadata", query.join("&"));
    },
  })),
  getPairAddress: [
    {
      name: "a new token at an old block by its date",
      bound: PRICE,
      ask: ({ world, n, supply }) =>
        hosted(`${supply.fresh(1)[0]}/${world.old}/pairAddress`, `exchange=uniswapv3&to_date=${dateOf(20 - n)}`),
    },
    {
      name: "a factory that answers 3 MB",
      bound: PRICE,
      ask: ({ world, supply }) =>
        hosted(`${supply.fresh(1)[0]}/${world.old}/pairAddress`, `exchange=${world.largeAnswers}`),
    },
  ],
  getPairReserves: [
    {
      name: "an address that is no pair, at an old block by its date",
      bound: PRICE,
      ask: ({ world, n }) => hosted(`${world.gasBurner[n]}/reserves`, `to_date=${dateOf(10 - n)}`),
    },
  ],
  getDateToBlock: [
    { name: "a time long ago", bound: PRICE, ask: ({ n }) => hosted("dateToBlock", `date=${dateOf(15 - n)}`) },
  ],
  web3ApiVersion: none("the version", "/api/v2/web3/version"),
};

const PROOFS: Readonly<Record<string, readonly CostlyQuestion[]>> = {
  proveToken: [
    {
      name: "the owner of a new token",
      bound: PRICE,
      ask: ({ world, n }) => collection(world.large, `/tokens/${n + 10}/proof`),
    },
    {
      name: "a token's last transfer",
      bound: PRICE,
      ask: ({ world, n }) => collection(world.spread, `/tokens/${n}/proof?proves=transfer`),
    },
  ],
  listKeptProofs: [{ name: "none are kept", bound: "0", ask: ({ world }) => collection(world.large, "/proofs") }],
};

/** By the id of the operation. */
export const QUESTIONS: Readonly<Record<string, readonly CostlyQuestion[]>> = {
  ...HOSTED_NFTS,
  ...HOSTED_TOKENS,
  ...PROOFS,
  getVersion: none("the version", "/api/version"),
  mcp: [
    {
      name: "100 tokens with metadata of 50 KB each, as a tool",
      items: BATCH_SIZE,
      bound: "0 for each token of an indexed collection",
      ask: ({ world, n }) => ({
        path: "/mcp",
        body: {
          ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
          params: { name: "getMultipleNFTs", arguments: heavyTokens(world, n) },
        },
      }),
    },
    {
      name: "100 new tokens, as a tool",
      items: BATCH_SIZE,
      bound: BATCH,
      ask: ({ supply }) => ({
        path: "/mcp",
        body: {
          ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
          params: {
            name: "getMultipleTokenPrices",
            arguments: { include: ALL, tokens: supply.fresh(BATCH_SIZE).map((token_address) => ({ token_address })) },
          },
        },
      }),
    },
  ],
  listTokenHolders: [
    {
      name: "of one token at an old block",
      bound: MEMORY,
      ask: (given) => collection(given.world.large, `/tokens/${given.n}/holders?as_of_block=${past(given, 2)}`),
    },
  ],
  getContractNFTs: LISTINGS,
  getTokenPrice: PRICES,
  getMultipleTokenPrices: BATCHES,
  listPrices: SERIES,
  findErc20Tokens: [
    { name: "500 of all tokens", bound: "0", ask: ({ n }) => ({ path: `/api/tokens?limit=${500 - n}` }) },
    { name: "a text that none has", bound: "0", ask: ({ n }) => ({ path: `/api/tokens?limit=500&text=%20zzzz${n}` }) },
  ],
  listHolders: HOLDERS,
  findTokens: TOKENS,
  getToken: [
    {
      name: "a token with metadata of 50 KB",
      bound: "2: the header, whether it is locked",
      ask: ({ world, n }) => collection(world.heavy, `/tokens/${n}?limit=500`),
    },
  ],
  listTransfers: TRANSFERS,
  listTokenTransfers: [
    {
      name: "times and transactions",
      bound: "84 = as for transfers",
      ask: ({ world, n }) => collection(world.spread, `/tokens/${n}/transfers?limit=500&times=true&transactions=true`),
    },
  ],
  listTraits: [
    {
      name: "traits of 20,000 tokens",
      bound: MEMORY,
      ask: ({ world, n }) => collection(world.traits[n] as string, "/traits"),
    },
  ],
  exportCollection: (["csv", "jsonl", "parquet"] as const).flatMap((format) =>
    [false, true].map((holders) => ({
      name: `100,000 ${holders ? "by owner" : "tokens"}, ${format}`,
      bound: "1: the header. One at a time, in pieces as the client reads",
      ask: (given: Given) =>
        collection(given.world.large, `/export?format=${format}&holders=${holders}&as_of_block=${past(given, 3)}`),
    })),
  ),
  getCollection: [
    { name: "a collection with 500 documents", bound: "0", ask: ({ world }) => collection(world.heavy, "") },
  ],
  subscribe: [
    {
      name: "a price of a new token",
      bound: PRICE,
      ask: ({ supply }) => ({
        path: "/api/v2/ws",
        message: { action: "subscribe", chain: "eth", token: supply.fresh(1)[0] },
      }),
    },
    {
      name: "a collection of 100,000",
      bound: "0",
      ask: ({ world }) => ({
        path: "/api/v2/ws",
        message: { action: "subscribe", chain: "eth", address: world.large },
      }),
    },
  ],
};
