/**
 * The demo: a local chain with Uniswap, stablecoins and three collections, the service as `start` runs it, and a first
 * user's requests, told as a story. Keeps running unless `--once` is given; `--verbose` prints requests and answers
 * in full. Exits with 1 if an answer is not as expected.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TokenPrice } from "../src/client/index.ts";
import { leadingDigits, nearest, stepsOf, usdOf } from "../src/console/price/recompute.ts";
import { type Excerpt, Narrator, short } from "./demo/narrator.ts";
import {
  type DemoService,
  Listener,
  type Message,
  type Stage,
  setStage,
  socketUrl,
  startDemoService,
} from "./demo/stage.ts";
import { type Anvil, inOneBlock, reorg } from "./local-chain/anvil.ts";
import type { UniqueCollection } from "./local-chain/collections.ts";
import { queue } from "./local-chain/contracts.ts";

const once = process.argv.includes("--once");
/** Tokens that move while pages are walked. */
const MOVED = 20;
const PAGE = 100;
/** Time for the previews of the first pictures. The first start of the preview process takes most of it. */
const PICTURES_MS = 30_000;

interface Row {
  readonly token_id: string;
  readonly owner_of: string;
  readonly normalized_metadata?: {
    readonly name: string | null;
    readonly attributes: readonly { readonly trait_type: string; readonly value: unknown }[] | null;
  };
  readonly media?: {
    readonly status: string;
    readonly media_collection: { readonly low: { readonly url: string } } | null;
  };
}

interface Page {
  readonly status: string;
  readonly total: string | null;
  readonly cursor: string | null;
  readonly result: readonly Row[];
}

interface Answer<T> {
  readonly body: T;
  /** The block that the answer is true at; undefined without one. */
  readonly block: number | undefined;
}

/** The service, and how its answers are told. */
interface Scene {
  readonly narrator: Narrator;
  readonly service: DemoService;
  /** Requests a path. With an excerpt, prints the request and this part of the answer. @throws Error for a refusal */
  get<T>(path: string, excerpt?: (body: T) => Excerpt): Promise<Answer<T>>;
}

function createScene(narrator: Narrator, service: DemoService): Scene {
  const { base, key } = service;
  return {
    narrator,
    service,
    get: async <T>(path: string, excerpt?: (body: T) => Excerpt) => {
      if (excerpt !== undefined) narrator.request(`curl -H "X-API-Key: $KEY" "$URL${path}"`);
      const started = performance.now();
      const response = await fetch(`${base}${path}`, { headers: { "x-api-key": key } });
      const text = await response.text();
      const summary = `${response.status} in ${(performance.now() - started).toFixed(0)} ms`;
      if (response.status !== 200) throw new Error(`${path} answered ${summary}: ${text}`);
      const body = JSON.parse(text) as T;
      if (excerpt !== undefined) narrator.answer(text, summary, excerpt(body));
      const block = response.headers.get("x-as-of-block");
      return { body, block: block === null ? undefined : Number(block) };
    },
  };
}

/** Moves tokens to an account, in one block. Keeps `owners` up to date. Returns the block. */
async function move(anvil: Anvil, { contract, owners }: UniqueCollection, ids: readonly bigint[], to: string) {
  await inOneBlock(anvil, async () => {
    for (const id of ids) {
      const from = owners.get(id) as string;
      await queue(anvil, contract, "transferFrom", [from, to, id], { from });
    }
  });
  for (const id of ids) (owners as Map<bigint, string>).set(id, to);
  return Number(await anvil.send("eth_blockNumber"));
}

async function tellIndexing({ narrator, service, get }: Scene, { collections }: Stage): Promise<Listener> {
  const { plain, batch, multi } = collections;
  narrator.chapter("A collection that the service has never seen");
  narrator.say("The service answers at once and reads the history in the background.");
  const path = `/api/v2/nft/${plain.address}?chain=eth&limit=${PAGE}&disable_total=false`;
  const { body: before } = await get<Page>(path, ({ status, result }) => ({
    fields: { status, result },
    marked: "status",
  }));
  narrator.check(before.status === "SYNCING", "indexing has started");
  const listener = await Listener.open(service);
  narrator.say("The socket tells when it is ready.");
  narrator.request(`npx wscat -H "X-API-Key: $KEY" -c ${socketUrl(service.base)}`);
  narrator.message("→", listener.send({ action: "subscribe", chain: "eth", address: plain.address }));
  narrator.message("←", told(await listener.next("indexed", plain.address), narrator));
  for (const { address } of [batch, multi]) {
    listener.send({ action: "subscribe", chain: "eth", address });
    await listener.next("indexed", address);
  }
  narrator.check(true, "an ERC721A and an ERC-1155 collection follow");
  return listener;
}

/** A message as text. Unless the story is verbose, it has only what a reader needs. */
function told(message: Message, { verbose }: Narrator): string {
  if (verbose) return JSON.stringify(message);
  const { type, address, block, total, tokenIds } = message;
  const ids = Array.isArray(tokenIds) && tokenIds.length > 4 ? [...tokenIds.slice(0, 3), "…"] : tokenIds;
  return JSON.stringify({ type, address: short(String(address)), block, total, tokenIds: ids });
}

