/**
 * The document about a collection (ERC-7572) and the metadata of ERC-6909 tokens, from real contracts on a local chain and
 * a content server behind a recording wire.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import sharp from "sharp";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type RecordingWire, recordingWire } from "../support/metadata/wire.ts";
import { schemaFaults } from "../support/schemas.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";
const PUBLIC = "93.184.215.14";
const LONG = "long ".repeat(2_000);

let anvil: Anvil;
let service: TestService;
let web: ReturnType<typeof Bun.serve>;
let wire: RecordingWire;
let claims: Deployed;
let badges: Deployed;
let silent: Deployed;
/** Answers of the content server, by path, and how often each was asked for. */
const pages = new Map<string, () => Response>();
const asked = new Map<string, number>();

const json = (value: unknown) => () => Response.json(value);
const LOGO = "https://content.example/logo.png";

beforeAll(async () => {
  web = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => {
      const { pathname } = new URL(request.url);
      asked.set(pathname, (asked.get(pathname) ?? 0) + 1);
      return pages.get(pathname)?.() ?? new Response("no", { status: 404 });
    },
  });
  const png = new Uint8Array(
    await sharp({ create: { width: 30, height: 60, channels: 3, background: "#0a0" } })
      .png()
      .toBuffer(),
  );
  pages.set("/logo.png", () => new Response(png));
  pages.set(
    "/claims.json",
    json({ name: "Claims\u0007 of all", description: LONG, image: LOGO, external_link: "https://claims.example/" }),
  );
  pages.set("/badges.json", json({ name: "Another name", description: "first" }));
  pages.set("/later.json", json({ name: "Another name", description: "second" }));
  pages.set("/spam.json", json({ name: "Visit free-eth.com to claim" }));
  pages.set(`/item/${"7".padStart(64, "0")}.json`, json({ name: "item 7" }));
  const names = { "content.example": [PUBLIC] };
  wire = recordingWire({ names, ports: { [PUBLIC]: web.port as number } });
  anvil = await startAnvil();
  claims = await deploy(anvil, await contractArtifact("Claims"));
  badges = await deploy(anvil, await contractArtifact("Badges"), ["Badges", "BDG"]);
  silent = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await transact(anvil, claims.contract, "mint", [anvil.accounts[1], 7, 5]);
  await transact(anvil, claims.contract, "setTokenURI", [7, "https://content.example/item/{id}.json"]);
  await transact(anvil, claims.contract, "setContractURI", ["https://content.example/claims.json"]);
  await transact(anvil, badges.contract, "setContractURI", ["https://content.example/badges.json"]);
  for (const { contract } of [badges, silent]) await transact(anvil, contract, "mint", [anvil.accounts[1], 1]);
  service = await startTestService({
    ...{ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), metadataWire: wire },
    env: { OPERATOR_KEYS: OPERATOR },
  });
  for (const each of [claims, badges, silent]) await synced(service, each.address);
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  await web?.stop(true);
});

// biome-ignore lint/suspicious/noExplicitAny: tests read single fields of answers
type Details = any;

const details = async ({ address }: Deployed): Promise<Details> =>
  (await service.get(`/api/collections/eth/${address}`)).body;
const described = (of: Deployed, what: string, probe: (found: Details) => boolean): Promise<Details> =>
  eventually(what, async () => {
    const found = await details(of);
    return probe(found) ? found : undefined;
  });
const records = async ({ address }: Deployed): Promise<Details[]> =>
  (await service.get(`/api/v2/nft/${address}?normalizeMetadata=true`)).body.result;

test("shows picture, description and link of a collection, and the document's name where the contract has none", async () => {
  const found = await described(claims, "the picture is examined", ({ media }) => media.status === "success");
  expect(await schemaFaults(service, "CollectionDetails", found)).toEqual([]);
  expect(found).toMatchObject({
    name: "Claims of all",
    type: "ERC6909",
    description: LONG.slice(0, 5_000),
    image: LOGO,
    externalLink: "https://claims.example/",
    contractUri: "https://content.example/claims.json",
    contractUriFailure: null,
    flags: { possibleSpam: false, rule: null },
  });
  const { low } = found.media.media_collection;
  const preview = await service.fetch(new URL(low.url).pathname);
  expect([preview.status, preview.headers.get("content-type")]).toEqual([200, "image/webp"]);
  const [record] = await records(claims);
  expect([record.name, record.symbol, record.contract_type]).toEqual(["Claims of all", "", "ERC6909"]);
  const { body } = await service.get(`/api/collections/eth/${claims.address}/tokens/7`);
  expect(body.record.name).toBe("Claims of all");
});

