/** `estimate`: what indexing a contract would cost. */
import type { CollectionEstimate, EstimatedRange } from "../client/index.ts";
import { countText, durationText, printable, wholeText } from "../core/format.ts";
import { COLLECTION_WORDS, statusWord } from "../status-words.ts";
import { missingLog, type NamedContract, type ServiceAccess } from "./access.ts";
import { CHAIN, CHAIN_HELP, type Command, type CommandRun, contractOf } from "./command.ts";
import { openNodeReader } from "./own-service.ts";
import { tableText } from "./terminal.ts";

/** The part of the answer that is shown. */
export type ShownEstimate = Omit<CollectionEstimate, "chain" | "address" | "time">;

export const estimateCommand: Command = {
  name: "estimate",
  usage: "estimate <address> [--chain eth]",
  summary: "Says what indexing a contract would cost: blocks, calls, units, time",
  maxWords: 1,
  scope: "operate",
  options: CHAIN,
  help: CHAIN_HELP,
  run: async (run) => {
    const contract = contractOf(run, "estimate");
    const status = run.values["url"] === undefined ? await statusInLog(run, contract) : undefined;
    await using service = await openNodeReader(run, contract);
    const answer = await estimateOf(service, contract);
    const estimate = status === undefined ? answer : { ...answer, status };
    if (run.values["json"] === true) run.print(JSON.stringify(estimate, null, 2));
    else for (const line of estimateLines(estimate)) run.print(line);
    return 0;
  },
};

/** The status of a collection in the log; null if there is no log, or it has nothing of the collection. @throws CommandError */
async function statusInLog(run: CommandRun, { chain, address }: NamedContract): Promise<string | null> {
  if (missingLog(run.config()) !== undefined) return null;
  await using service = await run.open();
  const [found] = await service.collections({ chain, text: address });
  return found?.status ?? null;
}

/** Asks a service for an estimate. @throws CommandError */
export async function estimateOf(service: ServiceAccess, contract: NamedContract): Promise<ShownEstimate> {
  const { asOf: _, ...estimate } = await service.ask((client) => client.estimate(contract));
  return estimate;
}

function estimateLines({ name, blocks, transfers, calls, total, units, seconds, limits, ...rest }: ShownEstimate) {
  const isOpen = total.high === null;
  const known = rest.status === null ? "" : `, which is ${statusWord(COLLECTION_WORDS, rest.status)} already`;
  const rows = Object.entries(calls)
    .filter(([, { high }]) => high === null || high > 0)
    .map(([method, count]) => [method, rangeText(count)]);
  return [
    `${printable(name)}${known}: ${blocksText(blocks)}`,
    `${transfersText(transfers)} · ${limitText(limits)} · ${isOpen ? "at least" : "about"} ${durationText(seconds * 1_000)}`,
    "",
    tableText(["METHOD", "CALLS"], [...rows, ["all", rangeText(total)]]),
    "",
    ...archiveLines(rest.archive, total),
    `${rangeText(units)} ${units.list}, without metadata. The estimate itself made ${rest.probes} calls.`,
  ];
}

/** The other road, if it is taken or cheaper. */
function archiveLines(archive: ShownEstimate["archive"], byNode: EstimatedRange): string[] {
  const isCheaper = archive !== null && (archive.calls.high ?? archive.calls.low) < (byNode.high ?? byNode.low);
  if (archive === null || !(archive.used || isCheaper)) return [];
  const { calls, requests, label, used } = archive;
  const costs = `${rangeText(calls)} calls to the node and ${rangeText(requests)} to the ${label}`;
  return [used ? `By the archive, which is used: ${costs}` : `By an archive, with ARCHIVE_URL_<CHAIN>: ${costs}`, ""];
}

/** The start is known to some blocks, because an estimate makes few calls. */
function blocksText({ from, fromAtLatest, count }: ShownEstimate["blocks"]): string {
  if (from === fromAtLatest) return `${wholeText(count)} blocks from ${wholeText(from)} on`;
  return `at most ${wholeText(count)} blocks, from a block between ${wholeText(from)} and ${wholeText(fromAtLatest)} on`;
}

const transfersText = (transfers: EstimatedRange): string =>
  transfers.high === null && transfers.low === 0
    ? "transfers not counted"
    : `${rangeText(transfers, countText)} transfers`;

function limitText({ maxBlocks, answered, source }: ShownEstimate["limits"]): string {
  if (maxBlocks !== null) return `at most ${wholeText(maxBlocks)} blocks per request (${source})`;
  return answered === 0 ? "limit not probed" : `no limit up to ${wholeText(answered)} blocks (${source})`;
}

/** `1,182`, `1,000 to 2,000`, or `at least 1,000`. */
export function rangeText({ low, high }: EstimatedRange, text = wholeText): string {
  if (high === null) return `at least ${text(low)}`;
  return low === high ? text(low) : `${text(low)} to ${text(high)}`;
}
