/** A process with few files left: clients' sockets leave room for the log, the node and health checks. */
import { expect, test } from "bun:test";
import { startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { spawnService } from "../support/process.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const LIMIT = 256;
const SOCKETS = 400;

test.skipIf(process.platform !== "linux")(
  "sockets beyond the limit of open files are refused, and pages, health and new blocks go on",
  async () => {
    const anvil = await startAnvil();
    const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Few", "F"]);
    await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1n]);
    const service = spawnService(
      {
        ...{ API_KEYS: TEST_KEY, EVENT_LOG_URL: temporaryLogUrl(), RPC_URL_ETH: anvil.url, RPC_URLS_ONLY: "true" },
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
        return (await (await fetch(url, { headers: { "x-api-key": TEST_KEY }, signal, keepalive: false })).json()) as {
          status: string;
          result: unknown[];
        };
      };
      await eventually("the collection is ready", async () => ((await page()).status === "SYNCED" ? true : undefined));
      let [opened, closed] = [0, 0];
      const sockets = Array.from({ length: SOCKETS }, () => {
        const socket = new WebSocket(`${base.replace("http", "ws")}/api/v2/ws`, ["evm.v2", `apikey.${TEST_KEY}`]);
        socket.addEventListener("open", () => opened++);
        socket.addEventListener("close", () => closed++);
        return socket;
      });
      await eventually("each socket is open or refused", async () => (opened + closed >= SOCKETS ? true : undefined));
      expect(opened).toBeLessThanOrEqual(LIMIT - 100);
      expect(opened).toBeGreaterThan(50);
      const live = await fetch(`${base}/health/live`, { keepalive: false, signal: AbortSignal.timeout(5_000) });
      expect(live.status).toBe(200);
      await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 2n]);
      await eventually("a new token is listed", async () => ((await page()).result.length === 2 ? true : undefined));
      const metrics = await (await fetch(`${base}/metrics`, { keepalive: false })).text();
      expect(metrics).toContain(`process_max_fds ${LIMIT}`);
      expect(Number(/^process_open_fds (\d+)/m.exec(metrics)?.[1])).toBeGreaterThan(opened);
      for (const socket of sockets) socket.close();
      expect(service.stderr()).not.toContain("EMFILE");
    } finally {
      service.kill("SIGTERM");
      await service.exited;
      await anvil.stop();
    }
  },
);