test("counts the document as no token", async () => {
  const found = await described(claims, "the token has metadata", ({ metadata }) => metadata.resolved === 1);
  expect(found.metadata).toEqual({ resolved: 1, failed: 0, left: 0, reasons: {}, failedTokens: [] });
  const none = await described(silent, "the call has failed", ({ contractUriFailure }) => contractUriFailure !== null);
  expect(none).toMatchObject({ contractUri: null, contractUriFailure: "no_uri", description: null, image: null });
  expect(none.metadata.reasons.no_uri ?? 0).toBe(none.metadata.failed);
});

test("reads the URI of an ERC-6909 token, with its id in hexadecimal", async () => {
  const record = await eventually("the token has metadata", async () => {
    const [first] = await records(claims);
    return first.metadata === null ? undefined : first;
  });
  expect([record.token_uri, record.normalized_metadata.name]).toEqual([
    "https://content.example/item/{id}.json",
    "item 7",
  ]);
});

test("keeps the contract's own name, and fetches the document anew on ContractURIUpdated", async () => {
  await described(badges, "the first document", ({ description }) => description === "first");
  await transact(anvil, badges.contract, "setContractURI", ["https://content.example/later.json"]);
  const found = await described(badges, "the second document", ({ description }) => description === "second");
  expect(found.name).toBe("Badges");
  expect((await records(badges))[0].name).toBe("Badges");
  // The block with the announcement is replaced by one without it.
  await reorg(anvil, 1, []);
  await described(badges, "the first document again", ({ description }) => description === "first");
});

test("keeps what is known while the document fails, with the reason, and fetches it anew for an operator", async () => {
  pages.set("/badges.json", () => new Response("no", { status: 404 }));
  const refresh = () =>
    service.fetch(`/api/collections/eth/${badges.address}/refresh`, {
      method: "POST",
      headers: { "x-api-key": OPERATOR, "content-type": "application/json" },
      body: "{}",
    });
  expect((await refresh()).status).toBe(200);
  const failed = await described(badges, "the failure", ({ contractUriFailure }) => contractUriFailure !== null);
  expect([failed.contractUriFailure, failed.description]).toEqual(["not_found", "first"]);
  pages.set("/badges.json", json({ name: "Another name", description: "third" }));
  await refresh();
  const repaired = await described(badges, "the third document", ({ description }) => description === "third");
  expect(repaired.contractUriFailure).toBeNull();
});

test("judges a name from the document like a contract's own", async () => {
  await transact(anvil, claims.contract, "setContractURI", ["https://content.example/spam.json"]);
  const found = await described(claims, "the other name", ({ name }) => name.startsWith("Visit"));
  expect(found.flags).toEqual({ possibleSpam: true, verifiedCollection: false, rule: "name-url" });
  const [record] = await records(claims);
  expect(record.possible_spam).toBe("true");
  const holder = (await service.get(`/api/v2/nft/${claims.address}/owners?limit=1`)).body.result[0].owner_of;
  const flagsIn = async (path: string) =>
    (await service.get(`/api/v2${path}`)).body.result
      .filter((one: Body) => one.token_address === claims.address.toLowerCase())
      .map((one: Body) => one.possible_spam);
  for (const path of [`/${holder}/nft`, `/${holder}/nft/collections`, `/nft/${claims.address}/transfers`]) {
    expect([path, new Set(await flagsIn(path))]).toEqual([path, new Set(["true"])]);
  }
  expect(await flagsIn(`/${holder}/nft?exclude_spam=true`)).toEqual([]);
  expect(await flagsIn(`/${holder}/nft/collections?exclude_spam=true`)).toEqual([]);
});

test("fetches a document once, however often it is read", async () => {
  const before = asked.get("/spam.json");
  for (let i = 0; i < 20; i++) await details(claims);
  expect(asked.get("/spam.json")).toBe(before as number);
});
