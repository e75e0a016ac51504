/**
 * A world drawn from a seed: a chain, nodes of different character, processes over one log, and faults of every kind.
 * It runs for at least 200 blocks and checks the invariants at each step. Then it calms down, and in the end every
 * process must know the truth.
 */

import { createRandom } from "../../../scripts/local-chain/random.ts";
import { AppError, ConcurrencyError, Refusal } from "../../../src/core/errors.ts";
import type { Address } from "../../../src/core/hex.ts";
import { createLogger, silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import type { DomainEvent, StreamName } from "../../../src/events/types.ts";
import type { Page } from "../../../src/nft/listings/pages.ts";
import type { Verify } from "../../../src/rpc/port.ts";
import { modelListing } from "../naive-ledger.ts";
import { type Kind, type SimBlock, SimChain } from "./chain.ts";
import { type EndpointWorld, SimNode, type Temper } from "./endpoint.ts";
import { FaultCounter } from "./fault-kinds.ts";
import { SimDisk } from "./log.ts";
import { type ProcessWorld, SimProcess } from "./process.ts";
import { EPOCH, Scheduler } from "./scheduler.ts";
import { check, Violation, Witness } from "./witness.ts";

const HISTORY = 60;
/** The first block with a header of a later fork, in worlds whose headers make their hash. */
const HASH_FORK = 20;
/** What a node behind the same URL says of logs above its head: in words of lists, in others, or nothing. */
const TWIN_REFUSALS = [
  "block range extends beyond current head block",
  "der Mond ist nicht aufgegangen",
  undefined,
  "invalid block range params",
] as const;
/** Time for which a node lacks the logs and receipts of a block, in ms. */
const HOLLOW_MS = 8_000;
const BLOCKS = 200;
const BLOCK_MS = 1_000;
/** Interval between client requests, in ms. */
const CLIENT_MS = 500;
/** Number of blocks after the last fault. */
const LAST_BLOCKS = 3;
/** Blocks below the head that the nodes report as final in most worlds. */
const FINALITY = 12;
/** In a world of distant finality, what the code keeps is as small beside the chain as beside a real one. */
const SHORT = { headers: { most: 36, newest: 12, perDoubling: 4 }, joinPart: 9 };
/** Longer than the longest backoff of any job. */
const LATER_MS = 4 * 3_600_000;
/** Virtual time in which a calm world must finish. Jobs back off for up to an hour. */
const PATIENCE_MS = 3 * 3_600_000;

/** `SIMULATION_TRACE=1` prints the character of a world and every append in it. */
const TRACE = process.env["SIMULATION_TRACE"] === "1";

function describe(time: number, stream: StreamName, version: number, event: DomainEvent): string {
  const short = (key: string, value: unknown) => (key === "transfers" ? undefined : value);
  return `${time.toFixed(0)} ${stream} ${version} ${JSON.stringify(event, short)}`.slice(0, 400);
}

export interface SeedReport {
  readonly seed: number;
  readonly blocks: number;
  readonly steps: number;
  readonly faults: FaultCounter;
}

/** Runs one world. @throws Violation, or an unexpected error of the code under test */
export async function simulate(seed: number): Promise<SeedReport> {
  const world = new World(seed);
  await world.live();
  await world.calmDown();
  await world.judge();
  return { seed, blocks: world.chain.blocks.size, steps: world.scheduler.steps, faults: world.faults };
}

class World implements ProcessWorld, EndpointWorld {
  readonly scheduler: Scheduler;
  readonly faults = new FaultCounter();
  readonly chain: SimChain;
  readonly nodes: SimNode[];
  readonly disk: SimDisk;
  readonly verify: Verify;
  /** Depth below the head that the nodes report as final. It is also the finality depth if a node refuses the tag. */
  readonly finalityDepth: number;
  readonly bounds: ProcessWorld["bounds"];
  readonly sampledBlocks: number | undefined;
  /** True if finality lags by any number: the tag is far below the head, may stand still for good, and jumps. */
  readonly #isDistant: boolean;
  /** In two of five worlds the follower looks at several blocks together. */
  readonly followEveryMs: number;
  readonly logger = process.env["SIMULATION_LOG"] === undefined ? silentLogger : createLogger("debug");
  readonly logFault: number;
  readonly crashAtAppend: number;
  readonly pauseAtAppend: number;
  isHostile = true;
  readonly #processes: SimProcess[] = [];
  #witness: Witness;
  readonly #requested = new Set<Address>();
  /** True listings by block, computed on demand. */
  readonly #truths = new Map<string, readonly Row[]>();
  #violation: unknown;
  #stalledUntil = 0;
  /** Some node reports blocks below this as final, on any branch. */
  #floor = 0;
  #names = 0;
  /** One of six worlds has an archive. */
  readonly archiveSeed: number | undefined;
  /** In half of these worlds headers make their hash, and stop doing so with a block. */
  readonly hashFork: number | undefined;
  /** In one of seven worlds nodes lose the logs and receipts of new blocks for a while, if that is to be noticed. */
  readonly #losesBlocks: boolean;
  readonly #restartsAtLast: boolean;
  /** True if the log loses its last appends now and then. */
  readonly #losesLog: boolean;
  /** True if processes lose all nodes at times. That ends turns early, and would hide faults within them everywhere. */
  readonly #hasOutages: boolean;
  /** True if an operator has collections indexed anew, and removes some, which clients then request again. */
  readonly #hasOperator: boolean;
  /** True after the last block. */
  #isOver = false;

  get #mayDoubt(): boolean {
    return this.#losesBlocks || this.nodes.some(({ temper }) => temper.lie > 0);
  }

  get provesForks(): boolean {
    return this.hashFork !== undefined && this.nodes.every(({ temper }) => temper.hasReceipts && temper.lie === 0);
  }

  get provesEachBlock(): boolean {
    return this.verify === "receipts" && this.nodes.every(({ temper }) => temper.hasReceipts && temper.lie === 0);
  }

  get finalNumber(): number {
    return Math.max(this.chain.finalizedNumber, this.#floor);
  }

  constructor(seed: number) {
    this.archiveSeed = seed % 6 === 5 ? seed : undefined;
    this.hashFork = seed % 12 === 11 ? HASH_FORK : undefined;
    this.#restartsAtLast = seed % 4 !== 0;
    this.#losesLog = seed % 3 === 0;
    this.#hasOutages = seed % 3 === 1;
    this.#hasOperator = seed % 11 === 0;
    this.#isDistant = seed % 5 === 2;
    this.finalityDepth = this.#isDistant ? 20 + ((seed * 37) % 300) : FINALITY;
    // A history of these blocks is so short that the usual sample would be all of it.
    this.sampledBlocks = this.hashFork === undefined ? undefined : 2;
    this.bounds = this.#isDistant ? SHORT : undefined;
    this.followEveryMs = [0, 0, 0, 5_000, 12_000][seed % 5] as number;
    this.scheduler = new Scheduler(seed);
    const { random } = this.scheduler;
    const kinds: Kind[] = [random.pick(["erc721", "erc1155"] as const), random.pick(["punks", "unindexed"] as const)];
    kinds.push("erc721", random.pick(["erc20", "none", "erc1155"] as const));
    const contracts = kinds.map((kind, index) => ({
      kind,
      address: `0x${(0xc0de00 + index).toString(16).padStart(40, "0")}` as Address,
      createdAt: kind === "erc721" ? random.below(HISTORY) : random.below(5),
    }));
    this.chain = new SimChain(random, contracts, EPOCH / 1_000 - HISTORY * 2 + seed, this.hashFork);
    for (let i = 1; i < HISTORY; i++) this.chain.mine();
    this.chain.finalizedNumber = this.#finalAt(HISTORY - 1);
    this.#floor = this.chain.finalizedNumber;
    const verify = random.pick(["sample", "headers", "receipts"] as const);
    // Headers are left out with `sample` only.
    this.verify = this.followEveryMs > 0 ? "sample" : verify;
    this.logFault = random.pick([0, 0.002, 0.01]);
    this.crashAtAppend = random.pick([0, 0.002, 0.01]);
    this.pauseAtAppend = random.pick([0, 0.01, 0.03]);
    this.nodes = this.#drawNodes();
    // Without receipts, or with most headers left out, an empty answer is not noticed.
    const isNoticed = this.verify !== "sample" && this.nodes.every(({ temper }) => temper.hasReceipts);
    this.#losesBlocks = seed % 7 === 3 && isNoticed;
    if (seed % 7 === 5) this.#addTwin(seed);
    this.#witness = new Witness(this.chain, this.#mayDoubt);
    this.disk = new SimDisk(({ stream, events, version, writer }) => {
      if (TRACE) for (const event of events) console.log(describe(this.scheduler.time, stream, version, event));
      const leases = [`follow/1 ${writer}`, `index/${stream} ${writer}`];
      const isEntitled = leases.some((lease) => this.disk.held.has(lease));
      this.guard(() => this.#witness.see(stream, events, isEntitled));
    });
    for (let i = 1 + random.below(3); i > 0; i--) this.#spawn();
  }

  #drawNodes(): SimNode[] {
    const { random } = this.scheduler;
    const count = 1 + random.below(3);
    const liar = random.below(2) === 0 ? random.below(count) : -1;
    // Only receipts reveal omitted logs, so all nodes of a world with a liar have receipts.
    const omissions = { sample: "none", headers: "whole blocks", receipts: "any log" } as const;
    return Array.from({ length: count }, (_, index) => {
      const temper: Temper = {
        fault: random.pick([0, 0.01, 0.05, 0.1]),
        lie: index === liar ? random.pick([0.05, 0.3]) : 0,
        omission: index === liar ? omissions[this.verify] : "none",
        maxRange: random.pick([undefined, undefined, 5, 17, 40]),
        maxLogs: random.pick([undefined, undefined, 40]),
        maxTimely: undefined,
        hasReceipts: liar >= 0 || this.verify === "receipts" || random.below(3) > 0,
        hasFinalizedTag: random.below(4) > 0,
        stateDepth: random.pick([4, 1_000_000]),
      };
      // A node that refuses nothing may exceed the timeout. It is not drawn, because a draw would change the worlds of
      // all seeds.
      const isSlow = temper.maxRange === undefined && temper.maxLogs === undefined && temper.stateDepth === 4;
      if (isSlow) Object.assign(temper, { maxTimely: 30 });
      if (TRACE) console.log(`eth#${index + 1} ${JSON.stringify(temper)}, VERIFY=${this.verify}`);
      return new SimNode(`eth#${index + 1}`, temper, this);
    });
  }

  /** Puts a second node behind the URL of the first endpoint, which lags by a block or two. */
  #addTwin(seed: number): void {
    const refusal = TWIN_REFUSALS[seed % TWIN_REFUSALS.length];
    // In silence it leaves out logs, which only headers show.
    const isNoticed = this.verify !== "sample" && this.nodes.every(({ temper }) => temper.hasReceipts);
    const twin = { lag: 1 + (seed % 2), random: createRandom(seed), refusal };
    (this.nodes[0] as SimNode).twin =
      refusal === undefined && !isNoticed ? { ...twin, refusal: TWIN_REFUSALS[0] } : twin;
  }

  /** Keeps the first violation, wherever in the code under test it occurred. */
  guard<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#violation ??= error;
      return undefined;
    }
  }

  #spawn(laterMs = 0): void {
    const process = new SimProcess(`process-${++this.#names}`, this, (dead) => this.#replace(dead));
    this.#processes.push(process);
    process.clock.skew = this.#processes.length * 100 + laterMs;
    void process.start();
  }

  /** Starts a new process in place of a dead one, after a while. */
  #replace(dead: SimProcess): void {
    this.#processes.splice(this.#processes.indexOf(dead), 1);
    this.scheduler.after(this.scheduler.random.below(6_000), () => this.#spawn());
  }

  async live(): Promise<void> {
    this.#schedule(BLOCK_MS, () => this.#nextBlock(), BLOCKS);
    this.#schedule(CLIENT_MS, () => this.#client(), (BLOCKS * BLOCK_MS) / CLIENT_MS);
    this.#schedule(2_000, () => this.isHostile && this.#misfortune(), (BLOCKS * BLOCK_MS) / 2_000);
    const end = BLOCKS * BLOCK_MS;
    while (this.scheduler.time < end) await this.#step();
  }

  /** Calls `act` about every `ms`, plus or minus half, `times` times. */
  #schedule(ms: number, act: () => void, times: number): void {
    if (times < 1) return;
    this.scheduler.after(ms / 2 + this.scheduler.random.below(ms), () => {
      this.guard(act);
      this.#schedule(ms, act, times - 1);
    });
  }

  async #step(): Promise<void> {
    if (!(await this.scheduler.step())) throw new Violation("the event queue is empty");
    if (this.#violation !== undefined) throw this.#violation;
  }

  #nextBlock(): void {
    if (this.#isOver) return;
    const { chain, scheduler, faults } = this;
    const { random } = scheduler;
    for (let count = random.pick([1, 1, 1, 1, 1, 2, 0, 3]); count > 0; count--) chain.mine();
    if (this.#losesBlocks && this.isHostile) this.#loseBlock(chain.head);
    this.#floor = Math.max(this.#floor, this.#finalAt(chain.head.number));
    if (scheduler.time < this.#stalledUntil) return;
    if (scheduler.chance(0.02)) {
      faults.hit("finality stalls");
      this.#stalledUntil = scheduler.time + random.below(40_000);
      return;
    }
    chain.finalizedNumber = Math.max(chain.finalizedNumber, this.#finalAt(chain.head.number));
    if (!this.#isDistant) return;
    if (chain.head.number - chain.finalizedNumber > SHORT.headers.most) faults.hit("finality far behind");
    // The tag catches up by a part of its way, or by all of it.
    if (scheduler.chance(0.01)) {
      faults.hit("finality jumps");
      chain.finalizedNumber += random.below(chain.head.number - chain.finalizedNumber + 1);
    }
  }

  #finalAt(head: number): number {
    return Math.max(0, head - this.finalityDepth);
  }

  /** Each of the nodes loses one block in some, which it has again after a while. */
  #loseBlock({ number, hash }: SimBlock): void {
    if (number % 5 !== 0) return;
    for (const node of this.nodes) {
      node.hollow.add(hash);
      this.scheduler.after(HOLLOW_MS, () => node.hollow.delete(hash));
    }
  }

  #misfortune(): void {
    const { chain, scheduler, faults } = this;
    const { random } = scheduler;
    const victim = this.#processes.length === 0 ? undefined : random.pick(this.#processes);
    const deepest = chain.head.number - this.finalNumber;
    switch (random.below(10)) {
      case 0:
      case 1: {
        if (deepest < 1) return;
        const depth = 1 + random.below(random.below(3) === 0 ? deepest : Math.min(deepest, 3));
        if (random.below(2) === 0) {
          faults.hit("node on a losing fork");
          random.pick(this.nodes).stayBehind(random.below(8_000));
        }
        this.#fork(depth);
        return;
      }
      case 2:
        faults.hit("lagging node");
        random.pick(this.nodes).lag(1 + random.below(8), random.below(10_000));
        return;
      case 9:
        // At most one of several nodes is stuck, and for good. The others must be enough.
        if (this.nodes.length < 2 || this.nodes.some((node) => node.isStuck) || random.below(4) > 0) return;
        faults.hit("node stuck for good");
        random.pick(this.nodes).getStuck();
        // Usually it is stuck on a losing branch.
        if (deepest >= 1 && random.below(4) > 0) this.#fork(1 + random.below(Math.min(deepest, 5)));
        return;
      case 3:
        if (victim === undefined || random.below(2) === 0) return;
        faults.hit("crash");
        victim.kill();
        this.#replace(victim);
        return;
      case 4:
        if (victim === undefined) return;
        faults.hit("pause");
        victim.clock.pause(random.below(8_000));
        return;
      case 5:
        if (victim === undefined) return;
        faults.hit("clock jump");
        victim.clock.skew = random.below(4 * 3_600_000) - 2 * 3_600_000;
        return;
      case 6:
        if (victim === undefined || !this.#hasOutages) return;
        victim.uplink.fault = random.pick(["all nodes silent for a process", "all nodes down for a process"] as const);
        victim.uplink.until = scheduler.time + random.below(15_000);
        return;
      case 8:
        if (this.#hasOperator && victim?.started === true) this.#operate(victim);
        return;
      case 7:
        if (this.#losesLog) this.#loseLog(1 + random.below(random.pick([3, 30])));
        return;
      default:
        return;
    }
  }

  /**
   * The log loses its last appends, and all processes start anew: those that have seen a lost record drop their memory,
   * which is the same. Often the chain replaces the blocks of the lost records at the same time.
   */
  #loseLog(count: number): void {
    const { chain, scheduler, faults } = this;
    faults.hit("log goes back");
    this.disk.goBack(count);
    this.#witness = new Witness(chain, this.#mayDoubt);
    for (const { stream, events } of this.disk.history()) this.#witness.see(stream, events, true);
    for (const process of this.#processes.splice(0)) {
      process.kill();
      this.#spawn();
    }
    const deepest = chain.head.number - this.finalNumber;
    if (deepest >= 1 && scheduler.chance(0.5)) this.#fork(1 + scheduler.random.below(Math.min(deepest, 5)));
  }

  #operate(process: SimProcess): void {
    const { random } = this.scheduler;
    if (this.#requested.size === 0) return;
    const isRemoval = random.below(3) === 0;
    this.faults.hit(isRemoval ? "collection removed" : "collection indexed anew");
    const address = random.pick([...this.#requested]);
    this.#expectFine(process.beginAnew(address, isRemoval ? "CollectionRemoved" : "ReindexRequested"));
  }

  /** Keeps a failure of work that may only fail in ways that a client is told to repeat. */
  #expectFine(work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      const isExpected = error instanceof AppError && (error.retryable || error instanceof ConcurrencyError);
      if (!isExpected) this.#violation ??= error;
    });
  }

  #fork(depth: number): void {
    const { chain, scheduler, faults } = this;
    const length = Math.max(1, depth + 1 - scheduler.random.below(3));
    if (length < depth) faults.hit("fork to a shorter chain");
    faults.hit("fork");
    chain.fork(depth, length);
    this.#floor = Math.max(this.#floor, this.#finalAt(chain.head.number));
  }

  /** Acts as the clients: requests collections, subscribes, reads pages. Every answer must be true. */
  #client(): void {
    const { random } = this.scheduler;
    if (this.#processes.length === 0) return;
    const process = random.pick(this.#processes);
    if (!process.started) return;
    const { address } = random.pick(this.chain.contracts);
    switch (random.below(8)) {
      case 0:
        this.#requested.add(address);
        this.#expectFine(process.request(address));
        return;
      case 1:
        this.#requested.add(address);
        this.#expectFine(process.subscribe(address));
        return;
      default:
        this.#expectFine(this.#readPage(process, address));
    }
  }

  async #readPage(process: SimProcess, address: Address): Promise<void> {
    const { random } = this.scheduler;
    const holders = random.below(3) === 0;
    const head = process.indexing.view.head()?.number ?? 0;
    const asOfBlock = random.below(3) === 0 ? Math.max(0, head - random.below(40)) : undefined;
    const limit = random.pick([500, 500, 7]);
    let page: Page;
    try {
      page = await process.page(address, { holders, asOfBlock, limit });
    } catch (error) {
      // The block has not been read yet, or the head has fallen behind it meanwhile.
      if (error instanceof Refusal && (error.code === "not_indexed_yet" || asOfBlock !== undefined)) return;
      throw error;
    }
    let walk = this.#checkPage(page, address, holders, []);
    // A walk continues while the chain changes. All its pages are true at the first page's block, or it ends with 410.
    for (let { cursor } = walk; cursor !== null; { cursor } = walk) {
      // The finalised block moves past the walk's block meanwhile, so that no header tells whether it was orphaned.
      const isLong = (this.#losesLog || this.#isDistant) && random.below(4) === 0;
      if (isLong) await new Promise<void>((resolve) => this.scheduler.after(10_000 + random.below(30_000), resolve));
      else await process.clock.sleep(random.below(400));
      const able = this.#processes.filter((one) => one.started);
      if (able.length === 0) return;
      try {
        page = await random.pick(able).page(address, { cursor });
      } catch (error) {
        if (error instanceof Refusal && (error.code === "cursor_reorged" || error.code === "not_indexed_yet")) return;
        throw error;
      }
      walk = this.#checkPage(page, address, holders, walk.records);
    }
  }

  /** Compares a page, and the earlier pages of its walk, with the truth. Returns the walk so far. */
  #checkPage(page: Page, address: Address, holders: boolean, before: readonly Row[]): Walk {
    const { result, cursor } = JSON.parse(new TextDecoder().decode(page.body)) as {
      result: Record<string, string>[];
      cursor: string | null;
    };
    const records = [...before, ...result.map(rowOf)];
    if (page.block === undefined) {
      check(records.length === 0, "a page without a block has records");
      return { records, cursor };
    }
    const block = this.#blockOf(page);
    check(block?.number === page.block, `a page names block ${page.block} ${page.hash}, which never existed`);
    const truth = this.#truth(address, block, holders);
    const isWhole = cursor !== null || records.length === truth.length;
    check(
      isWhole && records.every((row, index) => row === truth[index]),
      `the listing of ${address} at block ${block.number} ${block.hash} is\n${records.join("\n")}\nnot\n${truth.join("\n")}`,
    );
    return { records, cursor };
  }

  /** The block of a page. Without a hash of its own, it lies on the branch of the known block above it, or is final. */
  #blockOf({ block = 0, hash, above }: Page): SimBlock | undefined {
    if (hash !== "") return this.chain.blocks.get(hash);
    return above === undefined ? this.chain.canonical[block] : this.chain.branchOf(above.hash)[block];
  }

  /** The true listing on the branch of a block. */
  #truth(address: Address, { hash, number }: SimBlock, holders: boolean): readonly Row[] {
    const key = `${address}${hash}${holders}`;
    let rows = this.#truths.get(key);
    if (rows === undefined) {
      rows = modelListing(this.chain.transfersOf(address, hash), number, holders).map(rowOfModel);
      this.#truths.set(key, rows);
    }
    return rows;
  }

  /** Stops the faults, requests every contract, and runs until all are indexed. */
  async calmDown(): Promise<void> {
    this.isHostile = false;
    this.#stalledUntil = 0;
    if (this.#restartsAtLast) this.#restartAll();
    for (const { address } of this.chain.contracts) this.#requested.add(address);
    this.#schedule(BLOCK_MS, () => this.#nextBlock(), LAST_BLOCKS);
    const last = this.scheduler.time + LAST_BLOCKS * 2 * BLOCK_MS;
    const isBehind = () => this.nodes.some((node) => node.isBehind && !node.isStuck);
    while (this.#processes.length === 0 || this.scheduler.time < last || isBehind()) await this.#step();
    // A stuck node at the same height as the final head would be indistinguishable from it. So the chain must end
    // higher.
    const stuckAt = Math.max(...this.nodes.map(({ isStuck, blocks }) => (isStuck ? blocks.length - 1 : 0)));
    while (this.chain.head.number <= stuckAt) this.chain.mine();
    this.#isOver = true;
    for (const address of this.#requested) this.#processes[0]!.request(address).catch(() => undefined);
    const patience = this.scheduler.time + PATIENCE_MS;
    for (let left = await this.#unfinished(); left !== undefined; left = await this.#unfinished()) {
      check(this.scheduler.time < patience, `unfinished after ${PATIENCE_MS} ms of calm: ${left}`);
      for (let i = 0; i < 200; i++) await this.#step();
    }
  }

  /**
   * Restarts every process with a clock hours ahead, so that benched endpoints are called again and postponed jobs are
   * due. Most worlds end this way because it saves waiting. The others show that no restart is needed.
   */
  #restartAll(): void {
    for (const process of this.#processes.splice(0)) {
      process.kill();
      this.#spawn(LATER_MS);
    }
  }

  /** Describes one thing that a process doesn't know yet. Undefined when all processes know everything. */
  async #unfinished(): Promise<string | undefined> {
    const { chain } = this;
    for (const process of this.#processes) {
      const head = process.indexing.view.head();
      if (head?.hash !== chain.head.hash) return `${process.name} is at ${head?.number} of ${chain.head.number}`;
      for (const { address, kind } of chain.contracts) {
        const { status, failure, version, isRemoved } = await this.#awaited(process.collection(address));
        // A removal that an operator began before may be written after the last request.
        if (isRemoved) process.request(address).catch(() => undefined);
        const wanted = kind === "erc20" ? "not_nft" : kind === "none" ? "not_a_contract" : "synced";
        // Its node lagged behind the contract's creation at the time of the request.
        const isMistaken = status !== wanted && status.startsWith("not_");
        if (isMistaken) process.requestAgain(address, version).catch(() => undefined);
        if (status !== wanted) return `${kind} ${address} is ${status} (${failure?.reason}) at ${process.name}`;
      }
    }
    return this.#processes.length === 0 ? "no process is left" : undefined;
  }

  /** Runs the world until a promise settles. */
  async #awaited<T>(promise: Promise<T>): Promise<T> {
    let outcome: { value: T } | { error: unknown } | undefined;
    promise.then(
      (value) => {
        outcome = { value };
      },
      (error: unknown) => {
        outcome = { error };
      },
    );
    while (outcome === undefined) await this.#step();
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  }

  /** Checks that every process knows the truth, including a fresh one that has only the log. */
  async judge(): Promise<void> {
    this.#spawn();
    const fresh = this.#processes.at(-1)!;
    while (!fresh.started || fresh.indexing.view.head()?.hash !== this.chain.head.hash) await this.#step();
    for (const process of this.#processes) {
      for (const { address, kind } of this.chain.contracts) {
        if (kind === "erc20" || kind === "none") continue;
        const past = Array.from({ length: 3 }, () => this.scheduler.random.below(this.chain.head.number));
        for (const asOfBlock of [undefined, ...past]) {
          for (const holders of [false, true]) {
            const page = await this.#awaited(process.page(address, { asOfBlock, holders }));
            this.#checkPage(page, address, holders, []);
            const isNewest = asOfBlock !== undefined || page.hash === this.chain.head.hash;
            check(isNewest, `the newest page of ${address} is at block ${page.block}, not at the head`);
          }
        }
      }
      this.#checkTold(process);
    }
  }

  /** Checks that `indexed` came at most once per collection, and once more after a new index, with a true total. */
  #checkTold({ listener: { told }, name }: SimProcess): void {
    const seen = new Set<string>();
    for (const message of told) {
      if (message.type === "status" && "gap" in message) seen.delete(message.address);
      if (message.type !== "indexed") continue;
      check(!seen.has(message.address), `${name} sent indexed twice for ${message.address}`);
      seen.add(message.address);
      const block = this.chain.blocks.get(message.hash as never);
      check(block?.number === message.block, "indexed names a block that never existed");
      const truth = modelListing(this.chain.transfersOf(message.address as Address, block.hash), block.number, false);
      check(
        truth.length === message.total,
        `${message.address} has ${truth.length} records, but indexed says ${message.total}`,
      );
    }
  }
}

type Row = string;
/** The records of a listing read so far, and the cursor of the next page. */
interface Walk {
  readonly records: Row[];
  readonly cursor: string | null;
}
const NAMES: Record<string, string> = { ERC721: "721", ERC1155: "1155", CRYPTOPUNKS: "punk" };

function rowOf(record: Record<string, string>): Row {
  const { contract_type = "", token_id, owner_of = "", amount, block_number, block_number_minted } = record;
  const owner = owner_of === "" ? -1 : Number(owner_of);
  return [NAMES[contract_type], token_id, owner, amount, block_number, block_number_minted].join();
}

function rowOfModel({ kind, id, owner, amount, block, blockMinted }: ReturnType<typeof modelListing>[number]): Row {
  const name = kind === TransferKind.erc1155 ? "1155" : kind === TransferKind.cryptopunks ? "punk" : "721";
  return [name, id, owner, amount, block, blockMinted].join();
}
