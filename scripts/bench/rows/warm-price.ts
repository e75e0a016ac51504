/** A warm price, repeatedly, of a token that trades against the wrapped native coin. */
import { startMarket } from "../market.ts";
import type { Bench } from "../row.ts";
import { startBenchService, temporaryFolder } from "../service.ts";
import { warmRow } from "../warm.ts";

const CONNECTIONS = 32;

export const warmPrice: Bench = {
  name: "price",
  measure: async (scale) => {
    const { anvil, market } = await startMarket();
    const folder = temporaryFolder();
    try {
      const service = await startBenchService({ rpcUrl: anvil.url, logUrl: folder.logUrl });
      const path = `/api/v2/erc20/${market.demo.address.toLowerCase()}/price`;
      const first = await service.get(path);
      if (first.status !== 200) throw new Error(await first.text());
      const row = await warmRow(service, { name: "Warm price", path, connections: CONNECTIONS, reach: 0.75 }, scale);
      await service.stop();
      return row;
    } finally {
      await anvil.stop();
      folder.remove();
    }
  },
};
