/** Uses the client that @hey-api/openapi-ts generates. */
import { createClient } from "./generated/hey-api/client/index.ts";
import { type GetContractNftsData, getContractNfts, getTokenPrice } from "./generated/hey-api/index.ts";
import { type Asked, empty, had, object, type Seen } from "./seen.ts";

export async function use({ base, key, nft, token }: Asked): Promise<Seen> {
  const client = createClient({ baseUrl: base, auth: key });
  const page = async (query: NonNullable<GetContractNftsData["query"]>) =>
    had((await getContractNfts({ client, path: { address: nft }, query })).data);
  const ids: string[] = [];
  const first = await page({
    chain: "eth",
    limit: 50,
    disable_total: false,
    normalizeMetadata: true,
    media_items: true,
  });
  for (let at = first; ; at = await page({ cursor: had(at.cursor) })) {
    ids.push(...at.result.map((record) => record.token_id));
    if (at.cursor === null) break;
  }
  const plain = await page({ limit: 1, format: "hex" });
  const price = await getTokenPrice({
    client,
    path: { address: token },
    query: { include: "percent_change,provenance" },
  });
  const { usdPrice, nativePrice, provenance } = had(price.data);
  const leg = had(provenance?.route[0]);
  const { error, response } = await getContractNfts({ client, path: { address: nft }, query: { limit: 100_000 } });
  const [one, bare] = [had(first.result[0]), had(plain.result[0])];
  return {
    ids,
    totals: [first.total, plain.total],
    isSpam: one.possible_spam,
    rich: { name: object(one.normalized_metadata).name, media: object(one.media).status },
    plain: [empty(bare.normalized_metadata), empty(bare.media)],
    price: { usd: usdPrice, decimals: nativePrice?.decimals, pool: leg.pool, block: Number(leg.block) },
    refusal: { status: had(response).status, code: had(error).code, parameter: had(error).details?.parameter },
  };
}
