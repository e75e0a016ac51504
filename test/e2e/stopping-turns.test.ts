/** The service stops while many clients of a key wait for their turns: none of them is lost, and none delays the stop. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const [GREEDY, HONEST] = ["greedy-key-0123456789", "honest-key-0123456789"];
const CLIENTS = 300;
/** A part of the time that answers in flight have. */
const SOON_MS = 4_000;

let anvil: Anvil;
beforeAll(async () => {
  anvil = await startAnvil();
});
afterAll(() => anvil?.stop());

const start = (rate: string): Promise<TestService> => {
  const env = { API_KEYS: `${GREEDY},${HONEST}`, RATE_LIMIT_PER_MINUTE: rate };
  return startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
};
const version = (service: TestService, key: string) =>
  service.fetch("/api/v2/web3/version", { headers: { "x-api-key": key } });

/** Stops the service. Returns the time it took. */
async function stop(service: TestService): Promise<number> {
  const before = performance.now();
  await service.stop();
  return performance.now() - before;
}

/** Asks on a connection of its own. Resolves to what came when the service has ended the connection. */
function answerOf({ port }: TestService, key: string, onAnswer: () => void): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let got = "";
  connect(port, "127.0.0.1")
    .on("data", (bytes) => {
      got += bytes.toString();
      onAnswer();
    })
    .on("error", () => undefined)
    .on("close", () => resolve(got))
    .write(`GET /api/v2/web3/version HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${key}\r\n\r\n`);
  return promise;
}

test("refusals are answered at once, and end their connections", async () => {
  const service = await start("10");
  while ((await version(service, GREEDY)).status === 200);
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const answers = Array.from({ length: CLIENTS }, () => answerOf(service, GREEDY, resolve));
  await begun;
  expect(await stop(service)).toBeLessThan(SOON_MS);
  const got = await Promise.all(answers);
  expect(got.filter((text) => !text.startsWith("HTTP/1.1 429"))).toEqual([]);
  // The other ones were answered before.
  expect(got.filter((text) => /\r\nconnection: close\r\n/i.test(text)).length).toBeGreaterThan(CLIENTS / 2);
});

test("sockets are opened and closed with a reason", async () => {
  const service = await start("100000");
  for (const key of [HONEST, GREEDY]) await version(service, key);
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const closes = Array.from({ length: CLIENTS }, () => {
    const { promise: closed, resolve: close } = Promise.withResolvers<number>();
    const socket = new WebSocket(service.socketUrl, ["evm.v2", `apikey.${GREEDY}`]);
    socket.onopen = () => resolve();
    socket.onclose = ({ code }) => close(code);
    return closed;
  });
  await begun;
  expect(await stop(service)).toBeLessThan(SOON_MS);
  expect(new Set(await Promise.all(closes))).toEqual(new Set([1001]));
});
