/**
 * Prints the memory that the service takes, by CACHE_MB, collections and load: the table of the operators' page. Usage:
 * `bun scripts/sizing.ts`. Each row is a process of its own on a log that this script fills; the log and the endpoint are
 * on this machine.
 */
import { readFileSync } from "node:fs";
import { systemClock } from "../src/core/clock.ts";
import { silentLogger } from "../src/core/logger.ts";
import { TransferKind } from "../src/events/columns.ts";
import { openLog } from "../src/log/open.ts";
import { fill } from "./bench/fill.ts";
import { machine } from "./bench/machine.ts";
import {
  KEY_HEADERS,
  numberedAddress,
  startBenchService,
  startBlocklessNode,
  temporaryFolder,
} from "./bench/service.ts";
import { createRandom } from "./local-chain/random.ts";

const CHAIN_ID = 1;
const MOVES = 4;
const LOAD_MS = 20_000;
const CONNECTIONS = 64;
/** As in the filled log. */
const PER_BLOCK = 50;
/** MB of the cache, collections, and transfers of each. */
const ROWS = [
  [64, 10, 3_000],
  [64, 200, 15_000],
  [256, 200, 15_000],
  [1_024, 200, 15_000],
  [1_024, 20, 500_000],
] as const;

/** Resident bytes of a process in MB, and its highest ones so far (Linux: proc_pid_status(5)). */
function residentMb(pid: number): { now: number; peak: number } {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) / 1_024;
  return { now: of("VmRSS"), peak: of("VmHWM") };
}

const node = startBlocklessNode();

async function row(cacheMb: number, collections: number, transfers: number): Promise<string> {
  const folder = temporaryFolder();
  try {
    const log = await openLog(folder.logUrl, systemClock, silentLogger);
    const tokens = transfers / (1 + MOVES);
    for (let index = 0; index < collections; index++) {
      const kind = TransferKind.erc721;
      await fill(log, { chainId: CHAIN_ID, address: numberedAddress(index), kind, tokens, moves: MOVES });
    }
    await log.close();
    const env = { CACHE_MB: String(cacheMb), SNAPSHOT_DIR: "off" };
    const service = await startBenchService({ rpcUrl: `http://127.0.0.1:${node.port}`, logUrl: folder.logUrl, env });
    const started = residentMb(service.pid).now;
    let pages = 0;
    const end = performance.now() + LOAD_MS;
    const random = createRandom(1);
    const client = async (): Promise<void> => {
      while (performance.now() < end) {
        // Any collection, at the newest block or an old one, as tokens or as holders.
        const past = random.below(2) === 0 ? "" : `&as_of_block=${random.below(transfers / PER_BLOCK)}`;
        const holders = random.below(4) === 0 ? "&holders=true" : "";
        const path = `/api/v2/nft/${numberedAddress(random.below(collections))}?limit=100${past}${holders}`;
        const response = await fetch(`${service.base}${path}`, { headers: KEY_HEADERS });
        await response.arrayBuffer();
        if (!response.ok) throw new Error(`${path}: ${response.status}`);
        pages++;
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, client));
    const { now, peak } = residentMb(service.pid);
    await service.stop();
    const cells = [cacheMb, collections, transfers * collections, started, now, peak, (pages * 1_000) / LOAD_MS];
    return `| ${cells.map((cell) => Math.round(cell).toString()).join(" | ")} |`;
  } finally {
    folder.remove();
  }
}

process.stdout.write(`${machine()}\n\n`);
process.stdout.write(
  "| CACHE_MB | collections | transfers in all | RSS at start | RSS after load | peak RSS | pages/s |\n",
);
process.stdout.write("|---|---|---|---|---|---|---|\n");
for (const [cache, collections, transfers] of ROWS) {
  process.stdout.write(`${await row(cache, collections, transfers)}\n`);
}
await node.stop(true);
