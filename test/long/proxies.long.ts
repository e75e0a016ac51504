/** The service behind the shipped proxies: what stays closed, and a rolling restart under load. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type Kind, startProxy } from "../support/long/proxies.ts";
import { type ServiceProcess, startServiceProcess } from "../support/process.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const OPERATOR_KEY = "operator-key-0123456789";

let anvil: Anvil;
let nft: Deployed;
beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Behind", "B"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 0n, 50n]);
  await anvil.mine(70);
}, 300_000);
afterAll(() => anvil?.stop());

const startReplica = (logUrl: string, port = 0): Promise<ServiceProcess> =>
  startServiceProcess({
    EVENT_LOG_URL: logUrl,
    RPC_URL_ETH: anvil.url,
    RPC_URLS_ONLY: "true",
    RATE_LIMIT_PER_MINUTE: "10000000",
    OPERATOR_KEYS: OPERATOR_KEY,
    PORT: String(port),
  });
const portOf = ({ base }: ServiceProcess): number => Number(new URL(base).port);

/** Sends a request line unchanged. Resolves with the whole answer. */
function raw(port: number, target: string, key: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const lines = [`GET ${target} HTTP/1.1`, "Host: nft.example.org", `x-api-key: ${key}`, "Connection: close", "", ""];
    const socket = connect(port, "127.0.0.1", () => socket.write(lines.join("\r\n")));
    let said = "";
    socket.on("data", (bytes) => {
      said += bytes.toString("latin1");
    });
    socket.on("close", () => resolve(said));
    socket.on("error", reject);
  });
}

/** Spellings of a way out of an open path. */
const UP = ["..", "..\\", "../", "%2e%2e/", "%2E%2E\\", ".%2e/", "..%2f", "..%5c", "..%252f", "..;/", "./../", "..//"];
const OPEN = ["/media", "/media/x", "/swagger", "/api/v2", "/api/v2/nft", "/swagger/..\\media"];
const CLOSED = [
  "metrics",
  "api/keys",
  "api/status",
  "api/collections",
  "console/app.js",
  "health/live",
  "..\\metrics",
  "",
];

describe("closed paths", () => {
  for (const kind of ["nginx", "caddy", "gateway"] as const satisfies readonly Kind[]) {
    test(`stay closed behind ${kind}, however they are written`, async () => {
      const replica = await startReplica(temporaryLogUrl());
      const proxy = await startProxy(kind, [portOf(replica)]);
      try {
        // Whatever a key of scope read may ask is open, with its methods, and browsers of other origins may read it.
        const base = `http://127.0.0.1:${proxy.port}`;
        await eventually("the collection is ready", async () => {
          const page = await fetch(`${base}/api/v2/nft/${nft.address}`, { headers: { "x-api-key": TEST_KEY } });
          return ((await page.json()) as { status: string }).status === "SYNCED" ? true : undefined;
        });
        const collection = `/api/collections/eth/${nft.address}`;
        const below = [
          "",
          "/holders",
          "/tokens",
          "/tokens/1",
          "/tokens/1/transfers",
          "/traits",
          "/transfers",
          "/export",
        ];
        for (const path of [...below.map((part) => collection + part), "/api/tokens"]) {
          for (const method of ["GET", "HEAD", "OPTIONS"]) {
            const answer = await fetch(base + path, { method, headers: { "x-api-key": TEST_KEY } });
            const { status, headers } = answer;
            // To its end: an export that is not read holds the place of its key.
            await answer.arrayBuffer();
            const origin = headers.get("access-control-allow-origin");
            expect([path, method, status, origin]).toEqual([path, method, method === "OPTIONS" ? 204 : 200, "*"]);
          }
        }
        for (const [method, path] of [
          ["DELETE", collection],
          ["POST", `${collection}/reindex`],
          ["POST", `${collection}/refresh`],
          ["GET", `${collection}/estimate`],
          ["POST", collection],
        ] as const) {
          const { status } = await fetch(base + path, { method, headers: { "x-api-key": OPERATOR_KEY } });
          expect([method, path, [403, 404].includes(status)]).toEqual([method, path, true]);
        }
        expect((await fetch(`${base}${collection}`, { headers: { "x-api-key": TEST_KEY } })).status).toBe(200);
        const targets = OPEN.flatMap((path) => UP.flatMap((up) => CLOSED.map((closed) => `${path}/${up}${closed}`)));
        const more = [
          "/metrics",
          "/api/status",
          "/api/keys",
          "//api/keys",
          "/\\api\\keys",
          "/%2e/metrics",
          "/console/",
        ];
        const deeper = targets.map((target) => target.replace("/..", "/../.."));
        for (const target of [...targets, ...deeper, ...more]) {
          const answer = await raw(proxy.port, target, OPERATOR_KEY);
          const isOpened = /build_info|"instance"|"requestsPerMinute"|"status":"live"/.test(answer);
          const isPage = /<!doctype html>/i.test(answer) && !/swagger/i.test(answer);
          expect([target, isOpened, isPage]).toEqual([target, false, false]);
        }
      } finally {
        await proxy.stop();
        replica.kill("SIGTERM");
        await replica.exited;
      }
    }, 300_000);
  }
});

