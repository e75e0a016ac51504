/**
 * A real browser: the Chromium that comes inside the package `@sparticuz/chromium`, unpacked once per version. A visit
 * notes whatever a page must not do: errors, requests to other origins, violations of its content security policy.
 */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { $ } from "bun";
import puppeteer, { type Browser, type Page } from "puppeteer-core";

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
      env: { PATH: process.env["PATH"] ?? "", HOME: folder, ...env },
    });
  const fonts = existsSync("/etc/fonts/fonts.conf") ? {} : { FONTCONFIG_FILE: join(folder, "fonts.conf") };
  try {
    return await start(fonts);
  } catch {
    return start({ ...fonts, LD_LIBRARY_PATH: join(folder, "al2023/lib") });
  }
}

export interface Visit {
  readonly page: Page;
  /** What the page must not have done so far. */
  readonly faults: readonly string[];
  /** Paths of the requests so far, with their query. */
  readonly requests: readonly string[];
}

/** Opens a tab with a storage of its own. @param origin the only one that the page may ask */
export async function visit(browser: Browser, origin: string): Promise<Visit> {
  const page = await (await browser.createBrowserContext()).newPage();
  const faults: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warn") faults.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`uncaught: ${String(error)}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (/^(?:data|blob):/.test(url)) return;
    if (new URL(url).origin === origin) requests.push(url.slice(origin.length));
    else faults.push(`asked another origin: ${url}`);
  });
  await page.evaluateOnNewDocument(`document.addEventListener("securitypolicyviolation", (event) =>
    console.error("policy: " + event.violatedDirective + " " + event.blockedURI))`);
  await page.setViewport({ width: 1200, height: 900 });
  return { page, faults, requests };
}
