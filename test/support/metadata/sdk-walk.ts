/**
 * A separate process, because the hosted service's client can start only once per process. Walks a collection with it,
 * with metadata and media, and prints its parsed pages as one line of JSON. Arguments: base URL, key, address.
 */
import Moralis from "moralis";

const [base = "", apiKey = "", address = ""] = process.argv.slice(2);
await Moralis.start({ apiKey, evmApiBaseUrl: base });
const tokens: unknown[] = [];
let cursor: string | undefined;
let pages = 0;
do {
  const response = await Moralis.EvmApi.nft.getContractNFTs({
    address,
    chain: "0x1",
    limit: 7,
    normalizeMetadata: true,
    mediaItems: true,
    ...(cursor === undefined ? {} : { cursor }),
  });
  pages++;
  for (const nft of response.result) {
    const json = nft.toJSON() as unknown as Record<string, unknown>;
    tokens.push({
      id: json["tokenId"],
      metadata: json["metadata"],
      normalized: json["normalizedMetadata"],
      media: json["media"],
    });
  }
  cursor = response.pagination.cursor || undefined;
} while (cursor !== undefined);
process.stdout.write(JSON.stringify({ pages, tokens }));
process.exit(0);
