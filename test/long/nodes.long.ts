/**
 * The same behaviour, from the first listing to a restart, on the nodes that developers run: anvil, Hardhat 2, Hardhat
 * 3 and Ganache, over HTTP and over WebSocket. The contracts' own state at each block is the truth. The nodes are
 * installed into a separate folder, without their install scripts.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import pino from "pino";
import WebSocket from "ws";
import { type Anvil, AnvilError, quantity } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import {
  createV2Pair,
  createV3Pool,
  type Pool,
  swapV2,
  swapV3,
  V2_PAIR_ABI,
  V3_POOL_ABI,
} from "../../scripts/local-chain/pools.ts";
import type { Logger } from "../../src/core/logger.ts";
import { NODES, type NodeName, startNode } from "../support/long/development-nodes.ts";
import { spawnService } from "../support/process.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const ETHER = 10n ** 18n;
const USD = 10n ** 6n;
const TOKENS = 24;
/** Upper bound of token ids, with room for later mints. */
const MAX_TOKENS = 30;
/** Finality depth of this chain, used if the node's finalized tag is not trusted. */
const DEPTH = 64;
/** Start of each node's `web3_clientVersion`. Undefined: its finalized tag is below the head and is trusted. */
const CLIENTS: Record<NodeName, string | undefined> = {
  anvil: undefined,
  "hardhat 2": "HardhatNetwork",
  "hardhat 3": "HardhatNetwork",
  ganache: "Ganache",
};

interface Line {
  readonly level: number;
  readonly msg: string;
}

let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "nodes-"));
  cpSync(join(import.meta.dir, "nodes"), folder, { recursive: true });
  const command = [process.execPath, "install", "--frozen-lockfile", "--ignore-scripts", "--silent"];
  const install = Bun.spawn(command, { cwd: folder, stdout: "inherit", stderr: "inherit" });
  expect(await install.exited).toBe(0);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

