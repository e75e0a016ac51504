/**
 * The lists in the documents say what the program derives: chains, parameters, routes, packages. A list that nothing derives is
 * compared here.
 */

import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import packageFacts from "../package.json" with { type: "json" };
import { operationsOf } from "../src/api/app.ts";
import { CHAINS } from "../src/chains/chains.ts";
import { SERVER_MESSAGES } from "../src/push/message-models.ts";
import { KNOWN } from "./support/known-chains.ts";

const ROOT = join(import.meta.dir, "..");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const readme = read("README.md");
const operations = operationsOf(500);
const queryOf = (id: string) => operations.find((one) => one.id === id)?.query ?? {};

/** The names in the first column of a table, whose header has a text. */
function namesOf(document: string, header: string): string[] {
  const [, rows = ""] = new RegExp(`^\\| ${header} \\|.*\\n\\|.*\\n((?:\\|.*\\n)+)`, "m").exec(document) ?? [];
  return rows
    .split("\n")
    .flatMap((row) => [...(row.split("|")[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, name]) => name as string));
}

/** The Markdown files of the repository, but for recorded output. */
const documents = (): string[] =>
  Bun.spawnSync(["git", "ls-files", "*.md"], { cwd: ROOT })
    .stdout.toString()
    .split("\n")
    .filter((file) => file !== "" && !/transcript\.md$|^scripts\/bench\/results/.test(file));

describe("the README", () => {
  test("counts the chains that are built in", () => {
    const [, count] = /One of (\d+) chains/.exec(readme) ?? [];
    expect(Number(count)).toBe(CHAINS.length);
  });

  test("has every parameter of the two operations, and no other", () => {
    // Later names for the same thing, which the documents of the API mark.
    const others = ["min_pair_side_liquidity_usd", "chain", "size_usd"];
    for (const [header, id] of [
      ["Listing parameter", "getContractNFTs"],
      ["Price parameter", "getTokenPrice"],
    ] as const) {
      const [listed, known] = [namesOf(readme, header), Object.keys(queryOf(id))];
      expect([id, listed.filter((name) => !known.includes(name))]).toEqual([id, []]);
      expect([id, known.filter((name) => !listed.includes(name) && !others.includes(name))]).toEqual([id, []]);
    }
    expect(namesOf(readme, "Listing parameter")).toContain("chain");
    expect(readme).toContain("`size_usd`");
  });

  test("names every value of include", () => {
    const [, given = ""] = /\| `include` \| `([^`]+)`/.exec(readme) ?? [];
    const { description = "" } = queryOf("getTokenPrice")["include"] ?? {};
    const pattern = JSON.stringify(queryOf("getTokenPrice")["include"]);
    expect(given.split(",").filter((name) => !pattern.includes(name) && !description.includes(name))).toEqual([]);
    const allowed = /Fields to add: ([a-z_, ]+?),? or several/.exec(description)?.[1]?.split(", ") ?? [];
    expect(given.split(",").sort()).toEqual(allowed.sort());
  });

  test("names every route that needs no key", () => {
    const [, sentence = ""] = /^Without a key: ([\s\S]*?)\n\n/m.exec(readme) ?? [];
    const open = operations.filter(({ scope }) => scope === undefined).map(({ path }) => path);
    expect(open.length).toBeGreaterThan(3);
    const named = [...sentence.matchAll(/`(\/[^`]*)`/g)].map(([, path = ""]) => path.replace(/…$/, ""));
    expect(open.filter((path) => !named.some((one) => (one === "/" ? path === one : path.startsWith(one))))).toEqual(
      [],
    );
  });
});

describe("the documents", () => {
  test("name routes that there are", () => {
    const patterns = operations.map(({ path }) => new RegExp(`^${path.replace(/:\w+/g, "[^/]+")}$`));
    let seen = 0;
    const wrong = documents().flatMap((file) => {
      const text = read(file).replace(/^.*(?:hosted service|moralis\.com|deep-index).*$/gim, "");
      const paths = [...text.matchAll(/`(?:(?:GET|POST|PUT|DELETE|HEAD) )?(\/(?:api|media|mcp|health)\b[^`\s?"']*)/g)];
      return (
        paths
          .map(([, path = ""]) => path)
          // A prefix, or several routes at once.
          .filter((path) => !/[*…[{(]|\/$|^\/api(?:\/v2)?$|^\/media$/.test(path))
          .filter(() => ++seen > 0)
          .filter((path) => !patterns.some((pattern) => pattern.test(path)))
          .map((path) => `${file}: ${path}`)
      );
    });
    expect([wrong, seen > 20]).toEqual([[], true]);
  });

  test("give a reason for every package that package.json has", () => {
    const contributing = read("CONTRIBUTING.md");
    const names = [...Object.keys(packageFacts.dependencies), ...Object.keys(packageFacts.devDependencies)];
    const groups = [...contributing.matchAll(/`(@[\w-]+)\/\*`/g)].map(([, scope]) => `${scope}/`);
    const isNamed = (name: string) =>
      contributing.includes(`\`${name}\``) || groups.some((group) => name.startsWith(group));
    // One package in two versions has one reason.
    const bare = (name: string) => name.replace(/-\d+(?:\.\d+)+$/, "");
    expect(names.filter((name) => !isNamed(name) && !isNamed(bare(name)))).toEqual([]);
  });

  test("on scale have the tables that the script prints", () => {
    const printed = Bun.spawnSync([process.execPath, join(ROOT, "scripts/scale.ts")])
      .stdout.toString()
      .trim();
    // A formatter pads the cells of the page.
    const plain = (text: string) => text.replace(/ *\| */g, "|").replace(/-{3,}/g, "---");
    const tables = plain(printed).split("\n\n");
    const page = plain(read("scripts/deploy/scale.md"));
    expect([tables.length, tables.filter((table) => !page.includes(table))]).toEqual([4, []]);
  });

  test("for language models name each message of the socket", async () => {
    const { languageModelPage } = await import("../src/api/llms-page.ts");
    const page = languageModelPage({
      ...{
        url: () => "http://service.example",
        wireTypes: "seed",
        operations,
        nftChain: () => undefined,
        chains: KNOWN,
      },
      keyLimits: { requestsPerMinute: 1, collectionsPerHour: 2, subscriptions: 3 },
    });
    const types = Object.values(SERVER_MESSAGES).map(({ properties }) => properties.type.const);
    expect(types.filter((type) => !page.includes(`\n- \`${type}\`: `))).toEqual([]);
    expect(page).toContain("/holders`, ");
  });
});
