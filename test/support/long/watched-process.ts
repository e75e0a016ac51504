/**
 * The parent's side of watched-service.ts: starts the process, reads its lines as they arrive, kills it. All lines from
 * before its death have been read when `ended` resolves, because a pipe keeps its content after the writer's death.
 */
import { join } from "node:path";
import { guardChild } from "../../../scripts/local-chain/guard.ts";
import { TEST_KEY } from "../service.ts";

/** One append that the log acknowledged. */
export interface Acknowledged {
  readonly stream: string;
  /** Version of its last event. */
  readonly version: number;
  readonly digests: readonly string[];
}

export interface WatchedProcess {
  readonly loaded: Promise<void>;
  /** Starts the service after it has loaded, and resolves with its URL. */
  start(): Promise<string>;
  /** Called for each line that reports the start of an append. */
  onBegin: (stream: string) => void;
  readonly acknowledged: readonly Acknowledged[];
  /** Streams with an append that began and was neither acknowledged nor refused. */
  inFlight(): string[];
  kill(): void;
  readonly ended: Promise<void>;
}

const MAIN = join(import.meta.dir, "watched-service.ts");

/** Spawns the process, which loads and then waits. */
export function spawnWatched(env: Record<string, string>): WatchedProcess {
  const child = Bun.spawn([process.execPath, MAIN], {
    env: { PATH: process.env["PATH"] ?? "", PORT: "0", API_KEYS: TEST_KEY, ...env },
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  const loaded = Promise.withResolvers<void>();
  const serving = Promise.withResolvers<string>();
  for (const { promise } of [loaded, serving]) promise.catch(() => undefined);
  const open = new Map<string, string>();
  const acknowledged: Acknowledged[] = [];
  const read = (line: string) => {
    const [word, first = "", stream = "", version = "", digests = ""] = line.split(" ");
    if (word === "loaded") loaded.resolve();
    if (word === "serving") serving.resolve(first);
    if (word === "end") acknowledged.push({ stream, version: Number(version), digests: digests.split(",") });
    if (word === "end" || word === "refused") open.delete(first);
    if (word !== "begin") return;
    open.set(first, stream);
    handle.onBegin(stream);
  };
  const ended = (async () => {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of child.stdout) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
      // The kill may have cut off the last line.
      rest = lines.pop() ?? "";
      for (const line of lines) read(line);
    }
    await child.exited;
    guard.dismiss();
    const gone = new Error("the process ended before it served");
    loaded.reject(gone);
    serving.reject(gone);
  })();
  const handle: WatchedProcess = {
    loaded: loaded.promise,
    start: async () => {
      await loaded.promise;
      child.stdin.write("go\n");
      child.stdin.flush();
      return serving.promise;
    },
    onBegin: () => undefined,
    acknowledged,
    inFlight: () => [...open.values()],
    kill: () => child.kill("SIGKILL"),
    ended,
  };
  return handle;
}
