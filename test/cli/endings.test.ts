/**
 * Every command that may run for long ends on Ctrl-C and SIGTERM within a second, whatever it waits for, and leaves nothing
 * in the folder for temporary files. Without an answer of a service it says so.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { guardChild } from "../../scripts/local-chain/guard.ts";
import { runCli } from "../support/cli.ts";
import { eventually } from "../support/service.ts";
import { type SilentRelay, startSilentRelay, unusedPort } from "../support/silent-relay.ts";

const MAIN = join(import.meta.dir, "../../src/main.ts");
const CONTRACT = `0x${"12".repeat(20)}`;
const CODES = { SIGINT: 130, SIGTERM: 143 } as const;

/** Accepts connections and never answers, as a node or as a service. */
let silent: SilentRelay;
let silentUrl: string;
let absentUrl: string;

beforeAll(async () => {
  silent = await startSilentRelay();
  silentUrl = `http://127.0.0.1:${silent.port}`;
  absentUrl = `http://127.0.0.1:${await unusedPort()}`;
});
afterAll(() => silent.stop());

/** Commands whose own service, or that themselves, wait for a node. */
const NODE_COMMANDS: readonly (readonly string[])[] = [
  ["price", CONTRACT],
  ["estimate", CONTRACT],
  ["index", CONTRACT, "--wait"],
  ["doctor"],
];
/** Commands that wait for a running service. */
const SERVICE_COMMANDS: readonly (readonly string[])[] = [
  ["status"],
  ["status", "--watch"],
  ["collections"],
  ["index", CONTRACT],
  ["index", CONTRACT, "--wait"],
  ["reindex", CONTRACT],
  ["remove", CONTRACT],
  ["refresh", CONTRACT],
  ["price", CONTRACT],
  ["estimate", CONTRACT],
  ["export", CONTRACT],
  ["keys", "list"],
];

describe.each(["SIGINT", "SIGTERM"] as const)("%s", (signal) => {
  test.each([
    ...NODE_COMMANDS.map((words) => [words.join(" "), words, false] as const),
    ...SERVICE_COMMANDS.map((words) => [`${words.join(" ")} --url`, words, true] as const),
  ])("ends `%s` within a second", async (_name, words, isOverUrl) => {
    const folder = mkdtempSync(join(tmpdir(), "cli-endings-"));
    const temporary = join(folder, "tmp");
    mkdirSync(temporary);
    try {
      const before = silent.accepted;
      const env = {
        PATH: process.env["PATH"] ?? "",
        TMPDIR: temporary,
        EVENT_LOG_URL: `sqlite://${join(folder, "events.db")}`,
        RPC_URLS_ONLY: "true",
        RPC_URL_ETH: silentUrl,
        SERVICE_KEY: "operator-key-0123456789",
      };
      const all = [process.execPath, MAIN, ...words, ...(isOverUrl ? ["--url", silentUrl] : [])];
      const child = Bun.spawn(all, { cwd: folder, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
      const guard = guardChild({ pid: child.pid, signal: "KILL" });
      await eventually("it waits for an answer", async () => (silent.accepted > before ? true : undefined));
      const sent = performance.now();
      child.kill(signal);
      await child.exited;
      const took = performance.now() - sent;
      guard.dismiss();
      // A command with nothing to close is ended by the system.
      expect(child.signalCode ?? child.exitCode).toBeOneOf([signal, CODES[signal]]);
      expect(took).toBeLessThan(1_000);
      expect(readdirSync(temporary)).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

test("each command says that no service answers", async () => {
  for (const words of SERVICE_COMMANDS) {
    const { code, err } = await runCli([...words, "--url", absentUrl], { SERVICE_KEY: "operator-key-0123456789" });
    expect([words, code, err]).toEqual([words, 69, expect.stringContaining("the service can't be reached")]);
  }
});
