/** TypeBox schemas of the bodies under `/api` for operators. Same rules as in `models.ts`. */
import { type Static, Type } from "@sinclair/typebox";
import { address, digits, int32, int64, named, nullableText, nullableTime, oneOf, text } from "../core/schema-parts.ts";
import { COLLECTION_STATUSES } from "../operators/catalogue.ts";
import { KEY_NAME } from "../operators/keys.ts";
import { CHAIN_STATES, ENDPOINT_STATES } from "../operators/status.ts";

const count = int64;
const nullableCount = (description: string) =>
  Type.Unsafe<number | null>({ type: "integer", format: "int64", minimum: 0, nullable: true, description });
const number = (description: string) => Type.Number({ format: "double", description });
const time = (description: string) => text(description, { format: "date-time" });

const Latency = Type.Object({ p50: number("Median in ms"), p99: number("99th percentile in ms") });

const MethodCounts = Type.Unsafe<Record<string, number>>({
  type: "object",
  additionalProperties: { type: "integer", format: "int64", minimum: 0 },
  description: "Calls by method",
});
const calls = named("MethodCounts", MethodCounts);
const CallCounts = Type.Object(
  { hour: calls, day: calls },
  { description: "Calls by method in the last 60 minutes and in the last 24 hours; each call of a batch counts" },
);
const HourAndDay = Type.Object({ hour: count("Last 60 minutes"), day: count("Last 24 hours") });

const EndpointState = Type.Object({
  label: text("Stands for the endpoint's URL in logs and metrics"),
  state: oneOf(ENDPOINT_STATES, "available, or the reason that other endpoints are preferred"),
  reason: nullableText("The fault in words"),
  restsUntil: nullableTime("Until then other endpoints are preferred"),
  latencyMs: Type.Unsafe<Static<typeof Latency> | null>({ ...Latency, nullable: true }),
  calls: named("CallCounts", CallCounts),
  units: named("HourAndDay", HourAndDay),
  bytes: named("HourAndDay", HourAndDay),
});

const ChainHead = Type.Object({
  number: int64("Block"),
  hash: text("Its hash"),
  time: time("Its time"),
});

const ChainStatus = Type.Object({
  name: text("Name of the chain"),
  chainId: int64("Id of the chain"),
  head: Type.Unsafe<Static<typeof ChainHead> | null>({ ...ChainHead, nullable: true }),
  finalized: nullableCount("Newest final block"),
  state: oneOf(CHAIN_STATES, "idle: nothing is followed; the rest as the word says"),
  since: time("When this process noticed the state"),
  endpoints: Type.Array(named("EndpointState", EndpointState)),
});

const KeyUsage = Type.Object({
  name: text("Name of the key"),
  calls: named("CallCounts", CallCounts),
  units: named("HourAndDay", HourAndDay),
});

const LogState = Type.Object({
  engine: text("sqlite or postgres"),
  bytes: count("On disk"),
  freeBytes: nullableCount("Left on the disk; null if the engine doesn't tell"),
  writable: Type.Boolean({ description: "False if the log takes no appends" }),
  lastAppendAt: nullableTime("Time of the newest event"),
  behindSeconds: number("How far this process is behind the log"),
});

const MemoryState = Type.Object({
  rss: count("Resident bytes of the process"),
  heap: count("Bytes of JavaScript objects"),
  collections: count("Bytes of collections in memory"),
  metadata: count("Bytes of metadata in memory"),
});

const LeaseState = Type.Object({
  what: text("follow/<chain id>, metadata/<chain id> or index/<stream>"),
  holder: text("Id of the process"),
});

const CollectionCounts = Type.Object(
  Object.fromEntries(COLLECTION_STATUSES.map((status) => [status, count("Collections")])),
);

const ServiceStatus = Type.Object({
  instance: text("Id of this process"),
  version: text("Version of the program"),
  startedAt: time("Start of this process"),
  log: named("LogState", LogState),
  memory: named("MemoryState", MemoryState),
  leases: Type.Array(named("LeaseState", LeaseState)),
  chains: Type.Array(named("ChainStatus", ChainStatus)),
  keys: Type.Array(named("KeyUsage", KeyUsage), { description: "What each key made the service ask of endpoints" }),
  collections: named("CollectionCounts", CollectionCounts),
  queue: count("Collections that wait for work or have some"),
});

const LogsInDoubt = Type.Object({
  block: int64("The block. The listing ends before it"),
  reason: text("How the nodes' answers contradict themselves"),
});

