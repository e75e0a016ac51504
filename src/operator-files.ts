/** The files that the environment names: the operator's lists of contracts and names, token lists and the price list. */
import { join } from "node:path";
import { COMPUTE_UNITS, type PriceList, parsePriceList } from "./chains/price-lists.ts";
import { type Config, ConfigError, LIMITS } from "./config.ts";
import { readOperatorFile } from "./core/bounded-files.ts";
import type { Clock } from "./core/clock.ts";
import { messageOf } from "./core/errors.ts";
import type { Logger } from "./core/logger.ts";
import { ListFiles } from "./nft/collections/operator-lists.ts";
import { Fetcher } from "./nft/metadata/resolve/fetcher.ts";
import { type Wire, wireWith } from "./nft/metadata/resolve/wire.ts";
import { TokenLists } from "./prices/token-lists.ts";

interface FileOptions {
  readonly config: Config;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Wait between looks for changes in ms, for tests. */
  readonly minPollMs?: number;
  readonly metadataWire?: Wire;
}

interface OperatorFiles {
  readonly lists: ListFiles;
  readonly tokenLists: TokenLists;
  readonly priceList: PriceList;
}

/** Reads the files that the environment names. @throws ConfigError with the problems of all of them */
export async function readOperatorFiles(options: FileOptions): Promise<OperatorFiles> {
  const all = [readLists(options), readTokenLists(options), readPriceList(options.config)] as const;
  const problems: string[] = [];
  for (const outcome of await Promise.allSettled(all)) {
    if (outcome.status === "fulfilled") continue;
    if (!(outcome.reason instanceof ConfigError)) throw outcome.reason;
    problems.push(...outcome.reason.problems);
  }
  if (problems.length > 0) throw new ConfigError(problems);
  const [lists, tokenLists, priceList] = await Promise.all(all);
  return { lists, tokenLists, priceList };
}

/** Reads the files of lists for the first time. @throws ConfigError with their problems */
async function loaded<T extends ListFiles | TokenLists>(lists: T): Promise<T> {
  const problems = await lists.load();
  if (problems.length > 0) throw new ConfigError(problems);
  return lists;
}

/** Reads the operator's lists. @throws ConfigError with the problems of their files */
async function readLists({ config, logger, clock, minPollMs }: FileOptions): Promise<ListFiles> {
  return loaded(
    new ListFiles({
      chains: config.knownChains,
      spam: { key: "SPAM_LIST", path: config.spamList },
      verified: { key: "VERIFIED_LIST", path: config.verifiedList },
      names: { key: "NAME_LIST", path: config.nameList },
      maxBytes: LIMITS.maxListBytes,
      pollMs: minPollMs ?? LIMITS.listPollMs,
      clock,
      logger,
    }),
  );
}

/** Reads the token lists that are files or were fetched before. @throws ConfigError with the problems of files */
async function readTokenLists(options: FileOptions): Promise<TokenLists> {
  const { config, logger, clock, minPollMs } = options;
  const { metadataAllowPrivate: allowPrivate, snapshotDir } = config;
  const wire = options.metadataWire ?? wireWith(config.proxies);
  const fetcher = new Fetcher({ wire, clock, allowPrivate, gateways: { ipfs: [], arweave: [] } });
  const times = { firstByteMs: 10_000, totalMs: 60_000, httpsOnly: !allowPrivate, isOperators: true };
  return loaded(
    new TokenLists({
      sources: config.tokenLists,
      fetch: async (url, maxBytes, signal) => (await fetcher.fetch(url, { ...times, maxBytes }, signal)).bytes,
      folder: snapshotDir === undefined ? undefined : join(snapshotDir, "token-lists"),
      maxBytes: LIMITS.maxTokenListBytes,
      pollMs: minPollMs ?? LIMITS.listPollMs,
      clock,
      logger,
    }),
  );
}

/** Reads the operator's price list. @throws ConfigError */
async function readPriceList({ priceList: path }: Config): Promise<PriceList> {
  if (path === undefined) return COMPUTE_UNITS;
  let text: string;
  try {
    text = readOperatorFile(path, LIMITS.maxListBytes);
  } catch (error) {
    throw new ConfigError([`PRICE_LIST: the file cannot be read: ${messageOf(error)}`]);
  }
  try {
    return parsePriceList(text);
  } catch (error) {
    throw new ConfigError([`PRICE_LIST: ${messageOf(error)}`]);
  }
}
