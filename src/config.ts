/**
 * The environment as one frozen, validated value. Reports all bad variables at once, by name and with the allowed
 * values. No message repeats a value that may be a secret. All bounds of the service are here, each with its
 * arithmetic.
 */
import { CHAINS, type Chain, Chains, takenBy } from "./chains/chains.ts";
import { type ChainEntry, checkChains, MAX_CHAINS_BYTES, MAX_FINALITY_DEPTH } from "./chains/entry.ts";
import { envSuffix } from "./chains/trouble.ts";
import { assertRegularFile, faultOfFile, readOperatorFile } from "./core/bounded-files.ts";
import { AppError, messageOf } from "./core/errors.ts";
import { sqlitePath } from "./core/files.ts";
import { nearestOf } from "./core/format.ts";
import { parseGateway, parseSecretHeader } from "./core/gateway.ts";
import type { LogFormat, LogLevel } from "./core/logger.ts";
import { directHosts, type Proxies, proxyFor } from "./core/proxies.ts";
import { keySecretsOf, parseBlobUrl, type S3Place } from "./core/s3-place.ts";
import {
  keysInUrl,
  parameterSecrets,
  Secrets,
  secretsOfHeader,
  secretsOfLogin,
  secretsOfPassword,
} from "./core/secrets.ts";

/** Allowed form of a plain API key. */
const KEY_PATTERN = /^[A-Za-z0-9._~-]{8,128}$/;
const HASHED_KEY = /^sha256:[0-9a-fA-F]{64}$/;

/** Bounds that the operator can't set. Sizes in bytes, times in ms. */
export const LIMITS = Object.freeze({
  /** A URL: path and query. The largest part of a query is a cursor of at most 1 KiB. */
  maxUrlLength: 8 * 1024,
  /**
   * Bytes of a request line and headers that the socket reads before it closes with a bare 431. Below it, a URL that is
   * too long gets an answer that names the parameter: a megabyte and the rest of the request.
   */
  maxRequestHead: 1_280 * 1024,
  /** Seconds between polls that no client waits for: a block of Ethereum. Each poll costs two to five calls. */
  followEverySeconds: 12,
  /** A body: 500 contracts with their chains are 40 KB, and 100 tokens with exchange and block 20 KB. */
  maxRequestBody: 64 * 1024,
  /** Longest time that a body may take to arrive: 64 KB at the slowest of mobile connections. The runtime gives a head ten seconds. */
  bodyMs: 20_000,
  /**
   * Announced bytes of a body beyond which the socket closes with a bare 413. Below it, the error has words. A body is read only
   * as far as a route takes it, so this costs no memory.
   */
  maxSentBody: 1024 * 1024 * 1024,
  /** A signed cursor has about 260 characters. Four times that is refused unread. */
  maxCursorLength: 1_024,
  maxTotalRanges: 1_000,
  /** One `eth_getLogs` answer: 10,000 logs of 600 bytes are 6 MB, and no honest answer is 20 times larger. */
  maxRpcAnswer: 128 * 1024 * 1024,
  rpcTimeoutMs: 30_000,
  /**
   * The same for a header, a number, a call or the logs of some blocks: a second to the node and back, and two for its work.
   * Less than the four seconds after which a process hands its chains over, so that a dead connection costs no lease.
   */
  rpcSmallTimeoutMs: 3_000,
  /** Longest work on a chain for one client: most clients hang up after 30 s, the socket after 60 s. */
  answerMs: 25_000,
  /** The same on a chain of which no endpoint has answered for a minute: a request and its repetition. */
  unreachableAnswerMs: 5_000,
  /** A WebSocket message is one subscription: under 300 bytes. */
  maxSocketMessage: 4 * 1024,
  /** 256 connections with as many subscriptions are 65,536 pins: about 10 MB of maps. */
  maxSubscriptionsPerSocket: 256,
  maxSockets: 20_000,
  /**
   * Part of the places for sockets that one key of scope read may hold, and one of scope operate: 5,000 and 10,000 of
   * 20,000; 162 and 324 of the 648 that 1,024 open files have room for. One key leaves places to all others.
   */
  socketsPerReader: 1 / 4,
  socketsPerOperator: 1 / 2,
  /** `transfers` with 1,000 ids of 78 digits is 80 KB. A reader with twelve of these unread is too slow. */
  maxSocketBuffer: 1024 * 1024,
  /** Messages per second above which a client is closed. */
  maxSocketMessagesPerSecond: 50,
  /** Least time between two identifications of a contract that was found to be no NFT. */
  reidentifyMs: 600_000,
  /** Cached page bodies: 64 MB hold 1,300 pages of 100 records of 500 bytes. */
  pageCacheBytes: 64 * 1024 * 1024,
  /** Share of CACHE_MB that metadata's books, and its texts, may each take in addition. */
  metadataCachePart: 1 / 8,
  /** An operator's list: 300,000 lines with a chain and an address are 16 MB. */
  maxListBytes: 16 * 1024 * 1024,
  /** Progress rows in a terminal. */
  maxProgressRows: 6,
  /** Interval at which the lists' files are checked for changes. */
  listPollMs: 1_000,
  /** Bytes of a token list. A published one of 1,723 tokens with logos has 0.7 MB. */
  maxTokenListBytes: 5 * 1024 * 1024,
  /** Sixteen lists of 10,000 tokens take about 50 MB of memory. */
  maxTokenLists: 16,
  /** Time that requests get when the service stops, with the time in which it still takes new ones. */
  stopGraceMs: 10_000,
  /** Longest time in which a stopping service takes new requests: two health checks of a proxy. */
  drainMs: 2_000,
});

