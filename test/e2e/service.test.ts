/**
 * The whole service over a real chain, once per event-log engine: a collection is requested, indexed, announced and
 * listed, a token is priced, and a restart and a second process give the same answers. The contracts are the truth.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Contract, Interface } from "ethers";
import WebSocket from "ws";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { type Collections, seedCollections } from "../../scripts/local-chain/collections.ts";
import { read, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { sharedPostgres } from "../support/postgres.ts";
import {
  eventually,
  metadataKnown,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
  walkListing,
} from "../support/service.ts";

type Message = { type: string; version: number; [key: string]: unknown };

/** Connects a client that records its messages. */
async function connect(service: TestService, options: { key?: string } = {}) {
  const messages: Message[] = [];
  const socket = new WebSocket(service.socketUrl, { headers: { "x-api-key": options.key ?? TEST_KEY } });
  socket.on("message", (data) => messages.push(JSON.parse(String(data))));
  await new Promise((resolve, reject) => {
    socket.on("open", resolve);
    socket.on("error", reject);
  });
  return {
    messages,
    send: (message: object) => socket.send(JSON.stringify(message)),
    of: (type: string) => messages.filter((message) => message.type === type),
    next: (type: string) =>
      eventually(`a message of type ${type}`, async () => messages.find((message) => message.type === type)),
    close: () => socket.close(),
  };
}

const engines: [string, () => Promise<string>][] = [
  ["SQLite", async () => temporaryLogUrl()],
  ["PostgreSQL", async () => (await sharedPostgres()).createDatabase()],
];

