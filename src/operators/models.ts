/**
 * What operators see: the state of the service, a collection, a key. The schemas are those of the API's answers, and the
 * static types are theirs. Null stands for a fact that the log doesn't tell, or not yet. Times are ISO 8601.
 */
import { Type } from "@sinclair/typebox";
import {
  address,
  double,
  int32,
  int64,
  named,
  nullable,
  nullableText,
  nullableTime,
  oneOf,
  type Sent,
  text,
  time,
} from "../core/schema-parts.ts";
import type { EndpointStatus } from "../rpc/endpoint/endpoint-pool.ts";
import {
  ARCHIVE_WORDS,
  CHAIN_WORDS,
  COLLECTION_WORDS,
  ENDPOINT_WORDS,
  glossaryOf,
  wireValues,
} from "../status-words.ts";

export const COLLECTION_STATUSES = wireValues(COLLECTION_WORDS);
export type CollectionStatus = (typeof COLLECTION_STATUSES)[number];

const nullableCount = (description: string) => nullable(int64(description));

const LogsInDoubt = Type.Object(
  {
    block: int64("The first block concerned. If its logs are in doubt, the listing ends before it"),
    reason: text("What contradicts what"),
  },
  {
    description:
      "What can't be known, from which block on, and why: logs that no endpoint tells without a contradiction, owners that the contract denies, headers that don't make their hash. Null if nothing is in doubt",
  },
);

const HistoryProof = Type.Object(
  {
    touched: int64("Blocks with a log, as archives told them"),
    hashed: int64("Those whose header's fields make their hash"),
    sampled: int64("Those with the same logs in the receipts of the operator's node"),
    byRoot: int64("Those whose receipts make the header's root"),
    absent: int64("Blocks without a log of which the operator's node shows it, by the header's bloom or the receipts"),
    block: nullableCount("The block at which the contract was asked for the owners; null before"),
    holdings: int64("Holdings that the contract confirmed"),
    of: int64("Holdings in all"),
    contradicted: int64("Holdings about which the contract contradicts its own logs"),
    isComplete: nullable(
      Type.Boolean({
        description:
          "True if the contract confirms every holding, and its own counts of tokens show that none is missing; false if it can't; null before, or if an older release recorded it",
      }),
    ),
    witness: nullableText("Label of a second archive that told the same history; null if none did"),
    provableFrom: nullableCount("The first block that the operator's node can prove; null if it has pruned none"),
  },
  {
    description:
      "What is proven of the archives' part. Receipts of blocks with a log never prove that other blocks have none: a pair of omitted transfers that cancel out is not found by the first rungs",
  },
);

export const NamedCollection = named(
  "NamedCollection",
  Type.Object({
    chain: text("Name of the chain"),
    address: address("The contract"),
    name: nullableText("Name; null if the log doesn't tell yet"),
    symbol: nullableText("Symbol"),
    type: nullableText("ERC721, ERC1155, ERC6909, CRYPTOPUNKS or MOONCATS"),
    status: oneOf(COLLECTION_STATUSES, glossaryOf(COLLECTION_WORDS)),
  }),
);
export type NamedCollection = Sent<typeof NamedCollection>;

export const ListedCollection = named(
  "ListedCollection",
  Type.Object({
    ...NamedCollection.properties,
    percent: nullableCount("From 0 to 100; 100 only when complete"),
    transfers: nullableCount("Transfers in the log"),
    nfts: nullableCount("Tokens, as they were last counted"),
    transfersPerSecond: nullableCount("Since the start of the attempt; null while nothing is read"),
    secondsLeft: nullableCount("Estimate"),
    requestedAt: nullableTime("First request"),
    finishedAt: nullableTime("Last completion"),
    attempts: int32("Failed attempts in a row"),
    lastError: nullableText("The last failure in words"),
    inDoubt: nullable(LogsInDoubt),
    history: nullableText("Where the history comes from: node, or archive and what is proven of it; null before any"),
    proof: nullable(HistoryProof),
    destroyedAt: nullable(int64("Block at which the contract was found to be destroyed; null while it has code")),
    nextTry: nullableTime("Time of the next attempt"),
    calls: nullableCount("Calls to endpoints that indexing took"),
    bytes: nullableCount("Bytes of its events"),
  }),
);
export type ListedCollection = Sent<typeof ListedCollection>;

export const KEY_SCOPES = ["read", "operate"] as const;

const hourAndDay = named("HourAndDay", Type.Object({ hour: int64("Last 60 minutes"), day: int64("Last 24 hours") }));

const KeyCost = Type.Object({
  calls: hourAndDay,
  units: hourAndDay,
  bytes: hourAndDay,
  threadMs: double("Milliseconds of the thread that serves requests, in this process since its start"),
});
export type KeyCost = Sent<typeof KeyCost>;