async function tellPictures({ narrator, get }: Scene, { collections }: Stage): Promise<void> {
  narrator.chapter("Metadata and pictures");
  narrator.say("The service resolves token URIs and makes previews. No listing waits.");
  const path = `/api/v2/nft/${collections.plain.address}?limit=5&normalizeMetadata=true&media_items=true`;
  const deadline = performance.now() + PICTURES_MS;
  let rows: readonly Row[];
  for (;;) {
    narrator.progress("drawing previews");
    rows = (await get<Page>(path)).body.result;
    if (performance.now() > deadline || rows.every(({ media }) => media?.status === "success")) break;
    await Bun.sleep(100);
  }
  narrator.progress("");
  narrator.request(`curl -H "X-API-Key: $KEY" "$URL${path}"`);
  const trait = ({ normalized_metadata }: Row, type: string): string =>
    String(normalized_metadata?.attributes?.find(({ trait_type }) => trait_type === type)?.value ?? "");
  narrator.table(
    ["id", "name", "owner", "picture", ""],
    rows.map((row) => [
      row.token_id,
      row.normalized_metadata?.name ?? "",
      short(row.owner_of),
      narrator.swatch(trait(row, "Colour")),
      `${trait(row, "Shape")}, ${trait(row, "Size")}`,
    ]),
  );
  const previews = rows.flatMap(({ media }) => media?.media_collection?.low.url ?? []);
  const [first] = previews;
  const types = await Promise.all(previews.map(async (url) => (await fetch(url)).headers.get("content-type")));
  narrator.check(
    new Set(previews).size === rows.length && types.every((type) => type === "image/webp"),
    `five previews, such as ${first}`,
  );
}

async function tellWalk(scene: Scene, { anvil, collections: { plain } }: Stage, listener: Listener): Promise<void> {
  const { narrator, get } = scene;
  narrator.chapter("A walk that stays true while tokens move");
  narrator.say(`Page 1 fixes the block. Then ${MOVED} tokens move, and the walk goes on.`);
  const path = `/api/v2/nft/${plain.address}?limit=${PAGE}&disable_total=false`;
  const excerpt = ({ total, result }: Page) => ({ fields: { total, "tokens in this page": result.length } });
  const before = new Map(plain.owners);
  const first = await get<Page>(path, excerpt);
  const listed = [...first.body.result];
  const later = [...before.keys()].filter((id) => !listed.some(({ token_id }) => BigInt(token_id) === id));
  const to = anvil.accounts[9] as string;
  await move(anvil, plain, later.slice(0, MOVED), to);
  narrator.message("←", told(await listener.next("transfers", plain.address), narrator));
  let { cursor } = first.body;
  let block = first.block;
  narrator.request(`curl -H "X-API-Key: $KEY" "$URL/api/v2/nft/${plain.address}?cursor=<cursor of page 1>"`);
  while (cursor !== null) {
    const next: Answer<Page> = await get<Page>(`/api/v2/nft/${plain.address}?cursor=${cursor}`);
    listed.push(...next.body.result);
    cursor = next.body.cursor;
    if (next.block !== block) block = undefined;
  }
  const isTrue = listed.every(({ token_id, owner_of }) => before.get(BigInt(token_id)) === owner_of);
  narrator.check(
    isTrue && listed.length === before.size && block !== undefined,
    `${listed.length} tokens with the owners of block ${block}: none twice, none missing`,
  );
  const fresh = await get<Page>(`/api/v2/nft/${plain.address}?limit=500`);
  const moved = fresh.body.result.filter(({ owner_of }) => owner_of === to.toLowerCase()).length;
  narrator.check(moved === MOVED, `a new walk has the ${MOVED} new owners`);
}

async function tellPast(scene: Scene, { anvil, collections: { plain } }: Stage, listener: Listener): Promise<void> {
  const { narrator, get } = scene;
  const [[token, holder]] = [...plain.owners] as [[bigint, string]];
  const path = `/api/v2/nft/${plain.address}?limit=500`;
  const ownerAt = async (more = "") =>
    (await get<Page>(`${path}${more}`)).body.result.find(({ token_id }) => BigInt(token_id) === token)?.owner_of;

  narrator.chapter("A block of the past, and a reorganisation");
  const to = anvil.accounts[8] as string;
  const block = await move(anvil, plain, [token], to);
  await listener.next("transfers", plain.address);
  const [now, then] = [await ownerAt(), await ownerAt(`&as_of_block=${block - 1}`)];
  narrator.request(`curl -H "X-API-Key: $KEY" "$URL${path}&as_of_block=${block - 1}"`);
  narrator.check(
    now === to.toLowerCase() && then === holder,
    `token ${token} is ${short(to)}'s since block ${block}, and was ${short(holder)}'s`,
  );
  narrator.say(`Now the chain replaces block ${block}.`);
  await reorg(anvil, 1);
  (plain.owners as Map<bigint, string>).set(token, holder);
  narrator.message("←", told(await listener.next("reorged", plain.address), narrator));
  narrator.check((await ownerAt()) === holder, `token ${token} is ${short(holder)}'s again`);
}

