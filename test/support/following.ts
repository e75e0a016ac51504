/** Starts a follower of chain 1 on a given log. The test controls the chain that it sees. */
import type { IndexingObserver } from "../../src/chain/consumer.ts";
import { Follower } from "../../src/chain/follower.ts";
import { Leases } from "../../src/chain/lease.ts";
import { CHAINS } from "../../src/chains/chains.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import type { Lifecycle } from "../../src/core/lifecycle.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { type IndexState, REQUESTED, toHeadline } from "../../src/nft/collections/headline.ts";
import type { FlagLists } from "../../src/nft/collections/operator-lists.ts";
import { FlagRules } from "../../src/nft/indexing/flags.ts";
import { FollowedCollections } from "../../src/nft/indexing/followed-collections.ts";
import { RULES_VERSION } from "../../src/nft/indexing/word-rules.ts";
import type { BlockHeader } from "../../src/rpc/port.ts";
import type { RpcChainReader } from "../../src/rpc/reading/reader.ts";

const chain = CHAINS.find(({ chainId }) => chainId === 1)!;
const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}` as Hash;

/** A block header. The chain has one branch, and the bloom is empty. */
export const headerOf = (number: number): BlockHeader => ({
  number,
  hash: word(number + 1),
  parentHash: word(number),
  timestamp: 1_700_000_000 + number * 12,
  logsBloom: `0x${"0".repeat(512)}`,
});

/** The headline of a followed ERC-721 collection under the current rules. */
export const followingHeadline = (at: Partial<IndexState>) =>
  toHeadline({ ...REQUESTED, status: "following", forms: ["erc721"], rulesVersion: RULES_VERSION, ...at });

export interface FollowingOptions {
  readonly log: EventLog;
  readonly lifecycle: Lifecycle;
  readonly head: () => number;
  /** Reads logs, and replaces any other method of the default reader. */
  readonly reader: Pick<RpcChainReader, "completeLogs"> & Partial<RpcChainReader>;
  readonly minPollMs: number;
  /** Called for each history that is to be proven. */
  readonly onProve?: (address: Address) => void;
}

/** An operator's lists without an entry. */
export const NO_LISTS: FlagLists = { isSpam: () => false, isVerified: () => false };

/** Starts a follower that runs until the lifecycle ends. */
export function startFollower({ log, lifecycle, head, reader: given, minPollMs, onProve }: FollowingOptions): {
  follower: Follower;
  collections: FollowedCollections;
} {
  const reader = {
    tips: async () => ({ head: headerOf(head()), finalized: headerOf(head() - 64) }),
    header: async (number: number) => headerOf(number),
    presentHeaders: async (numbers: readonly number[]) => numbers.map(headerOf),
    benchLaggards: async () => false,
    head: async () => headerOf(head()),
    newest: async () => ({ head: headerOf(head()) }),
    logsOfStretch: async () => undefined,
    foundInstead: async () => undefined,
    silentMs: () => 0,
    ...given,
  } as unknown as RpcChainReader;
  const observer = new Proxy({}, { get: () => () => undefined }) as IndexingObserver;
  const flags = new FlagRules({
    clock: systemClock,
    chainId: 1,
    log,
    logger: silentLogger,
    lifecycle,
    lists: () => NO_LISTS,
    onFound: () => undefined,
  });
  const parts = { chain, log, logger: silentLogger, reader, clock: systemClock, observer, verify: "sample" } as const;
  const collections = new FollowedCollections({
    ...{ ...parts, flags },
    descriptions: { readAgain: async () => false },
    proofs: { prove: (address) => onProve?.(address), takeFound: () => new Map() },
  });
  const leases = new Leases({ log, clock: systemClock, holder: "test" });
  const follower = new Follower({ ...parts, consumers: [collections], leases, minPollMs });
  lifecycle.run("follower", (signal) => follower.run(signal));
  return { follower, collections };
}

/** Returns the followed head, or undefined before the first one. */
export async function followedHead(log: EventLog): Promise<number | undefined> {
  const newest = await log.readBackwards(chainStream(1), { limit: 20 });
  for (const { event } of newest) if (event.type === "HeadAdvanced") return event.headers.at(-1)?.number;
  return undefined;
}
