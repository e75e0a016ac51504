/**
 * Checks the rules of the sources and the documents: import directions, no circles, no private files, one meaning per
 * exported name, a header on each file, live links, documented variables, and walks through code that exists.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { circlesOf, foldersOf, importsOf, sourcesIn } from "../scripts/import-graph.ts";

const ROOT = resolve(import.meta.dir, "..");
const SRC = join(ROOT, "src");

/** Folder, or file at the top of src → what it may import from. */
const MAY_IMPORT: Readonly<Record<string, string>> = {
  core: "",
  chains: "core",
  events: "core",
  log: "core events",
  rpc: "core chains events",
  chain: "core chains events log rpc",
  "nft/ledger": "core events",
  "nft/collections": "core chains events log chain nft/ledger",
  "nft/walks": "core events nft/ledger nft/collections",
  "nft/listings": "core chains events log nft/ledger nft/collections nft/walks",
  "nft/exports": "core events nft/ledger nft/listings nft/walks",
  "nft/explore": "core events nft/ledger nft/collections nft/listings nft/exports nft/walks",
  "nft/indexing": "core chains events log rpc chain nft/ledger nft/collections",
  prices: "core chains events log rpc chain",
  proof: "core chains events log rpc",
  "nft/metadata": "core chains events log rpc chain nft/ledger nft/collections nft/listings",
  // Words of the wire that its documents, the console and the command line share. Plain data, which a browser bundles.
  "status-words.ts": "",
  operators: "core chains events log rpc chain nft/ledger nft/collections status-words.ts",
  push: "core chains events log chain nft/ledger nft/collections nft/walks nft/indexing prices status-words.ts",
  // The console as an entry point to bundle, not as code.
  api:
    "core chains events nft/ledger nft/collections nft/walks nft/listings nft/exports nft/explore nft/indexing nft/metadata " +
    "prices proof operators push console config.ts status-words.ts",
  "config.ts": "core chains",
  "operator-files.ts": "core chains nft/collections prices nft/metadata config.ts",
  "observers.ts": "core chains chain nft/collections nft/indexing log nft/metadata operators rpc",
  "chain-runtime.ts":
    "core chains events log rpc chain nft/ledger nft/collections nft/listings nft/indexing prices proof " +
    "nft/metadata config.ts observers.ts",
  "service.ts":
    "core chains events log rpc chain nft/ledger nft/collections nft/listings nft/indexing operators " +
    "prices proof nft/metadata push nft/explore api config.ts observers.ts operator-files.ts " +
    "chain-runtime.ts",
  cli:
    "core chains events log rpc chain nft/ledger nft/collections nft/exports prices nft/metadata " +
    "proof operators client config.ts operator-files.ts service.ts status-words.ts",
  "main.ts": "service.ts config.ts core cli nft/metadata",
  // The verifier, which runs anywhere.
  client: "chains proof",
  // Of the chains only words, which are text. Their data has no place in a browser.
  console: "client chains proof status-words.ts",
};

/** Entry points: started as a process or as a worker. */
const ENTRIES = [
  "main.ts",
  "client/index.ts",
  "client/proof.ts",
  "nft/exports/file-worker.ts",
  "log/sqlite-ahead-worker.ts",
  "log/sqlite-writer.ts",
  "nft/metadata/resolve/parse-worker.ts",
  "nft/metadata/trait-worker.ts",
  "nft/metadata/media/preview-process.ts",
  "prices/token-list-worker.ts",
  "proof/run-worker.ts",
  "rpc/decode/decode-worker.ts",
];

/** True for the server's own sources. The client and the console are programs of their own, which run elsewhere. */
const isServers = (file: string): boolean => !/^(?:client|console)\//.test(relative(SRC, file));

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

const texts = sourcesIn(SRC);
const sources = [...texts.keys()];
const imports = new Map([...texts].map(([file, text]) => [file, importsOf(file, text)]));
/** The room of a file. The rooms of `nft` are named with it. */
function partOf(file: string): string {
  const [room = "", inner = ""] = relative(SRC, file).split("/");
  return room === "nft" ? `${room}/${inner}` : room;
}

const importers = new Map<string, Set<string>>();
for (const [file, targets] of imports) {
  for (const target of targets) importers.set(target, (importers.get(target) ?? new Set()).add(file));
}

