/** Distributes the transfers of a synthetic collection over blocks. */
import { createRandom } from "../../local-chain/random.ts";
import type { CollectionOptions } from "./options.ts";

/** Most logs of one collection per block, so that their index keeps one width. */
export const MAX_PER_BLOCK = 256;
/** Share of a sparse history in its first days, and share of the blocks in those days. */
const BURST = 0.4;
const BURST_BLOCKS = 0.01;
/** Share in later busy spells, number of spells, and their length in blocks. */
const BUSY = 0.2;
const SPELLS = 20;
const SPELL_BLOCKS = 500;
/** The rest thins out by a factor of e after this share of the blocks. */
const DECAY = 0.3;

/** Offsets from the first block, in rising order. */
export function blocksOf({ transfers, layout }: Pick<CollectionOptions, "transfers" | "layout">): Uint32Array {
  const offsets = new Uint32Array(transfers);
  if ("perBlock" in layout) {
    for (let i = 0; i < transfers; i++) offsets[i] = Math.floor(i / layout.perBlock);
    return offsets;
  }
  const random = createRandom(7);
  const { overBlocks } = layout;
  const below = (bound: number) => random.below(Math.max(1, Math.floor(bound)));
  const spells = Array.from({ length: SPELLS }, () => below(overBlocks - SPELL_BLOCKS));
  for (let i = 0; i < transfers; i++) {
    const share = random.below(1_000) / 1_000;
    if (share < BURST) offsets[i] = below(overBlocks * BURST_BLOCKS);
    else if (share < BURST + BUSY) offsets[i] = random.pick(spells) + below(SPELL_BLOCKS);
    else {
      const thinned = -Math.log(1 - random.below(1_000_000) / 1_000_000) * DECAY * overBlocks;
      offsets[i] = thinned < overBlocks ? thinned : below(overBlocks);
    }
  }
  // The last transfer is in the last block, so that the history has the requested span.
  offsets[0] = 0;
  offsets[transfers - 1] = overBlocks - 1;
  offsets.sort();
  for (let i = MAX_PER_BLOCK; i < transfers; i++) {
    if (offsets[i] === offsets[i - MAX_PER_BLOCK]) throw new RangeError("a block of the layout is too full");
  }
  return offsets;
}
