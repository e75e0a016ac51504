/**
 * A node of the simulated chain as the endpoint pool sees it: it answers late, refuses in the words of various
 * providers, drops sockets, truncates answers, lags, follows a losing fork, and lies. Its honest answers match its own
 * view.
 */
import type { Random } from "../../../scripts/local-chain/random.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import type { BlockRange } from "../../../src/events/types.ts";
import { decodeAnswer } from "../../../src/rpc/decode/answer.ts";
import { unwrapReply } from "../../../src/rpc/decode/decode-pool.ts";
import { parseHeader } from "../../../src/rpc/decode/header.ts";
import { transferParams } from "../../../src/rpc/decode/log-request.ts";
import type { DecodedRange, Endpoint, PartsAnswer, TransferFilter } from "../../../src/rpc/port.ts";
import { IDENTITY } from "../../../src/rpc/reading/many-calls.ts";
import { classifyHttpStatus, classifyRpcError, RpcError } from "../../../src/rpc/rpc-errors.ts";
import corpus from "../../fixtures/rpc-errors.json";
import { logsBloomOf } from "../bloom.ts";
import { modelListing } from "../naive-ledger.ts";
import type { SimBlock, SimChain } from "./chain.ts";
import type { Fault, FaultCounter } from "./fault-kinds.ts";
import type { ProcessClock, Scheduler } from "./scheduler.ts";

/** The character of an endpoint. It stays the same during a world. */
export interface Temper {
  /** Probability that a request meets a fault. */
  readonly fault: number;
  /** Probability that an answer with logs is false. */
  readonly lie: number;
  /** Which logs it may omit. Only omissions that the setting `VERIFY` promises to detect. */
  readonly omission: "none" | "unfinalised blocks" | "whole blocks" | "any log";
  readonly maxRange: number | undefined;
  readonly maxLogs: number | undefined;
  /** Maximum number of blocks that it can search for logs before the caller's timeout. */
  readonly maxTimely: number | undefined;
  readonly hasReceipts: boolean;
  readonly hasFinalizedTag: boolean;
  /** Number of newest blocks with state. */
  readonly stateDepth: number;
}

export interface EndpointWorld {
  readonly scheduler: Scheduler;
  readonly chain: SimChain;
  readonly faults: FaultCounter;
  /** The newest block that any process considers final, by tag or by depth. */
  readonly finalNumber: number;
  /** False after the world has calmed down. */
  readonly isHostile: boolean;
}

interface RpcFailure {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

type Params = readonly unknown[];
type Outcome = { result: unknown } | { error: RpcFailure };
interface LogQuery {
  readonly fromBlock: string;
  readonly toBlock: string;
  readonly blockHash?: string;
  readonly address?: unknown;
  readonly topics?: unknown;
}

interface WireLog {
  address: string;
  topics: readonly string[];
  data: string;
  blockNumber: string;
  blockHash: string;
  transactionHash: string;
  logIndex: string;
}

const TRUE = `0x${"1".padStart(64, "0")}`;
const FALSE = `0x${"0".padStart(64, "0")}`;
const quantity = (value: number): string => `0x${value.toString(16)}`;
const worded = (corpus.errors as { code: number | null; message?: string; data?: unknown; expect: string }[]).filter(
  (entry) => entry.message !== undefined && entry.expect !== "fatal-for-this-block",
);

/** A node that is a few blocks behind, and what it says of newer logs; undefined if it leaves them out in silence. */
export interface Twin {
  readonly lag: number;
  readonly refusal: string | undefined;
  /** Draws of its own, so that the other faults of a seed stay what they are. */
  readonly random: Random;
}

/** The nodes' view of the chain: one per endpoint URL, shared by all processes that use the URL. */
export class SimNode {
  readonly label: string;
  readonly temper: Temper;
  readonly #world: EndpointWorld;
  #view: readonly SimBlock[] | undefined;
  #viewFinalized = 0;
  #lag = 0;
  isStuck = false;
  /** Hashes of blocks whose logs and receipts it has lost for now. */
  readonly hollow = new Set<Hash>();
  /** Another node behind the same URL, which is behind: it answers some of the requests. */
  twin: Twin | undefined;
  /** Blocks that the node which answers now is behind by. */
  behindBy = 0;

