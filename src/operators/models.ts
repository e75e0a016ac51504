/**
 * What operators see: the state of the service, a collection, a key. The schemas are those of the API's answers, and the
 * static types are theirs. Null stands for a fact that the log doesn't tell, or not yet. Times are ISO 8601.
 */
import { Type } from "@sinclair/typebox";
import { EXAMPLE_BLOCK, EXAMPLE_HASH } from "../core/examples.ts";
import {
  address,
  boolean,
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
  withExample,
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

const PROCESS_ID = "0b6fc1e0-5a3c-4d43-8d3e-6a1c1f0a2d11";

export const COLLECTION_STATUSES = wireValues(COLLECTION_WORDS);
export type CollectionStatus = (typeof COLLECTION_STATUSES)[number];

const nullableCount = (description: string, example?: number) => nullable(int64(description, example));

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
      boolean(
        "True if the contract confirms every holding, and its own counts of tokens show that none is missing; false if it can't; null before, or if an older release recorded it",
      ),
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
    chain: text("Name of the chain", "eth"),
    address: address("The contract"),
    name: nullableText("Name; null if the log doesn't tell yet", "BoredApeYachtClub"),
    symbol: nullableText("Symbol", "BAYC"),
    type: nullableText("ERC721, ERC1155, ERC6909, CRYPTOPUNKS or MOONCATS", "ERC721"),
    status: oneOf(COLLECTION_STATUSES, glossaryOf(COLLECTION_WORDS), "indexing"),
  }),
);
export type NamedCollection = Sent<typeof NamedCollection>;

export const ListedCollection = named(
  "ListedCollection",
  Type.Object({
    ...NamedCollection.properties,
    percent: nullableCount("From 0 to 100; 100 only when complete", 42),
    transfers: nullableCount("Transfers in the log", 61_000),
    nfts: nullableCount("Tokens, as they were last counted"),
    transfersPerSecond: nullableCount("Since the start of the attempt; null while nothing is read", 21_000),
    secondsLeft: nullableCount("Estimate", 4),
    requestedAt: nullableTime("First request"),
    finishedAt: nullableTime("Last completion", null),
    attempts: int32("Failed attempts in a row", 0),
    lastError: nullableText("The last failure in words"),
    inDoubt: nullable(LogsInDoubt),
    history: nullableText(
      "Where the history comes from: node, or archive and what is proven of it; null before any",
      "node",
    ),
    proof: nullable(HistoryProof),
    destroyedAt: nullable(int64("Block at which the contract was found to be destroyed; null while it has code")),
    nextTry: nullableTime("Time of the next attempt", null),
    calls: nullableCount("Calls to endpoints that indexing took", 120),
    bytes: nullableCount("Bytes of its events", 2_400_000),
  }),
);
export type ListedCollection = Sent<typeof ListedCollection>;

export const KEY_SCOPES = ["read", "operate"] as const;

const hourAndDay = (hour: number, day: number) =>
  named("HourAndDay", Type.Object({ hour: int64("Last 60 minutes", hour), day: int64("Last 24 hours", day) }));

const KeyCost = Type.Object({
  calls: hourAndDay(40, 900),
  units: hourAndDay(960, 21_000),
  bytes: hourAndDay(200_000, 4_500_000),
  threadMs: double("Milliseconds of the thread that serves requests, in this process since its start", 85),
});
export type KeyCost = Sent<typeof KeyCost>;

export const ListedKey = named(
  "Key",
  Type.Object({
    name: text("Name of the key", "shop"),
    scope: oneOf(KEY_SCOPES, "read: the two operations; operate: everything"),
    source: oneOf(["environment", "log"] as const, "Keys of the environment can't be changed here", "log"),
    requestsPerMinute: int64("Per replica", 6_000),
    collectionsPerHour: nullable(int64("New collections an hour, per replica; null without a limit", 300)),
    subscriptions: nullable(int64("Subscriptions at one time, per replica; null without a limit", 1_000)),
    createdAt: nullableTime("Null for keys of the environment and the first one"),
    lastUse: nullableTime("In this process, to the minute"),
    requestsToday: int64("In this process, since midnight UTC", 12),
    cost: nullable(named("KeyCost", KeyCost)),
  }),
);
export type ListedKey = Sent<typeof ListedKey>;

export type ReportedState = keyof typeof CHAIN_WORDS;

const ENDPOINT_STATES = wireValues(ENDPOINT_WORDS) satisfies EndpointStatus["state"][];

