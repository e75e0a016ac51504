/** A chain that has no block of some numbers, as Filecoin's null rounds. It is refused, and the reason is told. */
import { afterAll, expect, test } from "bun:test";
import { runCli } from "../support/cli.ts";
import { startLongChain } from "../support/long-chain.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";
const stops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
});

async function begin() {
  const node = await startLongChain(400, 350);
  stops.push(() => node.stop());
  node.transfers = [{ block: 100, id: 1, from: 0, to: 1 }];
  const serve = async () => {
    const service = await startTestService({
      ...{ rpcUrl: node.url, logUrl: temporaryLogUrl() },
      env: { OPERATOR_KEYS: OPERATOR },
    });
    stops.unshift(() => service.stop());
    return service;
  };
  return { node, serve };
}

const chainOf = async (service: TestService) =>
  (await service.get("/api/status", { "x-api-key": OPERATOR })).body.chains[0];

/** Awaits the state in which the chain says why it is not followed. */
async function refused(service: TestService, child: number): Promise<void> {
  const chain = await eventually("the reason is told", async () => {
    const found = await chainOf(service);
    return found?.state === "unreachable" ? found : undefined;
  });
  expect(chain.endpoints[0].reason).toContain(`the parent of block ${child} is block ${child - 2}`);
  expect(chain.endpoints[0].reason).toContain("null rounds");
}

for (const dialect of ["null", "an error"]) {
  test(`a node that gives ${dialect} for a number without a block is refused at the start`, async () => {
    const { node, serve } = await begin();
    node.skips = (number) => number === 380;
    node.instead = ({ method, params }) => {
      const isSkipped = method === "eth_getBlockByNumber" && Number(params?.[0]) === 380;
      const error = { code: -32_000, message: "requested epoch was a null round (380)" };
      return isSkipped && dialect === "an error" ? { error } : undefined;
    };
    const service = await serve();
    await service.get(`/api/v2/nft/${node.contract}`);
    await refused(service, 381);
    const { status, body } = await service.get(`/api/v2/nft/0x${"12".repeat(20)}`);
    expect([status, body.code]).toEqual([503, "chain_unavailable"]);
  });
}

test("a chain whose first number without a block comes later is refused there", async () => {
  const { node, serve } = await begin();
  const service = await serve();
  await synced(service, node.contract, node.head);
  node.skips = (number) => number === 402;
  node.head = 401;
  await synced(service, node.contract, node.head);
  node.head = 403;
  await refused(service, 403);
});

test("a backend that lacks a block, or is on another branch, is not taken for such a chain", async () => {
  const { node, serve } = await begin();
  let lacking = 0;
  // Half of the time the newest hundred blocks are missing, or others.
  node.instead = ({ method, params }, answer) => {
    const isNew = method === "eth_getBlockByNumber" && Number(params?.[0]) > 390;
    if (!isNew || ++lacking > 200 || lacking % 2 === 0 || !("result" in answer)) return undefined;
    return lacking % 4 === 1
      ? { result: null }
      : { result: { ...(answer.result as object), hash: `0x${"e".repeat(64)}`, parentHash: `0x${"d".repeat(64)}` } };
  };
  const service = await serve();
  await synced(service, node.contract);
  node.head += 2;
  await synced(service, node.contract, node.head);
  expect((await chainOf(service)).state).toBe("following");
});

test("doctor names the numbers without a block", async () => {
  const { node } = await begin();
  node.skips = (number) => number === 395;
  const { out } = await runCli(["doctor"], {
    RPC_URL_ETH: node.url,
    RPC_URLS_ONLY: "true",
    EVENT_LOG_URL: temporaryLogUrl(),
  });
  expect(out).toContain("the parent of block 396 is block 394");
});
