/** Runs the real program with a command, as an operator does. */
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command to its end, as the package's script does. Its environment is `env` and nothing else. */
export async function runCli(words: readonly string[], env: Record<string, string>, cwd = ROOT): Promise<CliResult> {
  const child = Bun.spawn([process.execPath, join(ROOT, "src/main.ts"), ...words], {
    cwd,
    env: { PATH: process.env["PATH"] ?? "", npm_lifecycle_event: "cli", ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out, err };
}
