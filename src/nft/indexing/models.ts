/** What clients see of an estimate. The schema is that of the API's answer, and the static type follows from it. */
import { type Static, Type } from "@sinclair/typebox";
import { EXAMPLE_BLOCK } from "../../core/examples.ts";
import {
  boolean,
  double,
  int64,
  named,
  nullable,
  oneOf,
  type Sent,
  text,
  withExample,
} from "../../core/schema-parts.ts";

const range = named(
  "EstimatedRange",
  Type.Object({
    low: double("At least", 60_000),
    high: nullable(
      double("At most; equal if it was counted, or follows from the blocks; null if nothing bounds it", 400_000),
    ),
  }),
);
const exactly = (count: number) => ({ low: count, high: count });

const EstimatedBlocks = Type.Object({
  from: int64("No transfer is before this block", 12_287_507),
  fromAtLatest: int64(
    "The history begins here at the latest: a few calls tell the deployment to some blocks",
    12_287_507,
  ),
  to: int64("The newest block", EXAMPLE_BLOCK),
  count: int64("Blocks to read from the first of them on", 8_712_494),
});

const EstimatedCalls = withExample(
  Type.Unsafe<Readonly<Record<string, Static<typeof range>>>>(
    Type.Object({}, { additionalProperties: range, description: "Calls by method" }),
  ),
  { eth_getLogs: exactly(872), eth_getBlockByNumber: exactly(1_250), eth_getCode: exactly(64) },
);

const EstimatedUnits = Type.Object({
  low: double("At least", 97_200),
  high: nullable(double("At most; null if nothing bounds it", 97_200)),
  list: text("Name of the price list", "compute units"),
});

const EndpointLimits = Type.Object({
  maxBlocks: nullable(int64("Blocks per request; null if no limit was met", 10_000)),
  answered: int64("Most blocks that it gave logs of at once; 0 if it gave none yet", 10_000),
  source: oneOf(["known", "probed"] as const, "Known from earlier work, or found by the estimate's own calls"),
  batch: boolean("Several ranges fit into one request", true),
  multicall: boolean("Many reads of state are one call", true),
});

const ArchiveRoad = Type.Object(
  {
    label: text("The archive", "archive eth#1"),
    used: boolean("True if indexing would take this road now", false),
    calls: withExample(range, { low: 190, high: 260 }),
    requests: withExample(range, { low: 11, high: 62 }),
  },
  { description: "The costs by an archive: calls to the node for the rest and the proof, requests to the archive" },
);

/** What indexing a contract will cost. */
export const IndexingCosts = Type.Object({
  name: text("Name of the contract", "BoredApeYachtClub"),
  blocks: named("EstimatedBlocks", EstimatedBlocks),
  transfers: range,
  calls: named("EstimatedCalls", EstimatedCalls),
  total: withExample(range, exactly(2_186)),
  units: named("EstimatedUnits", EstimatedUnits),
  seconds: double("Until it is ready", 30),
  limits: named("EndpointLimits", EndpointLimits),
  archive: nullable(ArchiveRoad),
  probes: int64("Calls that this estimate made", 17),
});

/** The costs as they were estimated, in ms since the epoch. */
export type Estimate = Sent<typeof IndexingCosts> & { readonly time: number };
