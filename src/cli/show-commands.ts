/** `status`, `collections` and `inspect`: commands that only read. */

import { troubleOfReport, troubleText, wayOutOf } from "../chains/trouble.ts";
import { systemClock } from "../core/clock.ts";
import { bytesText, countedText, countText, durationText, printable, wholeText } from "../core/format.ts";
import { PROGRAM } from "../core/program.ts";
import { type NftEvent, nftStream, type Recorded } from "../events/types.ts";
import { historyText } from "../nft/collections/history-words.ts";
import { COLLECTION_STATUSES, type ListedCollection, type StatusReport } from "../operators/models.ts";
import { CHAIN_WORDS, COLLECTION_WORDS, ENDPOINT_WORDS, statusWord, valuesWithWords } from "../status-words.ts";
import { FAILED, openCommandLog, type ServiceAccess } from "./access.ts";
import { CHAIN, CHAIN_HELP, type Command, type CommandRun, contractOf, knownChain, unknownWord } from "./command.ts";
import { barText, reasonOf, tableText } from "./terminal.ts";

const WATCH_MS = 1_000;

export const statusCommand: Command = {
  name: "status",
  usage: "status [--watch]",
  summary: "Shows the log, the leases, the chains with their endpoints, and collections by status",
  maxWords: 0,
  scope: "operate",
  options: { watch: { type: "boolean" } },
  help: { "--watch": "Shows it again each second, in a terminal" },
  run: async (run) => {
    await using service = await run.open();
    for (;;) {
      const lines = await statusLines(run, service);
      if (run.values["watch"] !== true || !process.stderr.isTTY) {
        for (const line of lines) run.print(line);
        return 0;
      }
      run.redraw(lines);
      await systemClock.sleep(WATCH_MS, run.signal);
    }
  },
};

async function statusLines({ values }: CommandRun, service: ServiceAccess): Promise<string[]> {
  const { asOf: _, ...report } = await service.ask((client) => client.status());
  const isRunning = values["url"] !== undefined;
  if (values["json"] === true) return [JSON.stringify(isRunning ? report : ofLog(report), null, 2)];
  const { version, startedAt, instance, log, chains, collections, leases } = report;
  const free = log.freeBytes === null ? "" : ` · ${bytesText(log.freeBytes)} free`;
  const behind = isRunning ? ` · ${log.behindSeconds} s behind` : "";
  return [
    ...(isRunning ? [`version ${version} · since ${startedAt} · ${instance}`] : []),
    `log ${log.engine} · ${bytesText(log.bytes)}${free} · ${log.writable ? "writable" : "not writable"}${behind}`,
    ...(isRunning ? chainLines(chains) : []),
    `leases ${leases.length === 0 ? "none" : leases.map(({ what }) => what).join(", ")}`,
    `collections ${countsText(collections)}${doubtText(report.inDoubt)}`,
  ];
}

/** What a report tells of the log. The rest is of the process that made it: of no interest if that is the command's own. */
function ofLog({ log: { behindSeconds: _, ...log }, leases, collections, inDoubt }: StatusReport) {
  return { log, leases, collections, inDoubt };
}

const doubtText = (count: number): string => (count === 0 ? "" : ` · ${wholeText(count)} in doubt`);

function countsText(counts: StatusReport["collections"]): string {
  const some = COLLECTION_STATUSES.filter((status) => counts[status] > 0);
  return some.length === 0
    ? "none yet"
    : some.map((status) => `${wholeText(counts[status])} ${COLLECTION_WORDS[status].word}`).join(" · ");
}

function chainLines(chains: StatusReport["chains"]): string[] {
  return chains.flatMap((chain) => {
    const { name, state, head, endpoints } = chain;
    const where = head === null ? "" : ` · head ${wholeText(head.number)} of ${head.time ?? "unknown time"}`;
    const lines = endpoints.map((endpoint) => {
      const { label, latencyMs, calls, units, bytes, reason } = endpoint;
      const count = Object.values(calls.hour).reduce((sum, one) => sum + one, 0);
      const latency = latencyMs === null ? "" : ` · ${latencyMs.p50} ms`;
      const cost = `${wholeText(count)} calls, ${wholeText(units.hour)} compute units, ${bytesText(bytes.hour)} in an hour`;
      const state = statusWord(ENDPOINT_WORDS, endpoint.state);
      return `  ${label} ${state}${reason === null ? "" : `: ${reason}`}${latency} · ${cost}`;
    });
    return [`${name} ${statusWord(CHAIN_WORDS, state)}${where}`, ...troubleLines(chain), ...lines];
  });
}

