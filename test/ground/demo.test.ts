/** The demo tells its story, and ends in order when it is interrupted, at whatever step it is. */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const DEMO = join(import.meta.dir, "../../scripts/demo.ts");

test.each([
  ["while it fills the chain", "A local chain"],
  ["while the service starts", "The service, as"],
  ["while it asks the service", "indexing has started"],
  ["while it waits for pictures", "Metadata and pictures"],
])("Ctrl-C ends the demo with 0 %s, and leaves no folder behind", async (_step, text) => {
  const folder = mkdtempSync(join(tmpdir(), "demo-test-"));
  const child = Bun.spawn([process.execPath, DEMO], {
    env: { PATH: process.env["PATH"] ?? "", TMPDIR: folder },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
  });
  let said = "";
  const decoder = new TextDecoder();
  for await (const bytes of child.stdout) {
    const before = said.includes(text);
    said += decoder.decode(bytes, { stream: true });
    if (before || !said.includes(text)) continue;
    // The terminal and `bun run` both send the signal.
    child.kill("SIGINT");
    child.kill("SIGINT");
  }
  expect([await child.exited, said.includes("failed")]).toEqual([0, false]);
  expect(readdirSync(folder).filter((name) => name.startsWith("evm-demo-"))).toEqual([]);
  rmSync(folder, { recursive: true });
});

describe("the story", () => {
  const run = async (...words: string[]) => {
    const env = { PATH: process.env["PATH"] ?? "" };
    const child = Bun.spawn([process.execPath, DEMO, "--once", ...words], { env, stdout: "pipe", stderr: "pipe" });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    return { code: await child.exited, out, err };
  };

  test("can be read in a minute, and names the key once", async () => {
    const { code, out, err } = await run();
    expect([code, err]).toEqual([0, ""]);
    // An adult reads some 230 words a minute. Requests, answers and tables are looked at, not read.
    const prose = out.split("\n").filter((line) => !/^ {3}[$→←]|^ {3}\d+ |^ {5}|^ {3}(?:0x\S+|id|pool) /.test(line));
    expect(prose.join(" ").trim().split(/\s+/).length).toBeLessThan(230);
    const key = /KEY=(\S+)/.exec(out)?.[1] as string;
    expect(out.split(key)).toHaveLength(2);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escapes have no place outside a terminal
    expect(out).not.toMatch(/\u001b/);
    const colours = out.match(/#[0-9a-f]{6}/g) ?? [];
    expect([colours.length, new Set(colours).size]).toEqual([5, 5]);
    for (const fact of ["none twice, none missing", "20 new owners", '"reorged"', "'s again", "to the last digit"]) {
      expect(out).toContain(fact);
    }
  });

  test("has requests and answers in full with --verbose", async () => {
    const { code, out, err } = await run("--verbose");
    expect(code).toBe(0);
    expect(err).toContain("API key, shown once");
    expect(out).toContain('{"status":"SYNCING","total":"0"');
    expect(out).toMatch(/… \(\d+ bytes\)/);
  });
});
