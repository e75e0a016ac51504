/**
 * Metadata of real contracts on a local chain, with content from a server behind a recording wire: the fields of
 * records, each status of a picture, announced and unannounced changes, retries, the past, the socket, and the hosted
 * service's own client. Private addresses are not allowed here.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import sharp from "sharp";
import WebSocket from "ws";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { ADDRESS_TRAPS, TRAP_NAMES } from "../support/metadata/traps.ts";
import { type RecordingWire, recordingWire } from "../support/metadata/wire.ts";
import { schemaFaults } from "../support/schemas.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const PUBLIC = "93.184.215.14";
const CID = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPbdG";
const MAX_ID = (1n << 256n) - 1n;
const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><script>alert(1)</script><rect width="20" height="10" fill="red"/></svg>';

let anvil: Anvil;
let service: TestService;
let web: ReturnType<typeof Bun.serve>;
let wire: RecordingWire;
let story: Deployed;
let plain: Deployed;
let multi: Deployed;
/** Answers of the content server, by path. */
const pages = new Map<string, () => Response>();

const json = (value: unknown) => () => Response.json(value);
const inline = (value: unknown) =>
  `data:application/json;base64,${Buffer.from(JSON.stringify(value)).toString("base64")}`;

const STORIES: readonly string[] = [
  inline({ name: "inline", attributes: [{ trait_type: "Level", value: 3 }] }),
  "https://content.example/2.json",
  `ipfs://ipfs/${CID}/3.json`,
  "ar://abc/4.json",
  SVG,
  "https://content.example/page.html",
  "http://127.0.0.1/secret",
  "https://gone.example/8.json",
  "https://content.example/9.json",
  inline({ name: "film", image: "https://content.example/film.mp4" }),
  inline({ name: "text", image: "https://content.example/page.html" }),
  inline({ name: "bad address", image: "http://10.0.0.1/x.png" }),
  inline({ name: "dead host", image: "https://gone.example/x.png" }),
  inline({ name: "not now", image: "https://content.example/broken.png" }),
  "https://content.example/late.json",
  "",
];

beforeAll(async () => {
  web = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => pages.get(new URL(request.url).pathname)?.() ?? new Response("no", { status: 404 }),
  });
  const png = new Uint8Array(
    await sharp({ create: { width: 30, height: 60, channels: 3, background: "#0a0" } })
      .png()
      .toBuffer(),
  );
  const film = new TextEncoder().encode("\0\0\0\x18ftypmp42\0\0\0\0mp42isom");
  pages.set(
    "/2.json",
    () =>
      new Response('{"name":"two", "image":"https://content.example/a.png"} ', {
        headers: { "content-type": "text/html" },
      }),
  );
  pages.set(`/ipfs/${CID}/3.json`, json({ name: "three" }));
  pages.set("/abc/4.json", json({ name: "four" }));
  pages.set("/page.html", () => new Response("<!doctype html><p>no", { headers: { "content-type": "text/html" } }));
  pages.set("/9.json", json({ name: "nine" }));
  pages.set("/a.png", () => new Response(png, { headers: { "content-type": "application/octet-stream" } }));
  pages.set("/film.mp4", () => new Response(film));
  pages.set("/broken.png", () => new Response("no", { status: 503 }));
  wire = recordingWire({
    names: {
      ...TRAP_NAMES,
      "content.example": [PUBLIC],
      "gateway.example": [PUBLIC],
      "arweave.net": [PUBLIC],
      "gone.example": ["93.184.215.99"],
    },
    ports: { [PUBLIC]: web.port as number },
  });
  anvil = await startAnvil();
  await placeMainnet(anvil);
  story = await deploy(anvil, await contractArtifact("StoryNft"), ["Stories", "STO"]);
  plain = await deploy(anvil, await contractArtifact("StoryNft"), ["Plain", "PLN"]);
  multi = await deploy(anvil, await contractArtifact("MultiToken"), [
    "Multi",
    "MUL",
    "https://content.example/multi/{id}.json",
  ]);
  await transact(anvil, story.contract, "mintStories", [anvil.accounts[1], 1, STORIES]);
  await transact(anvil, story.contract, "mintStories", [anvil.accounts[1], 100, [inline({ name: "burns gas" })]]);
  await transact(anvil, story.contract, "setBurning", [100]);
  await transact(anvil, plain.contract, "mintMany", [anvil.accounts[1], 1, 30]);
  await transact(anvil, plain.contract, "setBase", ["https://content.example/hidden/", ".json"]);
  for (const id of [1, 2]) await transact(anvil, multi.contract, "mint", [anvil.accounts[1], id, 5]);
  for (let id = 1; id <= 30; id++) {
    pages.set(`/hidden/${id}.json`, json({ name: "hidden" }));
    pages.set(`/shown/${id}.json`, json({ name: `shown ${id}` }));
  }
  for (const id of ["1", "2"]) pages.set(`/multi/${id.padStart(64, "0")}.json`, json({ name: `item ${id}` }));
  service = await startTestService({
    rpcUrl: anvil.url,
    logUrl: temporaryLogUrl(),
    env: { IPFS_GATEWAYS: "https://gateway.example" },
    metadataWire: wire,
    metadataSampleMs: 400,
  });
  for (const each of [story, plain, multi]) await synced(service, each.address);
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  await web?.stop(true);
});

