/** A follower that was stopped for long: the gap is read in steps, each written before the next, up to the node's head. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { CHAINS } from "../../src/chains/chains.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { Lifecycle } from "../../src/core/lifecycle.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream, nftStream } from "../../src/events/types.ts";
import { FollowedCollections } from "../../src/indexer/collections.ts";
import { CollectionFlags } from "../../src/indexer/flags.ts";
import { Follower } from "../../src/indexer/follower.ts";
import { REQUESTED, toHeadline } from "../../src/indexer/headline.ts";
import type { IndexingObserver } from "../../src/indexer/observer.ts";
import { openLog } from "../../src/log/open.ts";
import { NO_LISTS, RULES_VERSION } from "../../src/nfts/flags.ts";
import type { BlockHeader, CompleteLogsOptions, LogFilter } from "../../src/rpc/port.ts";
import type { RpcChainReader } from "../../src/rpc/reader.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

const chain = CHAINS.find(({ chainId }) => chainId === 1)!;
const address = `0x${"a".repeat(40)}` as Address;
const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}` as Hash;
const header = (number: number): BlockHeader => ({
  number,
  hash: word(number + 1),
  parentHash: word(number),
  timestamp: 1_700_000_000 + number * 12,
  logsBloom: `0x${"0".repeat(512)}`,
});
const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const lifecycle = new Lifecycle(silentLogger);
afterAll(async () => {
  await lifecycle.stop();
  await log.close();
});

test("is read in steps of two thousand blocks, the newest checked by their headers", async () => {
  const identified = { type: "ContractIdentified", kind: "nft", forms: ["erc721"], startBlock: 0, block: 100 } as const;
  await log.append({
    stream: nftStream(1, address),
    expectedVersion: 0,
    events: [{ type: "IndexingRequested" }, { ...identified, forms: ["erc721"], name: "", symbol: "" }],
    headline: toHeadline({
      ...REQUESTED,
      status: "following",
      forms: ["erc721"],
      end: -1,
      rulesVersion: RULES_VERSION,
    }),
  });
  let head = 100;
  const asked: { from: number; to: number; headers: number; reaching: number | undefined }[] = [];
  const reader = {
    tips: async () => ({ head: header(head), finalized: header(head - 64) }),
    header: async (number: number) => header(number),
    headers: async (numbers: readonly number[]) => numbers.map(header),
    passOverLaggards: async () => false,
    completeLogs: async (
      { fromBlock, toBlock }: LogFilter,
      headers: readonly BlockHeader[],
      options: CompleteLogsOptions,
    ) => {
      asked.push({ from: fromBlock, to: toBlock, headers: headers.length, reaching: options.reaching?.number });
      return [];
    },
  } as unknown as RpcChainReader;
  const observer = new Proxy({}, { get: () => () => undefined }) as IndexingObserver;
  const common = { chainId: 1, log, logger: silentLogger };
  const flags = new CollectionFlags({
    ...common,
    lifecycle,
    lists: () => NO_LISTS,
    shapeOf: undefined as never,
    onFound: () => undefined,
  });
  const parts = { chain, log, logger: silentLogger, reader, clock: systemClock, observer, verify: "sample" } as const;
  const collections = new FollowedCollections({ ...parts, flags });
  const follower = new Follower({
    ...parts,
    collections,
    consumers: [collections],
    holder: "test",
    minPollMs: 10,
  });
  lifecycle.run("follower", (signal) => follower.run(signal));
  const followed = async (): Promise<number | undefined> => {
    const newest = await log.readBackwards(chainStream(1), { limit: 20 });
    for (const { event } of newest) if (event.type === "HeadAdvanced") return event.headers.at(-1)?.number;
    return undefined;
  };
  await eventually("the head is followed", async () => ((await followed()) === 100 ? true : undefined));
  asked.length = 0;
  head = 5_300;
  follower.nudge();
  await eventually("the gap is closed", async () => ((await followed()) === head ? true : undefined));
  expect(asked).toEqual([
    { from: 101, to: 2_100, headers: 1, reaching: 2_100 },
    { from: 2_101, to: 4_100, headers: 1, reaching: 4_100 },
    { from: 4_101, to: 5_300, headers: 512, reaching: 5_300 },
  ]);
  const events = (await log.read(chainStream(1))).map(({ event }) => event);
  const final = events.flatMap((event) => (event.type === "ChainFinalized" ? [event.block.number] : []));
  expect(final).toEqual([36, 2_100, 4_100, head - 64]);
});
