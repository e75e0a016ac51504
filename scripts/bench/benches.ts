/** Every bench of a run, in the order of the table. */
import type { Bench } from "./row.ts";
import { backfill, faulty, postgres, sparse } from "./rows/backfill.ts";
import { hydrate } from "./rows/hydrate.ts";
import { walk } from "./rows/walk.ts";
import { pageUnderBackfill, warmPage1, warmPage64 } from "./rows/warm-page.ts";
import { warmPrice } from "./rows/warm-price.ts";

export const BENCHES: readonly Bench[] = [
  backfill,
  postgres,
  sparse,
  faulty,
  warmPage1,
  warmPage64,
  pageUnderBackfill,
  warmPrice,
  walk,
  hydrate,
];
