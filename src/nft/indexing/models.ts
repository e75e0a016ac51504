/** What clients see of an estimate. The schema is that of the API's answer, and the static type follows from it. */
import { type Static, Type } from "@sinclair/typebox";
import { double, int64, named, nullable, oneOf, type Sent, text } from "../../core/schema-parts.ts";

const range = named(
  "EstimatedRange",
  Type.Object({
    low: double("At least"),
    high: nullable(double("At most; equal if it was counted, or follows from the blocks; null if nothing bounds it")),
  }),
);

const EstimatedBlocks = Type.Object({
  from: int64("No transfer is before this block"),
  fromAtLatest: int64("The history begins here at the latest: a few calls tell the deployment to some blocks"),
  to: int64("The newest block"),
  count: int64("Blocks to read from the first of them on"),
});

const EstimatedCalls = Type.Unsafe<Readonly<Record<string, Static<typeof range>>>>(
  Type.Object({}, { additionalProperties: range, description: "Calls by method" }),
);

const EstimatedUnits = Type.Object({
  low: double("At least"),
  high: nullable(double("At most; null if nothing bounds it")),
  list: text("Name of the price list"),
});

const EndpointLimits = Type.Object({
  maxBlocks: nullable(int64("Blocks per request; null if no limit was met")),
  answered: int64("Most blocks that it gave logs of at once; 0 if it gave none yet"),
  source: oneOf(["known", "probed"] as const, "Known from earlier work, or found by the estimate's own calls"),
  batch: Type.Boolean({ description: "Several ranges fit into one request" }),
  multicall: Type.Boolean({ description: "Many reads of state are one call" }),
});

const ArchiveRoad = Type.Object(
  {
    label: text("The archive"),
    used: Type.Boolean({ description: "True if indexing would take this road now" }),
    calls: range,
    requests: range,
  },
  { description: "The costs by an archive: calls to the node for the rest and the proof, requests to the archive" },
);

/** What indexing a contract will cost. */
export const IndexingCosts = Type.Object({
  name: text("Name of the contract"),
  blocks: named("EstimatedBlocks", EstimatedBlocks),
  transfers: range,
  calls: named("EstimatedCalls", EstimatedCalls),
  total: range,
  units: named("EstimatedUnits", EstimatedUnits),
  seconds: double("Until it is ready"),
  limits: named("EndpointLimits", EndpointLimits),
  archive: nullable(ArchiveRoad),
  probes: int64("Calls that this estimate made"),
});

/** The costs as they were estimated, in ms since the epoch. */
export type Estimate = Sent<typeof IndexingCosts> & { readonly time: number };
