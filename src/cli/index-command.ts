/**
 * `index`: requests the indexing of contracts, and with `--wait` shows the progress to the end. Without a running
 * service the command does the work itself, if no other process does.
 */
import type { Chains } from "../chains/chains.ts";
import type { IndexAnswerItem } from "../client/index.ts";
import { LIMITS } from "../config.ts";
import { readOperatorFile } from "../core/bounded-files.ts";
import { systemClock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { countText, durationText, printable, wholeText } from "../core/format.ts";
import { parseAddress } from "../core/hex.ts";
import type { ListedCollection } from "../operators/models.ts";
import { COLLECTION_WORDS, statusWord } from "../status-words.ts";
import { CommandError, FAILED, type NamedContract, type ServiceAccess, USAGE } from "./access.ts";
import { type Command, type CommandRun, knownChain, shown } from "./command.ts";
import { estimateOf, rangeText, type ShownEstimate } from "./estimate-command.ts";
import { type MetadataState, MetadataWait, metadataOf, metadataText, sumOf } from "./metadata-state.ts";
import { openWholeService } from "./own-service.ts";
import { barText, reasonOf, tableText } from "./terminal.ts";

/** Contracts per request. */
const AT_ONCE = 500;

const POLL_MS = 400;
/** Polls that wait for the tokens of finished collections to be counted, which the service does afterwards. */
const MAX_COUNT_POLLS = 25;
/** Most contracts with an estimate. */
const MAX_ESTIMATED = 10;
/** Headers that collections of one chain share at most, and that its growth adds while others are indexed. */
const [MAX_SHARED, MORE_HEADERS] = [512, 12] as const;
/** Stands for a collection about which the service did not answer. The command must not count its metadata as whole. */
const NOT_TOLD: MetadataState = { resolved: 0, failed: 0, left: null };
/** Most collections whose metadata is counted without `--metadata`. */
const MAX_ASKED = 100;
/** Lines of bars in a terminal, so that the count below them is seen in a small one, too. */
const MAX_BARS = 12;
const DONE: readonly ListedCollection["status"][] = ["following", "not_nft", "not_a_contract"];

export const indexCommand: Command = {
  name: "index",
  usage: "index <address>… | --file list.txt [--chain eth] [--wait [--metadata]]",
  summary: "Requests the indexing of contracts",
  maxWords: Number.POSITIVE_INFINITY,
  scope: "operate",
  options: {
    ...{ file: { type: "string" }, chain: { type: "string" } },
    ...{ wait: { type: "boolean" }, metadata: { type: "boolean" } },
  },
  help: {
    "--file <path>": "A file with one address, or chain,address, per line",
    "--chain <name>": "Chain of addresses without one; eth by default",
    "--wait":
      "Waits until all are indexed, shows the progress, and prints a table, for up to ten contracts with estimates. Exits with 1 if one failed",
    "--metadata":
      "With --wait: waits for the metadata, too, until each token had an attempt. Exits with 1 if nothing has come for two minutes",
  },
  run: async (run) => {
    const contracts = await contractsOf(run);
    const isWaiting = run.values["wait"] === true;
    if (run.values["metadata"] === true && !isWaiting) throw new CommandError("--metadata goes with --wait", USAGE);
    await using worker = new Worker(run, await run.open({ mayCreate: true, contracts }));
    if (isWaiting) await worker.ensure();
    const estimates = isWaiting ? await estimatesOf(worker, contracts) : NO_ESTIMATES;
    const asked = await requested(worker.service, contracts);
    if (isWaiting) return await waitFor(run, worker, asked, estimates);
    if (run.values["json"] === true) run.print(JSON.stringify(asked, null, 2));
    else for (const { chain, address, before } of asked) run.print(`${chain} ${address}  ${beforeText(before)}`);
    return 0;
  },
};

/** Requests the indexing of contracts. Returns each with its status before, which is null if it was unknown. */
async function requested(service: ServiceAccess, contracts: readonly NamedContract[]) {
  const asked: IndexAnswerItem[] = [];
  for (let at = 0; at < contracts.length; at += AT_ONCE) {
    const { items } = await service.ask((client) => client.index(contracts.slice(at, at + AT_ONCE)));
    asked.push(...items);
  }
  return asked;
}

/** The status of a collection before the request, in words. */
function beforeText(before: string | null): string {
  if (before === "removed") return "was removed, is indexed again";
  return before === null ? "requested" : statusWord(COLLECTION_WORDS, before);
}

async function contractsOf({ words, values, chains }: CommandRun): Promise<NamedContract[]> {
  const { file, chain = "eth" } = values;
  const lines = typeof file === "string" ? linesOf(file) : [];
  const asked = [...words.map((text) => ({ text, place: undefined })), ...lines];
  const contracts = asked.map(({ text, place }) => contractIn(text, String(chain), { place, chains }));
  if (contracts.length === 0) throw new CommandError("index needs addresses, or --file", USAGE);
  return contracts;
}

/** @param place the line of a file, for errors. @throws CommandError */
function contractIn(
  line: string,
  chain: string,
  { place, chains }: { readonly place: string | undefined; readonly chains: Chains },
): NamedContract {
  const at = place === undefined ? "" : `${place}: `;
  const parts = line.split(",").map((part) => part.trim());
  const text = parts.at(-1) as string;
  if (parts.length > 2) throw new CommandError(`${at}${shown(line)}: must be an address, or chain,address`, USAGE);
  try {
    const { name } = knownChain(parts.length === 1 ? chain : (parts[0] as string), chains);
    const address = parseAddress(text);
    if (address !== undefined) return { chain: name, address };
  } catch (error) {
    if (error instanceof CommandError && parts.length > 1) throw new CommandError(`${at}${error.message}`, USAGE);
    throw error;
  }
  throw new CommandError(`${at}${shown(text)}: not an address`, USAGE);
}

/** The lines of a file that are neither empty nor a comment, each with its place. */
function linesOf(path: string): { text: string; place: string }[] {
  let text: string;
  try {
    text = readOperatorFile(path, LIMITS.maxListBytes);
  } catch (error) {
    throw new CommandError(`--file: ${path} can't be read: ${messageOf(error)}`, USAGE);
  }
  return text
    .split(/\r?\n/)
    .map((line, index) => ({ text: line.replace(/#.*/, "").trim(), place: `${path}:${index + 1}` }))
    .filter(({ text }) => text !== "");
}

/** A service that indexes: the given one, another process that works on the log, or a whole one of the command's own. */
class Worker implements AsyncDisposable {
  readonly #run: CommandRun;
  service: ServiceAccess;
  /** True if the service reads nodes itself. False for a reader of the log. */
  isWhole: boolean;

  constructor(run: CommandRun, service: ServiceAccess) {
    this.#run = run;
    this.service = service;
    this.isWhole = run.values["url"] !== undefined;
  }

  /** Opens a whole service if the command has a reader, and no lease shows a process that works on the log. */
  async ensure(): Promise<void> {
    if (this.isWhole) return;
    // A process that was killed leaves its leases for some seconds.
    const { leases } = await this.service.ask((client) => client.status());
    if (leases.length > 0) return;
    await this.service[Symbol.asyncDispose]();
    this.service = await openWholeService(this.#run);
    this.isWhole = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]();
  }
}

/** Estimates by `keyOf`. */
type Estimates = ReadonlyMap<string, ShownEstimate>;
const NO_ESTIMATES: Estimates = new Map();

/** Asks for estimates, to show them beside what was spent: only of a few contracts, because each costs calls. */
async function estimatesOf({ isWhole, service }: Worker, contracts: readonly NamedContract[]): Promise<Estimates> {
  if (!isWhole || contracts.length > MAX_ESTIMATED) return NO_ESTIMATES;
  const estimates = new Map<string, ShownEstimate>();
  for (const contract of contracts) {
    // A contract without code, and a key that may only read, have none.
    const estimate = await estimateOf(service, contract).catch(() => undefined);
    if (estimate === undefined) continue;
    const isAlone = contracts.filter(({ chain }) => chain === contract.chain).length === 1;
    estimates.set(keyOf(contract), isAlone ? estimate : sharing(estimate));
  }
  return estimates;
}

/** The estimate of a collection that is indexed beside others: the first one to join reads headers for all of them. */
function sharing(estimate: ShownEstimate): ShownEstimate {
  const { total, calls } = estimate;
  const shared = Math.min(MAX_SHARED, calls["eth_getBlockByNumber"]?.low ?? 0);
  return {
    ...estimate,
    total: { low: total.low - shared, high: total.high === null ? null : total.high + MORE_HEADERS },
  };
}

async function waitFor(
  run: CommandRun,
  worker: Worker,
  contracts: readonly IndexAnswerItem[],
  estimates: Estimates,
): Promise<number> {
  const wanted = new Set(contracts.map(keyOf));
  const errors = new Map<string, string | null>();
  let countPolls = 0;
  for (;;) {
    await worker.ensure();
    const found = (await worker.service.collections({})).filter((one) => wanted.has(keyOf(one)));
    const open = found.filter(({ status }) => !DONE.includes(status));
    const [failed, busy] = [open.filter(isStuck), open.filter((one) => !isStuck(one))];
    run.redraw(barsOf(found, open));
    if (!process.stderr.isTTY) sayErrors(run, open, errors);
    const isFinished = busy.length === 0 && found.length === wanted.size;
    const isCounted = found.every(({ status, nfts }) => status !== "following" || nfts !== null);
    if (isFinished && (isCounted || countPolls++ >= MAX_COUNT_POLLS)) {
      const { metadata, isWhole } = await metadataFor(run, worker, found);
      run.redraw([]);
      if (run.values["json"] === true) {
        const rows = found.map((one) => ({
          ...{ ...one, estimate: estimates.get(keyOf(one)) ?? null },
          metadata: metadata.get(keyOf(one)) ?? null,
        }));
        run.print(JSON.stringify(rows, null, 2));
      } else run.print(endTable(found, estimates, metadata));
      return failed.length > 0 || !isWhole ? FAILED : 0;
    }
    await systemClock.sleep(POLL_MS, run.signal);
  }
}

/** States of metadata by `keyOf`. */
type MetadataStates = ReadonlyMap<string, MetadataState>;

/** Asks how much metadata the collections have, and with `--metadata` waits for it. `isWhole` is false if it stands still. */
async function metadataFor(
  run: CommandRun,
  worker: Worker,
  found: readonly ListedCollection[],
): Promise<{ readonly metadata: MetadataStates; readonly isWhole: boolean }> {
  const isWaiting = run.values["metadata"] === true;
  const followed = found.filter(({ status }) => status === "following");
  // Each takes a request of its own.
  if (!isWaiting && followed.length > MAX_ASKED) return { metadata: new Map(), isWhole: true };
  for (const wait = new MetadataWait(systemClock); ; await systemClock.sleep(POLL_MS, run.signal)) {
    await worker.ensure();
    const metadata = new Map<string, MetadataState>();
    for (const one of followed) {
      const state = await metadataOf(worker.service, one);
      if (state !== undefined) metadata.set(keyOf(one), state);
    }
    const states = followed.map((one) => metadata.get(keyOf(one)) ?? NOT_TOLD);
    const next = wait.next(states);
    if (!isWaiting || next === "done") return { metadata, isWhole: true };
    run.redraw([`metadata ${metadataText(sumOf(states))}`]);
    if (next === "waiting") continue;
    run.say(
      `metadata stands still at ${metadataText(sumOf(states))}: see METADATA_MB, and the hosts of the token URIs`,
    );
    return { metadata, isWhole: false };
  }
}

/** True if the service tries again later, or reads owners in doubt again. The command does not wait for that. */
const isStuck = ({ status, inDoubt }: ListedCollection): boolean => status === "failing" || inDoubt !== null;

/** Says the error of each collection when it changes. @param said the last ones, by `keyOf` */
function sayErrors({ say }: CommandRun, open: readonly ListedCollection[], said: Map<string, string | null>): void {
  for (const { chain, address, lastError } of open) {
    const key = keyOf({ chain, address });
    if (lastError !== null && lastError !== said.get(key)) say(`${chain} ${address}: ${printable(lastError)}`);
    said.set(key, lastError);
  }
}

const keyOf = ({ chain, address }: Pick<ListedCollection, "chain" | "address">): string => `${chain}/${address}`;

function barsOf(found: readonly ListedCollection[], open: readonly ListedCollection[]): string[] {
  const lines = open.slice(0, MAX_BARS).flatMap((entry) => {
    const { chain, address, name, percent, transfers, secondsLeft, status, lastError } = entry;
    const left =
      secondsLeft === null ? statusWord(COLLECTION_WORDS, status) : `${durationText(secondsLeft * 1_000)} left`;
    const counts = transfers === null ? "" : ` · ${countText(transfers)} transfers`;
    const title = `${chain} ${address} ${printable((name ?? "").slice(0, 30))}`;
    // A line of its own: a terminal of 80 columns has no place for it beside the bar.
    const error = lastError === null ? [] : [`    ${printable(lastError)}`];
    return [`${barText(percent ?? 0)}  ${title}${counts} · ${left}`, ...error];
  });
  return [...lines.slice(0, MAX_BARS), `${found.length - open.length} of ${found.length} done`];
}

/** The calls of the road that indexing takes. */
const roadOf = ({ archive, total }: ShownEstimate) => (archive?.used === true ? archive.calls : total);

function endTable(found: readonly ListedCollection[], estimates: Estimates, metadata: MetadataStates): string {
  const rows = found.map((entry) => {
    const { chain, address, name, status, nfts, transfers, calls, requestedAt, finishedAt } = entry;
    const [estimate, state] = [estimates.get(keyOf(entry)), metadata.get(keyOf(entry))];
    const ms =
      requestedAt === null || finishedAt === null ? undefined : Date.parse(finishedAt) - Date.parse(requestedAt);
    const word = statusWord(COLLECTION_WORDS, status);
    return [
      ...[
        chain,
        address,
        printable((name ?? "").slice(0, 30)),
        isStuck(entry) ? `${word}: ${printable(reasonOf(entry) ?? "")}` : word,
      ],
      ...[nfts, transfers, calls].map((count) => (count === null ? "–" : wholeText(count))),
      ms === undefined ? "–" : durationText(ms),
      ...(estimates.size === 0 ? [] : [estimate === undefined ? "–" : rangeText(roadOf(estimate))]),
      ...(estimates.size === 0 ? [] : [estimate === undefined ? "–" : durationText(estimate.seconds * 1_000)]),
      state === undefined ? "–" : metadataText(state),
    ];
  });
  const estimated = estimates.size === 0 ? [] : ["CALLS ESTIMATED", "TIME ESTIMATED"];
  return tableText(
    ["CHAIN", "ADDRESS", "NAME", "STATUS", "NFTS", "TRANSFERS", "CALLS", "TIME", ...estimated, "METADATA"],
    rows,
  );
}
