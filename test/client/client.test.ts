/** The client against the real service: its types, its iterators, its errors, and messages across interruptions. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { clientTypes, packClient } from "../../scripts/client.ts";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair, swapV2 } from "../../scripts/local-chain/pools.ts";
import { operationsOf } from "../../src/api/app.ts";
import { Client, type FeedMessage, ServiceError } from "../../src/client/index.ts";
import { startTestService, synced, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const OPERATOR = "operator-key-of-the-client";
const COUNT = 7n;
const ROOT = join(import.meta.dir, "../..");

let anvil: Anvil;
let nft: Deployed;
let service: TestService;

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Client", "C"]);
  for (let id = 1n; id <= COUNT; id++) await transact(anvil, nft.contract, "mint", [anvil.accounts[1], id]);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env: { OPERATOR_KEYS: OPERATOR } });
  await synced(service, nft.address, nft.blockNumber);
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const clientOf = (url = service.url, key = TEST_KEY): Client => new Client({ url, key });

/** Reads messages until one is of this type. */
async function until<T extends FeedMessage["type"]>(
  messages: AsyncIterator<FeedMessage>,
  type: T,
): Promise<Extract<FeedMessage, { type: T }>> {
  for (;;) {
    const { value, done } = await messages.next();
    if (done === true) throw new Error(`the subscription ended before ${type}`);
    if (value.type === type) return value as Extract<FeedMessage, { type: T }>;
  }
}

test("has a type for each operation", async () => {
  const types = clientTypes();
  for (const { method, path } of operationsOf(500)) expect(types).toContain(`"${method} ${path}": {`);
});

test("calls any operation by its name", async () => {
  const client = clientOf(service.url, OPERATOR);
  const { result, asOf } = await client.call("GET /api/collections", { query: { text: nft.address } });
  expect([result.map(({ address }) => address), asOf]).toEqual([[nft.address.toLowerCase()], null]);
  const path = { chain: "eth", address: nft.address };
  const holders = await client.call("GET /api/collections/:chain/:address/holders", { path, query: { limit: 1 } });
  expect([holders.result.length, holders.asOf?.block]).toEqual([1, nft.blockNumber + Number(COUNT)]);
});

describe("a listing", () => {
  test("is one iterator over all its pages, as of one block", async () => {
    const client = clientOf();
    const ids: string[] = [];
    for await (const { token_id } of client.nfts(nft.address, { limit: 3 })) ids.push(token_id);
    expect(ids.map(BigInt)).toEqual(Array.from({ length: Number(COUNT) }, (_, i) => BigInt(i + 1)));
    const blocks: unknown[] = [];
    for await (const { asOf } of client.nftPages(nft.address, { limit: 3 })) blocks.push(asOf?.block);
    expect(blocks.length).toBe(3);
    expect(new Set(blocks).size).toBe(1);
  });

  test("can be left early", async () => {
    let read = 0;
    for await (const _ of clientOf().nfts(nft.address, { limit: 2 })) if (++read === 3) break;
    expect(read).toBe(3);
  });
});