export interface ChainConfig {
  readonly chain: Chain;
  readonly urls: readonly string[];
  readonly finalityDepth: number;
  /** True if the operator set the depth. Then the node's `finalized` tag is not used. */
  readonly depthIsSet: boolean;
  /** True if the operator gave the endpoints. Others are not asked before a client asks for the chain. */
  readonly isGiven: boolean;
  /** Wait between polls in ms while no client waits for the chain's blocks. */
  readonly followEveryMs: number;
  readonly archives: ArchivesConfig;
}

/** Sources of a chain's bulk history beside its node. */
interface ArchivesConfig {
  /** Addresses of data sets. */
  readonly urls: readonly string[];
  /** True if the operator named them. The service asks other archives only where the node's own road is narrow. */
  readonly isGiven: boolean;
  readonly key: { readonly header: string; readonly value: string } | undefined;
  /** Most requests in ten seconds. */
  readonly per10s: number;
}

export interface Config {
  readonly host: string;
  readonly port: number;
  /** Without a trailing slash. If undefined, the URL is made from the host and the bound port. */
  readonly publicUrl: string | undefined;
  /** Keys of `API_KEYS` and `OPERATOR_KEYS`, with the SHA-256 of each in hex. If empty, a key is made at first start. */
  readonly apiKeys: readonly { readonly name: string; readonly scope: "read" | "operate"; readonly hash: string }[];
  readonly eventLogUrl: string;
  /** The store of the log's blobs; undefined to keep them in the log's own table. */
  readonly blobs: S3Place | undefined;
  /** Connections to a PostgreSQL server, if the operator set them. */
  readonly pgPool: number | undefined;
  /** Built in and the operator's, enabled or not. */
  readonly knownChains: Chains;
  /** The enabled ones. */
  readonly chains: readonly ChainConfig[];
  readonly cursorSecret: string | undefined;
  /** Bytes of collections in memory. */
  readonly cacheBytes: number;
  /** Folder for snapshots of large collections; undefined disables them. */
  readonly snapshotDir: string | undefined;
  readonly snapshotBytes: number;
  /** Bytes per collection up to which metadata is fetched without a client's request. */
  readonly metadataBytes: number;
  readonly maxPageSize: number;
  /** Limits of a key of scope `read` that has none of its own, on each replica. */
  readonly rateLimitPerMinute: number;
  readonly collectionsPerHour: number;
  readonly subscriptionsPerKey: number;
  readonly wireTypes: "seed" | "native";
  /** The exchanges whose pools rank: all that are known, or the contract's twelve. */
  readonly pools: "all" | "contract";
  /** How thoroughly backfilled logs are verified. */
  readonly verify: "sample" | "headers" | "receipts";
  /** Gateways to IPFS and Arweave in the form of `core/gateway.ts`, in order of preference. They may hold secrets. */
  readonly ipfsGateways: readonly string[];
  readonly arweaveGateways: readonly string[];
  /** Asks the web address of a token URI itself, after the gateways. */
  readonly metadataGivenHosts: boolean;
  /** Allows token URIs with private addresses and any port, for the demo and for tests. */
  readonly metadataAllowPrivate: boolean;
  /** Files that list contracts the operator knows as spam, and as genuine. */
  readonly spamList: string | undefined;
  readonly verifiedList: string | undefined;
  /** Prices that are older are thinned to hourly closes. Kept without it. */
  readonly priceHistoryDays: number | undefined;
  /** A file with the units that a provider counts per call. */
  readonly priceList: string | undefined;
  /** A file with names for contracts that have none. */
  readonly nameList: string | undefined;
  /** Paths and URLs of lists with names and logos of tokens, in order of precedence. */
  readonly tokenLists: readonly string[];
  readonly logLevel: LogLevel;
  /** `auto`: `pretty` in a terminal, else `json`. */
  readonly logFormat: "auto" | LogFormat;
  /** Sentences about variables that are likely typing errors. */
  readonly warnings: readonly string[];
  /** Names of the variables that are set. */
  readonly variables: readonly string[];
  /** Logs each request, without values of parameters. */
  readonly logRequests: boolean;
  /** True if `/` is the console. */
  readonly hasConsole: boolean;
  /** True if the console links addresses and transactions to the chains' block explorers. */
  readonly hasExplorerLinks: boolean;
  readonly metricsKey: string | undefined;
  /** The proxies that outgoing requests go through. They may hold secrets. */
  readonly proxies: Proxies;
}