for (const [engine, freshLog] of engines) {
  describe(`the service over ${engine}`, () => {
    let anvil: Anvil;
    let collections: Collections;
    let market: Market;
    let service: TestService;
    let logUrl: string;

    beforeAll(async () => {
      const genesisTimestamp = Math.floor(Date.now() / 1_000) - 27 * 3_600 - 60;
      anvil = await startAnvil({ genesisTimestamp });
      await placeMainnet(anvil);
      market = await seedMarket(anvil);
      collections = await seedCollections(anvil);
      logUrl = await freshLog();
      service = await startTestService({ rpcUrl: anvil.url, logUrl });
    }, 60_000);
    afterAll(async () => {
      await service.stop();
      await anvil.stop();
    });

    test("answers SYNCING at once for an unknown contract, announces it once over the socket, then lists it", async () => {
      const { address } = collections.plain;
      const client = await connect(service);
      client.send({ action: "subscribe", chain: "0x1", address });
      const answer = await service.get(`/api/v2/nft/${address}`);
      expect(answer.status).toBe(200);
      expect(answer.body).toMatchObject({ page: "0", page_size: "100", total: null });
      const indexed = await client.next("indexed");
      expect(indexed).toMatchObject({ chain: "eth", address, total: collections.plain.owners.size });
      const page = await service.get(`/api/v2/nft/${address}?limit=500&disable_total=false`);
      expect(page.body.status).toBe("SYNCED");
      expect(page.body.total).toBe(String(collections.plain.owners.size));
      client.send({ action: "subscribe", chain: "eth", address });
      await eventually("the second status has arrived", async () => client.of("status")[1]);
      client.send({ action: "ping" });
      await client.next("pong");
      expect(client.of("indexed")).toHaveLength(1);
      client.close();
    });

    test("lists the result of ownerOf at its block for every token, with any page size", async () => {
      for (const { address, contract } of [collections.plain, collections.batch]) {
        const first = await synced(service, address);
        const blockTag = Number(first.headers.get("x-as-of-block"));
        for (const limit of [1, 37, 500]) {
          if (limit === 1 && address !== collections.plain.address) continue;
          const records = await walkListing(service, address, `limit=${limit}`);
          expect(records).toHaveLength(first.body.result.length);
          expect(new Set(records.map((record) => record.token_id)).size).toBe(records.length);
          expect(records.map((record) => record.owner_of)).toEqual(
            first.body.result.map((r: Message) => r["owner_of"]),
          );
        }
        for (const record of first.body.result) {
          const owner: string = await contract.getFunction("ownerOf")(record.token_id, { blockTag });
          expect(record.owner_of).toBe(owner.toLowerCase());
        }
      }
    });

    test("lists amounts equal to totalSupply(id) and holders equal to balanceOf for an ERC-1155", async () => {
      const { address, contract, balances } = collections.multi;
      const first = await synced(service, address);
      for (const record of first.body.result) {
        expect(BigInt(record.amount)).toBe(await read<bigint>(contract, "totalSupply(uint256)", [record.token_id]));
      }
      const holders = await walkListing(service, address, "limit=50&holders=true");
      const expected = [...balances].flatMap(([id, owners]) => [...owners].map(([owner, n]) => `${id}/${owner}/${n}`));
      const listed = holders.map((record) => `${record.token_id}/${record.owner_of}/${record.amount}`);
      expect(listed.sort()).toEqual(expected.sort());
    });

    test("prices a token at the head by getReserves and slot0, to the last digit", async () => {
      const answer = await service.get(`/api/v2/erc20/${market.demo.address}/price?include=percent_change,provenance`);
      expect(answer.status).toBe(200);
      const blockTag = Number(answer.body.toBlock);
      const pair = (address: string) =>
        new Contract(address, new Interface(["function getReserves() view returns (uint112,uint112,uint32)"]), {
          provider: null,
          call: (tx) =>
            anvil.send("eth_call", [{ to: tx.to, data: tx.data }, `0x${blockTag.toString(16)}`]) as Promise<string>,
        });
      const price = async (pool: { address: string; token0: string }, token: string): Promise<[bigint, bigint]> => {
        const [reserve0, reserve1] = await pair(pool.address).getFunction("getReserves")();
        return pool.token0.toLowerCase() === token.toLowerCase() ? [reserve1, reserve0] : [reserve0, reserve1];
      };
      expect(answer.body.exchangeAddress).toBe(MAINNET.uniswapV2Factory.toLowerCase());
      const [weth, demo] = await price(market.v2.DEMO, market.demo.address);
      // Wei for one whole DEMO of 18 decimals.
      expect(BigInt(answer.body.nativePrice.value)).toBe((weth * 10n ** 18n) / demo);
      expect(Number(answer.body["24hrPercentChange"])).not.toBe(0);
      const repeated = await service.get(`/api/v2/erc20/${market.demo.address}/price?to_block=${blockTag}`);
      expect(repeated.body.usdPriceFormatted).toBe(answer.body.usdPriceFormatted);
    });

    test("announces moved tokens over the socket and lists their new owners when the head moves", async () => {
      const { address, contract } = collections.plain;
      const client = await connect(service);
      client.send({ action: "subscribe", address });
      await client.next("indexed");
      const page = await synced(service, address);
      const { token_id: id, owner_of: from } = page.body.result[3];
      const to = anvil.accounts[9] as string;
      const receipt = await transact(anvil, contract, "transferFrom", [from, to, id], { from });
      const told = await client.next("transfers");
      const block = Number(receipt.blockNumber);
      expect(told).toMatchObject({ block, tokenIds: [id] });
      const after = await synced(service, address, block);
      expect(after.body.result[3]).toMatchObject({ token_id: id, owner_of: to, block_number: String(block) });
      const before = await service.get(`/api/v2/nft/${address}?limit=500&as_of_block=${block - 1}`);
      expect(before.body.result[3]).toMatchObject({ token_id: id, owner_of: from });
      client.close();
    });

    test("serves the same pages from a second process over the same log, and accepts its cursors", async () => {
      const second = await startTestService({ rpcUrl: anvil.url, logUrl });
      try {
        const path = `/api/v2/nft/${collections.batch.address}?limit=50`;
        await metadataKnown(service, collections.batch.address);
        const [one, two] = [await service.get(path), await second.get(path)];
        expect(two.body).toEqual(one.body);
        const cursor = encodeURIComponent(one.body.cursor);
        const next = await second.get(`/api/v2/nft/${collections.batch.address}?cursor=${cursor}`);
        expect(next.body).toEqual(
          (await service.get(`/api/v2/nft/${collections.batch.address}?cursor=${cursor}`)).body,
        );
        // Both processes announce a transfer at the head.
        const client = await connect(second);
        client.send({ action: "subscribe", address: collections.batch.address });
        await client.next("indexed");
        const { token_id: id, owner_of: from } = one.body.result[0];
        const to = anvil.accounts[9] as string;
        await transact(anvil, collections.batch.contract, "transferFrom", [from, to, id], { from });
        expect(await client.next("transfers")).toMatchObject({ tokenIds: [id] });
        client.close();
      } finally {
        await second.stop();
      }
    });

    test("catches up after a restart with the blocks of the meantime", async () => {
      await service.stop();
      const { address, contract } = collections.plain;
      const id = 1_000_001n;
      const to = anvil.accounts[8] as string;
      const receipt = await transact(anvil, contract, "mint", [to, id]);
      await anvil.mine(3);
      service = await startTestService({ rpcUrl: anvil.url, logUrl });
      const page = await synced(service, address, Number(receipt.blockNumber));
      expect(page.body.result.at(-1)).toMatchObject({ token_id: String(id), owner_of: to });
    });
  });
}