const ListedCollection = Type.Object({
  chain: text("Name of the chain"),
  address: address("The contract"),
  name: nullableText("Name; null if the log doesn't tell yet"),
  symbol: nullableText("Symbol"),
  type: nullableText("ERC721, ERC1155, CRYPTOPUNKS or MOONCATS"),
  status: oneOf(COLLECTION_STATUSES, "Progress of the indexing"),
  percent: nullableCount("From 0 to 100; 100 only when complete"),
  transfers: nullableCount("Transfers in the log"),
  nfts: nullableCount("Tokens, as they were last counted"),
  transfersPerSecond: nullableCount("Since the start of the attempt; null while nothing is read"),
  secondsLeft: nullableCount("Estimate"),
  requestedAt: nullableTime("First request"),
  finishedAt: nullableTime("Last completion"),
  attempts: int32("Failed attempts in a row"),
  lastError: nullableText("The last failure in words"),
  inDoubt: Type.Unsafe<Static<typeof LogsInDoubt> | null>({
    ...LogsInDoubt,
    nullable: true,
    description: "A block whose logs no endpoint tells without a contradiction; it is read again at nextTry",
  }),
  nextTry: nullableTime("Time of the next attempt"),
  calls: nullableCount("Calls to endpoints that indexing took"),
  bytes: nullableCount("Bytes of its events"),
});

const CollectionFlags = Type.Object({
  possibleSpam: Type.Boolean({ description: "The flag of the listing" }),
  verifiedCollection: Type.Boolean({ description: "The flag of the listing" }),
  rule: nullableText("The rules behind the flags; null without a flag"),
});

const MetadataHealth = Type.Object({
  resolved: count("Tokens with metadata"),
  failed: count("Tokens that only failed so far"),
  left: nullableCount("Tokens without any attempt; null if the tokens are not counted yet"),
  reasons: Type.Unsafe<Record<string, number>>({
    type: "object",
    additionalProperties: { type: "integer", format: "int64", minimum: 0 },
    description: "Failed tokens by the reason of the last attempt",
  }),
  failedTokens: Type.Array(digits("Token id"), { description: "Some of the failed tokens, at most 500" }),
});

const CollectionDetails = Type.Object({
  ...ListedCollection.properties,
  flags: named("CollectionFlags", CollectionFlags),
  metadata: named("MetadataHealth", MetadataHealth),
});

const CollectionList = Type.Object({
  cursor: nullableText("Cursor of the next page; null on the last page"),
  result: Type.Array(named("ListedCollection", ListedCollection)),
});

const MAX_REQUESTED = 500;

/** A field with a typing error would otherwise be ignored, and a default taken in its place. */
const STRICT = { additionalProperties: false } as const;

const RequestedItem = Type.Object(
  {
    chain: Type.Optional(text("Name or code of the chain; eth by default")),
    address: text("20-byte hex"),
  },
  STRICT,
);

const IndexRequest = Type.Object(
  {
    items: Type.Array(named("RequestedItem", RequestedItem), {
      minItems: 1,
      maxItems: MAX_REQUESTED,
      description: "The contracts to index",
    }),
  },
  STRICT,
);

const IndexAnswerItem = Type.Object({
  chain: text("Name of the chain"),
  address: address("The contract"),
  before: nullableText("Status before this request; null if it was unknown"),
});

const IndexAnswer = Type.Object({ items: Type.Array(named("IndexAnswerItem", IndexAnswerItem)) });

const RefreshRequest = Type.Object(
  {
    tokenIds: Type.Optional(
      Type.Array(text("Decimal token id"), { maxItems: MAX_REQUESTED, description: "All tokens by default" }),
    ),
  },
  STRICT,
);

const SCOPES = ["read", "operate"] as const;

const Key = Type.Object({
  name: text("Name of the key"),
  scope: oneOf(SCOPES, "read: the two operations; operate: everything"),
  source: oneOf(["environment", "log"] as const, "Keys of the environment can't be changed here"),
  requestsPerMinute: int64("Per replica"),
  collectionsPerHour: nullableCount("New collections an hour, per replica; null without a limit"),
  subscriptions: nullableCount("Subscriptions at one time, per replica; null without a limit"),
  createdAt: nullableTime("Null for keys of the environment and the first one"),
  lastUse: nullableTime("In this process, to the minute"),
  requestsToday: int64("In this process, since midnight UTC"),
});

const KeyList = Type.Object({ result: Type.Array(named("Key", Key)) });

