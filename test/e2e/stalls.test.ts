/**
 * Work without progress is reported, in the process's log and to subscribers, with the attempted range and the
 * endpoint's message. A minute passes in a third of a second here.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import WebSocket from "ws";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { recordingLogger, WARN } from "../support/logged.ts";
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const { logger, lines } = recordingLogger("debug");
/** Runs timeouts of a minute and longer in a third of a second. */
const clock: Clock = {
  ...systemClock,
  after: (ms, callback) => systemClock.after(ms >= 60_000 ? 300 : ms, callback),
};

let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
const nfts: Deployed[] = [];
let decide: (call: RpcCall) => Intervention | undefined = () => undefined;

beforeAll(async () => {
  anvil = await startAnvil();
  for (const name of ["First", "Second", "Third"]) {
    const nft = await deploy(anvil, await contractArtifact("PlainNft"), [name, "STL"]);
    await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
    nfts.push(nft);
  }
  await anvil.send("anvil_mine", ["0x60"]);
  proxy = await startRpcProxy(anvil.url, { onRequest: (call) => decide(call) });
  service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), logger, clock });
  await synced(service, (nfts[0] as Deployed).address);
});
afterAll(async () => {
  decide = () => undefined;
  await service.stop();
  await proxy.stop();
  await anvil.stop();
});

const isAbout = (address: string, { method, params }: RpcCall): boolean =>
  method === "eth_getLogs" && JSON.stringify(params).includes(address.slice(2).toLowerCase());

/** Collects the messages about a collection as they arrive. */
function listen(address: string): Record<string, unknown>[] {
  const messages: Record<string, unknown>[] = [];
  const socket = new WebSocket(service.socketUrl, { headers: { "X-Api-Key": TEST_KEY } });
  socket.on("open", () => socket.send(JSON.stringify({ action: "subscribe", address })));
  socket.on("message", (data) => messages.push(JSON.parse(String(data))));
  return messages;
}
const reasonIn = (messages: Record<string, unknown>[]) =>
  eventually("a progress message with a reason has arrived", async () =>
    messages.find(({ type, reason }) => type === "progress" && reason !== undefined),
  );

test("reports a backfill that an endpoint keeps refusing", async () => {
  const { address } = nfts[1] as Deployed;
  decide = (call) => (isAbout(address, call) ? { status: 502, body: "gone fishing" } : undefined);
  const messages = listen(address);
  const { reason, percent } = await reasonIn(messages);
  expect(reason).toMatch(/^reading from block \d+, without progress for \d+ s; the last request failed: eth#1: .*502/);
  expect(percent).toBe(0);
  // On a busy machine the first collection may have caused a warning, too.
  const line = await eventually("a warning", async () =>
    lines.find((each) => each.msg === "indexing makes no progress" && each["address"] === address),
  );
  expect(line.level).toBe(WARN);
  expect(line["reason"]).toMatch(/^reading from block \d+, without progress .*502/);
  decide = () => undefined;
  await eventually("it is indexed", async () => messages.find(({ type }) => type === "indexed"), 40_000);
});

test("reports a follower with failing polls to subscribers of a collection that waits for it", async () => {
  const [first, , third] = nfts as [Deployed, Deployed, Deployed];
  decide = (call) => (isAbout(first.address, call) ? { error: { code: -32_000, message: "no backend" } } : undefined);
  await transact(anvil, first.contract, "mint", [anvil.accounts[1], 2n]);
  const messages = listen(third.address);
  const { reason } = await reasonIn(messages);
  expect(reason).toMatch(
    /^following from block \d+, without progress for \d+ s; the last request failed: .*no backend/,
  );
  expect(lines.find(({ msg }) => msg === "following makes no progress")).toMatchObject({ level: WARN });
  decide = () => undefined;
  await eventually("it is indexed", async () => messages.find(({ type }) => type === "indexed"), 40_000);
});
