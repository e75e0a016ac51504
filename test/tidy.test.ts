/**
 * The rules of the sources, checked: who may import from whom, no cycles, no barrel files, no file nobody imports, a
 * header on each, no machine's paths or registries' hosts anywhere.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "..");
const SRC = join(ROOT, "src");

/** Folder (or file at the top of src) → what it may import from. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  chains: ["core"],
  events: ["core"],
  log: ["core", "events"],
  rpc: ["core", "chains", "events"],
  chain: ["core", "chains", "events", "log", "rpc"],
  ledger: ["core", "events"],
  collections: ["core", "chains", "events", "log", "ledger"],
  listings: ["core", "chains", "events", "log", "ledger", "collections"],
  indexing: ["core", "chains", "events", "log", "rpc", "chain", "ledger", "collections"],
  prices: ["core", "chains", "events", "log", "rpc", "chain"],
  metadata: ["core", "chains", "events", "log", "rpc", "chain", "ledger", "collections", "listings"],
  push: ["core", "chains", "events", "log", "ledger", "collections", "listings"],
  http: ["core", "chains", "events", "ledger", "collections", "listings", "metadata", "prices", "push", "config.ts"],
  "config.ts": ["core", "chains"],
  "observers.ts": ["core", "chains", "chain", "collections", "indexing", "metadata", "rpc"],
  "chain-runtime.ts": [
    ...["core", "chains", "events", "log", "rpc", "chain", "ledger", "collections", "listings", "indexing"],
    ...["prices", "metadata", "config.ts", "observers.ts"],
  ],
  "service.ts": [
    ...["core", "chains", "events", "log", "rpc", "chain", "ledger", "collections", "listings", "indexing"],
    ...["prices", "metadata", "push", "http", "config.ts", "observers.ts", "chain-runtime.ts"],
  ],
  "main.ts": ["service.ts", "config.ts", "core"],
};

/** Entry points: started as a process or as a worker. */
const ENTRIES = [
  "main.ts",
  "log/sqlite-writer.ts",
  "metadata/resolve/parse-worker.ts",
  "metadata/media/preview-process.ts",
  "rpc/decode/decode-worker.ts",
];

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

interface Import {
  readonly target: string;
  readonly typeOnly: boolean;
}

function importsOf(file: string): Import[] {
  const text = readFileSync(file, "utf8");
  const found: Import[] = [];
  for (const match of text.matchAll(/^(import|export)\s+(type\s+)?([^;]*?)\s*from\s+"(\.[^"]+)"/gms)) {
    const named = match[3] ?? "";
    const typeOnly = match[2] !== undefined || /^\{\s*(?:type [^,}]+,?\s*)+\}$/s.test(named);
    found.push({ target: resolve(dirname(file), match[4] as string), typeOnly });
  }
  for (const match of text.matchAll(/new URL\("(\.[^"]+\.ts)", import\.meta\.url\)/g)) {
    found.push({ target: resolve(dirname(file), match[1] as string), typeOnly: false });
  }
  return found;
}

const sources = filesBelow(SRC).filter((file) => file.endsWith(".ts"));
const partOf = (file: string): string => relative(SRC, file).split("/")[0] as string;

describe("the sources", () => {
  test("import only from where they may", () => {
    const wrong: string[] = [];
    for (const file of sources) {
      const part = partOf(file);
      const allowed = MAY_IMPORT[part];
      if (allowed === undefined) wrong.push(`${relative(ROOT, file)}: a part without a rule`);
      for (const { target } of importsOf(file)) {
        const to = partOf(target);
        if (to !== part && allowed?.includes(to) !== true) wrong.push(`${relative(ROOT, file)} imports from ${to}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test("have no cycle of imports", () => {
    const graph = new Map(
      sources.map((file) => [
        file,
        importsOf(file)
          .filter((one) => !one.typeOnly)
          .map((one) => one.target),
      ]),
    );
    const done = new Set<string>();
    const cycles: string[] = [];
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) {
        cycles.push([...path.slice(path.indexOf(file)), file].map((one) => relative(SRC, one)).join(" → "));
        return;
      }
      if (done.has(file)) return;
      for (const next of graph.get(file) ?? []) visit(next, [...path, file]);
      done.add(file);
    };
    for (const file of sources) visit(file, []);
    expect(cycles).toEqual([]);
  });

  test("are all imported by somebody", () => {
    const imported = new Set(sources.flatMap((file) => importsOf(file).map((one) => one.target)));
    const entries = new Set(ENTRIES.map((entry) => join(SRC, entry)));
    expect(sources.filter((file) => !imported.has(file) && !entries.has(file))).toEqual([]);
  });

  test("have no barrel files", () => {
    const barrels = sources.filter(
      (file) => /(^|\/)index\.ts$/.test(file) || /^export \* /m.test(readFileSync(file, "utf8")),
    );
    expect(barrels).toEqual([]);
  });

  test("say at the top what they are for", () => {
    expect(
      sources.filter((file) => !readFileSync(file, "utf8").startsWith("/**")).map((f) => relative(ROOT, f)),
    ).toEqual([]);
  });

  test("read the environment in main.ts only, and timers and chance in core/clock.ts only", () => {
    const wrong = sources.filter((file) => {
      const text = readFileSync(file, "utf8").replace(/\/\*\*[\s\S]*?\*\//g, "");
      const name = relative(SRC, file);
      if (name !== "main.ts" && /process\.env|Bun\.env/.test(text)) return true;
      // The SQLite writer is a worker of its own: its clock is the log's own clock.
      if (["core/clock.ts", "log/sqlite-writer.ts"].includes(name)) return false;
      return /\bMath\.random\(|\bDate\.now\(|\bsetTimeout\(|\bsetInterval\(/.test(text);
    });
    expect(wrong.map((file) => relative(SRC, file))).toEqual([]);
  });
});

describe("the repository", () => {
  test("names no machine's paths and no registry's host", () => {
    const listed = Bun.spawnSync(["git", "ls-files"], { cwd: ROOT }).stdout.toString().split("\n");
    const files = listed.filter((file) => file !== "" && !/\.(png|db|bin)$/.test(file));
    const words = [`/${"work"}/`, `registry.${"npmjs"}`, `/${"root"}/`, `deb.${"debian"}`];
    const wrong = files.filter((file) => {
      const path = join(ROOT, file);
      return words.some((word) => readFileSync(path, "utf8").includes(word));
    });
    expect(wrong).toEqual([]);
  });
});
