/**
 * The hosted service's own client in a separate process, because it can start only once per process. Arguments: base
 * URL and key. In: a JSON list of requests on standard input. Out: for each, the walk by `next()` to the end, raw and
 * parsed, or the error it threw.
 */
import Moralis from "moralis";

const [base = "", apiKey = ""] = process.argv.slice(2);
const requests = (await Bun.stdin.json()) as Parameters<typeof Moralis.EvmApi.nft.getContractNFTs>[0][];
await Moralis.start({ apiKey, evmApiBaseUrl: base });

async function walk(request: (typeof requests)[number]): Promise<unknown> {
  const pages: unknown[] = [];
  let page = await Moralis.EvmApi.nft.getContractNFTs(request);
  for (;;) {
    pages.push({ raw: page.raw, pagination: page.pagination, parsed: page.result.map((nft) => nft.toJSON()) });
    if (!page.hasNext()) return { pages };
    page = await page.next();
  }
}

const answers = await Promise.all(
  requests.map((request) => walk(request).catch((error: Error) => ({ error: error.message }))),
);
await Bun.write(Bun.stdout, JSON.stringify(answers));
process.exit(0);
