/** A backfill from an endpoint that leaves a losing branch while it answers: no log of that branch is kept. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import { backfill } from "../../../src/nft/indexing/backfill.ts";
import { EndpointPool } from "../../../src/rpc/endpoint/endpoint-pool.ts";
import type { DecodedRange, Endpoint } from "../../../src/rpc/port.ts";
import { RpcChainReader } from "../../../src/rpc/reading/reader.ts";

const FINAL = 9;
const hex = (value: number) => `0x${value.toString(16)}`;
const hashOf = (number: number, branch: number) => `0x${branch}${number.toString(16).padStart(63, "0")}` as Hash;

/** An endpoint on the losing branch until it is asked for the final block. */
function leaving(): Endpoint {
  let branch = 1;
  const logsOf = (at: number): DecodedRange => ({
    transfers: new Uint8Array([at]),
    count: 1,
    malformed: 0,
    logs: 1,
    lastBlock: 4,
    lastHash: hashOf(4, at),
  });
  return {
    label: "eth#1",
    request: async (_method, [tag]) => {
      const number = Number(tag);
      if (number === FINAL) branch = 0;
      return {
        number: hex(number),
        hash: hashOf(number, branch),
        parentHash: hashOf(number - 1, branch),
        timestamp: hex(number * 12),
        logsBloom: `0x${"0".repeat(512)}`,
      };
    },
    transfers: async () => logsOf(branch),
    destroy: () => undefined,
  };
}

test("discards logs that an endpoint gave before it showed the final block", async () => {
  const pool = new EndpointPool({ chain: "eth", endpoints: [leaving()], clock: systemClock });
  const multicall = `0x${"c".repeat(40)}` as Address;
  const reader = new RpcChainReader({ chainId: 1, pool, multicall, finalityDepth: 5, depthIsSet: true });
  const events = [];
  const history = backfill({
    reader,
    clock: systemClock,
    verify: "sample",
    address: `0x${"a".repeat(40)}` as Address,
    forms: ["erc721"],
    fromBlock: 0,
    final: { number: FINAL, hash: hashOf(FINAL, 0) },
    signal: new AbortController().signal,
    onMalformed: () => undefined,
  });
  for await (const some of history) events.push(...some);
  expect(events.map(({ toHash, transfers }) => [toHash, [...transfers]])).toEqual([[hashOf(FINAL, 0), [0]]]);
});
