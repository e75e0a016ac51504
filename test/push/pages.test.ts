/**
 * A client that reads a page on each message must find the message's content there. Over real sockets, on a chain with
 * blocks, forks and metadata, while another client loads the service.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import WebSocket from "ws";
import { type Anvil, inOneBlock, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, transact } from "../../scripts/local-chain/contracts.ts";
import {
  type Answer,
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const BLOCKS = 25;

interface Message {
  readonly type: string;
  readonly version: number;
  readonly block: number;
  readonly hash: string;
  readonly resolved: number;
  readonly tokenIds: readonly string[];
}

/** A message, and the pages requested when it arrived. */
interface Read {
  readonly message: Message;
  readonly page: Answer;
  readonly asOf: Answer | undefined;
}

let anvil: Anvil;
let nft: Deployed;
let service: TestService;

const mint = (id: number) => transact(anvil, nft.contract, "mint", [anvil.accounts[1] as string, BigInt(id)]);

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Pages", "PGS"]);
  for (let id = 1; id <= 3; id++) await mint(id);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
});
afterAll(async () => {
  await service.stop();
  await anvil.stop();
});

/** Subscribes. On each message about the collection it reads the current page and the page at the message's block. */
async function reader(address: string) {
  const socket = new WebSocket(service.socketUrl, { headers: { "X-Api-Key": TEST_KEY } });
  await new Promise((resolve, reject) => {
    socket.on("open", resolve);
    socket.on("error", reject);
  });
  const reads: Promise<Read>[] = [];
  socket.on("message", (data) => {
    const message = JSON.parse(String(data)) as Message;
    const path = `/api/v2/nft/${address}?limit=500`;
    const isOfBlock = message.type !== "status" && typeof message.block === "number";
    const page = service.get(path);
    const asOf = isOfBlock ? service.get(`${path}&as_of_block=${message.block}`) : undefined;
    reads.push(Promise.all([page, asOf]).then(([page, asOf]) => ({ message, page, asOf })));
  });
  socket.send(JSON.stringify({ action: "subscribe", address }));
  const all = async () => await Promise.all(reads);
  return {
    socket,
    all,
    /** Resolves when pages were read for `count` messages of a type. */
    until: (type: string, count: number) =>
      eventually(`${count} messages of type ${type}`, async () => {
        const found = (await all()).filter(({ message }) => message.type === type);
        return found.length >= count ? found : undefined;
      }),
  };
}

const blockOf = ({ page }: Read): number => Number(page.headers.get("x-as-of-block"));
const idsOf = ({ body }: Answer): string[] => body.result.map(({ token_id }: { token_id: string }) => token_id);

test("serves a page with all transfers of a message when the message arrives", async () => {
  const client = await reader(nft.address);
  const [indexed] = await client.until("indexed", 1);
  expect(indexed?.page.body.status).toBe("SYNCED");
  expect(blockOf(indexed as Read)).toBeGreaterThanOrEqual(indexed?.message.block ?? Number.NaN);
  for (let id = 10; id < 10 + BLOCKS; id++) {
    await mint(id);
    await client.until("transfers", id - 9);
  }
  // Many transfers in one block, in several blocks in quick succession.
  for (let round = 0; round < 5; round++) {
    await inOneBlock(anvil, async () => {
      for (let i = 0; i < 20; i++) {
        await queue(anvil, nft.contract, "mint", [anvil.accounts[2] as string, BigInt(1_000 + round * 20 + i)]);
      }
    });
  }
  await client.until("transfers", BLOCKS + 1);
  await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
  const transfers = (await client.all()).filter(({ message }) => message.type === "transfers");
  for (const read of transfers) {
    const { message, page, asOf } = read;
    expect(blockOf(read)).toBeGreaterThanOrEqual(message.block);
    expect(idsOf(page)).toEqual(expect.arrayContaining([...message.tokenIds]));
    expect(asOf?.status).toBe(200);
    expect(idsOf(asOf as Answer)).toEqual(expect.arrayContaining([...message.tokenIds]));
  }
  client.socket.close();
});

test("announces a reorg only when pages no longer contain the orphaned blocks", async () => {
  const client = await reader(nft.address);
  await client.until("indexed", 1);
  for (let round = 0; round < 5; round++) {
    await mint(5_000 + round);
    const hash = ((await anvil.send("eth_getBlockByNumber", ["latest", false])) as { hash: string }).hash;
    await client.until("transfers", round + 1);
    await reorg(anvil, 1);
    const read = (await client.until("reorged", round + 1))[round] as Read;
    expect(read.page.headers.get("x-as-of-hash")).not.toBe(hash);
    expect(idsOf(read.page)).not.toContain(String(5_000 + round));
    expect(read.asOf?.status).toBe(200);
    await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
  }
  client.socket.close();
});

test("misses no transfer of a block that arrives at the moment of a subscription", async () => {
  for (let round = 0; round < 10; round++) {
    const id = 7_000 + round;
    const [minted, client] = await Promise.all([mint(id), reader(nft.address)]);
    void minted;
    // Either the page at `status` lists the token, or a later message announces it.
    await eventually(`token ${id} is listed or announced`, async () =>
      (await client.all()).find(({ message, page }) =>
        message.type === "transfers" ? message.tokenIds.includes(String(id)) : idsOf(page).includes(String(id)),
      ),
    );
    const status = (await client.all()).find(({ message }) => message.type === "status") as Read;
    expect(blockOf(status)).toBeGreaterThanOrEqual(status.message.block);
    client.socket.close();
  }
});

test("serves a page with the metadata that a `metadata` message counts", async () => {
  const stories = Array.from({ length: 12 }, (_, i) => `data:application/json,{"name":"Token ${i}"}`);
  const drawn = await deploy(anvil, await contractArtifact("StoryNft"), ["Drawn", "DRW"]);
  await transact(anvil, drawn.contract, "mintStories", [anvil.accounts[1] as string, 1n, stories]);
  const client = await reader(drawn.address);
  const reads = await eventually("all metadata has been announced", async () => {
    const found = (await client.all()).filter(({ message }) => message.type === "metadata");
    return found.at(-1)?.message.resolved === 12 ? found : undefined;
  });
  for (const { message, page } of reads) {
    const shown = page.body.result.filter(({ metadata }: { metadata: string | null }) => metadata !== null);
    expect(shown.length).toBeGreaterThanOrEqual(message.resolved);
  }
  client.socket.close();
});