/** The limits of keys that have none of their own. */
export const keyLimits = (config: Config) => ({
  requestsPerMinute: config.rateLimitPerMinute,
  collectionsPerHour: config.collectionsPerHour,
  subscriptions: config.subscriptionsPerKey,
});

type Environment = Readonly<Record<string, string | undefined>>;

/** The configuration is invalid. `problems` has one sentence per bad variable. */
export class ConfigError extends AppError {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the environment is not usable:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`, {
      code: "configuration",
    });
    this.problems = problems;
  }
}

/** Shorter names of the environment are not compared with ours. */
const MIN_NEAR_LENGTH = 7;

/** Reads variables and collects their problems. */
class EnvironmentReader {
  readonly problems: string[] = [];
  /** All variables that were asked for. */
  readonly #known = new Set<string>();
  readonly #files: { readonly key: string; readonly path: string; readonly maxBytes: number }[] = [];
  readonly #environment: Environment;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Names of the known variables that are set, without their values. */
  set(): string[] {
    return [...this.#known].filter((key) => this.text(key) !== undefined).sort();
  }

  /** Says which variables are near ours, but unknown: likely typing errors. */
  nearMisses(): string[] {
    const nearestTo = nearestOf([...this.#known]);
    return Object.keys(this.#environment).flatMap((key) => {
      // Short names are near too many others, such as HOME.
      if (this.#known.has(key) || key.length < MIN_NEAR_LENGTH) return [];
      const nearest = nearestTo(key);
      return nearest === undefined ? [] : [`${key} is no variable of this service: did you mean ${nearest}?`];
    });
  }

  text(key: string): string | undefined {
    this.#known.add(key);
    const value = this.#environment[key]?.trim();
    return value === "" ? undefined : value;
  }

  /** The path of a file that is read after the environment, and again when it changes. */
  file(key: string, maxBytes: number, path = this.text(key)): string | undefined {
    if (path !== undefined) this.#files.push({ key, path, maxBytes });
    return path;
  }

  /** What is wrong with the files themselves: an environment that is refused is told with them. */
  faultsOfFiles(): string[] {
    return this.#files.flatMap(({ key, path, maxBytes }) => {
      const fault = faultOfFile(path, maxBytes);
      return fault === undefined ? [] : [`${key}: the file cannot be read: ${fault} (${path})`];
    });
  }

  matching(key: string, pattern: RegExp, allowed: string): string | undefined {
    const text = this.text(key);
    if (text !== undefined && !pattern.test(text)) this.wrong(key, `must ${allowed}`);
    return text;
  }

  wrong(key: string, allowed: string): undefined {
    this.problems.push(`${key}: ${allowed}`);
    return undefined;
  }

  isWrong(key: string): boolean {
    return this.problems.some((problem) => problem.startsWith(`${key}: `));
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

/** One host name or address, without scheme or port. */
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
    // The pattern below reports it, together with all other bad forms.
  }
  return env.wrong("PUBLIC_URL", "must be an http or https URL without query");
}

function readApiKeys(env: EnvironmentReader, variable: string, scope: "read" | "operate"): Config["apiKeys"] {
  const text = env.text(variable);
  if (text === undefined) return [];
  return text.split(",").flatMap((part, index) => {
    const [key, name] = [part.trim(), `${variable}#${index + 1}`];
    if (HASHED_KEY.test(key)) return [{ name, scope, hash: key.slice("sha256:".length).toLowerCase() }];
    if (KEY_PATTERN.test(key)) return [{ name, scope, hash: Bun.CryptoHasher.hash("sha256", key, "hex") }];
    env.wrong(variable, `entry ${index + 1} must match [A-Za-z0-9._~-]{8,128} or be sha256:<64 hex digits>`);
    return [];
  });
}

