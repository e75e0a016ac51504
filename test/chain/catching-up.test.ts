/** A follower after a long stop: it reads the gap in steps, writes each step before the next, up to the node's head. */
import { afterAll, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { Lifecycle } from "../../src/core/lifecycle.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { followedHead, followingHeadline, startFollower } from "../support/following.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const address = `0x${"a".repeat(40)}` as Address;
const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const lifecycle = new Lifecycle(silentLogger);
afterAll(async () => {
  await lifecycle.stop();
  await log.close();
});

test("reads the gap in steps of two thousand blocks, and checks the newest blocks by their headers", async () => {
  const identified = { type: "ContractIdentified", kind: "nft", forms: ["erc721"], startBlock: 0, block: 100 } as const;
  await log.append({
    stream: nftStream(1, address),
    expectedVersion: 0,
    events: [{ type: "IndexingRequested" }, { ...identified, forms: ["erc721"], name: "", symbol: "" }],
    headline: followingHeadline({ end: -1 }),
  });
  let head = 100;
  const asked: { from: number; to: number; headers: number; reaching: number | undefined }[] = [];
  const { follower } = startFollower({
    log,
    lifecycle,
    head: () => head,
    minPollMs: 10,
    reader: {
      completeLogs: async ({ fromBlock, toBlock }, headers, options) => {
        asked.push({
          from: fromBlock,
          to: toBlock,
          headers: (await headers).length,
          reaching: options?.requiredBlock?.number,
        });
        return [];
      },
    },
  });
  await eventually("the head is followed", async () => ((await followedHead(log)) === 100 ? true : undefined));
  asked.length = 0;
  head = 5_300;
  follower.pollNow();
  await eventually("the gap is closed", async () => ((await followedHead(log)) === head ? true : undefined));
  expect(asked).toEqual([
    { from: 101, to: 2_100, headers: 1, reaching: 2_100 },
    { from: 2_101, to: 4_100, headers: 1, reaching: 4_100 },
    { from: 4_101, to: 5_300, headers: 512, reaching: 5_300 },
  ]);
  const events = (await log.read(chainStream(1))).map(({ event }) => event);
  const final = events.flatMap((event) => (event.type === "ChainFinalized" ? [event.block.number] : []));
  expect(final).toEqual([36, 2_100, 4_100, head - 64]);
});
