/** Uses the client that swagger-typescript-api generates. */
import { Api, type ErrorBody, type HttpResponse, type NftPage } from "./generated/swagger-typescript-api/api.ts";
import { type Asked, empty, had, object, type Seen } from "./seen.ts";

export async function use({ base, key, nft, token }: Asked): Promise<Seen> {
  const { api } = new Api({ baseUrl: base, baseApiParams: { headers: { "X-API-Key": key } } });
  const page = async (query: Parameters<typeof api.getContractNfTs>[1]) => (await api.getContractNfTs(nft, query)).data;
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
  const price = await api.getTokenPrice(token, { include: "percent_change,provenance" });
  const { usdPrice, nativePrice, provenance } = price.data;
  const leg = had(provenance?.route[0]);
  const refused = await api.getContractNfTs(nft, { limit: 100_000 }).then(
    () => undefined,
    (thrown: HttpResponse<NftPage, ErrorBody>) => thrown,
  );
  const { status, error } = had(refused);
  const [one, bare] = [had(first.result[0]), had(plain.result[0])];
  return {
    ids,
    totals: [first.total, plain.total],
    isSpam: one.possible_spam,
    rich: { name: object(one.normalized_metadata).name, media: object(one.media).status },
    plain: [empty(bare.normalized_metadata), empty(bare.media)],
    price: { usd: usdPrice, decimals: nativePrice?.decimals, pool: leg.pool, block: leg.block },
    refusal: { status, code: error.code, parameter: error.details?.parameter },
  };
}
