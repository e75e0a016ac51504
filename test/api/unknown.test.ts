/** Unknown parameters are ignored and listed in a header of the answer, so that the client can find a typing error. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { operationsOf } from "../../src/api/app.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const HEADER = "x-unknown-parameters";
const PRICE = `/api/v2/erc20/0x${"ab".repeat(20)}/price`;

let anvil: Anvil;
let service: TestService;
let nft: string;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 4 });
  const { address, contract } = await deploy(anvil, await contractArtifact("PlainNft"), ["Unknown", "UNK"]);
  await transact(anvil, contract, "mintMany", [anvil.accounts[1], 1, 40]);
  await anvil.mine(20);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  nft = `/api/v2/nft/${address.toLowerCase()}`;
  await synced(service, address, 20);
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const named = async (path: string, init: RequestInit = {}): Promise<[number, string | null]> => {
  const response = await service.fetch(path, init);
  await response.arrayBuffer();
  return [response.status, response.headers.get(HEADER)];
};

describe("a listing", () => {
  test("does not name known parameters, an empty name or an empty query", async () => {
    for (const query of ["", "?", "?&&", "?=1", "?limit=5&chain=eth&cursor=", "?normalizeMetadata=true"]) {
      expect([query, ...(await named(`${nft}${query}`))]).toEqual([query, 200, null]);
    }
  });

  test("names the first five unknown parameters in their order, each once, and answers as without them", async () => {
    const plain = await service.get(`${nft}?limit=5`);
    const query = "limit=5&z=1&Limit=1&1=2&z=3&chains=bsc&4=&toBlock=3&sixth=7";
    const { status, headers, body } = await service.get(`${nft}?${query}`);
    expect([status, headers.get(HEADER)]).toEqual([200, "z, Limit, 1, chains, 4"]);
    expect(body.result).toEqual(plain.body.result);
    expect(headers.get("access-control-expose-headers")).toContain(HEADER);
  });

  test("percent-encodes the names and cuts them at 64 characters, never within an escape", async () => {
    const long = "a".repeat(100);
    const query = `${long}=1&${encodeURIComponent('a,b "\r\n')}=1&${encodeURIComponent(`x${"é".repeat(50)}`)}=1&a+b&%zz`;
    const [status, header] = await named(`${nft}?${query}`);
    const cut = `x${"%C3%A9".repeat(10)}`;
    expect([status, header]).toEqual([200, `${"a".repeat(64)}, a%2Cb%20%22%0D%0A, ${cut}, a%20b, %25zz`]);
  });

  test("names the parameters of the own query in cached, compressed, 304 and HEAD answers", async () => {
    const [one, two] = [`${nft}?limit=40&one=1`, `${nft}?limit=40&two=1`];
    for (let round = 0; round < 3; round++) {
      expect(await named(one)).toEqual([200, "one"]);
      expect(await named(two)).toEqual([200, "two"]);
      expect(await named(`${nft}?limit=40`)).toEqual([200, null]);
      expect(await named(one, { headers: { "accept-encoding": "gzip" } })).toEqual([200, "one"]);
    }
    const etag = (await service.get(two)).headers.get("etag")!;
    expect(await named(two, { headers: { "if-none-match": etag } })).toEqual([304, "two"]);
    expect(await named(two, { method: "HEAD" })).toEqual([200, "two"]);
  });
});

test("errors name unknown parameters if the query was read, and not otherwise", async () => {
  expect(await named(`${nft}?limit=0&limits=1`)).toEqual([400, "limits"]);
  expect(await named(`${nft}?chain=polygon&limits=1`, { method: "HEAD" })).toEqual([400, "limits"]);
  expect(await named("/api/v2/nft/0xzz?limits=1")).toEqual([400, "limits"]);
  expect(await named(`${nft}?limits=1`, { headers: { "x-api-key": "wrong-key-1" } })).toEqual([401, null]);
  expect(await named(`${nft}?limits=1`, { method: "POST" })).toEqual([405, null]);
  expect(await named("/api/v2/nope?limits=1")).toEqual([404, null]);
});

test("a price names its own unknown parameters", async () => {
  await eventually("the price is refused", async () =>
    (await named(`${PRICE}?limit=5&exchange=uniswapv2&to_date=1`)).join() === "404,limit, to_date" ? true : undefined,
  );
  expect(await named(`${PRICE}?exchange=nope&providers=1`)).toEqual([400, "providers"]);
  expect(await named(`${PRICE}?include=percent_change`)).toEqual([404, null]);
});

test("the known parameters are those of the OpenAPI document, which also describes the header", async () => {
  const { paths } = (await service.get("/swagger/json")).body;
  const operations = operationsOf(500).filter(({ scope, isUpgrade }) => scope !== undefined && isUpgrade !== true);
  expect(operations.length).toBeGreaterThan(20);
  for (const { method, path, query } of operations) {
    const documentedPath = path.replace(/:(\w+)/g, "{$1}");
    const { parameters = [], responses } = paths[documentedPath][method.toLowerCase()];
    const queries = parameters.filter((each: { in: string }) => each.in === "query");
    expect(Object.keys(query).sort()).toEqual(queries.map(({ name }: { name: string }) => name).sort());
    const described = Object.keys(responses).filter((status) => HEADER in responses[status].headers);
    const read = Object.keys(responses).filter((status) => !["401", "403", "429"].includes(status));
    expect([path, described]).toEqual([path, read]);
  }
});
