/** Every bench of a run, in the order of the table. */
import type { Bench } from "./row.ts";
import { announced } from "./rows/announced.ts";
import { archived, archivedLarge, archiveGone } from "./rows/archive.ts";
import { backfill, faulty, postgres, sparse } from "./rows/backfill.ts";
import { bombs } from "./rows/bombs.ts";
import { capped, cappedSilently } from "./rows/capped.ts";
import { chainMaximum } from "./rows/chain.ts";
import { pageWhileCold } from "./rows/cold.ts";
import { consoleRow } from "./rows/console.ts";
import { following } from "./rows/following.ts";
import { freshProcess } from "./rows/fresh.ts";
import { greedy } from "./rows/greedy.ts";
import { hydrate } from "./rows/hydrate.ts";
import { disk, memory721, memory1155, memoryServed } from "./rows/memory.ts";
import { operators } from "./rows/operators.ts";
import { priceBatch } from "./rows/price-batch.ts";
import { priceDepth } from "./rows/price-depth.ts";
import { pricePush } from "./rows/price-push.ts";
import { proofsRow } from "./rows/proofs.ts";
import { readings } from "./rows/readings.ts";
import { scaleAppend, scaleBackfill, scaleHydrate, scalePages } from "./rows/scale.ts";
import { sockets } from "./rows/sockets.ts";
import { start } from "./rows/start.ts";
import { transfers } from "./rows/transfers.ts";
import { walk } from "./rows/walk.ts";
import { pageUnderBackfill, warmPage1, warmPage64 } from "./rows/warm-page.ts";
import { warmPrice } from "./rows/warm-price.ts";

export const BENCHES: readonly Bench[] = [
  chainMaximum,
  backfill,
  postgres,
  sparse,
  faulty,
  capped,
  cappedSilently,
  archived,
  archivedLarge,
  archiveGone,
  warmPage1,
  warmPage64,
  walk,
  transfers,
  readings,
  pageUnderBackfill,
  pageWhileCold,
  warmPrice,
  priceDepth,
  priceBatch,
  pricePush,
  hydrate,
  memory721,
  memory1155,
  memoryServed,
  disk,
  start,
  operators,
  bombs,
  consoleRow,
  proofsRow,
  greedy,
  following,
  freshProcess,
  sockets,
  announced,
  scalePages,
  scaleBackfill,
  scaleAppend,
  scaleHydrate,
];
