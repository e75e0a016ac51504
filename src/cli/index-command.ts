/**
 * `index`: requests the indexing of contracts, and with `--wait` shows the progress to the end. Without a running
 * service the command does the work itself, if no other process does.
 */
import { CHAINS, parseChain } from "../chains/chains.ts";
import { systemClock } from "../core/clock.ts";
import { countText, durationText, wholeText } from "../core/format.ts";
import { parseAddress } from "../core/hex.ts";
import type { CollectionEntry } from "../operators/catalogue.ts";
import {
  CommandError,
  type Contract,
  FAILED,
  HttpOperator,
  LogOperator,
  MAX_LIST_BYTES,
  type Operator,
  USAGE,
} from "./access.ts";
import type { Command, CommandRun } from "./command.ts";
import { estimateOf, rangeText, type ShownEstimate } from "./estimate-command.ts";
import { ownService, type Work } from "./own-service.ts";
import { barText, printable, tableText } from "./text.ts";

const POLL_MS = 400;
/** Most contracts with an estimate. */
const MAX_ESTIMATED = 10;
/** Bars in a terminal. */
const MAX_BARS = 12;
const DONE: readonly CollectionEntry["status"][] = ["following", "not_nft", "not_a_contract"];

export const indexCommand: Command = {
  name: "index",
  usage: "index <address>… | --file list.txt [--chain eth] [--wait]",
  summary: "Requests the indexing of contracts",
  options: { file: { type: "string" }, chain: { type: "string" }, wait: { type: "boolean" } },
  help: {
    "--file <path>": "A file with one address, or chain,address, per line",
    "--chain <name>": "Chain of addresses without one; eth by default",
    "--wait":
      "Waits until all are indexed, shows the progress, and prints a table, for up to ten contracts with estimates. Exits with 1 if one failed",
  },
  run: async (run) => {
    const contracts = await contractsOf(run);
    const work = await worker(run);
    try {
      const estimates = run.values["wait"] === true ? await estimatesOf(work.operator, contracts) : NO_ESTIMATES;
      const asked = await work.operator.index(contracts);
      if (run.values["wait"] !== true) {
        if (run.values["json"] === true) run.print(JSON.stringify(asked, null, 2));
        else for (const { chain, address, before } of asked) run.print(`${chain} ${address}  ${before ?? "requested"}`);
        return 0;
      }
      return await waitFor(run, work.operator, asked, estimates);
    } finally {
      await work.close();
    }
  },
};

async function contractsOf({ words, values }: CommandRun): Promise<Contract[]> {
  const { file, chain = "eth" } = values;
  const lines = typeof file === "string" ? await linesOf(file) : [];
  const contracts = [...words, ...lines].map((line) => {
    const parts = line.split(",").map((part) => part.trim());
    const [name, text] = parts.length === 1 ? [String(chain), parts[0]] : parts;
    const [known, address] = [parseChain(name ?? ""), parseAddress(text ?? "")];
    if (known === undefined) {
      throw new CommandError(
        `${name}: no such chain; the names are ${CHAINS.map((one) => one.name).join(", ")}`,
        USAGE,
      );
    }
    if (address === undefined) throw new CommandError(`${text}: not an address`, USAGE);
    return { chain: known.name, address };
  });
  if (contracts.length === 0) throw new CommandError("index needs addresses, or --file", USAGE);
  return contracts;
}

