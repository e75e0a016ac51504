/**
 * Two services over one PostgreSQL read the head of a collection's stream only if the stream may be work for them. The
 * next leader finds the work that it did not read about.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { fromHeadline, toHeadline } from "../../src/nft/collections/headline.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { eventually, startTestService, synced, type TestService } from "../support/service.ts";

let anvil: Anvil;
let nft: Deployed;
let logUrl: string;
/** Streams whose heads the services have read, one by one. */
const heads: string[] = [];
const services: TestService[] = [];

async function countingLog(...options: Parameters<typeof openLog>): Promise<EventLog> {
  const log = await openLog(...options);
  return new Proxy(log, {
    get: (target, name: keyof EventLog) => {
      const value = target[name];
      if (typeof value !== "function") return value;
      if (name !== "head") return value.bind(target);
      return (stream: Parameters<EventLog["head"]>[0]) => {
        heads.push(stream);
        return target.head(stream);
      };
    },
  });
}

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Woken", "UP"]);
  logUrl = await (await sharedPostgres()).createDatabase();
  for (let i = 0; i < 2; i++) {
    services.push(await startTestService({ rpcUrl: anvil.url, logUrl, openLog: countingLog }));
    await synced(services[i] as TestService, nft.address);
  }
});
afterAll(async () => {
  for (const service of services) await service.stop();
  await anvil.stop();
});

let minted = 0;

async function mint(): Promise<void> {
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], BigInt(++minted)]);
  const height = Number(await anvil.send("eth_blockNumber", []));
  for (const service of services) {
    const { body } = await synced(service, nft.address, height);
    expect(body.result).toHaveLength(minted);
  }
}

test("read no head of a collection that is only followed", async () => {
  await mint();
  const log = await openLog(logUrl, systemClock, silentLogger);
  const stream = nftStream(1, nft.address.toLowerCase() as Address);
  // A collection that was just completed is counted, in the background and once more for each block that comes meanwhile.
  await eventually("the collection is counted", async () =>
    fromHeadline((await log.head(stream)).headline).nfts === null ? undefined : true,
  );
  await log.close();
  heads.length = 0;
  for (let block = 0; block < 5; block++) await mint();
  expect(heads.filter((stream) => stream.startsWith("nft/"))).toEqual([]);
});

test("index a collection that is new to one of them, on a request to either", async () => {
  for (const service of services) {
    const other = await deploy(anvil, await contractArtifact("PlainNft"), ["Other", "OTH"]);
    await synced(service, other.address);
  }
});

test("take up work that their leader left behind", async () => {
  const [leader, next] = services as [TestService, TestService];
  // The stored history becomes final: a backfill continues after final blocks only.
  await anvil.mine(100);
  await synced(next, nft.address, Number(await anvil.send("eth_blockNumber", [])));
  const log = await openLog(logUrl, systemClock, silentLogger);
  const stream = nftStream(1, nft.address.toLowerCase() as Address);
  const { version, headline } = await log.head(stream);
  const state = fromHeadline(headline);
  expect(state.status).toBe("following");
  // As a leader leaves it that gave the collection back to the backfill and then crashed.
  await log.append({
    stream,
    events: [{ type: "IndexingRequested" }],
    expectedVersion: version,
    headline: toHeadline({ ...state, status: "backfilling" }),
  });
  await leader.stop();
  services.shift();
  await eventually("the collection is followed again", async () =>
    fromHeadline((await log.head(stream)).headline).status === "following" ? true : undefined,
  );
  await log.close();
  await synced(next, nft.address);
  await mint();
});
