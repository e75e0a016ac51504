/** Nodes that tell the times of blocks in other units than seconds, or as no time at all. No answer is a 500 for it. */
import { afterAll, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { type LongChain, startLongChain } from "../support/long-chain.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";
const HEAD = 300;
const TIME = 1_700_000_000;
const UNITS = { seconds: 1n, milliseconds: 1_000n, microseconds: 1_000_000n, nanoseconds: 1_000_000_000n };
const ISO = new Date(TIME * 1_000).toISOString();

const stops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
});

/** A node whose blocks all have this time on the wire. */
async function nodeOfTime(time: string): Promise<LongChain> {
  const node = await startLongChain(HEAD, 200);
  stops.push(() => node.stop());
  node.transfers = [
    { block: 100, id: 1, from: 0, to: 1 },
    { block: HEAD, id: 2, from: 0, to: 2 },
  ];
  node.instead = ({ method }, answer) => {
    if (method !== "eth_getBlockByNumber" || !("result" in answer) || answer.result === null) return undefined;
    return { result: { ...(answer.result as object), timestamp: time } };
  };
  return node;
}

async function serve(node: LongChain, logUrl = temporaryLogUrl()): Promise<TestService> {
  const service = await startTestService({ rpcUrl: node.url, logUrl, env: { OPERATOR_KEYS: OPERATOR } });
  stops.unshift(() => service.stop());
  return service;
}

const operator = (service: TestService, path: string) => service.get(path, { "x-api-key": OPERATOR });

/** Asserts the block's time on all routes that tell it. */
async function expectTime(service: TestService, { contract }: LongChain): Promise<void> {
  const page = await synced(service, contract, HEAD);
  expect(page.headers.get("x-as-of-time")).toBe(ISO);
  const parts = `/api/collections/eth/${contract}`;
  for (const route of [`${parts}/holders`, `${parts}/tokens`, `${parts}/tokens/1`, `${parts}/transfers`]) {
    const { status, headers } = await service.get(route);
    expect([route, status, headers.get("x-as-of-time")]).toEqual([route, 200, ISO]);
  }
  const transfers = (await service.get(`${parts}/transfers?times=true`)).body.result;
  expect(transfers.map(({ time }: { time: string }) => time)).toEqual([ISO, ISO]);
  const { status, body } = await operator(service, "/api/status");
  expect([status, body.chains[0].head.time]).toEqual([200, ISO]);
  expect((await service.get(`/api/v2/nft/${contract}?as_of_block=150`)).status).toBe(200);
}

for (const [unit, factor] of Object.entries(UNITS)) {
  test(`times in ${unit} are read as what they are`, async () => {
    const node = await nodeOfTime(`0x${(BigInt(TIME) * factor).toString(16)}`);
    await expectTime(await serve(node), node);
  });
}

test("times in milliseconds that an older release recorded are shown as what they are", async () => {
  const node = await nodeOfTime(`0x${TIME.toString(16)}`);
  const logUrl = temporaryLogUrl();
  const log = await openLog(logUrl, systemClock, silentLogger);
  const block = (number: number) => ({
    ...{ number, hash: node.hash(number), parentHash: node.hash(number - 1), timestamp: TIME * 1_000 },
  });
  const headers = Array.from({ length: HEAD - 199 }, (_, at) => block(200 + at));
  const { number, hash } = block(200);
  await log.append({
    stream: chainStream(1),
    expectedVersion: 0,
    events: [
      { type: "HeadAdvanced", fromBlock: 200, headers },
      { type: "ChainFinalized", block: { number, hash } },
    ],
  });
  await log.close();
  await expectTime(await serve(node, logUrl), node);
});

test("a header without a possible time is an endpoint's fault, and a sound endpoint is asked", async () => {
  for (const time of ["-1", "0x", "1.5", "0x-1", `0x${"f".repeat(20)}`, `0x${(10n ** 20n).toString(16)}`]) {
    const bad = await nodeOfTime(time);
    const sound = await nodeOfTime(`0x${TIME.toString(16)}`);
    const service = await startTestService({
      ...{ rpcUrl: `${bad.url},${sound.url}`, logUrl: temporaryLogUrl() },
      env: { OPERATOR_KEYS: OPERATOR },
    });
    await expectTime(service, sound);
    await eventually("the fault of the endpoint is told", async () => {
      const [{ reason }] = (await operator(service, "/api/status")).body.chains[0].endpoints;
      return String(reason).includes("header") || undefined;
    });
    await service.stop();
  }
}, 300_000);

test("a chain whose only node has no possible time says so, and answers without a 500", async () => {
  const node = await nodeOfTime(`0x${"f".repeat(20)}`);
  const service = await serve(node);
  const { status } = await service.get(`/api/v2/nft/${node.contract}`);
  expect([200, 503]).toContain(status);
  const reason = await eventually("the reason is told", async () => {
    const { body } = await operator(service, "/api/status");
    return body.chains[0]?.endpoints[0]?.reason ?? undefined;
  });
  expect(reason).toContain("header");
});
