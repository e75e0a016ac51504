/**
 * Watches contracts that were no NFTs: a proxy may become one, and an ERC-404 may mint its first NFT after years. Looks
 * for NFT logs of all of them together, and requests a new identification of a contract that has one. Runs in the process
 * that follows the chain.
 */

import type { ChainWork } from "../../chain/consumer.ts";
import { countedCache } from "../../core/counted-cache.ts";
import type { Address } from "../../core/hex.ts";
import { nftStream, parseStream } from "../../events/types.ts";
import type { StreamHead } from "../../log/event-log.ts";
import type { BlockHeader } from "../../rpc/port.ts";
import { MAX_ADDRESSES } from "../../rpc/reading/block-logs.ts";
import { fromHeadline, toHeadline } from "../collections/headline.ts";
import { requesterOf, requestIdentification } from "../collections/requests.ts";
import { nextLogs, resumedSearch } from "./identify.ts";

/** Most contracts: five filters a minute, 7,200 a day, and a megabyte. More are identified again only on request. */
const MAX_WATCHED = 5 * MAX_ADDRESSES;
/** Wait between two rounds. At the slow pace only each tenth round asks the node. */
const ROUND_MS = 60_000;
const SLOW_ROUNDS = 10;
/** Wait between two writes of the blocks that were read: what a restart reads again. */
const SAVE_MS = 6 * 3_600_000;

type WatchedOptions = Pick<ChainWork, "chain" | "log" | "reader" | "clock" | "logger">;

/** Another process follows the chain; nothing on it is followed; something is. */
type ReadingPace = "none" | "slow" | "full";

interface WatchedContract {
  /** Version of the stream that says that the contract is no NFT. */
  readonly version: number;
  /** First block to read, and what the log has of it. */
  next: number;
  saved: number;
}

export class WatchedContracts {
  readonly #options: WatchedOptions;
  readonly #watched = countedCache<Address, WatchedContract>(MAX_WATCHED);
  #savedMs: number;

  constructor(options: WatchedOptions) {
    this.#options = options;
    this.#savedMs = options.clock.monotonic();
  }

  /** Watches the contract of a stream, or no longer, as its headline says. */
  offer({ stream, version, headline }: StreamHead): void {
    const parsed = parseStream(stream);
    if (parsed.kind !== "nft") return;
    const { status, searched, target } = fromHeadline(headline);
    const last = searched ?? target;
    if (status !== "not_nft" || last === null) {
      this.#watched.delete(parsed.address);
      return;
    }
    const next = Math.max(last + 1, this.#watched.peek(parsed.address)?.next ?? 0);
    this.#watched.set(parsed.address, { version, next, saved: last + 1 });
  }

  /** Watches until the signal aborts. */
  async run(paceOf: () => ReadingPace, signal: AbortSignal): Promise<void> {
    const { clock, logger, chain } = this.#options;
    for (let round = 1; !signal.aborted; round++) {
      await clock.sleep(ROUND_MS, signal).catch(() => undefined);
      const pace = paceOf();
      const isDue = pace === "full" || (pace === "slow" && round % SLOW_ROUNDS === 0);
      if (signal.aborted || !isDue || this.#watched.size === 0) continue;
      try {
        await this.#round(signal);
        if (clock.monotonic() >= this.#savedMs + SAVE_MS) await this.#save();
      } catch (error) {
        // The next round reads the same blocks.
        logger.debug({ err: error, chain: chain.name }, "a round over the watched contracts failed");
      }
    }
  }

  async #round(signal: AbortSignal): Promise<void> {
    const { head, finalized } = await this.#options.reader.tips();
    // Contracts that were read up to the same block share a filter.
    const addresses = [...this.#watched.entries()].sort(([, a], [, b]) => a.next - b.next).map(([address]) => address);
    for (let at = 0; at < addresses.length; at += MAX_ADDRESSES) {
      await this.#read(addresses.slice(at, at + MAX_ADDRESSES), { head, final: finalized.number }, signal);
    }
  }

  /** Reads up to the head. Blocks above the final one are read again in the next round: a reorg may replace them. */
  async #read(
    addresses: readonly Address[],
    { head, final }: { readonly head: BlockHeader; readonly final: number },
    signal: AbortSignal,
  ): Promise<void> {
    const search = resumedSearch(this.#options.reader);
    let left = addresses;
    let from = Math.min(...left.map((address) => this.#watched.peek(address)?.next ?? head.number));
    while (from <= head.number && left.length > 0) {
      signal.throwIfAborted();
      const range = { addresses: left, fromBlock: from, toBlock: head.number, onlyCertain: true, head, final };
      const { logs, toBlock } = await nextLogs(search, range, signal);
      for (const address of new Set(logs.map((log) => log.address))) await this.#found(address);
      left = left.filter((address) => this.#watched.has(address));
      from = toBlock + 1;
      for (const address of left) {
        const watched = this.#watched.peek(address);
        if (watched !== undefined) watched.next = Math.max(watched.next, Math.min(from, final + 1));
      }
    }
  }

  /** Requests the identification of a contract with an NFT log. It reads the chain anew, so a reorg does no harm. */
  async #found(address: Address): Promise<void> {
    const { log, chain, clock, logger } = this.#options;
    const watched = this.#watched.peek(address);
    if (watched === undefined) return;
    logger.info({ chain: chain.name, address }, "a contract that was no NFT has an NFT log");
    const { headline } = await log.head(nftStream(chain.chainId, address));
    const contract = { chainId: chain.chainId, address };
    await requestIdentification({ log, clock }, contract, watched.version, requesterOf(fromHeadline(headline)));
    this.#watched.delete(address);
  }

  /** Writes how far the contracts were read to their headlines. */
  async #save(): Promise<void> {
    const { log, chain, clock } = this.#options;
    const moved = [...this.#watched.entries()].filter(([, { next, saved }]) => next > saved);
    for (let at = 0; at < moved.length; at += MAX_ADDRESSES) {
      const some = new Map(
        moved.slice(at, at + MAX_ADDRESSES).map(([address, one]) => [nftStream(chain.chainId, address), one]),
      );
      for (const { stream, version, headline } of await log.heads([...some.keys()])) {
        const watched = some.get(stream);
        if (watched?.version !== version) continue;
        const read = { ...fromHeadline(headline), searched: watched.next - 1 };
        await log.replaceHeadline({ stream, version, headline: toHeadline(read) });
        watched.saved = watched.next;
      }
    }
    this.#savedMs = clock.monotonic();
  }
}
