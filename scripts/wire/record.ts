/**
 * Records what one service answers: every route with good, bad and odd parameters, over HTTP and over the socket. The
 * service is a process that knows only its environment, so that any version of the sources can be recorded. What
 * differs from run to run (hashes, cursors, request ids, times of the clock) is replaced by a numbered mask.
 */
import { join } from "node:path";
import WebSocket from "ws";
import { spawnService } from "../../test/support/process.ts";
import type { RecordedChain } from "./recorded-chain.ts";

/** One exchange. `body` is parsed JSON, or a SHA-256 for anything else. */
export interface Exchange {
  readonly request: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export interface RecordOptions {
  readonly recorded: RecordedChain;
  /** A fresh event log. */
  readonly logUrl: string;
  /** The checkout whose `src/main.ts` is recorded. */
  readonly source: string;
}

const KEY = "wire-key-0123456789";
const WAIT_MS = 30_000;
const POLL_MS = 50;

/** Records a service on a fresh log, and then once more after a restart with native types on the wire. */
export async function recordWire({ recorded, logUrl, source }: RecordOptions): Promise<Exchange[]> {
  const recorder = new Recorder();
  const env = {
    TOKEN_LISTS: join(import.meta.dir, "token-list.json"),
    EVENT_LOG_URL: logUrl,
    RPC_URL_ETH: recorded.anvil.url,
    RPC_URLS_ONLY: "true",
    RATE_LIMIT_PER_MINUTE: "1000000",
    CURSOR_SECRET: "a secret for recordings, 32 bytes long",
  };
  await withService(source, env, async (base) => {
    recorder.base = base;
    await recordBeside(recorder);
    await recordFirstAnswers(recorder, recorded);
    await recordListings(recorder, recorded);
    await recordPrices(recorder, recorded);
    await recordSocket(recorder, recorded);
  });
  await withService(source, { ...env, WIRE_TYPES: "native" }, async (base) => {
    recorder.base = base;
    const { plain, multi, demo } = recorded.addresses;
    await recorder.until(`/api/v2/nft/${plain}?limit=1`, ({ status }) => status === "SYNCED");
    await recorder.get(`/api/v2/nft/${plain}?limit=2&disable_total=false`, "native types");
    await recorder.get(`/api/v2/nft/${multi}?limit=2&holders=true`, "native types");
    await recorder.get(`/api/v2/erc20/${demo}/price?include=percent_change,provenance`, "native types");
  });
  // One request a minute: the second is over the limit.
  await withService(source, { ...env, RATE_LIMIT_PER_MINUTE: "1" }, async (base) => {
    recorder.base = base;
    const path = `/api/v2/nft/${recorded.addresses["plain"]}?limit=1`;
    await fetch(`${base}${path}`, { headers: { "x-api-key": KEY } });
    await recorder.get(path, "over the rate limit");
  });
  return recorder.exchanges;
}

class Recorder {
  base = "";
  readonly exchanges: Exchange[] = [];
  readonly #masks = new Map<string, string>();

  /** Requests and records. `note` tells apart requests that look the same. Resolves with the body as it came. */
  async get(path: string, note = "", init: RequestInit = {}): Promise<{ cursor?: string | null; etag: string | null }> {
    const method = init.method ?? "GET";
    const response = await fetch(`${this.base}${path}`, { ...init, headers: { "x-api-key": KEY, ...init.headers } });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const json = response.headers.get("content-type")?.includes("json") === true && bytes.length > 0;
    const text = new TextDecoder().decode(bytes);
    this.add(`${method} ${path}${note === "" ? "" : ` (${note})`}`, {
      status: response.status,
      headers: Object.fromEntries([...response.headers].sort()),
      body: json ? JSON.parse(text) : bytes.length === 0 ? null : `sha256:${sha256(withoutProgram(bytes))}`,
    });
    const cursor = json ? (JSON.parse(text) as { cursor?: string | null }).cursor : undefined;
    return { ...(cursor === undefined ? {} : { cursor }), etag: response.headers.get("etag") };
  }

  add(request: string, { status, headers, body }: Omit<Exchange, "request">): void {
    this.exchanges.push(
      this.#masked({ request, status, headers: maskHeaders(headers), body: maskFields(body) }) as Exchange,
    );
  }