describe("a rolling restart", () => {
  for (const kind of ["nginx", "caddy"] as const) {
    test(`behind ${kind} loses no request, and sockets are back within seconds`, async () => {
      const logUrl = temporaryLogUrl();
      const replicas = [await startReplica(logUrl), await startReplica(logUrl)];
      const ports = replicas.map(portOf);
      const proxy = await startProxy(kind, ports);
      const url = `http://127.0.0.1:${proxy.port}`;
      const headers = { "x-api-key": TEST_KEY };
      const page = () => fetch(`${url}/api/v2/nft/${nft.address}?limit=10`, { headers });
      await eventually("the collection is ready", async () => {
        const body = (await (await page()).json()) as { status: string };
        return body.status === "SYNCED" ? true : undefined;
      });
      const body = JSON.stringify({ tokens: [{ token_address: nft.address }] });
      const post = () =>
        fetch(`${url}/api/v2/erc20/prices?include=errors`, {
          ...{ method: "POST", body },
          headers: { ...headers, "content-type": "application/json" },
        });
      /** Answers by method and status. */
      const statuses = new Map<string, number>();
      let isOver = false;
      const load = Array.from({ length: 24 }, async (_, at) => {
        const [method, send] = at < 8 ? ["GET", page] : ["POST", post];
        while (!isOver) {
          const status = await (send as typeof page)().then(
            async (response) => {
              await response.arrayBuffer();
              return String(response.status);
            },
            (error: Error) => error.message,
          );
          const key = `${method} ${status}`;
          statuses.set(key, (statuses.get(key) ?? 0) + 1);
        }
      });
      // A client that connects again as soon as its socket closes.
      const gaps: number[] = [];
      let lost = 0;
      const follow = () => {
        const socket = new WebSocket(`${url.replace("http", "ws")}/api/v2/ws`, ["evm.v2", `apikey.${TEST_KEY}`]);
        socket.addEventListener("open", () =>
          socket.send(JSON.stringify({ action: "subscribe", address: nft.address })),
        );
        socket.addEventListener("message", ({ data }) => {
          if (JSON.parse(String(data)).type !== "status") return;
          if (lost > 0) gaps.push(performance.now() - lost);
          lost = 0;
        });
        socket.addEventListener("close", () => {
          lost ||= performance.now();
          if (!isOver) setTimeout(follow, 50);
        });
        return socket;
      };
      follow();
      // Each of them three times.
      for (const index of [0, 1, 0, 1, 0, 1]) {
        const replica = replicas[index] as ServiceProcess;
        replica.kill("SIGTERM");
        await replica.exited;
        replicas[index] = await startReplica(logUrl, ports[index]);
        await eventually("the replica is ready", async () => {
          const { status } = await (replicas[index] as ServiceProcess).get("/health/ready");
          return status === 200 ? true : undefined;
        });
        await eventually("the socket is back", async () => (lost === 0 ? true : undefined));
        const before = statuses.get("POST 200") ?? 0;
        await eventually("requests go on", async () =>
          (statuses.get("POST 200") ?? 0) >= before + 100 ? true : undefined,
        );
      }
      isOver = true;
      await Promise.all(load);
      await proxy.stop();
      for (const replica of replicas) {
        replica.kill("SIGTERM");
        await replica.exited;
      }
      expect([...statuses.keys()].sort()).toEqual(["GET 200", "POST 200"]);
      expect(gaps.length).toBeGreaterThan(0);
      expect(Math.max(...gaps)).toBeLessThan(5_000);
    }, 300_000);
  }
});

test("nginx gives each contract a replica of its own once its two lines are open, and another one when that ends", async () => {
  const upstreams = [0, 1, 2].map((index) =>
    Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(String(index)) }),
  );
  const proxy = await startProxy(
    "nginx",
    upstreams.map(({ port }) => port as number),
    true,
  );
  const contracts = Array.from({ length: 60 }, (_, index) => `0x${(index * 7_919).toString(16).padStart(40, "a")}`);
  const paths = (contract: string) => [
    `/api/v2/nft/${contract}?chain=eth`,
    `/api/v2/nft/${contract}/owners?cursor=${contract.slice(2)}`,
    `/api/collections/eth/${contract}/holders`,
  ];
  const served = async () =>
    Promise.all(
      contracts.map(async (contract) => {
        const answers = paths(contract).map(async (path) => {
          const response = await fetch(`http://127.0.0.1:${proxy.port}${path}`, {
            headers: { host: "nft.example.org" },
          });
          return response.text();
        });
        return [...new Set(await Promise.all(answers))].join();
      }),
    );
  const before = await served();
  expect([...new Set(before)].sort()).toEqual(["0", "1", "2"]);
  await upstreams[0]?.stop(true);
  const after = await served();
  expect([...new Set(after)].sort()).toEqual(["1", "2"]);
  // What others served stays where it was.
  expect(after.filter((one, index) => before[index] !== "0" && one !== before[index])).toEqual([]);
  await proxy.stop();
  for (const upstream of upstreams) await upstream.stop(true);
});
