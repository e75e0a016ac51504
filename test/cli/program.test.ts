/** What applies to all commands: help, words that are refused, output through a pipe, and the way to a service. */

import { afterAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { requestIndexing } from "../../src/nft/collections/requests.ts";
import { runCli } from "../support/cli.ts";
import { OPERATOR } from "../support/requesters.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
const KEY = "operator-key-0123456789";
const CONTRACT = `0x${"12".repeat(20)}`;
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
    expect([name, code, out.includes(` run cli ${name}`) && out.startsWith("Usage: ")]).toEqual([name, 0, true]);
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
  const doctor = await runCli(["doctor"], {
    ...{ EVENT_LOG_URL: logUrl, RPC_URLS_ONLY: "true", RPC_URL_ETH: "http://127.0.0.1:9" },
  });
  expect(doctor.out).toMatch(/✓ event log: sqlite, made by the first start, .* free\n/);
  const path = logUrl.slice("sqlite://".length);
  expect(readdirSync(dirname(path))).toEqual([]);
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

test("refuses words that a command has no use for, and names them", async () => {
  const env = { EVENT_LOG_URL: temporaryLogUrl() };
  const refusal = async (...words: string[]) => {
    const { code, out, err } = await runCli(words, env);
    return [code, out, err.trim()];
  };
  expect(await refusal("status", "foo")).toEqual([64, "", "status takes no words; surplus: foo"]);
  expect(await refusal("collections", "bar")).toEqual([64, "", "collections takes no words; surplus: bar"]);
  expect(await refusal("doctor", "foo")).toEqual([64, "", "doctor takes no words; surplus: foo"]);
  expect(await refusal("verify", "foo")).toEqual([64, "", "verify takes no words; surplus: foo"]);
  for (const name of ["reindex", "remove", "price", "estimate", "export", "inspect"]) {
    expect(await refusal(name, CONTRACT, "0xzz", "b")).toEqual([64, "", `${name} takes one word; surplus: 0xzz b`]);
  }
  expect(await refusal("keys", "add", "a", "b")).toEqual([64, "", "keys takes 2 words; surplus: b"]);
  expect(await refusal("backup", "a", "b")).toEqual([64, "", "backup takes one word; surplus: b"]);
  expect(await refusal("copy", "a", "b", "c\u001b[2J")).toEqual([64, "", "copy takes 2 words; surplus: c\\u001b[2J"]);
  const three = `eth,${CONTRACT},x`;
  expect(await refusal("index", three)).toEqual([64, "", `${three}: must be an address, or chain,address`]);
});

test("names the nearest word, and says what an option lacks", async () => {
  const env = { EVENT_LOG_URL: temporaryLogUrl() };
  const refusal = async (...words: string[]) => {
    const { code, out, err } = await runCli(words, env);
    return [code, out, err.trim()];
  };
  expect((await runCli(["version"], env)).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(await refusal("verison")).toEqual([64, "", "unknown command verison: did you mean version?"]);
  expect(await refusal("--versoin")).toEqual([64, "", "unknown option --versoin: did you mean --version?"]);
  const late = "--json comes after the command, as in: status --json";
  expect(await refusal("--json", "status")).toEqual([64, "", late]);
  expect(await refusal("index", "--no-wait")).toEqual([64, "", "unknown option --no-wait: did you mean --wait?"]);
  expect(await refusal("index", "--wait=yes")).toEqual([64, "", "--wait takes no value"]);
  expect(await refusal("keys", "add", "a", "--rpm", "-5")).toEqual([64, "", "--rpm: must be a whole number from 1 on"]);
  expect(await refusal("keys", "add", "a", "--rpm")).toEqual([64, "", "--rpm needs a value"]);
  expect(await refusal("keys", "add", "a", "--rpm", "--json")).toEqual([64, "", "--rpm needs a value"]);
  expect(await refusal("export", CONTRACT, "--as-of", "-1")).toEqual([64, "", "--as-of: must be a block"]);
  for (const words of [
    ["index", CONTRACT, "--chain", "polgon"],
    ["index", `polgon,${CONTRACT}`],
    ["price", CONTRACT, "--chain", "polgon"],
    ["inspect", CONTRACT, "--chain", "polgon"],
    ["collections", "--chain", "polgon"],
  ]) {
    expect(await refusal(...words)).toEqual([64, "", "unknown chain polgon: did you mean polygon?"]);
  }
});

test("only commands that ask a service have `--url` and `--key`, with the scope that they need", async () => {
  const env = { EVENT_LOG_URL: temporaryLogUrl() };
  for (const name of ["doctor", "copy", "backup", "restore", "verify", "inspect"]) {
    expect((await runCli(["help", name], env)).out).not.toMatch(/--url|--key/);
    const { code, err } = await runCli([name, "--url", "http://127.0.0.1:9"], env);
    expect([code, err]).toEqual([64, `${name} asks no running service: leave --url out\n`]);
  }
  for (const name of ["price", "export"])
    expect((await runCli(["help", name], env)).out).toContain("also of scope read");
  expect((await runCli(["help", "estimate"], env)).out).toContain("A key of scope operate");
});

test("a key that no service can have is named by its variable", async () => {
  const refusal = async (key: string, ...words: string[]) => {
    const { code, err } = await runCli(["status", "--url", "http://127.0.0.1:9", ...words], { SERVICE_KEY: key });
    return [code, err.trim()];
  };
  expect(await refusal("")).toEqual([64, "SERVICE_KEY is empty: --url needs a key"]);
  expect(await refusal("bad\nkey-0123456")).toEqual([
    64,
    expect.stringMatching(/^SERVICE_KEY: no key; keys have 8 to/),
  ]);
  expect(await refusal(KEY, "--key", "short")).toEqual([64, expect.stringMatching(/^--key: no key; /)]);
});

test("a log out of reach has one exit code and names its variable once, and a refusal over HTTP is wrong usage", async () => {
  const env = { EVENT_LOG_URL: "postgres://nobody@127.0.0.1:1/none" };
  for (const words of [
    ["status"],
    ["keys"],
    ["collections"],
    ["inspect", CONTRACT],
    ["estimate", CONTRACT],
    ["verify"],
  ]) {
    const { code, err } = await runCli(words, env);
    expect([words, code, err.match(/EVENT_LOG_URL/g)?.length]).toEqual([words, 69, 1]);
  }
  const refusing = serve(() => Response.json({ message: "requestsPerMinute: must be more" }, { status: 400 }));
  expect(await over(refusing, "keys", "add", "a", "--rpm", "0")).toMatchObject({ code: 64 });
  const logUrl = temporaryLogUrl();
  expect((await runCli(["keys", "add", "a", "--rpm", "0"], { EVENT_LOG_URL: logUrl })).code).toBe(64);
  expect((await runCli(["keys", "add", "Not A Name"], { EVENT_LOG_URL: logUrl })).code).toBe(64);
});

test("`index --file` names the line, and prints no control characters", async () => {
  const logUrl = temporaryLogUrl();
  const list = `${logUrl.slice("sqlite://".length)}.txt`;
  const refusal = async (text: string) => {
    await Bun.write(list, text);
    const { code, err } = await runCli(["index", "--file", list], { EVENT_LOG_URL: logUrl });
    return [code, err];
  };
  expect(await refusal(`# contracts\n\n${CONTRACT}\n\u001b[2J\u0007x\n`)).toEqual([
    64,
    `${list}:4: \\u001b[2J\\u0007x: not an address\n`,
  ]);
  expect(await refusal(`${CONTRACT}\npolgon,${CONTRACT}`)).toEqual([
    64,
    `${list}:2: unknown chain polgon: did you mean polygon?\n`,
  ]);
  expect(await refusal(`eth,${CONTRACT},x`)).toEqual([
    64,
    `${list}:1: eth,${CONTRACT},x: must be an address, or chain,address\n`,
  ]);
});

test("the last key that may operate is revoked only with --force", async () => {
  const env = { EVENT_LOG_URL: temporaryLogUrl() };
  expect((await runCli(["keys", "add", "admin", "--scope", "operate"], env)).code).toBe(0);
  expect((await runCli(["keys", "add", "shop"], env)).code).toBe(0);
  const kept = await runCli(["keys", "revoke", "admin"], env);
  expect([kept.code, kept.err]).toEqual([1, expect.stringContaining("admin is the last key of scope operate")]);
  expect((await runCli(["keys", "revoke", "shop"], env)).code).toBe(0);
  expect((await runCli(["keys", "add", "second", "--scope", "operate"], env)).code).toBe(0);
  expect((await runCli(["keys", "revoke", "admin"], env)).out).toBe("revoked admin\n");
  expect((await runCli(["keys", "revoke", "second", "--force"], env)).out).toBe("revoked second\n");
});

test("`status --watch` draws over its lines in a terminal, until a signal ends it", async () => {
  const logUrl = temporaryLogUrl();
  const log = await openLog(logUrl, systemClock, silentLogger);
  let shown = "";
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), "status", "--watch"], {
    cwd: ROOT,
    env: { PATH: process.env["PATH"] ?? "", TERM: "xterm", EVENT_LOG_URL: logUrl },
    terminal: {
      ...{ cols: 40, rows: 40 },
      data: (_terminal, bytes) => {
        shown += Buffer.from(bytes).toString();
      },
    },
  });
  const untilShown = (text: string) =>
    eventually(`it shows ${text}`, async () => (shown.includes(text) ? true : undefined), 30_000);
  try {
    await untilShown("collections none yet");
    await requestIndexing({ log, clock: systemClock }, { chainId: 1, address: CONTRACT as Address }, OPERATOR);
    await untilShown("collections 1 waiting");
  } finally {
    child.kill("SIGINT");
    await child.exited;
    await log.close();
  }
  // Each drawing goes up by the lines of the last one, and no line is wider than the terminal.
  const [first = "", ...later] = shown.split("\x1b[J").slice(0, -1);
  const lines = Bun.stripANSI(first).trim().split("\r\n");
  expect(lines.map((line) => line.split(" ")[0])).toEqual(["log", "leases", "collections"]);
  expect(lines.every((line) => line.length <= 40)).toBe(true);
  expect(later.length).toBeGreaterThan(0);
  expect(later.every((drawing) => drawing.startsWith("\x1b[3A"))).toBe(true);
});