// biome-ignore lint/suspicious/noExplicitAny: tests read single fields of records
type Row = any;

const rows = async (of: Deployed, query = ""): Promise<Row[]> =>
  (await service.get(`/api/v2/nft/${of.address}?limit=500&normalizeMetadata=true&media_items=true${query}`)).body
    .result;

/** Returns the record of a token when `probe` accepts it. `what` names that condition. */
const row = (of: Deployed, id: number, what: string, probe: (row: Row) => boolean): Promise<Row> =>
  eventually(`token ${id}: ${what}`, async () => (await rows(of)).find((r) => r.token_id === String(id) && probe(r)));

const metrics = async (): Promise<string> => (await service.fetch("/metrics")).text();

test("shows for each token the content of its URI or the reason for its absence, and calls no private address", async () => {
  const settled = await eventually("all tokens have an outcome", async () => {
    const list = await rows(story);
    const processing = list.filter((r) => r.media.status === "processing").length;
    return processing === 0 ? list : undefined;
  });
  for (const record of settled) expect(await schemaFaults(service, "NftRecord", record)).toEqual([]);
  const by = new Map(settled.map((r) => [Number(r.token_id), r]));
  const facts = (id: number) => {
    const { token_uri, metadata, normalized_metadata, media } = by.get(id);
    return [token_uri, metadata, normalized_metadata.name, media.status];
  };
  expect(facts(1)).toEqual([STORIES[0], expect.stringContaining('"inline"'), "inline", "invalid_url"]);
  expect(by.get(1).normalized_metadata.attributes).toEqual([
    { trait_type: "Level", value: 3, display_type: null, max_value: null, trait_count: 0, order: null },
  ]);
  expect(facts(2)).toEqual([STORIES[1], '{"name":"two", "image":"https://content.example/a.png"}', "two", "success"]);
  expect(facts(3)).toEqual([STORIES[2], '{"name":"three"}', "three", "invalid_url"]);
  expect(facts(4)).toEqual([STORIES[3], '{"name":"four"}', "four", "invalid_url"]);
  expect(facts(5)).toEqual([SVG, null, null, "success"]);
  expect(by.get(5).normalized_metadata.image).toStartWith("data:image/svg+xml;base64,");
  expect(facts(6)).toEqual([STORIES[5], null, null, "unsupported_media"]);
  expect(facts(7)).toEqual([STORIES[6], null, null, "invalid_url"]);
  expect(facts(8)).toEqual([STORIES[7], null, null, "host_unavailable"]);
  expect(facts(10)).toEqual([STORIES[9], expect.any(String), "film", "success"]);
  expect(by.get(10).media).toMatchObject({ category: "video", mimetype: "video/mp4", media_collection: null });
  expect(by.get(10).media.original_media_url).toBe("https://content.example/film.mp4");
  expect([11, 12, 13, 14].map((id) => by.get(id).media.status)).toEqual([
    "unsupported_media",
    "invalid_url",
    "host_unavailable",
    "temporarily_unavailable",
  ]);
  expect(facts(16)).toEqual([null, null, null, "invalid_url"]);
  expect(facts(100)).toEqual([null, null, null, "invalid_url"]);
  for (const r of settled) {
    for (const time of [r.last_token_uri_sync, r.last_metadata_sync]) {
      if (time !== null) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    }
    expect(r.metadata === null).toBe(r.last_metadata_sync === null || Number(r.token_id) === 5);
    expect(r.token_uri === null).toBe(r.last_token_uri_sync === null);
  }
  expect(wire.attempts.every((attempt) => attempt.startsWith("93.184.215."))).toBe(true);
  const text = await metrics();
  for (const outcome of ["resolved", "forbidden_address", "not_json", "connection_failed", "not_found", "no_uri"]) {
    expect(text).toContain(`metadata_outcomes_total{chain="eth",outcome="${outcome}"}`);
  }
});

