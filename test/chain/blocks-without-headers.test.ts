/** Blocks that are read without their headers: logs of another branch are refused, and a sample reads all headers. */
import { afterAll, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { Lifecycle } from "../../src/core/lifecycle.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import type { ChainLog } from "../../src/rpc/port.ts";
import { followedHead, followingHeadline, headerOf, startFollower } from "../support/following.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const address = `0x${"a".repeat(40)}` as Address;
const word = (value: number): Hash => `0x${value.toString(16).padStart(64, "0")}` as Hash;
const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const lifecycle = new Lifecycle(silentLogger);
afterAll(async () => {
  await lifecycle.stop();
  await log.close();
});

const mint = (block: number, blockHash: Hash): ChainLog => ({
  address,
  topics: [TRANSFER, word(0), word(1), word(block)],
  data: "0x",
  blockNumber: block,
  blockHash,
  transactionHash: word(block),
  transactionIndex: 0,
  logIndex: 0,
});

test("refuses logs of a block that is not linked to the head", async () => {
  const identified = { type: "ContractIdentified", kind: "nft", forms: ["erc721"], startBlock: 0, block: 100 } as const;
  await log.append({
    stream: nftStream(1, address),
    expectedVersion: 0,
    events: [{ type: "IndexingRequested" }, { ...identified, forms: ["erc721"], name: "", symbol: "" }],
    headline: followingHeadline({ end: -1 }),
  });
  let head = 100;
  let stretches = 0;
  const { follower } = startFollower({
    log,
    lifecycle,
    head: () => head,
    minPollMs: 10,
    reader: {
      completeLogs: async () => [],
      // The node that answers about logs is on another branch in every second answer.
      logsOfStretch: async ({ stretch }) => {
        const block = stretch.head.number - 2;
        return [mint(block, stretches++ % 2 === 0 ? word(7) : headerOf(block).hash)];
      },
    },
  });
  const reached = () => eventually("the head is followed", async () => (await followedHead(log)) === head || undefined);
  await reached();
  while (stretches < 4) {
    head += 5;
    follower.pollNow();
    await reached();
  }
  const events = (await log.read(nftStream(1, address))).map(({ event }) => event);
  const minted = events.flatMap((event) => (event.type === "TransfersCommitted" ? [event.count] : []));
  expect(minted.length).toBeGreaterThan(0);
  // Each disagreement lets the next polls read all headers, so not every stretch has logs.
  expect(minted.every((count) => count === 1)).toBe(true);
  const ends = events.flatMap((event) => (event.type === "TransfersCommitted" ? [event.toHash] : []));
  expect(ends).not.toContain(word(7));
});
