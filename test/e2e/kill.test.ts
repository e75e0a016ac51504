/**
 * SIGKILL during a backfill, with appends in flight. The next start continues where the log ends, and the final listing
 * equals the contract's state. This process watches the log: no version that it saw may be missing or changed later.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { startServiceProcess } from "../support/process.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const BLOCKS = 150;
const KILLS = 2;

describe("a service killed during a backfill", () => {
  let anvil: Anvil;
  let nft: Deployed;
  let proxy: RpcProxy;

  beforeAll(async () => {
    anvil = await startAnvil({ slotsInAnEpoch: 1 });
    nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Killed", "KILL"]);
    for (let block = 0; block < BLOCKS; block++) {
      await inOneBlock(anvil, async () => {
        const to = anvil.accounts[block % 8] as string;
        await queue(anvil, nft.contract, "mintMany", [to, BigInt(block * 10), 10n]);
      });
    }
    // Two blocks per request and one range at a time: many appends, so that kills fall between and into them.
    const refusal = { error: { code: -32_003, message: "response too large" } };
    proxy = await startRpcProxy(anvil.url, {
      maxBatch: { calls: 2, refusal },
      onRequest: ({ method, params }) => {
        if (method !== "eth_getLogs") return;
        const [{ fromBlock, toBlock }] = params as [{ fromBlock: string; toBlock: string }];
        if (Number(toBlock) - Number(fromBlock) < 2) return;
        return { error: { code: -32602, message: "query exceeds max block range 2" } };
      },
    });
  }, 300_000);
  afterAll(async () => {
    await proxy.stop();
    await anvil.stop();
  });

  const engines: [string, () => Promise<string>][] = [
    ["SQLite", async () => temporaryLogUrl()],
    ["PostgreSQL", async () => (await sharedPostgres()).createDatabase()],
  ];
  for (const [engine, freshLog] of engines) {
    test(`resumes over ${engine} without losing an acknowledged event`, async () => {
      const logUrl = await freshLog();
      const env = { EVENT_LOG_URL: logUrl, RPC_URL_ETH: proxy.url, RPC_URLS_ONLY: "true" };
      const stream = nftStream(1, nft.address as Address);
      const path = `/api/v2/nft/${nft.address}?limit=500&disable_total=false`;
      let seen: unknown[] = [];
      for (let kill = 1; kill <= KILLS; kill++) {
        const service = await startServiceProcess(env);
        const log = await openLog(logUrl, systemClock, silentLogger);
        await service.get(path);
        const wanted = seen.length + 2 + kill * 3;
        await eventually(`the log has version ${wanted}`, async () =>
          (await log.head(stream)).version >= wanted ? true : undefined,
        );
        service.kill("SIGKILL");
        await service.exited;
        const events = await log.read(stream, { limit: 10_000 });
        // Every version seen before is unchanged.
        expect(events.slice(0, seen.length)).toEqual(seen as typeof events);
        expect(events.length).toBeGreaterThanOrEqual(wanted);
        seen = events;
        await log.close();
      }
      const service = await startServiceProcess(env);
      const records: { token_id: string; owner_of: string }[] = [];
      for (let cursor = ""; ; ) {
        const page = await eventually("the listing is complete", async () => {
          const response = await service.get(cursor === "" ? path : `${path}&cursor=${encodeURIComponent(cursor)}`);
          const body = (await response.json()) as {
            status: string;
            cursor: string | null;
            result: typeof records;
          };
          return body.status === "SYNCED" ? body : undefined;
        });
        records.push(...page.result);
        if (page.cursor === null) break;
        cursor = page.cursor;
      }
      expect(records.map((record) => record.token_id)).toEqual(
        Array.from({ length: BLOCKS * 10 }, (_, i) => String(i)),
      );
      for (let id = 0; id < BLOCKS * 10; id += 7) {
        const owner: string = await nft.contract.getFunction("ownerOf")(id);
        expect(records[id]?.owner_of).toBe(owner.toLowerCase());
      }
      service.kill("SIGTERM");
      expect(await service.exited).toBe(0);
    }, 60_000);
  }
});