function readEventLogUrl(env: EnvironmentReader): string {
  const text = env.text("EVENT_LOG_URL") ?? "sqlite://./data/events.db";
  const path = sqlitePath(text) ?? "";
  const isSqlite = path !== "" && !path.includes(":memory:");
  if (!isSqlite && !/^postgres(?:ql)?:\/\/[^/]+/.test(text)) {
    env.wrong("EVENT_LOG_URL", "must be sqlite://<path of a file> or postgres://<user>:<password>@<host>/<database>");
  }
  try {
    if (isSqlite) assertRegularFile(path);
  } catch (error) {
    env.wrong("EVENT_LOG_URL", messageOf(error));
  }
  return text;
}

/** A region is part of the name of Amazon's endpoint. */
const REGION = /^[a-z0-9-]{2,40}$/;

/** The store of blobs. Its keys are asked for only if `BLOB_URL` names it: the machine may have them for other programs. */
function readBlobStore(env: EnvironmentReader, proxies: Proxies): S3Place | undefined {
  const given = env.text("BLOB_URL");
  const [text, region] = [env.text("S3_ENDPOINT"), env.text("AWS_REGION") ?? "us-east-1"];
  const [accessKeyId, secretAccessKey] = [env.text("AWS_ACCESS_KEY_ID"), env.text("AWS_SECRET_ACCESS_KEY")];
  const sessionToken = env.text("AWS_SESSION_TOKEN");
  if (given === undefined) return undefined;
  const place = parseBlobUrl(given);
  if (place === undefined) {
    return env.wrong(
      "BLOB_URL",
      "must be s3://<bucket>/<prefix>; the endpoint and the keys are variables of their own",
    );
  }
  if (!REGION.test(region)) return env.wrong("AWS_REGION", "must be the name of a region, such as us-east-1");
  const url = URL.parse(text ?? `https://s3.${region}.amazonaws.com`);
  const isEndpoint = url !== null && /^https?:$/.test(url.protocol) && url.search + url.hash + url.username === "";
  if (!isEndpoint)
    return env.wrong("S3_ENDPOINT", "must be the http or https URL of an S3 store, without a login or query");
  if (accessKeyId === undefined) return env.wrong("AWS_ACCESS_KEY_ID", "must be set, because BLOB_URL is");
  if (secretAccessKey === undefined) return env.wrong("AWS_SECRET_ACCESS_KEY", "must be set, because BLOB_URL is");
  const endpoint = url.href.replace(/\/+$/, "");
  return { ...place, endpoint, region, accessKeyId, secretAccessKey, sessionToken, proxy: proxyFor(proxies, endpoint) };
}

