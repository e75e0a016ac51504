/**
 * The log of a release that priced tokens through any token requested before. It replays, and the prices served with it
 * equal those with an empty log, because no price is made from the log.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { referenceTokens } from "../../src/chains/tokens.ts";
import type { Address } from "../../src/core/hex.ts";
import type { PriceEvent, StreamName } from "../../src/events/types.ts";
import type { Headline } from "../../src/log/event-log.ts";
import { fromStored } from "../../src/log/records.ts";
import { PriceHistory } from "../../src/prices/stored/price-history.ts";
import type { FrozenRecord } from "../support/frozen.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { Process } from "../support/prices/cluster.ts";
import { ASKED, HALF, LATER, OTHER, placeLinked, playLinked } from "../support/prices/linked.ts";
import type { RawPriceQuery } from "../support/prices/query.ts";
import { dollarWorld, eth, TOKEN } from "../support/prices/world.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

interface FrozenStream {
  readonly stream: StreamName;
  readonly headline?: Headline;
  readonly records: readonly FrozenRecord[];
}

const FIXTURE = join(import.meta.dir, "../fixtures/linked-prices.json");
const { streams } = (await Bun.file(FIXTURE).json()) as { streams: readonly FrozenStream[] };

const recorded = ({ stream, records }: FrozenStream) =>
  records.map((record) => fromStored(stream, { ...record, data: new Uint8Array(Buffer.from(record.data, "base64")) }));

async function oldLog(): Promise<MemoryLog> {
  const log = new MemoryLog();
  for (const entry of streams) {
    const headline = entry.headline === undefined ? {} : { headline: entry.headline };
    const events = recorded(entry).map(({ event }) => event);
    await log.append({ stream: entry.stream, events, expectedVersion: 0, ...headline });
  }
  return log;
}

/**
 * The market at the old release's stop, and two processes that start on it: one with the old log, one with an empty
 * log.
 */
async function restarted() {
  const world = dollarWorld();
  const pools = placeLinked(world);
  const nothing = async (): Promise<void> => undefined;
  await playLinked(world, pools, nothing);
  await playLinked(world, pools, nothing);
  const { chain } = world;
  const upgraded = await new Process(chain, await oldLog()).start();
  const fresh = new Process(chain, new MemoryLog());
  await fresh.follow();
  await fresh.start();
  return { world, pools, upgraded, fresh };
}

const answer = (process: Process, address: Address, query: RawPriceQuery = {}): Promise<unknown> =>
  process.ask(address, query).then(
    ({ record }) => record,
    ({ status, code, details }) => ({ status, code, details }),
  );

const references = new Set(referenceTokens(eth).map(({ address }) => address));

describe("a log with linking facts", () => {
  test("contains a followed pool of two tokens that are no connectors, and replays", () => {
    const events = streams.flatMap((entry) => recorded(entry).map(({ event }) => event as PriceEvent));
    const linking = events.filter(
      (event) => event.type === "PoolDiscovered" && !references.has(event.token0) && !references.has(event.token1),
    );
    expect(linking.length).toBeGreaterThan(0);
    const own = streams.find(({ stream }) => stream.endsWith(TOKEN))!;
    const history = new PriceHistory();
    for (const { event, version } of recorded(own)) history.evolve(event as PriceEvent, version);
    expect([history.facts.length, history.pools.length, history.size]).toEqual([1, 1, 0]);
    expect(own.headline).toMatchObject({ from: 1, pools: 1 });
  });

  test("gives the same prices and refusals as an empty log", async () => {
    const { upgraded, fresh } = await restarted();
    for (const address of ASKED) {
      for (const query of [{ include: "provenance" }, { to_block: "5" }, { min_liquidity_usd: "1" }]) {
        expect([address, await answer(upgraded, address, query)]).toEqual([
          address,
          await answer(fresh, address, query),
        ]);
      }
    }
    expect(await answer(upgraded, TOKEN)).toEqual({ code: "no_pool", details: { pools: [] } });
    expect(await answer(upgraded, LATER)).toMatchObject({ usdPrice: 5 });
    expect(await answer(upgraded, HALF)).toMatchObject({ usdPrice: 20 });
  });

  test("is followed on, and a process that only reads it gives the same answers from memory", async () => {
    const { world, pools, upgraded, fresh } = await restarted();
    const { chain } = world;
    // A search for pools takes time of the manual clock. Asked again, all tokens were asked about lately.
    for (const address of [...ASKED, ...ASKED]) for (const process of [upgraded, fresh]) await answer(process, address);
    await playLinked(world, pools, async () => {
      for (const process of [upgraded, fresh]) {
        await process.follow();
        await process.show();
      }
    });
    chain.requests.length = 0;
    for (const address of ASKED) expect(await answer(upgraded, address)).toEqual(await answer(fresh, address));
    expect(await answer(upgraded, OTHER)).toMatchObject({ usdPrice: 20.8 });
    expect(chain.requests).toEqual([]);
  });
});
