/** What an address is on a chain, and what can be done with it: a collection, a token, a wallet, another contract. */
import { useState } from "preact/hooks";
import { kindIn } from "../chains/addresses.ts";
import { type ChainTrouble, endpointVariable } from "../chains/trouble.ts";
import { type Client, type CollectionDetails, ServiceError } from "../client/index.ts";
import { useAnswer } from "./hooks.ts";
import { TroubleWords, useToldTrouble } from "./notice.tsx";
import { counted, Failure, Field, isAddress, linkTo, plain, shortened, type Where } from "./parts.tsx";
import { useSession } from "./session.ts";

/** What an address is on a chain. */
type Finding =
  | { readonly is: "collection"; readonly name: string; readonly symbol: string }
  /** `price` in dollars, or `why` there is none. */
  | { readonly is: "token"; readonly name: string; readonly price: string }
  | { readonly is: "token"; readonly why: string }
  /** An NFT contract that the service has not read. */
  | { readonly is: "nft" }
  | { readonly is: "wallet" }
  /** Another contract; `isRead` if the service looked for NFTs in its logs. */
  | { readonly is: "contract"; readonly isRead: boolean }
  | { readonly is: "unreadable"; readonly trouble: ChainTrouble }
  | { readonly is: "disabled" };

/** Statuses of a contract of which the service knows that it has no NFTs. */
const WITHOUT_NFTS: readonly CollectionDetails["status"][] = ["not_nft", "not_a_contract"];

/** Flags and metadata of a collection; undefined if the service doesn't know it, or has no such route. */
export async function detailsOf(
  client: Client,
  where: Where,
  signal: AbortSignal,
): Promise<CollectionDetails | undefined> {
  try {
    return await client.collection(where, { signal });
  } catch (error) {
    if (error instanceof ServiceError && error.status === 404) return undefined;
    throw error;
  }
}

/** Asks what the service knows of the address, and then the chain by asking for a price. Has nothing indexed. */
async function identify(client: Client, where: Where, signal: AbortSignal): Promise<Finding> {
  let isRead = false;
  try {
    const known = await detailsOf(client, where, signal);
    isRead = known !== undefined && WITHOUT_NFTS.includes(known.status);
    if (known !== undefined && !isRead) {
      return { is: "collection", name: known.name ?? "", symbol: known.symbol ?? "" };
    }
    const { chain, address } = where;
    const { tokenName, tokenSymbol, usdPriceFormatted } = await client.price(address, { chain, signal });
    return { is: "token", name: `${plain(tokenName, 60)} (${plain(tokenSymbol, 20)})`, price: usdPriceFormatted };
  } catch (error) {
    const finding = findingOf(error);
    if (finding === undefined) throw error;
    return finding.is === "contract" ? { ...finding, isRead } : finding;
  }
}

/** What a refusal tells of its address; undefined if it tells nothing. */
export function findingOf(error: unknown): Finding | undefined {
  if (!(error instanceof ServiceError)) return undefined;
  switch (error.code) {
    case "not_a_token": {
      const kind = kindIn(error.message);
      if (kind === "nft") return { is: "nft" };
      return kind === "account" ? { is: "wallet" } : { is: "contract", isRead: false };
    }
    case "not_a_contract":
      return { is: "wallet" };
    case "no_pool":
    case "low_liquidity":
    case "no_dollar":
    case "no_price_at_block":
    case "unknown_decimals":
    case "searching":
      return { is: "token", why: error.message };
    case "chain_unavailable":
      return { is: "unreadable", trouble: (error.details?.["state"] ?? "unreachable") as ChainTrouble };
    case "chain_not_enabled":
      return { is: "disabled" };
    default:
      return undefined;
  }
}

/** What an address is on a chain, as the service finds out. */
export function AddressOn({ chain, address }: Where) {
  const { client } = useSession();
  const { value, error } = useAnswer((signal) => identify(client, { chain, address }, signal), [chain, address]);
  // The client repeats a refused request for a minute and more.
  const told = useToldTrouble(chain);
  if (error !== undefined) return <Failure error={error} />;
  if (value === undefined && told !== undefined) return <TroubleWords chain={chain} trouble={told} />;
  if (value === undefined) return <p role="status">Asking the chain…</p>;
  return <FindingText finding={value} {...{ chain, address }} />;
}

/** What an address is, and what can be done with it. */
export function FindingText({ finding, chain, address }: Where & { readonly finding: Finding }) {
  if (finding.is === "wallet") return <Wallet {...{ chain, address }} />;
  if (finding.is === "unreadable") return <TroubleWords chain={chain} trouble={finding.trouble} />;
  const { text, link, more = "" } = wordsOf(finding, { chain, address });
  return (
    <p>
      {text} {link === undefined ? null : <a href={link.href}>{link.name}</a>}
      {more}
    </p>
  );
}

interface FindingWords {
  readonly text: string;
  /** The screen to go on to. */
  readonly link?: { readonly name: string; readonly href: string };
  readonly more?: string;
}

