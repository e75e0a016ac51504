/** The first question of a new process with all fields: its share of the budget must not make a token seem without pools. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { startMarket } from "../../scripts/bench/market.ts";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { startTestService, temporaryLogUrl } from "../support/service.ts";

const ETHER = 10n ** 18n;
let anvil: Anvil;
const tokens: string[] = [];
beforeAll(async () => {
  ({ anvil } = await startMarket());
  for (let n = 0; n < 2; n++) {
    const { address } = await deploy(anvil, await contractArtifact("TestToken"), ["Fresh", "FRESH", 18]);
    const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: address, amountB: 1_000n * ETHER };
    await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts });
    tokens.push(address);
    await anvil.mine(150);
  }
});
afterAll(() => anvil?.stop());

// Fails today: 404 `no_pool`, whose details say that the question takes more calls than its part of the budget has.
test("has a price", async () => {
  const service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  try {
    expect((await service.get(`/api/v2/erc20/${tokens[0]}/price`)).status).toBe(200);
    const path = `/api/v2/erc20/${tokens[1]}/price?include=percent_change,provenance,pair,depth`;
    const { status, body } = await service.get(path);
    expect([status, body.details]).toEqual([200, undefined]);
  } finally {
    await service.stop();
  }
});
