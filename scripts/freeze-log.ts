/**
 * Freezes the log of a release: `bun scripts/freeze-log.ts <checkout>`, once per release and never again. The service of the
 * checkout indexes collections of a local chain, follows it over a reorganisation, prices a token and fetches metadata.
 * Writes its SQLite log, compressed, and its answers at final blocks to `test/fixtures/logs/<version>.*`. Every later
 * release must start on that log and give the same answers.
 */
import { Database } from "bun:sqlite";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { TOKEN_ADDRESS } from "../src/core/examples.ts";
import { eventually } from "../test/support/service.ts";
import { type DemoService, startDemoService } from "./demo/stage.ts";
import { type Anvil, reorg, startAnvil } from "./local-chain/anvil.ts";
import { contractArtifact } from "./local-chain/compile.ts";
import { type Deployed, deploy, transact } from "./local-chain/contracts.ts";
import { placeMainnet } from "./local-chain/mainnet.ts";
import { seedMarket } from "./local-chain/market.ts";

const FOLDER = resolve(import.meta.dir, "../test/fixtures/logs");
/** Stands for the address of the service in answers. */
export const BASE = "http://service.example";
/** Token URIs that carry their metadata. */
const [METADATA, METADATA_END] = [`data:application/json,${encodeURIComponent('{"name":"Token ')}`, "%22%7D"];
const PATIENCE_MS = 60_000;
/** Transfers after the collections were indexed: the follower writes them. */
const LATER = 6;

/** The answers of a release, beside its log. */
export interface Frozen {
  readonly version: string;
  /** The first key, which the log keeps as a hash. */
  readonly key: string;
  /** Each is true at a final block, so that no later block changes it. */
  readonly answers: readonly { readonly path: string; readonly block: string | null; readonly body: object }[];
}

async function get({ base, key }: DemoService, path: string): Promise<Response> {
  return await fetch(`${base}${path}`, { headers: { "x-api-key": key } });
}

const headOf = async (anvil: Anvil): Promise<number> => Number(await anvil.send("eth_blockNumber"));

/** Waits until the listing is complete at `block`, and the metadata and the picture of each token are there or failed. */
async function listed(service: DemoService, { address }: Deployed, block: number): Promise<void> {
  await eventually(
    `${address} is listed at block ${block}`,
    async () => {
      const answer = await get(service, `/api/v2/nft/${address}?media_items=true`);
      const { status, result } = (await answer.json()) as { status: string; result: Record<string, unknown>[] };
      const isWaiting = result.some(({ media }) => (media as { status: string }).status === "processing");
      const isDone = status === "SYNCED" && Number(answer.headers.get("x-as-of-block")) >= block && !isWaiting;
      return isDone ? true : undefined;
    },
    PATIENCE_MS,
  );
}

interface Collections {
  readonly drawn: Deployed;
  readonly batch: Deployed;
  readonly items: Deployed;
  /** Without metadata. */
  readonly plain: Deployed;
}

/** Four collections of some ten tokens, with transfers and a burn. */
async function fillCollections(anvil: Anvil): Promise<Collections> {
  const [, alice, bob, carol] = anvil.accounts as [string, string, string, string];
  const drawn = await deploy(anvil, await contractArtifact("DrawnNft"), ["Frozen Editions", "FRZ"]);
  const batch = await deploy(anvil, await contractArtifact("BatchNft"), ["Frozen Batches", "FRB"]);
  const items = await deploy(anvil, await contractArtifact("MultiToken"), [
    ...["Frozen Items", "FRI", `${METADATA}{id}${METADATA_END}`],
  ]);
  await transact(anvil, batch.contract, "setBaseURI", [METADATA, METADATA_END]);
  const plain = await deploy(anvil, await contractArtifact("PlainNft"), ["Frozen Plain", "FRP"]);
  await transact(anvil, plain.contract, "mintMany", [bob, 1, 3]);
  await transact(anvil, drawn.contract, "mintMany", [alice, 1, 8]);
  await transact(anvil, batch.contract, "mint", [bob, 12]);
  for (const id of [1, 2, 3]) await transact(anvil, items.contract, "mint", [alice, id, 10 * id]);
  await transact(anvil, drawn.contract, "transferFrom", [alice, bob, 2], { from: alice });
  await transact(anvil, drawn.contract, "burn", [3], { from: alice });
  await transact(anvil, items.contract, "safeTransferFrom", [alice, carol, 2, 5, "0x"], { from: alice });
  await anvil.mine(70);
  return { drawn, batch, items, plain };
}

