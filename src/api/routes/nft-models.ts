/** The schemas of a record, of its preview pictures, and of a page of a listing, with their examples. */
import { type Static, Type } from "@sinclair/typebox";
import {
  address,
  digits,
  eitherForm,
  int32,
  int64,
  named,
  nullable,
  nullableText,
  nullableTime,
  oneOf,
  text,
  type WireTypes,
} from "../../core/schema-parts.ts";
import type { MediaStatus } from "../../nft/metadata/media/media.ts";
import { glossaryOf, LISTING_WORDS, MEDIA_WORDS, wireValues } from "../../status-words.ts";
import { NFT_ADDRESS } from "../wire/examples.ts";

/** The object, or "" unless a parameter requests it: the seed API leaves a field out in this way. */
const orEmpty = <T extends ReturnType<typeof named>>(schema: T, description: string) =>
  Type.Unsafe<"" | Static<T>>({ description, oneOf: [{ type: "string", enum: [""] }, schema] });

const Attribute = Type.Object({
  trait_type: nullableText("Name of the trait"),
  value: Type.Unknown({ description: "Any JSON value, in the type that the metadata gives it" }),
  display_type: nullableText("How to show the value, such as number or date"),
  max_value: Type.Unknown({ description: "Largest value of the trait; mostly null" }),
  trait_count: Type.Number({ format: "double", description: "From the metadata, else 0" }),
  order: Type.Unknown({ description: "Position among the traits; mostly null" }),
});

const NormalizedMetadata = Type.Object({
  name: nullableText("Name of the token"),
  description: nullableText("Description of the token"),
  image: nullableText("URI of the image"),
  external_link: nullableText("Link to the token's page"),
  external_url: nullableText("Link to the token's page"),
  animation_url: nullableText("URI of a video, sound or page"),
  attributes: Type.Array(named("Attribute", Attribute)),
});

const preview = named(
  "Preview",
  Type.Object({
    height: int32("Pixels"),
    width: int32("Pixels"),
    url: text("Absolute URL under the server's public URL", { format: "uri" }),
  }),
);

const MEDIA_STATUSES = wireValues(MEDIA_WORDS) satisfies readonly MediaStatus[];

export const Media = named(
  "Media",
  Type.Object({
    status: oneOf(MEDIA_STATUSES, glossaryOf(MEDIA_WORDS)),
    mimetype: nullableText("Media type of the original, detected from its content"),
    category: nullableText("image, video, audio and the like"),
    original_media_url: nullableText("URL from the metadata; null when it has none"),
    parent_hash: nullableText("SHA-256 of the original"),
    updatedAt: nullableTime("Time at which the image was examined"),
    media_collection: nullable(
      Type.Object(
        { low: preview, medium: preview, high: preview },
        { description: "Previews of 100, 250 and 500 pixels" },
      ),
    ),
  }),
);

/** A whole number: a string of digits, or a number with `native`. */
export const wireCount = (description: string) => eitherForm(digits(description), int64(description));
export const flagText = (description: string) =>
  eitherForm(oneOf(["true", "false"], description), Type.Boolean({ description }));

export const NftRecord = named(
  "NftRecord",
  Type.Object({
    token_address: address("Address of the contract, lower case"),
    token_id: text("Decimal, or 0x… with format=hex", { pattern: "^([0-9]+|0x[0-9a-f]+)$" }),
    owner_of: text('Owner; "" for an ERC-1155 or ERC-6909 token with several holders'),
    token_hash: text("md5 of the lower-case contract address followed by the decimal token id", {
      pattern: "^[0-9a-f]{32}$",
    }),
    block_number: digits("Block of the last transfer"),
    block_number_minted: digits("Block of the first mint"),
    contract_type: text("ERC721, ERC1155, ERC6909, or the family of a contract older than them: CRYPTOPUNKS, MOONCATS"),
    token_uri: nullableText("Token URI as the contract returned it"),
    metadata: nullableText("The raw JSON as one string"),
    normalized_metadata: orEmpty(named("NormalizedMetadata", NormalizedMetadata), '"" unless normalizeMetadata=true'),
    media: orEmpty(Media, '"" unless media_items=true'),
    minter_address: text(
      "Receiver of the first mint; a fixed sentence for ERC-1155 and ERC-6909, where a token can have several",
    ),
    amount: digits("1, or the circulating amount of an ERC-1155 or ERC-6909 token"),
    name: text("Name of the collection"),
    symbol: text("Symbol of the collection"),
    possible_spam: flagText("true if the contract looks like spam"),
    verified_collection: flagText("true if the operator lists the contract as genuine"),
    last_token_uri_sync: nullableTime("Time of the last read of the URI"),
    last_metadata_sync: nullableTime("Time of the last read of the metadata"),
  }),
);

