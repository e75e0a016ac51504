/**
 * A node that answers with every kind of wrong value in every field. Whatever it says, no route answers 500, the process
 * stays ready, and once the node is sound again, the listing is the chain's.
 */
import { afterAll, expect, test } from "bun:test";
import type { Address } from "../../src/core/hex.ts";
import { decodePortal } from "../../src/rpc/decode/portal.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { logsBloomOf } from "../support/bloom.ts";
import { type LongChain, startLongChain } from "../support/long-chain.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";
const word = (value: bigint) => value.toString(16).padStart(64, "0");
const MISSING = Symbol("missing");
const ODD: readonly unknown[] = [
  ...[MISSING, null, true, -1, 0, 1.5, 2 ** 53, 1e300, "", "0x", "0x0", "0x-1", "-0x1", "1.5", "0x1.8", "zz", "0xzz"],
  ...[
    `0x${"f".repeat(13)}`,
    `0x${"f".repeat(16)}`,
    `0x${"f".repeat(64)}`,
    `0x${"0".repeat(40)}`,
    `0x${"a".repeat(510)}`,
  ],
  ...[`0x${"f".repeat(512)}`, "x".repeat(100_000), [], ["0x1"], {}, { toString: "0x1" }, "99999999999999999999"],
];

const HEADER_FIELDS = ["number", "hash", "parentHash", "timestamp", "logsBloom"];
const LOG_FIELDS = [
  ...["address", "topics", "data", "blockNumber", "blockHash", "transactionHash", "transactionIndex", "logIndex"],
  "removed",
];

const stops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
});

const spoiled = (fields: object, name: string, value: unknown): object => {
  const { [name]: _, ...others } = fields as Record<string, unknown>;
  return value === MISSING ? others : { ...others, [name]: value };
};

async function begin(): Promise<{ node: LongChain; service: TestService }> {
  const node = await startLongChain(300, 250);
  node.transfers = [{ block: 100, id: 1, from: 0, to: 1 }];
  const service = await startTestService({
    ...{ rpcUrl: node.url, logUrl: temporaryLogUrl(), minPollMs: 5 },
    env: { OPERATOR_KEYS: OPERATOR },
  });
  stops.push(
    () => service.stop(),
    () => node.stop(),
  );
  return { node, service };
}

/** Asks all routes whose answers have values of the node. */
async function expectSound(service: TestService, { contract }: LongChain, what: unknown): Promise<void> {
  const parts = `/api/collections/eth/${contract}`;
  const routes = [
    ...[`/api/v2/nft/${contract}?disable_total=false`, `/api/v2/nft/${contract}?as_of_block=200`, "/api/status"],
    ...[parts, `${parts}/holders`, `${parts}/tokens`, `${parts}/transfers?times=true&transactions=true`],
    ...["/metrics", "/health/ready"],
  ];
  const answers = await Promise.all(
    routes.map((route) => service.fetch(route, { headers: { "x-api-key": OPERATOR } })),
  );
  for (const [at, { status }] of answers.entries())
    expect([what, routes[at], status >= 500 && status !== 503]).toEqual([what, routes[at], false]);
  expect([what, answers.at(-1)?.status]).toEqual([what, 200]);
}

async function expectTruth(service: TestService, node: LongChain): Promise<void> {
  node.instead = () => undefined;
  node.head++;
  // A collection in doubt waits for its next attempt.
  const begun = { method: "POST", headers: { "x-api-key": OPERATOR } };
  await service.fetch(`/api/collections/eth/${node.contract}/reindex`, begun);
  const { body } = await eventually(
    "the chain is followed again",
    async () => {
      const answer = await synced(service, node.contract);
      return Number(answer.headers.get("x-as-of-block")) >= node.head ? answer : undefined;
    },
    60_000,
  );
  const owners = new Map<string, string>();
  for (const { id, to } of node.transfers) owners.set(String(id), node.holder(to));
  expect(new Map(body.result.map((one: Record<string, string>) => [one["token_id"], one["owner_of"]]))).toEqual(owners);
}

/** Spoils one field of the answers of a method after the other, with a new block and a new transfer each time. */
async function fuzz(
  method: string,
  fields: readonly string[],
  spoil: (result: unknown, name: string, odd: unknown) => unknown,
) {
  const { node, service } = await begin();
  await synced(service, node.contract, node.head);
  for (const [turn, name] of fields.entries()) {
    // Each field meets a third of the values, and the next field the next third.
    for (const odd of ODD.filter((_, at) => at % 3 === turn % 3)) {
      node.head++;
      const [before, last] = [node.count("eth_getBlockByNumber"), node.transfers.at(-1)?.to ?? 0];
      node.transfers.push({ block: node.head, id: 1, from: last, to: last + 1 });
      node.instead = (call, answer) =>
        call.method === method && "result" in answer ? { result: spoil(answer.result, name, odd) } : undefined;
      await eventually("the node was asked", async () => node.count("eth_getBlockByNumber") > before + 1 || undefined);
      await expectSound(service, node, { method, name, odd });
      node.instead = () => undefined;
    }
  }
  await expectTruth(service, node);
}