test("gives each of fifty concurrent hostile URIs its reason, reaches none of their targets, and delays no other token", async () => {
  const bad = await deploy(anvil, await contractArtifact("StoryNft"), ["Traps", "TRP"]);
  const uris = ADDRESS_TRAPS.filter(([, , connections]) => connections === 0).map(([uri]) => uri);
  const good = inline({ name: "good" });
  await transact(anvil, bad.contract, "mintStories", [anvil.accounts[1], 1, [...uris, good]]);
  const before = wire.attempts.length;
  const counted = async () =>
    [...(await metrics()).matchAll(/^metadata_outcomes_total\{.*outcome="(\w+)"\} (\d+)/gm)].map(([, name, n]) => [
      name,
      Number(n),
    ]);
  const start = new Map((await counted()) as [string, number][]);
  await synced(service, bad.address);
  await row(bad, uris.length + 1, "the good one", (r) => r.metadata !== null);
  await eventually("all hostile URIs have their reason", async () => {
    const rest = new Map<string, number>();
    for (const [, reason, connections] of ADDRESS_TRAPS) {
      if (connections === 0) rest.set(reason, (rest.get(reason) ?? 0) + 1);
    }
    for (const [name, n] of (await counted()) as [string, number][]) {
      const left = (rest.get(name) ?? 0) - (n - (start.get(name) ?? 0));
      if (left <= 0) rest.delete(name);
      else rest.set(name, left);
    }
    return rest.size === 0 ? true : undefined;
  });
  // Retries and samples of the other collections continue meanwhile.
  const others = /content\.example|gone\.example|gateway\.example|arweave\.net/;
  const mine = wire.attempts.slice(before).filter((attempt) => !others.test(attempt));
  expect(mine).toEqual([]);
});

test("leaves the two fields empty without their parameters, and changes the entity tag with the metadata", async () => {
  const answer = await service.get(`/api/v2/nft/${story.address}?limit=1`);
  expect([answer.body.result[0].normalized_metadata, answer.body.result[0].media]).toEqual(["", ""]);
  const again = await service.fetch(`/api/v2/nft/${story.address}?limit=1`, {
    headers: { "if-none-match": answer.headers.get("etag") as string },
  });
  expect(again.status).toBe(304);
});

