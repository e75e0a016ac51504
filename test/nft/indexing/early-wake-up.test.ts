/** Wake-ups of a completed collection: before the answer to the append that completed it, and in other processes. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { Lifecycle } from "../../../src/core/lifecycle.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { nftStream } from "../../../src/events/types.ts";
import type { Append, EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { type IndexState, REQUESTED, toHeadline } from "../../../src/nft/collections/headline.ts";
import type { FollowedCollections } from "../../../src/nft/indexing/followed-collections.ts";
import { RULES_VERSION } from "../../../src/nft/indexing/word-rules.ts";
import { headerOf, startFollower } from "../../support/following.ts";
import { eventually, temporaryLogUrl } from "../../support/service.ts";

const address = `0x${"c".repeat(40)}` as Address;
const stream = nftStream(1, address);
const HEAD = 200;

/** Opens a log with a collection in a state, up to block 100. */
async function logWith(state: Partial<IndexState>): Promise<EventLog> {
  const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
  const { number: end, hash: endHash } = headerOf(100);
  const headline = toHeadline({
    ...{ ...REQUESTED, forms: ["erc721"], archives: "portal", rulesVersion: RULES_VERSION },
    ...{ ...state, end, endHash },
  });
  await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0, headline });
  return log;
}

test("proves a collection once, although the log told of its completion first", async () => {
  const log = await logWith({ status: "joining" });
  let told: FollowedCollections | undefined;
  const append = async (one: Append) => {
    const version = await log.append(one);
    if (one.events.some(({ type }) => type === "IndexingCompleted")) told?.offer(await log.head(stream));
    return version;
  };
  const early = new Proxy(log, {
    get: (target, name: keyof EventLog) => {
      const value = name === "append" ? append : target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const lifecycle = new Lifecycle(silentLogger);
  const proven: Address[] = [];
  const { collections } = startFollower({
    ...{ log: early, lifecycle, head: () => HEAD, minPollMs: 20 },
    reader: { completeLogs: async () => [] },
    onProve: (one) => proven.push(one),
  });
  told = collections;
  await eventually("the collection is proven", async () => (proven.length > 0 ? true : undefined));
  await lifecycle.stop();
  expect(proven).toEqual([address]);
  await log.close();
});

test("proves a collection in the process that follows the chain only", async () => {
  const log = await logWith({ status: "following" });
  await log.acquireLease("follow/1", "another process", 60_000);
  const lifecycle = new Lifecycle(silentLogger);
  const proven: Address[] = [];
  const { collections } = startFollower({
    ...{ log, lifecycle, head: () => HEAD, minPollMs: 20 },
    reader: { completeLogs: async () => [] },
    onProve: (one) => proven.push(one),
  });
  collections.offer(await log.head(stream));
  expect(proven).toEqual([]);
  await log.releaseLease("follow/1", "another process");
  await eventually("the collection is proven", async () => (proven.length > 0 ? true : undefined));
  await lifecycle.stop();
  expect(proven).toEqual([address]);
  await log.close();
});
