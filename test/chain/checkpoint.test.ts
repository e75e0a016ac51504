/** A follower writes a checkpoint of its chain's stream from time to time. The checkpoint changes nothing else. */
import { afterAll, expect, test } from "bun:test";
import { loadChainState } from "../../src/chain/view.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { Lifecycle } from "../../src/core/lifecycle.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type ChainEvent, chainStream, nftStream } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import type { ChainLog } from "../../src/rpc/port.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";
import { followedHead, followingHeadline, headerOf, startFollower } from "../support/following.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const { number, hash, parentHash, timestamp } = headerOf(100);
const address = `0x${"a".repeat(40)}` as Address;
const lifecycle = new Lifecycle(silentLogger);
const logs: EventLog[] = [];
afterAll(async () => {
  await lifecycle.stop();
  for (const log of logs) await log.close();
});

/** Returns a log. Its chain stream has a finalized block and `count` events in all. */
async function logOf(count: number, last: readonly ChainEvent[] = []): Promise<EventLog> {
  const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
  logs.push(log);
  const began: ChainEvent = { type: "FollowingBegan", holder: "test" };
  const events: ChainEvent[] = [
    { type: "HeadAdvanced", fromBlock: number, headers: [{ number, hash, parentHash, timestamp }] },
    { type: "ChainFinalized", block: { number, hash } },
    ...Array.from({ length: count - 2 - last.length }, () => began),
    ...last,
  ];
  await log.append({ stream: chainStream(1), events, expectedVersion: 0 });
  return log;
}

const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}` as Hash;
const mint = (block: number): ChainLog => ({
  address,
  topics: [TRANSFER, word(0), word(1), word(block)],
  data: "0x",
  blockNumber: block,
  blockHash: headerOf(block).hash,
  transactionHash: word(block),
  transactionIndex: 0,
  logIndex: 0,
});

test("writes the transfers of a block right after a checkpoint, without a new takeover of the chain", async () => {
  // The next head is the thousandth event.
  const log = await logOf(999);
  await log.append({
    stream: nftStream(1, address),
    expectedVersion: 0,
    events: [{ type: "IndexingRequested" }],
    headline: followingHeadline({ end: 100, endHash: hash }),
  });
  let head = 101;
  const { follower } = startFollower({
    log,
    lifecycle,
    head: () => head,
    minPollMs: 10,
    reader: {
      tips: async () => ({ head: headerOf(head), finalized: headerOf(100), shownBy: undefined }) as never,
      completeLogs: async ({ fromBlock, toBlock }) =>
        Array.from({ length: toBlock - fromBlock + 1 }, (_, i) => mint(fromBlock + i)),
    },
  });
  for (; head <= 103; head++) {
    follower.pollNow();
    await eventually("the block is followed", async () => ((await followedHead(log)) === head ? true : undefined));
  }
  const after = await log.read(chainStream(1), { from: 1_000 });
  expect(after.map(({ event }) => event.type)).toEqual([
    "HeadAdvanced",
    "ChainCheckpointed",
    "HeadAdvanced",
    "HeadAdvanced",
  ]);
  const events = await log.read(nftStream(1, address), { from: 2 });
  const ends = events.map(({ event }) => (event.type === "TransfersCommitted" ? event.toBlock : undefined));
  expect(ends).toEqual([101, 102, 103]);
});

test("keeps a halted chain halted for a reader that starts at the newest checkpoint", async () => {
  const block = { number, hash };
  const log = await logOf(999, [
    { type: "ChainHalted", finalized: block, found: { number, hash: word(1) } },
    { type: "FollowingBegan", holder: "another one" },
  ]);
  startFollower({
    log,
    lifecycle,
    head: () => 101,
    minPollMs: 10,
    reader: {
      tips: () => Promise.reject(new RpcError("transient", "no answer", {})),
      completeLogs: async () => [],
    },
  });
  await eventually(
    "the chain has a checkpoint",
    async () => (await log.head(chainStream(1))).version > 999 || undefined,
  );
  await lifecycle.stop();
  expect((await loadChainState(log, chainStream(1))).halted).toEqual(block);
});
