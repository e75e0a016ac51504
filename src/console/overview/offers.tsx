/** Contracts that a link or the documents suggest to begin with. */
import { isAddress } from "../parts/format.ts";
import { AddressLink } from "../parts/identifier.tsx";
import { linkTo } from "../state/place.ts";

/** The contracts of the API's examples. They are on Ethereum, and the demo's local chain has contracts at their addresses. */
export const EXAMPLES = [
  "eth:0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d",
  "eth:0x1f9840a85d5af5bf1d1762f925bdaddc4201f984:price",
];

export function Offers({ offers }: { readonly offers: readonly string[] }) {
  const places = offers.map((offer) => offer.split(":")).filter(([, address = ""]) => isAddress(address));
  if (places.length === 0) return null;
  return (
    <>
      <p>{offers === EXAMPLES ? "Or try an example:" : "The link that you opened suggests:"}</p>
      <ul>
        {places.map(([chain = "eth", address = "", kind]) => (
          <li key={address}>
            <a href={kind === "price" ? linkTo.price(chain, address) : linkTo.collection(chain, address)}>
              {kind === "price" ? "the price of a token" : "an NFT collection"}
            </a>{" "}
            <AddressLink value={address} chain={chain} />
          </li>
        ))}
      </ul>
    </>
  );
}
