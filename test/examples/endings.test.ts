/** Every example ends on Ctrl-C and SIGTERM within a second, whatever it waits for, and says when no service answers. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { guardChild } from "../../scripts/local-chain/guard.ts";
import { eventually } from "../support/service.ts";
import { type SilentRelay, startSilentRelay, unusedPort } from "../support/silent-relay.ts";

const ROOT = join(import.meta.dir, "../..");
const NFT = `0x${"12".repeat(20)}`;
/** Words that each example needs. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  "airdrop.ts": [NFT],
  "gallery.ts": [NFT],
  "moralis.ts": [NFT, NFT],
  "price-alert.ts": [NFT, "--above", "1"],
  "token-gate.ts": [NFT],
};
/** Examples that end in order while they wait: a signal is no failure. The others have not begun to work. */
const ENDS_IN_ORDER = ["gallery.ts", "price-alert.ts"];
const CODES = { SIGINT: 130, SIGTERM: 143 } as const;

/** Accepts connections and never answers. */
let silent: SilentRelay;
let silentUrl: string;
/** A port on which nothing listens. */
let absentUrl: string;

beforeAll(async () => {
  silent = await startSilentRelay();
  silentUrl = `http://127.0.0.1:${silent.port}`;
  absentUrl = `http://127.0.0.1:${await unusedPort()}`;
});
afterAll(() => silent.stop());

function start(script: string, url: string) {
  const words = [join(ROOT, "scripts/examples", script), ...(WORDS[script] ?? []), "--url", url];
  const env = { PATH: process.env["PATH"] ?? "", SERVICE_KEY: "test-key-0123456789" };
  const child = Bun.spawn([process.execPath, ...words], {
    cwd: ROOT,
    env,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  let text = "";
  const reading = [child.stdout, child.stderr].map(async (stream) => {
    const decoder = new TextDecoder();
    for await (const bytes of stream) text += decoder.decode(bytes, { stream: true });
  });
  const ended = Promise.all([...reading, child.exited]).then(() => {
    guard.dismiss();
    return child.exitCode;
  });
  return { child, ended, text: () => text };
}

test("the tables name every example", () => {
  const folder = join(ROOT, "scripts/examples");
  const programs = readdirSync(folder).filter(
    (name) => name.endsWith(".ts") && readFileSync(join(folder, name), "utf8").includes("import.meta.main"),
  );
  expect(programs.sort()).toEqual(Object.keys(WORDS).sort());
});

describe.each(Object.keys(WORDS))("%s", (script) => {
  test.each(["SIGINT", "SIGTERM"] as const)(
    "ends on %s within a second while the service is silent",
    async (signal) => {
      const before = silent.accepted;
      const { child, ended, text } = start(script, silentUrl);
      await eventually("it waits for the service", async () => (silent.accepted > before ? true : undefined));
      const sent = performance.now();
      child.kill(signal);
      const code = await ended;
      expect(performance.now() - sent).toBeLessThan(1_000);
      expect([text(), code]).toEqual([text(), ENDS_IN_ORDER.includes(script) ? 0 : CODES[signal]]);
    },
  );

  test("says that no service answers, and ends unless it waits for one", async () => {
    const { child, ended, text } = start(script, absentUrl);
    const isTold = () => /no service answers|could not be reached|ECONNREFUSED|Unable to connect/i.test(text());
    if (script === "price-alert.ts") {
      await eventually("it says so", async () => (isTold() ? true : undefined));
      child.kill("SIGINT");
      expect(await ended).toBe(0);
    } else {
      expect(await ended).toBe(1);
      expect([text(), isTold()]).toEqual([text(), true]);
    }
  });
});

test("an example says that the service is silent", async () => {
  const { child, ended, text } = start("price-alert.ts", silentUrl);
  await eventually("it says so", async () => (/is silent; still waiting/.test(text()) ? true : undefined));
  child.kill("SIGINT");
  await ended;
});
