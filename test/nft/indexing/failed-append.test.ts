/** The stream of a collection, as its job writes it. */
import { expect, test } from "bun:test";
import { DEFAULT_CHAIN } from "../../../src/chains/chains.ts";
import { Budget } from "../../../src/core/budget.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { type Address, ZERO_ADDRESS } from "../../../src/core/hex.ts";
import { nftStream } from "../../../src/events/types.ts";
import { JobStream } from "../../../src/nft/indexing/collection-streams.ts";
import { MemoryLog } from "../../support/memory-log.ts";

test("does not count as idle after a failed append, so that no later append hides the failure", async () => {
  const log = new MemoryLog();
  const stream = nftStream(DEFAULT_CHAIN.chainId, ZERO_ADDRESS as Address);
  await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  const writer = new JobStream(log, { clock: systemClock, spending: new Budget() }, await log.head(stream));
  expect(writer.isIdle).toBe(true);
  log.append = () => Promise.reject(new Error("the disk is full"));
  writer.append([{ type: "IndexingStalled", reason: "" }], { status: "backfilling" });
  expect(writer.isIdle).toBe(false);
  expect(await writer.settled().catch((error: unknown) => error)).toMatchObject({ message: "the disk is full" });
  expect([writer.isIdle, writer.state.status]).toEqual([false, "requested"]);
});
