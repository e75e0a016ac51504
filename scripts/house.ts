/**
 * Measures the sources: files and lines with those of the console and its styles, comment lines, exported names, names
 * exported twice, import circles of files and of the folders in a room, the longest function, the files that one other
 * file imports, errors of HTTP made outside of `http`, and scripts that import from the tests. Prints a table.
 *
 * bun scripts/house.ts [--source <checkout>] [--files]
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: { source: { type: "string", default: join(import.meta.dir, "..") }, files: { type: "boolean" } },
});
const root = join(resolve(values.source), "src");

/** Made by the build, so git does not keep it. */
const GENERATED = join(root, "client/types.ts");

/** The texts of a folder's files with one of these endings, by path. */
function textsIn(folder: string, ending: RegExp): Map<string, string> {
  const found = new Map<string, string>();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && ending.test(path) && path !== GENERATED) found.set(path, readFileSync(path, "utf8"));
  }
  return found;
}

const texts = textsIn(root, /\.tsx?$/);
const styles = textsIn(root, /\.css$/);

const imports = new Map<string, Set<string>>();
for (const [path, text] of texts) {
  const targets = [...text.matchAll(/^(?:import|export)\b[^;]*?\bfrom\s+"(\.[^"]+)"/gms)];
  const workers = [...text.matchAll(/new URL\("(\.[^"]+\.ts)", import\.meta\.url\)/g)];
  imports.set(path, new Set([...targets, ...workers].map((match) => resolve(dirname(path), match[1] as string))));
}

/** Groups of nodes that lead to each other on some way (Tarjan's strongly connected components). */
function circles(edges: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const found: string[][] = [];
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const visit = (file: string): void => {
    index.set(file, index.size);
    low.set(file, index.get(file) as number);
    stack.push(file);
    for (const next of edges.get(file) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(file, Math.min(low.get(file) as number, low.get(next) as number));
    }
    if (low.get(file) !== index.get(file)) return;
    const group = stack.splice(stack.indexOf(file));
    if (group.length > 1) found.push(group.map((member) => relative(root, member)));
  };
  for (const file of edges.keys()) if (!index.has(file)) visit(file);
  return found;
}

/** What the folders of one room import from each other. */
function foldersOfRooms(): Map<string, Set<string>> {
  const edges = new Map<string, Set<string>>();
  const roomOf = (folder: string) => relative(root, folder).split("/")[0];
  for (const [path, targets] of imports) {
    for (const target of targets) {
      const [from, to] = [dirname(path), dirname(target)];
      if (from !== to && from !== root && roomOf(from) === roomOf(to)) {
        edges.set(from, (edges.get(from) ?? new Set()).add(to));
      }
    }
  }
  return edges;
}

/** Paths of scripts that import from the tests, but for what tests and scripts share. */
function scriptsOnTests(): string[] {
  const scripts = textsIn(join(resolve(values.source), "scripts"), /\.tsx?$/);
  const isOnTests = (text: string) => /\sfrom\s+"(?:\.\.\/)+test\/(?!support\/)/.test(text);
  return [...scripts].filter(([, text]) => isOnTests(text)).map(([path]) => path);
}

interface Measured {
  readonly name: string;
  readonly lines: number;
}

/** Functions and methods with a body of several lines, as the formatter lays them out. */
function functions(): Measured[] {
  const found: Measured[] = [];
  for (const [path, text] of texts) {
    const lines = text.split("\n");
    for (const [start, line] of lines.entries()) {
      const head =
        /^(\s*)(?:export |default |async |static |private |override |get |set )*(?:function\*? )?\*?(#?\w+)[(<].*$/.exec(
          line,
        );
      const arrow = /^(\s*)(?:export )?const (\w+) = .*=> \{$/.exec(line);
      const match = arrow ?? head;
      if (match === null || /^\s*(?:if|for|while|switch|return|await|catch|expect|new)\b/.test(line)) continue;
      const indent = match[1] as string;
      // A signature over several lines ends with a line of its own.
      const open = /\($/.test(line) ? lines.findIndex((each, i) => i > start && each.startsWith(`${indent})`)) : start;
      if (open < 0 || !/\{$/.test(lines[open] as string)) continue;
      const end = lines.findIndex((each, i) => i > open && each.startsWith(`${indent}}`));
      if (end > open) found.push({ name: `${relative(root, path)}:${match[2]}`, lines: end - start + 1 });
    }
  }
  return found.sort((a, b) => b.lines - a.lines);
}

const exported = [...texts].flatMap(([path, text]) =>
  [
    ...text.matchAll(
      /^export (?:async |abstract |declare )*(?:function\*?|class|const|let|interface|type|enum) (\w+)/gm,
    ),
  ].map((match) => ({ name: match[1] as string, path: relative(root, path) })),
);
const byName = Map.groupBy(exported, ({ name }) => name);
const twice = [...byName].filter(([, places]) => new Set(places.map(({ path }) => path)).size > 1);
const importers = new Map<string, Set<string>>();
for (const [path, targets] of imports) {
  for (const target of targets) importers.set(target, (importers.get(target) ?? new Set()).add(path));
}
const once = [...texts.keys()].filter((path) => importers.get(path)?.size === 1);
const lines = [...texts.values()].map((text) => text.split("\n").length - 1);
const comments = [...texts.values()]
  .flatMap((text) => text.split("\n"))
  .filter((line) => /^\s*(\/\/|\/\*|\*)/.test(line));
const longest = functions();
const basenames = Map.groupBy(texts.keys(), (path) => path.slice(path.lastIndexOf("/") + 1));
const alike = [...basenames].filter(([, paths]) => paths.length > 1);
const circular = circles(imports);
const httpErrors = [...texts].filter(([path, text]) => !/\/src\/http\//.test(path) && /new ApiError\(/.test(text));
const linesOf = (text: string) => text.split("\n").length - 1;
const styleLines = [...styles.values()].reduce((sum, text) => sum + linesOf(text), 0);

const rows: [string, number | string][] = [
  ["files", texts.size + styles.size],
  ["lines", lines.reduce((sum, count) => sum + count, 0) + styleLines],
  ["comment lines", comments.length],
  ["exported names", exported.length],
  ["names exported by more than one file", twice.length],
  ["file names that stand more than once", alike.length],
  ["circles, types included", circular.length],
  ["circles of folders in a room", circles(foldersOfRooms()).length],
  ["files outside http with an ApiError", httpErrors.length],
  ["scripts that import from test/", scriptsOnTests().length],
  ["longest file", Math.max(...lines)],
  ["longest function", `${longest[0]?.lines} (${longest[0]?.name})`],
  ["functions over 60 lines", longest.filter((each) => each.lines > 60).length],
  ["files with one importer", once.length],
];
for (const [name, value] of rows) process.stdout.write(`${name.padEnd(40)} ${value}\n`);
if (values.files === true) {
  const size = (path: string) => (texts.get(path) ?? "").split("\n").length - 1;
  for (const path of once.sort((a, b) => size(a) - size(b))) {
    const [importer] = importers.get(path) ?? [];
    process.stdout.write(
      `${String(size(path)).padStart(5)} ${relative(root, path)} ← ${relative(root, importer ?? "")}\n`,
    );
  }
  for (const [name, places] of twice) process.stdout.write(`${name}: ${places.map(({ path }) => path).join(", ")}\n`);
  for (const [name, paths] of alike)
    process.stdout.write(`${name}: ${paths.map((path) => relative(root, path)).join(", ")}\n`);
  for (const group of circular) process.stdout.write(`circle: ${group.join(" ")}\n`);
  for (const { name, lines: count } of longest.slice(0, 12)) process.stdout.write(`${count} ${name}\n`);
}
