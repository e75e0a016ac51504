/**
 * Names and logos of tokens, from the operator's token lists (`TOKEN_LISTS`). A list has the format of
 * https://tokenlists.org and is a file, read again when it changes, or a URL, fetched once a day. The last usable copy of
 * a fetched list is kept in a folder. An earlier list takes precedence over a later one.
 */
import { randomUUID } from "node:crypto";
import { rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { backoffMs, type Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import {
  ListFile,
  makePrivateFolder,
  type ParsedList,
  PRIVATE_FILE,
  parseOperatorJson,
  readOperatorFile,
} from "../core/files.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";

export interface ListedToken {
  readonly name: string;
  readonly symbol: string;
  /** A URL (http, https or ipfs), or "" if the list has none. */
  readonly logo: string;
}

export type FindListedToken = (chainId: number, address: Address) => ListedToken | undefined;

type ListedTokens = ReadonlyMap<string, ListedToken>;

/** The bounds of the token-lists schema: https://uniswap.org/tokenlist.schema.json. */
const MAX_TOKENS = 10_000;
const MAX_NAME = 60;
const MAX_SYMBOL = 20;
const MAX_LOGO = 2_048;
const REFRESH_MS = 86_400_000;
/** After a failure the list is fetched again within two minutes at first, later once an hour. */
const RETRY = { baseMs: 120_000, maxMs: 3_600_000 };

const key = (chainId: number, address: string): string => `${chainId}/${address.toLowerCase()}`;

/**
 * Parses a token list. Leaves out entries that the format forbids, because some published lists have a few of them.
 * Refuses text that is no list.
 */
export function parseTokenList(text: string): ParsedList<ListedTokens> {
  const list = new Map<string, ListedToken>();
  const refused = (problem: string) => ({ list, problems: [problem] });
  let value: unknown;
  try {
    value = parseOperatorJson(text.replace(/^\ufeff/, ""));
  } catch (error) {
    return refused(
      error instanceof SyntaxError ? "the list is no JSON" : `the list can't be used: ${messageOf(error)}`,
    );
  }
  const tokens = (value as { tokens?: unknown } | null)?.tokens;
  if (!Array.isArray(tokens)) return refused("the list has no `tokens`; the format is https://tokenlists.org");
  if (tokens.length > MAX_TOKENS) return refused(`the list has more than ${MAX_TOKENS} tokens`);
  for (const token of tokens as unknown[]) {
    if (!isToken(token)) continue;
    const place = key(token.chainId, token.address);
    const { name, symbol, logoURI: logo } = token;
    if (!list.has(place)) list.set(place, { name, symbol, logo: isLogo(logo) ? logo : "" });
  }
  if (tokens.length > 0 && list.size === 0) return refused("no entry of `tokens` has the format of a token");
  return { list, problems: [] };
}

interface Token {
  readonly chainId: number;
  readonly address: string;
  readonly name: string;
  readonly symbol: string;
  readonly logoURI?: unknown;
}

function isToken(value: unknown): value is Token {
  const { chainId, address, name, symbol } = (value ?? {}) as Record<string, unknown>;
  return (
    Number.isSafeInteger(chainId) &&
    typeof address === "string" &&
    /^0x[0-9a-fA-F]{40}$/.test(address) &&
    isText(name, MAX_NAME) &&
    isText(symbol, MAX_SYMBOL)
  );
}

const isText = (value: unknown, maxLength: number): value is string =>
  typeof value === "string" && value.length <= maxLength && !/\p{Cc}/u.test(value) && value.isWellFormed();

const isLogo = (value: unknown): value is string =>
  isText(value, MAX_LOGO) && /^(?:https?|ipfs):\/\/[^\s"'<>\\]+$/.test(value);

interface TokenListsOptions {
  /** Paths and URLs, in order of precedence. */
  readonly sources: readonly string[];
  /** Gets the bytes of a URL through the guarded fetcher. */
  readonly fetch: (url: string, maxBytes: number, signal: AbortSignal) => Promise<Uint8Array>;
  /** Folder for copies of fetched lists; undefined keeps none. */
  readonly folder: string | undefined;
  readonly maxBytes: number;
  /** Interval at which the files are checked for changes. */
  readonly pollMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class TokenLists {
  readonly #options: TokenListsOptions;
  readonly #lists: readonly (ListFile<ListedTokens> | FetchedList)[];

  constructor(options: TokenListsOptions) {
    this.#options = options;
    const { sources, maxBytes } = options;
    const file = { key: "TOKEN_LISTS", parse: parseTokenList, empty: new Map(), maxBytes };
    this.#lists = sources.map((source) =>
      isUrl(source) ? new FetchedList(source, options) : new ListFile({ ...file, path: source }),
    );
  }

  /** The first list's entry of a token, if there is one. */
  find(chainId: number, address: Address): ListedToken | undefined {
    const place = key(chainId, address);
    for (const { list } of this.#lists) {
      const found = list.get(place);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** All tokens of all lists. A token that several lists name comes as often, the first list's entry first. */
  *all(): Generator<ListedToken & { readonly chainId: number; readonly address: Address }> {
    for (const { list } of this.#lists) {
      for (const [place, token] of list) {
        const [chainId, address] = place.split("/") as [string, Address];
        yield { ...token, chainId: Number(chainId), address };
      }
    }
  }

  /** Reads the files, and the copies of fetched lists. Returns the files' problems, one sentence each. */
  async load(): Promise<string[]> {
    const problems: string[] = [];
    for (const list of this.#lists) {
      if (list instanceof FetchedList) await list.restore();
      else problems.push(...(list.refresh()?.problems ?? []).map((problem) => `${problem} (${list.path})`));
    }
    return problems;
  }

  /** Keeps all lists current until the signal aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    const files = this.#lists.filter((list) => list instanceof ListFile);
    const fetched = this.#lists.filter((list) => list instanceof FetchedList);
    await Promise.all([
      ...fetched.map((list) => list.keepCurrent(signal)),
      files.length > 0 ? this.#watchFiles(files, signal) : undefined,
    ]);
  }

  async #watchFiles(files: readonly ListFile<ListedTokens>[], signal: AbortSignal): Promise<void> {
    const { clock, logger, pollMs } = this.#options;
    for (;;) {
      await clock.sleep(pollMs, signal);
      for (const file of files) {
        const change = file.refresh();
        if (change === undefined) continue;
        const { problems } = change;
        if (problems.length > 0) logger.warn({ problems }, "a token list is unusable: the previous one stays in force");
        else logger.info({ path: file.path, tokens: file.list.size }, "a token list changed and was read again");
      }
    }
  }
}

/** True for a source that is fetched, false for a file's path. */
const isUrl = (source: string): boolean => /^https?:\/\//i.test(source);

/** A list behind a URL. */
class FetchedList {
  list: ListedTokens = new Map();
  readonly #url: string;
  readonly #options: TokenListsOptions;
  /** Time in ms since the epoch when the list was fetched; undefined for no list. */
  #fetchedAt: number | undefined;

  constructor(url: string, options: TokenListsOptions) {
    this.#url = url;
    this.#options = options;
  }

  /** Reads the copy of an earlier run. A damaged copy counts as none. */
  async restore(): Promise<void> {
    const path = this.#copyPath();
    if (path === undefined) return;
    try {
      const { mtimeMs } = await stat(path);
      const text = readOperatorFile(path, this.#options.maxBytes);
      if (this.#take(text) === undefined) this.#fetchedAt = mtimeMs;
    } catch {
      // There is no copy. The list is fetched soon.
    }
  }

  /** Fetches the list once a day, and again with backoff after a failure, until the signal aborts. */
  async keepCurrent(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    // A URL may contain a key in its path or query, so the log names the host alone.
    const host = new URL(this.#url).host;
    for (let failures = 0; ; ) {
      const age = this.#fetchedAt === undefined ? REFRESH_MS : Math.max(0, clock.now() - this.#fetchedAt);
      const wait = failures > 0 ? backoffMs(clock, failures, RETRY.baseMs, RETRY.maxMs) : REFRESH_MS - age;
      if (wait > 0) await clock.sleep(wait, signal);
      const problem = await this.#fetch(signal);
      failures = problem === undefined ? 0 : failures + 1;
      if (problem === undefined) logger.info({ host, tokens: this.list.size }, "a token list was fetched");
      else logger.warn({ host, problem, attempt: failures }, "a token list could not be fetched: the last copy serves");
    }
  }

  /** Returns a problem, or undefined if the list was replaced. @throws the signal's reason */
  async #fetch(signal: AbortSignal): Promise<string | undefined> {
    const { fetch, maxBytes, clock } = this.#options;
    let bytes: Uint8Array;
    try {
      bytes = await fetch(this.#url, maxBytes, signal);
    } catch (error) {
      signal.throwIfAborted();
      return messageOf(error);
    }
    let text: string;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return "the list is no UTF-8";
    }
    const problem = this.#take(text);
    if (problem !== undefined) return problem;
    this.#fetchedAt = clock.now();
    await this.#keepCopy(bytes);
    return undefined;
  }

  /** Makes the text the list in force. Returns the problem if it is no list. */
  #take(text: string): string | undefined {
    const { list, problems } = parseTokenList(text);
    if (problems.length === 0) this.list = list;
    return problems[0];
  }

  async #keepCopy(bytes: Uint8Array): Promise<void> {
    const { folder, logger } = this.#options;
    const path = this.#copyPath();
    if (path === undefined || folder === undefined) return;
    try {
      makePrivateFolder(folder);
      // A crash in between must not leave half a list.
      const unfinished = `${path}.${randomUUID()}`;
      await writeFile(unfinished, bytes, { mode: PRIVATE_FILE });
      await rename(unfinished, path);
    } catch (error) {
      logger.warn({ problem: messageOf(error) }, "the copy of a token list could not be written");
    }
  }

  #copyPath(): string | undefined {
    const { folder } = this.#options;
    const name = Bun.CryptoHasher.hash("sha256", this.#url, "hex").slice(0, 32);
    return folder === undefined ? undefined : join(folder, `${name}.tokenlist.json`);
  }
}
