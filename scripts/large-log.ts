/**
 * Keeps what a large log folds into: writes two synthetic collections with a million transfers each, then compares the
 * hashes of their streams and listings with those that were kept. Exits with 1 on any difference.
 *
 * bun scripts/large-log.ts compare|record
 */
import { join } from "node:path";
import { systemClock } from "../src/core/clock.ts";
import type { Address } from "../src/core/hex.ts";
import { silentLogger } from "../src/core/logger.ts";
import { encodeEvent } from "../src/events/codec.ts";
import { TransferKind } from "../src/events/columns.ts";
import { nftStream, type StreamName } from "../src/events/types.ts";
import type { EventLog } from "../src/log/event-log.ts";
import { openLog } from "../src/log/open.ts";
import { fill } from "./bench/fill.ts";
import { temporaryFolder } from "./bench/service.ts";

const KEPT = join(import.meta.dir, "../test/fixtures/large-log.txt");
const PAGE = 1_000;
const COLLECTIONS = [
  { address: `0x${"21".repeat(20)}` as Address, kind: TransferKind.erc721, tokens: 100_000, moves: 9 },
  { address: `0x${"55".repeat(20)}` as Address, kind: TransferKind.erc1155, tokens: 50_000, moves: 19, people: 3 },
];

/** SHA-256 over the types and payloads of a stream. The times of its records are the clock's and are left out. */
async function streamHash(log: EventLog, stream: StreamName): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  for (let from = 1; ; ) {
    const page = await log.read(stream, { from, limit: PAGE });
    for (const { version, event } of page) hasher.update(`${version} ${event.type} `).update(encodeEvent(event));
    const last = page.at(-1);
    if (last === undefined) return hasher.digest("hex");
    from = last.version + 1;
  }
}

/** One line a stream: its version, the hash of its records, and from `verify` its state and the hash of its listing. */
async function hashes(): Promise<string> {
  const folder = temporaryFolder();
  try {
    const log = await openLog(folder.logUrl, systemClock, silentLogger);
    const lines = new Map<string, string>();
    for (const collection of COLLECTIONS) {
      await fill(log, { chainId: 1, ...collection });
      const stream = nftStream(1, collection.address);
      lines.set(stream, await streamHash(log, stream));
    }
    await log.close();
    const verify = Bun.spawnSync([process.execPath, join(import.meta.dir, "verify.ts"), folder.logUrl]);
    const output = verify.stdout.toString();
    if (verify.exitCode !== 0) throw new Error(`verify found a fault:\n${output}`);
    return [...lines]
      .map(([stream, hash]) => {
        const [, version, state] = new RegExp(`^${stream} (v\\d+) \\w+ (.+)$`, "m").exec(output) ?? [];
        return `${stream} ${version} ${hash} ${state}\n`;
      })
      .join("");
  } finally {
    folder.remove();
  }
}

const command = process.argv[2];
if (command !== "record" && command !== "compare") {
  process.stderr.write("usage: bun scripts/large-log.ts compare|record\n");
  process.exit(2);
}
const found = await hashes();
if (command === "record") await Bun.write(KEPT, found);
const kept = await Bun.file(KEPT).text();
process.stdout.write(found === kept ? `${found}the same as kept\n` : `kept:\n${kept}found:\n${found}`);
process.exit(found === kept ? 0 : 1);
