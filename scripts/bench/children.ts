/** Runs parts of a bench as child processes, which end when this process ends. */
import { join } from "node:path";
import { guardChild } from "../local-chain/guard.ts";

export interface Child {
  readonly pid: number;
  /** The first line of its output. */
  readonly line: string;
  /** Resolves with the second line, or with "" if the child ends without one. */
  readonly next: Promise<string>;
  stop(): Promise<void>;
}

export interface ChildOptions {
  /** Path below scripts/bench. */
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

/** Starts a script and resolves once it has written a line. @throws Error if it ends before */
export async function startChild(options: ChildOptions): Promise<Child> {
  const { child, guard } = spawn(options);
  const lines = linesOf(child.stdout);
  const { value: line, done } = await lines.next();
  if (done === true) throw new Error(`${options.script} ended before it was ready`);
  const next = lines.next().then(({ value }) => value ?? "");
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await child.exited;
    guard.dismiss();
  };
  return { pid: child.pid, line, next, stop };
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true });
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n")) {
      yield text.slice(0, at);
      text = text.slice(at + 1);
    }
  }
}

/** Runs a script to its end and returns its parsed standard output. @throws Error if it fails */
export async function runChild<T>(options: ChildOptions): Promise<T> {
  const { child, guard } = spawn(options);
  const text = await new Response(child.stdout).text();
  const code = await child.exited;
  guard.dismiss();
  if (code !== 0) throw new Error(`${options.script} failed with ${code}`);
  return JSON.parse(text) as T;
}
