/** How far a backfill reads ahead of the append when a history turns out denser than expected. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import type { TransfersCommitted } from "../../../src/events/types.ts";
import { backfill } from "../../../src/nft/indexing/backfill.ts";
import { EndpointPool } from "../../../src/rpc/endpoint/endpoint-pool.ts";
import type { Endpoint } from "../../../src/rpc/port.ts";
import { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { RpcError } from "../../../src/rpc/rpc-errors.ts";

const ADDRESS = `0x${"a".repeat(40)}` as Address;
/** First block with logs, after a long empty stretch in which ranges grow to millions of blocks, and the last block. */
const [FIRST, FINAL] = [15_000_000, 15_400_000];
/** Maximum number of blocks with logs in one answer. */
const MOST = 1_000;

const hex = (value: number) => `0x${value.toString(16)}`;
const hashOf = (number: number) => `0x${number.toString(16).padStart(64, "0")}` as Hash;
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A node that limits only the number of logs in an answer. It counts its answers that contain logs. */
class Node implements Endpoint {
  readonly label = "eth#1";
  underWay = 0;
  mostUnderWay = 0;
  dense = 0;

  async request(_method: string, [tag]: unknown[]): Promise<unknown> {
    const number = Number(tag);
    return { number: hex(number), hash: hashOf(number), parentHash: hashOf(number - 1), timestamp: hex(number) };
  }

  async transfers({ fromBlock, toBlock }: { fromBlock: number; toBlock: number }) {
    this.underWay++;
    if (this.dense > 0) this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
    await turn();
    this.underWay--;
    const blocks = toBlock - Math.max(fromBlock, FIRST) + 1;
    if (blocks > MOST) throw new RpcError("range", "query returned more than 10000 results");
    const logs = Math.max(0, blocks) * 10;
    if (logs > 0) this.dense++;
    const transfers = new Uint8Array(0);
    return { transfers, count: logs, malformed: 0, logs, lastBlock: undefined, lastHash: undefined };
  }

  destroy(): void {}
}

test("keeps only a few ranges until they are appended, and reads those concurrently", async () => {
  const node = new Node();
  const pool = new EndpointPool({ chain: "eth", endpoints: [node], clock: systemClock });
  const reader = new RpcChainReader({ chainId: 1, pool, multicall: ADDRESS, finalityDepth: 5, depthIsSet: true });
  const history = backfill({
    reader,
    clock: systemClock,
    verify: "sample",
    address: ADDRESS,
    forms: ["erc721"],
    fromBlock: 0,
    final: { number: FINAL, hash: hashOf(FINAL) },
    signal: new AbortController().signal,
    onMalformed: () => undefined,
  });
  const events: TransfersCommitted[] = [];
  let [taken, most] = [0, 0];
  for await (const some of history) {
    events.push(...some);
    taken += some.filter(({ count }) => count > 0).length;
    if (taken === 0) continue;
    // A slow append: it waits until the node has no more calls in flight.
    for (let idle = 0; idle < 20; idle++) {
      await turn();
      if (node.underWay > 0) idle = 0;
    }
    most = Math.max(most, node.dense - taken);
  }
  expect(most).toBeLessThan(20);
  expect(node.mostUnderWay).toBeGreaterThanOrEqual(8);
  let next = 0;
  for (const { fromBlock, toBlock } of events) {
    expect(fromBlock).toBe(next);
    next = toBlock + 1;
  }
  expect([next, taken]).toEqual([FINAL + 1, node.dense]);
});
