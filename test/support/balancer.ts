/**
 * One URL in front of two nodes of a chain, one of which lags by some blocks. A seeded random number decides which node
 * gets each HTTP request. The lagging node gives no sign of it: it reports an older head, has no newer block, and its
 * logs end at its head.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRandom } from "../../scripts/local-chain/random.ts";

export interface Balancer {
  readonly url: string;
  /** HTTP requests that reached the lagging node, and all HTTP requests. */
  readonly counts: { behind: number; all: number };
  stop(): Promise<void>;
}

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params: unknown[];
}

const hex = (value: number): string => `0x${Math.max(0, value).toString(16)}`;

/** @param share of requests that reach the lagging node, 0 to 1. @param blocks by which that node lags */
export async function startBalancer(
  target: string,
  { share, blocks, seed }: { share: number; blocks: number; seed: number },
): Promise<Balancer> {
  const random = createRandom(seed);
  const counts = { behind: 0, all: 0 };
  const send = async (payload: unknown): Promise<unknown> => {
    const headers = { "content-type": "application/json" };
    return await (await fetch(target, { method: "POST", headers, body: JSON.stringify(payload) })).json();
  };
  const head = async (): Promise<number> => {
    const said = (await send({ jsonrpc: "2.0", id: 0, method: "eth_blockNumber", params: [] })) as { result: string };
    return Number(said.result);
  };
  const behind = async (calls: readonly Call[]): Promise<unknown[]> => {
    const newest = (await head()) - blocks;
    const answer = async ({ id, method, params }: Call): Promise<unknown> => {
      const own = (result: unknown) => ({ jsonrpc: "2.0", id, result });
      const asked = [...params];
      if (method === "eth_blockNumber") return own(hex(newest));
      if (method === "eth_getBlockByNumber") {
        if (asked[0] === "latest") asked[0] = hex(newest);
        else if (Number(asked[0]) > newest) return own(null);
      }
      if (method === "eth_getBlockReceipts" && Number(asked[0]) > newest) return own(null);
      if (method === "eth_getLogs") {
        const filter = asked[0] as { fromBlock?: string; toBlock?: string };
        if (Number(filter.fromBlock) > newest) return own([]);
        if (Number(filter.toBlock) > newest) asked[0] = { ...filter, toBlock: hex(newest) };
      }
      if (asked[1] === "latest") asked[1] = hex(newest);
      return { ...((await send({ jsonrpc: "2.0", id, method, params: asked })) as object), id };
    };
    return await Promise.all(calls.map(answer));
  };
  const server = createServer((request, response) => {
    const respond = async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const payload = JSON.parse(Buffer.concat(chunks).toString()) as Call | Call[];
      counts.all++;
      const isBehind = random.below(1_000) < share * 1_000;
      if (isBehind) counts.behind++;
      const calls = [payload].flat();
      const answers = isBehind ? await behind(calls) : [await send(payload)].flat();
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(Array.isArray(payload) ? answers : answers[0]));
    };
    respond().catch(() => response.destroy());
  });
  const listening = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    stop: async () => {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
    },
  };
}
