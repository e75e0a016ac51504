/**
 * A chain of tokens and pools for the price tests. It mines blocks of pool events, answers calls from the fold of those
 * events at any block (or refuses past state), counts round trips, can fork, and includes a fake follower.
 */
import { AbiCoder, id, keccak256, toUtf8Bytes } from "ethers";
import type { ChainView } from "../../../src/chain/consumer.ts";
import { AppError } from "../../../src/core/errors.ts";
import { type Address, type Hash, toAddress, ZERO_ADDRESS } from "../../../src/core/hex.ts";
import type { BlockRef, HeaderRef } from "../../../src/events/types.ts";
import type { Prices } from "../../../src/prices/price-service.ts";
import type {
  BlockHeader,
  BlockTag,
  Call,
  CallResult,
  CallsAtHead,
  ChainLog,
  ChainReader,
  CodeStart,
  LogFilter,
  Newest,
  StretchFilter,
  Tips,
} from "../../../src/rpc/port.ts";

const coder = AbiCoder.defaultAbiCoder();
const encode = (types: string[], values: unknown[]): string => coder.encode(types, values);
const selector = (signature: string): string => id(signature).slice(0, 10);
const topicOf = (address: Address): Hash => `0x${address.slice(2).padStart(64, "0")}` as Hash;

export interface FakeToken {
  readonly address: Address;
  readonly name?: string;
  readonly symbol?: string;
  readonly bytes32?: boolean;
  readonly decimals?: number;
  readonly supply?: boolean;
  readonly erc721?: boolean;
}

export interface FakePool {
  readonly address: Address;
  readonly factory: Address;
  readonly style: "v2" | "v3" | "v2-camelot";
  readonly fee: number;
  readonly token0: Address;
  readonly token1: Address;
  readonly stableSwap?: boolean;
  readonly createdAt: number;
}

interface PoolStateAt {
  readonly values: readonly bigint[];
  readonly balance0: bigint;
  readonly balance1: bigint;
}

export const addressOf = (label: string): Address => toAddress(`0x${keccak256(toUtf8Bytes(label)).slice(26)}`);

export class FakeChain implements ChainReader {
  readonly chainId: number;
  readonly tokens = new Map<Address, FakeToken>();
  readonly pools: FakePool[] = [];
  readonly factories = new Map<Address, "v2" | "v3">();
  readonly requests: string[] = [];
  blocks: BlockHeader[] = [];
  logsOf: ChainLog[] = [];
  archive = true;
  seconds = 12;
  /** Blocks by which the endpoint lags that answers for the head, and calls at it, until it is passed over. */
  behind = 0;
  #states: { pool: Address; block: number; state: PoolStateAt }[] = [];
  #salt = 0;

  constructor(chainId = 1, start = 1_700_000_000) {
    this.chainId = chainId;
    this.#push(start);
  }

