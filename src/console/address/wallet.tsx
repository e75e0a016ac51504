/** A wallet: what it holds in the collections that the service knows. */
import { AddressForm } from "../parts/address-form.tsx";
import { counted, plain, whole } from "../parts/format.ts";
import { More } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { goTo, linkTo, type Where } from "../state/place.ts";
import { usePages } from "../state/query.ts";
import { useSession } from "../state/session.ts";

/** A wallet on a chain: an account without code. */
export function Wallet({ chain, address }: Where) {
  const { client } = useSession();
  const held = usePages(["wallet", chain, address], (cursor, signal) =>
    client.hosted.walletCollectionPage(address, { chain, token_counts: true, cursor, signal }),
  );
  return (
    <>
      <p>A wallet: an account without code.</p>
      <QueryView of={held} loading="Looking for its tokens in the complete collections…">
        {({ rows, page: { asOf }, ...reading }) => (
          <>
            <p role="status">
              {rows.length === 0
                ? `It holds nothing in the complete collections of ${chain}`
                : `It holds tokens in ${counted(rows.length, "collection")}${reading.more === undefined ? "" : " so far"}`}
              {asOf === null ? "." : ` at block ${whole(asOf.block)}.`}
            </p>
            <ul>
              {rows.map(({ token_address: collection, name, count = 0 }) => (
                <li key={collection}>
                  <a href={linkTo.owned(chain, collection, address)}>{plain(name, 60) || collection}</a>:{" "}
                  {counted(count, "token")}
                </li>
              ))}
            </ul>
            <More {...reading} />
          </>
        )}
      </QueryView>
      <AddressForm
        {...{ id: `collection-on-${chain}`, label: "What it holds in another collection", action: "Show" }}
        wrong="The address of a collection has 0x and 40 hexadecimal digits."
        onAddress={(collection) => goTo(linkTo.owned(chain, collection, address))}
      />
    </>
  );
}
