/** A SQLite log on a full disk: a real limit of the system makes its writes fail, and is lifted later. */
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PRLIMIT = Bun.which("prlimit");

interface Answer {
  readonly outcome: string;
  readonly isWritable: boolean;
}

test.skipIf(PRLIMIT === null)(
  "says once that its disk is full, is not writable, and stores again with room",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "full-log-"));
    const child = join(import.meta.dir, "../support/full-disk-log.ts");
    // Files of at most a megabyte. A write beyond it fails like a write beyond a quota.
    const limited = `trap "" XFSZ; ulimit -S -f 2048; exec "$0" "$1" "$2"`;
    const run = Bun.spawn(["sh", "-c", limited, process.execPath, child, join(folder, "events.db")], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
    const errors = new Response(run.stderr).text();
    const answers = lines(run.stdout);
    const append = async (): Promise<Answer> => {
      run.stdin.write("append\n");
      await run.stdin.flush();
      return JSON.parse((await answers.next()).value as string) as Answer;
    };
    const untilFull = async (): Promise<Answer> => {
      for (;;) {
        const answer = await append();
        if (answer.outcome !== "stored") return answer;
      }
    };
    expect(await append()).toEqual({ outcome: "stored", isWritable: true });
    for (const answer of [await untilFull(), await append(), await append()]) {
      expect(answer).toEqual({ outcome: "log_unavailable", isWritable: false });
    }
    expect(Bun.spawnSync([PRLIMIT as string, `--pid=${run.pid}`, "--fsize=unlimited"]).exitCode).toBe(0);
    expect(await append()).toEqual({ outcome: "stored", isWritable: true });
    run.stdin.end();
    expect(await run.exited).toBe(0);
    const said = (await errors)
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { level: string; msg: string });
    expect(said.map(({ level, msg }) => [level, msg])).toEqual([
      ["error", "the event log is not writable: its disk is full, and nothing new is stored until there is room"],
      ["info", "the event log is writable again"],
    ]);
    rmSync(folder, { recursive: true });
  },
);

async function* lines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true });
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
      yield text.slice(0, end);
      text = text.slice(end + 1);
    }
  }
}
