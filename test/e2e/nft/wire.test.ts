/**
 * The edge of the listing: its refusals and their messages, every spelling of a chain, the headers of an answer, and
 * both wire types. No request of a client may cause a 500.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { gunzipSync } from "node:zlib";
import { getAddress } from "ethers";
import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../../scripts/local-chain/random.ts";
import { CHAINS, CONTRACT_CHAINS } from "../../../src/chains/chains.ts";
import { schemaFaults } from "../../support/schemas.ts";
import {
  type Answer,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../../support/service.ts";

const logUrl = temporaryLogUrl();
let anvil: Anvil;
let service: TestService;
let nft: Deployed;
let other: Deployed;
let address: string;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ['Quote " and \\', "<b>&"]);
  other = await deploy(anvil, await contractArtifact("PlainNft"), ["Other", "OTH"]);
  for (const { contract } of [nft, other]) await transact(anvil, contract, "mintMany", [anvil.accounts[1], 1, 30]);
  await anvil.mine(8);
  address = nft.address.toLowerCase();
  service = await startTestService({ rpcUrl: anvil.url, logUrl });
  for (const each of [nft, other]) await synced(service, each.address);
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const get = (query: string, of = address) => service.get(`/api/v2/nft/${of}?${query}`);

function expectRefusal({ status, body }: Answer, parameter: string): void {
  expect({ status, code: body.code, parameter: body.details?.parameter }).toEqual({
    status: 400,
    code: "invalid_parameter",
    parameter,
  });
  expect(body.message).toStartWith(`${parameter}: `);
}

const BAD_NUMBERS = [
  "1e9",
  "-0",
  "-1",
  "0x10",
  "９",
  "1.0",
  " 1",
  "1 ",
  "+1",
  "",
  "NaN",
  "1_0",
  "10000000000000000000",
  "٣",
  "1,2",
];

describe("an invalid parameter is refused by name", () => {
  const numbers = ["limit", "totalRanges", "as_of_block"].flatMap((name) =>
    BAD_NUMBERS.map((value) => [name, value] as const),
  );
  test.each(numbers)("for %s=%p", async (name, value) => {
    expectRefusal(await get(`${name}=${encodeURIComponent(value)}`), name);
  });

  test.each([
    ["limit=0", "limit"],
    ["limit=501", "limit"],
    ["totalRanges=0", "totalRanges"],
    ["totalRanges=1001", "totalRanges"],
    ["range=0", "range"],
    ["totalRanges=2&range=2", "range"],
    ["totalRanges=2&range=-1", "range"],
    ["format=HEX", "format"],
    ["format=", "format"],
    ["format=hex%00", "format"],
    ["disable_total=2", "disable_total"],
    ["disable_total=", "disable_total"],
    ["holders=T", "holders"],
    ["normalizeMetadata=yes", "normalizeMetadata"],
    ["media_items=00", "media_items"],
    ["chain=", "chain"],
    ["chain=ethereal", "chain"],
    ["chain=0x01", "chain"],
    ["chain=01", "chain"],
    ["chain=constructor", "chain"],
    ["chain=eth%20", "chain"],
    ...["limit", "format", "chain", "cursor", "range", "totalRanges", "holders", "disable_total", "as_of_block"].map(
      (name): [string, string] => [`${name}=1&${name}=1`, name],
    ),
  ])("for the query %s", async (query, parameter) => {
    expectRefusal(await get(query), parameter);
  });

  test("for a malformed address", async () => {
    const digits = getAddress(nft.address).slice(2);
    const swapped = `0x${[...digits].map((c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase())).join("")}`;
    for (const bad of [
      swapped,
      "0x12",
      `${address}0`,
      digits,
      `0X${digits}`,
      "0x%zz",
      "%00",
      `${address}%20`,
      "null",
    ]) {
      expectRefusal(await get("", bad), "address");
    }
    // A proxy may read it as another path, so it is refused before anything else.
    expectRefusal(await get("", "..%2f"), "url");
    for (const good of [nft.address, address, `0x${digits.toUpperCase()}`, `%30x${digits}`]) {
      expect((await get("limit=1", good)).body.result[0].token_address).toBe(address);
    }
  });

  test("but not for unknown parameters or odd encodings", async () => {
    for (const query of ["foo=bar&foo=baz", "__proto__=1", "%zz=%zz&limit=1", "&&&=&", "limit=%31"]) {
      expect((await get(query)).status).toBe(200);
    }
  });
});

describe("a cursor that the service did not issue is refused", () => {
  const cursorOf = async (query = "limit=7", of = address) => (await get(query, of)).body.cursor as string;
  const refused = async (cursor: string, of = address, extra = "") =>
    expectRefusal(await get(`cursor=${encodeURIComponent(cursor)}${extra}`, of), "cursor");

  test("if it is truncated anywhere", async () => {
    const cursor = await cursorOf();
    for (let length = 1; length < cursor.length; length++) await refused(cursor.slice(0, length));
    for (let start = 1; start < cursor.length; start += 7) await refused(cursor.slice(start));
  });

  test("if any bit is flipped", async () => {
    const cursor = await cursorOf();
    const bytes = Buffer.from(cursor, "base64url");
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const flipped = Buffer.from(bytes);
      flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
      await refused(flipped.toString("base64url"));
    }
  });

  test("if any character of its text is changed, added or spelt differently", async () => {
    const cursor = await cursorOf();
    for (let at = 0; at < cursor.length; at++) {
      const changed = cursor[at] === "A" ? "B" : "A";
      await refused(cursor.slice(0, at) + changed + cursor.slice(at + 1));
    }
    for (const odd of [`${cursor}A`, `${cursor}=`, ` ${cursor}`, `${cursor}\n`, `${cursor}%`, "null", "0", "{}", "🙂"])
      await refused(odd);
  });

  test("if it belongs to another contract, another chain or another server", async () => {
    await refused(await cursorOf(), other.address.toLowerCase());
    await refused(await cursorOf("limit=7", other.address));
    expectRefusal(await get(`chain=polygon&cursor=${await cursorOf()}`), "cursor");
    const stranger = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
    try {
      await synced(stranger, address);
      const { body } = await stranger.get(`/api/v2/nft/${address}?limit=7`);
      await refused(body.cursor);
    } finally {
      await stranger.stop();
    }
  });

  test("if it is longer than any real cursor", async () => {
    for (const length of [1_024, 1_025, 7_000, 100_000, 1_000_000]) {
      await refused("A".repeat(length));
    }
  });

  test("if it consists of random bytes", async () => {
    const random = createRandom(5);
    for (let i = 0; i < 200; i++) {
      const bytes = Uint8Array.from({ length: 1 + random.below(300) }, () => random.below(256));
      await refused(Buffer.from(bytes).toString("base64url"));
    }
  });

  test("also together with as_of_block, ranges and other parameters", async () => {
    const cursor = await cursorOf("limit=3&totalRanges=2&range=1&as_of_block=6");
    expect((await get(`cursor=${cursor}`)).status).toBe(200);
    await refused(`${cursor.slice(0, -1)}${cursor.endsWith("A") ? "B" : "A"}`, address, "&limit=3");
  });
});

describe("the chain parameter", () => {
  const spellings = CHAINS.flatMap(({ name, code, chainId }) =>
    [
      name,
      name.toUpperCase(),
      code,
      code.toUpperCase().replace("0X", "0x"),
      name.replaceAll(" ", "%20"),
      name.replaceAll(" ", "+"),
    ].map((text): [string, number] => [text, chainId]),
  );
  test.each(spellings)("accepts %s", async (text, chainId) => {
    const { status, body } = await get(`limit=1&chain=${text}`);
    if (chainId === 1) expect([status, body.result.length]).toEqual([200, 1]);
    else expect([status, body.code]).toEqual([400, "chain_not_enabled"]);
  });

  test("is refused with the twelve chains if the chain is unknown", async () => {
    const { body } = await get("chain=dogechain");
    for (const { name, code } of CONTRACT_CHAINS) expect(body.message).toContain(`${name} (${code})`);
  });
});

describe("an answer", () => {
  test("states block, hash, finality and caching, and is a 304 if the client has it", async () => {
    const path = `/api/v2/nft/${address}?limit=5`;
    const { headers } = await service.get(path);
    const head = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { number: string; hash: string };
    expect(headers.get("x-as-of-block")).toBe(String(Number(head.number)));
    expect(headers.get("x-as-of-hash")).toBe(head.hash);
    expect(headers.get("x-finality")).toBe("latest");
    expect(headers.get("cache-control")).toBe("private, no-cache");
    expect(headers.get("x-request-id")).not.toBeNull();
    const etag = headers.get("etag") as string;
    for (const tag of [etag, `"x", ${etag}`, "*"]) {
      const again = await service.fetch(path, { headers: { "if-none-match": tag } });
      expect([again.status, await again.text(), again.headers.get("etag")]).toEqual([304, "", etag]);
    }
    expect((await service.fetch(path, { headers: { "if-none-match": '"x"' } })).status).toBe(200);
    const finalized = await get("as_of_block=5");
    expect([finalized.headers.get("x-finality"), finalized.headers.get("x-as-of-block")]).toEqual(["finalized", "5"]);
  });

  test("to HEAD equals that to GET without the body", async () => {
    for (const query of ["limit=5", "limit=0", "limit=30"]) {
      const path = `/api/v2/nft/${address}?${query}`;
      const headers = { "accept-encoding": "identity" };
      const [full, head] = [
        await service.fetch(path, { headers }),
        await service.fetch(path, { method: "HEAD", headers }),
      ];
      const bytes = (await full.arrayBuffer()).byteLength;
      expect(head.status).toBe(full.status);
      expect((await head.arrayBuffer()).byteLength).toBe(0);
      expect(head.headers.get("content-length")).toBe(String(bytes));
      for (const name of ["etag", "x-as-of-block", "content-type"]) {
        expect(head.headers.get(name)).toBe(full.headers.get(name));
      }
    }
  });

  test("has the same bytes with gzip and zstd", async () => {
    const path = `/api/v2/nft/${address}?limit=30`;
    const raw = async (encoding: string) => {
      const response = await service.fetch(path, {
        headers: { "accept-encoding": encoding },
        decompress: false,
      } as RequestInit);
      return {
        encoding: response.headers.get("content-encoding"),
        bytes: new Uint8Array(await response.arrayBuffer()),
      };
    };
    const plain = await raw("identity");
    const [gzip, zstd] = [await raw("gzip"), await raw("gzip;q=0.5, zstd")];
    expect([plain.encoding, gzip.encoding, zstd.encoding]).toEqual([null, "gzip", "zstd"]);
    expect(new Uint8Array(gunzipSync(gzip.bytes))).toEqual(plain.bytes);
    expect(new Uint8Array(Bun.zstdDecompressSync(zstd.bytes))).toEqual(plain.bytes);
    expect(gzip.bytes.length).toBeLessThan(plain.bytes.length / 3);
  });

  test("is served for any accept header", async () => {
    for (const accept of ["text/html", "image/*", "application/xml;q=1", ""]) {
      const { status, body } = await service.get(`/api/v2/nft/${address}`, { accept });
      expect([status, body.result.length]).toEqual([200, 30]);
    }
  });
});

const RECORD = [
  ...["token_address", "token_id", "owner_of", "token_hash", "block_number", "block_number_minted", "contract_type"],
  ...["token_uri", "metadata", "normalized_metadata", "media", "minter_address", "amount", "name", "symbol"],
  ...["possible_spam", "verified_collection", "last_token_uri_sync", "last_metadata_sync"],
];

describe("a record", () => {
  test("has the documented fields in the documented order, and its name unchanged", async () => {
    const { body } = await get("limit=1&disable_total=false");
    expect(Object.keys(body)).toEqual(["status", "total", "page", "page_size", "cursor", "result"]);
    expect(body).toMatchObject({ total: "30", page: "0", page_size: "1" });
    const record = body.result[0];
    expect(Object.keys(record)).toEqual(RECORD);
    expect(record).toMatchObject({
      name: 'Quote " and \\',
      symbol: "<b>&",
      token_hash: new Bun.CryptoHasher("md5").update(`${address}1`).digest("hex"),
      possible_spam: "false",
      verified_collection: "false",
      normalized_metadata: "",
      media: "",
      metadata: null,
    });
    const hex = (await get("limit=11&format=hex")).body.result[10];
    expect([hex.token_id, hex.token_hash]).toEqual([
      "0xb",
      new Bun.CryptoHasher("md5").update(`${address}11`).digest("hex"),
    ]);
  });

  test("has numbers and booleans with WIRE_TYPES=native", async () => {
    const native = await startTestService({
      rpcUrl: anvil.url,
      logUrl: temporaryLogUrl(),
      env: { WIRE_TYPES: "native" },
    });
    try {
      const syncing = await native.get(`/api/v2/nft/${address}?disable_total=false`);
      expect(syncing.body).toEqual({ status: "SYNCING", total: 0, page: 0, page_size: 100, cursor: null, result: [] });
      await synced(native, address);
      const { body } = await native.get(`/api/v2/nft/${address}?limit=7&disable_total=false`);
      expect([body.total, body.page, body.page_size]).toEqual([30, 0, 7]);
      for (const each of [syncing.body, body]) expect(await schemaFaults(native, "NftPage", each)).toEqual([]);
      expect([body.result[0].possible_spam, body.result[0].verified_collection]).toEqual([false, false]);
      const next = await native.get(`/api/v2/nft/${address}?cursor=${body.cursor}`);
      expect([next.body.total, next.body.page]).toEqual([30, 1]);
    } finally {
      await native.stop();
    }
  });

  test("is not waited for if the contract is unknown: the first answer is immediate, empty and SYNCING", async () => {
    const stranger = `0x${"9".repeat(40)}`;
    const { status, body } = await get("", stranger);
    expect([status, body]).toEqual([
      200,
      { status: "SYNCING", total: null, page: "0", page_size: "100", cursor: null, result: [] },
    ]);
  });
});

test("requires the API key", async () => {
  const bare = await fetch(`http://127.0.0.1:${service.port}/api/v2/nft/${address}?limit=1`);
  expect([bare.status, ((await bare.json()) as { code: string }).code]).toEqual([401, "missing_api_key"]);
  const shouted = await fetch(`http://127.0.0.1:${service.port}/api/v2/nft/${address}?limit=1`, {
    headers: { "X-API-KEY": TEST_KEY },
  });
  expect(shouted.status).toBe(200);
});
