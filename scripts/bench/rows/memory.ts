/** Memory of hot collections, and size of the log on disk. */
import { statSync } from "node:fs";
import { startChain } from "../chain/start.ts";
import { runChild } from "../children.ts";
import { FILLED_ADDRESS, filledLog } from "../filled-log.ts";
import { checkpoint } from "../log-facts.ts";
import { residentBytes } from "../machine.ts";
import type { MemoryResult } from "../parts/memory.ts";
import { type Bench, grouped, type Row, type Scale } from "../row.ts";
import { NO_NODE, startBenchService, temporaryFolder } from "../service.ts";
import { backfillOnce, denseCollection } from "./backfill.ts";

const MAX_PER_TOKEN = 64;
const MAX_PER_TRANSFER = { erc721: 20, erc1155: 40 } as const;
const MAX_ON_DISK = 40;
const MAX_SERVED_BYTES = 2 ** 30;
/** Mints alone make no history, and more moves would measure the history instead of the NFTs. */
const SERVED_MOVES = 0.1;

const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(0)} MiB`;

async function memoryRow(standard: keyof typeof MAX_PER_TRANSFER, { tokens }: Scale): Promise<Row> {
  const result = await runChild<MemoryResult>({ script: "parts/memory.ts", args: [standard, String(tokens)] });
  const perToken = (result.allBytes - result.historyBytes) / result.tokens;
  const perTransfer = result.historyBytes / result.transfers;
  const most = MAX_PER_TRANSFER[standard];
  return {
    name: `Memory of a hot collection, ${standard === "erc721" ? "ERC-721" : "ERC-1155"}`,
    floor: "–",
    ours: `${perToken.toFixed(1)} bytes an NFT, ${perTransfer.toFixed(1)} bytes a transfer`,
    ratio: undefined,
    reach: `<= ${MAX_PER_TOKEN} an NFT, <= ${most} a transfer`,
    passed: perToken <= MAX_PER_TOKEN && perTransfer <= most,
    detail:
      `${grouped(result.tokens)} NFTs with their index, addresses and gaps, ${grouped(result.transfers)} transfers: ` +
      `${mib(result.allBytes)}; the process grew by ${mib(result.grownBytes)}`,
  };
}

export const memory721: Bench = { name: "memory-721", measure: (scale) => memoryRow("erc721", scale) };
export const memory1155: Bench = { name: "memory-1155", measure: (scale) => memoryRow("erc1155", scale) };

export const memoryServed: Bench = {
  name: "memory-served",
  measure: async ({ largestTokens: tokens }) => {
    const filled = await filledLog({ tokens, moves: SERVED_MOVES });
    await filled.close();
    try {
      const service = await startBenchService({ rpcUrl: NO_NODE, logUrl: filled.url });
      const empty = residentBytes(service.pid);
      const started = performance.now();
      let [records, most] = [0, 0];
      for (const query of ["", "?totalRanges=10&range=5", "?totalRanges=10&range=9", "?disable_total=false"]) {
        const answer = await service.get(`/api/v2/nft/${FILLED_ADDRESS}${query}`);
        const { result } = (await answer.json()) as { result: unknown[] };
        records += result.length;
        most = Math.max(most, residentBytes(service.pid));
      }
      const seconds = (performance.now() - started) / 1_000;
      await service.stop();
      return {
        name: `Memory of the service with ${grouped(tokens)} NFTs of one collection hot`,
        floor: "–",
        ours: mib(most),
        ratio: undefined,
        reach: `<= ${mib(MAX_SERVED_BYTES)}`,
        passed: most <= MAX_SERVED_BYTES && records === 400,
        detail: `${mib(empty)} before it was asked; four pages and the hydration in ${seconds.toFixed(1)} s`,
      };
    } finally {
      filled.remove();
    }
  },
};

export const disk: Bench = {
  name: "disk",
  measure: async ({ transfers }) => {
    const chain = await startChain({ collections: [denseCollection(transfers)] });
    const folder = temporaryFolder();
    try {
      await backfillOnce(chain, { logUrl: folder.logUrl });
      await checkpoint(folder.logUrl);
      const perTransfer = statSync(`${folder.path}/events.db`).size / transfers;
      return {
        name: "Log on disk",
        floor: "–",
        ours: `${perTransfer.toFixed(1)} bytes a transfer`,
        ratio: undefined,
        reach: `<= ${MAX_ON_DISK}`,
        passed: perTransfer <= MAX_ON_DISK,
        detail: `the whole file after a backfill of ${grouped(transfers)} transfers among a few busy holders`,
      };
    } finally {
      await chain.stop();
      folder.remove();
    }
  },
};