const Latency = Type.Object({ p50: double("Median in ms", 42.1), p99: double("99th percentile in ms", 310.5) });

/** Counts by names that the schema does not know. */
export const countsByName = (description: string, example: Readonly<Record<string, number>>) =>
  withExample(
    Type.Unsafe<Readonly<Record<string, number>>>({
      type: "object",
      additionalProperties: { type: "integer", format: "int64", minimum: 0 },
      description,
    }),
    example,
  );

const methodCounts = (logs: number) => named("MethodCounts", countsByName("Calls by method", { eth_getLogs: logs }));
const callCounts = named(
  "CallCounts",
  Type.Object(
    { hour: methodCounts(120), day: methodCounts(2_400) },
    { description: "Calls by method in the last 60 minutes and in the last 24 hours; each call of a batch counts" },
  ),
);

const EndpointState = Type.Object({
  label: text("Stands for the endpoint's URL in logs and metrics", "eth#1"),
  state: oneOf(
    ENDPOINT_STATES,
    `In all but the first two other endpoints are preferred. ${glossaryOf(ENDPOINT_WORDS)}`,
    "available",
  ),
  reason: nullableText("The fault in words"),
  restsUntil: nullableTime("Until then other endpoints are preferred", null),
  latencyMs: nullable(Latency),
  calls: callCounts,
  units: hourAndDay(7_200, 144_000),
  bytes: hourAndDay(60_000, 1_200_000),
});

const ArchiveState = Type.Object({
  label: text("Stands for the archive's URL in logs and metrics", "archive eth#1"),
  state: oneOf(wireValues(ARCHIVE_WORDS), glossaryOf(ARCHIVE_WORDS), "asleep"),
  reason: nullableText("The last fault in words, while it rests"),
});

const ChainHead = Type.Object({
  number: int64("Block", EXAMPLE_BLOCK),
  hash: text("Its hash", EXAMPLE_HASH),
  time: nullableTime("Its time"),
});

const ChainStatus = Type.Object({
  name: text("Name of the chain", "eth"),
  chainId: int64("Id of the chain", 1),
  head: nullable(ChainHead),
  finalized: nullable(int64("Newest final block", EXAMPLE_BLOCK - 64)),
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

const KeyUsage = Type.Object({
  name: text("Name of the key", "shop"),
  calls: callCounts,
  units: hourAndDay(3_600, 72_000),
});

const LogState = Type.Object({
  engine: text("sqlite or postgres", "sqlite"),
  bytes: int64("On disk", 4_096),
  freeBytes: nullable(int64("Left on the disk; null if the engine doesn't tell", 10_000_000)),
  writable: boolean("False if the log takes no appends", true),
  lastAppendAt: nullableTime("Time of the newest event"),
  behindSeconds: double("How far this process is behind the log", 0.4),
});

const MemoryState = Type.Object({
  rss: int64("Resident bytes of the process", 200_000_000),
  heap: int64("Bytes of JavaScript objects", 40_000_000),
  collections: int64("Bytes of collections in memory", 1_000_000),
  metadata: int64("Bytes of metadata in memory", 0),
});

const LeaseState = Type.Object({
  what: text("follow/<chain id>, metadata/<chain id> or index/<stream>", "follow/1"),
  holder: text("Id of the process", PROCESS_ID),
});

type CountsByStatus = Record<(typeof COLLECTION_STATUSES)[number], ReturnType<typeof int64>>;
const CollectionCounts = Type.Object(
  Object.fromEntries(
    COLLECTION_STATUSES.map((status) => [status, int64("Collections", status === "indexing" ? 1 : 0)]),
  ) as CountsByStatus,
);

export const StatusReport = named(
  "ServiceStatus",
  Type.Object({
    instance: text("Id of this process", PROCESS_ID),
    version: text("Version of the program", "1.1.0"),
    startedAt: time("Start of this process"),
    log: named("LogState", LogState),
    memory: named("MemoryState", MemoryState),
    leases: Type.Array(named("LeaseState", LeaseState)),
    chains: Type.Array(named("ChainStatus", ChainStatus)),
    keys: Type.Array(named("KeyUsage", KeyUsage), { description: "What each key made the service ask of endpoints" }),
    collections: named("CollectionCounts", CollectionCounts),
    queue: int64("Collections that wait for work or have some", 1),
    inDoubt: int64("Collections in doubt: `inDoubt` of each says why", 0),
  }),
);
export type StatusReport = Sent<typeof StatusReport>;
