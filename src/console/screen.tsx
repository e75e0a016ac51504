/** Which screen a place is. */
import { CollectionScreen } from "./collection/collection.tsx";
import { OperateScreen } from "./operate/operate.tsx";
import { LookUpScreen } from "./overview/look-up.tsx";
import { OverviewScreen } from "./overview/overview.tsx";
import { isAddress, plain } from "./parts/format.ts";
import { PriceScreen } from "./price/price.tsx";
import { SearchScreen } from "./search/search.tsx";
import type { Place } from "./state/place.ts";
import { useSession } from "./state/session.ts";
import { TokenScreen } from "./token/token.tsx";

export function Screen({ path, query }: Place) {
  const { scope } = useSession();
  const [kind = "", chain = "", address = "", id] = path;
  const key = path.join("/");
  if (kind === "nft" && path.length <= 4) {
    if (!isAddress(address)) return <Unknown reason={`${plain(address) || "It"} is no address of a contract.`} />;
    if (id === undefined) return <CollectionScreen key={key} chain={chain} address={address.toLowerCase()} />;
    return <TokenScreen key={key} chain={chain} address={address.toLowerCase()} id={id} />;
  }
  if (kind === "price") return <PriceScreen key={key} chain={chain || undefined} address={address.toLowerCase()} />;
  if (kind === "operate") return <OperateScreen />;
  if (kind === "search") return <SearchScreen key={key} text={chain} />;
  if (kind === "") {
    const offers = query.getAll("try");
    return scope === "read" ? <LookUpScreen offers={offers} /> : <OverviewScreen offers={offers} />;
  }
  return <Unknown reason={`The console has no screen "${plain(key)}".`} />;
}

/** The screen of an address that leads nowhere. */
function Unknown({ reason }: { readonly reason: string }) {
  return (
    <>
      <h1>This page does not exist</h1>
      <p>{reason}</p>
      <p>
        An address of a contract has 0x and 40 hexadecimal digits. <a href="#/">Go to the overview</a>, or search above.
      </p>
    </>
  );
}