  constructor(label: string, temper: Temper, world: EndpointWorld) {
    this.label = label;
    this.temper = temper;
    this.#world = world;
  }

  /** The node's branch, genesis first. */
  get blocks(): readonly SimBlock[] {
    const blocks = this.#view ?? this.#world.chain.canonical;
    const lag = this.#lag + this.behindBy;
    return lag === 0 ? blocks : blocks.slice(0, Math.max(1, blocks.length - lag));
  }

  get finalizedNumber(): number {
    const { chain } = this.#world;
    return Math.min(this.#view === undefined ? chain.finalizedNumber : this.#viewFinalized, this.blocks.length - 1);
  }

  /** True while the node shows another branch, or fewer blocks, than the canonical chain. */
  get isBehind(): boolean {
    return this.#view !== undefined || this.#lag > 0;
  }

  /** Stops the node at the present chain for good. It keeps answering from it. */
  getStuck(): void {
    this.isStuck = true;
    this.#view = this.#world.chain.canonical;
    this.#viewFinalized = this.#world.chain.finalizedNumber;
  }

  /** Keeps the node on the present branch, which is about to lose, for a while. */
  stayBehind(ms: number): void {
    if (this.isStuck) return;
    this.#view = this.#world.chain.canonical;
    this.#viewFinalized = this.#world.chain.finalizedNumber;
    this.#world.scheduler.after(ms, () => {
      if (!this.isStuck) this.#view = undefined;
    });
  }

  lag(blocks: number, ms: number): void {
    this.#lag = blocks;
    this.#world.scheduler.after(ms, () => {
      this.#lag = 0;
    });
  }
}

/** The way of one process to all nodes. */
export class Uplink {
  /** The fault that blocks it now, and the virtual time until then. */
  fault: "all nodes silent for a process" | "all nodes down for a process" | undefined;
  until = 0;
}

interface Batch {
  /** Blocks that the node which answers is behind by. */
  readonly behindBy: number;
  /** True if the node answers when the batch is sent, false if when the answer arrives. */
  readonly isEarly: boolean;
  readonly journey: Promise<void>;
}

export class SimEndpoint implements Endpoint {
  readonly label: string;
  readonly #node: SimNode;
  readonly #uplink: Uplink;
  readonly #clock: ProcessClock;
  readonly #world: EndpointWorld;
  /** The batch of this turn. */
  #batch: Batch | undefined;

  constructor(node: SimNode, uplink: Uplink, clock: ProcessClock, world: EndpointWorld) {
    this.label = node.label;
    this.#node = node;
    this.#uplink = uplink;
    this.#clock = clock;
    this.#world = world;
  }

  async request(method: string, params: unknown[]): Promise<unknown> {
    const outcome = await this.#exchange(method, params);
    if ("error" in outcome) throw classifyRpcError(outcome.error, method, { endpoint: this.label });
    return outcome.result;
  }