for (const name of NODES) {
  describe(name, () => {
    let node: Anvil;
    let nft: Deployed;
    let v2: { token: string; pool: Pool };
    let v3: { token: string; pool: Pool };
    let turn = 0;

    const tip = async (): Promise<number> => Number(await node.send("eth_blockNumber"));
    const hashOf = async (block: number): Promise<string> =>
      ((await node.send("eth_getBlockByNumber", [quantity(block), false])) as { hash: string }).hash;

    /** Owners by id at a block, without burnt tokens. */
    async function ownersAt(block: number): Promise<[string, string][]> {
      const ownerOf = nft.contract.getFunction("ownerOf");
      const found = await Promise.all(
        Array.from({ length: MAX_TOKENS }, async (_, id) => {
          try {
            return [String(id), ((await ownerOf.staticCall(id, { blockTag: block })) as string).toLowerCase()] as const;
          } catch (error) {
            if (!(error instanceof AnvilError)) throw error;
            return undefined;
          }
        }),
      );
      return found.flatMap((each) => (each === undefined ? [] : [[...each]]));
    }

    /** Wei for one whole token, from its pool's state at a block. */
    async function weiAt({ token, pool }: { token: string; pool: Pool }, block: number): Promise<string> {
      const isFirst = pool.token0.toLowerCase() === token.toLowerCase();
      const at = { blockTag: block };
      if (pool === v2.pool) {
        const getReserves = contractAt(node, pool.address, V2_PAIR_ABI).getFunction("getReserves");
        const [r0, r1] = (await getReserves.staticCall(at)) as [bigint, bigint];
        return String(isFirst ? (r1 * ETHER) / r0 : (r0 * ETHER) / r1);
      }
      const slot0 = contractAt(node, pool.address, V3_POOL_ABI).getFunction("slot0");
      const [root] = (await slot0.staticCall(at)) as [bigint];
      const [up, down] = [root * root, 1n << 192n];
      return String(isFirst ? (up * ETHER) / down : (down * ETHER) / up);
    }

    /** Mines three blocks or more: a token moves, sometimes one is burnt, and both prices change. */
    async function change(): Promise<void> {
      turn++;
      const owners = await ownersAt(await tip());
      const [id, from] = owners[turn % owners.length]!;
      const isBurnt = turn % 4 === 0;
      const to = node.accounts[1 + (turn % 5)];
      await (isBurnt
        ? transact(node, nft.contract, "burn", [id], { from })
        : transact(node, nft.contract, "transferFrom", [from, to, id], { from }));
      const amountIn = BigInt(turn) * ETHER;
      await swapV2(node, { pool: v2.pool.address, tokenIn: MAINNET.weth, amountIn });
      await swapV3(node, { pool: v3.pool.address, tokenIn: v3.token, amountIn });
    }

    beforeAll(async () => {
      node = await startNode(name, folder);
      await placeMainnet(node);
      const artifact = await contractArtifact("TestToken");
      const pair = { factory: MAINNET.uniswapV2Factory, tokenB: MAINNET.weth };
      const dollars = { tokenA: MAINNET.usdc, amountA: 3_000_000n * USD, amountB: 1_000n * ETHER };
      await createV2Pair(node, { ...pair, ...dollars });
      const { address: second } = await deploy(node, artifact, ["Second", "TWO", 18]);
      const amounts = { amountA: 90_000n * ETHER, amountB: 300n * ETHER };
      v2 = { token: second, pool: await createV2Pair(node, { ...pair, tokenA: second, ...amounts }) };
      const { address: third } = await deploy(node, artifact, ["Third", "THREE", 18]);
      const tokens = { tokenA: third, tokenB: MAINNET.weth };
      v3 = { token: third, pool: await createV3Pool(node, { ...tokens, fee: 3_000, ...amounts }) };
      nft = await deploy(node, await contractArtifact("BatchNft"), ["Nodes", "NODE"]);
      for (let minted = 0; minted < TOKENS; minted += 6) {
        await transact(node, nft.contract, "mint", [node.accounts[1 + (minted % 5)], 6]);
      }
      for (let i = 0; i < 4; i++) await change();
    }, 120_000);
    afterAll(() => node?.stop());

    for (const transport of ["http", "ws"] as const) {
      describe(`over ${transport}`, () => {
        const lines: Line[] = [];
        const logUrl = temporaryLogUrl();
        const messages: { type: string; block?: number; hash?: string }[] = [];
        let service: TestService;
        let socket: WebSocket | undefined;

        function start(): Promise<TestService> {
          const sink = new Writable({
            write: (chunk, _encoding, done) => {
              lines.push(JSON.parse(String(chunk)));
              done();
            },
          });
          const logger = pino({ level: "info" }, sink) as unknown as Logger;
          return startTestService({ rpcUrl: transport === "http" ? node.url : node.wsUrl, logUrl, logger });
        }

        const price = (token: string, query = "") => service.get(`/api/v2/erc20/${token}/price${query}`);
        const page = (query = "") => service.get(`/api/v2/nft/${nft.address}?limit=500${query}`);

        /** Waits until listing and prices are at the head and name its hash. */
        async function followed(): Promise<void> {
          const block = await tip();
          const hash = await hashOf(block);
          await eventually(`${name} is followed to block ${block}`, async () => {
            const answers = await Promise.all([page(), price(v2.token), price(v3.token)]);
            return answers.every(({ headers }) => headers.get("x-as-of-hash") === hash) ? true : undefined;
          });
          await expectTruth(block, "", "");
        }

        async function expectTruth(block: number, listingQuery: string, priceQuery: string): Promise<void> {
          const listing = await page(listingQuery);
          expect(listing.headers.get("x-as-of-block")).toBe(String(block));
          expect(listing.headers.has("x-chain-status")).toBe(false);
          expect(
            listing.body.result.map((each: { token_id: string; owner_of: string }) => [each.token_id, each.owner_of]),
          ).toEqual(await ownersAt(block));
          for (const [exchange, market] of [
            ["Uniswap v2", v2],
            ["Uniswap v3", v3],
          ] as const) {
            const { body } = await price(market.token, priceQuery);
            expect(body).toMatchObject({
              exchangeName: exchange,
              toBlock: String(block),
              nativePrice: { value: await weiAt(market, block) },
            });
          }
        }

        beforeAll(async () => {
          service = await start();
        });
        afterAll(async () => {
          socket?.terminate();
          await service?.stop();
        });

        test("lists and prices at the head and at past blocks", async () => {
          const head = await tip();
          const { headers } = await synced(service, nft.address, head);
          expect(headers.get("x-finality")).toBe("latest");
          await followed();
          // An account has neither code nor logs. The listing reports that with a code of its own.
          await eventually("the account is identified as no contract", async () => {
            const { status, body } = await service.get(`/api/v2/nft/${node.accounts[7]}`);
            return status === 404 && body.code === "not_a_contract" ? true : undefined;
          });
          for (const block of [nft.blockNumber + 2, head - 7, head - 1]) {
            await expectTruth(block, `&as_of_block=${block}`, `?to_block=${block}`);
          }
        });

        test("follows new blocks and announces them to subscribers", async () => {
          socket = new WebSocket(service.socketUrl, { headers: { "X-Api-Key": TEST_KEY } });
          socket.on("message", (data) => messages.push(JSON.parse(String(data))));
          socket.on("open", () =>
            socket?.send(JSON.stringify({ action: "subscribe", chain: "eth", address: nft.address })),
          );
          await eventually("the subscription is confirmed", async () => messages.find(({ type }) => type === "status"));
          const before = await tip();
          await change();
          await eventually("the transfer is announced", async () =>
            messages.find(({ type, block }) => type === "transfers" && block === before + 1),
          );
          await followed();
        });

        test("follows an evm_revert", async () => {
          const ancestor = await tip();
          const snapshot = await node.send("evm_snapshot");
          await change();
          await followed();
          const lost = await hashOf(ancestor + 1);
          expect(await node.send("evm_revert", [snapshot])).toBe(true);
          turn++;
          // The new branch is shorter than the old one at first, then longer.
          await transact(node, nft.contract, "mint", [node.accounts[6], 1]);
          expect(await hashOf(ancestor + 1)).not.toBe(lost);
          await followed();
          for (let i = 0; i < 2; i++) await change();
          await followed();
          const told = messages.filter(({ type }) => type === "reorged");
          expect(told).toEqual([expect.objectContaining({ block: ancestor, hash: await hashOf(ancestor) })]);
        });

        test("continues after a restart on the same log, over a revert that happened meanwhile", async () => {
          const snapshot = await node.send("evm_snapshot");
          await change();
          await followed();
          await service.stop();
          expect(await node.send("evm_revert", [snapshot])).toBe(true);
          turn++;
          for (let i = 0; i < 2; i++) await change();
          service = await start();
          await followed();
        });

        test("warns if it distrusts the node's finalized tag, and logs no error", () => {
          const said = lines.filter(({ msg }) => msg.startsWith("a development node calls its head final"));
          const client = CLIENTS[name];
          const once = expect.objectContaining({ level: 40, client, depth: DEPTH });
          // One warning per life.
          expect(said).toEqual(client === undefined ? [] : [once, once]);
          expect(lines.filter(({ level }) => level >= 50)).toEqual([]);
        });
      });
    }

    test("is the chain `local` by one variable, apart from the chain whose id it has", async () => {
      const env = {
        API_KEYS: TEST_KEY,
        RPC_URLS_ONLY: "true",
        EVENT_LOG_URL: temporaryLogUrl(),
        RPC_URL_LOCAL: node.url,
      };
      const local = spawnService(env);
      const base = await local.serving;
      const ids = await eventually("it is listed", async () => {
        const answer = await fetch(`${base}/api/v2/nft/${nft.address}?chain=local`, {
          headers: { "x-api-key": TEST_KEY },
        });
        const { status, result } = (await answer.json()) as { status: string; result: { token_id: string }[] };
        return status === "SYNCED" && result.length > 0 ? result.map(({ token_id: id }) => id).sort() : undefined;
      });
      expect(ids).toEqual((await ownersAt(await tip())).map(([id]) => id).sort());
      local.kill("SIGTERM");
      expect(await local.exited).toBe(0);
    });
  });
}
