/**
 * Metadata in shapes that contracts use, from a real contract to the answer: normalised fields, unchanged text, a
 * bitmap's previews, a file on Arweave behind two gateways, and a picture URI with a placeholder for the id.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { recordingWire } from "../support/metadata/wire.ts";
import { schemaFaults } from "../support/schemas.ts";
import {
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
  walkListing,
} from "../support/service.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests read single fields of records
type Row = any;

const PUBLIC = "93.184.215.14";
const ARWEAVE = "Kp9xGbmCjsHyTJ2hJ5D1E6nYf3Z1XYwYc0yK5Zx_-9A";
const inline = (text: string) => `data:application/json;base64,${Buffer.from(text).toString("base64")}`;
const schema = (properties: object) => JSON.stringify({ title: "Asset Metadata", type: "object", properties });
const field = (description: string) => ({ type: "string", description });

/** A bitmap of two pixels with 24 bits: blue and red. */
const bitmap = Buffer.from(
  [
    ...["424d", "3e000000", "00000000", "36000000", "28000000", "02000000", "01000000", "01001800"],
    ...["00000000", "00000000", "00000000", "00000000", "00000000", "00000000", "ff00000000ff0000"],
  ].join(""),
  "hex",
);

/** The content of each token's URI, and the fields shown for it. */
const STORIES: readonly { readonly uri: string; readonly metadata?: string; readonly shown: object }[] = [
  {
    uri: inline(String.raw`{"name":"it\'s", "n": 123456789012345678901234567890}`),
    metadata: `{"name":"it's", "n": 123456789012345678901234567890}`,
    shown: { name: "it's" },
  },
  {
    uri: inline(schema({ name: field("Punk 1"), image: field("https://content.example/a.bmp") })),
    metadata: schema({ name: field("Punk 1"), image: field("https://content.example/a.bmp") }),
    shown: { name: "Punk 1", image: "https://content.example/a.bmp", attributes: [] },
  },
  {
    uri: inline('{"Name":"A","Traits":[{"Background":"Red"}]}'),
    metadata: '{"Name":"A","Traits":[{"Background":"Red"}]}',
    shown: { name: "A", attributes: [{ trait_type: "Background", value: "Red" }] },
  },
  {
    uri: 'data:application/json;utf8,{"name":"Punk %231","image":["https://content.example/a.bmp"]}',
    metadata: '{"name":"Punk #1","image":["https://content.example/a.bmp"]}',
    shown: { name: "Punk #1", image: "https://content.example/a.bmp" },
  },
  { uri: inline('{"name":"a"}\0\0 '), metadata: '{"name":"a"}', shown: { name: "a" } },
  { uri: `ar://${ARWEAVE}/1.json`, metadata: '{"name":"on Arweave"}', shown: { name: "on Arweave" } },
  { uri: "https://content.example/%7Bid%7D.json", metadata: '{"name":"seven"}', shown: { name: "seven" } },
  ...Array.from({ length: 2 }, (_, index) => ({
    uri: inline('{"name":"one document","image":"https://content.example/{id}.bmp"}'),
    metadata: '{"name":"one document","image":"https://content.example/{id}.bmp"}',
    shown: { name: "one document", image: `https://content.example/${index + 8}.bmp` },
  })),
];

let anvil: Anvil;
let service: TestService;
let web: ReturnType<typeof Bun.serve>;
let story: Deployed;
let rows: readonly Row[];

beforeAll(async () => {
  const pages: Readonly<Record<string, () => Response>> = {
    "/a.bmp": () => new Response(new Uint8Array(bitmap)),
    "/8.bmp": () => new Response(new Uint8Array(bitmap)),
    "/7.json": () => new Response('{"name":"seven"}'),
    [`/${ARWEAVE}/1.json`]: () => new Response('{"name":"on Arweave"}'),
  };
  web = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => pages[new URL(request.url).pathname]?.() ?? new Response("no", { status: 404 }),
  });
  const wire = recordingWire({
    names: { "content.example": [PUBLIC], "gone.example": ["93.184.215.99"], "second.example": [PUBLIC] },
    ports: { [PUBLIC]: web.port as number },
  });
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  story = await deploy(anvil, await contractArtifact("StoryNft"), ["Shapes", "SHP"]);
  await transact(anvil, story.contract, "mintStories", [anvil.accounts[1], 1, STORIES.map(({ uri }) => uri)]);
  await anvil.mine(6);
  service = await startTestService({
    rpcUrl: anvil.url,
    logUrl: temporaryLogUrl(),
    env: { ARWEAVE_GATEWAYS: "https://gone.example,https://second.example" },
    metadataWire: wire,
  });
  await synced(service, story.address);
  rows = await eventually("all metadata is complete", async () => {
    const found = await walkListing(service, story.address, "normalizeMetadata=true&media_items=true");
    const isSettled = ({ metadata, media }: Row) => metadata !== null && media.status !== "processing";
    return found.length === STORIES.length && found.every(isSettled) ? found : undefined;
  });
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  await web?.stop(true);
});

test("normalises metadata as marketplaces show it, and keeps the contract's text", async () => {
  for (const [index, { metadata, shown, uri }] of STORIES.entries()) {
    const row = rows[index];
    expect([uri, row.token_uri, row.metadata]).toEqual([uri, uri, metadata]);
    expect(row.normalized_metadata).toMatchObject(shown);
    expect(await schemaFaults(service, "NftRecord", row)).toEqual([]);
  }
});

test("makes previews of a bitmap", () => {
  for (const index of [1, 3]) {
    const { status, mimetype, category, media_collection } = rows[index].media;
    expect([status, mimetype, category]).toEqual(["success", "image/bmp", "image"]);
    expect([media_collection.high.width, media_collection.high.height]).toEqual([500, 250]);
  }
});

test("replaces the placeholder for the id in a picture's URI, so each token has its own picture", () => {
  const [eight, nine] = [rows[7].media, rows[8].media];
  expect([eight.status, eight.original_media_url]).toEqual(["success", "https://content.example/8.bmp"]);
  expect([nine.status, nine.original_media_url]).toEqual(["temporarily_unavailable", "https://content.example/9.bmp"]);
});

test("counts the tokens with a repaired text in the metrics", async () => {
  const text = await (await service.fetch("/metrics")).text();
  expect(text).toMatch(/^metadata_outcomes_total\{chain="eth",outcome="repaired"\} 2$/m);
  expect(text).toMatch(/^metadata_outcomes_total\{chain="eth",outcome="resolved"\} 9$/m);
});
