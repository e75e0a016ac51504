/**
 * The environment as one frozen, validated value. Every bad key is reported at once, by name and with what is allowed;
 * no message repeats a value that may be a secret. All bounds of the service are here, each with its arithmetic.
 */
import { CHAINS, type Chain, envSuffix } from "./chains/chains.ts";
import { AppError } from "./core/errors.ts";
import type { LogLevel } from "./core/logger.ts";

/** Keys as clients send them. */
export const KEY_PATTERN = /^[A-Za-z0-9._~-]{8,128}$/;
const HASHED_KEY = /^sha256:[0-9a-fA-F]{64}$/;

/** Bounds that are not the operator's. Sizes in bytes, times in ms. */
export const LIMITS = Object.freeze({
  /** A URL: path, and a query whose largest part is a cursor of at most 1 KiB. */
  maxUrlLength: 8 * 1024,
  /**
   * What the socket reads of a request line and headers before it hangs up with a bare 431. Up to here a URL that is too
   * long is answered in words, naming the parameter: a megabyte and what surrounds it.
   */
  maxRequestHead: 1_280 * 1024,
  /** A signed cursor is about 260 characters; four times that is refused unread. */
  maxCursorLength: 1_024,
  maxTotalRanges: 1_000,
  /** One `eth_getLogs` answer: 10,000 logs of 600 bytes are 6 MB; 20 times that is not what was asked for. */
  maxRpcAnswer: 128 * 1024 * 1024,
  rpcTimeoutMs: 30_000,
  /** What is asked of a chain for a client: most hang up after half a minute, the socket after a whole one. */
  answerMs: 25_000,
  /** A WebSocket message is one subscription: under 300 bytes. */
  maxSocketMessage: 4 * 1024,
  /** 256 connections with as many subscriptions are 65,536 pins: about 10 MB of maps. */
  maxSubscriptionsPerSocket: 256,
  maxSockets: 20_000,
  /** `transfers` of 1,000 ids of 78 digits are 80 KB; twelve of them unread and the reader is too slow. */
  maxSocketBuffer: 1024 * 1024,
  /** Messages a client may send in a second before it is closed. */
  maxSocketMessagesPerSecond: 50,
  /** A not-an-NFT answer is asked anew at most this often. */
  reidentifyMs: 600_000,
  /** Page bodies kept: 64 MB hold 1,300 pages of 100 records of 500 bytes. */
  pageCacheBytes: 64 * 1024 * 1024,
  /** Part of CACHE_MB that metadata's references, and its texts, may each take beside it. */
  metadataCachePart: 1 / 8,
  /** An operator's list: 300,000 lines of a chain and an address are 16 MB. */
  maxListBytes: 16 * 1024 * 1024,
  /** How often the lists' files are looked at for a change. */
  listPollMs: 1_000,
  /** Stopping: what is in flight gets this long. */
  stopGraceMs: 10_000,
});

export interface ChainConfig {
  readonly chain: Chain;
  readonly urls: readonly string[];
  readonly finalityDepth: number;
  /** The operator set the depth: the node's `finalized` tag is not asked. */
  readonly depthIsSet: boolean;
}