test("wrong values in the headers of blocks", async () => {
  await fuzz("eth_getBlockByNumber", HEADER_FIELDS, (header, name, odd) =>
    header === null ? null : spoiled(header as object, name, odd),
  );
}, 300_000);

test("wrong values in logs", async () => {
  await fuzz("eth_getLogs", LOG_FIELDS, (logs, name, odd) => (logs as object[]).map((log) => spoiled(log, name, odd)));
}, 300_000);

test("wrong receipts", async () => {
  const { node, service } = await begin();
  await synced(service, node.contract, node.head);
  for (const odd of [...ODD, [{ logs: null }], [{ logs: [{}] }], [null], [[{ logs: [] }]]]) {
    node.head++;
    const [before, last] = [node.count("eth_getBlockByNumber"), node.transfers.at(-1)?.to ?? 0];
    node.transfers.push({ block: node.head, id: 1, from: last, to: last + 1 });
    // Logs that are left out have the receipts read.
    node.instead = ({ method }) => {
      if (method === "eth_getLogs") return { result: [] };
      return method === "eth_getBlockReceipts" ? { result: odd === MISSING ? null : odd } : undefined;
    };
    await eventually("the node was asked", async () => node.count("eth_getBlockByNumber") > before + 1 || undefined);
    await expectSound(service, node, { odd });
  }
  await expectTruth(service, node);
}, 300_000);

test("wrong values in the answers of an archive", () => {
  const address = `0x${"a".repeat(40)}` as Address;
  const hash = `0x${"1".repeat(64)}`;
  const log = { address, topics: [TRANSFER, hash, hash, hash], data: "0x", transactionHash: hash, logIndex: 0 };
  const header = { number: 5, hash, parentHash: hash, timestamp: 1_700_000_000, logsBloom: logsBloomOf([log]) };
  const decode = (line: object) =>
    decodePortal({
      ...{ id: 1, raw: new TextEncoder().encode(`${JSON.stringify(line)}\n`), isArchives: true },
      ...{ address, forms: ["erc721"], fromBlock: 0, toBlock: 10 },
    });
  expect(decode({ header, logs: [log] })).toMatchObject({ range: { count: 1, coveredThrough: 5 } });
  for (const odd of ODD) {
    const value = odd === MISSING ? undefined : odd;
    for (const name of [...Object.keys(header), "receiptsRoot", "nonce", "difficulty"]) {
      const reply = decode({ header: spoiled(header, name, value), logs: [log] });
      expect([name, odd, "range" in reply || "kind" in reply]).toEqual([name, odd, true]);
    }
    for (const name of Object.keys(log)) {
      const reply = decode({ header, logs: [spoiled(log, name, value)] });
      expect([name, odd, "range" in reply || "kind" in reply]).toEqual([name, odd, true]);
    }
    for (const line of [
      { header: value, logs: [log] },
      { header, logs: value },
      { header, logs: [value] },
    ]) {
      const reply = decode(line);
      expect([line, "range" in reply || "kind" in reply]).toEqual([line, true]);
    }
  }
});

test("wrong results of calls about a contract", async () => {
  const { node, service } = await begin();
  const texts = [
    ...[word(32n) + word(2n ** 255n), word(2n ** 256n - 1n) + word(1n), word(32n) + word(64n) + word(1n), word(0n)],
    ...[word(2n ** 256n - 1n), word(1n).repeat(5_000), "ff", "f".repeat(63)],
  ].map((data) => `0x${data}`);
  for (const [at, odd] of [...ODD, ...texts].entries()) {
    const address = `0x${(0xabc000 + at).toString(16).padStart(40, "0")}`;
    node.instead = ({ method, params }) => {
      if (method === "eth_call") return { result: odd === MISSING ? undefined : odd };
      return method === "eth_getCode" && params?.[0] === address ? { result: "0x6001" } : undefined;
    };
    const paths = [`/api/v2/nft/${address}`, `/api/v2/erc20/${address}/price?include=depth,pair`];
    const answers = await Promise.all(paths.map((path) => service.get(path)));
    const told = answers.map(({ status, body }) => [200, 404, 503].includes(status) || [status, body]);
    expect([odd, told]).toEqual([odd, [true, true]]);
  }
  node.head++;
  await service.get(`/api/v2/nft/${node.contract}`);
  await expectTruth(service, node);
}, 300_000);
