/** A process with few files: a key leaves sockets to other keys, and clients leave room for the API, the log and the node. */

import { expect, test } from "bun:test";
import net from "node:net";
import { startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { spawnService } from "../support/process.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const LIMIT = 256;
/** More than the places of one key, and than all places. */
const SOCKETS = 100;
const PLACES = Math.floor((LIMIT - 160) * 0.75);
const SHARE = Math.floor(PLACES / 4);
const KEYS = [
  TEST_KEY,
  "second-key-0123456789",
  "third-key-0123456789",
  "fourth-key-0123456789",
  "honest-key-0123456789",
];
const HONEST = KEYS.at(-1)!;

/** Opens sockets with a key. Resolves with the open ones once each is open or refused. */
async function openSockets(base: string, key: string): Promise<WebSocket[]> {
  let closed = 0;
  const open: WebSocket[] = [];
  for (let at = 0; at < SOCKETS; at++) {
    const socket = new WebSocket(`${base.replace("http", "ws")}/api/v2/ws`, ["evm.v2", `apikey.${key}`]);
    socket.addEventListener("open", () => open.push(socket));
    socket.addEventListener("close", () => closed++);
  }
  await eventually("each is open or refused", async () => (open.length + closed >= SOCKETS ? true : undefined));
  return open;
}

/** Sends a request over a plain connection, and leaves that open. Resolves with the answer. */
async function ask(base: string, lines: readonly string[]): Promise<{ answer: string; socket: net.Socket }> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = net.connect(Number(new URL(base).port), "127.0.0.1", () => {
    socket.write(`${[lines[0], "Host: x", ...lines.slice(1)].join("\r\n")}\r\n\r\n`);
  });
  socket.once("data", (data) => resolve(data.toString()));
  socket.on("error", reject);
  return { answer: await promise, socket };
}

const HANDSHAKE = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"];
const handshake = (base: string, key: string) => {
  const nonce = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
  return ask(base, ["GET /api/v2/ws HTTP/1.1", ...HANDSHAKE, nonce, `X-API-Key: ${key}`]);
};

test.skipIf(process.platform !== "linux")(
  "a key's sockets beyond its share are refused, and with all places taken pages, health and new blocks go on",
  async () => {
    const anvil = await startAnvil();
    const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Few", "F"]);
    await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
    const service = spawnService(
      {
        ...{ API_KEYS: KEYS.join(), EVENT_LOG_URL: temporaryLogUrl(), RPC_URL_ETH: anvil.url, RPC_URLS_ONLY: "true" },
        ...{ FOLLOW_EVERY_ETH: "0", LOG_FORMAT: "json", LOG_LEVEL: "info" },
      },
      { before: `ulimit -n ${LIMIT}` },
    );
    try {
      const base = await service.serving;
      await eventually("its limit is said", async () =>
        service.stderr().includes("few clients can connect") ? true : undefined,
      );
      const page = async () => {
        const signal = AbortSignal.timeout(5_000);
        const url = `${base}/api/v2/nft/${nft.address}`;
        return (await (await fetch(url, { headers: { "x-api-key": HONEST }, signal, keepalive: false })).json()) as {
          status: string;
          result: unknown[];
        };
      };
      await eventually("the collection is ready", async () => ((await page()).status === "SYNCED" ? true : undefined));
      const greedy = await openSockets(base, TEST_KEY);
      expect(greedy).toHaveLength(SHARE);
      const refused = await handshake(base, TEST_KEY);
      expect(refused.answer).toStartWith("HTTP/1.1 429");
      expect(refused.answer).toMatch(/connection: close/i);
      expect(refused.answer).toContain(
        `connections of the key API_KEYS#1 to this process: at most ${SHARE}; close some`,
      );
      // Another key has its own share, until all places are taken.
      const honest = await handshake(base, HONEST);
      expect(honest.answer).toStartWith("HTTP/1.1 101");
      const others = (await Promise.all(KEYS.slice(1, -1).map((key) => openSockets(base, key)))).flat();
      expect(others).toHaveLength(PLACES - SHARE - 1);
      expect((await handshake(base, HONEST)).answer).toStartWith("HTTP/1.1 503");
      const sockets = [...greedy, ...others];
      const opened = sockets.length + 1;
      // Kept connections don't use the files up: when these become scarce, an answer ends its connection.
      const kept: net.Socket[] = [];
      for (let at = 0; at < LIMIT; at++) kept.push((await ask(base, ["GET /health/live HTTP/1.1"])).socket);
      const live = await fetch(`${base}/health/live`, { keepalive: false, signal: AbortSignal.timeout(5_000) });
      expect(live.status).toBe(200);
      await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 2n]);
      await eventually("a new token is listed", async () => ((await page()).result.length === 2 ? true : undefined));
      const metrics = await (await fetch(`${base}/metrics`, { keepalive: false })).text();
      expect(metrics).toContain(`process_max_fds ${LIMIT}`);
      expect(Number(/^process_open_fds (\d+)/m.exec(metrics)?.[1])).toBeGreaterThan(opened);
      // A place that is left is free for the next client.
      greedy[0]!.close();
      await eventually("a place is free", async () =>
        (await handshake(base, HONEST)).answer.startsWith("HTTP/1.1 101") ? true : undefined,
      );
      for (const socket of [...kept, honest.socket]) socket.destroy();
      for (const socket of sockets) socket.close();
      expect(service.stderr()).not.toContain("EMFILE");
    } finally {
      service.kill("SIGTERM");
      await service.exited;
      await anvil.stop();
    }
  },
);
