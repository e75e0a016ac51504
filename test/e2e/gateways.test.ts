/**
 * Content that a contract gives as a web address of a gateway, and the operator's gateways with keys: which host is
 * asked what, and in which order. The keys reach their gateway and nothing else: no host, log line, answer or event.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type LoggedLine, recordingLogger } from "../support/logged.ts";
import { recordingWire } from "../support/metadata/wire.ts";
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
const V0 = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPbdG";
const V1 = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi";
const ARWEAVE = "Kp9xGbmCjsHyTJ2hJ5D1E6nYf3Z1XYwYc0yK5Zx_-9A";
const OPERATORS_KEY = "operators-query-key";
const OPERATORS_HEADER = "Bearer operators-header-key";
const ARWEAVE_KEY = "operators-arweave-key";
const SECRETS = [OPERATORS_KEY, "operators-header-key", ARWEAVE_KEY];
const TOKEN = "token=of-the-author";

const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><rect width="20" height="10"/></svg>';

/** The URI of each token, from token 1. Only its own host has the content. */
const GIVEN = [
  `https://own.example/ipfs/${V0}/1?${TOKEN}`,
  `https://own.example/ipns/name.example/2?${TOKEN}`,
  `https://${V1}.ipfs.own.example/3?${TOKEN}`,
  `https://my-name.ipns.own.example/4?${TOKEN}`,
  `https://arweave.net/${ARWEAVE}?${TOKEN}`,
];
/** A token whose gateway redirects. */
const REDIRECTED = `ipfs://${V0}/folder`;
/** A token whose document a gateway has. */
const KEPT = `ipfs://${V0}/kept`;

interface Asked {
  readonly host: string;
  readonly url: string;
  readonly headers: Headers;
}

let anvil: Anvil;
let web: ReturnType<typeof Bun.serve>;
let story: Deployed;
let asked: Asked[] = [];

const redirect = (location: string) => new Response(null, { status: 302, headers: { location } });

function answer(host: string, { pathname, search }: URL): Response {
  if (host.endsWith("own.example") || host === "arweave.net") {
    if (pathname.endsWith(".svg")) return new Response(SVG);
    return Response.json({ name: `of ${host}`, image: `https://own.example/ipfs/${V0}/picture.svg?${TOKEN}` });
  }
  // The first gateway sends some paths to another host, and the query that it was asked with.
  if (host === "first.example" && pathname.endsWith("/folder")) {
    return redirect(`https://elsewhere.example/folder${search}`);
  }
  if (host === "elsewhere.example") return Response.json({ name: "elsewhere" });
  if (host === "first.example" && pathname.endsWith("/kept")) return redirect(`/ipfs/${V0}/kept/index.json`);
  if (pathname.endsWith("/kept/index.json")) return Response.json({ name: "kept" });
  return new Response("no", { status: 500 });
}

beforeAll(async () => {
  web = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => {
      const host = request.headers.get("host") ?? "";
      const url = new URL(request.url);
      asked.push({ host, url: url.pathname + url.search, headers: request.headers });
      return answer(host, url);
    },
  });
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  story = await deploy(anvil, await contractArtifact("StoryNft"), ["Given", "GVN"]);
  await transact(anvil, story.contract, "mintStories", [anvil.accounts[1], 1, [...GIVEN, REDIRECTED, KEPT]]);
  await anvil.mine(6);
});

afterAll(async () => {
  await anvil?.stop();
  await web?.stop(true);
});

interface Run {
  readonly service: TestService;
  readonly logUrl: string;
  readonly lines: readonly LoggedLine[];
}

async function start(env: Record<string, string> = {}): Promise<Run> {
  asked = [];
  const hosts = ["own.example", `${V1}.ipfs.own.example`, "my-name.ipns.own.example", "arweave.net"];
  hosts.push("first.example", "second.example", "ar.example", "elsewhere.example");
  const wire = recordingWire({
    names: Object.fromEntries(hosts.map((host) => [host, [PUBLIC]])),
    ports: { [PUBLIC]: web.port as number },
  });
  const { logger, lines } = recordingLogger("debug");
  const logUrl = temporaryLogUrl();
  const service = await startTestService({
    rpcUrl: anvil.url,
    logUrl,
    logger,
    metadataWire: wire,
    env: {
      IPFS_GATEWAYS: `https://first.example/ipfs/?pinataGatewayToken=${OPERATORS_KEY},https://second.example Authorization: ${OPERATORS_HEADER}`,
      ARWEAVE_GATEWAYS: `https://ar.example/?key=${ARWEAVE_KEY}`,
      OPERATOR_KEYS: "operator-key-0123456789",
      ...env,
    },
  });
  await synced(service, story.address);
  return { service, logUrl, lines };
}

