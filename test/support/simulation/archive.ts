/**
 * An archive of the simulated chain, which a process asks through the port: it lags, breaks off, vanishes and lies. Its
 * answers go through the decoder of a real one. It tells only lies that some rung of the proof promises to find.
 */
import { createRandom, type Random } from "../../../scripts/local-chain/random.ts";
import type { BlockRef } from "../../../src/events/types.ts";
import { ArchiveError, type HistorySource, type LogsPart, type TransfersPart } from "../../../src/rpc/archive/port.ts";
import { unwrapReply } from "../../../src/rpc/decode/decode-pool.ts";
import { decodePortal } from "../../../src/rpc/decode/portal.ts";
import type { ArchivedRange, TransferFilter } from "../../../src/rpc/port.ts";
import { RpcError } from "../../../src/rpc/rpc-errors.ts";
import { logsBloomOf } from "../bloom.ts";
import type { SimBlock, SimLog } from "./chain.ts";
import type { EndpointWorld } from "./endpoint.ts";
import type { Fault } from "./fault-kinds.ts";
import type { ProcessClock } from "./scheduler.ts";

export interface ArchiveWorld extends EndpointWorld {
  /** True if the nodes' receipts are honest, and each block with a log is compared with them. */
  readonly provesEachBlock: boolean;
  /** True if the nodes' receipts are honest, and blocks whose headers prove nothing are compared with them. */
  readonly provesForks: boolean;
  /** The first block whose header doesn't make its hash, although older ones do. */
  readonly hashFork: number | undefined;
}

/** Probabilities of one answer. */
const [LAG, GONE, BREAK, LIE] = [0.1, 0.03, 0.1, 0.15] as const;
const MOST_BLOCKS = 40;

export class SimArchive implements HistorySource {
  readonly label = "archive eth#1";
  readonly #world: ArchiveWorld;
  readonly #clock: ProcessClock;
  /** Draws of its own, so that the other faults of a seed stay what they are. */
  readonly #random: Random;

  constructor(world: ArchiveWorld, clock: ProcessClock, seed: number) {
    this.#world = world;
    this.#clock = clock;
    this.#random = createRandom(seed);
  }

  #strikes(fault: Fault, chance: number): boolean {
    if (!this.#world.isHostile || this.#random.below(1_000) >= chance * 1_000) return false;
    this.#world.faults.hit(fault);
    return true;
  }

  async head(): Promise<BlockRef> {
    await this.#clock.sleep(5 + this.#random.below(50));
    if (this.#strikes("archive gone", GONE)) throw new ArchiveError("give up", "the archive answered 404");
    const { canonical, finalizedNumber } = this.#world.chain;
    const lag = this.#strikes("archive lags", LAG) ? this.#random.below(30) : 0;
    const { number, hash } = canonical[Math.max(0, finalizedNumber - lag)] as SimBlock;
    return { number, hash };
  }

  async *transfers(filter: TransferFilter, signal: AbortSignal): AsyncGenerator<TransfersPart> {
    for (let fromBlock = filter.fromBlock; fromBlock <= filter.toBlock; ) {
      const tookMs = 5 + this.#random.below(80);
      await this.#clock.sleep(tookMs);
      signal.throwIfAborted();
      if (this.#strikes("archive breaks off", BREAK)) throw new ArchiveError("retry", "the archive answered 500");
      const toBlock = Math.min(filter.toBlock, fromBlock + this.#random.below(MOST_BLOCKS));
      const raw = Buffer.from(this.#told(this.#world.chain.canonical.slice(fromBlock, toBlock + 1), filter));
      try {
        const range = unwrapReply(decodePortal({ ...filter, fromBlock, id: 1, raw }), {}) as ArchivedRange;
        yield { fromBlock, toBlock: range.coveredThrough, tookMs, decoded: range, touched: range.touched };
        fromBlock = range.coveredThrough + 1;
      } catch (error) {
        if (!(error instanceof RpcError)) throw error;
        throw new ArchiveError(error.kind === "lie" ? "distrust" : "retry", error.message);
      }
    }
  }

  // biome-ignore lint/correctness/useYield: nothing in a world reads logs from an archive
  async *logs(): AsyncGenerator<LogsPart> {
    throw new ArchiveError("give up", "the archive answered 404");
  }

  /** The lines of an answer, true or false. */
  #told(blocks: readonly SimBlock[], { address }: TransferFilter): string {
    const isOfOther = this.#strikes("archive on another branch", LIE / 3);
    const lines = blocks.flatMap((block, at) => {
      const { number, parentHash, timestamp, fields } = block;
      const hash = isOfOther ? `0x${"b".repeat(64)}` : block.hash;
      const own = block.logs.map((log, logIndex) => ({ ...log, logIndex })).filter((log) => log.address === address);
      const isBorder = at === 0 || at === blocks.length - 1;
      if (own.length === 0 && !isBorder) return [];
      const told = [...this.#lied(own, block.logsBloom), ...this.#pairAfter(own, number)];
      const logs = told.map(({ topics, data, logIndex }) => ({
        ...{ address, topics, data, logIndex, transactionIndex: 0, transactionHash: block.hash },
      }));
      // A header that nothing ties to its hash can have any bloom.
      const isForged = told.length > own.length;
      const logsBloom = isForged ? logsBloomOf([...block.logs, ...logs]) : block.logsBloom;
      return [JSON.stringify({ header: { ...fields, number, hash, parentHash, timestamp, logsBloom }, logs })];
    });
    return lines.map((line) => `${line}\n`).join("");
  }

  /** A transfer and its return, of a token that the block moves: the owners don't show it, and its header proves nothing. */
  #pairAfter<T extends SimLog & { logIndex: number }>(logs: readonly T[], block: number): T[] {
    const last = logs.at(-1);
    const mayForge = this.#world.provesForks && block >= (this.#world.hashFork ?? Number.POSITIVE_INFINITY);
    if (!mayForge || last?.topics.length !== 4) return [];
    if (!this.#strikes("archive forges a log and its return", LIE)) return [];
    const [transfer, , owner, id] = last.topics as [SimLog["topics"][number], ...SimLog["topics"]];
    const other = `0x${"5".padStart(64, "0")}` as SimLog["topics"][number];
    const forged = (from: typeof other, to: typeof other, after: number): T => ({
      ...last,
      topics: [transfer, from, to, id as typeof other],
      logIndex: last.logIndex + after,
    });
    return [forged(owner as typeof other, other, 1), forged(other, owner as typeof other, 2)];
  }

  #lied<T extends SimLog>(logs: readonly T[], bloom: string): readonly T[] {
    const [first] = logs;
    if (first === undefined) return logs;
    const stranger = `0x${"7".repeat(64)}` as SimLog["topics"][number];
    const forged = { ...first, topics: [...first.topics.slice(0, -1), stranger] };
    const isOutside = (BigInt(logsBloomOf([forged])) | BigInt(bloom)) !== BigInt(bloom);
    if (isOutside && this.#strikes("archive forges a log", LIE)) return [forged, ...logs.slice(1)];
    const mayOmit = this.#world.provesEachBlock && logs.length > 1;
    return mayOmit && this.#strikes("archive leaves out a log", LIE) ? logs.slice(1) : logs;
  }
}
