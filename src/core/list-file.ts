/**
 * A file that an operator keeps, and what was read from it. It is read again when it changes. While the file can't be
 * used, the previous content stays in force.
 */
import { readFile, stat } from "node:fs/promises";
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
  readonly parse: (text: string) => ParsedList<L>;
  /** The content until the file was read. */
  readonly empty: L;
  readonly maxBytes: number;
}

/** One file, and the list that it held when it was last usable. */
export class ListFile<L> {
  readonly key: string;
  readonly path: string | undefined;
  list: L;
  readonly #parse: (text: string) => ParsedList<L>;
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
      const found = await stat(this.path);
      // Reading a pipe would block the start.
      if (!found.isFile()) throw new Error("it is not a regular file");
      const { mtimeMs, ctimeMs, size, ino } = found;
      const look = `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
      if (look === this.#seen) return undefined;
      this.#seen = look;
      if (size > this.#maxBytes) {
        return { problems: [`${this.key}: must not have more than ${this.#maxBytes} bytes`] };
      }
      text = new TextDecoder("utf-8", { fatal: true }).decode(await readFile(this.path));
    } catch (error) {
      const problem = `${this.key}: the file cannot be read: ${messageOf(error)}`;
      if (this.#seen === problem) return undefined;
      this.#seen = problem;
      return { problems: [problem] };
    }
    const { list, problems } = this.#parse(text);
    if (problems.length === 0) this.list = list;
    return { problems: problems.map((problem) => `${this.key}: ${problem}`) };
  }
}