/**
 * The same store with another bucket and prefix, for commands that name two. @throws ConfigError
 * @param url `s3://<bucket>/<prefix>`
 */
export function blobStoreAt(environment: Environment, url: string): S3Place {
  const env = new EnvironmentReader({ ...environment, BLOB_URL: url });
  const place = readBlobStore(env, readProxies(env));
  if (place === undefined || env.problems.length > 0) throw new ConfigError(env.problems);
  return place;
}

/** Public gateways of independent operators. */
const IPFS_GATEWAYS = ["https://ipfs.io", "https://dweb.link", "https://gateway.pinata.cloud"];
/** The fallback gateways of ar.io's own client (github.com/ar-io/wayfinder). */
const ARWEAVE_GATEWAYS = ["https://arweave.net", "https://permagate.io", "https://ar-io.dev"];

/** Gateways in the form of `core/gateway.ts`. Removes `ending` from the base, which every gateway URL has. */
function readGateways(env: EnvironmentReader, key: string, fallback: readonly string[], ending: RegExp) {
  const text = env.text(key);
  if (text === undefined) return fallback;
  const entries = text.split(",").map((entry) => entry.trim());
  if (!entries.every((entry) => parseGateway(entry) !== undefined)) {
    env.wrong(
      key,
      'must be http or https URLs, separated by commas, each with at most one header after it: "<url> <name>: <value>"',
    );
  }
  return entries.map((entry) =>
    entry.replace(/^[^\s?]+/, (base) => base.replace(/\/+$/, "").replace(ending, "").replace(/\/+$/, "")),
  );
}

/** Paths of files, and https URLs. Plain http is for local chains, like private addresses. */
function readTokenLists(env: EnvironmentReader, allowsHttp: boolean): readonly string[] {
  const sources = env.text("TOKEN_LISTS")?.split(",") ?? [];
  const usable = (source: string) => {
    if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(source)) return source !== "";
    const url = URL.parse(source);
    const isAllowed = url?.protocol === "https:" || (url?.protocol === "http:" && allowsHttp);
    return isAllowed && url.username + url.password + url.hash === "";
  };
  const trimmed = sources.map((source) => source.trim());
  if (trimmed.length > LIMITS.maxTokenLists || !trimmed.every(usable)) {
    env.wrong("TOKEN_LISTS", `must be at most ${LIMITS.maxTokenLists} files or https URLs, separated by commas`);
  }
  for (const source of trimmed) if (!source.includes("://")) env.file("TOKEN_LISTS", LIMITS.maxTokenListBytes, source);
  return trimmed;
}

/** The public Portal of SQD. Its data sets stand in the chains' entries. */
const PORTAL = "https://portal.sqd.dev/datasets/";

function readArchives(env: EnvironmentReader, { archives = [] }: Chain, suffix: string): ArchivesConfig {
  const [urlKey, keyKey] = [`ARCHIVE_URL_${suffix}`, `ARCHIVE_KEY_${suffix}`];
  const given = readUrls(env, urlKey, /^https?:$/, "http(s) URLs");
  const text = env.text(keyKey);
  // A key alone goes into the header that the archive's own clients use.
  const key = text === undefined ? undefined : parseSecretHeader(/^\S+$/.test(text) ? `x-api-key: ${text}` : text);
  if (text !== undefined && key === undefined) env.wrong(keyKey, 'must be a key, or "<header>: <key>"');
  return {
    // One archive is no witness of itself.
    urls: [...new Set((given ?? archives.map((name) => `${PORTAL}${name}`)).map((url) => url.replace(/\/+$/, "")))],
    isGiven: given !== undefined,
    key,
    // The public Portal's own limit.
    per10s: env.integer("ARCHIVE_PER_10S", 20, 1, 100_000),
  };
}

