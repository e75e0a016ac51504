/** The import graph of a checkout's `src`: which file imports which, as types or values, or starts it as a worker. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

/** Reads the files of a folder whose path matches. Returns their texts by path. */
export function textsIn(folder: string, isWanted: RegExp): Map<string, string> {
  const found = new Map<string, string>();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && isWanted.test(path)) found.set(path, readFileSync(path, "utf8"));
  }
  return found;
}

/** The sources below `src`, without what the build makes. */
export function sourcesIn(src: string): Map<string, string> {
  const texts = textsIn(src, /\.tsx?$/);
  texts.delete(join(src, "client/types.ts"));
  return texts;
}

/** The paths that a file imports or starts. */
export function importsOf(path: string, text: string): Set<string> {
  const imports = text.matchAll(/^(?:import|export)\s[^;]*?\sfrom\s+"(\.[^"]+)"/gms);
  const lazy = text.matchAll(/await import\("(\.[^"]+)"\)/g);
  const workers = text.matchAll(/new URL\("(\.[^"]+\.tsx?)", import\.meta\.url\)/g);
  return new Set([...imports, ...lazy, ...workers].map((match) => resolve(dirname(path), match[1] as string)));
}

/** Groups of nodes that lead to each other on some way: Tarjan's strongly connected components of several nodes. */
export function circlesOf(edges: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const found: string[][] = [];
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const visit = (node: string): void => {
    index.set(node, index.size);
    low.set(node, index.get(node) as number);
    stack.push(node);
    for (const next of edges.get(node) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node) as number, low.get(next) as number));
    }
    if (low.get(node) !== index.get(node)) return;
    const group = stack.splice(stack.indexOf(node));
    if (group.length > 1) found.push(group);
  };
  for (const node of edges.keys()) if (!index.has(node)) visit(node);
  return found;
}

/** Returns the folders that each folder imports from within its room. @param roomOf the room of a path */
export function foldersOf(
  imports: ReadonlyMap<string, ReadonlySet<string>>,
  roomOf: (path: string) => string,
): Map<string, Set<string>> {
  const edges = new Map<string, Set<string>>();
  for (const [path, targets] of imports) {
    for (const target of targets) {
      const [from, to] = [dirname(path), dirname(target)];
      if (from === to || roomOf(path) !== roomOf(target)) continue;
      edges.set(from, (edges.get(from) ?? new Set()).add(to));
    }
  }
  return edges;
}