describe("an error", () => {
  test("has the service's status, code and details", async () => {
    const failed = clientOf().nftPage(nft.address, { limit: 0 });
    await expect(failed).rejects.toBeInstanceOf(ServiceError);
    await expect(failed).rejects.toMatchObject({
      status: 400,
      code: "invalid_parameter",
      details: { parameter: "limit" },
    });
    await expect(clientOf(service.url, "wrong").nftPage(nft.address)).rejects.toMatchObject({ status: 401 });
    await expect(clientOf().status()).rejects.toMatchObject({ status: 403, code: "forbidden" });
  });

  test("is `unreachable` without an answer, after the attempts", async () => {
    const client = new Client({ url: "http://127.0.0.1:9", key: "k", attempts: 2 });
    await expect(client.nftPage(nft.address)).rejects.toMatchObject({ status: 0, code: "unreachable" });
  });

  test("that passes is repeated as long as the service says", async () => {
    let asked = 0;
    const busy = Bun.serve({
      port: 0,
      fetch: () => {
        if (++asked < 3) {
          const body = { message: "busy", code: "rate_limited" };
          return Response.json(body, { status: 429, headers: { "retry-after": "0" } });
        }
        return Response.json({ result: [] });
      },
    });
    try {
      await clientOf(busy.url.href, "k").keys();
      expect(asked).toBe(3);
      await expect(clientOf(busy.url.href, "k").addKey({ name: "n" })).resolves.toBeDefined();
    } finally {
      await busy.stop(true);
    }
  });

  test("tells at once that a chain can't be read, and takes it back after an answer that was read from the chain", async () => {
    const refused = (code: string, status: number, details = {}) =>
      Response.json({ message: code, code, details }, { status, headers: { "retry-after": "0" } });
    const answers = [
      refused("chain_unavailable", 503, { state: "wrong_chain" }),
      refused("chain_unavailable", 503),
      refused("not_found", 404),
      refused("not_a_token", 404),
      refused("not_a_token", 404),
    ];
    const server = Bun.serve({ port: 0, fetch: () => answers.shift() ?? Response.json({}) });
    const told: unknown[] = [];
    const onChainState = (...state: unknown[]) => told.push(state);
    const client = new Client({ url: server.url.href, key: "k", onChainState });
    try {
      const price = () => client.price(nft.address, { chain: "polygon" });
      await expect(price()).rejects.toMatchObject({ code: "not_found" });
      expect(told).toEqual([
        ["polygon", "wrong_chain"],
        ["polygon", "unreachable"],
      ]);
      await expect(price()).rejects.toMatchObject({ code: "not_a_token" });
      await expect(price()).rejects.toMatchObject({ code: "not_a_token" });
      expect(told.slice(2)).toEqual([["polygon", undefined]]);
    } finally {
      await server.stop(true);
    }
  });

  test("is the signal's reason once the caller gives up", async () => {
    const reason = new Error("enough");
    await expect(clientOf().nftPage(nft.address, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});

test("lists collections, requests indexing and manages keys with a key of that scope", async () => {
  const client = clientOf(service.url, OPERATOR);
  const listed: string[] = [];
  for await (const { address } of client.collections({ limit: 1 })) listed.push(address);
  expect(listed).toContain(nft.address.toLowerCase());
  const [item] = (await client.index([{ address: nft.address }])).items;
  expect(item?.before).toBe("following");
  const { key } = await client.addKey({ name: "reader" });
  expect((await new Client({ url: service.url, key }).nftPage(nft.address)).status).toBe("SYNCED");
  await client.revokeKey("reader");
  await expect(new Client({ url: service.url, key }).nftPage(nft.address)).rejects.toMatchObject({ status: 401 });
  expect((await client.status()).chains[0]?.name).toBe("eth");
});

test("reads pages of holders, tokens and collections, a token, and a file", async () => {
  const client = clientOf(service.url, OPERATOR);
  const holders = await client.holderPage(nft, { limit: 1 });
  expect([holders.total, holders.result[0]?.units, holders.asOf?.block]).toEqual([
    1,
    String(COUNT),
    nft.blockNumber + 7,
  ]);
  const owner = holders.result[0]?.owner as string;
  const first = await client.tokenPage(nft, { owner, limit: 4 });
  const rest = await client.tokenPage(nft, { owner, limit: 4, cursor: first.cursor as string });
  expect([first.result.length, rest.result.length, rest.cursor]).toEqual([4, 3, null]);
  expect((await client.collectionPage({ text: "client" })).result.map(({ name }) => name)).toEqual(["Client"]);
  expect((await client.token(nft, 3n)).history.map(({ to }) => to)).toEqual([owner]);
  const file = await client.exported(nft, { format: "csv", as_of_block: nft.blockNumber + 7 });
  expect((await file.text()).trim().split("\n")).toHaveLength(Number(COUNT) + 1);
  await expect(client.priceSeries(nft, { points: 2 })).rejects.toMatchObject({ status: 404, code: "not_a_token" });
});

describe("a subscription", () => {
  test("gets each change once, also across an interruption", async () => {
    const proxy = await startTcpProxy(service.port);
    const client = clientOf(`http://127.0.0.1:${proxy.port}`);
    try {
      const messages = client.subscribe(nft.address)[Symbol.asyncIterator]();
      await until(messages, "indexed");
      await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 101n]);
      expect((await until(messages, "transfers")).tokenIds).toEqual(["101"]);
      proxy.disturb("cut");
      await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 102n]);
      proxy.heal();
      expect((await until(messages, "transfers")).tokenIds).toEqual(["102"]);
      await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 103n]);
      expect((await until(messages, "transfers")).tokenIds).toEqual(["103"]);
      await messages.return?.(undefined);
    } finally {
      client.close();
      await proxy.stop();
    }
  });

  test("gets its messages, whether the caller names the chain by name or by code", async () => {
    const client = clientOf();
    const messages = client.subscribe(nft.address, { chain: "0x1" })[Symbol.asyncIterator]();
    expect(await until(messages, "status")).toMatchObject({ chain: "eth", status: "SYNCED" });
    expect(() => client.subscribe(nft.address)).toThrow("already");
    client.close();
  });

  test("tell the price of a token: the present one, and then the latest one that was not read", async () => {
    await placeMainnet(anvil);
    const sides = { tokenA: MAINNET.weth, amountA: 100n * 10n ** 18n, tokenB: MAINNET.usdc, amountB: 300_000_000_000n };
    const pool = await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...sides });
    const client = clientOf();
    const subscription = client.subscribeToPrice(MAINNET.weth, { chain: "0x1", minChangePercent: 0.01 });
    expect(() => client.subscribeToPrice(MAINNET.weth)).toThrow("already");
    const messages = subscription[Symbol.asyncIterator]();
    expect((await messages.next()).value).toMatchObject({ type: "status", token: MAINNET.weth.toLowerCase() });
    expect((await messages.next()).value).toMatchObject({ type: "price", usdPrice: 3_000 });
    // Another client tells that the prices were sent.
    const other = clientOf().subscribeToPrice(MAINNET.weth)[Symbol.asyncIterator]();
    for (let first = 0; first < 2; first++) await other.next();
    const swap = () => swapV2(anvil, { pool: pool.address, tokenIn: MAINNET.weth, amountIn: 10n ** 18n });
    const usd = async (of: typeof other) => {
      const { value } = await of.next();
      return value?.type === "price" ? value.usdPrice : undefined;
    };
    const told: unknown[] = [];
    for (let swaps = 0; swaps < 3; swaps++) {
      await swap();
      told.push(await usd(other));
    }
    const { usdPrice } = await client.price(MAINNET.weth);
    const read = [await usd(messages)];
    while (read.at(-1) !== usdPrice) read.push(await usd(messages));
    expect(told.at(-1)).toBe(usdPrice);
    expect(read.length).toBeLessThan(3);
    for (const of of [messages, other]) await of.return?.(undefined);
    client.close();
  });

  test("end with the refusal of an address that is no token", async () => {
    const client = clientOf();
    const messages = client.subscribeToPrice(nft.address)[Symbol.asyncIterator]();
    const reading = (async () => {
      while ((await messages.next()).done !== true);
    })();
    await expect(reading).rejects.toMatchObject({ code: "not_a_token", message: expect.stringContaining("ERC-721") });
    client.close();
  });

  test("ends with an error if the service refuses the key", async () => {
    const client = clientOf(service.url, "wrong");
    const messages = client.subscribe(nft.address)[Symbol.asyncIterator]();
    await expect(messages.next()).rejects.toMatchObject({ status: 401 });
    client.close();
  });

  test("ends once its key is revoked", async () => {
    const operator = clientOf(service.url, OPERATOR);
    const { key } = await operator.addKey({ name: "listener" });
    const messages = clientOf(service.url, key).subscribe(nft.address)[Symbol.asyncIterator]();
    await until(messages, "status");
    await operator.revokeKey("listener");
    await expect(until(messages, "failed")).rejects.toMatchObject({ status: 401 });
  });
});

