/** The migration page against the service's own OpenAPI document: each route, parameter and example request is real. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { migrationPage } from "../../scripts/migration.ts";
import { CHAINS } from "../../src/chains/chains.ts";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const PAGE = readFileSync(join(import.meta.dir, "../../scripts/examples/migration.md"), "utf8");

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
}

interface Named {
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly string[];
}

let service: TestService;
let paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;

beforeAll(async () => {
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl() });
  paths = (await service.get("/swagger/json")).body.paths;
});
afterAll(() => service?.stop());

function named(method: string, target: string, more: readonly string[] = []): Named {
  const [path, query] = target.split("?") as [string, string?];
  return { method, path, parameters: [...new URLSearchParams(query).keys(), ...more] };
}

/** Returns the faults of a route that the page names. A `$NAME` of the shell stands for any segment. */
function faultsOf({ method, path, parameters }: Named): string[] {
  const segments = path.split("/");
  const found = Object.entries(paths).find(([documented, methods]) => {
    if (methods[method.toLowerCase()] === undefined) return false;
    const parts = documented.split("/");
    const fits = (part: string, at: number) => {
      const segment = segments[at] as string;
      return part === segment || (/^\{\w+\}$/.test(part) && !/^\{/.test(segment) && segment !== "");
    };
    return parts.length === segments.length && parts.every(fits);
  });
  const operation = found?.[1][method.toLowerCase()];
  if (operation === undefined) return [`${method} ${path} is no operation of the service`];
  const known = (operation.parameters ?? []).filter((one) => one.in === "query").map(({ name }) => name);
  return parameters.filter((name) => !known.includes(name)).map((name) => `${method} ${path} has no parameter ${name}`);
}

test("is what the declared operations, the chains and the table of services make", () => {
  expect(PAGE).toBe(migrationPage());
  for (const { name } of CHAINS) expect(PAGE).toContain(`\`${name}\``);
});

test("names only routes and parameters that the service documents", () => {
  const routes = [...PAGE.matchAll(/`(GET|POST|DELETE|PUT|PATCH) (\/[^`]*)`/g)].map(([, method, target]) =>
    named(method as string, target as string),
  );
  expect(routes.length).toBeGreaterThan(50);
  expect(routes.flatMap(faultsOf)).toEqual([]);
  expect(faultsOf(named("GET", "/api/v2/wallets/{address}"))).toHaveLength(1);
  expect(faultsOf(named("GET", "/api/v2/nft/{address}?owner=0x"))).toEqual([
    "GET /api/v2/nft/{address} has no parameter owner",
  ]);
});

test("has an example request for each service, of a documented route", () => {
  const examples = [...PAGE.matchAll(/^curl (.*)"\$BASE(\/[^"]*)"$/gm)].map(([, options, target]) => {
    const encoded = [...(options as string).matchAll(/--data-urlencode "(\w+)=/g)].map(([, name]) => name as string);
    return named("GET", target as string, encoded);
  });
  const sections = PAGE.split(/^## /m).filter((section) => section.includes("| Operation"));
  expect(sections.map((section) => section.split("\n")[0])).toEqual([
    "Moralis",
    "Alchemy",
    "Reservoir",
    "SimpleHash",
    "Sim",
  ]);
  for (const section of sections) expect(section).toMatch(/^curl /m);
  expect(examples.flatMap(faultsOf)).toEqual([]);
});

test("says of each operation without a route that it is missing", () => {
  const rows = PAGE.split("\n").filter((line) => line.startsWith("| ") && !/^\| (?:Operation|Service|-)/.test(line));
  expect(rows.length).toBeGreaterThan(50);
  for (const row of rows) {
    const cells = row.split("|").map((cell) => cell.trim());
    expect([row, cells.length]).toEqual([row, 6]);
    if (cells[2] === "–") expect([row, cells[4]]).not.toEqual([row, "–"]);
  }
});
