/**
 * The turns of tokens in the price feed: a token waits while all keys of its subscribers owe requests, a costly contract
 * is read once a minute, and each head's read is charged to the keys that want it.
 */
import { describe, expect, test } from "bun:test";
import { CHAINS } from "../../src/chains/chains.ts";
import { Budget } from "../../src/core/budget.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { createLogger } from "../../src/core/logger.ts";
import { ApiKeys } from "../../src/operators/keys.ts";
import { Questions } from "../../src/operators/questions.ts";
import type { PriceAnswer } from "../../src/prices/price-computer.ts";
import { type PricedChain, PriceFeed, PriceSubscription } from "../../src/push/price-feed.ts";
import type { Peer } from "../../src/push/subscription.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { eventually } from "../support/service.ts";

const [chain] = CHAINS;
const [ONE, OTHER] = [`0x${"1".repeat(40)}`, `0x${"2".repeat(40)}`] as [Address, Address];
/** Node calls of each read of a batch. */
const CALLS = 20;

/** A feed with two keys of ten requests a minute, over a chain whose prices are the numbers of its blocks. */
function world({ costly }: { readonly costly?: Address } = {}) {
  let [passed, head] = [0, 1];
  const timers: { at: number; callback: () => void }[] = [];
  const clock = {
    ...systemClock,
    monotonic: () => passed,
    after: (ms: number, callback: () => void) => {
      const timer = { at: passed + ms, callback };
      timers.push(timer);
      return () => void (timers.includes(timer) && timers.splice(timers.indexOf(timer), 1));
    },
  };
  const environment = ["first", "second"].map((name) => ({ name, scope: "read", hash: "00".repeat(32) }) as const);
  const limits = { requestsPerMinute: 10, collectionsPerHour: 1, subscriptions: 10 };
  const logger = createLogger("silent");
  const keys = new ApiKeys({ log: new MemoryLog(), clock, logger, environment, limits });
  const accounts = new Map<string, Budget>();
  const accountOf = ({ key }: { readonly key: string }) => accounts.getOrInsertComputed(key, () => new Budget());
  const blockOf = () => ({ number: head, hash: `0x${String(head).padStart(64, "0")}` as const, timestamp: head });
  const reads: Address[][] = [];
  const answerOf = (): PriceAnswer =>
    ({
      ...{ record: { usdPrice: head, nativePrice: { value: String(head) } }, asOf: blockOf(), confidence: "1" },
      usd: { n: BigInt(head), d: 1n },
    }) as unknown as PriceAnswer;
  const of = {
    prices: {
      chain,
      answer: async () => answerOf(),
      answers: async (requests: readonly { address: Address }[]) => {
        reads.push(requests.map(({ address }) => address));
        Budget.spend(Array.from({ length: CALLS }, () => "eth_call"));
        return requests.map(answerOf);
      },
      watch: () => () => undefined,
      isCostly: (address: Address) => address === costly,
    },
    view: { head: blockOf, isCanonical: () => true },
  } as unknown as PricedChain;
  const feed = new PriceFeed({ clock, logger, shared: new Questions({ keys, accountOf }) });
  const subscribe = async (key: string, token: Address) => {
    const prices: (number | null)[] = [];
    const peer = {
      key: { key, isOperator: false, subscriptions: 10 },
      send: ({ usdPrice }: { usdPrice: number | null }) => void prices.push(usdPrice),
      onRead: (callback: () => void) => callback(),
    } as unknown as Peer;
    const subscription = new PriceSubscription(of, peer, { token, minChange: undefined });
    feed.add(subscription);
    await feed.begin(subscription);
    return { prices, leave: () => feed.drop(subscription) };
  };
  const settled = async () => {
    for (let turn = 0; turn < 10; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  };
  return {
    ...{ accounts, keys, reads, subscribe },
    chargeAll: (key: string) => keys.charge({ key, requestsPerMinute: 10 }, 11),
    /** Shows a new head, and waits until the feed has done what it does. */
    async mine() {
      head++;
      feed.onChainViewMoved(chain!.chainId);
      await settled();
      return head;
    },
    async pass(ms: number) {
      for (let left = ms; left > 0; left -= 500) {
        passed += 500;
        for (const { at, callback } of [...timers]) {
          if (at > passed) continue;
          timers.splice(
            timers.findIndex((timer) => timer.callback === callback),
            1,
          );
          callback();
        }
        await settled();
      }
    },
    timers,
  };
}

describe("a token whose keys owe requests", () => {
  test("waits, and its subscriber gets the newest price without a further head once there is rate again", async () => {
    const { subscribe, chargeAll, mine, pass, reads, timers } = world();
    const { prices, leave } = await subscribe("first", ONE);
    expect(await mine()).toBe(2);
    expect(prices).toEqual([1, 2]);
    chargeAll("first");
    await mine();
    const newest = await mine();
    await pass(2_000);
    expect([prices, reads.length]).toEqual([[1, 2], 1]);
    await pass(20_000);
    expect([prices, reads.length]).toEqual([[1, 2, newest], 2]);
    // Without a token that waits, nothing is looked at.
    expect(timers).toEqual([]);
    leave();
  });

  test("is priced if another key with rate wants it too, and holds up no other token", async () => {
    const { subscribe, chargeAll, mine, reads } = world();
    const first = await subscribe("first", ONE);
    const second = await subscribe("second", OTHER);
    chargeAll("first");
    await mine();
    expect([first.prices, second.prices, reads]).toEqual([[1], [1, 2], [[OTHER]]]);
    await subscribe("second", ONE);
    await mine();
    expect([first.prices.at(-1), reads.at(-1)]).toEqual([3, [ONE, OTHER]]);
  });
});

test("a head's read is charged in equal parts to the tokens' keys, and goes into debt", async () => {
  const { subscribe, mine, accounts, keys } = world();
  const both = await Promise.all([subscribe("first", ONE), subscribe("second", ONE), subscribe("second", ONE)]);
  await subscribe("second", OTHER);
  await mine();
  const totals = ["first", "second"].map((name) => accounts.get(name)!.total);
  expect(totals).toEqual([CALLS / 4, (CALLS * 3) / 4]);
  // Twenty calls are two requests.
  const rates = ["first", "second"].map((key) => keys.rateOf({ key, requestsPerMinute: 10 } as never).left);
  expect(rates).toEqual([9, 8]);
  // The last one of a key's subscriptions ends its part.
  both[0]!.leave();
  await mine();
  expect([accounts.get("first")!.total, accounts.get("second")!.total]).toEqual([CALLS / 4, CALLS * 1.75]);
});

test("a costly contract is priced once a minute, apart from the others", async () => {
  const { subscribe, mine, pass, reads } = world({ costly: ONE });
  const { prices } = await subscribe("first", ONE);
  await subscribe("second", OTHER);
  for (let block = 0; block < 3; block++) await mine();
  expect(reads).toEqual([[OTHER], [OTHER], [OTHER]]);
  await pass(59_000);
  expect(prices).toEqual([1]);
  await pass(2_000);
  expect([prices, reads.at(-1)]).toEqual([[1, 4], [ONE]]);
  await mine();
  await eventually("the other one is read", async () => (reads.length === 5 ? true : undefined));
  expect(prices).toEqual([1, 4]);
});
