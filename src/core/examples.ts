/** Values that the examples of the documents share. They have the shape of real ones, and those of a block belong together. */

export const EXAMPLE_BLOCK = 21_000_000;
export const EXAMPLE_HASH = "0x5b1d8f0b7c9f4a3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a0f9e8d7c6";
export const EXAMPLE_TIME = "2024-10-19T08:12:47.000Z";

export const NFT_ADDRESS = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";
export const TOKEN_ADDRESS = "0x1f9840a85d5af5bf1d1762f925bdaddc4201f984";
/** The pool of that token and USDC at Uniswap v2. */
export const POOL_EXAMPLE = "0xebfb684dd2b01e698ca6c14f10e4f289934a54d6";
export const FACTORY_EXAMPLE = "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f";
export const USDC_ADDRESS = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
/** The pool of that token and WETH at Uniswap v2. */
export const PAIR_EXAMPLE = "0xd3d2e2692501a5c9ca623199d38826e513033a17";
export const WETH_ADDRESS = "0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2";
export const COLLECTION_PICTURE = "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/collection";
export const COLLECTION_LINK = "https://boredapeyachtclub.com";
export const MINTER_EXAMPLE = "0x46efbaedc92067e6d60e84ed6395099723252496";
export const OWNER_EXAMPLE = "0xf4a1f3ba15a8b3a93a9b84e0e2e8a2ab5dc9e8ce";
