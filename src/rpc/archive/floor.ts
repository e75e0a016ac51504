/**
 * The floor of an archive's progress: the blocks per second and per part below which it is slower than the node, or costs
 * the node more than it saves. Also how long an archive rests after a failure. Pure.
 */
import type { BlockRange } from "../../events/types.ts";
import { ArchiveError } from "./port.ts";

/** An answer, as far as progress is concerned. */
interface ReadProgress extends BlockRange {
  readonly tookMs: number;
  /** Logs or transfers that it holds. */
  readonly lines: number;
}

/** A node that takes ten blocks per request reads so many in a second with ten requests. */
const BLOCKS_PER_SECOND = 100;
/** Requests of the node that a part must save: its proof takes one for its last block, and one for receipts. */
const SAVED_REQUESTS = 2;
/** Blocks per request of a node whose limit is not known, and most blocks that count as one request. */
const [USUAL_BLOCKS, MOST_BLOCKS] = [10, 250];
/** Lines that count like a block: where logs are dense, 16 MB hold few blocks, and the node's answers fewer. */
const LINES_PER_BLOCK = 10;
/** Stretches over which progress is measured. A slow archive is left after two, within 20 s. */
const [STRETCH_MS, STRETCH_PARTS] = [10_000, 20];

interface MeasuredStretch {
  ms: number;
  parts: number;
  blocks: number;
}

export class ProgressFloor {
  readonly #label: string;
  readonly #toBlock: number;
  readonly #perPart: number;
  /** Time in ms that was spent below the floor; 0 until progress is too slow. */
  spentMs = 0;
  readonly #inTime: MeasuredStretch = { ms: 0, parts: 0, blocks: 0 };
  readonly #inParts: MeasuredStretch = { ms: 0, parts: 0, blocks: 0 };

  /** @param nodeBlocks most blocks that the node takes per request; null if no limit is known */
  constructor(label: string, { toBlock }: BlockRange, nodeBlocks: number | null) {
    this.#label = label;
    this.#toBlock = toBlock;
    this.#perPart = SAVED_REQUESTS * Math.min(nodeBlocks ?? USUAL_BLOCKS, MOST_BLOCKS);
  }

  /** Counts a part. Returns true if it ends a stretch that was fast enough. @throws ArchiveError `retry` if too slow */
  passed({ fromBlock, toBlock, tookMs, lines }: ReadProgress): boolean {
    // The last part may be small, and nothing follows it.
    if (toBlock >= this.#toBlock) return true;
    const blocks = toBlock - fromBlock + 1 + lines / LINES_PER_BLOCK;
    for (const stretch of [this.#inTime, this.#inParts]) {
      stretch.ms += tookMs;
      stretch.parts++;
      stretch.blocks += blocks;
    }
    const { ms, blocks: perTime } = this.#inTime;
    const seconds = ms / 1_000;
    const isTimed = ms >= STRETCH_MS;
    if (isTimed && perTime < BLOCKS_PER_SECOND * seconds) throw this.#tooSlow(ms, perTime / seconds, "second");
    const { ms: msOfParts, parts, blocks: perParts } = this.#inParts;
    const isCounted = parts >= STRETCH_PARTS;
    if (isCounted && perParts < this.#perPart * parts) throw this.#tooSlow(msOfParts, perParts / parts, "answer");
    if (isTimed) Object.assign(this.#inTime, { ms: 0, parts: 0, blocks: 0 });
    if (isCounted) Object.assign(this.#inParts, { ms: 0, parts: 0, blocks: 0 });
    return isTimed || isCounted;
  }

  #tooSlow(ms: number, blocks: number, unit: string): ArchiveError {
    this.spentMs = ms;
    const text = `the archive is too slow: about ${Math.round(blocks)} blocks per ${unit}`;
    return new ArchiveError("retry", text, { meta: { archive: this.#label } });
  }
}

/** The shortest rest after a failure. An outage of seconds then takes seconds from the archive, not the history. */
const REST_MS = 1_000;
/** A rest is at first so many times as long as the failed try, and at last: a hanging archive costs 2 % of the time. */
const [FIRST_SHARE, LAST_SHARE] = [4, 40];

/**
 * Returns how long in ms an archive rests: doubled after each failure in a row.
 * @param failures failures in a row, from 1
 * @param spentMs time that the failed try took
 * @param mostMs longest rest after a try that failed at once
 */
export function restMs(failures: number, spentMs: number, mostMs: number): number {
  const first = Math.max(REST_MS, spentMs * FIRST_SHARE);
  return Math.min(first * 2 ** (failures - 1), Math.max(mostMs, spentMs * LAST_SHARE));
}