test("serves previews without a key and cacheable for ever, with their own type, and no other stored bytes", async () => {
  const { media } = await row(story, 2, "picture", (r) => r.media.status === "success");
  expect(media).toMatchObject({
    mimetype: "image/png",
    category: "image",
    original_media_url: "https://content.example/a.png",
  });
  expect(media.parent_hash).toMatch(/^0x[0-9a-f]{64}$/);
  const sizes = { low: 100, medium: 250, high: 500 };
  for (const [name, size] of Object.entries(sizes)) {
    const { url, width, height } = media.media_collection[name];
    expect([width, height]).toEqual([size / 2, size]);
    expect(url).toStartWith(`${service.url}/media/`);
    const response = await fetch(url);
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "image/webp"]);
    expect(response.headers.get("cache-control")).toContain("immutable");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("content-security-policy")).toContain("sandbox");
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(url).toContain(new Bun.CryptoHasher("sha256").update(bytes).digest("hex"));
    expect(await sharp(bytes).metadata()).toMatchObject({ format: "webp", width, height });
    expect((await fetch(url, { headers: { "if-none-match": `"${url.split("/").at(-2)}"` } })).status).toBe(304);
    expect((await fetch(url.replace(/\d+$/, size === 100 ? "500" : "100"))).status).toBe(404);
  }
  const body = new Bun.CryptoHasher("sha256").update('{"name":"three"}').digest("hex");
  for (const path of [`${body}/100`, `${"0".repeat(64)}/100`, "xyz/100", `${body}/99`, `${body.toUpperCase()}/100`]) {
    const response = await fetch(`${service.url}/media/${path}`);
    expect([path, response.status, ((await response.json()) as Row).code]).toEqual([path, 404, "not_found"]);
  }
});

describe("freshness", () => {
  test("by ERC-4906 updates one token, then all tokens to 2^256-1, and metadata_as_of shows the earlier state", async () => {
    const before = await row(story, 9, "first", (r) => r.normalized_metadata.name === "nine");
    pages.set("/9.json", json({ name: "nine, changed" }));
    await transact(anvil, story.contract, "announce", [9]);
    const after = await row(story, 9, "changed", (r) => r.normalized_metadata.name === "nine, changed");
    expect(after.last_metadata_sync > before.last_metadata_sync).toBe(true);
    pages.set("/9.json", json({ name: "nine, again" }));
    await transact(anvil, story.contract, "announceBatch", [0, MAX_ID]);
    const last = await row(story, 9, "again", (r) => r.normalized_metadata.name === "nine, again");
    const known = async (time: string) =>
      (await rows(story, `&metadata_as_of=${encodeURIComponent(time)}`)).find((r) => r.token_id === "9");
    expect((await known(before.last_metadata_sync)).metadata).toBe('{"name":"nine"}');
    expect((await known(after.last_metadata_sync)).metadata).toBe('{"name":"nine, changed"}');
    expect((await known(last.last_metadata_sync)).metadata).toBe('{"name":"nine, again"}');
    expect(await known("2020-01-01T00:00:00Z")).toMatchObject({
      token_uri: null,
      metadata: null,
      last_metadata_sync: null,
    });
    for (const bad of ["yesterday", "2020-01-01", "2020-13-01T00:00:00Z", "2020-01-01T00:00:00"]) {
      const answer = await service.get(`/api/v2/nft/${story.address}?metadata_as_of=${bad}`);
      expect([bad, answer.status, answer.body.details?.parameter]).toEqual([bad, 400, "metadata_as_of"]);
    }
  });

  test("by the URI event of ERC-1155 updates a token with {id} in its URI", async () => {
    const first = await row(multi, 1, "item", (r) => r.metadata !== null);
    expect([first.token_uri, first.metadata]).toEqual(["https://content.example/multi/{id}.json", '{"name":"item 1"}']);
    pages.set(`/multi/${"1".padStart(64, "0")}.json`, json({ name: "item 1, changed" }));
    await transact(anvil, multi.contract, "announceURI", ["https://content.example/multi/1.json", 1]);
    await row(multi, 1, "changed", (r) => r.normalized_metadata.name === "item 1, changed");
  });

  test("includes retries of failed fetches, which succeed", async () => {
    pages.set("/late.json", json({ name: "late" }));
    await row(story, 15, "retried", (r) => r.normalized_metadata.name === "late");
  });

  test("finds an unannounced reveal by fetching a few tokens again", async () => {
    await eventually("all tokens are hidden", async () =>
      (await rows(plain)).every((r) => r.normalized_metadata.name === "hidden") ? true : undefined,
    );
    await transact(anvil, plain.contract, "setBase", ["https://content.example/shown/", ".json"]);
    const shown = await eventually("all tokens are revealed", async () => {
      const list = await rows(plain);
      return list.every((r) => r.normalized_metadata.name === `shown ${r.token_id}`) ? list : undefined;
    });
    expect(shown).toHaveLength(30);
  });

  test("by ERC-7496 updates a token, a range, a list, and all tokens", async () => {
    const announcements: [string, unknown[]][] = [
      ["announceTrait", [9]],
      ["announceTraits", [8, 10, false]],
      ["announceTraits", [8, 10, true]],
      ["announceTraitsOf", [[2, 9], false]],
      ["announceTraitsOf", [[2, 9], true]],
      ["announceTraitsOf", [Array.from({ length: 40 }, (_, at) => at), false]],
      ["announceTraitData", []],
    ];
    for (const [at, [method, args]] of announcements.entries()) {
      pages.set("/9.json", json({ name: `level ${at}` }));
      await transact(anvil, story.contract, method, args);
      await row(story, 9, method, (r) => r.normalized_metadata.name === `level ${at}`);
    }
  });
});