async function linesOf(path: string): Promise<string[]> {
  const file = Bun.file(path);
  if (!(await file.exists())) throw new CommandError(`--file: ${path} can't be read`, USAGE);
  const text = await file.slice(0, MAX_LIST_BYTES).text();
  return text
    .split(/\r?\n/)
    .map((line) => line.replace(/#.*/, "").trim())
    .filter((line) => line !== "");
}

/** Returns the way to a process that indexes: the given service, a running one over the log, or a service of its own. */
async function worker(run: CommandRun): Promise<Work> {
  const operator = await run.open({ mayCreate: true });
  if (!(operator instanceof LogOperator) || run.values["wait"] !== true)
    return { operator, close: () => operator.close() };
  const isServed = (await operator.log.leases()).length > 0;
  if (isServed) return { operator, close: () => operator.close() };
  await operator.close();
  return ownService(run.config());
}

/** Estimates by `keyOf`. */
type Estimates = ReadonlyMap<string, ShownEstimate>;
const NO_ESTIMATES: Estimates = new Map();

/** Asks for estimates, to show them beside what was spent: only of a few contracts, because each costs calls. */
async function estimatesOf(operator: Operator, contracts: readonly Contract[]): Promise<Estimates> {
  if (!(operator instanceof HttpOperator) || contracts.length > MAX_ESTIMATED) return NO_ESTIMATES;
  const estimates = new Map<string, ShownEstimate>();
  for (const contract of contracts) {
    // A contract without code, and a key that may only read, have none.
    const estimate = await estimateOf(operator, contract).catch(() => undefined);
    if (estimate !== undefined) estimates.set(keyOf(contract), estimate);
  }
  return estimates;
}

async function waitFor(
  run: CommandRun,
  operator: Operator,
  contracts: readonly Contract[],
  estimates: Estimates,
): Promise<number> {
  const wanted = new Set(contracts.map(keyOf));
  for (;;) {
    const found = (await operator.collections({})).filter((one) => wanted.has(keyOf(one)));
    const open = found.filter(({ status }) => !DONE.includes(status));
    const [failed, busy] = [
      open.filter(({ status }) => status === "failing"),
      open.filter(({ status }) => status !== "failing"),
    ];
    run.redraw(barsOf(found, open));
    // A collection that fails is tried again by the service; the command does not wait for that.
    if (busy.length === 0 && found.length === wanted.size) {
      run.redraw([]);
      if (run.values["json"] === true) {
        const told = found.map((one) => ({ ...one, estimate: estimates.get(keyOf(one)) ?? null }));
        run.print(JSON.stringify(told, null, 2));
      } else run.print(endTable(found, estimates));
      return failed.length > 0 ? FAILED : 0;
    }
    await systemClock.sleep(POLL_MS);
  }
}

const keyOf = ({ chain, address }: Contract): string => `${chain}/${address}`;

function barsOf(found: readonly CollectionEntry[], open: readonly CollectionEntry[]): string[] {
  const lines = open.slice(0, MAX_BARS).map(({ chain, address, name, percent, transfers, secondsLeft, status }) => {
    const left = secondsLeft === null ? status : `${durationText(secondsLeft * 1_000)} left`;
    const counts = transfers === null ? "" : ` · ${countText(transfers)} transfers`;
    return `${barText(percent ?? 0)}  ${chain} ${address} ${printable((name ?? "").slice(0, 30))}${counts} · ${left}`;
  });
  return [...lines, `${found.length - open.length} of ${found.length} done`];
}

function endTable(found: readonly CollectionEntry[], estimates: Estimates): string {
  const rows = found.map(
    ({ chain, address, name, status, nfts, transfers, calls, requestedAt, finishedAt, lastError }) => {
      const estimate = estimates.get(keyOf({ chain, address }));
      const ms =
        requestedAt === null || finishedAt === null ? undefined : Date.parse(finishedAt) - Date.parse(requestedAt);
      return [
        ...[
          chain,
          address,
          printable((name ?? "").slice(0, 30)),
          status === "failing" ? `failing: ${lastError ?? ""}` : status,
        ],
        ...[nfts, transfers, calls].map((count) => (count === null ? "–" : wholeText(count))),
        ms === undefined ? "–" : durationText(ms),
        ...(estimates.size === 0 ? [] : [estimate === undefined ? "–" : rangeText(estimate.total)]),
        ...(estimates.size === 0 ? [] : [estimate === undefined ? "–" : durationText(estimate.seconds * 1_000)]),
      ];
    },
  );
  const estimated = estimates.size === 0 ? [] : ["CALLS ESTIMATED", "TIME ESTIMATED"];
  return tableText(["CHAIN", "ADDRESS", "NAME", "STATUS", "NFTS", "TRANSFERS", "CALLS", "TIME", ...estimated], rows);
}