function readUrls(
  env: EnvironmentReader,
  key: string,
  schemes = /^(?:https?|wss?):$/,
  allowed = "http(s) or ws(s) URLs",
): string[] | undefined {
  const text = env.text(key);
  if (text === undefined) return undefined;
  if (text.toLowerCase() === "off") return [];
  const urls = text.split(",").map((url) => url.trim());
  const usable = (url: string) => URL.canParse(url) && schemes.test(new URL(url).protocol);
  if (!urls.every(usable)) env.wrong(key, `must be ${allowed}, separated by commas, or off`);
  return urls;
}

/** The chains with those of the operator's file and the development chain, and what the start should say of them. */
function readKnownChains(env: EnvironmentReader): { readonly chains: Chains; readonly warnings: readonly string[] } {
  const path = env.text("CHAINS_FILE");
  const hasLocal = env.text("RPC_URL_LOCAL") !== undefined;
  let entries: readonly ChainEntry[] = [];
  if (path !== undefined) {
    try {
      const checked = checkChains(readOperatorFile(path, MAX_CHAINS_BYTES), takenBy);
      for (const problem of checked.problems) env.wrong("CHAINS_FILE", problem);
      if (checked.problems.length === 0) ({ entries } = checked);
    } catch (error) {
      env.wrong("CHAINS_FILE", `the file cannot be read: ${messageOf(error)}`);
    }
  }
  const replaced = entries.filter(({ name }) => CHAINS.some((chain) => chain.name === name));
  const warnings = replaced.map(({ name }) => `CHAINS_FILE replaces the built-in chain ${name}`);
  return { chains: new Chains({ added: entries, hasLocal }), warnings };
}

/** Like the start of the service: for commands that need the names of chains only. */
export const knownChainsOf = (environment: Environment): Chains =>
  readKnownChains(new EnvironmentReader(environment)).chains;

function readChains(env: EnvironmentReader, environment: Environment, knownChains: Chains): ChainConfig[] {
  const only = env.choice("RPC_URLS_ONLY", ["true", "false"], "false") === "true";
  const chains: ChainConfig[] = [];
  for (const chain of knownChains.all) {
    const suffix = envSuffix(chain.name);
    const given = readUrls(env, `RPC_URL_${suffix}`);
    const depthKey = `FINALITY_DEPTH_${suffix}`;
    const depthIsSet = env.text(depthKey) !== undefined;
    const finalityDepth = env.integer(depthKey, chain.finalityDepth, 0, MAX_FINALITY_DEPTH);
    const urls = given ?? (only ? [] : chain.endpoints);
    const followEveryMs = 1_000 * env.integer(`FOLLOW_EVERY_${suffix}`, LIMITS.followEverySeconds, 0, 120);
    const isGiven = given !== undefined;
    const archives = readArchives(env, chain, suffix);
    if (urls.length > 0) chains.push({ chain, urls, finalityDepth, depthIsSet, isGiven, followEveryMs, archives });
  }
  knownChains.enable(chains.map(({ chain }) => chain));
  // The names in a file with errors are not known.
  if (env.isWrong("CHAINS_FILE")) return chains;
  const known = new Set(knownChains.all.map(({ name }) => envSuffix(name)));
  for (const key of Object.keys(environment)) {
    const suffix = /^(?:RPC_URL|FINALITY_DEPTH|FOLLOW_EVERY|ARCHIVE_URL|ARCHIVE_KEY)_(.+)$/.exec(key)?.[1];
    if (suffix !== undefined && !known.has(suffix)) {
      env.wrong(key, `no such chain; the names are ${[...known].join(", ")}`);
    }
  }
  if (chains.length === 0) env.wrong("RPC_URLS_ONLY", "no chain is left: give at least one RPC_URL_<CHAIN>");
  return chains;
}

