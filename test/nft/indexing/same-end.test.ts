/** A followed collection that was indexed anew meanwhile, and has come to the same block: the follower lets go of it. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import { ConcurrencyError } from "../../../src/core/errors.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { type NftEvent, nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import { foldHeadline, fromHeadline, REQUESTED, toHeadline } from "../../../src/nft/collections/headline.ts";
import { FollowedStreams } from "../../../src/nft/indexing/collection-streams.ts";
import { committed, hash, identified } from "../../support/histories.ts";
import { KNOWN } from "../../support/known-chains.ts";
import { temporaryLogUrl } from "../../support/service.ts";

const address = `0x${"c".repeat(40)}` as Address;
const stream = nftStream(1, address);
const END = 9;

test.each([false, true])("is not written by its follower any more (complete again: %p)", async (isComplete) => {
  const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
  let state = REQUESTED;
  let version = 0;
  const append = async (...events: NftEvent[]) => {
    state = foldHeadline(state, events, 1);
    version = await log.append({ stream, events, expectedVersion: version, headline: toHeadline(state) });
  };
  const completed: NftEvent = { type: "IndexingCompleted", block: END, hash: hash(END) };
  await append({ type: "IndexingRequested" }, identified, committed(END), completed);
  const followed = { address, version, state };
  expect([state.status, state.end]).toEqual(["following", END]);

  await append({ type: "ReindexRequested" });
  // The version of the request is the base of what follows.
  state = { ...fromHeadline((await log.head(stream)).headline), base: version };
  await append(identified, committed(END), ...(isComplete ? [completed] : []));
  expect(state.end).toBe(END);

  const observer = { malformed: () => undefined } as never;
  const streams = new FollowedStreams({ chain: KNOWN.default, log, clock: systemClock, observer });
  const written = streams.appendAll([{ followed, events: [committed(END + 1)] }]);
  expect(await written.catch((error: unknown) => error)).toBeInstanceOf(ConcurrencyError);
  expect((await log.head(stream)).version).toBe(version);
  await log.close();
});
