/** Which block is final, over a real node that is taken for a development node. */
import { expect, test } from "bun:test";
import { startAnvil } from "../../scripts/local-chain/anvil.ts";
import { systemClock } from "../../src/core/clock.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import { Finality } from "../../src/rpc/headers.ts";
import type { Endpoint } from "../../src/rpc/port.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";

test("asks a node what it is once, however many looks begin at once, and again where it did not answer", async () => {
  const anvil = await startAnvil();
  await anvil.mine(9);
  let [asked, headers] = [0, 0];
  const looked = Promise.withResolvers<void>();
  const endpoint: Endpoint = {
    label: "eth#1",
    request: async (method, params) => {
      if (method !== "web3_clientVersion") {
        const header = await anvil.send(method, params[0] === "finalized" ? ["latest", false] : params);
        // Two of each look, of which the first fails.
        if (++headers === 6) looked.resolve();
        return header;
      }
      if (++asked === 1) throw new RpcError("transient", "the node is busy");
      await looked.promise;
      // Both looks have their headers, and come to ask in these turns of the event loop.
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
      return "HardhatNetwork/3.18.0";
    },
    transfers: () => Promise.reject(new Error("not asked")),
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