/** What is wrong with a chain and the way out, in the words of the console and of `doctor`. */
function troubleLines(chain: StatusReport["chains"][number]): string[] {
  const trouble = troubleOfReport(chain);
  const doubt =
    chain.inDoubt === null
      ? []
      : [`  in doubt from block ${wholeText(chain.inDoubt.block)} on: ${chain.inDoubt.reason}`];
  if (trouble === undefined) return doubt;
  const { text, next } = wayOutOf(chain.name, trouble, PROGRAM);
  return [...doubt, `  ${troubleText(chain.name, trouble)}. ${text}`, `  ${next.why} ${next.command}`];
}

export const collectionsCommand: Command = {
  name: "collections",
  usage: "collections [--chain eth] [--status failing] [--text ape]",
  summary: "Lists the collections with their progress and their last error",
  maxWords: 0,
  scope: "operate",
  options: { chain: { type: "string" }, status: { type: "string" }, text: { type: "string" } },
  help: {
    "--chain <name>": "Only this chain",
    "--status <status>": `Only this status: ${valuesWithWords(COLLECTION_WORDS)}`,
    "--text <text>": "Part of the address, the name or the symbol",
  },
  run: async ({ open, print, values, chains }) => {
    const { chain, status, text } = values as Readonly<Record<string, string | undefined>>;
    if (chain !== undefined) knownChain(chain, chains);
    if (status !== undefined && !COLLECTION_STATUSES.some((one) => one === status)) {
      throw unknownWord("status", status, COLLECTION_STATUSES);
    }
    const filter = Object.fromEntries(
      Object.entries({ chain, status, text }).filter(([, value]) => value !== undefined),
    );
    await using service = await open();
    const found = await service.collections(filter as Record<string, string>);
    if (values["json"] === true) print(JSON.stringify(found, null, 2));
    else print(tableText(["CHAIN", "ADDRESS", "NAME", "STATUS", "NFTS", "TRANSFERS", "LEFT"], found.map(rowOf)));
    return 0;
  },
};

function rowOf(row: ListedCollection) {
  const { chain, address, name, status, percent, nfts, transfers, secondsLeft } = row;
  const progress = status === "indexing" ? barText(percent ?? 0) : statusWord(COLLECTION_WORDS, status);
  const reason = reasonOf(row);
  return [
    ...[chain, address, printable((name ?? "").slice(0, 30))],
    reason === null ? progress : `${progress}: ${printable(reason).slice(0, 80)}`,
    ...[nfts, transfers].map((count) => (count === null ? "–" : countText(count))),
    secondsLeft === null ? "–" : durationText(secondsLeft * 1_000),
  ];
}

export const inspectCommand: Command = {
  name: "inspect",
  usage: "inspect <address> [--chain eth]",
  summary: "Tells what the log has of a collection, event by event, in words. Reads the log itself",
  maxWords: 1,
  options: CHAIN,
  help: CHAIN_HELP,
  run: async (run) => {
    const { values, config, print } = run;
    const { chain, address } = contractOf(run, "inspect");
    const log = await openCommandLog(config());
    try {
      const stream = nftStream(knownChain(chain, run.chains).chainId, address);
      const head = await log.head(stream);
      if (head.version === 0) {
        print(values["json"] === true ? "[]" : "the log has nothing of this contract: it was never requested");
        return FAILED;
      }
      const lines: EventLine[] = [];
      for (let from = 1; from <= head.version; ) {
        const events = (await log.read(stream, { from, isReadingOn: true })) as Recorded<NftEvent>[];
        for (const recorded of events) addLine(lines, recorded);
        from += events.length;
      }
      if (values["json"] === true) print(JSON.stringify(lines, null, 2));
      else for (const { versions, time, text } of lines) print(`${versions.padEnd(14)} ${time}  ${printable(text)}`);
      return 0;
    } finally {
      await log.close();
    }
  },
};

