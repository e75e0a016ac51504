/**
 * The unmodified `moralis` SDK on this service: only its base URL is configured. Prints the first page of a collection
 * and the price of a token as JSON, as the SDK parsed them.
 *
 *     SERVICE_KEY=… bun scripts/examples/moralis.ts 0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d 0x1f9840a85d5af5bf1d1762f925bdaddc4201f984
 */
import Moralis from "moralis";
import { runExample } from "./command-line.ts";

const USAGE = `usage: SERVICE_KEY=… bun scripts/examples/moralis.ts NFT TOKEN [--chain 0x1] [--url URL]
  --chain    the code of the chain, as the SDK wants it`;

export interface MoralisOptions {
  /** Base URL of the service. */
  readonly url: string;
  readonly key: string;
  readonly chain: string;
  readonly nft: string;
  readonly token: string;
}

/** Returns a page and a price, raw and parsed. Once per process: the SDK starts only once. */
export async function readWithMoralis({ url, key, chain, nft, token }: MoralisOptions) {
  await Moralis.start({ apiKey: key, evmApiBaseUrl: `${url.replace(/\/+$/, "")}/api/v2` });
  const page = await Moralis.EvmApi.nft.getContractNFTs({ address: nft, chain, normalizeMetadata: true });
  const price = await Moralis.EvmApi.token.getTokenPrice({ address: token, chain });
  return {
    page: page.raw,
    owners: page.result.map(({ tokenId, ownerOf }) => ({ tokenId: String(tokenId), owner: ownerOf?.lowercase })),
    price: price.raw,
    usdPrice: price.result.usdPrice,
  };
}

if (import.meta.main) {
  await runExample(USAGE, [], async (line) => {
    const [nft, token] = [line.address(0, "NFT"), line.address(1, "TOKEN")];
    const { url, key } = line;
    const read = await readWithMoralis({ url, key, chain: line.option("chain") ?? "0x1", nft, token });
    console.log(JSON.stringify(read, null, 2));
  });
}
