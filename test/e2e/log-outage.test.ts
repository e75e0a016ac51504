/**
 * The service loses PostgreSQL: the network drops all packets, or the server stops. It refuses requests that need the
 * log with 503 within two seconds, serves pages from memory, and recovers soon after the log is back.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { eventually, startTestService, synced, type TestService } from "../support/service.ts";
import { type SilentRelay, startSilentRelay } from "../support/silent-relay.ts";

let anvil: Anvil;
let nft: Deployed;
let postgres: Postgres;
let relay: SilentRelay;
let service: TestService;
let strangers = 0;
let minted = 0;

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await mint();
  await anvil.mine(100);
  await mint();
  postgres = await startPostgres();
  const url = new URL(await postgres.createDatabase());
  relay = await startSilentRelay(Number(url.port));
  url.port = String(relay.port);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: url.href, minPollMs: 200 });
  await synced(service, nft.address);
});
afterAll(async () => {
  await service?.stop();
  await relay?.stop();
  await postgres?.stop();
  await anvil?.stop();
});

const mint = () => transact(anvil, nft.contract, "mint", [anvil.accounts[1], minted++]);

/** A contract that no request has named before: its page needs the log. */
const stranger = () => `/api/v2/nft/0x${(++strangers).toString(16).padStart(40, "5")}`;

async function refusal() {
  const before = performance.now();
  const { status, headers, body } = await service.get(stranger());
  const ms = performance.now() - before;
  return { status, code: body.code, retryAfter: headers.get("retry-after"), isInTime: ms < 2_000 };
}

const finalityOf = async (path: string) => (await service.fetch(path)).headers.get("x-finality");

const REFUSED = { status: 503, code: "log_unavailable", retryAfter: "1", isInTime: true };

describe.each([
  ["is cut off without a word", () => relay.silence({ path: true }), () => relay.restore()],
  ["stops", () => postgres.stopServer(), () => postgres.startServer()],
])("a log that %s", (_how, begin, end) => {
  test("is a 503 in time for requests that need it, and none for pages from memory", async () => {
    const path = `/api/v2/nft/${nft.address}?limit=7`;
    expect([await finalityOf(path), await finalityOf(path)]).toEqual(["latest", "latest"]);
    expect((await service.get("/health/ready")).status).toBe(200);
    await begin();
    await eventually("the outage is noticed", async () =>
      (await service.get(stranger())).status === 503 ? true : undefined,
    );
    for (let i = 0; i < 3; i++) expect(await refusal()).toEqual(REFUSED);
    const page = await service.get(path);
    expect([page.status, page.body.result.length]).toEqual([200, minted]);
    // Cached and unchanged answers say it, too. A final block is never stale.
    const etag = page.headers.get("etag") as string;
    const unchanged = await service.fetch(path, { headers: { "if-none-match": etag } });
    expect([unchanged.status, unchanged.headers.get("x-finality")]).toEqual([304, "stale"]);
    expect([await finalityOf(path), await finalityOf(path)]).toEqual(["stale", "stale"]);
    expect(await finalityOf(`${path}&as_of_block=1`)).toBe("finalized");
    const unready = await service.get("/health/ready");
    expect([unready.status, unready.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await (await service.fetch("/metrics")).text()).toContain("\nlog_up 0\n");
    await end();
    await eventually("requests that need the log work", async () =>
      (await service.get(stranger())).status === 200 ? true : undefined,
    );
    await eventually("the process is ready", async () =>
      (await service.get("/health/ready")).status === 200 ? true : undefined,
    );
    expect(await finalityOf(path)).toBe("latest");
    // The follower goes on, too.
    await mint();
    const height = Number(await anvil.send("eth_blockNumber", []));
    await synced(service, nft.address, height);
  });
});
