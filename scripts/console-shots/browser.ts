/**
 * A real browser: the Chromium that comes inside the package `@sparticuz/chromium`, unpacked once per version.
 */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { $ } from "bun";
import puppeteer, { type Browser } from "puppeteer-core";

const PACKAGE = dirname(Bun.resolveSync("@sparticuz/chromium/package.json", import.meta.dir));
const CACHE = join(import.meta.dir, "../../node_modules/.cache/chromium");

/** Unpacks the browser and the libraries that a machine may lack. Safe when two processes do it at once. */
async function unpacked(): Promise<string> {
  const { version } = (await Bun.file(join(PACKAGE, "package.json")).json()) as { version: string };
  const folder = join(CACHE, version);
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const part = mkdtempSync(join(CACHE, "part-"));
  const unpack = async (name: string) => brotliDecompressSync(await Bun.file(join(PACKAGE, "bin", name)).bytes());
  writeFileSync(join(part, "chromium"), await unpack("chromium.br"), { mode: 0o700 });
  for (const name of ["al2023", "fonts"]) {
    mkdirSync(join(part, name));
    await $`tar -x -C ${join(part, name)} < ${await unpack(`${name}.tar.br`)}`.quiet();
  }
  const fonts = `<fontconfig><dir>${join(folder, "fonts/fonts")}</dir><cachedir>${folder}</cachedir></fontconfig>`;
  writeFileSync(join(part, "fonts.conf"), `<?xml version="1.0"?>\n${fonts}\n`);
  try {
    renameSync(part, folder);
  } catch (error) {
    // Another process was faster.
    rmSync(part, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

/** Starts the browser. Machines without its libraries or fonts get those of the package. */
export async function startBrowser(): Promise<Browser> {
  const folder = await unpacked();
  const start = (env: Record<string, string>) =>
    puppeteer.launch({
      executablePath: join(folder, "chromium"),
      headless: "shell",
      args: ["--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"],
      env: { PATH: process.env["PATH"] ?? "", HOME: folder, LANG: "en_US.UTF-8", ...env },
    });
  const fonts = existsSync("/etc/fonts/fonts.conf") ? {} : { FONTCONFIG_FILE: join(folder, "fonts.conf") };
  try {
    return await start(fonts);
  } catch {
    return start({ ...fonts, LD_LIBRARY_PATH: join(folder, "al2023/lib") });
  }
}
