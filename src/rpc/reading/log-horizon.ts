/**
 * From which block on an endpoint has logs. A node that has dropped old logs may refuse them, or answer with none at all,
 * although the headers' blooms name some. Blocks at the start of a reading are compared with their blooms, once for an
 * endpoint and all later blocks. What is missing is then a refusal like any other.
 */
import type { Clock } from "../../core/clock.ts";
import { quantity } from "../../core/hex.ts";
import type { BlockRange } from "../../events/types.ts";
import { mayHoldTopic } from "../decode/bloom.ts";
import { TRANSFER } from "../decode/transfer-topics.ts";
import type { BlockHeader, Endpoint } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import { settledThrough } from "./bloomed-blocks.ts";
import { headerFrom, newestHeaderOf } from "./headers.ts";

/** Blocks in a row among which some with a transfer by their bloom are looked for. */
const WINDOW = 8;
/** Blocks with a transfer by their bloom, and without one in the logs, that prove that logs were dropped. */
const HOLLOW = 3;
/** A node that is filled again is looked at anew after this time. */
const KNOWN_MS = 600_000;
/** The calls by which a range is looked at, if nothing is missing. */
export const LOOK_CALLS = { eth_getBlockByNumber: 4, eth_getLogs: 1 } as const;

interface KnownHorizon {
  /** The lowest block from which on logs were shown, or nothing contradicts that they are there. */
  readonly shown: number;
  /** The first block with logs, if older ones were dropped, and until when that is believed, on the monotonic clock. */
  readonly dropped?: { readonly before: number; readonly until: number };
}

/** True if the block has a transfer by its bloom: nearly each block of a busy chain has one. */
const hasTransfer = (header: BlockHeader | undefined): header is BlockHeader =>
  header !== undefined && mayHoldTopic(header.logsBloom, TRANSFER);

const numbersFrom = (first: number, count: number): number[] => Array.from({ length: count }, (_, at) => first + at);
const headersOf = (endpoint: Endpoint, numbers: readonly number[]) =>
  Promise.all(numbers.map((number) => headerFrom(endpoint, number)));

export class LogHorizon {
  readonly #clock: Clock;
  readonly #known = new Map<Endpoint, KnownHorizon>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** True if `assertHas` needs no call for the block. */
  isKnown(endpoint: Endpoint, block: number): boolean {
    return block >= (this.#known.get(endpoint)?.shown ?? Number.POSITIVE_INFINITY);
  }

  /** Like `assertHas`, by what is known already. */
  assertNotDropped(endpoint: Endpoint, block: number): void {
    const dropped = this.#known.get(endpoint)?.dropped;
    if (dropped === undefined || this.#clock.monotonic() >= dropped.until || block >= dropped.before) return;
    throw droppedLogs(endpoint, dropped.before);
  }

  /**
   * Asserts that the endpoint has the logs of a range and of all later blocks.
   * @throws RpcError of kind `state_unavailable` if it has dropped them
   */
  async assertHas(endpoint: Endpoint, { fromBlock, toBlock }: BlockRange): Promise<void> {
    this.assertNotDropped(endpoint, fromBlock);
    if (this.isKnown(endpoint, fromBlock)) return;
    let before: number | undefined;
    try {
      before = await this.#droppedBefore(endpoint, { fromBlock, toBlock });
    } catch (error) {
      // The range itself was read. That it can't be looked at says nothing about it; the next reading tries again.
      if (error instanceof RpcError) return;
      throw error;
    }
    if (before !== undefined) {
      this.#known.set(endpoint, { shown: before, dropped: { before, until: this.#clock.monotonic() + KNOWN_MS } });
      throw droppedLogs(endpoint, before);
    }
    const { shown = fromBlock } = this.#known.get(endpoint) ?? {};
    this.#known.set(endpoint, { shown: Math.min(shown, fromBlock) });
  }

  async #droppedBefore(endpoint: Endpoint, { fromBlock, toBlock }: BlockRange): Promise<number | undefined> {
    const places = [fromBlock, fromBlock + 1, Math.floor((fromBlock + toBlock) / 2), toBlock];
    const looked = await headersOf(
      endpoint,
      [...new Set(places)].filter((number) => number <= toBlock),
    );
    const first = looked.find(hasTransfer);
    if (first === undefined || !(await isHollow(endpoint, first))) return undefined;
    return firstWithLogs(endpoint, first.number);
  }
}

/** The refusal of blocks whose logs an endpoint has dropped. */
const droppedLogs = (endpoint: Endpoint, block: number): RpcError =>
  new RpcError("state_unavailable", `the endpoint has no logs before block ${block}, although headers name some`, {
    meta: { endpoint: endpoint.label, method: "eth_getLogs", block },
  });

/**
 * True if the blocks from this one on have transfers by their blooms and none in the logs: as many as prove it, since a
 * bloom may have the topic's bits from others.
 */
async function isHollow(endpoint: Endpoint, header: BlockHeader): Promise<boolean> {
  if (await hasLogs(endpoint, header)) return false;
  const next = await headersOf(endpoint, numbersFrom(header.number + 1, WINDOW - 1));
  const others = next.filter(hasTransfer).slice(0, HOLLOW - 1);
  for (const other of others) if (await hasLogs(endpoint, other)) return false;
  // A full bloom names transfers that were never there. That it names something is sure.
  return others.length === HOLLOW - 1 && !(await hasLogs(endpoint, header, []));
}

/**
 * True if the endpoint has a transfer in the blocks that the header's bloom is of, or too many for one answer.
 * @param topics the topics that count as a transfer; none for any log
 */
async function hasLogs(
  endpoint: Endpoint,
  header: BlockHeader,
  topics: readonly (readonly string[])[] = [[TRANSFER]],
): Promise<boolean> {
  let [from, to] = [header.number, header.number];
  if (header.settledHeight !== undefined) {
    const parent = await headerFrom(endpoint, header.number - 1);
    if (parent === undefined) return true;
    [from, to] = [settledThrough(parent) + 1, header.settledHeight];
  }
  try {
    const filter = { fromBlock: quantity(from), toBlock: quantity(to), topics };
    const logs = await endpoint.request("eth_getLogs", [filter]);
    return !Array.isArray(logs) || logs.length > 0;
  } catch (error) {
    if (error instanceof RpcError && error.kind === "range") return true;
    throw error;
  }
}

/** Searches for the first block of which the endpoint has logs, above one of which it has none: a hundred calls. */
async function firstWithLogs(endpoint: Endpoint, hollow: number): Promise<number> {
  let [dropped, has] = [hollow, (await newestHeaderOf(endpoint)).number];
  while (has - dropped > 1) {
    const middle = Math.floor((dropped + has) / 2);
    const headers = await headersOf(endpoint, numbersFrom(middle, Math.min(WINDOW, has - middle)));
    const header = headers.find(hasTransfer);
    // Blocks without a transfer tell nothing, and are as good as those above them.
    if (header === undefined || (await hasLogs(endpoint, header))) has = middle;
    else dropped = header.number;
  }
  return has;
}