/** One event in words, or several ranges of blocks in a row. */
interface EventLine {
  versions: string;
  time: string;
  text: string;
  ranges?: { readonly first: number; readonly fromBlock: number; count: number; transfers: number };
}

/** Adds an event. A range of blocks joins the ranges right before it. */
function addLine(lines: EventLine[], { event, version, time }: Recorded<NftEvent>): void {
  const when = new Date(time).toISOString();
  if (event.type !== "TransfersCommitted") {
    lines.push({ versions: `v${version}`, time: when, text: eventText(event) });
    return;
  }
  let last = lines.at(-1);
  if (last?.ranges === undefined) {
    last = {
      versions: "",
      time: when,
      text: "",
      ranges: { first: version, fromBlock: event.fromBlock, count: 0, transfers: 0 },
    };
    lines.push(last);
  }
  const ranges = last.ranges as NonNullable<EventLine["ranges"]>;
  ranges.count++;
  ranges.transfers += event.count;
  last.time = when;
  last.versions = ranges.count === 1 ? `v${version}` : `v${ranges.first}–v${version}`;
  const blocks = `blocks ${wholeText(ranges.fromBlock)} to ${wholeText(event.toBlock)}`;
  last.text = `${wholeText(ranges.transfers)} transfers of ${blocks}, in ${countedText(ranges.count, "range")}`;
}

function eventText(event: Exclude<NftEvent, { readonly type: "TransfersCommitted" }>): string {
  switch (event.type) {
    case "IndexingRequested":
      return "requested";
    case "ContractIdentified": {
      const found = `at block ${wholeText(event.block)}`;
      if (event.kind === "not_nft") return `identified ${found}: has code, and is no NFT contract`;
      if (event.kind === "not_a_contract") return `identified ${found}: there is no contract`;
      const from = `from block ${wholeText(event.startBlock)} on`;
      return `identified ${found}: ${JSON.stringify(event.name)} (${event.symbol}), ${event.forms.join(", ")}, ${from}`;
    }
    case "ContractRenamed":
      return `renamed at block ${wholeText(event.block)}: ${JSON.stringify(event.name)} (${event.symbol})`;
    case "ReindexRequested":
      return "to be indexed anew: what was recorded before counts no longer";
    case "CollectionRemoved":
      return "removed, until a client requests it again";
    case "IndexingCompleted":
      return `complete at block ${wholeText(event.block)} ${event.hash}`;
    case "IndexingFailed":
      return `attempt ${event.attempt} failed: ${event.reason}; next try ${new Date(event.retryAt).toISOString()}`;
    case "OwnersDoubted":
      return `owners in doubt at block ${wholeText(event.block)}: ${event.reason}`;
    case "OwnersSettled":
      return event.contradicted === 0
        ? "owners no longer in doubt"
        : `owners read again: the contract contradicts its own logs about ${wholeText(event.contradicted)}`;
    case "LogsDoubted":
      return `block ${wholeText(event.block)} in doubt: ${event.reason}; next try ${new Date(event.retryAt).toISOString()}`;
    case "HistoryProven":
      return `history: ${historyText(event)}`;
    case "IndexingStalled":
      return `no progress: ${event.reason}`;
    case "BlocksReverted":
      return `reverted to block ${wholeText(event.ancestor.number)}${event.rejoins ? ", to read again from there" : ""}`;
    case "ContractDestroyed":
      return `destroyed in block ${wholeText(event.block)}: its tokens end there`;
    case "FlagsChanged": {
      const flags = [event.possibleSpam ? "possible spam" : "", event.verifiedCollection ? "verified" : ""].filter(
        Boolean,
      );
      return flags.length === 0 ? "flags lifted" : `flagged as ${flags.join(" and ")} by ${event.rule}`;
    }
    default:
      return event satisfies never;
  }
}
