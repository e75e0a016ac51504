/**
 * The endpoint for language models, by the protocol's own client: tools are the declared operations, and thirty tasks in plain
 * words each have their call. No model takes part: a task shows what a model would have to find, and the call that answers it.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { type Collections, seedCollections } from "../../scripts/local-chain/collections.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { operationsOf } from "../../src/api/app.ts";
import {
  type Body,
  metadataKnown,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

let anvil: Anvil;
let collections: Collections;
let market: Market;
let service: TestService;
let client: Client;
let plain: string;
let multi: string;
let demo: string;
let owner: string;
let tokenId: string;
let sharedId: string;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 28 * 3_600, slotsInAnEpoch: 2 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  collections = await seedCollections(anvil);
  await anvil.mine(6);
  plain = collections.plain.address.toLowerCase();
  multi = collections.multi.address.toLowerCase();
  demo = market.demo.address.toLowerCase();
  const [[id, first]] = [...collections.plain.owners] as [[bigint, string]];
  [tokenId, owner] = [String(id), first];
  sharedId = String([...collections.multi.balances].find(([, held]) => held.size > 1)![0]);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  for (const address of [plain, multi]) await synced(service, address);
  await metadataKnown(service, plain, multi);
  client = await connected(TEST_KEY);
}, 120_000);
afterAll(async () => {
  await client?.close();
  await service?.stop();
  await anvil?.stop();
});

async function connected(key: string): Promise<Client> {
  const made = new Client({ name: "test", version: "1.0.0" });
  const url = new URL(`http://127.0.0.1:${service.port}/mcp`);
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers: { authorization: `Bearer ${key}` } },
  });
  await made.connect(transport as Parameters<Client["connect"]>[0]);
  return made;
}

interface Called {
  readonly isError: boolean;
  readonly body: Body;
  readonly meta: Record<string, string>;
}

async function call(name: string, args: Record<string, unknown>): Promise<Called> {
  const { content, isError, _meta } = await client.callTool({ name, arguments: args });
  const [{ text }] = content as [{ text: string }];
  return { isError: isError === true, body: JSON.parse(text), meta: (_meta ?? {}) as Record<string, string> };
}

const POST = (message: unknown, headers: Record<string, string> = {}) =>
  service.fetch("/mcp", {
    method: "POST",
    body: JSON.stringify(message),
    headers: { "content-type": "application/json", ...headers },
  });

describe("the endpoint", () => {
  test("introduces itself, and lists a tool for each operation of scope read that answers JSON", async () => {
    expect(client.getServerVersion()).toMatchObject({ name: "evm-data-service" });
    expect(client.getInstructions()).toContain("SYNCING");
    const { tools } = await client.listTools();
    const wanted = operationsOf(500).filter(
      ({ scope, answer, isUpgrade }) => scope === "read" && "schema" in answer && !isUpgrade,
    );
    expect(tools.map(({ name }) => name).toSorted()).toEqual(wanted.map(({ id }) => id).toSorted());
    expect(tools.length).toBeGreaterThan(25);
    for (const { name, description, inputSchema } of tools) {
      expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(description!.length).toBeGreaterThan(20);
      for (const [argument, schema] of Object.entries(inputSchema.properties ?? {})) {
        expect([name, argument, typeof (schema as Body).description]).toEqual([name, argument, "string"]);
      }
    }
    // Exports are files, and operators' routes are not for models.
    expect(tools.map(({ name }) => name)).not.toContain("exportCollection");
    expect(tools.map(({ name }) => name)).not.toContain("removeCollection");
  });

  test("needs a key, has the key's rate, and answers a notification with 202", async () => {
    const bare = await fetch(`http://127.0.0.1:${service.port}/mcp`, { method: "POST", body: "{}" });
    expect([bare.status, ((await bare.json()) as Body).code]).toEqual([401, "missing_api_key"]);
    await expect(connected("wrong-key-0123456")).rejects.toThrow();
    const noted = await POST({ jsonrpc: "2.0", method: "notifications/initialized" });
    expect([noted.status, await noted.text()]).toEqual([202, ""]);
    expect(noted.headers.get("ratelimit")).toMatch(/^"minute";r=\d+/);
    for (const method of ["GET", "DELETE"]) {
      const { status, headers } = await service.fetch("/mcp", { method });
      expect([method, status, headers.get("allow")]).toEqual([method, 405, "POST, OPTIONS"]);
    }
  });

  test("refuses what is no message, an unknown method, an unknown tool and an unknown argument, in words", async () => {
    for (const message of [
      [],
      "x",
      { jsonrpc: "1.0", id: 1, method: "ping" },
      { jsonrpc: "2.0", id: {}, method: "ping" },
    ]) {
      expect([message, (await POST(message)).status]).toEqual([message, 400]);
    }
    const reply = async (method: string, params: unknown = {}) =>
      (await (await POST({ jsonrpc: "2.0", id: "a", method, params })).json()) as Body;
    expect((await reply("resources/list")).error.code).toBe(-32_601);
    expect((await reply("tools/call", { name: "removeCollection" })).error.code).toBe(-32_602);
    expect(await reply("ping")).toEqual({ jsonrpc: "2.0", id: "a", result: {} });
    const old = await reply("initialize", { protocolVersion: "2024-11-05" });
    expect(old.result.protocolVersion).toBe("2024-11-05");
    expect((await reply("initialize", { protocolVersion: "1999-01-01" })).result.protocolVersion).toBe("2025-11-25");
    const wrong = await call("getTokenPrice", { address: demo, currency: "eur" });
    expect([wrong.isError, wrong.body.code]).toEqual([true, "invalid_parameter"]);
    expect(wrong.body.message).toStartWith("currency: is not known here; the arguments are address, chain");
    const bad = await call("getTokenPrice", { address: "vitalik.eth" });
    expect([bad.isError, bad.body.details.parameter]).toEqual([true, "address"]);
  });

  test("refuses arguments that have no text, or none in UTF-8, in words", async () => {
    const odd: unknown[] = [{}, { toString: 1 }, { toJSON: 1 }, [[]], true, "\ud800"];
    for (const value of odd) {
      const inPath = await call("getContractNFTs", { address: value });
      expect([value, inPath.isError, inPath.body.details?.parameter]).toEqual([value, true, "address"]);
      const inQuery = await call("getContractNFTs", { address: plain, limit: value });
      expect([value, inQuery.isError, inQuery.body.details?.parameter]).toEqual([value, true, "limit"]);
      const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: value } };
      expect(((await (await POST(message)).json()) as Body).error.code).toBe(-32_602);
      const begun = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: value } };
      expect((await POST(begun)).status).toBe(200);
    }
  });
});

interface Task {
  readonly task: string;
  readonly tool: string;
  readonly args: () => Record<string, unknown>;
  readonly finds: (body: Body, meta: Record<string, string>) => void;
}

const block = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
let head = 0;
beforeAll(async () => {
  head = await block();
}, 120_000);

const TASKS: readonly Task[] = [
  {
    task: "Who owns token 1 of this collection?",
    tool: "getNFTMetadata",
    args: () => ({ address: plain, token_id: tokenId }),
    finds: ({ owner_of }) => expect(owner_of).toBe(owner),
  },
  {
    task: "List the first five NFTs of the contract.",
    tool: "getContractNFTs",
    args: () => ({ address: plain, limit: 5 }),
    finds: ({ result }) => expect(result).toHaveLength(5),
  },
  {
    task: "How many NFTs does it have?",
    tool: "getContractNFTs",
    args: () => ({ address: plain, limit: 1, disable_total: false }),
    finds: ({ total }) => expect(total).toBe(String(collections.plain.owners.size)),
  },
  {
    task: "Show the names of the tokens, with their metadata.",
    tool: "getContractNFTs",
    args: () => ({ address: plain, limit: 3, normalizeMetadata: true }),
    finds: ({ result }) => expect(result[0].normalized_metadata.name).toStartWith("Edition "),
  },
  {
    task: "What was the collection like some blocks ago?",
    tool: "getContractNFTs",
    args: () => ({ address: plain, as_of_block: head - 4 }),
    finds: (_, meta) => expect(meta["x-as-of-block"]).toBe(String(head - 4)),
  },
  {
    task: "What is this contract called?",
    tool: "getNFTContractMetadata",
    args: () => ({ address: plain }),
    finds: ({ name, symbol }) => expect([name, symbol]).toEqual(["Demo Editions", "EDIT"]),
  },
  {
    task: "Who are all the owners?",
    tool: "getNFTOwners",
    args: () => ({ address: plain, limit: 500 }),
    finds: ({ result }) => expect(result).toHaveLength(collections.plain.owners.size),
  },
  {
    task: "Who holds this edition of the ERC-1155?",
    tool: "getNFTTokenIdOwners",
    args: () => ({ address: multi, token_id: sharedId }),
    finds: ({ result }) => expect(result.length).toBe(collections.multi.balances.get(BigInt(sharedId))!.size),
  },
  {
    task: "Which wallets hold the most?",
    tool: "listHolders",
    args: () => ({ chain: "eth", address: plain, limit: 3 }),
    finds: ({ result }) => expect(result[0].rank).toBe(1),
  },
  {
    task: "Which tokens of the collection are this wallet's?",
    tool: "findTokens",
    args: () => ({ chain: "eth", address: plain, owner }),
    finds: ({ result }) => expect(result.length).toBeGreaterThan(0),
  },
  {
    task: "What does this wallet have of all collections?",
    tool: "getWalletNFTs",
    args: () => ({ address: owner, limit: 500 }),
    finds: (_, meta) => expect(meta["x-covered"]).toBe("2 collections"),
  },
  {
    task: "Which collections is this wallet in, and how many of each?",
    tool: "getWalletNFTCollections",
    args: () => ({ address: owner, token_counts: true }),
    finds: ({ result }) => expect(result[0].count).toBeGreaterThan(0),
  },
  {
    task: "What moved last in the collection?",
    tool: "getNFTContractTransfers",
    args: () => ({ address: plain, limit: 4 }),
    finds: ({ result }) => expect(result[0].transaction_hash).toMatch(/^0x/),
  },
  {
    task: "What was the very first mint?",
    tool: "getNFTContractTransfers",
    args: () => ({ address: plain, limit: 1, order: "ASC" }),
    finds: ({ result }) => expect(result[0].from_address).toBe(`0x${"0".repeat(40)}`),
  },
  {
    task: "Tell the history of one token.",
    tool: "getNFTTransfers",
    args: () => ({ address: plain, token_id: tokenId }),
    finds: ({ result }) => expect(result.length).toBeGreaterThan(0),
  },
  {
    task: "What did this wallet receive of the collection?",
    tool: "listTransfers",
    args: () => ({ chain: "eth", address: plain, to: owner, limit: 5 }),
    finds: ({ result }) => expect(result[0].to).toBe(owner),
  },
  {
    task: "Show one token with its history and the attempts to fetch its metadata.",
    tool: "getToken",
    args: () => ({ chain: "eth", address: plain, id: tokenId }),
    finds: ({ metadata }) => expect(metadata[0].outcome).toBe("resolved"),
  },
  {
    task: "Which traits are there?",
    tool: "listTraits",
    args: () => ({ chain: "eth", address: plain }),
    finds: ({ of }) => expect(of).toBe(collections.plain.owners.size),
  },
  {
    task: "How far is the indexing of the collection?",
    tool: "getCollection",
    args: () => ({ chain: "eth", address: plain }),
    finds: ({ status }) => expect(status).toBe("following"),
  },
  {
    task: "Get these three NFTs of two contracts at once.",
    tool: "getMultipleNFTs",
    args: () => ({
      tokens: [
        { token_address: plain, token_id: tokenId },
        { token_address: multi, token_id: sharedId },
        { token_address: plain, token_id: "999999" },
      ],
    }),
    finds: (body) => expect(body.map((one: Body) => one?.token_id ?? null)).toEqual([tokenId, sharedId, null]),
  },
  {
    task: "Start indexing this contract.",
    tool: "syncNFTContract",
    args: () => ({ address: plain }),
    finds: ({ status }) => expect(status).toBe("SYNCED"),
  },
  {
    task: "Fetch the picture and name of this token again.",
    tool: "reSyncMetadata",
    args: () => ({ address: plain, token_id: tokenId }),
    finds: ({ status }) => expect(status).toBe("submitted"),
  },
  {
    task: "What is this token worth in dollars?",
    tool: "getTokenPrice",
    args: () => ({ address: demo }),
    finds: ({ usdPrice }) => expect(usdPrice).toBeGreaterThan(0),
  },
  {
    task: "What was it worth at a block, and how did it change over the day before?",
    tool: "getTokenPrice",
    args: () => ({ address: demo, to_block: head - 3, include: "percent_change" }),
    finds: ({ toBlock }) => expect(toBlock).toBe(String(head - 3)),
  },
  {
    task: "What is an ether worth?",
    tool: "getTokenPrice",
    args: () => ({ address: `0x${"e".repeat(40)}`, include: "provenance" }),
    finds: ({ provenance }) => expect(provenance.pricedAs).toBe(MAINNET.weth.toLowerCase()),
  },
  {
    task: "What would I get for selling a thousand dollars of it?",
    tool: "getTokenPrice",
    args: () => ({ address: demo, include: "depth", size_usd: 1_000 }),
    finds: ({ depth }) => expect(Number(depth.sell)).toBeGreaterThan(0),
  },
  {
    task: "Price these two tokens together.",
    tool: "getMultipleTokenPrices",
    args: () => ({ tokens: [{ token_address: demo }, { token_address: MAINNET.usdc }] }),
    finds: (body) => expect(body).toHaveLength(2),
  },
  {
    task: "Draw its price over the last day.",
    tool: "listPrices",
    args: () => ({ chain: "eth", address: demo, points: 4 }),
    finds: ({ result }) => expect(result).toHaveLength(4),
  },
  {
    task: "Which tokens are called something like USD?",
    tool: "findErc20Tokens",
    args: () => ({ text: "usdc" }),
    finds: ({ result }) => expect(result[0].symbol).toContain("USDC"),
  },
  {
    task: "Name, symbol and decimals of these tokens, please.",
    tool: "getTokenMetadata",
    args: () => ({ addresses: [demo, MAINNET.usdc] }),
    finds: (body) => expect(body.map((one: Body) => one.symbol)).toEqual(["DEMO", "USDC"]),
  },
  {
    task: "Where is the pool of these two tokens, at Uniswap v2?",
    tool: "getPairAddress",
    args: () => ({ address: demo, token1: MAINNET.weth, exchange: "uniswapv2" }),
    finds: ({ pairAddress }) => expect(pairAddress).toBe(market.v2.DEMO.address.toLowerCase()),
  },
  {
    task: "How much is in that pool?",
    tool: "getPairReserves",
    args: () => ({ address: market.v2.DEMO.address }),
    finds: ({ reserve0 }) => expect(BigInt(reserve0) > 0n).toBe(true),
  },
  {
    task: "Which block was it yesterday at this time?",
    tool: "getDateToBlock",
    args: () => ({ date: String(Math.floor(Date.now() / 1_000) - 20 * 3_600) }),
    finds: ({ block: found }) => expect(found).toBeLessThan(head),
  },
];

describe("a task in plain words", () => {
  test("is one of at least thirty, each of its own", () => {
    expect(new Set(TASKS.map(({ task }) => task)).size).toBeGreaterThanOrEqual(30);
  });

  test.each(TASKS.map((one) => [one.task, one] as const))("has its call: %s", async (_task, { tool, args, finds }) => {
    const { isError, body, meta } = await call(tool, args());
    expect([body, isError]).toEqual([body, false]);
    finds(body, meta);
  });
});
