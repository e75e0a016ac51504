/**
 * The two queues of slow requests: those that read a whole collection in memory, and those that wait for a node. Apart,
 * so that a slow node delays no reading of memory. Keys share each of them fairly.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import { FairSlots, SingleFlight } from "../../core/work.ts";
import { type HolderRanking, rankHolders } from "../exports/holders.ts";
import { currentCollection, type WalkSource } from "../walks/snapshot.ts";
import { listingName, type StartedWalk } from "../walks/walk.ts";
import { TraitIndexes } from "./traits.ts";

/** Work of one key that waits. At a tenth of a second each, the last one starts after a few seconds. */
const MAX_WAITING = 32;

const readings = (places: number, work: string) =>
  new FairSlots({ places, perKey: 2, forOperators: 1, maxWaiting: MAX_WAITING, retryAfter: 2, work });

/** Memory for rankings. */
const MAX_BYTES = 64 << 20;
/** Rankings of holders, kept for a while: the pages of one walk need the same one, and making it reads all pairs. */
class Rankings {
  readonly #kept = new LRUCache<string, HolderRanking>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ bytes }) => 1 + bytes,
  });
  readonly #making = new SingleFlight<string, HolderRanking>();

  /** Returns the ranking at the block of a walk. @throws Refusal `cursor_reorged` if the block is lost meanwhile */
  async of(source: WalkSource, start: StartedWalk): Promise<HolderRanking> {
    const collection = await currentCollection(source, start.walk);
    const key = `${source.chainId}/${source.address}/${listingName(collection, start)}`;
    const known = this.#kept.get(key);
    if (known !== undefined) return known;
    return this.#making.run(key, async () => {
      const ranking = await rankHolders(source, start);
      this.#kept.set(key, ranking);
      return ranking;
    });
  }
}

/** What the requests of a process share. */
export class Explorer {
  /** Each reading takes slices of the thread that serves requests, so more of them at once would only take turns. */
  readonly memory = readings(4, "readings of whole collections");
  /** Each reading is up to 64 requests for logs. A public node bears about a hundred of them at once. */
  readonly node = readings(5, "readings of the node");
  readonly rankings = new Rankings();
  readonly traits: TraitIndexes;

  /** @param traitBytes memory for indexes of traits */
  constructor(clock: Clock, traitBytes: number) {
    this.traits = new TraitIndexes(clock, traitBytes);
  }
}
