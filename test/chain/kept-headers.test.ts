/** The fold of a chain's stream over blocks that never become final: what it keeps is bounded, and the same everywhere. */
import { expect, test } from "bun:test";
import { HEADER_BOUNDS } from "../../src/chain/kept-headers.ts";
import { type ChainState, checkpointOf, evolveChain, initialChainState, PublishedChain } from "../../src/chain/view.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { decodeEvent, encodeEvent } from "../../src/events/codec.ts";
import { type ChainEvent, chainStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { headerOf } from "../support/following.ts";
import { temporaryLogUrl } from "../support/service.ts";

const { most, newest } = HEADER_BOUNDS;
const refOf = (number: number) => {
  const { hash, parentHash, timestamp } = headerOf(number);
  return { number, hash, parentHash, timestamp };
};
const advanced = (from: number, to: number): ChainEvent => ({
  ...{ type: "HeadAdvanced", fromBlock: from },
  headers: Array.from({ length: to - from + 1 }, (_, at) => refOf(from + at)),
});
const began: ChainEvent[] = [advanced(100, 100), { type: "ChainFinalized", block: refOf(100) }];

function fold(state: ChainState, events: readonly ChainEvent[]): ChainState {
  for (const event of events) evolveChain(state, event, state.version + 1);
  return state;
}

test("keeps all of the newest headers, fewer the older they are, and that of the final block", () => {
  const state = fold(initialChainState(), began);
  for (let from = 101; from < 400_000; from += 1_000) {
    fold(state, [advanced(from, from + 999)]);
    expect(state.headers.size).toBeLessThanOrEqual(most + 1_000);
  }
  const head = state.head?.number ?? 0;
  for (let number = head - newest + 1; number <= head; number++) expect(state.headers.has(number)).toBe(true);
  expect(state.headers.has(100)).toBe(true);
  // Down to the final block, the next kept header is never farther than a share of the distance from the head.
  const kept = [...state.headers.keys()].sort((a, b) => b - a);
  for (const [at, number] of kept.entries()) {
    const above = kept[at - 1] ?? number;
    if (number > 100) expect(above - number).toBeLessThanOrEqual(Math.max(1, (head - number) / 32));
  }
});

test("a process that starts at a checkpoint keeps what the others keep", () => {
  const live = fold(initialChainState(), began);
  let loaded: ChainState | undefined;
  for (let from = 101; from < 60_000; from += 500) {
    fold(live, [advanced(from, from + 499)]);
    const checkpoint = checkpointOf(live) as ChainEvent;
    if (from % 7_000 === 101) {
      const stored = decodeEvent(checkpoint.type, encodeEvent(checkpoint)) as ChainEvent;
      expect(encodeEvent(checkpoint).length).toBeLessThan(1_000_000);
      fold(live, [stored]);
      loaded = initialChainState();
      evolveChain(loaded, stored, live.version);
    } else if (loaded !== undefined) evolveChain(loaded, advanced(from, from + 499), live.version);
    if (loaded !== undefined) expect(new Map([...loaded.headers].sort())).toEqual(new Map([...live.headers].sort()));
  }
});

test("a checkpoint of an older release tells no reorganisation", () => {
  const { number, hash } = refOf(100);
  const old = { type: "ChainCheckpointed", headers: [refOf(100)], finalized: { number, hash }, orphaned: [] } as never;
  const bytes = encodeEvent(old);
  bytes[1] = 1;
  expect(decodeEvent("ChainCheckpointed", bytes)).toMatchObject({ reverts: [], orphaned: [] });
});

test("a block whose header is kept no longer has left the chain if a reorganisation went below it since", async () => {
  const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
  const stream = chainStream(1);
  const steps = Array.from({ length: 12 }, (_, at) => advanced(101 + at * 1_000, 1_100 + at * 1_000));
  await log.append({ stream, events: [...began, ...steps], expectedVersion: 0 });
  const view = new PublishedChain(log, 1, async () => undefined);
  await view.load();
  const shownAt = view.version;
  const gone = [2_001, 2_002, 2_003].find((number) => view.header(number) === undefined) as number;
  const block = { number: gone, hash: headerOf(gone).hash };
  expect(view.isCanonical(block, shownAt)).toBe(true);
  const ancestor = [...Array(1_000).keys()].map((at) => view.header(1_000 + at)).find((header) => header !== undefined);
  const reverted: ChainEvent = { type: "ChainReverted", ancestor: ancestor as never, orphaned: [] };
  await log.append({ stream, events: [reverted], expectedVersion: shownAt });
  await view.catchUp(shownAt + 1);
  expect([view.isCanonical(block, shownAt), view.isCanonical(block)]).toEqual([false, false]);
  // Below the common ancestor, and for a walk that began after the reorganisation, it is as before.
  expect(view.isCanonical({ number: 150, hash: headerOf(150).hash }, shownAt)).toBe(true);
  expect(view.isCanonical(block, shownAt + 1)).toBe(true);
  await log.close();
});