  #push(timestamp: number): BlockHeader {
    const number = this.blocks.length;
    const header: BlockHeader = {
      number,
      hash: keccak256(toUtf8Bytes(`block ${number} ${this.#salt}`)) as Hash,
      parentHash: this.blocks.at(-1)?.hash ?? (`0x${"0".repeat(64)}` as Hash),
      timestamp,
      logsBloom: "0x",
    };
    this.blocks.push(header);
    return header;
  }

  get tip(): BlockHeader {
    return this.blocks.at(-1)!;
  }

  /** Mines empty blocks. */
  mine(count = 1, seconds = this.seconds): BlockHeader {
    for (let index = 0; index < count; index++) this.#push(this.tip.timestamp + seconds);
    return this.tip;
  }

  /** Drops every block above `ancestor`. Blocks mined later have other hashes. */
  fork(ancestor: number): BlockRef[] {
    const orphaned = this.blocks.slice(ancestor + 1).map(({ number, hash }) => ({ number, hash }));
    this.blocks = this.blocks.slice(0, ancestor + 1);
    this.logsOf = this.logsOf.filter((log) => log.blockNumber <= ancestor);
    this.#states = this.#states.filter((entry) => entry.block <= ancestor);
    this.#salt++;
    return orphaned;
  }

  token(token: FakeToken): Address {
    this.tokens.set(token.address, token);
    return token.address;
  }

  pool(pool: Omit<FakePool, "address" | "createdAt" | "token0" | "token1"> & { tokens: [Address, Address] }): FakePool {
    const [token0, token1] = pool.tokens[0] < pool.tokens[1] ? pool.tokens : [pool.tokens[1], pool.tokens[0]];
    const address = addressOf(`${pool.factory}${token0}${token1}${pool.fee}`);
    const { tokens: _tokens, ...rest } = pool;
    const made: FakePool = { ...rest, token0, token1, address, createdAt: this.tip.number };
    this.pools.push(made);
    this.factories.set(pool.factory, pool.style === "v3" ? "v3" : "v2");
    const v3 = pool.style === "v3";
    this.#emit(
      pool.factory,
      v3
        ? [
            id("PoolCreated(address,address,uint24,int24,address)"),
            topicOf(token0),
            topicOf(token1),
            numberTopic(pool.fee),
          ]
        : [id("PairCreated(address,address,address,uint256)"), topicOf(token0), topicOf(token1)],
      v3 ? encode(["int24", "address"], [60, address]) : encode(["address", "uint256"], [address, 1n]),
    );
    return made;
  }

  /** Sets a v2 pool's reserves after the newest block. Balances equal them unless given. */
  sync(pool: FakePool, reserve0: bigint, reserve1: bigint, balances?: [bigint, bigint]): void {
    this.#set(pool, [reserve0, reserve1], balances ?? [reserve0, reserve1]);
    this.#emit(pool.address, [id("Sync(uint112,uint112)")], encode(["uint112", "uint112"], [reserve0, reserve1]));
  }

  initialize(pool: FakePool, sqrtPriceX96: bigint, tick: number): void {
    this.#set(pool, [sqrtPriceX96, 0n, BigInt(tick)], [0n, 0n]);
    this.#emit(pool.address, [id("Initialize(uint160,int24)")], encode(["uint160", "int24"], [sqrtPriceX96, tick]));
  }

  swap(
    pool: FakePool,
    sqrtPriceX96: bigint,
    liquidity: bigint,
    tick: number,
    amounts: [bigint, bigint] = [0n, 0n],
  ): void {
    const [held0, held1] = this.#balances(pool, amounts);
    this.#set(pool, [sqrtPriceX96, liquidity, BigInt(tick)], [held0, held1]);
    this.#emit(
      pool.address,
      [id("Swap(address,address,int256,int256,uint160,uint128,int24)"), topicOf(ZERO_ADDRESS), topicOf(ZERO_ADDRESS)],
      encode(["int256", "int256", "uint160", "uint128", "int24"], [...amounts, sqrtPriceX96, liquidity, tick]),
    );
  }

  mint(pool: FakePool, range: [number, number], amount: bigint, amounts: [bigint, bigint]): void {
    const [sqrt = 0n, liquidity = 0n, tick = 0n] = this.stateAt(pool.address, this.tip.number)?.values ?? [];
    const inside = BigInt(range[0]) <= tick && tick < BigInt(range[1]);
    this.#set(pool, [sqrt, inside ? liquidity + amount : liquidity, tick], this.#balances(pool, amounts));
    this.#emit(
      pool.address,
      [
        id("Mint(address,address,int24,int24,uint128,uint256,uint256)"),
        topicOf(ZERO_ADDRESS),
        numberTopic(range[0]),
        numberTopic(range[1]),
      ],
      encode(["address", "uint128", "uint256", "uint256"], [ZERO_ADDRESS, amount, ...amounts]),
    );
  }

  #balances(pool: FakePool, amounts: [bigint, bigint]): [bigint, bigint] {
    const before = this.stateAt(pool.address, this.tip.number);
    return [(before?.balance0 ?? 0n) + amounts[0], (before?.balance1 ?? 0n) + amounts[1]];
  }

  #set(pool: FakePool, values: bigint[], [balance0, balance1]: [bigint, bigint]): void {
    this.#states.push({ pool: pool.address, block: this.tip.number, state: { values, balance0, balance1 } });
  }

  #emit(address: Address, topics: string[], data: string): void {
    const logIndex = this.logsOf.filter((log) => log.blockNumber === this.tip.number).length;
    const transactionHash = keccak256(toUtf8Bytes(`tx ${this.tip.number} ${logIndex} ${this.#salt}`)) as Hash;
    const { number: blockNumber, hash: blockHash } = this.tip;
    const place = { blockNumber, blockHash, transactionHash, transactionIndex: logIndex, logIndex };
    this.logsOf.push({ address, topics: topics as Hash[], data, ...place });
  }

  stateAt(pool: Address, block: number): PoolStateAt | undefined {
    return this.#states.findLast((entry) => entry.pool === pool && entry.block <= block)?.state;
  }

  // ── ChainReader ───────────────────────────────────────────────────────────────────────────────────────────────────

  async head(): Promise<BlockHeader> {
    this.requests.push("head");
    return this.blocks[this.tip.number - this.behind]!;
  }

  async finalized(): Promise<BlockHeader> {
    this.requests.push("finalized");
    return this.blocks[Math.max(0, this.tip.number - 64)]!;
  }

  async tips(): Promise<Tips> {
    return { head: await this.head(), finalized: await this.finalized() };
  }

  async newest(): Promise<Newest> {
    return { head: await this.head() };
  }

  logsOfStretch({ stretch: { below, head }, ...filter }: StretchFilter): Promise<ChainLog[]> {
    return this.logs({ ...filter, fromBlock: below.number + 1, toBlock: head.number });
  }

  async header(number: number): Promise<BlockHeader | undefined> {
    this.requests.push("header");
    return this.blocks[number];
  }

  async headers(numbers: readonly number[]): Promise<(BlockHeader | undefined)[]> {
    this.requests.push("headers");
    return numbers.map((number) => this.blocks[number]);
  }

  async presentHeaders(numbers: readonly number[]): Promise<BlockHeader[]> {
    return (await this.headers(numbers)).filter((header) => header !== undefined);
  }

  async anyHolds({ number, hash }: { number: number; hash: string }): Promise<boolean> {
    return this.blocks[number]?.hash === hash;
  }

  async benchLaggards(): Promise<boolean> {
    const wasBehind = this.behind > 0;
    this.behind = 0;
    return wasBehind;
  }

  completeLogs(filter: LogFilter): Promise<ChainLog[]> {
    return this.logs(filter);
  }

  async logs({
    addresses,
    topics,
    fromBlock,
    toBlock,
    maxLogs = Number.POSITIVE_INFINITY,
  }: LogFilter): Promise<ChainLog[]> {
    this.requests.push(`logs ${fromBlock}-${toBlock}`);
    const logs = this.#logs(addresses, topics, fromBlock, toBlock);
    if (logs.length > maxLogs) throw new AppError("more logs than the reader accepts", { code: "too_many_logs" });
    return logs;
  }

  /** Like `logs`, but not counted as a request. */
  logsIn({ addresses, topics, fromBlock, toBlock }: LogFilter): ChainLog[] {
    return this.#logs(addresses, topics, fromBlock, toBlock);
  }

  #logs(addresses: readonly Address[], topics: readonly Hash[], from: number, to: number): ChainLog[] {
    return this.logsOf.filter(
      (log) =>
        log.blockNumber >= from &&
        log.blockNumber <= to &&
        (addresses.length === 0 || addresses.includes(log.address)) &&
        (topics.length === 0 || topics.includes(log.topics[0]!)),
    );
  }

  async calls(calls: readonly Call[], block: BlockTag): Promise<CallResult[]> {
    this.requests.push(`calls@${block}`);
    const at = block === "latest" ? this.tip.number : block;
    if (at !== this.tip.number && !this.archive) {
      throw new AppError("missing trie node", { code: "state_unavailable" });
    }
    return calls.map((call) => this.#call(call, at));
  }

  async callsAtBlock(calls: readonly Call[], { number, hash }: BlockRef): Promise<CallsAtHead> {
    const [results, header] = await Promise.all([this.calls(calls, number), this.header(number)]);
    if (header?.hash !== hash) throw new AppError("no endpoint has this block", { code: "chain_unavailable" });
    return { header, results };
  }

  async callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    this.requests.push("callsAtHead");
    const header = this.blocks[this.tip.number - this.behind]!;
    return { header, results: calls.map((call) => this.#call(call, header.number)) };
  }

  /** It runs no code. */
  async callOverridden(): Promise<undefined> {
    return undefined;
  }

  async simulate(): Promise<undefined> {
    return undefined;
  }

  async codes(addresses: readonly Address[]): Promise<CodeStart[]> {
    const code = await this.code();
    return addresses.map(() => ({ bytes: code.length / 2 - 1, start: code.slice(2, 8).padEnd(6, "0") }));
  }

  isCostly(): boolean {
    return false;
  }

  async code(): Promise<string> {
    return "0x";
  }

  async transactionCount(): Promise<number> {
    return 0;
  }

  #call({ to, data }: Call, block: number): CallResult {
    // It has no pools inside a contract, whose ticks creation code would read.
    if (to === undefined) return { ok: false, data: "0x" };
    const method = data.slice(0, 10);
    const answer = this.#factoryCall(to, method, data, block) ?? this.#poolCall(to, method, block);
    if (answer !== undefined) return { ok: true, data: answer };
    const token = this.tokens.get(to);
    if (token === undefined) return { ok: true, data: "0x" };
    const said = this.#tokenCall(token, method, data, block);
    return said === undefined ? { ok: false, data: "0x" } : { ok: true, data: said };
  }

  #factoryCall(to: Address, method: string, data: string, block: number): string | undefined {
    const style = this.factories.get(to);
    if (style === undefined) return undefined;
    if (style === "v2" && method === selector("allPairsLength()")) return encode(["uint256"], [this.pools.length]);
    if (style === "v3" && method === selector("feeAmountTickSpacing(uint24)")) return encode(["int24"], [10]);
    const isPair = style === "v2" && method === selector("getPair(address,address)");
    const isPool = style === "v3" && method === selector("getPool(address,address,uint24)");
    if (!isPair && !isPool) return undefined;
    const [a, b, fee] = coder.decode(
      isPair ? ["address", "address"] : ["address", "address", "uint24"],
      `0x${data.slice(10)}`,
    );
    const pair = [String(a).toLowerCase(), String(b).toLowerCase()].sort();
    const pool = this.pools.find(
      (entry) =>
        entry.factory === to &&
        entry.token0 === pair[0] &&
        entry.token1 === pair[1] &&
        entry.createdAt <= block &&
        (isPair || BigInt(entry.fee) === fee),
    );
    return encode(["address"], [pool?.address ?? ZERO_ADDRESS]);
  }

  #poolCall(to: Address, method: string, block: number): string | undefined {
    const pool = this.pools.find((entry) => entry.address === to && entry.createdAt <= block);
    if (pool === undefined) return undefined;
    const values = this.stateAt(to, block)?.values ?? [0n, 0n, 0n];
    switch (method) {
      case selector("getReserves()"):
        return pool.style === "v3" ? undefined : encode(["uint112", "uint112", "uint32"], [values[0], values[1], 0]);
      case selector("slot0()"):
        return encode(["uint160", "int24"], [values[0], values[2]]);
      case selector("liquidity()"):
        return encode(["uint128"], [values[1]]);
      case selector("token0()"):
        return encode(["address"], [pool.token0]);
      case selector("token1()"):
        return encode(["address"], [pool.token1]);
      case selector("stableSwap()"):
        return encode(["bool"], [pool.stableSwap ?? false]);
      default:
        return undefined;
    }
  }

  #tokenCall(token: FakeToken, method: string, data: string, block: number): string | undefined {
    const text = (value: string): string =>
      token.bytes32 ? `0x${Buffer.from(value).toString("hex").padEnd(64, "0")}` : encode(["string"], [value]);
    switch (method) {
      case selector("name()"):
        return token.name === undefined ? undefined : text(token.name);
      case selector("symbol()"):
        return token.symbol === undefined ? undefined : text(token.symbol);
      case selector("decimals()"):
        return token.decimals === undefined ? undefined : encode(["uint8"], [token.decimals]);
      case selector("totalSupply()"):
        return token.supply === false ? undefined : encode(["uint256"], [10n ** 30n]);
      case selector("supportsInterface(bytes4)"):
        return token.erc721 ? encode(["bool"], [data.slice(10, 18) === "80ac58cd"]) : undefined;
      case selector("balanceOf(address)"): {
        const owner = toAddress(`0x${data.slice(34, 74)}`);
        const state = this.stateAt(owner, block);
        const pool = this.pools.find((entry) => entry.address === owner);
        const held = pool?.token0 === token.address ? state?.balance0 : state?.balance1;
        return encode(["uint256"], [held ?? 0n]);
      }
      default:
        return undefined;
    }
  }

  // ── the follower ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** Returns a follower over this chain. The test calls its polls. */
  follower(prices: () => Pick<Prices, "readAhead">): FakeFollower {
    return new FakeFollower(this, prices);
  }
}