export interface Config {
  readonly host: string;
  readonly port: number;
  /** Without a trailing slash; undefined: made from host and the port that was bound. */
  readonly publicUrl: string | undefined;
  /** SHA-256 of the keys, hex; empty: one is made at first start. */
  readonly apiKeyHashes: readonly string[];
  readonly eventLogUrl: string;
  readonly chains: readonly ChainConfig[];
  readonly cursorSecret: string | undefined;
  /** Bytes of hot collections. */
  readonly cacheBytes: number;
  /** Folder of snapshots of large collections; undefined: none are written. */
  readonly snapshotDir: string | undefined;
  readonly snapshotBytes: number;
  /** Of one collection on disk, as far as it is fetched unbidden. */
  readonly metadataBytes: number;
  readonly maxPageSize: number;
  readonly rateLimitPerMinute: number;
  readonly wireTypes: "seed" | "native";
  /** How hard backfilled logs are checked. */
  readonly verify: "sample" | "headers" | "receipts";
  /** Bases of gateways to IPFS and Arweave, without a trailing slash, in order of preference. */
  readonly ipfsGateways: readonly string[];
  readonly arweaveGateways: readonly string[];
  /** Token URIs may lead to private addresses and any port: for the demo and tests. */
  readonly metadataAllowPrivate: boolean;
  /** Files with the contracts that the operator knows as spam, and as genuine. */
  readonly spamList: string | undefined;
  readonly verifiedList: string | undefined;
  /** A file with names for contracts that have none. */
  readonly nameList: string | undefined;
  readonly logLevel: LogLevel;
  readonly metricsKey: string | undefined;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The start is refused; `problems` has one sentence for each bad key. */
export class ConfigError extends AppError {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the environment is not usable:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`, {
      code: "configuration",
    });
    this.problems = problems;
  }
}

/** Reads keys and collects what is wrong with them. */
class EnvironmentReader {
  readonly problems: string[] = [];
  readonly #environment: Environment;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  text(key: string): string | undefined {
    const value = this.#environment[key]?.trim();
    return value === "" ? undefined : value;
  }

  wrong(key: string, allowed: string): undefined {
    this.problems.push(`${key}: ${allowed}`);
    return undefined;
  }

  integer(key: string, fallback: number, min: number, max: number): number {
    const text = this.text(key);
    if (text === undefined) return fallback;
    const value = Number(text);
    if (/^\d{1,15}$/.test(text) && value >= min && value <= max) return value;
    this.wrong(key, `must be a whole number from ${min} to ${max}`);
    return fallback;
  }

  choice<T extends string>(key: string, choices: readonly T[], fallback: T): T {
    const text = this.text(key);
    if (text === undefined) return fallback;
    const found = choices.find((choice) => choice === text.toLowerCase());
    if (found !== undefined) return found;
    this.wrong(key, `must be one of ${choices.join(", ")}`);
    return fallback;
  }
}

/** One host name or address, without a scheme or a port. */
const HOST_PATTERN = /^(?:[A-Za-z0-9.-]{1,253}|[0-9a-fA-F:.]{2,45})$/;

function readPublicUrl(env: EnvironmentReader): string | undefined {
  const text = env.text("PUBLIC_URL");
  if (text === undefined) return undefined;
  try {
    const url = new URL(text);
    if ((url.protocol === "http:" || url.protocol === "https:") && url.search === "" && url.hash === "") {
      return text.replace(/\/+$/, "");
    }
  } catch {
    // Reported below with all other shapes that do not do.
  }
  return env.wrong("PUBLIC_URL", "must be an http or https URL without query");
}

function readApiKeys(env: EnvironmentReader): string[] {
  const text = env.text("API_KEYS");
  if (text === undefined) return [];
  const hashes: string[] = [];
  text.split(",").forEach((part, index) => {
    const key = part.trim();
    if (HASHED_KEY.test(key)) hashes.push(key.slice("sha256:".length).toLowerCase());
    else if (KEY_PATTERN.test(key)) hashes.push(new Bun.CryptoHasher("sha256").update(key).digest("hex"));
    else env.wrong("API_KEYS", `entry ${index + 1} must match [A-Za-z0-9._~-]{8,128} or be sha256:<64 hex digits>`);
  });
  return hashes;
}

function readEventLogUrl(env: EnvironmentReader): string {
  const text = env.text("EVENT_LOG_URL") ?? "sqlite://./data/events.db";
  const sqlite = text.startsWith("sqlite://") && text.length > "sqlite://".length && !text.includes(":memory:");
  if (!sqlite && !/^postgres(?:ql)?:\/\/[^/]+/.test(text)) {
    env.wrong("EVENT_LOG_URL", "must be sqlite://<path of a file> or postgres://<user>:<password>@<host>/<database>");
  }
  return text;
}

/** Public gateways, run by different people. */
const IPFS_GATEWAYS = ["https://ipfs.io", "https://dweb.link", "https://gateway.pinata.cloud"];
/** The ones that ar.io's own client falls back to (github.com/ar-io/wayfinder). */
const ARWEAVE_GATEWAYS = ["https://arweave.net", "https://permagate.io", "https://ar-io.dev"];

/** Bases of gateways. `ending` is taken off, since every gateway has it. */
function readGateways(env: EnvironmentReader, key: string, fallback: readonly string[], ending: RegExp) {
  const text = env.text(key);
  if (text === undefined) return fallback;
  const urls = text.split(",").map((url) => url.trim().replace(/\/+$/, "").replace(ending, ""));
  const usable = (text: string) => {
    const url = URL.parse(text);
    return url !== null && /^https?:$/.test(url.protocol) && url.search + url.hash + url.username + url.password === "";
  };
  if (!urls.every(usable)) env.wrong(key, "must be http or https URLs without query, separated by commas");
  return urls;
}

function readUrls(env: EnvironmentReader, key: string): string[] | undefined {
  const text = env.text(key);
  if (text === undefined) return undefined;
  if (text.toLowerCase() === "off") return [];
  const urls = text.split(",").map((url) => url.trim());
  const usable = (url: string) => URL.canParse(url) && /^(?:https?|wss?):$/.test(new URL(url).protocol);
  if (!urls.every(usable)) env.wrong(key, "must be http(s) or ws(s) URLs, separated by commas, or off");
  return urls;
}

function readChains(env: EnvironmentReader, environment: Environment): ChainConfig[] {
  const only = env.choice("RPC_URLS_ONLY", ["true", "false"], "false") === "true";
  const chains: ChainConfig[] = [];
  for (const chain of CHAINS) {
    const suffix = envSuffix(chain);
    const given = readUrls(env, `RPC_URL_${suffix}`);
    const depthKey = `FINALITY_DEPTH_${suffix}`;
    const depthIsSet = env.text(depthKey) !== undefined;
    const finalityDepth = env.integer(depthKey, chain.finalityDepth, 0, 4_096);
    const urls = given ?? (only ? [] : [...chain.rpc.http, ...chain.rpc.webSocket]);
    if (urls.length > 0) chains.push({ chain, urls, finalityDepth, depthIsSet });
  }
  const known = new Set(CHAINS.map((chain) => envSuffix(chain)));
  for (const key of Object.keys(environment)) {
    const suffix = /^(?:RPC_URL|FINALITY_DEPTH)_(.+)$/.exec(key)?.[1];
    if (suffix !== undefined && !known.has(suffix)) {
      env.wrong(key, `no such chain; the names are ${[...known].join(", ")}`);
    }
  }
  if (chains.length === 0) env.wrong("RPC_URLS_ONLY", "no chain is left: give at least one RPC_URL_<CHAIN>");
  return chains;
}

/** Where snapshots go: what is said, else beside a SQLite log's file; `off` for nowhere. */
function readSnapshotDir(env: EnvironmentReader, eventLogUrl: string): string | undefined {
  const text = env.text("SNAPSHOT_DIR");
  if (text !== undefined) return text === "off" ? undefined : text;
  return eventLogUrl.startsWith("sqlite://")
    ? `${eventLogUrl.slice("sqlite://".length)}.snapshots`
    : "./data/snapshots";
}

/** The configuration an environment asks for. @throws ConfigError with everything that is wrong */
export function readConfig(environment: Environment): Config {
  const env = new EnvironmentReader(environment);
  const host = env.text("HOST") ?? "127.0.0.1";
  if (!HOST_PATTERN.test(host)) env.wrong("HOST", "must be a host name or an IP address");
  const cursorSecret = env.text("CURSOR_SECRET");
  if (cursorSecret !== undefined && cursorSecret.length < 16) {
    env.wrong("CURSOR_SECRET", "must have at least 16 characters");
  }
  const metricsKey = env.text("METRICS_KEY");
  if (metricsKey !== undefined && !KEY_PATTERN.test(metricsKey)) {
    env.wrong("METRICS_KEY", "must match [A-Za-z0-9._~-]{8,128}");
  }
  const eventLogUrl = readEventLogUrl(env);
  const config: Config = {
    host,
    port: env.integer("PORT", 3000, 0, 65_535),
    publicUrl: readPublicUrl(env),
    apiKeyHashes: readApiKeys(env),
    eventLogUrl,
    chains: readChains(env, environment),
    cursorSecret,
    cacheBytes: env.integer("CACHE_MB", 1_024, 16, 1_048_576) * 1024 * 1024,
    snapshotDir: readSnapshotDir(env, eventLogUrl),
    snapshotBytes: env.integer("SNAPSHOT_MB", 4_096, 1, 1_048_576) * 1024 * 1024,
    // A million tokens of 4 KB each: more than any collection that is not made to fill disks.
    metadataBytes: env.integer("METADATA_MB", 4_096, 1, 1_048_576) * 1024 * 1024,
    maxPageSize: env.integer("MAX_PAGE_SIZE", 500, 1, 10_000),
    rateLimitPerMinute: env.integer("RATE_LIMIT_PER_MINUTE", 6_000, 1, 10_000_000),
    verify: env.choice("VERIFY", ["sample", "headers", "receipts"], "sample"),
    wireTypes: env.choice("WIRE_TYPES", ["seed", "native"], "seed"),
    ipfsGateways: readGateways(env, "IPFS_GATEWAYS", IPFS_GATEWAYS, /\/ipfs$/),
    arweaveGateways: readGateways(env, "ARWEAVE_GATEWAYS", ARWEAVE_GATEWAYS, /\/+$/),
    metadataAllowPrivate: env.choice("METADATA_ALLOW_PRIVATE", ["true", "false"], "false") === "true",
    spamList: env.text("SPAM_LIST"),
    verifiedList: env.text("VERIFIED_LIST"),
    nameList: env.text("NAME_LIST"),
    logLevel: env.choice("LOG_LEVEL", ["silent", "error", "warn", "info", "debug", "trace"], "info"),
    metricsKey,
  };
  if (env.problems.length > 0) throw new ConfigError(env.problems);
  return Object.freeze(config);
}
