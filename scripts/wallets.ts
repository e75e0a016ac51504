/**
 * Prints what a wallet's NFTs cost over 200 collections of 10,000 tokens: the first answer, which makes the index, later ones, and
 * the memory. Usage: `bun scripts/wallets.ts`. Each row is a process of its own on a log that this script fills. All collections
 * have the same history, so a holder appears in each.
 */
import { systemClock } from "../src/core/clock.ts";
import { silentLogger } from "../src/core/logger.ts";
import { TransferKind } from "../src/events/columns.ts";
import { openLog } from "../src/log/open.ts";
import { fill, personAddress } from "./bench/fill.ts";
import { machine } from "./bench/machine.ts";
import {
  type BenchService,
  KEY_HEADERS,
  numberedAddress,
  startBenchService,
  startBlocklessNode,
  temporaryFolder,
} from "./bench/service.ts";

const CHAIN_ID = 1;
const [COLLECTIONS, TOKENS] = [200, 10_000];
const REPEATS = 200;

const node = startBlocklessNode();

interface Page {
  readonly result: readonly { readonly token_address: string }[];
  readonly cursor: string | null;
}

async function timed(service: BenchService, path: string): Promise<{ ms: number; page: Page; covered: string | null }> {
  const started = performance.now();
  const response = await fetch(`${service.base}${path}`, { headers: KEY_HEADERS });
  const page = (await response.json()) as Page;
  const ms = performance.now() - started;
  if (!response.ok) throw new Error(`${path}: ${response.status} ${JSON.stringify(page)}`);
  return { ms, page, covered: response.headers.get("x-covered") };
}

const percentile = (list: readonly number[], share: number): number =>
  list.toSorted((a, b) => a - b)[Math.floor((list.length - 1) * share)] ?? Number.NaN;

/** Asks a service for a wallet, and for another one as often as needed. */
async function row(logUrl: string, name: string, wallet: string, { isHot }: { isHot: boolean }): Promise<string> {
  const env = { CACHE_MB: "1024", SNAPSHOT_DIR: "off", OPERATOR_KEYS: "operator-key-0123456789" };
  const service = await startBenchService({ rpcUrl: `http://127.0.0.1:${node.port}`, logUrl, env });
  try {
    const warmed = Array.from({ length: isHot ? COLLECTIONS : 0 }, (_, index) => index);
    for (const index of warmed) await timed(service, `/api/v2/nft/${numberedAddress(index)}?limit=1`);
    const memory = async () => {
      const response = await fetch(`${service.base}/api/status`, { headers: { "x-api-key": env.OPERATOR_KEYS } });
      return ((await response.json()) as { memory: { collections: number } }).memory.collections;
    };
    const before = isHot ? await memory() : Number.NaN;
    const path = `/api/v2/${wallet}/nft?limit=100`;
    const first = await timed(service, path);
    const bytes = (await memory()) - before;
    const later: number[] = [];
    for (let repeat = 0; repeat < REPEATS; repeat++) later.push((await timed(service, path)).ms);
    const collections = new Set(first.page.result.map(({ token_address }) => token_address)).size;
    const mib = isHot ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : "–";
    const ms = (value: number) => `${value.toFixed(1)} ms`;
    return `| ${name} | ${first.page.result.length} in ${collections} | ${first.covered} | ${ms(first.ms)} | ${ms(percentile(later, 0.5))} | ${ms(percentile(later, 0.99))} | ${mib} |`;
  } finally {
    await service.stop();
  }
}

const folder = temporaryFolder();
try {
  const log = await openLog(folder.logUrl, systemClock, silentLogger);
  for (let index = 0; index < COLLECTIONS; index++) {
    const common = { kind: TransferKind.erc721, tokens: TOKENS, moves: 1, people: 0.5 };
    await fill(log, { chainId: CHAIN_ID, address: numberedAddress(index), ...common });
  }
  await log.close();
  console.log(`${COLLECTIONS} collections of ${TOKENS} tokens, ${machine()}\n`);
  console.log("| Wallet | NFTs on the page | x-covered | First answer | Later, p50 | p99 | Memory of the index |");
  console.log("| --- | --- | --- | --- | --- | --- | --- |");
  const holders = [
    ["nothing, collections in memory", personAddress(9_999_999), true],
    ["the busiest holder, collections in memory", personAddress(1), true],
    ["a former holder in each, collections in memory", personAddress(4_900), true],
    ["a former holder in each, collections not in memory", personAddress(4_900), false],
    ["nothing, collections not in memory", personAddress(9_999_999), false],
  ] as const;
  for (const [name, wallet, isHot] of holders) console.log(await row(folder.logUrl, name, wallet, { isHot }));
} finally {
  folder.remove();
  await node.stop(true);
}
