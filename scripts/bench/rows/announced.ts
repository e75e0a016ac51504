/** From a node's announcement of a block to a subscriber's `transfers`, with pages showing the block. */
import { startPostgres } from "../../../test/support/postgres.ts";
import { TEST_KEY } from "../../../test/support/service.ts";
import { startAnvil } from "../../local-chain/anvil.ts";
import { contractArtifact } from "../../local-chain/compile.ts";
import { deploy, transact } from "../../local-chain/contracts.ts";
import { runChild } from "../children.ts";
import { percentile } from "../load.ts";
import type { AnnouncedInput } from "../parts/announced.ts";
import { type Bench, spread } from "../row.ts";
import { startBenchService, temporaryFolder } from "../service.ts";

const [MAX_P50, MAX_P99] = [15, 60];
/** Blocks per turn, and ms between them: about one block per second. */
const PAUSE_MS = 900;
const BLOCKS = { quick: 10, standard: 100, full: 100 } as const;

async function measure(logUrl: string, blocks: number): Promise<number[]> {
  const anvil = await startAnvil();
  try {
    const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Announced", "ANN"]);
    await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
    await anvil.mine(70);
    const service = await startBenchService({ rpcUrl: anvil.wsUrl, logUrl });
    try {
      const from = anvil.accounts[0] as string;
      // mint(address,uint256): the node mines it at once.
      const data = `0x40c10f19${from.slice(2).padStart(64, "0")}{id}`;
      const input: AnnouncedInput = {
        ...{ nodeUrl: anvil.wsUrl, port: service.port, key: TEST_KEY, sockets: 1, blocks, pauseMs: PAUSE_MS },
        ...{ subscribe: { action: "subscribe", address: nft.address }, ready: "indexed", told: "transfers" },
        calls: [["eth_sendTransaction", [{ from, to: nft.address, data, gas: "0x7a120", gasPrice: "0x0" }]]],
      };
      return await runChild<number[]>({ script: "parts/announced.ts", args: [JSON.stringify(input)] });
    } finally {
      await service.stop();
    }
  } finally {
    await anvil.stop();
  }
}

export const announced: Bench = {
  name: "announced",
  measure: async ({ name }) => {
    const blocks = BLOCKS[name];
    const folder = temporaryFolder();
    const cluster = await startPostgres({ durable: true });
    try {
      const sqlite = await measure(folder.logUrl, blocks);
      const postgres = await measure(await cluster.createDatabase(), blocks);
      const [p50, p99] = [percentile(sqlite, 50), percentile(sqlite, 99)];
      const ms = (value: number) => `${value.toFixed(1)} ms`;
      return {
        name: "From a node's announcement of a block to a subscriber of ours",
        floor: "–",
        ours: `p50 ${ms(p50)}, p99 ${ms(p99)}`,
        ratio: undefined,
        reach: `p50 <= ${MAX_P50} ms, p99 <= ${MAX_P99} ms`,
        passed: p50 <= MAX_P50 && p99 <= MAX_P99,
        detail:
          `${blocks} blocks, about one a second, of a node over ws on this machine, log in SQLite: ${spread(sqlite, ms)}; ` +
          `in PostgreSQL: ${spread(postgres, ms)}, p99 ${ms(percentile(postgres, 99))}`,
      };
    } finally {
      await cluster.stop();
      folder.remove();
    }
  },
};
