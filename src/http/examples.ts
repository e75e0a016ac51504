/**
 * Examples of the OpenAPI document, typed by their schemas. The values have the shape of real responses. A test checks
 * each example against its schema.
 */
import type { ErrorCode } from "../core/errors.ts";
import type { ErrorModel, NftPageModel, TokenPriceModel, WireTypes } from "./models.ts";

export const NFT_ADDRESS = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";
export const TOKEN_ADDRESS = "0x1f9840a85d5af5bf1d1762f925bdaddc4201f984";
const PICTURE = "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234";
const PREVIEW = "c0ffee0000000000000000000000000000000000000000000000000000000001";

/** Header examples by name. */
export const HEADER_EXAMPLES = {
  requestId: "0b4e6a2c-4a27-4d4c-9c1a-1f1f0e5b7a55",
  etag: 'W/"e968996a16214729"',
  block: "21000000",
  time: "2024-10-19T08:12:47.000Z",
  unknown: "limits, normalize_metadata",
  hash: "0x5b1d8f0b7c9f4a3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a0f9e8d7c6",
} as const;

/** Parameter examples by operation and name. */
export const PARAMETER_EXAMPLES = {
  nft: {
    address: NFT_ADDRESS,
    chain: "eth",
    format: "decimal",
    limit: 100,
    totalRanges: 4,
    range: 0,
    disable_total: false,
    cursor: "eyJ2IjoxfQ.3q2-7w",
    normalizeMetadata: true,
    media_items: true,
    as_of_block: 21_000_000,
    metadata_as_of: "2026-01-31T12:00:00Z",
    holders: false,
  },
  price: {
    address: TOKEN_ADDRESS,
    chain: "eth",
    include: "percent_change",
    exchange: "uniswapv3",
    to_block: 21_000_000,
    min_liquidity_usd: 1_000,
  },
  media: { hash: PREVIEW, size: 100 },
} as const;

/** Returns an example page with the given wire types. */
export function pageExample(wire: WireTypes): NftPageModel {
  const isNative = wire === "native";
  const count = (value: number) => (isNative ? value : String(value));
  const flag = (value: boolean) => (isNative ? value : String(value));
  const preview = (size: 100 | 250 | 500) => ({
    height: size,
    width: size,
    url: `http://127.0.0.1:3000/media/${PREVIEW}/${size}`,
  });
  return {
    status: "SYNCED",
    total: count(9_998),
    page: count(0),
    page_size: count(1),
    cursor: PARAMETER_EXAMPLES.nft.cursor,
    result: [
      {
        token_address: NFT_ADDRESS,
        token_id: "1234",
        owner_of: "0x8f7a5e2d3c4b1a09f8e7d6c5b4a3928170605040",
        token_hash: "ab96a59f7d41a8648adee2f63d1386ce",
        block_number: "20912345",
        block_number_minted: "12344138",
        contract_type: "ERC721",
        token_uri: "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234",
        metadata: `{"image":"${PICTURE}","attributes":[{"trait_type":"Fur","value":"Brown"}]}`,
        normalized_metadata: {
          name: null,
          description: null,
          image: PICTURE,
          external_link: null,
          external_url: null,
          animation_url: null,
          attributes: [
            { trait_type: "Fur", value: "Brown", display_type: null, max_value: null, trait_count: 0, order: null },
          ],
        },
        media: {
          status: "success",
          mimetype: "image/png",
          category: "image",
          original_media_url: PICTURE,
          parent_hash: "0x00000000000000000000000000000000000000000000000000000000000000aa",
          updatedAt: "2026-01-31T12:00:00.000Z",
          media_collection: { low: preview(100), medium: preview(250), high: preview(500) },
        },
        minter_address: "0x46efbaedc92067e6d60e84ed6395099723252496",
        amount: "1",
        name: "BoredApeYachtClub",
        symbol: "BAYC",
        possible_spam: flag(false),
        verified_collection: flag(true),
        last_token_uri_sync: "2026-01-31T12:00:00.000Z",
        last_metadata_sync: "2026-01-31T12:00:00.000Z",
      },
    ],
  };
}

/** A token with one pool against a stablecoin: 1,000,000 units against $6,540,000, ether at $2,616. */
export const PRICE_EXAMPLE: TokenPriceModel = {
  tokenName: "Uniswap",
  tokenSymbol: "UNI",
  tokenLogo: "",
  tokenDecimals: "18",
  nativePrice: {
    value: "2500000000000000",
    decimals: 18,
    name: "Ether",
    symbol: "ETH",
    address: "0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2",
  },
  usdPrice: 6.54,
  usdPriceFormatted: "6.54",
  "24hrPercentChange": "-1.25",
  exchangeAddress: "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f",
  exchangeName: "Uniswap v2",
  tokenAddress: TOKEN_ADDRESS,
  toBlock: HEADER_EXAMPLES.block,
  provenance: {
    route: [
      {
        pool: "0x00000000000000000000000000000000000000aa",
        exchange: "Uniswap v2",
        factory: "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f",
        fee: 3_000,
        token0: TOKEN_ADDRESS,
        token1: "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
        decimals0: 18,
        decimals1: 6,
        reserve0: "1000000000000000000000000",
        reserve1: "6540000000000",
        block: 21_000_000,
        blockHash: HEADER_EXAMPLES.hash,
      },
    ],
    liquidityUsd: "6540000",
    confidence: "0.98",
    twap30m: "6.53",
    spreadPercent: "0.4",
  },
};

const error = (code: ErrorCode, message: string, details?: ErrorModel["details"]): ErrorModel =>
  details === undefined ? { message, code } : { message, code, details };

/** One error per status, with the service's own message. */
export const ERROR_EXAMPLES = {
  400: error("invalid_parameter", "limit: must be a whole number from 1 to 500", { parameter: "limit" }),
  401: error("missing_api_key", "API KEY missing from x-api-key header"),
  403: error("forbidden", "the key shop is of scope read; this route needs scope operate"),
  404: error("not_found", "no such path; see /swagger"),
  409: error("not_indexed_yet", "as_of_block: the collection is indexed up to block 20999999; ask again later"),
  410: error("cursor_reorged", "cursor: its block left the canonical chain; start again without it"),
  426: error("upgrade_required", "this path is a WebSocket: send an upgrade request"),
  429: error("rate_limited", "Rate limit exceeded"),
  500: error("internal", "internal error; the request id names it in the server's log"),
  503: error("chain_unavailable", "no endpoint of eth answers at the moment; try again later"),
} as const;

/** The 404 of the listing, and the 404 of the price. */
export const NO_CONTRACT = error("not_a_contract", `address: there is no contract at ${NFT_ADDRESS} on eth`);
export const NO_PRICE = error("low_liquidity", "No pools found with enough liquidity, to calculate the price", {
  pools: [
    {
      pool: "0x00000000000000000000000000000000000000aa",
      exchange: "Uniswap v2",
      reason: "low_liquidity",
      liquidityUsd: "12.5",
    },
  ],
});
export const STARTING = error("starting", "the event log is not open yet; try again");