  /** Requests until the body satisfies `condition`. Nothing is recorded. */
  async until(path: string, condition: (body: Body, headers: Headers) => boolean): Promise<void> {
    const deadline = performance.now() + WAIT_MS;
    for (;;) {
      const response = await fetch(`${this.base}${path}`, { headers: { "x-api-key": KEY } });
      const body = (await response.json()) as Body;
      if (condition(body, response.headers)) return;
      if (performance.now() > deadline) throw new Error(`waited for ${WAIT_MS} ms: ${path}: ${JSON.stringify(body)}`);
      await Bun.sleep(POLL_MS);
    }
  }

  /** Replaces hashes and cursors wherever they stand in a string by the number of their first appearance. */
  #masked(value: unknown): unknown {
    if (typeof value === "string") {
      return value
        .replaceAll(/\b0x[0-9a-f]{64}\b/g, (hash) => this.#mask("hash", hash))
        .replaceAll(
          /cursor=[\w%.~-]{60,}/g,
          (cursor) => `cursor=${this.#mask("cursor", cursor.slice("cursor=".length))}`,
        )
        .replaceAll(this.base, "http://service.test");
    }
    if (Array.isArray(value)) return value.map((item) => this.#masked(item));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [
        name,
        (name === "cursor" || name === "etag") && typeof item === "string"
          ? this.#mask(name, item)
          : this.#masked(item),
      ]),
    );
  }

  #mask(kind: string, text: string): string {
    let mask = this.#masks.get(text);
    if (mask === undefined) {
      mask = `<${kind} ${this.#masks.size + 1}>`;
      this.#masks.set(text, mask);
    }
    return mask;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: bodies of any route are inspected field by field
type Body = any;

const MASKED_HEADERS = new Set(["date", "x-request-id", "content-length", "ratelimit"]);
/** Fields that hold a time of the clock or count what depends on how the work was cut. */
const MASKED_FIELDS = new Set(["last_token_uri_sync", "last_metadata_sync", "updatedAt", "version", "resume"]);

function maskHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, MASKED_HEADERS.has(name) ? "<masked>" : value]),
  );
}

function maskFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(maskFields);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      MASKED_FIELDS.has(name) && (typeof item === "string" || typeof item === "number") ? "<masked>" : maskFields(item),
    ]),
  );
}

/** Routes beside the contract, paths that do not exist, keys that are missing or wrong. */
async function recordBeside(recorder: Recorder): Promise<void> {
  for (const path of [
    "/health/live",
    "/health/ready",
    "/swagger",
    "/swagger/json",
    "/nowhere",
    "/api/v2",
    "/media/x/1",
  ]) {
    await recorder.get(path);
  }
  await recorder.get("/", "", { redirect: "manual" });
  await recorder.get("/health/live", "", { method: "HEAD" });
  await recorder.get("/health/live", "", { method: "POST" });
  const listing = `/api/v2/nft/0x${"11".repeat(20)}`;
  await recorder.get(listing, "no key", { headers: { "x-api-key": "" } });
  await recorder.get(listing, "a wrong key", { headers: { "x-api-key": "another-key-0123456789" } });
  await recorder.get(listing, "", { method: "POST" });
  await recorder.get(listing, "", { method: "OPTIONS" });
  await recorder.get("/api/v2/ws", "without an upgrade");
  const metrics = await (await fetch(`${recorder.base}/metrics`)).text();
  const names = metrics.split("\n").filter((line) => line.startsWith("# "));
  recorder.add("GET /metrics", { status: 200, headers: {}, body: names.sort() });
}

/** Contracts that were never requested, until each is indexed. */
async function recordFirstAnswers(recorder: Recorder, { addresses, head }: RecordedChain): Promise<void> {
  const { wallet, demo, plain, batch, multi, kitties, quoted, empty } = addresses;
  await recorder.get(`/api/v2/nft/${plain}?chain=eth`, "never requested");
  for (const address of [batch, multi, kitties, quoted]) {
    await recorder.until(`/api/v2/nft/${address}`, ({ status }) => status === "SYNCED");
  }
  for (const address of [plain, batch, multi, kitties, quoted]) {
    await recorder.until(
      `/api/v2/nft/${address}?limit=1&media_items=true`,
      ({ status }, headers) => status === "SYNCED" && headers.get("x-as-of-block") === String(head),
    );
  }
  await recorder.until(`/api/v2/nft/${wallet}`, ({ code }) => code === "not_a_contract");
  await recorder.until(`/api/v2/nft/${empty}`, ({ status }) => status === "SYNCED");
  await recorder.until(`/api/v2/nft/${demo}`, ({ status }) => status === "SYNCED");
  for (const address of [wallet, empty, demo]) await recorder.get(`/api/v2/nft/${address}`);
}

