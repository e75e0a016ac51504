/**
 * Headers of blocks: reads and checks them, finds the newest and the newest final block, and finds the endpoints that
 * are behind.
 */

import type { Clock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import { quantity } from "../../core/hex.ts";
import { singleFlight } from "../../core/work.ts";
import type { BlockRef, HeaderRef } from "../../events/types.ts";
import { parseHeader } from "../decode/header.ts";
import type { EndpointPool } from "../endpoint/endpoint-pool.ts";
import type { BlockHeader, Endpoint, Tips } from "../port.ts";
import { asOptional, isUnknownRefusal, RpcError } from "../rpc-errors.ts";

/** Returns the newest block of this endpoint. @throws RpcError, of kind `transient` if the endpoint shows none */
export async function newestHeaderOf(endpoint: Endpoint): Promise<BlockHeader> {
  const header = await headerFrom(endpoint, "latest");
  if (header !== undefined) return header;
  throw new RpcError("transient", "the endpoint has no newest block", { meta: { endpoint: endpoint.label } });
}

/** Returns this endpoint's header of a block. Undefined above its head. @throws RpcError */
export async function headerFrom(
  endpoint: Endpoint,
  block: number | "latest" | "finalized",
): Promise<BlockHeader | undefined> {
  const tag = typeof block === "number" ? quantity(block) : block;
  return parseHeader(await endpoint.request("eth_getBlockByNumber", [tag, false]), block, endpoint.label);
}

/** Attempts per URL for data that it must have. Several nodes may be behind the URL, and some of them may lag. */
const TRIES = 6;
/** Times that an endpoint's head is asked for, to find a node of it that lags, beside the one that refused. */
const HEAD_TRIES = 2;

/**
 * Repeats a request, without a wait, until its answer is not undefined. The next answer may come from another node
 * behind the same URL. @throws RpcError
 */
export async function fromAnyNode<T>(ask: () => Promise<T | undefined>, tries = TRIES): Promise<T | undefined> {
  for (let tried = 1; ; tried++) {
    const answer = await ask();
    if (answer !== undefined || tried === tries) return answer;
  }
}

/**
 * Asks an endpoint again for logs that it refused, and for its head in the same batch: several nodes may be behind its URL,
 * and one node answers a batch. An endpoint may not take batches, so the head is asked for a few times more.
 * @param ask requests the logs up to `block`
 * @returns their answer, if they are not refused again
 * @throws RpcError `transient` if one of the nodes has not reached the block; the refusal otherwise
 */
export async function askReached<T>(endpoint: Endpoint, block: number, ask: () => Promise<T>): Promise<T> {
  const [again, head] = await Promise.allSettled([ask(), newestHeaderOf(endpoint)]);
  if (again.status === "fulfilled") return again.value;
  if (head.status === "rejected") throw head.reason;
  const isBehind = ({ number }: BlockHeader) => (number < block ? number : undefined);
  const behind =
    isBehind(head.value) ?? (await fromAnyNode(async () => isBehind(await newestHeaderOf(endpoint)), HEAD_TRIES));
  if (behind === undefined) throw again.reason;
  throw new RpcError(
    "transient",
    `the endpoint is behind: it refuses logs of block ${block}, and its head is ${behind}`,
    {
      meta: { endpoint: endpoint.label, block },
    },
  );
}

/** The error of an endpoint that lacks a block below its head: it is behind, or it lost the block. */
export function missingBlock(block: number, endpoint?: Endpoint): RpcError {
  const meta = { ...(endpoint === undefined ? {} : { endpoint: endpoint.label }), block };
  return new RpcError("transient", "the endpoint lacks a block below its head", { meta });
}

/** Blocks looked at on each side of a missing one. */
const NEIGHBOURS = 12;

/**
 * Two neighbours by parent hash whose numbers are not neighbours, among these headers of one endpoint. That is proof: a
 * backend that lags, or another branch, may lack a block, but no block's parent then has another number.
 */
export function skipIn(
  headers: readonly (BlockHeader | undefined)[],
): { readonly parent: number; readonly child: number } | undefined {
  const numbers = new Map(headers.flatMap((header) => (header === undefined ? [] : [[header.hash, header.number]])));
  for (const header of headers) {
    if (header === undefined) continue;
    const parent = numbers.get(header.parentHash);
    if (parent !== undefined && parent !== header.number - 1) return { parent, child: header.number };
  }
  return undefined;
}

/** What is wrong with a chain that skips numbers, in words. */
export const skipText = ({ parent, child }: { readonly parent: number; readonly child: number }): string =>
  `the chain skips block numbers: the parent of block ${child} is block ${parent}. Chains with null rounds, such as ` +
  "Filecoin, are not served";

/** Reads headers of this endpoint that it may lack or refuse. */
export async function someHeadersOf(
  endpoint: Endpoint,
  numbers: readonly number[],
): Promise<(BlockHeader | undefined)[]> {
  const answers = await Promise.allSettled(numbers.map((number) => headerFrom(endpoint, number)));
  return answers.map((one) => (one.status === "fulfilled" ? one.value : undefined));
}

/**
 * Returns the error of an endpoint whose chain has no block of this number, although it goes on above: the chain skips
 * numbers, or the endpoint has pruned its old blocks and answers with none.
 */
export async function absentBlock(endpoint: Endpoint, number: number): Promise<RpcError | undefined> {
  const least = Math.max(0, number - NEIGHBOURS);
  const around = Array.from({ length: number + NEIGHBOURS - least + 1 }, (_, at) => least + at);
  const headers = await someHeadersOf(endpoint, around);
  const skip = skipIn(headers);
  if (skip === undefined) {
    const isPruned = headers.slice(0, number - least + 1).every((header) => header === undefined);
    return isPruned ? prunedBelowHead(endpoint, number, "eth_getBlockByNumber") : undefined;
  }
  return new RpcError("lie", skipText(skip), { meta: { endpoint: endpoint.label, block: number, skipsNumbers: true } });
}

/** Blocks below an endpoint's head from which on a null is no lag: a node that is behind lacks its newest blocks only. */
const OLD_BLOCKS = 128;

/** Returns the refusal of an endpoint that answers with null for an old block, as some clients do for what they pruned. */
export async function prunedBelowHead(
  endpoint: Endpoint,
  block: number,
  method: "eth_getBlockByNumber" | "eth_getBlockReceipts",
): Promise<RpcError | undefined> {
  const head = await newestHeaderOf(endpoint);
  if (head.number - block < OLD_BLOCKS) return undefined;
  const meta = { endpoint: endpoint.label, method, block };
  return new RpcError("state_unavailable", `${method} gives nothing for block ${block}: the node has pruned it`, {
    meta,
  });
}

/** See `ChainReader.benchLaggards`. */
export async function benchLaggards(pool: EndpointPool, known: BlockRef): Promise<boolean> {
  if (pool.endpoints.length === 1) return false;
  const shown = (await pool.askAll(newestHeaderOf)).map(({ endpoint, value: head }) => ({ endpoint, head }));
  const behind = laggards(shown, known);
  for (const one of shown) pool.setBehind(one.endpoint, behind.includes(one));
  return behind.length > 0;
}

/**
 * Returns the nodes whose head is behind that of another node: lower, or equally high with an older timestamp (a block
 * that replaced another is younger). On a tie `known` wins, so that the reader does not flip between two branches.
 */
export function laggards<T extends { readonly head: HeaderRef }>(shown: readonly T[], known: BlockRef): T[] {
  const rank = ({ head }: T) => [head.number, head.timestamp, head.hash === known.hash ? 1 : 0] as const;
  const compare = (one: T, other: T) => {
    const [a, b] = [rank(one), rank(other)];
    return a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
  };
  return shown.filter((one) => shown.some((other) => compare(one, other) < 0));
}

/** Polls without the tag after a refusal. A node that just started has no final block and refuses in the same words. */
const POLLS_WITHOUT_TAG = 100;
/** After this many refusals of the tag in a row, with any message, a node that shows its newest block lacks the tag. */
const TAG_REFUSALS = 3;
/** Client names at the start of a development node's `web3_clientVersion`. */
const DEVELOPMENT_CLIENTS = /^(?:hardhat|ganache|ethereumjs testrpc|anvil)/i;

export interface FinalityOptions {
  /** Depth in blocks at which a block counts as final, if the tag is refused or `depthIsSet`. */
  readonly finalityDepth: number;
  /** True if the operator set the depth: the tag is not requested. */
  readonly depthIsSet: boolean;
  /** Called once per endpoint whose `finalized` tag is ignored, with the depth used instead. */
  readonly onDevelopmentNode?: (endpoint: string, client: string, depth: number) => void;
}

/**
 * Finds the newest final block. Uses the node's `finalized` tag, or a fixed depth below the head: if the operator set a
 * depth, if the node does not know the tag, or if a development node finalizes its head.
 */
export class Finality {
  readonly #options: FinalityOptions;
  readonly #pool: EndpointPool;
  #pollsWithoutTag = 0;
  #tagRefusals = 0;
  /** One request per endpoint, shared by all polls that start before its answer. */
  readonly #developmentNodes = new Map<Endpoint, Promise<boolean>>();

  constructor(pool: EndpointPool, options: FinalityOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  async tips(): Promise<Tips> {
    const tagged = await this.#byTag(async (endpoint) => {
      const [head, finalized] = await Promise.all([newestHeaderOf(endpoint), this.#finalBy(endpoint)]);
      return { head, finalized, shownBy: endpoint };
    });
    const head = tagged?.head ?? (await this.#pool.run(newestHeaderOf));
    const finalized = tagged?.finalized;
    const isBelieved = finalized !== undefined && (await this.#isTrusted(finalized, head, tagged?.shownBy));
    return isBelieved ? { ...tagged, head, finalized } : { head, finalized: await this.#byDepth(head) };
  }

  async finalized(head: BlockHeader): Promise<BlockHeader> {
    const tagged = await this.#byTag(async (by) => ({ header: await this.#finalBy(by), by }));
    const header = tagged?.header;
    return header !== undefined && (await this.#isTrusted(header, head, tagged?.by)) ? header : this.#byDepth(head);
  }

  /**
   * True if the endpoint's final block can be trusted. Hardhat and Ganache finalize their newest block and take it back
   * with the next `evm_revert`. Chains with instant finality also finalize their newest block, and keep it.
   */
  async #isTrusted(finalized: BlockHeader, head: BlockHeader, by: Endpoint | undefined): Promise<boolean> {
    if (finalized.number > head.number) return false;
    return finalized.number < head.number || by === undefined || !(await this.#isDevelopmentNode(by));
  }

  #isDevelopmentNode(endpoint: Endpoint): Promise<boolean> {
    const answer = this.#developmentNodes.get(endpoint) ?? this.#askClient(endpoint);
    this.#developmentNodes.set(endpoint, answer);
    answer.catch(() => this.#developmentNodes.delete(endpoint));
    return answer;
  }

  async #askClient(endpoint: Endpoint): Promise<boolean> {
    let client = "";
    try {
      client = String(await endpoint.request("web3_clientVersion", []));
    } catch (error) {
      if (error instanceof RpcError && error.retryable && !isUnknownRefusal(error)) throw error;
    }
    const isDevelopment = DEVELOPMENT_CLIENTS.test(client);
    const { onDevelopmentNode, finalityDepth } = this.#options;
    if (isDevelopment) onDevelopmentNode?.(endpoint.label, (client.split("/")[0] ?? "").slice(0, 40), finalityDepth);
    return isDevelopment;
  }

  /** Returns the `finalized` block. @throws RpcError, of kind `unsupported` also after repeated unknown refusals */
  async #finalBy(endpoint: Endpoint): Promise<BlockHeader | undefined> {
    try {
      const header = await headerFrom(endpoint, "finalized");
      this.#tagRefusals = 0;
      return header;
    } catch (error) {
      if (!isUnknownRefusal(error) || ++this.#tagRefusals < TAG_REFUSALS) throw asOptional(error);
      await newestHeaderOf(endpoint);
      throw new RpcError("unsupported", error.message, { meta: error.meta, cause: error });
    }
  }

  /** Runs a request for the `finalized` block. Undefined if the tag is refused, or the operator set a depth. */
  async #byTag<T>(ask: (endpoint: Endpoint) => Promise<T>): Promise<T | undefined> {
    if (this.#options.depthIsSet || this.#pollsWithoutTag-- > 0) return undefined;
    try {
      // Failover is off. The only endpoint that knows the tag may be benched because it is on an orphaned branch.
      return await this.#pool.run(ask, { failover: "none" });
    } catch (error) {
      if (!(error instanceof RpcError && error.kind === "unsupported")) throw error;
      this.#pollsWithoutTag = POLLS_WITHOUT_TAG;
      return undefined;
    }
  }

  async #byDepth(head: BlockHeader): Promise<BlockHeader> {
    const { finalityDepth } = this.#options;
    const number = Math.max(0, head.number - finalityDepth);
    if (number === head.number) return head;
    // An endpoint that is behind the head may have another block at this number, so its head is checked as well.
    const header = await this.#pool.run(async (endpoint) => {
      const [newest, deep] = await Promise.all([newestHeaderOf(endpoint), headerFrom(endpoint, number)]);
      if (newest.number < head.number) {
        throw new RpcError("transient", "the endpoint lags behind the head", { meta: { block: head.number } });
      }
      return deep;
    });
    if (header === undefined) throw missingBlock(number);
    return header;
  }
}

interface RecordedBlockOptions {
  readonly clock: Clock;
  /** The nodes' block of that number. Undefined above their heads. */
  readonly read: (number: number) => Promise<BlockRef | undefined>;
  /** True if any endpoint has the block. */
  readonly anyHolds: (block: BlockRef) => Promise<boolean>;
}

/** The comparison is repeated after this time, if the block is another one or no node has it yet. */
const AGAIN_MS = 5_000;

/**
 * Compares one recorded final block with the nodes', before anything else is asked. A log that is pointed at another
 * chain with the same id, or at a network that began anew, finds out with two calls, and records nothing of it.
 */
export class RecordedBlock {
  readonly #options: RecordedBlockOptions;
  /** The block that the nodes must have; undefined once they have shown it, or without a record. */
  #expected: BlockRef | undefined;
  /** The nodes' block in its place, as of the last comparison. */
  #found: BlockRef | undefined;
  #againMs = Number.NEGATIVE_INFINITY;
  readonly #compareOnce = singleFlight(() => this.#compare());

  constructor(options: RecordedBlockOptions) {
    this.#options = options;
  }

  /** @param block the newest final block of the log */
  expect(block: BlockRef | undefined): void {
    this.#expected = block;
  }

  /** @throws AppError `chain_unavailable` while the nodes have another block in the place of the recorded one */
  async assertHeld(): Promise<void> {
    const found = await this.foundInstead();
    if (found === undefined) return;
    throw new AppError(
      `block ${found.number} of the nodes is not the final block of the log: they follow another chain with this id, or ` +
        "the chain was rolled back",
      { code: "chain_unavailable", retryable: true, meta: { block: found.number, found: found.hash } },
    );
  }

  /** Returns the nodes' block in the place of the recorded one; undefined if they have it, or none yet. */
  async foundInstead(): Promise<BlockRef | undefined> {
    if (this.#expected === undefined) return undefined;
    if (this.#options.clock.monotonic() >= this.#againMs) await this.#compareOnce();
    return this.#found;
  }

  async #compare(): Promise<void> {
    const { clock, read, anyHolds } = this.#options;
    const expected = this.#expected;
    if (expected === undefined) return;
    const shown = await read(expected.number);
    // One endpoint may be of another chain, or on an orphaned branch.
    const isHeld = shown?.hash === expected.hash || (shown !== undefined && (await anyHolds(expected)));
    this.#found = isHeld || shown === undefined ? undefined : { number: shown.number, hash: shown.hash };
    if (isHeld) this.#expected = undefined;
    this.#againMs = clock.monotonic() + AGAIN_MS;
  }
}