const TOTAL = "Count with disable_total=false, else null";
export const NftPage = named(
  "NftPage",
  Type.Object({
    status: oneOf(wireValues(LISTING_WORDS), glossaryOf(LISTING_WORDS)),
    total: eitherForm(nullable(digits(TOTAL)), nullable(int64(TOTAL))),
    page: wireCount("Number of the page along the cursor, from 0"),
    page_size: wireCount("The page size in effect"),
    cursor: nullableText("Cursor of the next page; null on the last page"),
    result: Type.Array(NftRecord),
  }),
);

const PICTURE = "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234";
export const PREVIEW_EXAMPLE = "c0ffee0000000000000000000000000000000000000000000000000000000001";
export const CURSOR_EXAMPLE = "eyJ2IjoxfQ.3q2-7w";

const sized = (size: 100 | 250 | 500) => ({
  height: size,
  width: size,
  url: `http://127.0.0.1:3000/media/${PREVIEW_EXAMPLE}/${size}`,
});
export const MEDIA_EXAMPLE: Static<typeof Media> = {
  status: "success",
  mimetype: "image/png",
  category: "image",
  original_media_url: PICTURE,
  parent_hash: "0x00000000000000000000000000000000000000000000000000000000000000aa",
  updatedAt: "2026-01-31T12:00:00.000Z",
  media_collection: { low: sized(100), medium: sized(250), high: sized(500) },
};

/** Numbers and flags as the wire types have them. */
export const wireForm = (isNative: boolean) => ({
  count: (value: number) => (isNative ? value : String(value)),
  flag: (value: boolean) => (isNative ? value : value ? ("true" as const) : ("false" as const)),
});

/** An example of a record with the given wire types. */
export function recordExample(wire: WireTypes): Static<typeof NftRecord> {
  const form = wireForm(wire === "native");
  return {
    token_address: NFT_ADDRESS,
    token_id: "1234",
    owner_of: "0x8f7a5e2d3c4b1a09f8e7d6c5b4a3928170605040",
    token_hash: "ab96a59f7d41a8648adee2f63d1386ce",
    block_number: "20912345",
    block_number_minted: "12344138",
    contract_type: "ERC721",
    token_uri: "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234",
    metadata: `{"image":"${PICTURE}","attributes":[{"trait_type":"Fur","value":"Brown"}]}`,
    normalized_metadata: {
      name: null,
      description: null,
      image: PICTURE,
      external_link: null,
      external_url: null,
      animation_url: null,
      attributes: [
        { trait_type: "Fur", value: "Brown", display_type: null, max_value: null, trait_count: 0, order: null },
      ],
    },
    media: MEDIA_EXAMPLE,
    minter_address: "0x46efbaedc92067e6d60e84ed6395099723252496",
    amount: "1",
    name: "BoredApeYachtClub",
    symbol: "BAYC",
    possible_spam: form.flag(false),
    verified_collection: form.flag(true),
    last_token_uri_sync: "2026-01-31T12:00:00.000Z",
    last_metadata_sync: "2026-01-31T12:00:00.000Z",
  };
}

export function pageExample(wire: WireTypes): Static<typeof NftPage> {
  const { count: number } = wireForm(wire === "native");
  return {
    status: "SYNCED",
    total: number(9_998),
    page: number(0),
    page_size: number(1),
    cursor: CURSOR_EXAMPLE,
    result: [recordExample(wire)],
  };
}
