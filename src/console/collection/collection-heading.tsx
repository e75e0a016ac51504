/** What a collection is: its name, address and flags, and what its own document says of it. */
import type { CollectionDetails, NftRecord } from "../../client/index.ts";
import { brief, counted, plain } from "../parts/format.ts";
import { AddressLink } from "../parts/identifier.tsx";
import { LongHeading } from "../parts/long-heading.tsx";
import { linkTo, type Where } from "../state/place.ts";
import { Picture } from "./picture.tsx";

interface CollectionHeadingOptions extends Where {
  readonly record: NftRecord | undefined;
  /** True if the address is an account without code. */
  readonly isWallet: boolean;
  /** The contract's name, if it is known; that of the record is newer. */
  readonly name: string | null | undefined;
  /** Number of tokens; undefined until the collection is complete and known. */
  readonly total: number | undefined;
  readonly flags: CollectionDetails["flags"] | undefined;
}

export function CollectionHeading({ chain, address, isWallet, name, record, total, flags }: CollectionHeadingOptions) {
  const rule = flags?.rule == null ? "" : ` (rule ${plain(flags.rule, 100)})`;
  const isTrue = (flag: unknown) => flag === true || flag === "true";
  return (
    <div class="heading">
      <LongHeading
        name={record?.name || name || ""}
        none={`${isWallet ? "Wallet " : ""}${brief(address)}`}
        symbol={record?.symbol}
      />
      <p>
        {chain} · <AddressLink value={address} chain={chain} />
        {record === undefined ? "" : ` · ${record.contract_type}`}
        {total === undefined ? "" : ` · ${counted(total, "NFT")}`}
        {isTrue(record?.verified_collection) ? <span class="flag good"> verified by the operator</span> : null}
        {isTrue(record?.possible_spam) ? <span class="flag bad"> possible spam{rule}</span> : null}
        {total === 0 ? (
          <>
            {" "}
            · <a href={linkTo.price(chain, address)}>its price, if it is an ERC-20 token</a>
          </>
        ) : null}
      </p>
    </div>
  );
}

/** Most characters of a description that the page shows. */
const MOST_DESCRIBED = 1_000;

/** What the contract's own document says of the collection. Its link is text: a stranger wrote it. */
export function AboutCollection({
  description,
  media,
  externalLink,
}: Pick<CollectionDetails, "description" | "media" | "externalLink">) {
  const hasPicture = media.media_collection !== null;
  if (!hasPicture && description === null && externalLink === null) return null;
  return (
    <section class="details" aria-label="About the collection">
      {hasPicture ? <Picture record={{ media }} pixels={100} /> : null}
      <div>
        {description === null ? null : <p>{plain(description, MOST_DESCRIBED)}</p>}
        {externalLink === null ? null : <code>{plain(externalLink, 200)}</code>}
      </div>
    </section>
  );
}
