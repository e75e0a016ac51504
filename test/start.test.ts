/** `bun run start`, the README's command: it installs on a fresh clone only, and says so if that fails. */
import { afterEach, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "..");
/** No server listens on this port. */
const NO_REGISTRY = "http://127.0.0.1:9/";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (let close = closers.pop(); close !== undefined; close = closers.pop()) await close();
});

/** A clone without packages, and a registry that can't be reached. */
function start(isInstalled: boolean) {
  const clone = mkdtempSync(join(tmpdir(), "clone-"));
  closers.push(() => rmSync(clone, { recursive: true, force: true }));
  for (const name of ["src", "package.json", "bun.lock", "bunfig.toml", "tsconfig.json"]) {
    cpSync(join(ROOT, name), join(clone, name), { recursive: true });
  }
  if (isInstalled) symlinkSync(join(ROOT, "node_modules"), join(clone, "node_modules"));
  const cache = join(clone, "cache");
  mkdirSync(cache);
  const child = Bun.spawn([process.execPath, "run", "start"], {
    cwd: clone,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: cache,
      BUN_INSTALL_CACHE_DIR: cache,
      BUN_CONFIG_REGISTRY: NO_REGISTRY,
      NPM_CONFIG_REGISTRY: NO_REGISTRY,
      PORT: "0",
      RPC_URL_ETH: NO_REGISTRY,
      RPC_URLS_ONLY: "true",
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  return { child, clone };
}

test("installs nothing if the packages are there, so it needs no registry", async () => {
  const { child } = start(true);
  let said = "";
  const decoder = new TextDecoder();
  for await (const bytes of child.stderr) {
    said += decoder.decode(bytes, { stream: true });
    if (said.includes("serving ")) child.kill("SIGINT");
  }
  expect(said).toContain("serving http://127.0.0.1:");
  expect(await child.exited).toBe(0);
});

test("says what to do if the packages can't be installed", async () => {
  const { child, clone } = start(false);
  const said = await new Response(child.stderr).text();
  expect(await child.exited).toBe(1);
  expect(said).toContain("installing the packages failed: run bun install");
  expect(existsSync(join(clone, "data"))).toBe(false);
});
