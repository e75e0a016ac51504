/** Addresses and hashes: cut in the middle, whole where the keyboard reaches them, copied by a button, linked to an explorer. */

import { linkTo } from "../state/place.ts";
import { CopyButton } from "./copy.tsx";
import { brief } from "./format.ts";

/** Addresses of the chains' block explorers, by the names of chains. The page has them unless the operator switched that off. */
const EXPLORERS: Readonly<Record<string, string>> = JSON.parse(
  document.getElementById("console")?.dataset["explorers"] ?? "{}",
);
export const explorerOf = (chain: string): string | undefined => EXPLORERS[chain.toLowerCase()];

interface AddressOptions {
  readonly value: string;
  /** The chain that it is on, for the link to a block explorer. */
  readonly chain: string;
  /** Where its own text leads. */
  readonly href?: string | undefined;
  /** True for an address that is cut only where the screen is narrow. */
  readonly isLong?: boolean;
}

/** An address, cut in the middle. The whole is its title, shown when the keyboard reaches it, and copied by a button. */
export const AddressLink = ({ value, ...options }: AddressOptions) => (
  <Identifier {...options} value={value} path={`address/${value}`} />
);

/** The hash of a transaction, like an address. */
export const Transaction = ({ value, chain }: Pick<AddressOptions, "value" | "chain">) => (
  <Identifier value={value} chain={chain} path={`tx/${value}`} />
);

/** An owner, with a link to its tokens in the collection. */
export const Owner = ({ collection, block, ...options }: OwnerOptions) => (
  <AddressLink {...options} href={linkTo.owned(options.chain, collection, options.value, block)} />
);

interface OwnerOptions extends Pick<AddressOptions, "value" | "chain" | "isLong"> {
  readonly collection: string;
  /** The block at which its tokens are shown; undefined for the newest. */
  readonly block?: number | undefined;
}

/** @param path of its page below the address of the chain's explorer */
function Identifier({ value, chain, href, isLong = false, path }: AddressOptions & { readonly path: string }) {
  const text = (
    <code title={value}>
      <span class="brief">{brief(value)}</span>
      <span class="whole">{value}</span>
    </code>
  );
  const explorer = explorerOf(chain);
  const page = explorer === undefined ? undefined : `${explorer}/${path}`;
  return (
    <span class={isLong ? "identifier long" : "identifier"}>
      {href === undefined ? text : <a href={href}>{text}</a>} <CopyButton value={value} />
      {page === undefined ? null : (
        <a
          class="explorer"
          href={page}
          target="_blank"
          rel="noreferrer"
          title={`Open at ${new URL(page).host}`}
          aria-label={`${value} at ${new URL(page).host}`}
        >
          <span />
        </a>
      )}
    </span>
  );
}
