/** An append with an unknown outcome may still reach the log. It must not, once the chain has gone on without it. */
import { afterAll, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import { AppError } from "../../src/core/errors.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { Lifecycle } from "../../src/core/lifecycle.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream, nftStream } from "../../src/events/types.ts";
import type { Append, AppendOutcome, EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import type { BlockHeader, ChainLog } from "../../src/rpc/port.ts";
import { followedHead, followingHeadline, headerOf, startFollower } from "../support/following.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const address = `0x${"a".repeat(40)}` as Address;
const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const lifecycle = new Lifecycle(silentLogger);
afterAll(async () => {
  await lifecycle.stop();
  await log.close();
});

const PARTING = 100;
const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}` as Hash;
const other = (hash: Hash) => hash.replace(/^0x00/, "0xff") as Hash;
/** A block of the winning branch, which differs from `headerOf` above the parting. */
const winning = (number: number): BlockHeader => {
  const { hash, parentHash, ...rest } = headerOf(number);
  if (number <= PARTING) return headerOf(number);
  return { ...rest, hash: other(hash), parentHash: number === PARTING + 1 ? parentHash : other(parentHash) };
};
const mint: ChainLog = {
  address,
  topics: [TRANSFER, word(0), word(1), word(7)],
  data: "0x",
  blockNumber: PARTING + 1,
  blockHash: headerOf(PARTING + 1).hash,
  transactionHash: word(1),
  transactionIndex: 0,
  logIndex: 0,
};

test("refuses a late append for a losing branch", async () => {
  const { number, hash, parentHash, timestamp } = headerOf(PARTING);
  await log.append({
    stream: chainStream(1),
    events: [
      { type: "HeadAdvanced", fromBlock: number, headers: [{ number, hash, parentHash, timestamp }] },
      { type: "ChainFinalized", block: { number, hash } },
    ],
    expectedVersion: 0,
  });
  await log.append({
    stream: nftStream(1, address),
    expectedVersion: 0,
    events: [{ type: "IndexingRequested" }],
    headline: followingHeadline({ end: number, endHash: hash }),
  });

  let block = headerOf;
  let underWay: readonly Append[] | undefined;
  let landed: AppendOutcome[] | undefined;
  const slow = {
    append: async (append: Append) => {
      const isHead = append.events.some(({ type }) => type === "HeadAdvanced");
      if (isHead && underWay !== undefined && landed === undefined) landed = await log.appendAll(underWay);
      return await log.append(append);
    },
    appendAll: async (appends: readonly Append[]) => {
      if (appends.length === 0 || underWay !== undefined) return await log.appendAll(appends);
      underWay = appends;
      // When the append is given up, the node has switched to the winning branch.
      block = winning;
      throw new AppError("the event log is not available: no answer", { code: "log_unavailable", retryable: true });
    },
  };
  const silent = new Proxy(log, {
    get: (target, name) => {
      if (name in slow) return slow[name as keyof typeof slow];
      const value = target[name as keyof EventLog];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  startFollower({
    log: silent,
    lifecycle,
    head: () => PARTING + 1,
    minPollMs: 10,
    reader: {
      tips: async () => ({ head: block(PARTING + 1), finalized: block(PARTING) }) as never,
      header: async (at: number) => block(at),
      presentHeaders: async (numbers: readonly number[]) => numbers.map((at) => block(at)),
      completeLogs: async () => (block === winning ? [] : [mint]),
    },
  });
  await eventually("the winning branch is followed", async () =>
    (await followedHead(log)) === PARTING + 1 ? true : undefined,
  );
  expect(landed).toMatchObject([{ error: { code: "concurrency", meta: { stream: chainStream(1) } } }]);
  expect((await log.head(nftStream(1, address))).version).toBe(1);
});
