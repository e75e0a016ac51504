/** `copy`: moves a log to another one, of either engine. */
import { wholeText } from "../core/format.ts";
import { CommandError, FAILED, USAGE } from "./access.ts";
import type { Command, CommandRun } from "./command.ts";
import { type CopyReport, copyLog } from "./copy-log.ts";
import { barText } from "./terminal.ts";

const LOG_URL = /^(?:sqlite:\/\/.+|postgres(?:ql)?:\/\/.+)$/;
/** Lines about single damaged records. */
const MOST_LINES = 20;

export const copyCommand: Command = {
  name: "copy",
  usage: "copy <from-url> <to-url> [--with-secrets] [--from-blobs <url>] [--to-blobs <url>]",
  summary: "Copies a log to another one, of either engine, and compares the two. Called again, it goes on",
  maxWords: 2,
  options: {
    "with-secrets": { type: "boolean" },
    "from-blobs": { type: "string" },
    "to-blobs": { type: "string" },
  },
  help: {
    "--with-secrets": "API keys and the secret that signs cursors, too. By default they stay behind",
    "--from-blobs <url>": "Where the first log has its blobs, if BLOB_URL was set: s3://<bucket>/<prefix>",
    "--to-blobs <url>": "Where the second one gets them. By default into its own table",
  },
  run: async (run) => {
    const [from, to] = urlsOf(run);
    const withSecrets = run.values["with-secrets"] === true;
    const onProgress = ({ step, done, of }: { step: string; done: number; of: number | undefined }) => {
      const bar = of === undefined || of === 0 ? "" : `${barText(Math.min(100, Math.floor((done / of) * 100)))}  `;
      run.redraw([`${bar}${step}  ${wholeText(done)}`]);
    };
    const placeOf = (option: "from-blobs" | "to-blobs") => {
      const url = run.values[option];
      return typeof url === "string" ? run.blobStoreAt(url) : undefined;
    };
    const places = { fromBlobs: placeOf("from-blobs"), toBlobs: placeOf("to-blobs") };
    const copying = copyLog({ from, to, ...places, withSecrets, onProgress, signal: run.signal });
    // The end of the copy releases its lease.
    run.beforeExit(() => copying);
    const report = await copying;
    run.redraw([]);
    if (run.values["json"] === true) run.print(JSON.stringify(report));
    else for (const line of linesOf(report, withSecrets)) run.print(line);
    return report.damaged.some(({ isPast }) => !isPast) ? FAILED : 0;
  },
};

function urlsOf({ words }: CommandRun): [string, string] {
  const [from = "", to = ""] = words;
  if (words.length !== 2 || !LOG_URL.test(from) || !LOG_URL.test(to))
    throw new CommandError("copy needs two logs: sqlite://<path> or postgres://…", USAGE);
  if (from === to) throw new CommandError("copy needs two different logs", USAGE);
  return [from, to];
}

function linesOf(report: CopyReport, withSecrets: boolean): string[] {
  const { streams, events, blobs, copiedEvents, copiedBlobs, damaged, hash } = report;
  const count = (all: number, copied: number, what: string) =>
    `${wholeText(all)} ${what}${copied === all ? "" : `, ${wholeText(copied)} of them now`}`;
  const rest = damaged.length - MOST_LINES;
  return [
    `${wholeText(streams)} streams · ${count(events, copiedEvents, "events")} · ${count(blobs, copiedBlobs, "blobs")}`,
    ...damaged.slice(0, MOST_LINES).map(({ where, version, text, isPast }) => {
      const at = version === undefined ? "" : ` version ${version}`;
      const advice = isPast ? "it is from before the collection was indexed anew" : "reindex repairs a collection";
      return `damaged: ${where}${at}: ${text}; ${advice}`;
    }),
    ...(rest > 0 ? [`damaged: ${rest} more`] : []),
    ...(withSecrets ? [] : ["API keys and the cursor secret stayed behind: the first start makes new ones"]),
    `equal in both logs: sha256 ${hash}`,
  ];
}
