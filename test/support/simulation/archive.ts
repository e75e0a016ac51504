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
      await this.#clock.sleep(5 + this.#random.below(80));
      signal.throwIfAborted();
      if (this.#strikes("archive breaks off", BREAK)) throw new ArchiveError("retry", "the archive answered 500");
      const toBlock = Math.min(filter.toBlock, fromBlock + this.#random.below(MOST_BLOCKS));
      const raw = Buffer.from(this.#told(this.#world.chain.canonical.slice(fromBlock, toBlock + 1), filter));
      try {
        const range = unwrapReply(decodePortal({ ...filter, fromBlock, id: 1, raw }), {}) as ArchivedRange;
        yield { fromBlock, toBlock: range.coveredThrough, decoded: range, touched: range.touched };
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
      const { number, parentHash, timestamp, logsBloom } = block;
      const hash = isOfOther ? `0x${"b".repeat(64)}` : block.hash;
      const own = block.logs.map((log, logIndex) => ({ ...log, logIndex })).filter((log) => log.address === address);
      const isBorder = at === 0 || at === blocks.length - 1;
      if (own.length === 0 && !isBorder) return [];
      const logs = this.#lied(own, logsBloom).map(({ topics, data, logIndex }) => ({
        ...{ address, topics, data, logIndex, transactionIndex: 0, transactionHash: block.hash },
      }));
      return [JSON.stringify({ header: { number, hash, parentHash, timestamp, logsBloom }, logs })];
    });
    return lines.map((line) => `${line}\n`).join("");
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
