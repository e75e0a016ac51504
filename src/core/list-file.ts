/**
 * A file that an operator keeps, and the list that was read from it. The caller refreshes it; the file is read again
 * when it has changed. While the file can't be used, the previous list stays in force.
 */
import { statSync } from "node:fs";
import { readOperatorFile } from "./bounded-files.ts";
import { messageOf } from "./errors.ts";

/** A list's path, undefined for no list, and the setting that names it. */
export interface ListPlace {
  readonly key: string;
  readonly path: string | undefined;
}

/** A parsed list. `problems` has a sentence for each fault; if there are any, the list must not be used. */
export interface ParsedList<L> {
  readonly list: L;
  readonly problems: readonly string[];
}

interface ListFileOptions<L> extends ListPlace {
  readonly parse: (text: string) => ParsedList<L> | Promise<ParsedList<L>>;
  /** The content until the file was read. */
  readonly empty: L;
  readonly maxBytes: number;
}

/** One file, and the list that it held when it was last usable. */
export class ListFile<L> {
  readonly key: string;
  readonly path: string | undefined;
  list: L;
  readonly #parse: ListFileOptions<L>["parse"];
  readonly #maxBytes: number;
  /** Fingerprint of the file at the last read, or the reason why it could not be read. */
  #seen = "";

  constructor({ key, path, parse, empty, maxBytes }: ListFileOptions<L>) {
    this.key = key;
    this.path = path;
    this.list = empty;
    this.#parse = parse;
    this.#maxBytes = maxBytes;
  }

  /** Reads the file if it changed; undefined if not. Problems leave the list unchanged. */
  async refresh(): Promise<{ problems: string[] } | undefined> {
    if (this.path === undefined) return undefined;
    let text: string;
    try {
      // The fingerprint is taken before the read, so that a write in between counts as a change.
      const { mtimeMs, ctimeMs, size, ino } = statSync(this.path);
      const look = `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
      if (look === this.#seen) return undefined;
      this.#seen = look;
      text = readOperatorFile(this.path, this.#maxBytes);
    } catch (error) {
      const problem = `${this.key}: the file cannot be read: ${messageOf(error)}`;
      if (this.#seen === problem) return undefined;
      this.#seen = problem;
      return { problems: [problem] };
    }
    const { list, problems } = await this.#parse(text);
    if (problems.length === 0) this.list = list;
    return { problems: problems.map((problem) => `${this.key}: ${problem}`) };
  }
}
