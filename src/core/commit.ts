/** The commit of the sources that run, for who wants to tell two processes apart. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const HASH = /^[0-9a-f]{40}$/;

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}

/**
 * The commit of a checkout in hex, as its `.git` folder tells it.
 * @param folder the top of the checkout. Null without such a folder: in an image, and in a program of one file
 */
export function commitOf(folder: string): string | null {
  const head = textOf(join(folder, ".git/HEAD")) ?? "";
  const ref = /^ref: (refs\/[\w./-]+)$/.exec(head)?.[1];
  const packed = () => textOf(join(folder, ".git/packed-refs"))?.split("\n");
  const commit =
    ref === undefined
      ? head
      : (textOf(join(folder, ".git", ref)) ??
        packed()
          ?.find((line) => line.endsWith(` ${ref}`))
          ?.slice(0, 40));
  return commit !== undefined && HASH.test(commit) ? commit : null;
}
