/**
 * Makes the program one file: `bun scripts/compile.ts [path]`, by default `dist/evm-data-service`, for the platform that
 * it runs on. The workers become entry points of the bundle, and the pages' assets are embedded. Beside it stands
 * `NOTICES.txt` with the licences of all packages inside.
 */
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { bundleConsole } from "../src/api/console-page.ts";
import { SWAGGER_ASSETS, swaggerAsset } from "../src/api/swagger-page.ts";
import { codeHash } from "../src/nft/collections/snapshots.ts";
import { notices } from "./notices.ts";

const ROOT = join(import.meta.dir, "..");
/** Started by `new URL("./name.ts", import.meta.url)`. The bundle has one folder, so their names must differ. */
const WORKERS = [
  "nft/exports/file-worker.ts",
  "log/sqlite-ahead-worker.ts",
  "log/sqlite-writer.ts",
  "nft/metadata/resolve/parse-worker.ts",
  "nft/metadata/trait-worker.ts",
  "prices/token-list-worker.ts",
  "proof/run-worker.ts",
  "rpc/decode/decode-worker.ts",
];

/** Compiles the sources into `outfile`. @throws AggregateError of the bundler's messages */
export async function compile(outfile: string): Promise<void> {
  mkdirSync(dirname(outfile), { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), "compile-"));
  try {
    const texts = { ...(await bundleConsole()), "code-hash.txt": codeHash() };
    for (const [name, text] of Object.entries(texts)) writeFileSync(join(folder, name), text);
    const assets = [...Object.keys(texts).map((name) => join(folder, name)), ...SWAGGER_ASSETS.map(swaggerAsset)];
    // A file is embedded if a module imports it as a file.
    const lines = assets.map((path) => `import ${JSON.stringify(path)} with { type: "file" };`);
    const [entry, program] = [join(folder, "main.ts"), join(folder, "program")];
    writeFileSync(entry, [...lines, `await import(${JSON.stringify(join(ROOT, "src/main.ts"))});`].join("\n"));
    await Bun.build({
      entrypoints: [entry, ...WORKERS.map((worker) => join(ROOT, "src", worker))],
      target: "bun",
      naming: { entry: "[name].[ext]", asset: "[name].[ext]" },
      sourcemap: "linked",
      // A start needs no parsing then: 170 ms until the first answer in place of 340, for 13 MB.
      bytecode: true,
      format: "esm",
      // Packages beside the program, such as the image library, are found by their package.json.
      compile: { outfile: program, autoloadPackageJson: true, autoloadBunfig: false, autoloadTsconfig: false },
    });
    // The maps beside it are also inside it.
    copyFileSync(program, outfile);
    chmodSync(outfile, 0o755);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  writeFileSync(join(dirname(outfile), "NOTICES.txt"), notices(ROOT));
}

if (import.meta.main) {
  const outfile = resolve(process.argv[2] ?? join(ROOT, "dist/evm-data-service"));
  await compile(outfile);
  console.log(`${outfile}: ${(statSync(outfile).size / 2 ** 20).toFixed(0)} MB`);
}