function wordsOf(finding: Exclude<Finding, { is: "wallet" | "unreadable" }>, { chain, address }: Where): FindingWords {
  const [collection, price] = [linkTo.collection(chain, address), linkTo.price(chain, address)];
  switch (finding.is) {
    case "collection": {
      const text = `An NFT collection: ${plain(finding.name, 60) || "without a name"} ${plain(finding.symbol, 20)}.`;
      return { text, link: { name: "Open the collection", href: collection } };
    }
    case "nft": {
      const text = "An NFT contract that the service has not read.";
      return { text, link: { name: "Open the collection", href: collection }, more: " to have its history read." };
    }
    case "contract": {
      if (!finding.isRead) {
        return { text: "A contract, but no ERC-20 token.", link: { name: "Look for NFTs in it", href: collection } };
      }
      const text =
        "A contract without NFTs, and no ERC-20 token: the service has nothing to show of it. If that is a surprise, it may be the right address of another chain.";
      return { text, link: { name: "Look on another chain", href: linkTo.search(address) } };
    }
    case "token": {
      if ("price" in finding) {
        const text = `An ERC-20 token: ${finding.name}, at $${shortened(finding.price)}.`;
        return { text, link: { name: "Go to its price", href: price } };
      }
      const text = `An ERC-20 token without a price: ${plain(finding.why, 200)}.`;
      return { text, link: { name: "See what was asked", href: price } };
    }
    case "disabled": {
      const variable = endpointVariable(chain);
      return { text: `This server does not read ${chain}. Its operator enables the chain with ${variable}.` };
    }
  }
}

// A wallet has no page. What it holds is in the collections that the service knows.

/** Collections in which a wallet is looked for without a question, and tokens that are counted in each. */
const [MOST_COLLECTIONS, MOST_COUNTED] = [20, 50];

interface Holding {
  readonly collection: string;
  readonly name: string;
  readonly count: string;
}

interface Holdings {
  readonly found: readonly Holding[];
  readonly searched: number;
  /** True if the chain has more collections than were searched. */
  readonly hasMore: boolean;
}

/** Looks for a wallet in the complete collections of a chain, one after the other, since each may be loaded into memory. */
async function holdingsOf(client: Client, { chain, address }: Where, signal: AbortSignal): Promise<Holdings> {
  const query = { chain, status: "following", limit: MOST_COLLECTIONS, signal } as const;
  const { result: collections, cursor } = await client.collectionPage(query);
  const found: Holding[] = [];
  for (const { address: collection, name } of collections) {
    const tokens = { owner: address, limit: MOST_COUNTED, signal };
    const { result, cursor: next } = await client.tokenPage({ chain, address: collection }, tokens);
    if (result.length === 0) continue;
    const count = `${next === null ? "" : "more than "}${counted(result.length, "token")}`;
    found.push({ collection, name: plain(name ?? "", 60) || collection, count });
  }
  return { found, searched: collections.length, hasMore: cursor !== null };
}

function Wallet({ chain, address }: Where) {
  const { client, scope } = useSession();
  const { value, error } = useAnswer<Holdings | undefined>(
    (signal) => (scope === "operate" ? holdingsOf(client, { chain, address }, signal) : Promise.resolve(undefined)),
    [chain, address],
  );
  return (
    <>
      <p>
        A wallet: an account without code. Wallets have no page, because the service keeps what is in a collection. A
        collection shows what a wallet holds in it.
      </p>
      <Failure error={error} />
      {value === undefined ? null : (
        <>
          <p role="status">{heldText(value, chain)}</p>
          <ul class="plain-list">
            {value.found.map(({ collection, name, count }) => (
              <li key={collection}>
                <a href={linkTo.owned(chain, collection, address)}>{name}</a>: {count}
              </li>
            ))}
          </ul>
        </>
      )}
      <InCollection chain={chain} owner={address} />
    </>
  );
}

function heldText({ found, searched, hasMore }: Holdings, chain: string): string {
  if (searched === 0) return `The service has no complete collection of ${chain} yet.`;
  const where = `${hasMore ? "the first " : ""}${counted(searched, "complete collection")} of ${chain}`;
  return found.length === 0 ? `It holds nothing in ${where}.` : `It holds tokens in ${found.length} of ${where}.`;
}

/** Leads to what a wallet holds in a collection. */
function InCollection({ chain, owner }: { readonly chain: string; readonly owner: string }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    const isGood = isAddress(text.trim());
    setProblem(isGood ? "" : "The address of a collection has 0x and 40 hexadecimal digits.");
    if (isGood) location.hash = linkTo.owned(chain, text.trim().toLowerCase(), owner);
  };
  const id = `collection-on-${chain}`;
  return (
    <form class="row" onSubmit={submit}>
      <Field id={id} label="What it holds in the collection" value={text} placeholder="0x…" onInput={setText} />
      <button type="submit">Show</button>
      <span role="alert">{problem}</span>
    </form>
  );
}