/** Folder of snapshots: as configured, or next to a SQLite log's file; `off` disables snapshots. */
function readSnapshotDir(env: EnvironmentReader, eventLogUrl: string): string | undefined {
  const text = env.text("SNAPSHOT_DIR");
  if (text !== undefined) return text === "off" ? undefined : text;
  const path = sqlitePath(eventLogUrl);
  return path === undefined ? "./data/snapshots" : `${path}.snapshots`;
}

function readProxies(env: EnvironmentReader): Proxies {
  const proxy = (key: string): string | undefined => {
    // Other programs read the lower case first.
    const name = env.text(key.toLowerCase()) === undefined ? key : key.toLowerCase();
    const text = env.text(name);
    if (text === undefined) return undefined;
    const url = URL.parse(/^[\w.-]+:\d+\/?$/.test(text) ? `http://${text}` : text);
    const isProxy = url !== null && /^https?:$/.test(url.protocol) && url.pathname === "/" && url.search === "";
    return isProxy ? url.href : env.wrong(name, "must be the http or https URL of a proxy, without a path");
  };
  const direct = env.text("no_proxy") ?? env.text("NO_PROXY") ?? "";
  return { http: proxy("HTTP_PROXY"), https: proxy("HTTPS_PROXY"), direct: directHosts(direct) };
}

/** The proxies of an environment, for commands that need no other configuration. @throws ConfigError */
export function proxiesOf(environment: Environment): Proxies {
  const env = new EnvironmentReader(environment);
  const proxies = readProxies(env);
  if (env.problems.length > 0) throw new ConfigError(env.problems);
  return proxies;
}

