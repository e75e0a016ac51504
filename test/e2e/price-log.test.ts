/** Prices survive in the log: a service that starts again, and whose node is gone, gives what was given before. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { type Answer, type Body, eventually, startTestService, temporaryLogUrl } from "../support/service.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

let anvil: Anvil;
let market: Market;
beforeAll(async () => {
  anvil = await startAnvil();
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
});
afterAll(() => anvil?.stop());

test("a service without a node answers what the log has, and says that it is stale", async () => {
  const logUrl = temporaryLogUrl();
  const path = `/api/v2/erc20/${market.demo.address}/price`;
  const given = new Map<string, Body>();
  const first = await startTestService({ rpcUrl: anvil.url, logUrl });
  let newest: Answer | undefined;
  for (let round = 0; round < 5; round++) {
    await anvil.mine(1);
    const head = Number(await anvil.send("eth_blockNumber"));
    newest = await eventually("the price is that of the newest block", async () => {
      const answer = await first.get(path);
      return answer.body.toBlock === String(head) ? answer : undefined;
    });
    // The price counts once its block is shown.
    await eventually("the price is stored", async () => {
      const { body } = await first.get(`/api/prices/eth/${market.demo.address}/series?from=${head}&stored=true`);
      return body.result?.length === 1 ? true : undefined;
    });
    given.set(String(head), newest.body);
  }
  await first.stop();
  const proxy = await startRpcProxy(anvil.url, { onRequest: () => ({ drop: true }) });
  const again = await startTestService({ rpcUrl: proxy.url, logUrl });
  try {
    for (const [block, body] of given) {
      const answer = await again.get(`${path}?to_block=${block}`);
      expect([answer.status, answer.body]).toEqual([200, body]);
      expect(answer.headers.get("x-as-of-block")).toBe(block);
    }
    const stale = await again.get(path);
    expect([stale.status, stale.body]).toEqual([200, newest!.body]);
    expect(stale.headers.get("x-finality")).toBe("stale");
    const tokens = [{ token_address: market.demo.address }, { token_address: `0x${"12".repeat(20)}` }];
    const batch = await again.fetch("/api/v2/erc20/prices?include=errors", {
      ...{ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ tokens }) },
    });
    const [known, other] = (await batch.json()) as Body[];
    expect([batch.status, batch.headers.get("x-finality"), known]).toEqual([200, "stale", newest!.body]);
    expect(other.code).toBe("chain_unavailable");
    const unread = await again.get(`${path}?to_block=1`);
    expect([unread.status, unread.body.code]).toEqual([503, "chain_unavailable"]);
    const first = Math.min(...[...given.keys()].map(Number));
    const { body } = await again.get(
      `/api/prices/eth/${market.demo.address}/series?from=${first}&points=200&stored=true`,
    );
    expect(body.result.map(({ usdPrice }: Body) => usdPrice)).toEqual(
      [...given.values()].map(({ usdPrice }) => usdPrice),
    );
  } finally {
    await again.stop();
    await proxy.stop();
  }
});