/** Changes of collections and keys by an operator. A release before these routes answers 404. */
async function operate({ base, key }: DemoService, { drawn, batch }: Collections): Promise<void> {
  const change = async (method: string, path: string, body?: object): Promise<number> => {
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const answer = await fetch(`${base}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    if (answer.status >= 400 && answer.status !== 404) throw new Error(`${path}: ${await answer.text()}`);
    return answer.status;
  };
  if ((await change("POST", "/api/keys", { name: "shop", scope: "read" })) === 404) return;
  await change("POST", "/api/keys", { name: "gone", scope: "read" });
  await change("POST", "/api/keys/shop/rotate", { graceSeconds: 60 });
  await change("DELETE", "/api/keys/gone");
  await change("POST", `/api/collections/eth/${batch.address}/reindex`);
  await change("POST", `/api/collections/eth/${drawn.address}/refresh`, { tokenIds: ["1"] });
}

/** The answers of the service, each at a block that is final. */
async function answersOf(service: DemoService, collections: Collections, block: number): Promise<Frozen["answers"]> {
  const all = "limit=500&disable_total=false&normalizeMetadata=true&media_items=true";
  const paths = Object.values(collections).flatMap(({ address }) => [
    `/api/v2/nft/${address}?as_of_block=${block}&${all}`,
    `/api/v2/nft/${address}?as_of_block=${block}&holders=true&format=hex`,
    `/api/v2/nft/${address}?as_of_block=${block - 75}&${all}`,
  ]);
  const first = await get(service, `/api/v2/nft/${collections.drawn.address}?as_of_block=${block}&limit=3`);
  const { cursor } = (await first.json()) as { cursor: string };
  paths.push(`/api/v2/nft/${collections.drawn.address}?cursor=${encodeURIComponent(cursor)}`);
  const answers: { path: string; block: string | null; body: object }[] = [];
  for (const path of paths) {
    const answer = await get(service, path);
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    const body: object = JSON.parse((await answer.text()).replaceAll(service.base, BASE));
    answers.push({ path, block: answer.headers.get("x-as-of-block"), body });
  }
  return answers;
}

async function freeze(checkout: string): Promise<void> {
  const { version } = JSON.parse(readFileSync(join(checkout, "package.json"), "utf8")) as { version: string };
  const folder = mkdtempSync(join(tmpdir(), "freeze-log-"));
  const anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 28 * 3_600 });
  try {
    await placeMainnet(anvil);
    await seedMarket(anvil, { hours: 27, demoAt: TOKEN_ADDRESS });
    const collections = await fillCollections(anvil);
    const service = await startDemoService(anvil.url, folder, () => undefined, checkout);
    for (const collection of Object.values(collections)) await listed(service, collection, 0);
    const price = await get(service, `/api/v2/erc20/${TOKEN_ADDRESS}/price`);
    if (price.status !== 200) throw new Error(`no price: ${price.status} ${await price.text()}`);
    const [, alice, bob] = anvil.accounts as [string, string, string];
    for (let step = 0; step < LATER; step++) {
      const [from, to] = step % 2 === 0 ? [alice, bob] : [bob, alice];
      await transact(anvil, collections.drawn.contract, "transferFrom", [from, to, 1], { from });
    }
    await listed(service, collections.drawn, await headOf(anvil));
    await reorg(anvil, 2);
    await anvil.mine(3);
    await listed(service, collections.drawn, await headOf(anvil));
    await operate(service, collections);
    // Final blocks for everything that was recorded so far.
    await anvil.mine(70);
    const block = (await headOf(anvil)) - 66;
    for (const collection of Object.values(collections)) await listed(service, collection, await headOf(anvil));
    const answers = await answersOf(service, collections, block);
    await service.stop();

    mkdirSync(FOLDER, { recursive: true });
    const whole = join(folder, "frozen.db");
    const db = new Database(join(folder, "data/events.db"));
    db.run("VACUUM INTO ?", [whole]);
    db.close();
    const packed = gzipSync(readFileSync(whole), { level: 9 });
    writeFileSync(join(FOLDER, `${version}.db.gz`), packed);
    const frozen: Frozen = { version, key: service.key, answers };
    writeFileSync(join(FOLDER, `${version}.json`), `${JSON.stringify(frozen)}\n`);
    process.stdout.write(`log of ${version}: ${packed.length} bytes, ${answers.length} answers\n`);
  } finally {
    await anvil.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const [checkout] = process.argv.slice(2);
  if (checkout === undefined) {
    console.error("usage: bun scripts/freeze-log.ts <checkout of the release>");
    process.exit(64);
  }
  await freeze(resolve(checkout));
}
