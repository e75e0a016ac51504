/** The demo ends in order when it is interrupted, at whatever step it is. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(120_000);

const DEMO = join(import.meta.dir, "../../scripts/demo.ts");

test.each([
  ["while it fills the chain", "Starting a local EVM"],
  ["while the service starts", "Starting the service"],
  ["while it asks the service", "the answer comes at once"],
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