const numberTopic = (value: number): Hash =>
  `0x${BigInt.asUintN(256, BigInt(value)).toString(16).padStart(64, "0")}` as Hash;

export class FakeFollower implements ChainView {
  readonly version = 0;
  #head: BlockHeader | undefined;
  readonly #chain: FakeChain;
  readonly #prices: () => Pick<Prices, "readAhead">;

  constructor(chain: FakeChain, prices: () => Pick<Prices, "readAhead">) {
    this.#chain = chain;
    this.#prices = prices;
  }

  /** Starts to follow at the chain's tip. */
  start(): void {
    this.#head = this.#chain.tip;
  }

  /** Shows the chain's tip, once the prices at it were read ahead. */
  async poll(): Promise<void> {
    if (this.#head === undefined || this.#head.hash === this.#chain.tip.hash) return;
    const { tip } = this.#chain;
    await this.#prices().readAhead(tip);
    this.#head = tip;
  }

  head(): HeaderRef | undefined {
    return this.#head;
  }

  finalized(): BlockRef | undefined {
    return this.#head === undefined ? undefined : this.#chain.blocks[Math.max(0, this.#head.number - 64)];
  }

  header(number: number): HeaderRef | undefined {
    return this.#head !== undefined && number <= this.#head.number ? this.#chain.blocks[number] : undefined;
  }

  isCanonical(block: BlockRef): boolean {
    return this.#chain.blocks[block.number]?.hash === block.hash;
  }
}