  async transfers(filter: TransferFilter, signal: AbortSignal): Promise<DecodedRange> {
    const outcome = await this.#exchange("eth_getLogs", [transferParams(filter)]);
    signal.throwIfAborted();
    const bytes = new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", id: 1, ...outcome }));
    const raw = this.#strikes("truncated JSON", 0.3) ? bytes.slice(0, this.#random.below(bytes.length)) : bytes;
    return unwrapReply(decodeAnswer({ ...filter, id: 1, raw }), this.#meta());
  }

  async transfersInParts(
    filter: TransferFilter,
    parts: readonly BlockRange[],
    numbers: readonly number[],
    signal: AbortSignal,
  ): Promise<PartsAnswer> {
    const queries = parts.map((part) => transferParams({ ...filter, ...part }));
    for (const query of queries) await this.#search(query as unknown as LogQuery);
    const behindBy = this.#drawNode();
    const ask = () =>
      this.#asOf(behindBy, () => [
        ...queries.map((query) => this.#answer("eth_getLogs", [query])),
        ...numbers.map((number) => this.#answer("eth_getBlockByNumber", [quantity(number), false])),
      ]);
    const early = this.#random.below(2) === 0 ? ask() : undefined;
    await this.#travel();
    signal.throwIfAborted();
    const answers = (early ?? ask()).map((outcome, id) => ({ jsonrpc: "2.0", id, ...outcome }));
    const raw = new TextEncoder().encode(JSON.stringify(answers));
    const headerIds = answers.slice(parts.length).map(({ id }) => id);
    const logs = parts.map(({ fromBlock, toBlock }, id) => ({ id, fromBlock, toBlock }));
    const batch = { logs, headers: headerIds };
    const reply = decodeAnswer({ ...filter, batch, id: 1, raw });
    const decoded = unwrapReply(reply, this.#meta());
    const headers = ("headers" in reply && reply.headers) || [];
    return { decoded, headers: headers.map((one, i) => parseHeader(one, numbers[i] as number, this.label)) };
  }

  /**
   * The request and the answer both take time, so the world may change before or after the answer is made. Requests of
   * one turn are one batch, as in the real provider: they fail together, and one view of the chain answers them.
   */
  async #exchange(method: string, params: Params): Promise<Outcome> {
    const batch = this.#batch ?? this.#openBatch();
    const answer = () => this.#asOf(batch.behindBy, () => this.#answer(method, params));
    const early = batch.isEarly ? answer() : undefined;
    if (method === "eth_getLogs") await this.#search(params[0] as LogQuery);
    await batch.journey;
    return early ?? answer();
  }

  /** Draws which node behind the URL answers: the blocks that it is behind by. */
  #drawNode(): number {
    const { twin } = this.#node;
    if (twin === undefined || !this.#world.isHostile || twin.random.below(2) === 0) return 0;
    this.#world.faults.hit("lagging node behind the same URL");
    return twin.lag;
  }

  #asOf<T>(behindBy: number, answer: () => T): T {
    this.#node.behindBy = behindBy;
    try {
      return answer();
    } finally {
      this.#node.behindBy = 0;
    }
  }

  #openBatch(): Batch {
    const batch = { isEarly: this.#random.below(2) === 0, behindBy: this.#drawNode(), journey: this.#travel() };
    batch.journey.catch(() => undefined);
    this.#batch = batch;
    queueMicrotask(() => {
      this.#batch = undefined;
    });
    return batch;
  }

