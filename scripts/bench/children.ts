/** Parts of a bench that are processes of their own: started, and dead when this process is. */
import { join } from "node:path";
import { guardChild } from "../local-chain/guard.ts";

export interface Child {
  readonly pid: number;
  /** The first line it wrote. */
  readonly line: string;
  stop(): Promise<void>;
}

export interface ChildOptions {
  /** Below scripts/bench. */
  readonly script: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

function spawn({ script, args = [], env = {} }: ChildOptions) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, script), ...args], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  return { child, guard: guardChild({ pid: child.pid, signal: "KILL" }) };
}

/** Starts a script and resolves once it has written a line. @throws Error when it ends before */
export async function startChild(options: ChildOptions): Promise<Child> {
  const { child, guard } = spawn(options);
  const reader = child.stdout.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`${options.script} ended before it was ready`);
    text += decoder.decode(value, { stream: true });
  }
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await child.exited;
    guard.dismiss();
  };
  return { pid: child.pid, line: text.slice(0, text.indexOf("\n")), stop };
}

/** Runs a script to its end; its standard output, parsed. @throws Error when it fails */
export async function runChild<T>(options: ChildOptions): Promise<T> {
  const { child, guard } = spawn(options);
  const text = await new Response(child.stdout).text();
  const code = await child.exited;
  guard.dismiss();
  if (code !== 0) throw new Error(`${options.script} failed with ${code}`);
  return JSON.parse(text) as T;
}
