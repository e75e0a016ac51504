/** What applies to all commands: help, words that are refused, output through a pipe, and the way to a service. */

import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { temporaryLogUrl } from "../support/service.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(60_000);

const ROOT = join(import.meta.dir, "../..");
const KEY = "operator-key-0123456789";
const servers: Bun.Server<undefined>[] = [];
afterAll(() => Promise.all(servers.map((server) => server.stop(true))));

/** Starts a server on a free port and returns its URL. */
function serve(answer: (request: Request) => Response): string {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer });
  servers.push(server);
  return `http://127.0.0.1:${server.port}`;
}

const withKey = { SERVICE_KEY: KEY, EVENT_LOG_URL: temporaryLogUrl() };
const over = (url: string, ...words: string[]) => runCli([...words, "--url", url], withKey);

test("every command has help, which names the exit codes, and an unknown one is refused", async () => {
  const help = await runCli(["--help"], {});
  expect(help.out).toContain("64 wrong usage");
  const names = [...help.out.matchAll(/^ {2}(\w+) {2}/gm)].map((match) => match[1] as string);
  expect(names).toContain("serve");
  for (const name of names) {
    const { code, out } = await runCli(["help", name], {});
    expect([name, code, out.startsWith(`Usage: bun run cli ${name}`)]).toEqual([name, 0, true]);
  }
  expect(await runCli(["serve", "--help"], {})).toMatchObject({ code: 0, err: "" });
  const wrong = await runCli(["help", "kyes"], {});
  expect([wrong.code, wrong.err]).toEqual([64, "unknown command kyes: did you mean keys?\n"]);
});

test("`serve` takes no words, and `keys` no option of another action", async () => {
  const refusal = async (...words: string[]) => {
    const { code, err } = await runCli(words, { EVENT_LOG_URL: temporaryLogUrl() });
    return [code, err.trim()];
  };
  expect(await refusal("serve", "now")).toEqual([64, expect.stringContaining("serve takes no words")]);
  expect(await refusal("keys", "revoke", "shop", "--grace", "1h")).toEqual([64, "keys revoke takes no --grace"]);
  expect(await refusal("keys", "rotate", "shop", "--scope", "operate")).toEqual([64, "keys rotate takes no --scope"]);
  expect(await refusal("keys", "list", "shop")).toEqual([64, "keys list takes no name"]);
  expect(await refusal("keys", "add", "shop", "--scope", "all")).toEqual([64, "--scope: must be read or operate"]);
  expect(await refusal("keys", "add")).toEqual([64, "keys add needs the name of a key"]);
});

test("a command that only reads makes no log", async () => {
  const logUrl = temporaryLogUrl();
  for (const words of [["keys"], ["keys", "revoke", "shop"], ["status"], ["collections"]]) {
    const { code, err } = await runCli(words, { EVENT_LOG_URL: logUrl });
    expect([words, code, err]).toEqual([words, 69, expect.stringContaining("there is no event log at")]);
  }
  expect(await Bun.file(logUrl.slice("sqlite://".length)).exists()).toBe(false);
});

test("a pipe gets the whole output, although its reader is slow", async () => {
  const logUrl = temporaryLogUrl();
  const log = await openLog(logUrl, systemClock, silentLogger);
  const count = 3_000;
  const appends = Array.from({ length: count }, (_, index) => {
    const address = `0x${index.toString(16).padStart(40, "0")}` as Address;
    return { stream: nftStream(1, address), events: [{ type: "IndexingRequested" } as const], expectedVersion: 0 };
  });
  await log.appendAll(appends);
  await log.close();
  // The reader takes the first bytes, starts another program, and reads on after that.
  const [bun, main] = [process.execPath, join(ROOT, "src/main.ts")];
  const script = `"${bun}" "${main}" collections --json | { dd bs=1000 count=1 2>/dev/null; "${bun}" -e 0 </dev/null; cat; }`;
  const env = { PATH: process.env["PATH"] ?? "", EVENT_LOG_URL: logUrl };
  const child = Bun.spawn(["sh", "-c", script], { env, stdout: "pipe" });
  const out = await new Response(child.stdout).text();
  expect(await child.exited).toBe(0);
  expect(JSON.parse(out)).toHaveLength(count);
});

test("a redirect doesn't get the key", async () => {
  const keys: (string | null)[] = [];
  const thief = serve(({ headers }) => {
    keys.push(headers.get("x-api-key"));
    return Response.json({ result: [] });
  });
  const redirecting = serve(() => Response.redirect(`${thief}/api/keys`, 307));
  const { code, err } = await over(redirecting, "keys", "list");
  expect([code, err]).toEqual([1, expect.stringContaining("no service of this kind answers there (status 307)")]);
  expect(keys).toEqual([]);
});

test("an answer that is no JSON, or too long, is an error with words", async () => {
  const page = serve(() => new Response("<html>", { headers: { "content-type": "text/html" } }));
  expect(await over(page, "keys")).toMatchObject({ code: 1, err: expect.stringContaining("(status 200)") });
  const long = serve(() => new Response(`{"result":"${"x".repeat(17 * 1024 * 1024)}"}`));
  expect(await over(long, "keys")).toMatchObject({ code: 1, err: expect.stringContaining("(status 200)") });
  const down = serve(() => Response.json({ message: "the event log can't be reached" }, { status: 503 }));
  expect(await over(down, "keys")).toMatchObject({ code: 69, err: "the event log can't be reached\n" });
});
