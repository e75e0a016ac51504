/** Collections whose author made them to be expensive: memory, and the longest stop of the thread that serves. */
import { readFileSync } from "node:fs";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { encodeTransfers, TransferKind } from "../../../src/events/columns.ts";
import { encodeTokens } from "../../../src/events/token-columns.ts";
import { metadataStream, type NftEvent, nftStream } from "../../../src/events/types.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { REQUESTED, toHeadline } from "../../../src/nft/collections/headline.ts";
import { RULES_VERSION } from "../../../src/nft/indexing/word-rules.ts";
import { storeText } from "../../../src/nft/metadata/outcome-documents.ts";
import { type Bench, grouped } from "../row.ts";
import { KEY_HEADERS, NO_NODE, startBenchService, temporaryFolder } from "../service.ts";

const CHAIN_ID = 1;
const ADDRESS = { traits: `0x${"a1".repeat(20)}`, history: `0x${"a2".repeat(20)}` } as const;
const [TOKENS, ATTRIBUTES] = [3_000, 1_000];
const MOVES = 1_000_000;
const PER_EVENT = 10_000;
const PER_BLOCK = 50;
const AT_ONCE = 50;
const MAX_STOP_MS = 50;
const NEVER_DUE = Date.parse("2100-01-01");

const hashOf = (block: number) => `0x${block.toString(16).padStart(64, "0")}` as Hash;

/** A range of transfers of ids between three accounts. */
function committed(count: number, first: number, fromBlock: number, idOf: (index: number) => number): NftEvent {
  const column = (value: (index: number) => number) => Uint32Array.from({ length: count }, (_, i) => value(first + i));
  const blocks = column((index) => Math.floor(index / PER_BLOCK));
  const isMint = (index: number) => idOf(index) === index;
  const transfers = encodeTransfers({
    count,
    addressCount: 3,
    addresses: Uint8Array.from({ length: 60 }, (_, i) => (i < 20 ? 0 : i < 40 ? 1 : 2)),
    kinds: new Uint8Array(count).fill(TransferKind.erc721),
    blocks,
    logIndexes: column((index) => index % PER_BLOCK),
    from: column((index) => (isMint(index) ? 0 : 1 + ((index + 1) % 2))),
    to: column((index) => (isMint(index) ? 1 : 1 + (index % 2))),
    ids: { words: 1, values: column(idOf) },
    amounts: { words: 1, values: column(() => 1) },
  });
  const toBlock = blocks[count - 1] as number;
  return { type: "TransfersCommitted", fromBlock, toBlock, toHash: hashOf(toBlock), count, transfers };
}

async function fillCollection(log: EventLog, address: Address, total: number, idOf: (index: number) => number) {
  const events: NftEvent[] = [
    { type: "IndexingRequested" },
    { type: "ContractIdentified", kind: "nft", forms: ["erc721"], name: "Bomb", symbol: "B", startBlock: 0, block: 0 },
  ];
  let fromBlock = 0;
  for (let done = 0; done < total; done += PER_EVENT) {
    const event = committed(Math.min(PER_EVENT, total - done), done, fromBlock, idOf);
    events.push(event);
    fromBlock = (event as { toBlock: number }).toBlock + 1;
  }
  const end = fromBlock - 1;
  events.push({ type: "IndexingCompleted", block: end, hash: hashOf(end) });
  const judged = { forms: ["erc721"] as const, rulesVersion: RULES_VERSION };
  const headline = toHeadline({ ...REQUESTED, ...judged, status: "following", end, endHash: hashOf(end) });
  await log.append({ stream: nftStream(CHAIN_ID, address), events, expectedVersion: 0, headline });
  return { end, version: events.length };
}

