/** A collection that a job passes on may have joined in parts before, on a branch that is lost now. */
import { afterAll, expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import type { Lifecycle } from "../../../src/core/lifecycle.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { chainStream, type NftEvent, nftStream } from "../../../src/events/types.ts";
import type { StreamHead } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { foldHeadline, REQUESTED, toHeadline } from "../../../src/nft/collections/headline.ts";
import { FollowedStreams } from "../../../src/nft/indexing/collection-streams.ts";
import { headerOf, startFollower } from "../../support/following.ts";
import { temporaryLogUrl } from "../../support/service.ts";

const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
afterAll(() => log.close());
const version = await log.append({
  stream: chainStream(1),
  events: [{ type: "FollowingBegan", holder: "test" }],
  expectedVersion: 0,
});
const LOST = { number: 30, hash: `0x${"f".repeat(64)}` as Hash };

/** Starts the collections of a chain at head 40, with the final block 10. No follower runs: the test tells the changes. */
async function collectionsOf() {
  const { collections } = startFollower({
    ...{ log, head: () => 40, minPollMs: 1_000, reader: { completeLogs: async () => [] } },
    lifecycle: { run: () => undefined } as unknown as Lifecycle,
  });
  const headers = new Map([10, 20, 40].map((number) => [number, headerOf(number)]));
  await collections.begin({ version, head: headerOf(40), finalized: headerOf(10), headers, orphaned: new Map() });
  return collections;
}

test.each(["a", "b"])("and is reverted with the chain, also while its append is pending (%s)", async (digit) => {
  const address = `0x${digit.repeat(40)}` as Address;
  const observer = { malformed: () => undefined } as never;
  const streams = new FollowedStreams({ chain: { chainId: 1 } as never, log, clock: systemClock, observer });
  streams.chain = { version, headers: new Map() };
  const joining = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
  const events: NftEvent[] = [{ type: "IndexingRequested" }, streams.committed(joining, [], 1, LOST)];
  const state = { ...foldHeadline(joining, events, 0), status: "joining" as const };
  const stream = nftStream(1, address);
  const headline = toHeadline(state);
  await log.append({ stream, events, expectedVersion: 0, headline });

  const collections = await collectionsOf();
  const append = Promise.withResolvers<StreamHead>();
  if (digit === "a") append.resolve({ stream, version: 2, headline });
  collections.offerPending(address, state, append.promise);
  const ancestor = headerOf(20);
  const applied = collections.apply({ type: "reverted", ancestor, orphaned: [LOST] });
  append.resolve({ stream, version: 2, headline });
  await applied;
  const [reverted] = await log.read(stream, { from: 3 });
  expect(reverted?.event).toMatchObject({ type: "BlocksReverted", ancestor: { number: 20, hash: ancestor.hash } });
});
