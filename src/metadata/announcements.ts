/**
 * Reads the announcements of metadata changes from the logs of followed blocks: ERC-4906's `MetadataUpdate` and
 * `BatchMetadataUpdate`, ERC-1155's `URI`. Each becomes one outdated range of ids, however long. After a reorg the
 * ranges of reverted blocks are outdated once more, because metadata fetched since may be from the wrong branch.
 */
import { id as keccak } from "ethers";
import type { Address, Hash } from "../core/hex.ts";
import type { MetadataOutdated } from "../events/types.ts";
import type { BlockConsumer, FollowBatch } from "../indexer/consumer.ts";
import type { ChainLog } from "../rpc/port.ts";

const METADATA_UPDATE = keccak("MetadataUpdate(uint256)") as Hash;
const BATCH_METADATA_UPDATE = keccak("BatchMetadataUpdate(uint256,uint256)") as Hash;
const URI = keccak("URI(string,uint256)") as Hash;
/** Announcements kept for a reorg: more than the unfinalised blocks have. */
const MAX_REMEMBERED = 4_096;

export interface AnnouncementsOptions {
  /** Addresses of the followed collections. */
  readonly addresses: () => readonly Address[];
  readonly append: (address: Address, events: readonly MetadataOutdated[]) => Promise<void>;
}

interface Announced {
  readonly address: Address;
  readonly fromId: string;
  readonly toId: string;
  readonly block: number;
}

export class Announcements implements BlockConsumer {
  readonly name = "metadata";
  readonly topics: readonly Hash[] = [METADATA_UPDATE, BATCH_METADATA_UPDATE, URI];
  readonly #options: AnnouncementsOptions;
  #remembered: Announced[] = [];

  constructor(options: AnnouncementsOptions) {
    this.#options = options;
  }

  addresses(): readonly Address[] {
    return this.#options.addresses();
  }

  async apply({ logs }: FollowBatch): Promise<void> {
    const announced = logs.map(announcementOf).filter((one) => one !== undefined);
    await this.#append(announced, "announced");
    this.#remembered = [...this.#remembered, ...announced].slice(-MAX_REMEMBERED);
  }

  async revert(ancestor: { readonly number: number }): Promise<void> {
    const gone = this.#remembered.filter(({ block }) => block > ancestor.number);
    this.#remembered = this.#remembered.filter(({ block }) => block <= ancestor.number);
    await this.#append(
      gone.map((one) => ({ ...one, block: ancestor.number })),
      "reverted",
    );
  }

  async #append(announced: readonly Announced[], cause: MetadataOutdated["cause"]): Promise<void> {
    for (const [address, group] of Map.groupBy(announced, (one) => one.address)) {
      // Many announcements of one block become a single range. It may contain ids that were not announced.
      const ranges = group.length <= 16 ? group : [hullOf(group)];
      await this.#options.append(
        address,
        ranges.map(({ fromId, toId, block }) => ({ type: "MetadataOutdated", fromId, toId, cause, block })),
      );
    }
  }
}

function hullOf(group: readonly Announced[]): Announced {
  const [first, ...rest] = group as [Announced, ...Announced[]];
  let [from, to] = [BigInt(first.fromId), BigInt(first.toId)];
  for (const { fromId, toId } of rest) {
    if (BigInt(fromId) < from) from = BigInt(fromId);
    if (BigInt(toId) > to) to = BigInt(toId);
  }
  const block = Math.max(...group.map((one) => one.block));
  return { ...first, fromId: from.toString(), toId: to.toString(), block };
}

/** The ids that a log announces; undefined if its data don't fit its topic. */
function announcementOf({ address, topics, data, blockNumber: block }: ChainLog): Announced | undefined {
  const word = (index: number) => BigInt(`0x${data.slice(2 + index * 64, 66 + index * 64)}`);
  const words = (data.length - 2) / 64;
  const one = (id: bigint) => ({ address, fromId: id.toString(), toId: id.toString(), block });
  switch (topics[0]) {
    case METADATA_UPDATE:
      // Some contracts index the parameter, unlike the standard.
      if (topics[1] !== undefined) return one(BigInt(topics[1]));
      return words >= 1 ? one(word(0)) : undefined;
    case BATCH_METADATA_UPDATE: {
      const ids = [...topics.slice(1).map((topic) => BigInt(topic))];
      for (let i = 0; ids.length < 2 && i < Math.floor(words); i++) ids.push(word(i));
      const [from, to] = ids;
      if (from === undefined || to === undefined || from > to) return undefined;
      return { address, fromId: from.toString(), toId: to.toString(), block };
    }
    case URI:
      return topics[1] === undefined ? undefined : one(BigInt(topics[1]));
    default:
      return undefined;
  }
}
