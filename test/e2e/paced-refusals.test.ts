/** Clients of one key that come back as soon as they are refused don't take the thread from another key. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const [GREEDY, HONEST] = ["greedy-key-0123456789", "honest-key-0123456789"];
/** More than are refused while another key is answered once. */
const CLIENTS = 300;

let anvil: Anvil;
let service: TestService;
beforeAll(async () => {
  anvil = await startAnvil();
  const env = { API_KEYS: `${GREEDY},${HONEST}`, RATE_LIMIT_PER_MINUTE: "10" };
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const version = (key: string) => service.fetch("/api/v2/web3/version", { headers: { "x-api-key": key } });
const socket = (key: string) => new WebSocket(service.socketUrl, ["evm.v2", `apikey.${key}`]);

/** Uses up the key's rate. */
async function spend(key: string): Promise<void> {
  while ((await version(key)).status === 200);
}

test("requests", async () => {
  await spend(GREEDY);
  let answered = 0;
  const refusals = Array.from({ length: CLIENTS }, async () => {
    const { status, headers } = await version(GREEDY);
    answered++;
    return [status, Number(headers.get("retry-after")) > 0] as const;
  });
  expect((await version(HONEST)).status).toBe(200);
  expect(answered).toBeLessThan(CLIENTS / 2);
  const answers = await Promise.all(refusals);
  // The rate may have room for one request by then.
  expect(answers.filter(([status]) => status !== 429).length).toBeLessThan(3);
  expect(answers.every(([status, hasWay]) => status === 200 || hasWay)).toBeTrue();
});

test("sockets", async () => {
  await spend(GREEDY);
  let ended = 0;
  const sockets = Array.from({ length: CLIENTS }, () => socket(GREEDY));
  for (const one of sockets) {
    one.onclose = () => ended++;
    one.onopen = () => ended++;
  }
  const { promise, resolve } = Promise.withResolvers<void>();
  const honest = socket(HONEST);
  honest.onopen = () => resolve();
  await promise;
  expect(ended).toBeLessThan(CLIENTS / 2);
  await eventually("each is refused", async () => (ended >= CLIENTS ? true : undefined));
  for (const one of [...sockets, honest]) one.close();
});
