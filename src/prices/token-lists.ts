/**
 * Names and logos of tokens, from the operator's token lists (`TOKEN_LISTS`). A list has the format of
 * https://tokenlists.org and is a file, read again when it changes, or a URL, fetched once a day. The last usable copy of
 * a fetched list is kept in a folder. An earlier list takes precedence over a later one.
 */
import { randomUUID } from "node:crypto";
import { rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { readOperatorFile } from "../core/bounded-files.ts";
import { backoffMs, type Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { makePrivateFolder, PRIVATE_FILE } from "../core/files.ts";
import type { Address } from "../core/hex.ts";
import { ListFile, type ParsedList } from "../core/list-file.ts";
import type { Logger } from "../core/logger.ts";
import { Semaphore } from "../core/semaphore.ts";
import { type ListedToken, type ListedTokens, listedKey, parseTokenList } from "./token-list.ts";
import type { TokenListPart } from "./token-list-worker.ts";

export type FindListedToken = (chainId: number, address: Address) => ListedToken | undefined;

const REFRESH_MS = 86_400_000;
/** After a failure the list is fetched again within two minutes at first, later once an hour. */
const RETRY = { baseMs: 120_000, maxMs: 3_600_000 };

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
  #onChange: () => Promise<unknown> = async () => undefined;

  constructor(options: TokenListsOptions) {
    this.#options = options;
    const { sources, maxBytes } = options;
    const file = { key: "TOKEN_LISTS", parse: parseOffThread, empty: new Map(), maxBytes };
    this.#lists = sources.map((source) =>
      isUrl(source)
        ? new FetchedList(source, options, () => this.#onChange())
        : new ListFile({ ...file, path: source }),
    );
  }

  /** The first list's entry of a token, if there is one. */
  find(chainId: number, address: Address): ListedToken | undefined {
    const place = listedKey(chainId, address);
    for (const { list } of this.#lists) {
      const found = list.get(place);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The lists in force. A list that changes is replaced by another object. */
  get current(): readonly ListedTokens[] {
    return this.#lists.map(({ list }) => list);
  }

  /** Calls the function after each change of a list, and waits for it before the next look for changes. */
  onChange(changed: () => Promise<unknown>): void {
    this.#onChange = changed;
  }

  /** All tokens of all lists. A token that several lists name comes as often, the first list's entry first. */
  *all(): Generator<ListedToken & { readonly chainId: number; readonly address: Address }> {
    for (const list of this.current) {
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
      else problems.push(...((await list.refresh())?.problems ?? []).map((problem) => `${problem} (${list.path})`));
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
        const change = await file.refresh();
        if (change === undefined) continue;
        const { problems } = change;
        if (problems.length === 0) await this.#onChange();
        if (problems.length > 0) logger.warn({ problems }, "a token list is unusable: the previous one stays in force");
        else logger.info({ path: file.path, tokens: file.list.size }, "a token list changed and was read again");
      }
    }
  }
}

/** Longest text that is parsed in place: 1 ms. */
const SMALL_TEXT = 64 * 1024;
/** One large list at a time: its values take a hundred megabytes. */
const parsing = new Semaphore(1);

/** Like `parseTokenList`. A worker parses a large list, because its megabytes take a tenth of a second. */
function parseOffThread(text: string): Promise<ParsedList<ListedTokens>> {
  return text.length <= SMALL_TEXT ? Promise.resolve(parseTokenList(text)) : parsing.run(() => parseInWorker(text));
}

async function parseInWorker(text: string): Promise<ParsedList<ListedTokens>> {
  const list = new Map<string, ListedToken>();
  const worker = new Worker(new URL("./token-list-worker.ts", import.meta.url).href);
  try {
    for (let request: string | undefined = text; ; request = undefined) {
      const part = await new Promise<TokenListPart>((resolve, reject) => {
        worker.onmessage = ({ data }: MessageEvent<TokenListPart>) => resolve(data);
        worker.onerror = ({ message }: ErrorEvent) => reject(new Error(message));
        worker.postMessage(request);
      });
      if ("problems" in part) return { list, problems: part.problems };
      for (const [place, token] of part.tokens) list.set(place, token);
    }
  } catch (error) {
    return { list, problems: [`the list could not be parsed: ${messageOf(error)}`] };
  } finally {
    worker.terminate();
  }
}

/** True for a source that is fetched, false for a file's path. */
const isUrl = (source: string): boolean => /^https?:\/\//i.test(source);

/** A list behind a URL. */
class FetchedList {
  list: ListedTokens = new Map();
  readonly #url: string;
  readonly #options: TokenListsOptions;
  readonly #onChange: () => Promise<unknown>;
  /** Time in ms since the epoch when the list was fetched; undefined for no list. */
  #fetchedAt: number | undefined;

  constructor(url: string, options: TokenListsOptions, onChange: () => Promise<unknown>) {
    this.#url = url;
    this.#options = options;
    this.#onChange = onChange;
  }

  /** Reads the copy of an earlier run. A damaged copy counts as none. */
  async restore(): Promise<void> {
    const path = this.#copyPath();
    if (path === undefined) return;
    try {
      const { mtimeMs } = await stat(path);
      const text = readOperatorFile(path, this.#options.maxBytes);
      if ((await this.#take(Buffer.from(text))) === undefined) this.#fetchedAt = mtimeMs;
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
    const problem = await this.#take(bytes);
    if (problem !== undefined) return problem;
    this.#fetchedAt = clock.now();
    await this.#keepCopy(bytes);
    return undefined;
  }

  /** Makes the bytes the list in force. Returns the problem if they are no list. */
  async #take(bytes: Uint8Array): Promise<string | undefined> {
    let text: string;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return "the list is no UTF-8";
    }
    const { list, problems } = await parseOffThread(text);
    if (problems.length > 0) return problems[0];
    this.list = list;
    await this.#onChange();
    return undefined;
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