async function tellPrice({ narrator, get }: Scene, { market }: Stage): Promise<void> {
  narrator.chapter("A price that you can recompute");
  narrator.say("The answer has the state of each pool. Multiply, and compare.");
  const symbols = new Map([[market.demo.address.toLowerCase(), "DEMO"]]);
  const path = `/api/v2/erc20/${market.demo.address}/price?include=percent_change,provenance`;
  const { body: price } = await get<TokenPrice>(path, (body) => ({
    fields: {
      usdPrice: body.usdPrice,
      "24hrPercentChange": body["24hrPercentChange"],
      exchangeName: body.exchangeName,
      toBlock: body.toBlock,
    },
    marked: "usdPrice",
  }));
  symbols.set(price.nativePrice?.address ?? "", price.nativePrice?.symbol ?? "");
  const name = (address: string): string => symbols.get(address) ?? "USD";
  const steps = stepsOf(price.tokenAddress, price.provenance?.route ?? []);
  narrator.table(
    ["pool", "exchange", "rate"],
    steps.map(({ pool, from, to, rate }) => [
      short(pool.pool),
      pool.exchange,
      `1 ${name(from)} = ${leadingDigits(rate, 18)} ${name(to)}`,
    ]),
  );
  const usd = usdOf(price);
  narrator.check(
    steps.length > 0 && nearest(usd) === price.usdPrice,
    `${leadingDigits(usd, 20)} is the answer's usdPrice, to the last digit`,
  );
}

function tellConsole({ narrator, service }: Scene, { collections, market }: Stage): void {
  const offers = Object.values(collections).map(({ address }) => `try=eth:${address}`);
  narrator.chapter("Your turn");
  narrator.say("Open the console, and sign in with the key. It shows all of this at any block.");
  narrator.line(
    `     ${narrator.bold(`${service.base}/#/?${[...offers, `try=eth:${market.demo.address}:price`].join("&")}`)}`,
  );
  narrator.line(`     key: ${narrator.bold(service.key)}`);
  narrator.say(`Every example of ${service.base}/swagger works here, with the same key.`);
  narrator.say("Everything keeps running. Ctrl-C ends the demo.");
}

async function main(isInterrupted: () => void): Promise<void> {
  const started = performance.now();
  const seconds = () => `${((performance.now() - started) / 1_000).toFixed(1)} s`;
  const narrator = new Narrator({
    verbose: process.argv.includes("--verbose"),
    isColored: process.stdout.isTTY === true && !process.env["NO_COLOR"],
    write: (text) => void process.stdout.write(text),
  });
  const folder = mkdtempSync(join(tmpdir(), "evm-demo-"));
  const closers: (() => Promise<void> | void)[] = [() => rmSync(folder, { recursive: true, force: true })];
  let closing: Promise<void> | undefined;
  // With `bun run`, Ctrl-C arrives twice. The second one waits for the same end.
  const close = () => {
    closing ??= (async () => {
      for (let closer = closers.pop(); closer !== undefined; closer = closers.pop()) await closer();
    })();
    return closing;
  };
  const endWith = (code: number) => {
    isInterrupted();
    close().finally(() => process.exit(code));
  };
  process.on("SIGINT", () => endWith(0));
  process.on("SIGTERM", () => endWith(143));
  try {
    narrator.line(
      narrator.bold("NFTs and token prices from your own node: a demo of one minute, on this machine alone."),
    );
    narrator.chapter("A local chain");
    narrator.say("It has Uniswap, tokens of mainnet, a day of trades and three NFT collections.");
    const stage = await setStage(
      (anvil) => void closers.push(() => anvil.stop()),
      (step) => narrator.progress(step),
    );
    narrator.progress("");
    narrator.check(true, `ready after ${seconds()}: ${stage.anvil.url}`);

    narrator.chapter("The service, as `bun run start` starts it");
    const service = await startDemoService(stage.anvil.url, folder, (text) => {
      if (narrator.verbose) process.stderr.write(text);
    });
    closers.push(service.stop);
    narrator.say("The first start makes a key:");
    narrator.line(`     export URL=${service.base} KEY=${service.key}`);
    const scene = createScene(narrator, service);
    const listener = await tellIndexing(scene, stage);
    closers.push(() => listener.close());
    await tellPictures(scene, stage);
    await tellWalk(scene, stage, listener);
    await tellPast(scene, stage, listener);
    await tellPrice(scene, stage);
    if (once) {
      narrator.line(`\nDone after ${seconds()}.`);
      return;
    }
    tellConsole(scene, stage);
    await new Promise(() => undefined);
  } finally {
    await close();
  }
}

/** True after Ctrl-C or SIGTERM. The signal's handler ends the process then, and a step that fails is no failure. */
let isOver = false;
await main(() => {
  isOver = true;
}).then(
  () => isOver || process.exit(0),
  (error: unknown) => {
    if (isOver) return;
    process.stdout.write(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  },
);