/** The rows once each token was tried, and each picture examined. */
const settled = (service: TestService): Promise<readonly Row[]> =>
  eventually("each token was tried", async () => {
    const rows: readonly Row[] = await walkListing(service, story.address, "normalizeMetadata=true&media_items=true");
    const isSettled = ({ last_metadata_sync, media }: Row) =>
      last_metadata_sync !== null && media.status !== "processing";
    return rows.every(isSettled) ? rows : undefined;
  });

describe("a web address of content that no gateway has", () => {
  let run: Run;
  let rows: readonly Row[];

  beforeAll(async () => {
    run = await start();
    rows = await settled(run.service);
  });
  afterAll(() => run.service.stop());

  test("is asked itself after the gateways, for documents and for pictures", () => {
    for (const [index, host] of [
      "own.example",
      "own.example",
      `${V1}.ipfs.own.example`,
      "my-name.ipns.own.example",
      "arweave.net",
    ].entries()) {
      expect(rows[index].normalized_metadata.name).toBe(`of ${host}`);
      expect(rows[index].media.status).toBe("success");
    }
    const hostsOf = (path: string) => asked.filter(({ url }) => url.startsWith(path)).map(({ host }) => host);
    expect(hostsOf(`/ipfs/${V0}/1`)).toEqual(["first.example", "second.example", "own.example"]);
    expect(hostsOf("/ipns/name.example/2")).toEqual(["first.example", "second.example", "own.example"]);
    expect(hostsOf(`/${ARWEAVE}`)).toEqual(["ar.example", "arweave.net"]);
    expect(hostsOf(`/ipfs/${V0}/picture.svg`).slice(0, 3)).toEqual(["first.example", "second.example", "own.example"]);
  });

  test("keeps its query to itself", () => {
    const isOwn = (host: string) => host.endsWith("own.example") || host === "arweave.net";
    for (const { host, url } of asked) expect([host, url.includes(TOKEN)]).toEqual([host, isOwn(host)]);
  });

  test("gets no key of a gateway, and each gateway its own", () => {
    for (const { host, url, headers } of asked) {
      expect([host, url.includes(OPERATORS_KEY)]).toEqual([host, host === "first.example"]);
      expect([host, headers.get("authorization")]).toEqual([host, host === "second.example" ? OPERATORS_HEADER : null]);
      expect([host, url.includes(ARWEAVE_KEY)]).toEqual([host, host === "ar.example"]);
    }
  });

  test("redirects of a gateway lead on, to another host without the key", () => {
    const names = rows.map((row) => row.normalized_metadata.name);
    expect(names.slice(GIVEN.length)).toEqual(["elsewhere", "kept"]);
    expect(asked.filter(({ host }) => host === "elsewhere.example").map(({ url }) => url)).toEqual(["/folder"]);
  });

  test("no key is in a log line, an answer, a metric or the stored events", async () => {
    const { service, logUrl, lines } = run;
    const operator = { headers: { "x-api-key": "operator-key-0123456789" } };
    const paths = ["/api/status", "/metrics", `/api/collections/eth/${story.address}`, "/swagger/json", "/api/keys"];
    const texts = await Promise.all(paths.map(async (path) => (await service.fetch(path, operator)).text()));
    const file = logUrl.slice("sqlite://".length);
    const stored = [file, `${file}-wal`].map((path) => readFileSync(path).toString("latin1"));
    const all = [JSON.stringify(lines), JSON.stringify(rows), ...texts, ...stored];
    expect(texts.every((text) => text.length > 2)).toBe(true);
    for (const secret of SECRETS) expect(all.map((text) => text.includes(secret))).toEqual(all.map(() => false));
  });
});

test("a web address is not asked itself if the operator has switched that off", async () => {
  const { service } = await start({ METADATA_GIVEN_HOSTS: "off" });
  try {
    await eventually("the tokens failed", async () => {
      const { body } = await service.get(`/api/collections/eth/${story.address}`);
      return body.metadata?.failed === GIVEN.length ? true : undefined;
    });
    const rows = await walkListing(service, story.address, "normalizeMetadata=true");
    expect(rows.slice(0, GIVEN.length).map(({ metadata }) => metadata)).toEqual(GIVEN.map(() => null));
    expect(asked.filter(({ host }) => host.endsWith("own.example") || host === "arweave.net")).toEqual([]);
  } finally {
    await service.stop();
  }
});