test("is packed as JavaScript with types, which a program in Node and in Bun installs and uses", async () => {
  const folder = mkdtempSync(join(tmpdir(), "client-user-"));
  try {
    const tarball = await packClient(folder);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
    await $`${process.execPath} add ${tarball}`.cwd(folder).quiet();
    const program = `import { Client, type NftRecord, ServiceError } from "evm-data-client";
const client = new Client({ url: process.argv[2] as string, key: process.argv[3] as string });
const nfts: NftRecord[] = [];
for await (const nft of client.nfts("${nft.address}")) nfts.push(nft);
const failed: unknown = await client.nftPage("0x12").catch((error: unknown) => error);
const code: string | undefined = failed instanceof ServiceError ? failed.code : undefined;
console.log(nfts.length >= ${COUNT}, code);
if (typeof WebSocket !== "undefined") {
  for await (const message of client.subscribe("${nft.address}")) {
    if (message.type === "indexed") break;
  }
}
console.log("end");
`;
    writeFileSync(join(folder, "program.ts"), program);
    const options = ["--target", "ESNext", "--module", "NodeNext", "--strict", "--skipLibCheck", "--lib", "ESNext,DOM"];
    const types = ["--types", "node", "--typeRoots", join(ROOT, "node_modules/@types")];
    await $`${process.execPath} x tsc ${options} ${types} --outDir out program.ts`.cwd(folder).env({
      ...process.env,
      PATH: `${join(ROOT, "node_modules/.bin")}:${process.env["PATH"]}`,
    });
    await usesVerifier(folder, options, types);
    for (const runtime of [process.execPath, "node"]) {
      const out = await $`${runtime} out/program.js ${service.url} ${TEST_KEY}`.cwd(folder).text();
      expect(out).toBe("true invalid_parameter\nend\n");
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Verifies a proof by the packed verifier, beside the packages that this project has of it. */
async function usesVerifier(folder: string, options: readonly string[], types: readonly string[]): Promise<void> {
  const modules = join(folder, "node_modules");
  for (const name of ["@ethereumjs", "@noble", "ethers"]) {
    rmSync(join(modules, name), { recursive: true, force: true });
    symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  }
  const program = `import { ProofRefused, type VerifiedProof, verifyProof } from "evm-data-client/proof";
const url = \`\${process.argv[2]}/api/collections/eth/${nft.address}/tokens/1/proof\`;
const proof = await (await fetch(url, { headers: { "x-api-key": process.argv[3] as string } })).json();
const { result, block }: VerifiedProof = await verifyProof(proof);
const forged = await verifyProof({ ...proof, result: { owner: null } }).catch((error: unknown) => error);
console.log(result["owner"], block.chainId, forged instanceof ProofRefused);
`;
  writeFileSync(join(folder, "verify.ts"), program);
  await $`${process.execPath} x tsc ${options} ${types} --outDir out verify.ts`.cwd(folder).env({
    ...process.env,
    PATH: `${join(ROOT, "node_modules/.bin")}:${process.env["PATH"]}`,
  });
  for (const runtime of [process.execPath, "node"]) {
    const out = await $`${runtime} out/verify.js ${service.url} ${TEST_KEY}`.cwd(folder).text();
    expect(out).toBe(`${anvil.accounts[1]} 1 true\n`);
  }
}
