/** The schemas of a record, of its preview pictures, and of a page of a listing. */
import { type Static, Type } from "@sinclair/typebox";
import { EXAMPLE_BLOCK, MINTER_EXAMPLE, OWNER_EXAMPLE } from "../../core/examples.ts";
import {
  address,
  boolean,
  digits,
  double,
  eitherForm,
  exampleOf,
  int32,
  int64,
  named,
  nullable,
  nullableText,
  nullableTime,
  oneOf,
  text,
  withExample,
} from "../../core/schema-parts.ts";
import type { MediaStatus } from "../../nft/metadata/media/media.ts";
import { glossaryOf, LISTING_WORDS, MEDIA_WORDS, wireValues } from "../../status-words.ts";

/** The object, or "" unless a parameter requests it: the seed API leaves a field out in this way. */
const orEmpty = <T extends ReturnType<typeof named>>(schema: T, description: string) =>
  withExample(
    Type.Unsafe<"" | Static<T>>({ description, oneOf: [{ type: "string", enum: [""] }, schema] }),
    exampleOf(schema),
  );

const PICTURE = "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234";
const FETCHED_AT = "2026-01-31T12:00:00.000Z";

const Attribute = Type.Object({
  trait_type: nullableText("Name of the trait", "Fur"),
  value: withExample(Type.Unknown({ description: "Any JSON value, in the type that the metadata gives it" }), "Brown"),
  display_type: nullableText("How to show the value, such as number or date"),
  max_value: withExample(Type.Unknown({ description: "Largest value of the trait; mostly null" }), null),
  trait_count: double("From the metadata, else 0", 0),
  order: withExample(Type.Unknown({ description: "Position among the traits; mostly null" }), null),
});

const NormalizedMetadata = Type.Object({
  name: nullableText("Name of the token"),
  description: nullableText("Description of the token"),
  image: nullableText("URI of the image", PICTURE),
  external_link: nullableText("Link to the token's page"),
  external_url: nullableText("Link to the token's page"),
  animation_url: nullableText("URI of a video, sound or page"),
  attributes: Type.Array(named("Attribute", Attribute)),
});

export const PREVIEW_EXAMPLE = "c0ffee0000000000000000000000000000000000000000000000000000000001";
const preview = (size: 100 | 250 | 500) => {
  const url = `http://127.0.0.1:3000/media/${PREVIEW_EXAMPLE}/${size}`;
  return named(
    "Preview",
    Type.Object({
      height: int32("Pixels", size),
      width: int32("Pixels", size),
      url: text("Absolute URL under the server's public URL", url, { format: "uri" }),
    }),
  );
};

const MEDIA_STATUSES = wireValues(MEDIA_WORDS) satisfies readonly MediaStatus[];

export const Media = named(
  "Media",
  Type.Object({
    status: oneOf(MEDIA_STATUSES, glossaryOf(MEDIA_WORDS), "success"),
    mimetype: nullableText("Media type of the original, detected from its content", "image/png"),
    category: nullableText("image, video, audio and the like", "image"),
    original_media_url: nullableText("URL from the metadata; null when it has none", PICTURE),
    parent_hash: nullableText("SHA-256 of the original", `0x${"aa".padStart(64, "0")}`),
    updatedAt: nullableTime("Time at which the image was examined", FETCHED_AT),
    media_collection: nullable(
      Type.Object(
        { low: preview(100), medium: preview(250), high: preview(500) },
        { description: "Previews of 100, 250 and 500 pixels" },
      ),
    ),
  }),
);

/** A whole number: a string of digits, or a number with `native`. */
export const wireCount = (description: string, example: number) =>
  eitherForm(digits(description, String(example)), int64(description, example));
const flagText = (description: string, example: boolean) =>
  eitherForm(oneOf(["true", "false"], description, `${example}`), boolean(description, example));

/** What the listing says of a contract in all its answers. */
export const CONTRACT_FLAGS = {
  possible_spam: flagText("true if the contract looks like spam", false),
  verified_collection: flagText("true if the operator lists the contract as genuine", true),
};
export const CONTRACT_NAMES = {
  name: text("Name of the collection", "BoredApeYachtClub"),
  symbol: text("Symbol of the collection", "BAYC"),
};

export const NftRecord = named(
  "NftRecord",
  Type.Object({
    token_address: address("Address of the contract, lower case"),
    token_id: text("Decimal, or 0x… with format=hex", "1234", { pattern: "^([0-9]+|0x[0-9a-f]+)$" }),
    owner_of: text('Owner; "" for an ERC-1155 or ERC-6909 token with several holders', OWNER_EXAMPLE),
    token_hash: text(
      "md5 of the lower-case contract address followed by the decimal token id",
      "ab96a59f7d41a8648adee2f63d1386ce",
      { pattern: "^[0-9a-f]{32}$" },
    ),
    block_number: digits("Block of the last transfer", String(EXAMPLE_BLOCK)),
    block_number_minted: digits("Block of the first mint", "12344138"),
    contract_type: text(
      "ERC721, ERC1155, ERC6909, or the family of a contract older than them: CRYPTOPUNKS, MOONCATS",
      "ERC721",
    ),
    token_uri: nullableText("Token URI as the contract returned it", PICTURE),
    metadata: nullableText(
      "The raw JSON as one string",
      `{"image":"${PICTURE}","attributes":[{"trait_type":"Fur","value":"Brown"}]}`,
    ),
    normalized_metadata: orEmpty(named("NormalizedMetadata", NormalizedMetadata), '"" unless normalizeMetadata=true'),
    media: orEmpty(Media, '"" unless media_items=true'),
    minter_address: text(
      "Receiver of the first mint; a fixed sentence for ERC-1155 and ERC-6909, where a token can have several",
      MINTER_EXAMPLE,
    ),
    amount: digits("1, or the circulating amount of an ERC-1155 or ERC-6909 token", "1"),
    ...CONTRACT_NAMES,
    ...CONTRACT_FLAGS,
    last_token_uri_sync: nullableTime("Time of the last read of the URI", FETCHED_AT),
    last_metadata_sync: nullableTime("Time of the last read of the metadata", FETCHED_AT),
  }),
);

export const CURSOR_EXAMPLE = "eyJ2IjoxfQ.3q2-7w";
const TOTAL = "Count with disable_total=false, else null";
export const NftPage = named(
  "NftPage",
  Type.Object({
    status: oneOf(wireValues(LISTING_WORDS), glossaryOf(LISTING_WORDS), "SYNCED"),
    total: eitherForm(nullable(digits(TOTAL, "9998")), nullable(int64(TOTAL, 9_998))),
    page: wireCount("Number of the page along the cursor, from 0", 0),
    page_size: wireCount("The page size in effect", 1),
    cursor: nullableText("Cursor of the next page; null on the last page", CURSOR_EXAMPLE),
    result: Type.Array(NftRecord),
  }),
);

/** Numbers and flags as the wire types have them. */
export const wireForm = (isNative: boolean) => ({
  count: (value: number) => (isNative ? value : String(value)),
  flag: (value: boolean) => (isNative ? value : value ? ("true" as const) : ("false" as const)),
});
