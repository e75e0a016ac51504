/**
 * The operator's two lists, read from their files and read again when those change. A file that cannot be used stops
 * the start; later it is warned of once and the list of before stays in force. Which collections that concerns is the
 * flags' business.
 */
import { readFile, stat } from "node:fs/promises";
import type { Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { EMPTY_LIST, type FlagList, parseFlagList } from "../nfts/flag-list.ts";
import type { FlagLists } from "../nfts/flags.ts";

export interface ListFilesOptions {
  /** Paths by the setting that names them; undefined: no list. */
  readonly spam: { readonly key: string; readonly path: string | undefined };
  readonly verified: { readonly key: string; readonly path: string | undefined };
  readonly maxBytes: number;
  readonly pollMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class ListFiles implements FlagLists {
  readonly #options: ListFilesOptions;
  readonly #spam: ListFile;
  readonly #verified: ListFile;

  constructor(options: ListFilesOptions) {
    this.#options = options;
    this.#spam = new ListFile(options.spam.key, options.spam.path, options.maxBytes);
    this.#verified = new ListFile(options.verified.key, options.verified.path, options.maxBytes);
  }

  isSpam(chainId: number, address: Address): boolean {
    return this.#spam.list.has(chainId, address);
  }

  isVerified(chainId: number, address: Address): boolean {
    return this.#verified.list.has(chainId, address);
  }

  /** Reads both for the first time; returns what is wrong with them, a sentence each. */
  async load(): Promise<string[]> {
    const problems: string[] = [];
    for (const file of this.#files) problems.push(...((await file.refresh())?.problems ?? []));
    return problems;
  }

  get #files(): readonly ListFile[] {
    return [this.#spam, this.#verified].filter((file) => file.path !== undefined);
  }

  /** Looks for changes until stopped. @param onChange called after a list was replaced */
  async watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    const { clock, logger, pollMs } = this.#options;
    while (this.#files.length > 0) {
      await clock.sleep(pollMs, signal);
      for (const file of this.#files) {
        const change = await file.refresh();
        if (change === undefined) continue;
        if (change.problems.length > 0) {
          logger.warn({ problems: change.problems }, "a list cannot be used as it is now: the one of before stays");
        } else {
          logger.info({ setting: file.key, entries: file.list.size }, "a list was read again");
          onChange();
        }
      }
    }
  }
}

/** One file and the list it held when it was last usable. */
class ListFile {
  readonly key: string;
  readonly path: string | undefined;
  list: FlagList = EMPTY_LIST;
  readonly #maxBytes: number;
  /** What the file looked like when it was last read, or why it could not be. */
  #seen = "";

  constructor(key: string, path: string | undefined, maxBytes: number) {
    this.key = key;
    this.path = path;
    this.#maxBytes = maxBytes;
  }

  /** Reads the file when it is not as it was; undefined when it is. Problems leave the list as it was. */
  async refresh(): Promise<{ problems: string[] } | undefined> {
    if (this.path === undefined) return undefined;
    let text: string;
    try {
      // Looked at before it is read: what is written meanwhile is a change.
      const found = await stat(this.path);
      // A pipe would keep the start waiting.
      if (!found.isFile()) throw new Error("it is no regular file");
      const { mtimeMs, ctimeMs, size, ino } = found;
      const look = `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
      if (look === this.#seen) return undefined;
      this.#seen = look;
      if (size > this.#maxBytes) return { problems: [`${this.key}: must not have more than ${this.#maxBytes} bytes`] };
      text = new TextDecoder("utf-8", { fatal: true }).decode(await readFile(this.path));
    } catch (error) {
      const problem = `${this.key}: the file cannot be read: ${messageOf(error)}`;
      if (this.#seen === problem) return undefined;
      this.#seen = problem;
      return { problems: [problem] };
    }
    const { list, problems } = parseFlagList(text);
    if (problems.length === 0) this.list = list;
    return { problems: problems.map((problem) => `${this.key}: ${problem}`) };
  }
}
