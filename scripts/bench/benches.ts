/** Every bench of a run, in the order of the table. */
import type { Bench } from "./row.ts";
import { backfill, faulty, postgres, sparse } from "./rows/backfill.ts";

export const BENCHES: readonly Bench[] = [backfill, postgres, sparse, faulty];
