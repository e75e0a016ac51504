/** The tokens before and after one: as the gallery had them that led here, else those with the next numbers. */
import { cutInside } from "../parts/format.ts";
import { neighboursInGallery } from "../state/gallery-order.ts";
import { linkTo, type TokenAt } from "../state/place.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";

/** One more than the largest token id. */
const IDS = 2n ** 256n;

export function Neighbours({ chain, address, id, block }: TokenAt) {
  const { client } = useSession();
  const listed = neighboursInGallery({ chain, address }, id);
  const ids = [BigInt(id) - 1n, BigInt(id) + 1n].filter((one) => one >= 0n && one < IDS).map(String);
  const counted = useQuery(
    ["neighbours", chain, address, id],
    async (signal) => {
      const tokens = ids.map((one) => ({ token_address: address, token_id: one }));
      return (await client.hosted.nfts({ tokens }, { chain, signal })).map((record, at) => record && ids[at]);
    },
    { isOn: listed.before === undefined || listed.after === undefined },
  );
  const existing = readyValue(counted) ?? [];
  const numbered = (step: bigint) => existing.find((one) => one != null && BigInt(one) === BigInt(id) + step);
  const [before, after] = [listed.before ?? numbered(-1n), listed.after ?? numbered(1n)];
  if (before == null && after == null) return null;
  return (
    <nav class="neighbours" aria-label="Tokens beside this one">
      {before == null ? null : <a href={linkTo.token(chain, address, before, block)}>← #{cutInside(before, 13)}</a>}
      {after == null ? null : <a href={linkTo.token(chain, address, after, block)}>#{cutInside(after, 13)} →</a>}
    </nav>
  );
}
