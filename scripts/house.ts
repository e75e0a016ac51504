/**
 * Measures the sources: files, lines of code (no blanks, comments and imports) and of comments, interfaces of options, files
 * with a second header, exported names with two meanings, circles, long files and functions. Prints a table.
 *
 * bun scripts/house.ts [--source <checkout>] [--files]
 */
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { circlesOf, foldersOf, importsOf, sourcesIn, textsIn } from "./import-graph.ts";

const { values } = parseArgs({
  options: { source: { type: "string", default: join(import.meta.dir, "..") }, files: { type: "boolean" } },
});
const checkout = resolve(values.source);
const root = join(checkout, "src");

const texts = sourcesIn(root);
const styles = textsIn(root, /\.css$/);
const imports = new Map([...texts].map(([path, text]) => [path, importsOf(path, text)]));

/** The room of a path, or a file at the top of `src`. The rooms of `nft` are named with it. */
function roomOf(path: string): string {
  const [room = "", inner = ""] = relative(root, path).split("/");
  return room === "nft" ? `${room}/${inner}` : room;
}

const linesOf = (text: string): string[] => text.split("\n").slice(0, -1);
const isComment = (line: string): boolean => /^\s*(?:\/\/|\/\*|\*)/.test(line);

/** The text without its imports and comments. */
function codeOf(text: string): string[] {
  const body = text.replace(/^(?:import|export)\s[^;]*?\sfrom\s+"[^"]+";$|^import\s+"[^"]+";$/gms, "");
  return linesOf(body.replace(/\/\*[\s\S]*?\*\//g, "")).filter((line) => line.trim() !== "" && !isComment(line));
}

/** True if prose that belongs to no declaration stands in the middle of a file: it has a second topic. */
const hasSecondHeader = (text: string): boolean => /\n\n(?:\/\/ [^\n]*\n)+\n/.test(text);

/** Paths of scripts that import from the tests, but for what tests and scripts share. */
function scriptsOnTests(): string[] {
  const isOnTests = (text: string) => /\sfrom\s+"(?:\.\.\/)+test\/(?!support\/)/.test(text);
  return [...textsIn(join(checkout, "scripts"), /\.tsx?$/)].filter(([, text]) => isOnTests(text)).map(([path]) => path);
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
/** Names of types that more than one file declares, exported or not. */
const types = [...texts].flatMap(([path, text]) =>
  [...text.matchAll(/^(?:export )?(?:interface|type|class) (\w+)/gm)].map((match) => ({
    name: match[1] as string,
    path,
  })),
);
const manyMeanings = [...Map.groupBy(types, ({ name }) => name)].filter(([, places]) => places.length > 1);
const importers = new Map<string, Set<string>>();
for (const [path, targets] of imports) {
  for (const target of targets) importers.set(target, (importers.get(target) ?? new Set()).add(path));
}
const once = [...texts.keys()].filter((path) => importers.get(path)?.size === 1);
const all = [...texts.values(), ...styles.values()];
const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
const options = all.flatMap((text) => [...text.matchAll(/^(?:export )?interface \w+(?:Options|Deps|Parts)\b/gm)]);
const headed = [...texts].filter(([, text]) => hasSecondHeader(text)).map(([path]) => relative(root, path));
const basenames = Map.groupBy(texts.keys(), (path) => path.slice(path.lastIndexOf("/") + 1));
const alike = [...basenames].filter(([, paths]) => paths.length > 1);
const longest = functions();

const rows: [string, number | string][] = [
  ["files", all.length],
  ["rooms", new Set([...texts.keys()].map(roomOf).filter((room) => !room.endsWith(".ts"))).size],
  ["lines", sum(all.map((text) => linesOf(text).length))],
  ["lines of code", sum(all.map((text) => codeOf(text).length))],
  ["comment lines", sum(all.map((text) => linesOf(text).filter(isComment).length))],
  ["interfaces of options, deps and parts", options.length],
  ["files with two headers", headed.length],
  ["exported names", exported.length],
  ["names exported by more than one file", twice.length],
  ["names of types with several meanings", manyMeanings.length],
  ["file names that stand more than once", alike.length],
  ["circles, types included", circlesOf(imports).length],
  ["circles of folders in a room", circlesOf(foldersOf(imports, roomOf)).length],
  ["scripts that import from test/", scriptsOnTests().length],
  ["longest file", Math.max(...[...texts.values()].map((text) => linesOf(text).length))],
  ["longest function", `${longest[0]?.lines} (${longest[0]?.name})`],
  ["functions over 60 lines", longest.filter((each) => each.lines > 60).length],
  ["files with one importer", once.length],
];
for (const [name, value] of rows) process.stdout.write(`${name.padEnd(40)} ${value}\n`);
if (values.files === true) {
  for (const [name, places] of manyMeanings) {
    process.stdout.write(`several meanings: ${name}: ${places.map(({ path }) => relative(root, path)).join(", ")}\n`);
  }
  for (const path of headed) process.stdout.write(`two headers: ${path}\n`);
  for (const [name, places] of twice) process.stdout.write(`${name}: ${places.map(({ path }) => path).join(", ")}\n`);
}
