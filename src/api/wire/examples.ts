/** Values that the examples of the documents share. They have the shape of real ones. */

/** Header examples by name. */
export const HEADER_EXAMPLES = {
  requestId: "0b4e6a2c-4a27-4d4c-9c1a-1f1f0e5b7a55",
  etag: 'W/"e968996a16214729"',
  block: "21000000",
  time: "2024-10-19T08:12:47.000Z",
  unknown: "limits, normalize_metadata",
  hash: "0x5b1d8f0b7c9f4a3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a0f9e8d7c6",
} as const;

export const NFT_ADDRESS = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";
export const TOKEN_ADDRESS = "0x1f9840a85d5af5bf1d1762f925bdaddc4201f984";
