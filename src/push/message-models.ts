/**
 * TypeBox schemas of the WebSocket channel's messages in both directions. The static types, the AsyncAPI document and the
 * types of the client derive from them.
 */
import { type Static, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { ERROR_CODES } from "../core/errors.ts";
import { EXAMPLE_BLOCK, NFT_ADDRESS, TOKEN_ADDRESS } from "../core/examples.ts";
import {
  address,
  blockHash,
  decimal,
  digits,
  double,
  givenAddress,
  int32,
  int64,
  nativePrice,
  seldom,
  text,
  time,
  withExample,
} from "../core/schema-parts.ts";
import { glossaryOf, LISTING_WORDS } from "../status-words.ts";

const chain = text("Name of the chain", "eth");

const RESUME = "4.1munxio";

/** The fields that every message about a collection carries. */
const ENVELOPE = {
  chain,
  address: address("The contract"),
  version: int64("Version of the collection's stream. A message without a change repeats the last one", 4),
  resume: Type.Optional(
    text("Names the record of the version. A client that connects again sends it as since", RESUME),
  ),
};
const EnvelopeModel = Type.Object(ENVELOPE);

const about = <Name extends string, Fields extends TProperties>(type: Name, description: string, fields: Fields) =>
  Type.Object({ type: Type.Literal(type), ...ENVELOPE, ...fields }, { description });

/** AsyncAPI has the null type of JSON Schema, and not OpenAPI's mark. */
const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** The fields that every message about a token's price carries. */
const OF_TOKEN = { chain, token: address("The token", TOKEN_ADDRESS) };

const inDoubt = Type.Object(
  {
    block: int64("The first block concerned. If its logs are in doubt, pages end before it"),
    reason: text("What contradicts what"),
  },
  {
    description:
      "Present while no endpoint tells the collection's logs of a block without a contradiction, or while the contract " +
      "denies owners that its logs give",
  },
);

/** Limits of a connection. A client that knows them need not try. */
const Limits = Type.Object(
  {
    messagesPerSecond: int32("Messages of the client in a second, above which the connection is closed with 1008", 50),
    subscriptionsPerConnection: int32("Subscriptions of a connection. Open another one for more", 256),
    subscriptionsPerKey: Type.Optional(int32("Subscriptions of the key over all connections to this process")),
    messageBytes: int32("Bytes of a message of the client", 4_096),
    unreadBytes: int32(
      "Bytes that the client leaves unread, above which the connection is closed with 1013",
      1_048_576,
    ),
  },
  { description: "Limits of this connection, in the answer to subscribe" },
);

/** The messages of the service by their name in the documents. */
export const SERVER_MESSAGES = {
  StatusMessage: about("status", "The state of a collection: the first message of a subscription", {
    status: Type.Union([Type.Literal("SYNCING"), Type.Literal("SYNCED")], {
      description: `The status of the listing. ${glossaryOf(LISTING_WORDS)}`,
    }),
    block: Type.Union([int64("Block that pages show", EXAMPLE_BLOCK), Type.Null()], {
      description: "Null before any block is read",
    }),
    percent: int32("Progress of the backfill", 42),
    inDoubt: Type.Optional(inDoubt),
    gap: seldom(Type.Literal(true, { description: "Messages after since can't be sent again: read the listing anew" })),
    limits: Type.Optional(Limits),
  }),
  ProgressMessage: about("progress", "Progress of the backfill, at most four times a second", {
    percent: int32("Progress of the backfill", 42),
    blocksLeft: int64("Blocks that are not read yet", 5_100_000),
    transfers: int64("Transfers that are indexed", 31_200),
    reason: Type.Optional(
      text("Present if nothing has moved for a minute: the current step and the last request's error"),
    ),
  }),
  IndexedMessage: about("indexed", "The collection has finished indexing. Once for each connection and collection", {
    block: int64("Last block that was read", EXAMPLE_BLOCK),
    hash: blockHash("Hash of that block"),
    total: int64("Tokens in circulation", 9_998),
  }),
  TransfersMessage: about("transfers", "New blocks moved tokens of the collection", {
    block: int64("Newest block with any of the transfers. Several blocks may share a message", EXAMPLE_BLOCK),
    tokenIds: Type.Unsafe<readonly string[]>(
      Type.Array(digits("Token id, decimal", "1234"), { maxItems: 1_000, description: "The tokens that moved" }),
    ),
    truncated: seldom(Type.Literal(true, { description: "More than 1,000 tokens moved" })),
  }),
  MetadataMessage: about("metadata", "Progress of the collection's metadata, at most once a second", {
    resolved: int64("Tokens with metadata", 9_000),
    failed: int64("Tokens that only failed so far", 98),
    left: int64("Tokens without any attempt", 900),
  }),
  ReorgedMessage: about("reorged", "Blocks above the common ancestor left the canonical chain", {
    block: int64("The common ancestor", EXAMPLE_BLOCK),
    hash: blockHash("Hash of the common ancestor"),
  }),
  FailedMessage: about("failed", "Indexing failed", {
    code: text("indexing_failed, in_doubt or not_a_contract", "indexing_failed"),
    reason: text("The cause, in words", "no endpoint of eth answers"),
    inDoubt: Type.Optional(inDoubt),
    nextTry: Type.Union([time("Time of the next attempt"), Type.Null()], {
      description: "Null if there is none",
    }),
  }),
  TokenStatusMessage: Type.Object(
    {
      ...{ type: Type.Literal("status"), ...OF_TOKEN },
      block: orNull(int64("Block that prices are of; null before any block is read", EXAMPLE_BLOCK)),
      limits: Type.Optional(Limits),
    },
    { description: "The first message of a subscription to a token's price" },
  ),
  PriceMessage: Type.Object(
    {
      ...{ type: Type.Literal("price"), ...OF_TOKEN },
      block: orNull(int64("Block of the price; null if none is known", EXAMPLE_BLOCK)),
      hash: orNull(blockHash("Hash of that block")),
      usdPrice: orNull(double("US dollars for one whole token; null without a price", 6.54)),
      nativePrice: orNull(nativePrice("Null without a price, or if the native coin has none")),
      confidence: orNull(decimal("From 0 to 1; null without a price", "0.98")),
      reason: Type.Optional(
        Type.Object(
          { code: text("Code of the error that a request for the price gets"), message: text("The fault, in words") },
          { description: "Present without a price" },
        ),
      ),
      resume: Type.Optional(
        text("A client that connects again may send it as since. It gets the present price", "21000000.1munxio"),
      ),
    },
    {
      description:
        "The price of a token: at first, and whenever it changed at a block. A client that reads slowly gets the latest one",
    },
  ),
  UnsubscribedMessage: Type.Object(
    {
      type: Type.Literal("unsubscribed"),
      chain,
      address: Type.Optional(ENVELOPE.address),
      token: seldom(OF_TOKEN.token),
    },
    { description: "The answer to unsubscribe" },
  ),
  ErrorMessage: Type.Object(
    {
      type: Type.Literal("error"),
      chain: Type.Optional(text("Chain of the refused message, as the client wrote it if it is unknown")),
      address: Type.Optional(text("Address of the refused message")),
      token: Type.Optional(text("Token of the refused message")),
      version: Type.Optional(int64("Version of the collection's stream, if the collection is known")),
      resume: Type.Optional(text("Names the record of the version")),
      code: text(`One of ${ERROR_CODES.join(", ")}`, "invalid_parameter"),
      message: text("The fault, and the way out", "action: must be subscribe, unsubscribe or ping"),
    },
    { description: "A message of the client was refused, or could not be handled" },
  ),
  PongMessage: Type.Object({ type: Type.Literal("pong") }, { description: "The answer to ping" }),
} as const;

const NAMED_COLLECTION = {
  chain: Type.Optional(text("Name or code of the chain; eth by default", "eth")),
  address: givenAddress("The contract: 0x and 40 hex digits", NFT_ADDRESS),
};

const NAMED_TOKEN = {
  chain: NAMED_COLLECTION.chain,
  token: givenAddress("The token: 0x and 40 hex digits", TOKEN_ADDRESS),
};

/** The messages of the client by their name in the documents. */
export const CLIENT_MESSAGES = {
  SubscribeMessage: Type.Object(
    {
      action: Type.Literal("subscribe"),
      ...NAMED_COLLECTION,
      since: Type.Optional(
        Type.Union([text("The resume of the last message", RESUME), int64("A bare version, compared by number only")], {
          description: "The messages after this one are sent again, up to 1,000 versions",
        }),
      ),
    },
    { description: "Subscribes to a collection. The first request for a contract starts its indexing" },
  ),
  UnsubscribeMessage: Type.Object(
    { action: Type.Literal("unsubscribe"), ...NAMED_COLLECTION },
    { description: "Ends a subscription" },
  ),
  SubscribeToPriceMessage: Type.Object(
    {
      action: Type.Literal("subscribe"),
      ...NAMED_TOKEN,
      minChangePercent: Type.Optional(
        withExample(
          Type.Number({
            ...{ format: "double", minimum: 0, maximum: 100 },
            description: "Least move against the price of the last message, in per cent. Default: any",
          }),
          0.5,
        ),
      ),
      since: Type.Optional(text("The resume of the last message")),
    },
    { description: "Subscribes to the price of a token" },
  ),
  UnsubscribeFromPriceMessage: Type.Object(
    { action: Type.Literal("unsubscribe"), ...NAMED_TOKEN },
    { description: "Ends a subscription to a price" },
  ),
  PingMessage: Type.Object({ action: Type.Literal("ping") }, { description: "Asks for a pong" }),
} as const;

/** The fields that every message about a collection carries. */
export type Envelope = Static<typeof EnvelopeModel>;

export type SocketLimits = Static<typeof Limits>;

export type ServerMessage = {
  [Name in keyof typeof SERVER_MESSAGES]: Static<(typeof SERVER_MESSAGES)[Name]>;
}[keyof typeof SERVER_MESSAGES];

export type MessageOf<T extends ServerMessage["type"]> = Extract<ServerMessage, { type: T }>;
