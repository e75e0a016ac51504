/**
 * The announcements of metadata changes in the logs of followed blocks. In: logs of the chain. Out: ranges of outdated ids,
 * which the metadata worker fetches again.
 */
import type { ChainChange, ChainConsumer } from "../../chain/consumer.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { topicOf } from "../../core/keccak.ts";
import type { BlockRef, MetadataOutdated } from "../../events/types.ts";
import { CONTRACT_URI_UPDATED } from "../../rpc/decode/topics.ts";
import type { ChainLog } from "../../rpc/port.ts";
import { MAX_ID } from "./book.ts";
import { CONTRACT } from "./due-tokens.ts";

const METADATA_UPDATE = topicOf("MetadataUpdate(uint256)");
const BATCH_METADATA_UPDATE = topicOf("BatchMetadataUpdate(uint256,uint256)");
const URI_TOPIC = topicOf("URI(string,uint256)");
/** ERC-7496's announcements of traits on the chain, which a token's metadata may show. */
const TRAIT_UPDATED = topicOf("TraitUpdated(bytes32,uint256,bytes32)");
const TRAITS_OF_RANGE = [
  topicOf("TraitUpdatedRange(bytes32,uint256,uint256)"),
  topicOf("TraitUpdatedRangeUniformValue(bytes32,uint256,uint256,bytes32)"),
];
const TRAITS_OF_LIST = [
  topicOf("TraitUpdatedList(bytes32,uint256[])"),
  topicOf("TraitUpdatedListUniformValue(bytes32,uint256[],bytes32)"),
];
const TRAIT_DATA_UPDATED = topicOf("TraitMetadataURIUpdated()");
/** Most ids of a list that are told one by one; more become the range that holds them. */
const MAX_LISTED = 16;
/** Announcements kept for a reorg: more than the unfinalised blocks have. */
const MAX_REMEMBERED = 4_096;

interface AnnouncementsOptions {
  /** Addresses of the followed collections. */
  readonly addresses: () => readonly Address[];
  readonly append: (address: Address, events: readonly MetadataOutdated[]) => Promise<void>;
}

interface AnnouncedIds {
  readonly address: Address;
  /** Set if it is the document about the collection, not tokens. */
  readonly contract?: true;
  readonly from: bigint;
  readonly to: bigint;
  readonly block: number;
}

/**
 * Appends announcements of metadata changes in followed blocks to the metadata streams: ERC-4906's `MetadataUpdate` and
 * `BatchMetadataUpdate`, ERC-1155's `URI`, ERC-7496's updates of traits, and ERC-7572's `ContractURIUpdated`. Each
 * becomes one outdated range of ids, however long. After a reorg the ranges of reverted blocks are outdated once more,
 * because metadata fetched since may be from the wrong branch.
 */
export class Announcements implements ChainConsumer {
  readonly name = "metadata";
  readonly topics: readonly Hash[] = [
    ...[METADATA_UPDATE, BATCH_METADATA_UPDATE, URI_TOPIC, CONTRACT_URI_UPDATED],
    ...[TRAIT_UPDATED, ...TRAITS_OF_RANGE, ...TRAITS_OF_LIST, TRAIT_DATA_UPDATED],
  ];
  readonly #options: AnnouncementsOptions;
  #remembered: AnnouncedIds[] = [];

  constructor(options: AnnouncementsOptions) {
    this.#options = options;
  }

  addresses(): readonly Address[] {
    return this.#options.addresses();
  }

  async apply(change: ChainChange): Promise<void> {
    if (change.type === "reverted") return await this.#revert(change.ancestor);
    const announced = change.logs.flatMap((log) => announcementsOf(log) ?? []);
    await this.#append(announced, "announced");
    this.#remembered = [...this.#remembered, ...announced].slice(-MAX_REMEMBERED);
  }

  async #revert(ancestor: BlockRef): Promise<void> {
    const reverted = this.#remembered.filter(({ block }) => block > ancestor.number);
    this.#remembered = this.#remembered.filter(({ block }) => block <= ancestor.number);
    const outdated = reverted.map((range) => ({ ...range, block: ancestor.number }));
    await this.#append(outdated, "reverted");
  }

  async #append(announced: readonly AnnouncedIds[], cause: MetadataOutdated["cause"]): Promise<void> {
    for (const [address, group] of Map.groupBy(announced, (range) => range.address)) {
      const tokens = group.filter(({ contract }) => contract === undefined);
      // Many announcements of one block become a single range. It may contain ids that were not announced.
      const ranges = tokens.length <= MAX_LISTED ? tokens : [tokens.reduce(hullOf)];
      const own = group.filter(({ contract }) => contract !== undefined).slice(-1);
      const events = [...ranges, ...own].map(({ address: _, from, to, ...rest }): MetadataOutdated => {
        return { type: "MetadataOutdated", fromId: String(from), toId: String(to), cause, ...rest };
      });
      await this.#options.append(address, events);
    }
  }
}

/** The smallest range that contains both, at the later block. */
const hullOf = (a: AnnouncedIds, b: AnnouncedIds): AnnouncedIds => ({
  address: a.address,
  from: (a.from < b.from ? a : b).from,
  to: (a.to > b.to ? a : b).to,
  block: Math.max(a.block, b.block),
});

/** The ids that a log announces; undefined if its data don't fit its topic. */
function announcementsOf({
  address,
  topics,
  data,
  blockNumber: block,
}: ChainLog): AnnouncedIds | AnnouncedIds[] | undefined {
  const word = (index: number) => BigInt(`0x${data.slice(2 + index * 64, 66 + index * 64)}`);
  const words = (data.length - 2) / 64;
  const range = (from: bigint, to = from) => ({ address, from, to, block });
  switch (topics[0]) {
    case METADATA_UPDATE:
      // Some contracts index the parameter, unlike the standard.
      if (topics[1] !== undefined) return range(BigInt(topics[1]));
      return words >= 1 ? range(word(0)) : undefined;
    case BATCH_METADATA_UPDATE: {
      const ids = topics.slice(1).map((topic) => BigInt(topic));
      for (let i = 0; ids.length < 2 && i < Math.floor(words); i++) ids.push(word(i));
      const [from, to] = ids;
      return from === undefined || to === undefined || from > to ? undefined : range(from, to);
    }
    case URI_TOPIC:
      return topics[1] === undefined ? undefined : range(BigInt(topics[1]));
    case TRAIT_UPDATED:
      return words >= 1 ? range(word(0)) : undefined;
    case CONTRACT_URI_UPDATED:
      return { ...range(CONTRACT.id), contract: true };
    case TRAIT_DATA_UPDATED:
      return range(0n, MAX_ID);
    default:
  }
  const topic = topics[0] as Hash;
  if (TRAITS_OF_RANGE.includes(topic)) return words >= 2 && word(0) <= word(1) ? range(word(0), word(1)) : undefined;
  if (!TRAITS_OF_LIST.includes(topic) || words < 2 || word(0) % 32n !== 0n) return undefined;
  const start = Number(word(0) / 32n);
  const count = start < words ? word(start) : 0n;
  if (count > BigInt(Math.floor(words) - start - 1)) return undefined;
  const listed = Array.from({ length: Number(count) }, (_, index) => range(word(start + 1 + index)));
  return listed.length > MAX_LISTED ? listed.reduce(hullOf) : listed;
}