test("sends the progress of metadata over the socket at most once a second", async () => {
  const socket = new WebSocket(service.socketUrl, { headers: { "x-api-key": TEST_KEY } });
  const told: { at: number; resolved: number; failed: number; left: number }[] = [];
  let subscribed = false;
  socket.on("open", () => socket.send(JSON.stringify({ action: "subscribe", address: plain.address })));
  socket.on("message", (data) => {
    const message = JSON.parse(String(data));
    subscribed ||= message.type === "status";
    if (message.type === "metadata") told.push({ at: performance.now(), ...message });
  });
  await eventually("the subscription is confirmed", async () => subscribed || undefined);
  for (let id = 31; id <= 60; id++) pages.set(`/shown/${id}.json`, json({ name: `shown ${id}` }));
  await transact(anvil, plain.contract, "mintMany", [anvil.accounts[1], 31, 15]);
  await eventually("45 are announced", async () => told.find(({ resolved }) => resolved === 45));
  await transact(anvil, plain.contract, "mintMany", [anvil.accounts[1], 46, 15]);
  const last = await eventually("60 announced", async () => told.find(({ resolved }) => resolved === 60));
  expect(last).toMatchObject({ type: "metadata", chain: "eth", address: plain.address, failed: 0, left: 0 });
  for (const [i, { at }] of told.slice(1).entries()) expect(at - (told[i]?.at ?? 0)).toBeGreaterThan(900);
  socket.close();
});

test("satisfies the hosted service's own client on every page, with metadata and media", async () => {
  const script = new URL("../support/metadata/sdk-walk.ts", import.meta.url).pathname;
  const child = Bun.spawn([process.execPath, script, `${service.url}/api/v2`, TEST_KEY, story.address], {
    stderr: "pipe",
  });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect(errors).toBe("");
  const { pages: count, tokens } = JSON.parse(output) as { pages: number; tokens: Row[] };
  expect([count, tokens.length]).toEqual([3, STORIES.length + 1]);
  const two = tokens.find((token) => token.id === "2");
  expect(two.metadata).toMatchObject({ name: "two" });
  expect(JSON.stringify(two.normalized)).toContain('"two"');
  expect(JSON.stringify(two.media)).toContain("/media/");
}, 300_000);

test("uses real batches, because Multicall3 is at its address", async () => {
  expect(String(await anvil.send("eth_getCode", [MAINNET.multicall3, "latest"])).length).toBeGreaterThan(100);
});
