/** The choice of the final block, over a real node that is recognised as a development node. */
import { expect, test } from "bun:test";
import { startAnvil } from "../../scripts/local-chain/anvil.ts";
import { systemClock } from "../../src/core/clock.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { Endpoint } from "../../src/rpc/port.ts";
import { Finality } from "../../src/rpc/reading/headers.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";

test("asks a node for its client version once for concurrent polls, and again if it did not answer", async () => {
  const anvil = await startAnvil();
  await anvil.mine(9);
  let [asked, headers] = [0, 0];
  const looked = Promise.withResolvers<void>();
  const endpoint: Endpoint = {
    label: "eth#1",
    request: async (method, params) => {
      if (method !== "web3_clientVersion") {
        const header = await anvil.send(method, params[0] === "finalized" ? ["latest", false] : params);
        // Two headers for each of three polls. The first poll fails.
        if (++headers === 6) looked.resolve();
        return header;
      }
      if (++asked === 1) throw new RpcError("transient", "the node is busy");
      await looked.promise;
      // Both polls have their headers by now, and ask for the version in these turns of the event loop.
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
      return "HardhatNetwork/3.18.0";
    },
    transfers: () => Promise.reject(new Error("this endpoint is never called for transfers")),
    destroy: () => undefined,
  };
  const pool = new EndpointPool({ chain: "eth", endpoints: [endpoint], clock: systemClock });
  const said: unknown[] = [];
  const finality = new Finality(pool, {
    finalityDepth: 4,
    depthIsSet: false,
    onDevelopmentNode: (...facts) => said.push(facts),
  });
  await expect(finality.tips()).rejects.toMatchObject({ message: "the node is busy" });
  const [a, b] = await Promise.all([finality.tips(), finality.tips()]);
  expect([a.head.number, a.finalized.number, b.finalized.number]).toEqual([9, 5, 5]);
  expect([asked, said]).toEqual([2, [["eth#1", "HardhatNetwork", 4]]]);
  await anvil.stop();
});
