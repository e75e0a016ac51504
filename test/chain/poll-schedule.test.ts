/** The follower polls the chain for a collection that is ready to join only if it has not seen enough already. */
import { afterAll, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { Lifecycle } from "../../src/core/lifecycle.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { REQUESTED, toHeadline } from "../../src/nft/collections/headline.ts";
import { followedHead, headerOf, startFollower } from "../support/following.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const lifecycle = new Lifecycle(silentLogger);
afterAll(async () => {
  await lifecycle.stop();
  await log.close();
});

let head = 100;
let looks = 0;
/** True while the node shows a head of another branch than the followed one. */
let isElsewhere = false;
const { follower, collections } = startFollower({
  log,
  lifecycle,
  head: () => head,
  // No scheduled poll happens during a test.
  minPollMs: 600_000,
  reader: {
    tips: async () => {
      looks++;
      return { head: headerOf(head), finalized: headerOf(head - 64) };
    },
    newest: async () => {
      looks++;
      return { head: headerOf(head) };
    },
    presentHeaders: async (numbers) =>
      numbers.map((number) => (isElsewhere ? { ...headerOf(number), hash: headerOf(7).hash } : headerOf(number))),
    completeLogs: async (_filter, headers) => {
      await headers;
      return [];
    },
  },
});

/** Hands the follower a collection that was read up to block 30. Returns the block at which it joins. */
async function joinedAt(digit: string, seen: number | undefined): Promise<number> {
  const address = `0x${digit.repeat(40)}` as Address;
  const stream = nftStream(1, address);
  const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1, end: 30 };
  const identified = { type: "ContractIdentified", kind: "nft", forms: ["erc721"], startBlock: 1, block: 100 } as const;
  const empty = { type: "TransfersCommitted", fromBlock: 1, toBlock: 30, toHash: headerOf(30).hash, count: 0 } as const;
  const appended = log
    .append({
      stream,
      expectedVersion: 0,
      events: [
        { type: "IndexingRequested" },
        { ...identified, forms: ["erc721"], name: "", symbol: "" },
        { ...empty, transfers: new Uint8Array(0) },
      ],
      headline: toHeadline(state),
    })
    .then(() => log.head(stream));
  collections.offerPending(address, state, appended);
  follower.readied(seen);
  return eventually(`${address} has joined`, async () => {
    const [newest] = await log.readBackwards(stream, { limit: 1 });
    return newest?.event.type === "IndexingCompleted" ? newest.event.block : undefined;
  });
}

test("joins a collection at the followed head if its requester cannot know a later block", async () => {
  await eventually("the head is followed", async () => ((await followedHead(log)) === 100 ? true : undefined));
  expect(looks).toBe(1);
  head = 103;
  expect(await joinedAt("1", 100)).toBe(100);
  expect(await joinedAt("2", 99)).toBe(100);
  expect(looks).toBe(1);
});

test("polls first if the requester may know a later block, or if that is unknown", async () => {
  expect(await joinedAt("3", 102)).toBe(103);
  expect(looks).toBe(2);
  head = 105;
  expect(await joinedAt("4", undefined)).toBe(105);
  expect(looks).toBe(3);
});

test("polls at once if the chain has meanwhile switched to another branch", async () => {
  isElsewhere = true;
  const joining = joinedAt("5", 105);
  await eventually("another poll has started", async () => (looks > 3 ? true : undefined));
  isElsewhere = false;
  head = 106;
  follower.pollNow();
  expect(await joining).toBe(106);
});
