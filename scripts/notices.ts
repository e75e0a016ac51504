/**
 * Prints the licences of every package that the service needs in production, as `bun scripts/notices.ts > NOTICES.txt`.
 * A distribution in one file carries this text, because most licences ask for their notice beside each copy.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** An installed package. */
export interface ProductionPackage {
  readonly name: string;
  readonly version: string;
  /** The SPDX expression that the package states; "" for none. */
  readonly licence: string;
  /** Where its source is; "" if the package doesn't say. */
  readonly source: string;
  readonly folder: string;
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string | { readonly type: string };
  readonly licenses?: readonly { readonly type: string }[];
  readonly repository?: string | { readonly url: string };
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const manifestIn = (folder: string): Manifest => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

/**
 * Walks the dependencies of the package in `root`, as `bun install --production --omit=peer` installs them, by name.
 * Leaves out optional packages of other platforms, which are not installed here.
 * @throws if a dependency is not installed
 */
export function productionPackages(root: string): readonly ProductionPackage[] {
  const found = new Map<string, ProductionPackage>();
  const visit = (folder: string): void => {
    const { dependencies = {}, optionalDependencies = {} } = manifestIn(folder);
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const place = installedPlace(folder, name);
      if (place === undefined && name in optionalDependencies) continue;
      if (place === undefined) throw new Error(`${name}, which ${folder} needs, is not installed: run bun install`);
      if (found.has(place)) continue;
      const manifest = manifestIn(place);
      found.set(place, {
        ...{ name, version: manifest.version, licence: licenceOf(manifest) },
        ...{ source: sourceOf(manifest), folder: place },
      });
      visit(place);
    }
  };
  visit(root);
  return [...found.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The folder in which `folder` finds a package: its own `node_modules`, or that of a folder above. */
function installedPlace(folder: string, name: string): string | undefined {
  for (let above = folder; ; above = dirname(above)) {
    const place = join(above, "node_modules", name);
    if (existsSync(join(place, "package.json"))) return place;
    if (above === dirname(above)) return undefined;
  }
}

const licenceOf = ({ license, licenses }: Manifest): string =>
  (typeof license === "string" ? license : license?.type) ?? licenses?.map(({ type }) => type).join(" OR ") ?? "";

const sourceOf = ({ repository }: Manifest): string =>
  (typeof repository === "string" ? repository : (repository?.url ?? "")).replace(/^git\+|\.git$/g, "");

/** The text of a package's licence files. MPL-2.0 also wants to be told where the source is. */
function noticeOf({ name, version, licence, source, folder }: ProductionPackage): string {
  const files = readdirSync(folder).filter((file) => /^(?:licen[cs]e|notice|copying)(?:[.-]|$)/i.test(file));
  // The package of libvips has its notice in its README.
  if (files.length === 0 && existsSync(join(folder, "versions.json"))) files.push("README.md");
  const texts = files.toSorted().map((file) => readFileSync(join(folder, file), "utf8").trim());
  const where = licence === "MPL-2.0" ? [`Its source, unmodified, is at ${source}`] : [];
  return [`── ${name} ${version} (${licence})`, ...where, ...texts].join("\n\n");
}

/** The notices of all packages in production, after that of this project. */
export function notices(root: string): string {
  const own = readFileSync(join(root, "LICENSE"), "utf8").trim();
  return `${[own, ...productionPackages(root).map(noticeOf)].join("\n\n")}\n`;
}

if (import.meta.main) process.stdout.write(notices(join(import.meta.dir, "..")));
