/**
 * The service as a process that reports every append to its parent: a line before it and a line after it, written
 * synchronously to standard output. It loads, writes `loaded`, and starts only after a line on standard input, so that
 * loading is not part of its life. In: the service's environment. Out: `serving`, `begin` and `end` lines.
 */
import { writeSync } from "node:fs";
import { readConfig } from "../../../src/config.ts";
import { createLogger } from "../../../src/core/logger.ts";
import { encodeEvent } from "../../../src/events/codec.ts";
import type { Append, AppendOutcome, EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { startService } from "../../../src/service.ts";

/** Writes a line past every buffer of the runtime, so that it survives a SIGKILL at the next instruction. */
function say(line: string): void {
  const bytes = Buffer.from(`${line}\n`);
  for (let sent = 0; sent < bytes.length; ) {
    try {
      sent += writeSync(1, bytes, sent);
    } catch (error) {
      // The pipe is full because the parent has not read yet.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
}

/** `begin <number> <stream>`, then `end <number> <stream> <version> <digest of each event>`, or `refused <number>`. */
function watched(log: EventLog): EventLog {
  let count = 0;
  const ended = (id: number, { stream, events }: Append, outcome: AppendOutcome | undefined) => {
    if (outcome === undefined || "error" in outcome) say(`refused ${id}`);
    else say(`end ${id} ${stream} ${outcome.version} ${events.map((event) => Bun.hash(encodeEvent(event))).join()}`);
  };
  const appendAll = async (appends: readonly Append[]) => {
    const ids = appends.map(({ stream }) => {
      const id = ++count;
      say(`begin ${id} ${stream}`);
      return id;
    });
    const outcomes = await log.appendAll(appends);
    for (const [index, append] of appends.entries()) ended(ids[index] as number, append, outcomes[index]);
    return outcomes;
  };
  const append = async (one: Append) => {
    const [outcome] = await appendAll([one]);
    if (outcome === undefined || "error" in outcome) throw outcome?.error;
    return outcome.version;
  };
  return new Proxy(log, {
    get: (target, key) => {
      if (key === "append") return append;
      if (key === "appendAll") return appendAll;
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

say("loaded");
for await (const _line of console) break;
const service = await startService({
  config: readConfig(process.env),
  logger: createLogger("silent"),
  minPollMs: 50,
  openLog: async (...parameters) => watched(await openLog(...parameters)),
});
say(`serving ${service.url}`);