/** Reads the configuration from an environment. @throws ConfigError with all problems */
export function readConfig(environment: Environment): Config {
  const env = new EnvironmentReader(environment);
  const { chains: known, warnings: replaced } = readKnownChains(env);
  const eventLogUrl = readEventLogUrl(env);
  const proxies = readProxies(env);
  const metadataAllowPrivate = env.choice("METADATA_ALLOW_PRIVATE", ["true", "false"], "false") === "true";
  const config: Omit<Config, "warnings" | "variables"> = {
    host: env.matching("HOST", HOST_PATTERN, "be a host name or an IP address") ?? "127.0.0.1",
    port: env.integer("PORT", 3000, 0, 65_535),
    publicUrl: readPublicUrl(env),
    apiKeys: [...readApiKeys(env, "API_KEYS", "read"), ...readApiKeys(env, "OPERATOR_KEYS", "operate")],
    eventLogUrl,
    blobs: readBlobStore(env, proxies),
    pgPool: env.text("PG_POOL") === undefined ? undefined : env.integer("PG_POOL", 2, 2, 100),
    knownChains: known,
    chains: readChains(env, environment, known),
    cursorSecret: env.matching("CURSOR_SECRET", /^.{16}/s, "have at least 16 characters"),
    cacheBytes: env.integer("CACHE_MB", 1_024, 16, 1_048_576) * 1024 * 1024,
    snapshotDir: readSnapshotDir(env, eventLogUrl),
    snapshotBytes: env.integer("SNAPSHOT_MB", 4_096, 1, 1_048_576) * 1024 * 1024,
    // A million tokens of 4 KB each. Only collections made to fill disks are larger.
    metadataBytes: env.integer("METADATA_MB", 4_096, 1, 1_048_576) * 1024 * 1024,
    maxPageSize: env.integer("MAX_PAGE_SIZE", 500, 1, 10_000),
    rateLimitPerMinute: env.integer("RATE_LIMIT_PER_MINUTE", 6_000, 1, 10_000_000),
    // A script that walks a marketplace's collections requests a few a minute.
    collectionsPerHour: env.integer("COLLECTIONS_PER_HOUR", 300, 1, 1_000_000),
    // A thousand pinned collections of 100 KB are a tenth of CACHE_MB.
    subscriptionsPerKey: env.integer("SUBSCRIPTIONS_PER_KEY", 1_000, 1, 1_000_000),
    pools: env.choice("POOLS", ["all", "contract"], "all"),
    verify: env.choice("VERIFY", ["sample", "headers", "receipts"], "sample"),
    wireTypes: env.choice("WIRE_TYPES", ["seed", "native"], "seed"),
    ipfsGateways: readGateways(env, "IPFS_GATEWAYS", IPFS_GATEWAYS, /\/ipfs$/),
    arweaveGateways: readGateways(env, "ARWEAVE_GATEWAYS", ARWEAVE_GATEWAYS, /\/+$/),
    metadataGivenHosts: env.choice("METADATA_GIVEN_HOSTS", ["on", "off"], "on") === "on",
    metadataAllowPrivate,
    spamList: env.file("SPAM_LIST", LIMITS.maxListBytes),
    verifiedList: env.file("VERIFIED_LIST", LIMITS.maxListBytes),
    nameList: env.file("NAME_LIST", LIMITS.maxListBytes),
    priceHistoryDays:
      env.text("PRICE_HISTORY_DAYS") === undefined ? undefined : env.integer("PRICE_HISTORY_DAYS", 365, 1, 36_500),
    priceList: env.file("PRICE_LIST", LIMITS.maxListBytes),
    tokenLists: readTokenLists(env, metadataAllowPrivate),
    logLevel: env.choice("LOG_LEVEL", ["silent", "error", "warn", "info", "debug", "trace"], "info"),
    logFormat: env.choice("LOG_FORMAT", ["auto", "json", "pretty"], "auto"),
    hasConsole: env.choice("CONSOLE", ["on", "off"], "on") === "on",
    hasExplorerLinks: env.choice("EXPLORER_LINKS", ["on", "off"], "on") === "on",
    logRequests: env.choice("LOG_REQUESTS", ["true", "false"], "false") === "true",
    metricsKey: env.matching("METRICS_KEY", KEY_PATTERN, "match [A-Za-z0-9._~-]{8,128}"),
    proxies,
  };
  if (env.problems.length > 0) throw new ConfigError([...env.problems, ...env.faultsOfFiles()]);
  return Object.freeze({ ...config, warnings: [...replaced, ...env.nearMisses()], variables: env.set() });
}

/** All secrets of the environment, for the log. Hosts and short parts of paths are none: its lines name chains and hosts. */
export function secretsIn(config: Config): Secrets {
  const { chains, ipfsGateways, arweaveGateways, tokenLists, proxies, eventLogUrl } = config;
  const { blobs, metricsKey, cursorSecret } = config;
  const archives = chains.flatMap((chain) => (chain.archives.isGiven ? chain.archives : []));
  const gateways = [...ipfsGateways, ...arweaveGateways].flatMap((text) => parseGateway(text) ?? []);
  const urls = [
    ...chains.flatMap((chain) => (chain.isGiven ? chain.urls : [])),
    ...archives.flatMap((archive) => archive.urls),
    ...tokenLists,
  ];
  const headers = [
    ...chains.flatMap((chain) => chain.archives.key?.value ?? []),
    ...gateways.flatMap((gateway) => Object.values(gateway.headers)),
  ];
  return new Secrets([
    ...urls.filter((url) => URL.canParse(url)).flatMap(keysInUrl),
    ...headers.flatMap((value) => [value, ...secretsOfHeader(value)]),
    ...gateways.flatMap(({ query }) => parameterSecrets(query)).filter((text) => text.length >= MIN_NEAR_LENGTH),
    ...[proxies.http, proxies.https].flatMap((url) => (url === undefined ? [] : secretsOfLogin(url))),
    ...(sqlitePath(eventLogUrl) === undefined ? secretsOfPassword(eventLogUrl) : []),
    ...(blobs === undefined ? [] : keySecretsOf(blobs)),
    ...[metricsKey, cursorSecret].flatMap((text) => text ?? []),
  ]);
}
