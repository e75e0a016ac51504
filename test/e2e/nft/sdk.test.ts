/**
 * The hosted service's own client, unmodified, against a running service: listings, walks by `next()`, formats, ranges,
 * metadata and media. Its raw answers must equal those of a plain GET, and its parsed records must make sense.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { type Collections, seedCollections } from "../../../scripts/local-chain/collections.ts";
import {
  metadataKnown,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
  walkListing,
} from "../../support/service.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests read single fields of the client's own shapes
type Shape = any;

interface Walked {
  readonly pages: readonly { readonly raw: Shape; readonly pagination: Shape; readonly parsed: readonly Shape[] }[];
  readonly error?: string;
}

let anvil: Anvil;
let collections: Collections;
let service: TestService;
let plain: string;
let multi: string;
let asked: Walked[];
/** Each request to the client, with the equivalent query of a plain GET. */
const requests = () => [
  { request: { address: plain, chain: "0x1" }, query: "" },
  { request: { address: plain, chain: "0x1", limit: 37 }, query: "limit=37" },
  {
    request: { address: plain.toUpperCase().replace("0X", "0x"), limit: 80, format: "hex" },
    query: "limit=80&format=hex",
  },
  ...[0, 1, 2].map((range) => ({
    request: { address: plain, chain: "0x1", limit: 25, totalRanges: 3, range },
    query: `limit=25&totalRanges=3&range=${range}`,
  })),
  {
    request: { address: plain, chain: "0x1", limit: 100, normalizeMetadata: true, mediaItems: true },
    query: "limit=100&normalizeMetadata=true&media_items=true",
  },
  { request: { address: multi, chain: "0x1", limit: 7 }, query: "limit=7" },
  { request: { address: plain, chain: "0x1", limit: 501 }, query: "limit=501" },
  { request: { address: plain, chain: "0x1", cursor: "nonsense" }, query: "cursor=nonsense" },
  { request: { address: plain, chain: "0x89" }, query: "chain=0x89" },
  { request: { address: `0x${"9".repeat(40)}`, chain: "0x1" }, query: "" },
];
const [DEFAULT, PAGED, HEX, RANGES, RICH, MULTI, TOO_MANY, BAD_CURSOR, OTHER_CHAIN, UNKNOWN] = [
  0, 1, 2, 3, 6, 7, 8, 9, 10, 11,
];

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  collections = await seedCollections(anvil);
  await anvil.mine(6);
  plain = collections.plain.address.toLowerCase();
  multi = collections.multi.address.toLowerCase();
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  for (const address of [plain, multi]) await synced(service, address);
  await metadataKnown(service, plain, multi);
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, "../../support/sdk-client.ts"), `${service.url}/api/v2`, TEST_KEY],
    {
      stdin: new TextEncoder().encode(JSON.stringify(requests().map(({ request }) => request))),
      stderr: "pipe",
    },
  );
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect(errors).toBe("");
  asked = JSON.parse(output);
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const walked = (index: number): Walked => asked[index] as Walked;
const recordsOf = (walk: Walked): Shape[] => walk.pages.flatMap(({ raw }) => raw.result);

describe("a walk by next() to the end", () => {
  test.each([
    ["with defaults", DEFAULT],
    ["of small pages", PAGED],
    ["in hex", HEX],
    ["of amounts", MULTI],
  ])("%s equals a walk by plain GETs", async (_what, index = 0) => {
    const { request, query } = requests()[index]!;
    expect(recordsOf(walked(index))).toEqual(await walkListing(service, request.address.toLowerCase(), query));
  });

  test("has the right number of pages, and numbers each of them", () => {
    const count = collections.plain.owners.size;
    expect(walked(DEFAULT!).pages).toHaveLength(Math.ceil(count / 100));
    const { pages } = walked(PAGED!);
    expect(pages).toHaveLength(Math.ceil(count / 37));
    for (const [index, { raw, pagination }] of pages.entries()) {
      const isLast = index === pages.length - 1;
      expect(raw).toMatchObject({ status: "SYNCED", total: null, page: String(index), page_size: "37" });
      expect(pagination.cursor === null).toBe(isLast);
    }
  });

  test("gives, over all ranges, each record of the listing once", async () => {
    const parts = [0, 1, 2].map((range) => recordsOf(walked(RANGES! + range)));
    expect(parts.flat()).toEqual(await walkListing(service, plain, "limit=500"));
    const sizes = parts.map((part) => part.length);
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
  });
});

describe("the client's parsed record", () => {
  test("contains the token, its owner and its name", () => {
    const tokens = walked(DEFAULT!).pages.flatMap(({ parsed }) => parsed);
    const owners = new Map(tokens.map((token) => [BigInt(token.tokenId), token.ownerOf]));
    expect(owners).toEqual(new Map(collections.plain.owners));
    const raw = recordsOf(walked(DEFAULT!));
    for (const [index, token] of tokens.entries()) {
      expect(token).toMatchObject({
        contractType: "ERC721",
        chain: "0x1",
        tokenAddress: plain,
        tokenHash: raw[index].token_hash,
        blockNumber: raw[index].block_number,
        blockNumberMinted: raw[index].block_number_minted,
        name: "Demo Editions",
        symbol: "EDIT",
      });
      expect(token.metadata).toEqual(JSON.parse(raw[index].metadata));
      expect(Number.isNaN(Date.parse(token.lastMetadataSync))).toBe(false);
    }
    for (const token of walked(HEX!).pages.flatMap(({ parsed }) => parsed))
      expect(BigInt(token.tokenId) > 0n).toBe(true);
  });

  test("contains the amount of an ERC-1155, and no owner if there are several", () => {
    const tokens = walked(MULTI!).pages.flatMap(({ parsed }) => parsed);
    const held = new Map([...collections.multi.balances].filter(([, owners]) => owners.size > 0));
    expect(new Set(tokens.map((token) => BigInt(token.tokenId)))).toEqual(new Set(held.keys()));
    for (const token of tokens) {
      const owners = held.get(BigInt(token.tokenId))!;
      expect(BigInt(token.amount)).toBe([...owners.values()].reduce((sum, amount) => sum + amount, 0n));
      expect(token.contractType).toBe("ERC1155");
      const only = owners.size === 1 ? [...owners.keys()][0] : undefined;
      expect(token.ownerOf ?? undefined).toBe(only as string);
    }
  });

  test("contains metadata and media with normalizeMetadata and mediaItems", () => {
    const tokens = walked(RICH!).pages.flatMap(({ parsed }) => parsed);
    expect(tokens).toHaveLength(collections.plain.owners.size);
    for (const token of tokens) {
      expect(token.normalizedMetadata.name).toStartWith("Edition ");
      expect(token.normalizedMetadata.attributes).toEqual([]);
      expect(["processing", "success"]).toContain(token.media.status);
      expect(token.media.originalMediaUrl).toStartWith("data:image/svg+xml");
    }
  });
});

test("passes the message of a refusal to the client", () => {
  expect(walked(TOO_MANY!).error).toContain("limit: must be a whole number from 1 to 500");
  expect(walked(BAD_CURSOR!).error).toContain("cursor: must be a cursor of this server");
  expect(walked(OTHER_CHAIN!).error).toContain("chain polygon is not enabled on this server");
});

test("gives an empty first page for a contract that was never requested", () => {
  const { pages } = walked(UNKNOWN!);
  expect(pages.map(({ raw, parsed }) => [raw.status, parsed])).toEqual([["SYNCING", []]]);
});
