/** The schemas of what clients send and receive about collections: their list, their details, requests and estimates. */
import { Type } from "@sinclair/typebox";
import { COLLECTION_LINK, COLLECTION_PICTURE, NFT_ADDRESS } from "../../core/examples.ts";
import {
  address,
  boolean,
  digits,
  int64,
  named,
  nullable,
  nullableText,
  STRICT,
  text,
  time,
} from "../../core/schema-parts.ts";
import { IndexingCosts } from "../../nft/indexing/models.ts";
import { countsByName, ListedCollection, NamedCollection } from "../../operators/models.ts";
import { Media } from "./nft-models.ts";

export const CollectionList = named(
  "CollectionList",
  Type.Object({
    cursor: nullableText("Cursor of the next page; null on the last page"),
    result: Type.Array(Type.Union([ListedCollection, NamedCollection])),
  }),
);

const CollectionFlags = Type.Object({
  possibleSpam: boolean("The flag of the listing", false),
  verifiedCollection: boolean("The flag of the listing", true),
  rule: nullableText("The rules behind the flags; null without a flag", "verified-list"),
});

const CONTRACT_URI = "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/contract.json";

const MetadataHealth = Type.Object({
  resolved: int64("Tokens with metadata", 9_950),
  failed: int64("Tokens that only failed so far", 40),
  left: nullable(int64("Tokens without any attempt; null if the tokens are not counted yet", 10)),
  reasons: countsByName("Failed tokens by the reason of the last attempt", { timeout: 40 }),
  failedTokens: Type.Array(digits("Token id", "17"), { description: "Some of the failed tokens, at most 500" }),
});

export const CollectionDetails = named(
  "CollectionDetails",
  Type.Object({
    ...ListedCollection.properties,
    flags: named("CollectionFlags", CollectionFlags),
    metadata: named("MetadataHealth", MetadataHealth),
    description: nullableText(
      "Description of the collection in the document of ERC-7572, at most 5,000 characters",
      "A collection of 10,000 apes",
    ),
    image: nullableText(
      "URI of the collection's picture in that document; null if it has more than 8,192 characters",
      COLLECTION_PICTURE,
    ),
    media: Media,
    externalLink: nullableText("Link to the collection's page in that document", COLLECTION_LINK),
    contractUri: nullableText("URI of that document, as the contract returned it", CONTRACT_URI),
    contractUriFailure: nullableText("Why the last attempt to fetch that document failed; null if it did not"),
  }),
);

const MAX_REQUESTED = 500;

const RequestedItem = Type.Object(
  {
    chain: Type.Optional(text("Name or code of the chain; eth by default", "eth")),
    address: text("20-byte hex", NFT_ADDRESS),
  },
  STRICT,
);

export const IndexRequest = named(
  "IndexRequest",
  Type.Object(
    {
      items: Type.Array(named("RequestedItem", RequestedItem), {
        minItems: 1,
        maxItems: MAX_REQUESTED,
        description: "The contracts to index",
      }),
    },
    STRICT,
  ),
);

export const IndexAnswerItem = named(
  "IndexAnswerItem",
  Type.Object({
    chain: text("Name of the chain", "eth"),
    address: address("The contract"),
    before: nullableText("Status before this request; null if it was unknown", "following"),
  }),
);

export const RefreshRequest = named(
  "RefreshRequest",
  Type.Object(
    {
      tokenIds: Type.Optional(
        Type.Array(text("Decimal token id", "1"), { maxItems: MAX_REQUESTED, description: "All tokens by default" }),
      ),
    },
    STRICT,
  ),
);

export const CollectionEstimate = named(
  "CollectionEstimate",
  Type.Object({
    chain: text("Name of the chain", "eth"),
    address: address("The contract"),
    status: nullableText(
      "Status of the collection; null if it was never requested. Then the costs are those of a reindex",
    ),
    ...IndexingCosts.properties,
    time: time("When it was made; it is kept for ten minutes"),
  }),
);
