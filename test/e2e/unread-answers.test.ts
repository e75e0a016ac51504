/** Clients open real sockets and read nothing: the service bounds by key what it holds in memory for them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import {
  eventually,
  metadataKnown,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const OTHER = "other-key-0123456789";
const TOKENS = 30;
/** Three bytes each in UTF-8. A page is larger than what the system's buffers take of it. */
const CHARACTERS = 100_000;
/** More pages of 9 MB than a key may leave unread. */
const UNREAD = 20;

let anvil: Anvil;
let documents: ReturnType<typeof Bun.serve>;
let service: TestService;
let path: string;
beforeAll(async () => {
  anvil = await startAnvil();
  const description = "語".repeat(CHARACTERS);
  documents = Bun.serve({ port: 0, fetch: ({ url }) => Response.json({ name: url, description }) });
  const { address, contract } = await deploy(anvil, await contractArtifact("StoryNft"), ["Long", "LNG"]);
  await transact(anvil, contract, "setBase", [`http://127.0.0.1:${documents.port}/`, ""]);
  await transact(anvil, contract, "mintMany", [anvil.accounts[1], 1n, BigInt(TOKENS)]);
  await anvil.mine(70);
  const env = { API_KEYS: `${TEST_KEY},${OTHER}`, METADATA_ALLOW_PRIVATE: "true" };
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
  await synced(service, address);
  await metadataKnown(service, address);
  path = `/api/v2/nft/${address}?limit=${TOKENS}`;
}, 60_000);
afterAll(async () => {
  await service?.stop();
  await documents?.stop(true);
  await anvil?.stop();
});

/** Asks, waits for the first bytes of the answer and reads no more. Returns the socket and the status. */
async function unread(target: string): Promise<{ readonly socket: Socket; readonly status: number }> {
  const socket = connect(service.port, "127.0.0.1");
  socket.write(`GET ${target} HTTP/1.1\r\nhost: x\r\nx-api-key: ${TEST_KEY}\r\n\r\n`);
  const first = await new Promise<Buffer>((resolve, reject) => socket.once("data", resolve).once("error", reject));
  socket.pause();
  return { socket, status: Number(first.toString("latin1", 9, 12)) };
}

const bytesFor = async (key: string, target: string) => {
  const answer = await service.fetch(target, { headers: { "x-api-key": key, "accept-encoding": "identity" } });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
};

test("answers that a key's clients don't read are bounded, and delay no other key", async () => {
  const asked = [];
  // Each has another query, so that each has a body of its own.
  for (let at = 0; at < UNREAD; at++) asked.push(await unread(`${path}&x=${at}`));
  const statuses = asked.map(({ status }) => status);
  expect([statuses[0], statuses.at(-1)]).toEqual([200, 429]);
  const refused = await bytesFor(TEST_KEY, `${path}&x=refused`);
  expect([refused.status, JSON.parse(refused.text).code]).toEqual([429, "rate_limited"]);
  expect(refused.text).toContain("unread");
  expect(refused.headers.get("retry-after")).toBe("1");
  expect((await bytesFor(TEST_KEY, "/api/v2/web3/version")).status).toBe(200);
  const whole = await bytesFor(OTHER, `${path}&x=other`);
  expect(JSON.parse(whole.text).result.length).toBe(TOKENS);
  for (const { socket } of asked) socket.destroy();
  await eventually("the key has room again", async () =>
    (await bytesFor(TEST_KEY, `${path}&x=again`)).status === 200 ? true : undefined,
  );
}, 60_000);

test("an answer that many clients share counts once", async () => {
  const asked = [];
  for (let at = 0; at < UNREAD; at++) asked.push(await unread(path));
  expect(asked.map(({ status }) => status)).toEqual(asked.map(() => 200));
  expect((await bytesFor(TEST_KEY, `${path}&x=beside`)).status).toBe(200);
  for (const { socket } of asked) socket.destroy();
}, 60_000);

test("clients that leave at any moment leave nothing unread", async () => {
  const closed: Promise<void>[] = [];
  for (let at = 0; at < 2 * UNREAD; at++) {
    const socket = connect(service.port, "127.0.0.1");
    closed.push(new Promise((resolve) => socket.once("close", () => resolve()).once("error", () => undefined)));
    socket.write(`GET ${path}&x=left-${at} HTTP/1.1\r\nhost: x\r\nx-api-key: ${TEST_KEY}\r\n\r\n`, () => {
      // At once, in the next turn, or after a whole answer that is made meanwhile.
      if (at % 3 === 0) socket.destroy();
      else if (at % 3 === 1) setImmediate(() => socket.destroy());
      else void bytesFor(OTHER, `${path}&x=meanwhile-${at}`).then(() => socket.destroy());
    });
  }
  await Promise.all(closed);
  await eventually("the key has room again", async () =>
    (await bytesFor(TEST_KEY, `${path}&x=after`)).status === 200 ? true : undefined,
  );
  const asked = [];
  for (let at = 0; at < UNREAD / 2; at++) asked.push(await unread(`${path}&x=room-${at}`));
  expect(asked.map(({ status }) => status)).toEqual(asked.map(() => 200));
  for (const { socket } of asked) socket.destroy();
}, 60_000);