  async #search({ fromBlock, toBlock, blockHash }: LogQuery): Promise<void> {
    const blocks = blockHash === undefined ? Number(toBlock) - Number(fromBlock) + 1 : 1;
    if (blocks <= (this.#node.temper.maxTimely ?? blocks)) return;
    this.#world.faults.hit("range not answered in time");
    await this.#clock.sleep(30_000);
    throw new RpcError("late", "no answer within 30000 ms", { meta: this.#meta() });
  }

  destroy(): void {}

  get #random(): Random {
    return this.#world.scheduler.random;
  }

  /** Decides if a fault happens now. `share` scales the endpoint's own probability. */
  #strikes(fault: Fault, share: number, chance = this.#node.temper.fault): boolean {
    if (!this.#world.isHostile || !this.#world.scheduler.chance(chance * share)) return false;
    this.#world.faults.hit(fault);
    return true;
  }

  #meta(): { endpoint: string } {
    return { endpoint: this.label };
  }

  async #travel(): Promise<void> {
    await this.#leave();
    const far = this.#strikes("straggler", 0.3) ? 3_000 + this.#random.below(15_000) : 0;
    await this.#clock.sleep(2 + this.#random.below(80) + far);
    if (this.#strikes("time-out", 0.2)) {
      await this.#clock.sleep(30_000);
      throw new RpcError("late", "no answer within 30000 ms", { meta: this.#meta() });
    }
    if (this.#strikes("dropped connection", 0.4)) {
      throw new RpcError("transient", "the endpoint could not be reached: closed", { meta: this.#meta() });
    }
    if (this.#strikes("too many requests", 0.5)) {
      const seconds = this.#random.below(2) === 0 ? String(1 + this.#random.below(5)) : null;
      throw classifyHttpStatus(429, seconds, this.#meta());
    }
    if (this.#strikes("server error", 0.4)) throw classifyHttpStatus(502, null, this.#meta());
  }

  /** Fails while the process can reach no node. */
  async #leave(): Promise<void> {
    const { fault, until } = this.#uplink;
    const { scheduler, faults } = this.#world;
    if (fault === undefined || scheduler.time >= until) return;
    faults.hit(fault);
    const isSilent = fault === "all nodes silent for a process";
    await this.#clock.sleep(isSilent ? 30_000 : 2);
    const message = isSilent ? "no answer within 30000 ms" : "the endpoint could not be reached: refused";
    throw new RpcError(isSilent ? "late" : "transient", message, { meta: this.#meta() });
  }

  #answer(method: string, params: Params): Outcome {
    if ((method === "eth_getLogs" || method === "eth_call") && this.#strikes("provider refusal", 0.5)) {
      const { code, message = "", data } = this.#random.pick(worded);
      return { error: { code: code ?? -32_000, message, ...(data === undefined ? {} : { data }) } };
    }
    switch (method) {
      case "eth_getBlockByNumber":
        return this.#block(params[0] as string);
      case "eth_getLogs":
        return this.#logs(params[0] as LogQuery);
      case "eth_getBlockReceipts":
        return this.#receipts(Number(params[0]));
      case "eth_call":
        return this.#call(params[0] as { to: string; data: string }, params[1] as string);
      case "eth_getCode":
        return this.#code(params[0] as string, params[1] as string);
      case "eth_getTransactionCount":
        return { result: "0x0" };
      default:
        return { error: { code: -32601, message: `the method ${method} does not exist` } };
    }
  }

  #block(tag: string): Outcome {
    const { blocks } = this.#node;
    let number = Number(tag);
    if (tag === "latest") number = blocks.length - 1;
    if (tag === "finalized") {
      if (!this.#node.temper.hasFinalizedTag) {
        this.#world.faults.hit("finalized tag refused");
        return { error: { code: -32602, message: "invalid block tag: finalized is not supported" } };
      }
      number = this.#node.finalizedNumber;
    }
    const block = blocks[number];
    if (block === undefined) return { result: null };
    const { hash, parentHash, timestamp, logsBloom, fields } = block;
    return {
      result: { ...fields, number: quantity(number), hash, parentHash, timestamp: quantity(timestamp), logsBloom },
    };
  }

  #logs(filter: LogQuery): Outcome {
    const { maxRange, maxLogs } = this.#node.temper;
    const { blocks } = this.#node;
    const byHash = blocks.findLast((block) => block.hash === filter.blockHash);
    if (filter.blockHash !== undefined && byHash === undefined) {
      return { error: { code: -32_000, message: "unknown block" } };
    }
    const [from, to] =
      byHash === undefined ? [Number(filter.fromBlock), Number(filter.toBlock)] : [byHash.number, byHash.number];
    const { twin, behindBy } = this.#node;
    const isTwins = behindBy > 0 && twin !== undefined;
    if (to > blocks.length - 1 && !(isTwins && twin.refusal === undefined)) {
      const message = isTwins ? twin.refusal : "block not found: header not found";
      return { error: { code: -32_000, message: message as string } };
    }
    if (maxRange !== undefined && to - from + 1 > maxRange) return { error: this.#rangeRefusal(from, to, maxRange) };
    const wanted = filter.address === undefined ? undefined : new Set([filter.address].flat() as string[]);
    const topics = new Set(((filter.topics as string[][] | undefined) ?? []).flat());
    const logs: WireLog[] = [];
    for (const block of blocks.slice(from, to + 1)) {
      if (this.#isHollow(block)) continue;
      for (const log of wireLogs(block)) {
        if (wanted?.has(log.address) !== false && topics.has(log.topics[0] ?? "")) logs.push(log);
      }
    }
    if (maxLogs !== undefined && logs.length > maxLogs && to > from) {
      this.#world.faults.hit("range refused with a hint");
      const isTrap = this.#random.below(3) === 0;
      if (isTrap) this.#world.faults.hit("hint that fails itself");
      const end = isTrap ? to - 1 : from;
      const message = `query returned more than ${maxLogs} results. Try with this block range [${quantity(from)}, ${quantity(end)}].`;
      return { error: { code: -32005, message } };
    }
    return { result: this.#lied(logs, { from, to }) };
  }

  /** True if the node has lost the logs and receipts of the block for now. */
  #isHollow(block: SimBlock): boolean {
    if (!this.#world.isHostile || !this.#node.hollow.has(block.hash)) return false;
    this.#world.faults.hit("hollow block");
    return true;
  }

  #rangeRefusal(from: number, to: number, max: number): RpcFailure {
    if (this.#random.below(3) === 0) {
      this.#world.faults.hit("range refused without a hint");
      return { code: -32_000, message: "Block range limit exceeded. See more details elsewhere" };
    }
    this.#world.faults.hit("range refused with a hint");
    if (this.#random.below(3) === 0) {
      this.#world.faults.hit("hint that fails itself");
      return {
        code: -32005,
        message: `query exceeds limits. Try with this block range [${quantity(from)}, ${quantity(to - 1)}].`,
      };
    }
    return { code: -32602, message: `query exceeds max block range ${max}` };
  }

  /** Returns the logs, or a false version of them. */
  #lied(logs: WireLog[], { from, to }: { from: number; to: number }): WireLog[] {
    const { lie, omission } = this.#node.temper;
    const random = this.#random;
    if (logs.length === 0) return logs;
    const at = random.below(logs.length);
    const chosen = logs[at]!;
    const number = Number(chosen.blockNumber);
    const isSeen = omission === "any log" || omission === "whole blocks" || number > this.#world.finalNumber;
    if (omission !== "none" && isSeen && this.#strikes("log left out", 0.5, lie)) {
      if (omission === "any log" && number <= this.#world.finalNumber) return logs.toSpliced(at, 1);
      return logs.filter((log) => log.blockNumber !== chosen.blockNumber || log.address !== chosen.address);
    }
    if (this.#strikes("log repeated", 0.1, lie)) return [...logs.slice(0, at + 1), chosen, ...logs.slice(at + 1)];
    if (this.#strikes("log of another address", 0.1, lie)) {
      return logs.with(at, { ...chosen, address: `0x${"e".repeat(40)}` });
    }
    if (this.#strikes("log outside the range", 0.1, lie)) {
      return logs.with(at, {
        ...chosen,
        blockNumber: quantity(random.below(2) === 0 || from === 0 ? to + 1 : from - 1),
      });
    }
    // A process knows the hash of a range's last block and of blocks that are not final. Only there is a false hash
    // detectable.
    const isTold = number === to || number > this.#world.finalNumber;
    if (isTold && this.#strikes("log of another block hash", 0.2, lie)) {
      return logs.map((log) =>
        log.blockNumber === chosen.blockNumber ? { ...log, blockHash: `0x${"d".repeat(64)}` } : log,
      );
    }
    if (this.#strikes("logs out of order", 0.2, lie)) return logs.toReversed();
    return logs;
  }

  #receipts(number: number): Outcome {
    if (!this.#node.temper.hasReceipts) {
      this.#world.faults.hit("receipts refused");
      return { error: { code: -32601, message: "the method eth_getBlockReceipts does not exist/is not available" } };
    }
    const block = this.#node.blocks[number];
    if (block === undefined) return { result: null };
    if (this.#isHollow(block)) return { result: [] };
    let logs = wireLogs(block);
    if (logs.length > 0 && this.#strikes("wrong receipts", 0.3, this.#node.temper.lie)) {
      const [gone] = [this.#random.pick(logs)];
      logs = logs.filter((log) => log.address !== gone.address);
    }
    const half = logs.length >> 1;
    const receipts = [logs.slice(0, half), logs.slice(half)].map((own) => ({
      logs: own,
      logsBloom: logsBloomOf(own),
    }));
    return { result: receipts };
  }

  #stateAt(tag: string): SimBlock | undefined {
    const { blocks, temper } = this.#node;
    if (tag === "latest") return blocks.at(-1);
    const number = Number(tag);
    if (number < blocks.length - temper.stateDepth) {
      this.#world.faults.hit("old state refused");
      return undefined;
    }
    return blocks[number];
  }

  #call({ to, data }: { to: string; data: string }, tag: string): Outcome {
    const block = this.#stateAt(tag);
    if (block === undefined)
      return { error: { code: -32_000, message: "missing trie node (path ) state is not available" } };
    if (to === IDENTITY) return { result: data };
    const contract = this.#world.chain.contract(to as Address);
    if (contract === undefined || block.number < contract.createdAt) return { result: "0x" };
    const { kind } = contract;
    const revert = { error: { code: 3, message: "execution reverted" } };
    const argument = data.slice(10);
    switch (data.slice(0, 10)) {
      case "0x01ffc9a7": {
        if (kind !== "erc721" && kind !== "erc1155") return revert;
        const wanted = kind === "erc721" ? "80ac58cd" : "d9b67a26";
        return { result: argument.startsWith("01ffc9a7") || argument.startsWith(wanted) ? TRUE : FALSE };
      }
      case "0x313ce567":
        return kind === "erc20" ? { result: `0x${(18).toString(16).padStart(64, "0")}` } : revert;
      case "0x58178168":
      case "0x6352211e": {
        const isPunks = data.startsWith("0x58178168");
        if (isPunks ? kind !== "punks" : kind !== "erc721" && kind !== "unindexed") return revert;
        const owner = this.#owner(to as Address, BigInt(`0x${argument}`), block.hash);
        if (owner === undefined && isPunks) return { result: FALSE };
        return owner === undefined ? revert : { result: `0x${owner.toString(16).padStart(64, "0")}` };
      }
      default:
        return revert;
    }
  }

  #owner(address: Address, id: bigint, at: Hash): number | undefined {
    const { chain } = this.#world;
    const block = chain.blocks.get(at)!;
    const listing = modelListing(chain.transfersOf(address, at), block.number, false);
    return listing.find((entry) => entry.id === id.toString())?.owner;
  }

  #code(address: string, tag: string): Outcome {
    const block = this.#stateAt(tag);
    if (block === undefined)
      return { error: { code: -32_000, message: "missing trie node (path ) state is not available" } };
    const contract = this.#world.chain.contract(address as Address);
    const hasCode = contract !== undefined && contract.kind !== "none" && block.number >= contract.createdAt;
    return { result: hasCode ? "0x6001" : "0x" };
  }
}

const wireOf = new WeakMap<SimBlock, WireLog[]>();

function wireLogs(block: SimBlock): WireLog[] {
  let wire = wireOf.get(block);
  if (wire === undefined) {
    wire = block.logs.map(({ address, topics, data }, index) => ({
      address,
      topics,
      data,
      blockNumber: quantity(block.number),
      blockHash: block.hash,
      transactionHash: block.hash,
      logIndex: quantity(index),
    }));
    wireOf.set(block, wire);
  }
  return wire;
}