/** Gives each token a document with many attributes that no other token has. */
async function fillMetadata(log: EventLog, collection: number): Promise<void> {
  const tokens = [];
  for (let id = 0; id < TOKENS; id++) {
    const attributes = Array.from({ length: ATTRIBUTES }, (_, n) => ({ trait_type: `T${n}`, value: `${id} ${n}` }));
    const text = JSON.stringify({ name: `Bomb ${id}`, attributes });
    const { hash } = await storeText(log, { uri: `https://example.com/${id}`, text }, []);
    tokens.push({ kind: TransferKind.erc721, id: BigInt(id), hash });
  }
  const stream = metadataStream(CHAIN_ID, ADDRESS.traits as Address);
  const resolved = {
    type: "MetadataResolved",
    since: 0,
    count: TOKENS,
    bytes: 0,
    tokens: encodeTokens(tokens),
  } as const;
  const settled = { type: "MetadataSettled", collection, dueAt: NEVER_DUE } as const;
  const headline = { at: 2, collection, dueAt: NEVER_DUE, sampleAt: NEVER_DUE, sampleWait: 1 };
  await log.append({ stream, events: [resolved, settled], expectedVersion: 0, headline });
}

/** Resident bytes of a process, and its highest ones so far (Linux: proc_pid_status(5)). */
function residentMb(pid: number): { now: number; peak: number } {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) / 1_024;
  return { now: of("VmRSS"), peak: of("VmHWM") };
}

/** Asks for liveness without a pause while `work` runs. Resolves with the ms of the slowest answers. */
async function stops(base: string, work: () => Promise<unknown>): Promise<{ longest: number; ms: number }> {
  let [isOver, longest] = [false, 0];
  const asking = (async () => {
    while (!isOver) {
      const started = performance.now();
      await (await fetch(`${base}/health/live`)).arrayBuffer();
      longest = Math.max(longest, performance.now() - started);
    }
  })();
  const started = performance.now();
  await work();
  const ms = performance.now() - started;
  isOver = true;
  await asking;
  return { longest, ms };
}

export const bombs: Bench = {
  name: "bombs",
  measure: async () => {
    const folder = temporaryFolder();
    try {
      const log = await openLog(folder.logUrl, systemClock, silentLogger);
      const { version } = await fillCollection(log, ADDRESS.traits as Address, TOKENS, (index) => index);
      await fillMetadata(log, version);
      const { end } = await fillCollection(log, ADDRESS.history as Address, MOVES, () => 0);
      await log.close();
      const service = await startBenchService({
        rpcUrl: NO_NODE,
        logUrl: folder.logUrl,
        env: { MAX_PAGE_SIZE: "500" },
      });
      const get = async (path: string) => {
        const response = await fetch(`${service.base}/api/collections/eth/${path}`, { headers: KEY_HEADERS });
        // biome-ignore lint/suspicious/noExplicitAny: single fields of bodies
        return { status: response.status, body: (await response.json()) as any };
      };
      await get(`${ADDRESS.traits}/holders`);
      await get(`${ADDRESS.history}/holders`);
      const before = residentMb(service.pid).now;
      let answer = await get(`${ADDRESS.history}/tokens/0?limit=1`);
      const traits = await stops(service.base, async () => {
        for (let turn = 0; turn < 3; turn++) answer = await get(`${ADDRESS.traits}/traits`);
      });
      const memory = residentMb(service.pid);
      const path = `${ADDRESS.history}/tokens/0?limit=1&as_of_block=${Math.floor(end / 100)}`;
      const histories = await stops(service.base, () => Promise.all(Array.from({ length: AT_ONCE }, () => get(path))));
      await service.stop();
      const { of, indexed, truncated } = answer.body;
      return {
        name: `Traits of ${grouped(TOKENS)} tokens with ${grouped(ATTRIBUTES)} attributes each; ${AT_ONCE} old histories of a token that moved ${grouped(MOVES)} times`,
        floor: "–",
        ours: `traits ${traits.ms.toFixed(0)} ms for three, longest stop ${traits.longest.toFixed(0)} ms; histories ${histories.ms.toFixed(0)} ms, longest stop ${histories.longest.toFixed(0)} ms`,
        ratio: undefined,
        reach: `longest stop <= ${MAX_STOP_MS} ms`,
        passed: Math.max(traits.longest, histories.longest) <= MAX_STOP_MS && answer.status === 200,
        detail: `RSS ${before.toFixed(0)} MB before, ${memory.now.toFixed(0)} MB after, peak ${memory.peak.toFixed(0)} MB; indexed ${indexed} of ${of}, truncated: ${truncated === true}`,
      };
    } finally {
      folder.remove();
    }
  },
};
