/** What an address is on a chain, and what can be done with it: a collection, a token, a wallet, another contract. */
import { kindIn } from "../../chains/addresses.ts";
import { type ChainTrouble, endpointVariable } from "../../chains/trouble.ts";
import { type Client, type CollectionDetails, ServiceError } from "../../client/index.ts";
import { plain, shortened } from "../parts/format.ts";
import { TroubleWords, useToldTrouble } from "../parts/notice.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { detailsOf } from "../state/details.ts";
import { linkTo, type Where } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { Wallet } from "./wallet.tsx";

/** An address, and the token of it that a visitor looks for. */
interface LookedUp extends Where {
  readonly id?: string | undefined;
}

/** What an address is on a chain, and the screen to go on to. */
type AddressFinding =
  | { readonly is: "wallet" }
  | { readonly is: "unreadable"; readonly trouble: ChainTrouble }
  | {
      readonly is: "contract";
      readonly text: string;
      readonly link?: { readonly name: string; readonly href: string; readonly more?: string };
    };

/** Statuses of a contract of which the service knows that it has NFTs, and of one that was read and has none. */
const WITH_NFTS: readonly CollectionDetails["status"][] = ["indexing", "joining", "following"];
const WITHOUT_NFTS: readonly CollectionDetails["status"][] = ["not_nft", "not_a_contract"];

/** Asks what the service knows of the address, and then the chain by asking for a price. Has nothing indexed. */
async function identify(
  client: Client,
  { chain, address, id }: LookedUp,
  signal: AbortSignal,
): Promise<AddressFinding> {
  let status: CollectionDetails["status"] | undefined;
  try {
    const known = await detailsOf(client, { chain, address }, signal);
    status = known?.status;
    if (known !== undefined && (known.type !== null || WITH_NFTS.includes(known.status))) {
      const text = `An NFT collection: ${plain(known.name ?? "", 60) || "without a name"} ${plain(known.symbol ?? "", 20)}.`;
      return { is: "contract", text, link: collectionLink({ chain, address, id }) };
    }
    const { tokenName, tokenSymbol, usdPriceFormatted } = await client.price(address, { chain, signal });
    const text = `An ERC-20 token: ${plain(tokenName, 60)} (${plain(tokenSymbol, 20)}), at $${shortened(usdPriceFormatted)}.`;
    return { is: "contract", text, link: { name: "Go to its price", href: linkTo.price(chain, address) } };
  } catch (error) {
    const finding = findingOf(error, { chain, address, id }, status !== undefined && WITHOUT_NFTS.includes(status));
    if (finding === undefined) throw error;
    return finding;
  }
}

const collectionLink = ({ chain, address, id }: LookedUp) =>
  id === undefined
    ? { name: "Open the collection", href: linkTo.collection(chain, address) }
    : { name: `Open its token ${plain(id, 20)}`, href: linkTo.token(chain, address, id) };

/**
 * What a refusal tells of its address; undefined if it tells nothing.
 * @param isRead true if the service looked for NFTs in the contract's logs
 */
function findingOf(error: unknown, at: LookedUp, isRead: boolean): AddressFinding | undefined {
  if (!(error instanceof ServiceError)) return undefined;
  const { chain, address } = at;
  switch (error.code) {
    case "not_a_token": {
      const kind = kindIn(error.message);
      if (kind === "account") return { is: "wallet" };
      if (kind === "nft") {
        const link = { ...collectionLink(at), more: " to have its history read." };
        return { is: "contract", text: "An NFT contract that the service has not read.", link };
      }
      if (!isRead) {
        const link = { name: "Look for NFTs in it", href: linkTo.collection(chain, address) };
        return { is: "contract", text: "A contract, but no ERC-20 token.", link };
      }
      const text =
        "A contract without NFTs, and no ERC-20 token: the service has nothing to show of it. If that is a surprise, it may be the right address of another chain.";
      return { is: "contract", text, link: { name: "Look on another chain", href: linkTo.search(address) } };
    }
    case "not_a_contract":
      return { is: "wallet" };
    case "no_pool":
    case "low_liquidity":
    case "no_dollar":
    case "no_price_at_block":
    case "unknown_decimals":
    case "searching": {
      const text = `An ERC-20 token without a price: ${plain(error.message, 200)}.`;
      return { is: "contract", text, link: { name: "See what was asked", href: linkTo.price(chain, address) } };
    }
    case "chain_unavailable":
      return { is: "unreadable", trouble: (error.details?.["state"] ?? "unreachable") as ChainTrouble };
    case "chain_not_enabled": {
      const text = `This server does not read ${chain}. Its operator enables the chain with ${endpointVariable(chain)}.`;
      return { is: "contract", text };
    }
    default:
      return undefined;
  }
}

/** What an address is on a chain, as the service finds out, and what can be done with it. */
export function AddressOn({ chain, address, id }: LookedUp) {
  const { client } = useSession();
  const finding = useQuery(["address", chain, address, id], (signal) =>
    identify(client, { chain, address, id }, signal),
  );
  // The client repeats a refused request for a minute and more.
  const told = useToldTrouble(chain);
  if (finding.kind === "loading" && told !== undefined) return <TroubleWords chain={chain} trouble={told} />;
  return (
    <QueryView of={finding} loading="Asking the chain what this address is…">
      {(value) => {
        if (value.is === "wallet") return <Wallet {...{ chain, address }} />;
        if (value.is === "unreadable") return <TroubleWords chain={chain} trouble={value.trouble} />;
        const { text, link } = value;
        return (
          <p>
            {text} {link === undefined ? null : <a href={link.href}>{link.name}</a>}
            {link?.more}
          </p>
        );
      }}
    </QueryView>
  );
}
