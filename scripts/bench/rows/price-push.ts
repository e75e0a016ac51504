/** From a node's announcement of a block to the `price` of one subscriber, and of the last of a thousand. */
import { TEST_KEY } from "../../../test/support/service.ts";
import { contractArtifact } from "../../local-chain/compile.ts";
import { deploy } from "../../local-chain/contracts.ts";
import { MAINNET } from "../../local-chain/mainnet.ts";
import { createV2Pair } from "../../local-chain/pools.ts";
import { runChild } from "../children.ts";
import { percentile } from "../load.ts";
import { startMarket } from "../market.ts";
import type { AnnouncedInput } from "../parts/announced.ts";
import { type Bench, spread } from "../row.ts";
import { startBenchService, temporaryFolder } from "../service.ts";

const MAX_P50 = 15;
const MANY = 1_000;
const PAUSE_MS = 400;
const BLOCKS = { quick: 10, standard: 100, full: 100 } as const;
const ETHER = 10n ** 18n;
/** Place of the reserves in a pair's storage (v2-core, UniswapV2Pair). */
const RESERVES_SLOT = `0x${"8".padStart(64, "0")}`;

async function measure(blocks: number, sockets: number): Promise<number[]> {
  const { anvil } = await startMarket();
  const folder = temporaryFolder();
  try {
    const { address: token } = await deploy(anvil, await contractArtifact("TestToken"), ["Moving", "MOV", 18]);
    const amounts = { tokenA: MAINNET.weth, amountA: 1_000n * ETHER, tokenB: token, amountB: 1_000n * ETHER };
    const pair = await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts });
    const word = (await anvil.send("eth_getStorageAt", [pair.address, RESERVES_SLOT, "latest"])) as string;
    // The lower digits of a reserve change by a little each block.
    const reserves = `${word.slice(0, 48)}{short}${word.slice(56)}`;
    const service = await startBenchService({ rpcUrl: anvil.wsUrl, logUrl: folder.logUrl });
    try {
      const input: AnnouncedInput = {
        ...{ nodeUrl: anvil.wsUrl, port: service.port, key: TEST_KEY, sockets, blocks, pauseMs: PAUSE_MS },
        ...{ subscribe: { action: "subscribe", chain: "eth", token }, ready: "price", told: "price" },
        calls: [
          ["anvil_setStorageAt", [pair.address, RESERVES_SLOT, reserves]],
          ["evm_mine", []],
        ],
      };
      return await runChild<number[]>({ script: "parts/announced.ts", args: [JSON.stringify(input)] });
    } finally {
      await service.stop();
    }
  } finally {
    await anvil.stop();
    folder.remove();
  }
}

export const pricePush: Bench = {
  name: "price-push",
  measure: async ({ name }) => {
    const one = await measure(BLOCKS[name], 1);
    const many = await measure(BLOCKS[name], MANY);
    const ms = (value: number): string => `${value.toFixed(1)} ms`;
    const p50 = percentile(one, 50);
    return {
      name: "From a node's announcement of a block to a subscriber's `price`",
      floor: "–",
      ours: `p50 ${ms(p50)}, p99 ${ms(percentile(one, 99))}`,
      ratio: undefined,
      reach: `p50 <= ${MAX_P50} ms`,
      passed: p50 <= MAX_P50,
      detail:
        `${one.length} blocks, two a second, log in SQLite; the last of ${MANY} subscribers in one client process: ` +
        `${spread(many, ms)}, p99 ${ms(percentile(many, 99))}`,
    };
  },
};
