/**
 * Paths of an operator that lead to a device without an end, a pipe, a folder, a socket, or a file that is too large or too
 * deep. Each start, and each command, ends at once with words that name the setting.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { runCli } from "../support/cli.ts";

const folder = mkdtempSync(join(tmpdir(), "odd-files-"));
const at = (name: string) => join(folder, name);
const listener = net.createServer();

beforeAll(async () => {
  mkdirSync(at("folder"));
  await $`mkfifo ${at("pipe")}`;
  symlinkSync(at("pipe"), at("link"));
  await new Promise<void>((resolve) => listener.listen(at("socket"), resolve));
  writeFileSync(at("deep"), "[".repeat(100_000));
  writeFileSync(at("deep.json"), `{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`);
  writeFileSync(at("large"), "");
  // Without a block on the disk.
  truncateSync(at("large"), 8e9);
});
afterAll(() => {
  listener.close();
  rmSync(folder, { recursive: true, force: true });
});

const ODD = ["/dev/zero", "/dev/tty", "pipe", "link", "folder", "socket", "large"].map((name) =>
  name.startsWith("/") ? name : at(name),
);
const LISTS = ["CHAINS_FILE", "PRICE_LIST", "SPAM_LIST", "VERIFIED_LIST", "NAME_LIST", "TOKEN_LISTS"] as const;
/** Far above a start that refuses, which takes half a second. */
const AT_ONCE_MS = 8_000;

/** Starts the service, which must refuse. */
async function refused(env: Record<string, string>, words: readonly string[] = []) {
  const begun = performance.now();
  const log = `sqlite://${at("data/events.db")}`;
  const result = await runCli(words, {
    EVENT_LOG_URL: log,
    RPC_URLS_ONLY: "true",
    RPC_URL_ETH: "http://127.0.0.1:1",
    ...env,
  });
  expect(performance.now() - begun).toBeLessThan(AT_ONCE_MS);
  return result;
}

describe("a start", () => {
  test.each(ODD.map((path) => [path.split("/").at(-1) as string, path]))(
    "refuses %s in place of each file, all at once, and says what is allowed",
    async (_name, path) => {
      const all = Object.fromEntries(LISTS.map((key) => [key, path]));
      // Also beside a variable that is wrong.
      for (const env of [all, { ...all, CHAINS_FILE: "" }, { ...all, PORT: "x" }]) {
        const { code, err } = await refused(env);
        expect([err, code]).toEqual([err, 78]);
        const named = LISTS.filter((key) => (env as Record<string, string>)[key] !== "");
        for (const key of named)
          expect(err).toMatch(new RegExp(`${key}: the file cannot be read: it must be a regular file`));
      }
    },
    40_000,
  );

  test.each(["deep", "deep.json"])("refuses JSON with many levels: %s", async (name) => {
    for (const key of ["CHAINS_FILE", "PRICE_LIST", "TOKEN_LISTS"]) {
      const { code, err } = await refused({ [key]: at(name) });
      expect([err, code]).toEqual([expect.stringContaining("lists and objects in each other"), 78]);
      expect(err).toContain(`${key}: `);
    }
  });

  test("tells only some of very many faults in a file of chains", async () => {
    writeFileSync(at("faults"), JSON.stringify(Array.from({ length: 900 }, () => ({}))));
    writeFileSync(at("many"), JSON.stringify(Array.from({ length: 100_000 }, () => 0)));
    expect((await refused({ CHAINS_FILE: at("faults") })).err.split("\n").length).toBeLessThan(60);
    expect((await refused({ CHAINS_FILE: at("many") })).err).toContain("must be a list of at most 1000 chains");
  });

  test.each(ODD.filter((path) => !path.endsWith("large")).map((path) => [path.split("/").at(-1) as string, path]))(
    "refuses %s as the event log",
    async (_name, path) => {
      for (const words of [[], ["doctor"], ["verify"]]) {
        const { code, err, out } = await refused({ EVENT_LOG_URL: `sqlite://${path}` }, words);
        expect(code).not.toBe(0);
        expect(err + out).toMatch(/EVENT_LOG_URL: .*it must be a regular file/);
      }
    },
    40_000,
  );
});

describe("a command", () => {
  test.each(ODD.map((path) => [path.split("/").at(-1) as string, path]))(
    "refuses %s as a file of contracts, a backup and a log to copy",
    async (name, path) => {
      const list = await refused({}, ["index", "--file", path]);
      expect([list.code, list.err]).toEqual([64, expect.stringContaining("it must be a regular file of at most")]);
      if (name === "large") return;
      for (const words of [
        ["restore", path],
        ["copy", `sqlite://${path}`, `sqlite://${at("copy.db")}`],
      ]) {
        const { code, err } = await refused({}, words);
        expect([words[0], code, err]).toEqual([
          words[0],
          expect.any(Number),
          expect.stringContaining("must be a regular file"),
        ]);
        expect(code).not.toBe(0);
      }
    },
    40_000,
  );
});
