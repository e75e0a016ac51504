/**
 * A chain on which little happens: several blocks are looked at together without their headers. Forks within them are
 * found all the same, and nothing at all is asked of a chain on which nothing is followed.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, read, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let proxy: RpcProxy;
let nft: Deployed;
/** Runs once, before the next request for logs reaches the node. */
let beforeLogs: (() => Promise<void>) | undefined;

beforeAll(async () => {
  anvil = await startAnvil();
  proxy = await startRpcProxy(anvil.url, {
    onRequest: async ({ method }) => {
      if (method !== "eth_getLogs") return;
      const before = beforeLogs;
      beforeLogs = undefined;
      await before?.();
    },
  });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Quiet", "Q"]);
  for (let id = 1n; id <= 3n; id++) await transact(anvil, nft.contract, "mint", [anvil.accounts[1], id]);
  await anvil.mine(80);
});
afterAll(async () => {
  await proxy?.stop();
  await anvil?.stop();
});

/** A service whose polls come only on request: by a socket's subscription, or when this much time is over. */
const start = (env: Record<string, string> = {}, logUrl = temporaryLogUrl()): Promise<TestService> =>
  startTestService({
    rpcUrl: proxy.url,
    logUrl,
    env: { FOLLOW_EVERY_ETH: "1", ...env },
    // The self-audit would add calls.
    auditMs: 3_600_000,
  });

const headOf = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

/** Numbers of the blocks whose headers were asked for. */
const headersAsked = (): number[] =>
  proxy.calls.flatMap(({ method, params }) => {
    const [tag] = params;
    return method === "eth_getBlockByNumber" && String(tag).startsWith("0x") ? [Number(tag)] : [];
  });

/** Follows to the node's head. Returns after the poll that reached it. */
async function follow(service: TestService): Promise<void> {
  await synced(service, nft.address, await headOf());
}

test("reads no header between two looks at a quiet collection", async () => {
  const service = await start();
  try {
    await follow(service);
    // The first looks read all headers.
    for (let look = 0; look < 3; look++) {
      await anvil.mine(5);
      await follow(service);
    }
    const looks: number[] = [];
    for (let look = 0; look < 6; look++) {
      const from = await headOf();
      proxy.reset();
      await anvil.mine(10);
      await follow(service);
      const between = headersAsked().filter((number) => number > from && number < from + 10);
      looks.push(between.length);
      expect(proxy.count("eth_getLogs")).toBeLessThanOrEqual(2);
    }
    // Three looks of a hundred read all headers as a sample.
    expect(looks.filter((count) => count === 0).length).toBeGreaterThanOrEqual(4);
  } finally {
    await service.stop();
  }
});

const account = (look: number): string => anvil.accounts[look % 2 === 0 ? 8 : 9] as string;

/** Moves token 1 to another account. */
async function moveToken(to: string): Promise<void> {
  const from = (await read<string>(nft.contract, "ownerOf", [1n])).toLowerCase();
  await transact(anvil, nft.contract, "transferFrom", [from, to, 1n], { from });
}

const ownerOf = async (service: TestService): Promise<string> =>
  (await service.get(`/api/v2/nft/${nft.address}?token_ids=1`)).body.result[0].owner_of;

test("finds a transfer between two looks", async () => {
  const service = await start();
  try {
    await follow(service);
    for (let look = 2; look < 6; look++) {
      await anvil.mine(4);
      await moveToken(anvil.accounts[look] as string);
      await anvil.mine(4);
      await follow(service);
      expect(await ownerOf(service)).toBe(anvil.accounts[look] as string);
    }
  } finally {
    await service.stop();
  }
});

test("finds a fork between two looks, and ends walks as of a block whose header was not read", async () => {
  const service = await start();
  try {
    await follow(service);
    for (let look = 0; look < 6; look++) {
      await anvil.mine(10);
      await follow(service);
      const asOf = (await headOf()) - 5;
      const path = `/api/v2/nft/${nft.address}?limit=1`;
      const first = await service.get(`${path}&as_of_block=${asOf}`);
      expect(first.headers.get("x-as-of-block")).toBe(String(asOf));
      const block = (await anvil.send("eth_getBlockByNumber", [`0x${asOf.toString(16)}`, false])) as { hash: string };
      expect(first.headers.get("x-as-of-hash")).toBe(block.hash);
      const kept = await service.get(`${path}&as_of_block=${asOf - 40}`);
      // Eight blocks are replaced, one of them by a block with a transfer.
      await reorg(anvil, 8);
      const to = anvil.accounts[look % 2 === 0 ? 6 : 7] as string;
      await moveToken(to);
      await follow(service);
      expect(await ownerOf(service)).toBe(to);
      const [lost, stays] = await Promise.all(
        [first, kept].map(({ body }) => service.get(`${path}&cursor=${encodeURIComponent(body.cursor)}`)),
      );
      expect([lost?.status, lost?.body.code, stays?.status]).toEqual([410, "cursor_reorged", 200]);
    }
  } finally {
    await service.stop();
  }
});

test("never takes the logs of another branch for those of a head that is replaced before they are read", async () => {
  const logUrl = temporaryLogUrl();
  const service = await start({}, logUrl);
  const lost = new Set<string>();
  try {
    await follow(service);
    for (let look = 0; look < 6; look++) {
      await anvil.mine(10);
      await follow(service);
      const mined = Promise.withResolvers<void>();
      beforeLogs = async () => {
        await mined.promise;
        const head = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { hash: string };
        lost.add(head.hash);
        await reorg(anvil, 3);
      };
      await anvil.mine(8);
      // This transfer and the block after it are replaced by blocks without it.
      await moveToken(account(look));
      await anvil.mine();
      mined.resolve();
      await eventually("the head was replaced", async () => (beforeLogs === undefined ? true : undefined));
      await follow(service);
    }
  } finally {
    await service.stop();
  }
  const log = await openLog(logUrl, systemClock, silentLogger);
  const heads = (await log.read(chainStream(1))).flatMap(({ event }) =>
    event.type === "HeadAdvanced" ? [event.headers.at(-1)?.hash as string] : [],
  );
  const moved = (await log.read(nftStream(1, nft.address.toLowerCase() as Address))).flatMap(({ event }) =>
    event.type === "TransfersCommitted" ? [event.toHash as string] : [],
  );
  await log.close();
  expect(lost.size).toBe(6);
  // If such a head was followed all the same, then with its own transfer.
  expect(heads.filter((hash) => lost.has(hash) && !moved.includes(hash))).toEqual([]);
});

test("asks nothing of a chain on which nothing is followed", async () => {
  const key = "operator-key-of-the-test";
  const service = await start({ OPERATOR_KEYS: key });
  // Its looks tell the time.
  const other = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  const headers = { "x-api-key": key };
  const state = async () => (await service.get("/api/status", headers)).body.chains[0].state;
  const someTime = async () => {
    for (let look = 0; look < 3; look++) {
      await anvil.mine();
      await synced(other, nft.address, await headOf());
    }
  };
  try {
    proxy.reset();
    await someTime();
    expect([proxy.count(), await state()]).toEqual([0, "idle"]);
    await follow(service);
    expect(await state()).toBe("following");
    await service.fetch(`/api/collections/eth/${nft.address}`, { method: "DELETE", headers });
    await eventually("the chain is idle", async () => ((await state()) === "idle" ? true : undefined));
    proxy.reset();
    await someTime();
    expect(proxy.count()).toBe(0);
    await anvil.mine(3_000);
    await follow(service);
    expect(await state()).toBe("following");
  } finally {
    await service.stop();
    await other.stop();
  }
});