const KeyRequest = Type.Object(
  {
    name: text("1 to 64 lower-case letters, digits, dots, hyphens or underscores", { pattern: KEY_NAME.source }),
    scope: Type.Optional(oneOf(SCOPES, "read by default")),
    requestsPerMinute: Type.Optional(int64("RATE_LIMIT_PER_MINUTE by default")),
    collectionsPerHour: Type.Optional(int64("COLLECTIONS_PER_HOUR by default; for scope read")),
    subscriptions: Type.Optional(int64("SUBSCRIPTIONS_PER_KEY by default; for scope read")),
  },
  STRICT,
);

const RotateRequest = Type.Object(
  { graceSeconds: Type.Optional(int64("How long the former text stays valid; a day by default")) },
  STRICT,
);

const KeyText = Type.Object({
  name: text("Name of the key"),
  key: text("The key's text. It is shown once and kept only as a hash"),
});

const nullableNumber = (description: string) =>
  Type.Unsafe<number | null>({ type: "number", format: "double", nullable: true, description });

const EstimatedRange = Type.Object({
  low: Type.Number({ format: "double", description: "At least" }),
  high: nullableNumber("At most; equal if it was counted, or follows from the blocks; null if nothing bounds it"),
});
const estimatedRange = named("EstimatedRange", EstimatedRange);

const EstimatedBlocks = Type.Object({
  from: int64("No transfer is before this block"),
  fromAtLatest: int64("The history begins here at the latest: a few calls tell the deployment to some blocks"),
  to: int64("The newest block"),
  count: int64("Blocks to read from the first of them on"),
});

const EstimatedCalls = Type.Object({}, { additionalProperties: estimatedRange, description: "Calls by method" });

const EstimatedUnits = Type.Object({
  low: Type.Number({ format: "double", description: "At least" }),
  high: nullableNumber("At most; null if nothing bounds it"),
  list: text("Name of the price list"),
});

const EndpointLimits = Type.Object({
  maxBlocks: Type.Unsafe<number | null>({
    ...int64("Blocks per request; null if no limit was met"),
    nullable: true,
  }),
  answered: int64("Most blocks that it gave logs of at once; 0 if it gave none yet"),
  source: oneOf(["known", "probed"] as const, "Known from earlier work, or found by the estimate's own calls"),
  batch: Type.Boolean({ description: "Several ranges fit into one request" }),
  multicall: Type.Boolean({ description: "Many reads of state are one call" }),
});

const CollectionEstimate = Type.Object({
  chain: text("Name of the chain"),
  address: address("The contract"),
  status: nullableText(
    "Status of the collection; null if it was never requested. Then the costs are those of a reindex",
  ),
  name: text("Name of the contract"),
  blocks: named("EstimatedBlocks", EstimatedBlocks),
  transfers: estimatedRange,
  calls: named("EstimatedCalls", EstimatedCalls),
  total: estimatedRange,
  units: named("EstimatedUnits", EstimatedUnits),
  seconds: Type.Number({ format: "double", description: "Until it is ready" }),
  limits: named("EndpointLimits", EndpointLimits),
  probes: int64("Calls that this estimate made"),
  time: text("When it was made; it is kept for ten minutes", { format: "date-time" }),
});

export const OPERATOR_SCHEMAS = {
  ...{ CollectionEstimate, EstimatedRange, EstimatedBlocks, EstimatedCalls, EstimatedUnits, EndpointLimits },
  ...{
    ServiceStatus,
    KeyUsage,
    LogState,
    MemoryState,
    LeaseState,
    ChainStatus,
    EndpointState,
    CallCounts,
    MethodCounts,
  },
  ...{
    HourAndDay,
    CollectionCounts,
    CollectionList,
    ListedCollection,
    CollectionDetails,
    CollectionFlags,
    MetadataHealth,
    IndexRequest,
    RequestedItem,
  },
  ...{ IndexAnswer, IndexAnswerItem, RefreshRequest, KeyList, Key, KeyRequest, RotateRequest, KeyText },
};

const scope = Type.Optional(Type.Union([Type.Literal("read"), Type.Literal("operate")]));

/** Schemas of request bodies without references, for validation. */
export const BODIES = {
  index: Type.Object({ items: Type.Array(RequestedItem, { minItems: 1, maxItems: MAX_REQUESTED }) }, STRICT),
  key: Type.Object(
    {
      name: Type.String(),
      scope,
      requestsPerMinute: Type.Optional(Type.Integer()),
      collectionsPerHour: Type.Optional(Type.Integer()),
      subscriptions: Type.Optional(Type.Integer()),
    },
    STRICT,
  ),
  rotate: RotateRequest,
  refresh: RefreshRequest,
};
