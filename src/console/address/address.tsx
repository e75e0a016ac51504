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

/** What an address is on a chain, and the screen to go on to. */
type Finding =
  | { readonly is: "wallet" }
  | { readonly is: "unreadable"; readonly trouble: ChainTrouble }
  | {
      /** `token` for an ERC-20 token, with or without a price. */
      readonly is: "token" | "other";
      readonly text: string;
      readonly link?: { readonly name: string; readonly href: string; readonly more?: string };
    };

/** Statuses of a contract of which the service knows that it has no NFTs. */
const WITHOUT_NFTS: readonly CollectionDetails["status"][] = ["not_nft", "not_a_contract"];

/** Asks what the service knows of the address, and then the chain by asking for a price. Has nothing indexed. */
async function identify(client: Client, where: Where, signal: AbortSignal): Promise<Finding> {
  const { chain, address } = where;
  let isRead = false;
  try {
    const known = await detailsOf(client, where, signal);
    isRead = known !== undefined && WITHOUT_NFTS.includes(known.status);
    if (known !== undefined && !isRead) {
      const text = `An NFT collection: ${plain(known.name ?? "", 60) || "without a name"} ${plain(known.symbol ?? "", 20)}.`;
      return { is: "other", text, link: { name: OPEN, href: linkTo.collection(chain, address) } };
    }
    const { tokenName, tokenSymbol, usdPriceFormatted } = await client.price(address, { chain, signal });
    const text = `An ERC-20 token: ${plain(tokenName, 60)} (${plain(tokenSymbol, 20)}), at $${shortened(usdPriceFormatted)}.`;
    return { is: "token", text, link: { name: "Go to its price", href: linkTo.price(chain, address) } };
  } catch (error) {
    const finding = findingOf(error, where, isRead);
    if (finding === undefined) throw error;
    return finding;
  }
}

const OPEN = "Open the collection";

/**
 * What a refusal tells of its address; undefined if it tells nothing.
 * @param isRead true if the service looked for NFTs in the contract's logs
 */
export function findingOf(error: unknown, { chain, address }: Where, isRead = false): Finding | undefined {
  if (!(error instanceof ServiceError)) return undefined;
  switch (error.code) {
    case "not_a_token": {
      const kind = kindIn(error.message);
      if (kind === "account") return { is: "wallet" };
      const collection = linkTo.collection(chain, address);
      if (kind === "nft") {
        const link = { name: OPEN, href: collection, more: " to have its history read." };
        return { is: "other", text: "An NFT contract that the service has not read.", link };
      }
      if (!isRead) {
        const link = { name: "Look for NFTs in it", href: collection };
        return { is: "other", text: "A contract, but no ERC-20 token.", link };
      }
      const text =
        "A contract without NFTs, and no ERC-20 token: the service has nothing to show of it. If that is a surprise, it may be the right address of another chain.";
      return { is: "other", text, link: { name: "Look on another chain", href: linkTo.search(address) } };
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
      return { is: "token", text, link: { name: "See what was asked", href: linkTo.price(chain, address) } };
    }
    case "chain_unavailable":
      return { is: "unreadable", trouble: (error.details?.["state"] ?? "unreachable") as ChainTrouble };
    case "chain_not_enabled": {
      const text = `This server does not read ${chain}. Its operator enables the chain with ${endpointVariable(chain)}.`;
      return { is: "other", text };
    }
    default:
      return undefined;
  }
}

/** What an address is on a chain, as the service finds out. */
export function AddressOn({ chain, address }: Where) {
  const { client } = useSession();
  const finding = useQuery(["address", chain, address], (signal) => identify(client, { chain, address }, signal));
  // The client repeats a refused request for a minute and more.
  const told = useToldTrouble(chain);
  if (finding.kind === "loading" && told !== undefined) return <TroubleWords chain={chain} trouble={told} />;
  return (
    <QueryView of={finding} loading="Asking the chain…">
      {(value) => <FindingText finding={value} {...{ chain, address }} />}
    </QueryView>
  );
}

/** What an address is, and what can be done with it. */
export function FindingText({ finding, chain, address }: Where & { readonly finding: Finding }) {
  if (finding.is === "wallet") return <Wallet {...{ chain, address }} />;
  if (finding.is === "unreadable") return <TroubleWords chain={chain} trouble={finding.trouble} />;
  const { text, link } = finding;
  return (
    <p>
      {text} {link === undefined ? null : <a href={link.href}>{link.name}</a>}
      {link?.more}
    </p>
  );
}
