/** The licences of the packages that a container or a single file would distribute. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { notices, productionPackages } from "../scripts/notices.ts";

const ROOT = join(import.meta.dir, "..");
/** Licences that permit any use, and ask for no more than their notice. */
const PERMISSIVE = [
  "MIT",
  "MIT-0",
  "ISC",
  "0BSD",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "Apache-2.0",
  "BlueOak-1.0.0",
  "CC0-1.0",
];

const packages = productionPackages(ROOT);
const choices = (licence: string) => licence.replace(/^\(|\)$/g, "").split(" OR ");
const isPermissive = (licence: string) => choices(licence).some((choice) => PERMISSIVE.includes(choice));

describe("the packages in production", () => {
  test("have permissive licences, but for a library that is loaded dynamically, and the engine that checks proofs", () => {
    expect(packages.length).toBeGreaterThan(50);
    const others = packages.filter(({ licence }) => !isPermissive(licence));
    // The binary of libvips for this machine. `sharp` loads it as a shared library of its own, in the preview process.
    expect(others.map(({ name, licence }) => [name.replace(/-(?:linux|linuxmusl|darwin)-.*/, ""), licence])).toEqual([
      // Unmodified. MPL-2.0 asks for the source of its own files, which the packages have.
      ...["evm", "mpt", "rlp", "statemanager", "util"].map((name) => [`@ethereumjs/${name}`, "MPL-2.0"]),
      ["@img/sharp-libvips", "LGPL-3.0-or-later"],
    ]);
    const page = readFileSync(join(ROOT, "CONTRIBUTING.md"), "utf8");
    expect(page).toContain("`@img/sharp-libvips-*` (LGPL-3.0-or-later)");
    expect(page).toContain("`@ethereumjs/*` (MPL-2.0)");
  });

  test("are all named in the notices, with the text of each licence file", () => {
    const text = notices(ROOT);
    for (const { name, version, licence } of packages) expect(text).toContain(`── ${name} ${version} (${licence})`);
    expect(text).toStartWith(readFileSync(join(ROOT, "LICENSE"), "utf8").trim());
    expect(text).toContain(readFileSync(join(ROOT, "node_modules/ethers/LICENSE.md"), "utf8").trim());
  });
});