/** The folders that have a page: the rooms, and those of `nft`. */
const rooms = ["", "nft"].flatMap((folder) =>
  readdirSync(join(SRC, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(folder, name)),
);

describe("the sources", () => {
  test("import only from the rooms below", () => {
    const wrong: string[] = [];
    for (const file of sources) {
      const part = partOf(file);
      const allowed = MAY_IMPORT[part]?.split(" ");
      if (allowed === undefined) wrong.push(`${relative(ROOT, file)}: a part without a rule`);
      for (const target of imports.get(file) ?? []) {
        const to = partOf(target);
        // The program's version.
        if (target === join(ROOT, "package.json")) continue;
        if (to !== part && allowed?.includes(to) !== true) wrong.push(`${relative(ROOT, file)} imports from ${to}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test("have no circle of imports, types included", () => {
    const circles = circlesOf(imports);
    expect(circles.map((circle) => circle.map((file) => relative(SRC, file)))).toEqual([]);
  });

  test("have no circle of folders in a room", () => {
    const circles = circlesOf(foldersOf(imports, partOf));
    expect(circles.map((circle) => circle.map((folder) => relative(SRC, folder)))).toEqual([]);
  });

  test("have one header and one topic each", () => {
    const measured = Bun.spawnSync([process.execPath, join(ROOT, "scripts/house.ts"), "--files"]).stdout.toString();
    expect(measured.match(/^two headers: .*$/gm) ?? []).toEqual([]);
  });

  test("are all imported", () => {
    const entries = new Set(ENTRIES.map((entry) => join(SRC, entry)));
    // A declaration file is read by the compiler alone.
    const needed = (file: string) => importers.has(file) || entries.has(file) || file.endsWith(".d.ts");
    expect(sources.filter((file) => !needed(file))).toEqual([]);
  });

  test("export each name once", () => {
    const places = new Map<string, string[]>();
    for (const file of sources) {
      const names = readFileSync(file, "utf8").matchAll(
        /^export (?:async |abstract |declare )*(?:function\*?|class|const|let|interface|type|enum) (\w+)/gm,
      );
      for (const name of new Set([...names].map((match) => match[1] as string))) {
        places.set(name, [...(places.get(name) ?? []), relative(SRC, file)]);
      }
    }
    const twice = [...places].filter(([, files]) => files.length > 1);
    expect(twice).toEqual([]);
  });

  test("have no barrel files", () => {
    const barrels = sources
      .filter(isServers)
      .filter((file) => /(^|\/)index\.ts$/.test(file) || /^export \* /m.test(readFileSync(file, "utf8")));
    expect(barrels).toEqual([]);
  });

  test("have a header that says what they are for", () => {
    expect(
      sources.filter((file) => !readFileSync(file, "utf8").startsWith("/**")).map((f) => relative(ROOT, f)),
    ).toEqual([]);
  });

  test("make collections and views of chains in the composition root only", () => {
    const made = sources.filter((file) => /\bnew (?:HotCollections|PublishedChain)\(/.test(readFileSync(file, "utf8")));
    expect(made.map((file) => relative(SRC, file)).sort()).toEqual(["chain-runtime.ts", "service.ts"]);
  });

  test("bound a cache by a number of entries in core/counted-cache.ts only", () => {
    const reserving = sources.filter((file) => /new LRUCache\b[^;]*[{\s]max:/.test(readFileSync(file, "utf8")));
    expect(reserving.map((file) => relative(SRC, file))).toEqual([]);
  });

  test("read the environment in main.ts and the program's words only, and time and chance in core/clock.ts only", () => {
    const wrong = sources.filter(isServers).filter((file) => {
      const text = readFileSync(file, "utf8").replace(/\/\*\*[\s\S]*?\*\//g, "");
      const name = relative(SRC, file);
      if (!["main.ts", "core/program.ts"].includes(name) && /process\.env|Bun\.env/.test(text)) return true;
      // The SQLite writer is a worker of its own: its clock is the log's own clock.
      if (["core/clock.ts", "log/sqlite-writer.ts"].includes(name)) return false;
      return /\bMath\.random\(|\bDate\.now\(|\bsetTimeout\(|\bsetInterval\(/.test(text);
    });
    expect(wrong.map((file) => relative(SRC, file))).toEqual([]);
  });
});

describe("the repository", () => {
  test("has no function of more than 60 lines", () => {
    const measured = Bun.spawnSync([process.execPath, join(ROOT, "scripts/house.ts")]).stdout.toString();
    expect(measured).toMatch(/^functions over 60 lines +0$/m);
  });

  test("keeps the helpers of tests in test/support, which is all that scripts may import of the tests", () => {
    const isTest = (file: string) => /\.(?:test|long)\.ts$/.test(file);
    const tests = filesBelow(join(ROOT, "test")).filter(
      (file) => file.endsWith(".ts") && !file.includes("node_modules"),
    );
    const outside = tests
      .map((file) => relative(join(ROOT, "test"), file))
      .filter((file) => !isTest(file) && !/^(?:support|fixtures|contracts|long\/clients)\//.test(file));
    expect(outside).toEqual([]);
    const scripts = filesBelow(join(ROOT, "scripts")).filter((file) => file.endsWith(".ts"));
    const wrong = scripts.flatMap((file) =>
      [...importsOf(file, readFileSync(file, "utf8"))]
        .map((target) => relative(ROOT, target))
        .filter((target) => target.startsWith("test/") && !target.startsWith("test/support/")),
    );
    expect(wrong).toEqual([]);
  });

  test("names no paths of a machine and no host of a registry", () => {
    const listed = Bun.spawnSync(["git", "ls-files"], { cwd: ROOT }).stdout.toString().split("\n");
    const files = listed.filter((file) => file !== "" && !/\.(png|db|bin)$/.test(file));
    const words = [`/${"work"}/`, `registry.${"npmjs"}`, `/${"root"}/`, `deb.${"debian"}`];
    const wrong = files.filter((file) => {
      const path = join(ROOT, file);
      return words.some((word) => readFileSync(path, "utf8").includes(word));
    });
    expect(wrong).toEqual([]);
  });

  test("has documents whose links are alive", () => {
    const dead: string[] = [];
    for (const file of documents()) {
      for (const [, target] of readFileSync(file, "utf8").matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)) {
        if (/^https?:/.test(target as string)) continue;
        if (!existsSync(resolve(dirname(file), target as string))) dead.push(`${relative(ROOT, file)}: ${target}`);
      }
    }
    expect(dead).toEqual([]);
  });

  test("has documents whose links to headings lead to one", () => {
    const dead: string[] = [];
    for (const file of documents()) {
      for (const [, path = "", heading] of readFileSync(file, "utf8").matchAll(/\]\(([^)\s#]*)#([^)]+)\)/g)) {
        if (/^https?:/.test(path)) continue;
        const target = path === "" ? file : resolve(dirname(file), path);
        const headings = target.endsWith(".md") ? readFileSync(target, "utf8").matchAll(/^#+ (.+)$/gm) : [];
        // As GitHub names them.
        const names = [...headings].map(([, text = ""]) =>
          text
            .toLowerCase()
            .replace(/[^\p{L}\p{N}\s_-]/gu, "")
            .replaceAll(" ", "-"),
        );
        if (!names.includes(heading as string)) dead.push(`${relative(ROOT, file)}: ${path}#${heading}`);
      }
    }
    expect(dead).toEqual([]);
  });

  test("names every file of a room, or its folder, on the room's page, and lists no file that is gone", () => {
    const wrong: string[] = [];
    for (const room of rooms) {
      const page = readFileSync(join(SRC, room, "README.md"), "utf8");
      const files = sources
        .filter((file) => room !== "nft" && file.startsWith(`${join(SRC, room)}/`))
        .map((file) => relative(join(SRC, room), file));
      const listed = [...page.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell]) =>
        [...(cell as string).matchAll(/`([^`]+\.tsx?)`/g)].map((match) => match[1] as string),
      );
      const isNamed = (file: string) => page.includes(`\`${file}\``) || page.includes(`\`${dirname(file)}/\``);
      for (const file of files) if (!isNamed(file)) wrong.push(`${room} does not name ${file}`);
      for (const file of listed) if (!files.includes(file)) wrong.push(`${room} lists ${file}`);
    }
    expect(wrong).toEqual([]);
  });

  test("documents every environment variable", () => {
    const config = readFileSync(join(SRC, "config.ts"), "utf8");
    const names = new Set(
      [...config.matchAll(/"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)"/g)].map((match) => match[1] as string),
    );
    const page = readFileSync(join(ROOT, "scripts/deploy/configuration.md"), "utf8");
    expect([...names].filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  test("has a page for each room", () => {
    expect(rooms.filter((room) => !existsSync(join(SRC, room, "README.md")))).toEqual([]);
  });

  test("describes walks through functions that exist", () => {
    const missing: string[] = [];
    for (const file of documents()) {
      for (const [, path, name] of readFileSync(file, "utf8").matchAll(/`([\w/-]+\.ts):(?:\w+\.)?([#\w]+)`/g)) {
        const source = join(SRC, path as string);
        const text = existsSync(source) ? readFileSync(source, "utf8") : "";
        if (!new RegExp(`(?<![\\w#])${name}\\b`).test(text)) missing.push(`${path}:${name}`);
      }
    }
    expect(missing).toEqual([]);
  });
});

/** The Markdown files of the repository. */
function documents(): string[] {
  const listed = Bun.spawnSync(["git", "ls-files", "*.md"], { cwd: ROOT }).stdout.toString().split("\n");
  return listed.filter((file) => file !== "").map((file) => join(ROOT, file));
}
