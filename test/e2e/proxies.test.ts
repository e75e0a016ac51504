/**
 * A network whose only way out is a proxy: a real service process and a real proxy process. Nodes, archives, metadata and
 * token lists go through it, and no token URI opens a private address.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { startForwardProxy } from "../support/forward-proxy.ts";
import { type ServiceProcess, startServiceProcess } from "../support/process.ts";
import { type Body, eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const PUBLIC = "93.184.215.14";
/** Token URIs by id. Names that are in no DNS are the proxy's alone. */
const URIS = [
  `http://${PUBLIC}/1.json`,
  "ipfs://QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPUGw/2.json",
  "http://10.0.0.7/secret.json",
  `http://${PUBLIC}/redirected.json`,
  "http://name-of-the-proxy.example/4.json",
];

let anvil: Anvil;
let web: ReturnType<typeof Bun.serve>;
let proxy: Awaited<ReturnType<typeof startForwardProxy>>;
let nft: Deployed;
const services: ServiceProcess[] = [];

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("RenamedNft"));
  web = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/redirected.json") return Response.redirect("http://169.254.169.254/latest/meta-data");
      return Response.json({ name: `${request.headers.get("host")}${pathname}` });
    },
  });
  const [content, node] = [web.port as number, Number(new URL(anvil.url).port)];
  proxy = await startForwardProxy({
    [`${PUBLIC}:80`]: content,
    "gateway.example:80": content,
    "node.example:8545": node,
    "node.example:8546": node,
    // What must not be asked for would be there.
    ...{ "10.0.0.7:80": content, "169.254.169.254:80": content, "name-of-the-proxy.example:80": content },
  });
}, 300_000);

afterEach(async () => {
  for (const service of services.splice(0)) {
    service.kill("SIGKILL");
    await service.exited;
  }
});

afterAll(async () => {
  await proxy?.stop();
  await web?.stop(true);
  await anvil?.stop();
});

async function start(env: Record<string, string>): Promise<ServiceProcess> {
  const service = await startServiceProcess({
    ...{ API_KEYS: TEST_KEY, EVENT_LOG_URL: temporaryLogUrl(), RPC_URLS_ONLY: "true", FOLLOW_EVERY_ETH: "0" },
    ...{ HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url, IPFS_GATEWAYS: "http://gateway.example/ipfs" },
    ...env,
  });
  services.push(service);
  return service;
}

const rows = (service: ServiceProcess): Promise<Body[]> =>
  eventually("the collection is synced", async () => {
    const body = (await (await service.get(`/api/v2/nft/${nft.address}?normalizeMetadata=true`)).json()) as Body;
    return body.status === "SYNCED" ? body.result : undefined;
  });

const detailsOf = async (service: ServiceProcess): Promise<Body> =>
  (await service.get(`/api/collections/eth/${nft.address}`)).json();

test("nodes and metadata go through the proxy, and private addresses stay closed", async () => {
  for (const [id, uri] of URIS.entries()) {
    await transact(anvil, nft.contract, "mintWithURI", [anvil.accounts[1], id, Buffer.from(uri)]);
  }
  const service = await start({ RPC_URL_ETH: "http://node.example:8545" });
  await rows(service);
  const { metadata } = await eventually("all tokens were tried", async () => {
    const details = await detailsOf(service);
    const { forbidden_address = 0, dns_failed = 0 } = details.metadata?.reasons ?? {};
    return details.metadata?.resolved === 2 && forbidden_address === 2 && dns_failed === 1 ? details : undefined;
  });
  expect(metadata.failedTokens).toEqual(["2", "3", "4"]);
  const names = (await rows(service)).map((row) => row.normalized_metadata.name);
  expect(names.slice(0, 2)).toEqual([`${PUBLIC}/1.json`, `gateway.example${URIS[1]?.replace("ipfs://", "/ipfs/")}`]);
  const seen = new Set(proxy.requests);
  expect([...seen].sort()).toEqual([`CONNECT ${PUBLIC}:80`, "CONNECT gateway.example:80", "POST node.example:8545"]);
  expect(service.stderr()).not.toContain("s%40cret");
}, 300_000);

test("a node behind a WebSocket goes through the proxy", async () => {
  const service = await start({ RPC_URL_ETH: "ws://node.example:8546" });
  expect(await rows(service)).toHaveLength(URIS.length);
  expect(proxy.requests).toContain("CONNECT node.example:8546");
}, 300_000);

test("this machine and the hosts of NO_PROXY are reached without the proxy", async () => {
  const before = proxy.requests.length;
  const service = await start({ RPC_URL_ETH: anvil.url, NO_PROXY: `${PUBLIC},gateway.example` });
  expect(await rows(service)).toHaveLength(URIS.length);
  expect(proxy.requests.slice(before)).toEqual([]);
}, 300_000);

test("archives, token lists and the command line go through the proxy", async () => {
  const service = await start({
    ...{ RPC_URL_ETH: anvil.url, ARCHIVE_URL_ETH: `http://archive.example/datasets/eth` },
    TOKEN_LISTS: `https://${PUBLIC}/list.json`,
  });
  await service.get(`/api/v2/nft/${nft.address}`);
  const asked = (line: string) => eventually(line, async () => (proxy.requests.includes(line) ? true : undefined));
  await asked("GET archive.example:80");
  await asked(`CONNECT ${PUBLIC}:443`);
  const command = Bun.spawn([process.execPath, "src/main.ts", "status", "--url", "http://service.example/"], {
    env: { PATH: process.env["PATH"] ?? "", HTTP_PROXY: proxy.url, SERVICE_KEY: TEST_KEY },
    stdout: "ignore",
    stderr: "ignore",
  });
  await command.exited;
  await asked("GET service.example:80");
}, 300_000);