export const ListedKey = named(
  "Key",
  Type.Object({
    name: text("Name of the key"),
    scope: oneOf(KEY_SCOPES, "read: the two operations; operate: everything"),
    source: oneOf(["environment", "log"] as const, "Keys of the environment can't be changed here"),
    requestsPerMinute: int64("Per replica"),
    collectionsPerHour: nullable(int64("New collections an hour, per replica; null without a limit")),
    subscriptions: nullable(int64("Subscriptions at one time, per replica; null without a limit")),
    createdAt: nullableTime("Null for keys of the environment and the first one"),
    lastUse: nullableTime("In this process, to the minute"),
    requestsToday: int64("In this process, since midnight UTC"),
    cost: nullable(named("KeyCost", KeyCost)),
  }),
);
export type ListedKey = Sent<typeof ListedKey>;

export type ReportedState = keyof typeof CHAIN_WORDS;

const ENDPOINT_STATES = wireValues(ENDPOINT_WORDS) satisfies EndpointStatus["state"][];

const Latency = Type.Object({ p50: double("Median in ms"), p99: double("99th percentile in ms") });

/** Counts by names that the schema does not know. */
export const countsByName = (description: string) =>
  Type.Unsafe<Readonly<Record<string, number>>>({
    type: "object",
    additionalProperties: { type: "integer", format: "int64", minimum: 0 },
    description,
  });

const methodCounts = named("MethodCounts", countsByName("Calls by method"));
const callCounts = named(
  "CallCounts",
  Type.Object(
    { hour: methodCounts, day: methodCounts },
    { description: "Calls by method in the last 60 minutes and in the last 24 hours; each call of a batch counts" },
  ),
);

const EndpointState = Type.Object({
  label: text("Stands for the endpoint's URL in logs and metrics"),
  state: oneOf(
    ENDPOINT_STATES,
    `In all but the first two other endpoints are preferred. ${glossaryOf(ENDPOINT_WORDS)}`,
  ),
  reason: nullableText("The fault in words"),
  restsUntil: nullableTime("Until then other endpoints are preferred"),
  latencyMs: nullable(Latency),
  calls: callCounts,
  units: hourAndDay,
  bytes: hourAndDay,
});

const ArchiveState = Type.Object({
  label: text("Stands for the archive's URL in logs and metrics"),
  state: oneOf(wireValues(ARCHIVE_WORDS), glossaryOf(ARCHIVE_WORDS)),
  reason: nullableText("The last fault in words, while it rests"),
});

const ChainHead = Type.Object({ number: int64("Block"), hash: text("Its hash"), time: nullableTime("Its time") });

const ChainStatus = Type.Object({
  name: text("Name of the chain"),
  chainId: int64("Id of the chain"),
  head: nullable(ChainHead),
  finalized: nullable(int64("Newest final block")),
  settled: nullable(
    int64(
      "Newest block of which a header has the bloom, on chains whose headers have those of older blocks: logs above it are the node's word. Null on other chains",
    ),
  ),
  inDoubt: nullable(LogsInDoubt),
  state: oneOf(wireValues(CHAIN_WORDS), glossaryOf(CHAIN_WORDS)),
  since: time("When this process noticed the state"),
  endpoints: Type.Array(named("EndpointState", EndpointState)),
  archives: Type.Array(named("ArchiveState", ArchiveState)),
  historyFrom: nullable(
    int64("history_pruned: the first block of which the endpoints have logs; null while none refused older ones"),
  ),
});

const KeyUsage = Type.Object({ name: text("Name of the key"), calls: callCounts, units: hourAndDay });

const LogState = Type.Object({
  engine: text("sqlite or postgres"),
  bytes: int64("On disk"),
  freeBytes: nullable(int64("Left on the disk; null if the engine doesn't tell")),
  writable: Type.Boolean({ description: "False if the log takes no appends" }),
  lastAppendAt: nullableTime("Time of the newest event"),
  behindSeconds: double("How far this process is behind the log"),
});

const MemoryState = Type.Object({
  rss: int64("Resident bytes of the process"),
  heap: int64("Bytes of JavaScript objects"),
  collections: int64("Bytes of collections in memory"),
  metadata: int64("Bytes of metadata in memory"),
});

const LeaseState = Type.Object({
  what: text("follow/<chain id>, metadata/<chain id> or index/<stream>"),
  holder: text("Id of the process"),
});

type CountsByStatus = Record<(typeof COLLECTION_STATUSES)[number], ReturnType<typeof int64>>;
const CollectionCounts = Type.Object(
  Object.fromEntries(COLLECTION_STATUSES.map((status) => [status, int64("Collections")])) as CountsByStatus,
);

export const StatusReport = named(
  "ServiceStatus",
  Type.Object({
    instance: text("Id of this process"),
    version: text("Version of the program"),
    startedAt: time("Start of this process"),
    log: named("LogState", LogState),
    memory: named("MemoryState", MemoryState),
    leases: Type.Array(named("LeaseState", LeaseState)),
    chains: Type.Array(named("ChainStatus", ChainStatus)),
    keys: Type.Array(named("KeyUsage", KeyUsage), { description: "What each key made the service ask of endpoints" }),
    collections: named("CollectionCounts", CollectionCounts),
    queue: int64("Collections that wait for work or have some"),
    inDoubt: int64("Collections in doubt: `inDoubt` of each says why"),
  }),
);
export type StatusReport = Sent<typeof StatusReport>;