async function recordListings(recorder: Recorder, { addresses, market }: RecordedChain): Promise<void> {
  const { plain, batch, multi, kitties, quoted } = addresses;
  const settled = `/api/v2/nft/${plain}?limit=4&normalizeMetadata=true&media_items=true`;
  await recorder.until(settled, ({ result }) =>
    result.every(({ media }: Body) => media.status === "success" && media.media_collection !== null),
  );
  await recorder.get(settled, "with metadata and media");
  for (const address of [batch, multi, kitties, quoted]) {
    const path = `/api/v2/nft/${address}?limit=3&disable_total=false&normalizeMetadata=true`;
    const hasMetadata = address === batch || address === multi;
    await recorder.until(path, ({ result }) =>
      result.every(({ last_metadata_sync: at }: Body) => !hasMetadata || at !== null),
    );
    await recorder.get(path);
  }
  await recorder.get(`/api/v2/nft/${plain}?metadata_as_of=2000-01-01T00:00:00Z&limit=1`);
  for (const query of [
    "",
    "holders=true",
    "holders=true&totalRanges=3&range=1",
    "totalRanges=7&range=6",
    "format=hex",
  ]) {
    for (const address of [plain, batch, multi]) await recordWalk(recorder, `/api/v2/nft/${address}?limit=90&${query}`);
  }
  for (const block of [market.last + 5, market.last + 14]) {
    await recordWalk(recorder, `/api/v2/nft/${plain}?limit=50&as_of_block=${block}`);
    await recorder.get(`/api/v2/nft/${multi}?limit=2&as_of_block=${block}&disable_total=false`);
  }
  const bad = [
    ..."limit=0 limit=501 limit=x limit=1&limit=2 format=x chain=nowhere chain=bsc chain=0x1&limit=1 chain=ETH&limit=1 range=0".split(
      " ",
    ),
    ..."totalRanges=0 totalRanges=1001 totalRanges=2&range=2 cursor=x cursor=&limit=1 as_of_block=-1 as_of_block=99999999".split(
      " ",
    ),
    ..."as_of_block=0 holders=maybe disable_total=x normalizeMetadata=2 metadata_as_of=yesterday media_items=x".split(
      " ",
    ),
    "a=1&b=2&c=3&d=4&e=5&f=6&limit=1",
    "limit=1&%F0=2",
  ];
  for (const query of bad) await recorder.get(`/api/v2/nft/${plain}?${query}`);
  for (const address of ["0x1", "0x", plain!.toUpperCase(), `${plain!.slice(0, -1)}G`, "", "a/b"]) {
    await recorder.get(`/api/v2/nft/${address}?limit=1`);
  }
  await recorder.get("/api/v2/nft/0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", "a checksum that holds");
  await recorder.get("/api/v2/nft/0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "a checksum that does not");
  const first = await recorder.get(`/api/v2/nft/${plain}?limit=1`);
  const cursor = encodeURIComponent(first.cursor ?? "");
  await recorder.get(`/api/v2/nft/${batch}?cursor=${cursor}`, "a cursor of another contract");
  await recorder.get(`/api/v2/nft/${plain}?cursor=${cursor.slice(0, -2)}xx`, "a cursor that was changed");
  await recorder.get(`/api/v2/nft/${plain}?cursor=${cursor}&limit=7&format=hex`, "a cursor beside parameters");
  await recorder.get(`/api/v2/nft/${plain}?limit=1`, "not modified", {
    headers: { "if-none-match": first.etag ?? "" },
  });
  await recorder.get(`/api/v2/nft/${plain}?limit=1`, "", { method: "HEAD" });
  await recorder.get(`/api/v2/nft/${plain}?limit=1`, "of another origin", { headers: { origin: "https://app.test" } });
  for (const encoding of ["gzip", "zstd", "br"]) {
    await recorder.get(`/api/v2/nft/${plain}?limit=12`, encoding, { headers: { "accept-encoding": encoding } });
  }
}

/** A whole walk: the first page and the last in full, and every record of the walk as one hash. */
async function recordWalk(recorder: Recorder, path: string): Promise<void> {
  const pages: Body[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const url = `${recorder.base}${path}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const body = (await (await fetch(url, { headers: { "x-api-key": KEY } })).json()) as Body;
    if (body.result === undefined) throw new Error(`${path}: ${JSON.stringify(body)}`);
    pages.push(body);
    cursor = body.cursor;
  }
  const records = maskFields(pages.flatMap(({ result }) => result));
  const last = pages[pages.length - 1];
  recorder.add(`WALK ${path}`, {
    status: 200,
    headers: {},
    body: {
      pages: pages.map(({ status, total, page, page_size, result }) => [status, total, page, page_size, result.length]),
      records: sha256(Buffer.from(JSON.stringify(records))),
      first: pages[0].result[0],
      last: last.result[last.result.length - 1],
    },
  });
}

async function recordPrices(recorder: Recorder, { addresses, market, head }: RecordedChain): Promise<void> {
  const { demo, weth, usdc, dai, wallet, plain } = addresses;
  const price = (address: string | undefined, query = "") => `/api/v2/erc20/${address}/price?${query}`;
  const all = "include=percent_change,provenance";
  for (const address of [demo, weth, usdc, dai]) {
    await recorder.get(price(address));
    await recorder.get(price(address, all));
    await recorder.get(price(address, "include=percent_change"), "from memory");
    for (const exchange of ["uniswapv2", "uniswap-v3", "sushiswapv2"]) {
      await recorder.get(price(address, `exchange=${exchange}`));
    }
    const span = market.last - market.first;
    for (const part of [0.3, 0.6, 0.95]) {
      await recorder.get(price(address, `to_block=${market.first + Math.floor(span * part)}&include=provenance`));
    }
    await recorder.get(price(address, `to_block=1`));
  }
  for (const address of [wallet, plain, `0x${"22".repeat(20)}`, "0x1"]) await recorder.get(price(address));
  const bad = [
    ..."to_block=-1 to_block=x to_block=99999999 exchange=nowhere exchange=pancakeswapv1 include=x chain=bsc".split(
      " ",
    ),
    ..."chain=nowhere min_liquidity_usd=x min_liquidity_usd=-1 min_liquidity_usd=1e12 min_liquidity_usd=0".split(" "),
    `exchange=0x${"33".repeat(20)}`,
    `to_block=${head + 1}`,
    "unknown=1",
  ];
  for (const query of bad) await recorder.get(price(demo, query));
  await recorder.get(price(demo), "", { method: "HEAD" });
  await recorder.get(price(demo), "", { method: "DELETE" });
  const { etag } = await recorder.get(price(demo));
  await recorder.get(price(demo), "not modified", { headers: { "if-none-match": etag ?? "" } });
}

/** The socket: bad messages, a finished collection, a moved head, a replaced block, and the page behind each. */
async function recordSocket(recorder: Recorder, recorded: RecordedChain): Promise<void> {
  const plain = recorded.addresses["plain"]!;
  const refused = await fetch(`${recorder.base}/api/v2/ws`, {
    headers: {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
      "sec-websocket-version": "13",
    },
  }).then(({ status }) => status);
  recorder.add("UPGRADE without a key", { status: refused, headers: {}, body: null });

  const socket = await openSocket(recorder.base);
  const bad = [
    "{",
    "[]",
    "{}",
    JSON.stringify({ action: "dance" }),
    JSON.stringify({ action: "subscribe", chain: "nowhere", address: plain }),
    JSON.stringify({ action: "subscribe", chain: "bsc", address: plain }),
    JSON.stringify({ action: "subscribe", chain: "eth", address: "0x1" }),
    JSON.stringify({ action: "subscribe", chain: "eth", address: plain, since: -1 }),
    JSON.stringify({ action: "unsubscribe", chain: "eth", address: plain }),
    JSON.stringify({ action: "ping" }),
  ];
  for (const message of bad) recorder.add(`SEND ${message}`, told(await socket.answer(message)));
  const subscribe = JSON.stringify({ action: "subscribe", chain: "eth", address: plain });
  const status = await socket.answer(subscribe);
  recorder.add("SUBSCRIBE to a finished collection", told(status));
  recorder.add("then", told(await socket.next("indexed")));
  const page = `/api/v2/nft/${plain}?limit=1`;
  const before = await recorder.get(page, "before the head moves");

  await recorded.moveHead();
  recorder.add("the head moves two tokens and mints one", told(await socket.next("transfers")));
  const beforeReorg = await recorder.get(page, "after the head moved");
  await recorder.get(`${page}&cursor=${encodeURIComponent(before.cursor ?? "")}`, "a walk begun before the head moved");

  await recorded.replaceHead();
  recorder.add("the newest block is replaced", told(await socket.next("reorged")));
  recorder.add("then", told(await socket.next("transfers")));
  const walk = `${page}&cursor=${encodeURIComponent(beforeReorg.cursor ?? "")}`;
  await recorder.get(walk, "a walk whose block was replaced");
  await recordWalk(recorder, `/api/v2/nft/${plain}?limit=500&totalRanges=1&range=0`);
  socket.close();

  const again = await openSocket(recorder.base);
  const since = JSON.stringify({ action: "subscribe", chain: "eth", address: plain, since: status.version });
  recorder.add("SUBSCRIBE since an older version", told(await again.answer(since)));
  recorder.add("then", told(await again.next("transfers")));
  recorder.add("then", told(await again.next("reorged")));
  recorder.add("then", told(await again.next("transfers")));
  const beyond = JSON.stringify({ action: "subscribe", chain: "eth", address: plain, since: 1e9 });
  recorder.add("SUBSCRIBE since a version to come", told(await again.answer(beyond)));
  again.close();
}

const told = (message: Body) => ({ status: 0, headers: {}, body: message });

interface Socket {
  /** Sends, and resolves with the next message that is no report of progress or metadata. */
  answer(message: string): Promise<Body>;
  /** The next message of a type. */
  next(type: string): Promise<Body>;
  close(): void;
}

function openSocket(base: string): Promise<Socket> {
  const socket = new WebSocket(`${base.replace(/^http/, "ws")}/api/v2/ws`, { headers: { "x-api-key": KEY } });
  const inbox: Body[] = [];
  let wake: (() => void) | undefined;
  socket.on("message", (data) => {
    const message = JSON.parse(String(data)) as Body;
    // How often these come depends on the machine's speed.
    if (message.type === "progress" || message.type === "metadata") return;
    inbox.push(message);
    wake?.();
  });
  const take = async (type?: string): Promise<Body> => {
    const deadline = performance.now() + WAIT_MS;
    for (;;) {
      const message = inbox.shift();
      if (message !== undefined) {
        if (type !== undefined && message.type !== type) throw new Error(`${type}, not ${JSON.stringify(message)}`);
        return message;
      }
      const left = deadline - performance.now();
      if (left < 0) throw new Error(`no message within ${WAIT_MS} ms: ${type ?? "an answer"}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
        setTimeout(resolve, left);
      });
    }
  };
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  socket.on("error", reject);
  socket.on("open", () =>
    resolve({
      answer: (message) => {
        socket.send(message);
        return take();
      },
      next: take,
      close: () => socket.close(),
    }),
  );
  return promise;
}

/** Runs `work` against a service process of a checkout and ends the process. */
async function withService(
  source: string,
  env: Record<string, string>,
  work: (base: string) => Promise<void>,
): Promise<void> {
  const service = spawnService({ LOG_LEVEL: "error", API_KEYS: KEY, ...env }, { checkout: source });
  try {
    await work(await service.serving);
  } finally {
    service.kill("SIGTERM");
    await service.exited;
  }
}

/** A page without the words by which this machine started the program. */
const withoutProgram = (bytes: Uint8Array): Uint8Array =>
  Buffer.from(
    Buffer.from(bytes)
      .toString("latin1")
      .replace(/ data-program="[^"]*"/, ""),
    "latin1",
  );

function sha256(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}
