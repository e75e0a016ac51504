/**
 * Reads the operator's lists from their files, and re-reads changed files. An unusable file stops the start; later it
 * causes one warning, and the previous list stays in force. Does not apply the lists: `CollectionFlags` sets the flags,
 * and names are looked up when a page is written.
 */
import { readFile, stat } from "node:fs/promises";
import type { Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { EMPTY_LIST, type FlagList, parseFlagList } from "../nfts/flag-list.ts";
import type { FlagLists } from "../nfts/flags.ts";
import { knownName } from "../nfts/known-names.ts";
import { type ContractNames, type NameList, parseNameList } from "../nfts/name-list.ts";

/** A list's path, undefined for no list, and the setting that names it. */
interface ListPlace {
  readonly key: string;
  readonly path: string | undefined;
}

export interface ListFilesOptions {
  readonly spam: ListPlace;
  readonly verified: ListPlace;
  readonly names: ListPlace;
  readonly maxBytes: number;
  readonly pollMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class ListFiles implements FlagLists {
  readonly #options: ListFilesOptions;
  readonly #spam: ListFile<FlagList>;
  readonly #verified: ListFile<FlagList>;
  readonly #names: ListFile<NameList>;

  constructor(options: ListFilesOptions) {
    this.#options = options;
    const { spam, verified, names, maxBytes } = options;
    const flags = { empty: EMPTY_LIST, parse: parseFlagList, maxBytes };
    this.#spam = new ListFile({ ...spam, ...flags });
    this.#verified = new ListFile({ ...verified, ...flags });
    this.#names = new ListFile({ ...names, empty: NO_NAMES, parse: parseNameList, maxBytes });
  }

  isSpam(chainId: number, address: Address): boolean {
    return this.#spam.list.has(chainId, address);
  }

  isVerified(chainId: number, address: Address): boolean {
    return this.#verified.list.has(chainId, address);
  }

  /** Returns the names for a contract without its own. The same object until the list changes. */
  namesOf(chainId: number, address: Address): ContractNames | undefined {
    return this.#names.list.find(chainId, address) ?? knownName(chainId, address);
  }

  /** Reads all lists for the first time. Returns their problems, one sentence each. */
  async load(): Promise<string[]> {
    const problems: string[] = [];
    for (const file of this.#files) problems.push(...((await file.refresh())?.problems ?? []));
    return problems;
  }

  get #files(): readonly ListFile<FlagList | NameList>[] {
    return [this.#spam, this.#verified, this.#names].filter((file) => file.path !== undefined);
  }

  /** Polls the files for changes until the signal aborts. @param onChange called after a list was replaced */
  async watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    const { clock, logger, pollMs } = this.#options;
    while (this.#files.length > 0) {
      await clock.sleep(pollMs, signal);
      for (const file of this.#files) {
        const change = await file.refresh();
        if (change === undefined) continue;
        if (change.problems.length > 0) {
          logger.warn({ problems: change.problems }, "a list file is unusable: the previous list stays in force");
        } else {
          logger.info({ setting: file.key, entries: file.list.size }, "a list file changed and was read again");
          onChange();
        }
      }
    }
  }
}

const NO_NAMES: NameList = { size: 0, find: () => undefined };

interface ListFileOptions<List> extends ListPlace {
  readonly empty: List;
  readonly parse: (text: string) => { readonly list: List; readonly problems: readonly string[] };
  readonly maxBytes: number;
}

/** One file, and the list that it held when it was last usable. */
class ListFile<List extends { readonly size: number }> {
  readonly key: string;
  readonly path: string | undefined;
  list: List;
  readonly #options: ListFileOptions<List>;
  /** Fingerprint of the file at the last read, or the reason why it could not be read. */
  #seen = "";

  constructor(options: ListFileOptions<List>) {
    this.key = options.key;
    this.path = options.path;
    this.list = options.empty;
    this.#options = options;
  }

  /** Reads the file if it changed; undefined if not. Problems leave the list unchanged. */
  async refresh(): Promise<{ problems: string[] } | undefined> {
    if (this.path === undefined) return undefined;
    const { parse, maxBytes } = this.#options;
    let text: string;
    try {
      // The fingerprint is taken before the read, so that a write in between counts as a change.
      const found = await stat(this.path);
      // Reading a pipe would block the start.
      if (!found.isFile()) throw new Error("it is not a regular file");
      const { mtimeMs, ctimeMs, size, ino } = found;
      const look = `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
      if (look === this.#seen) return undefined;
      this.#seen = look;
      if (size > maxBytes) return { problems: [`${this.key}: must not have more than ${maxBytes} bytes`] };
      text = new TextDecoder("utf-8", { fatal: true }).decode(await readFile(this.path));
    } catch (error) {
      const problem = `${this.key}: the file cannot be read: ${messageOf(error)}`;
      if (this.#seen === problem) return undefined;
      this.#seen = problem;
      return { problems: [problem] };
    }
    const { list, problems } = parse(text);
    if (problems.length === 0) this.list = list;
    return { problems: problems.map((problem) => `${this.key}: ${problem}`) };
  }
}
