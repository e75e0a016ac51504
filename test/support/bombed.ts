/**
 * A process that asks a hostile server a few times, as the service would, and prints by how much its memory grew and what
 * came of it. Arguments: the client (`archive`, `endpoint`, `metadata`), the URL, and the most bytes of an answer.
 */
import { existsSync, readFileSync } from "node:fs";
import { systemClock } from "../../src/core/clock.ts";
import { messageOf } from "../../src/core/errors.ts";
import type { Address } from "../../src/core/hex.ts";
import { Fetcher } from "../../src/nft/metadata/resolve/fetcher.ts";
import { systemWire } from "../../src/nft/metadata/resolve/wire.ts";
import { Portal } from "../../src/rpc/archive/portal.ts";
import { DecodePool } from "../../src/rpc/decode/decode-pool.ts";
import { createTransport } from "../../src/rpc/endpoint/transport.ts";

const [client = "", url = "", most = "0"] = process.argv.slice(2);
const maxBytes = Number(most);
const { signal } = new AbortController();

/** What came, in words: the error's if it failed. */
const CLIENTS: Readonly<Record<string, () => Promise<string>>> = {
  archive: async () => {
    const decoder = new DecodePool(2);
    const portal = new Portal({ url, label: "archive eth#1", per10s: 1_000, clock: systemClock, decoder });
    const filter = { address: `0x${"ab".repeat(20)}` as Address, forms: [], fromBlock: 1, toBlock: 1_000 };
    try {
      for await (const part of portal.transfers(filter, signal)) return `a part up to ${part.toBlock}`;
      return "no part";
    } finally {
      decoder.close();
    }
  },
  endpoint: async () => {
    const transport = createTransport({ url, label: "eth#1", timeoutMs: 30_000, maxBytes, clock: systemClock });
    const payload = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_blockNumber", params: [] });
    try {
      return `${(await transport.send(payload, [1])).length} bytes`;
    } finally {
      transport.close();
    }
  },
  metadata: async () => {
    const gateways = { ipfs: [], arweave: [] };
    const fetcher = new Fetcher({ wire: systemWire, clock: systemClock, allowPrivate: true, gateways });
    const { bytes } = await fetcher.fetch(url, { maxBytes, firstByteMs: 30_000, totalMs: 30_000 }, signal);
    return `${bytes.length} bytes`;
  },
};

/** The most memory that the process had. Linux counts the parent's as well in `maxRSS`, but not in its own file. */
function peakMb(): number {
  const status = "/proc/self/status";
  if (!existsSync(status)) return process.resourceUsage().maxRSS / 1_024;
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(status, "utf8"))?.[1]) / 1_024;
}

const before = peakMb();
let outcome = "";
// What one request leaves behind shows during the next ones.
for (let asked = 0; asked < 3; asked++) {
  outcome = await (CLIENTS[client] as () => Promise<string>)().catch((error: unknown) => messageOf(error));
}
process.stdout.write(JSON.stringify({ grownMb: Math.round(peakMb() - before), outcome }));
process.exit(0);
