/**
 * A world drawn from a seed: a chain, nodes of some temper, processes over one log, and misfortunes of every kind. It
 * runs for at least 200 blocks, checking at each step what must hold, then calms down, and in the end everybody must
 * know the truth.
 */
import { ApiError, AppError, ConcurrencyError } from "../../src/core/errors.ts";
import type { Address } from "../../src/core/hex.ts";
import { createLogger, silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import type { DomainEvent, StreamName } from "../../src/events/types.ts";
import type { Page } from "../../src/listings/pages.ts";
import type { Verify } from "../../src/rpc/port.ts";
import { modelListing } from "../nfts/model.ts";
import { type Kind, type SimBlock, SimChain } from "./chain.ts";
import { type EndpointWorld, SimNode, type Temper } from "./endpoint.ts";
import { FaultCounter } from "./faults.ts";
import { SimDisk } from "./log.ts";
import { type ProcessWorld, SimProcess } from "./process.ts";
import { EPOCH, Scheduler } from "./scheduler.ts";
import { check, Violation, Witness } from "./witness.ts";

const HISTORY = 60;
const BLOCKS = 200;
const BLOCK_MS = 1_000;
/** Somebody asks for something this often. */
const CLIENT_MS = 500;
/** Blocks after the last misfortune. */
const LAST_BLOCKS = 3;
/** Blocks below the head that the nodes call final, and the depth where the tag is refused. */
const FINALITY = 12;
/** Longer than any job backs off. */
const LATER_MS = 4 * 3_600_000;
/** Virtual time after which a world that has calmed down must be done: jobs back off up to an hour. */
const PATIENCE_MS = 3 * 3_600_000;

/** `SIMULATION_TRACE=1` prints what a world is like and every append in it. */
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

/** Runs one world. @throws Violation, or whatever the code under test threw where it must not */
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
  readonly finalityDepth = FINALITY;
  readonly logger = process.env["SIMULATION_LOG"] === undefined ? silentLogger : createLogger("debug");
  readonly logFault: number;
  readonly crashAtAppend: number;
  readonly pauseAtAppend: number;
  isHostile = true;
  readonly #processes: SimProcess[] = [];
  readonly #witness: Witness;
  readonly #requested = new Set<Address>();
  /** Listings of blocks, as far as they were asked for. */
  readonly #truths = new Map<string, readonly Row[]>();
  #violation: unknown;
  #stalledUntil = 0;
  /** Blocks below this are final for some node, whatever becomes of the branch. */
  #floor = 0;
  #names = 0;
  readonly #restartsAtLast: boolean;
  /** No more blocks. */
  #isOver = false;

  get finalNumber(): number {
    return Math.max(this.chain.finalizedNumber, this.#floor);
  }

  constructor(seed: number) {
    this.#restartsAtLast = seed % 4 !== 0;
    this.scheduler = new Scheduler(seed);
    const { random } = this.scheduler;
    const kinds: Kind[] = [random.pick(["erc721", "erc1155"] as const), random.pick(["punks", "unindexed"] as const)];
    kinds.push("erc721", random.pick(["erc20", "none", "erc1155"] as const));
    const contracts = kinds.map((kind, index) => ({
      kind,
      address: `0x${(0xc0de00 + index).toString(16).padStart(40, "0")}` as Address,
      createdAt: kind === "erc721" ? random.below(HISTORY) : random.below(5),
    }));
    this.chain = new SimChain(random, contracts, EPOCH / 1_000 - HISTORY * 2 + seed);
    for (let i = 1; i < HISTORY; i++) this.chain.mine();
    this.chain.finalizedNumber = HISTORY - 1 - FINALITY;
    this.#floor = this.chain.finalizedNumber;
    this.verify = random.pick(["sample", "headers", "receipts"] as const);
    this.logFault = random.pick([0, 0.002, 0.01]);
    this.crashAtAppend = random.pick([0, 0.002, 0.01]);
    this.pauseAtAppend = random.pick([0, 0.01, 0.03]);
    this.nodes = this.#drawNodes();
    this.#witness = new Witness(this.chain);
    this.disk = new SimDisk(({ stream, events, version, writer }) => {
      if (TRACE) for (const event of events) console.log(describe(this.scheduler.time, stream, version, event));
      const leases = [`follow/1 ${writer}`, `index/${stream} ${writer}`];
      const isEntitled = leases.some((lease) => this.disk.held.has(lease));
      this.#guard(() => this.#witness.see(stream, events, isEntitled));
    });
    for (let i = 1 + random.below(3); i > 0; i--) this.#spawn();
  }

  #drawNodes(): SimNode[] {
    const { random } = this.scheduler;
    const count = 1 + random.below(3);
    const liar = random.below(2) === 0 ? random.below(count) : -1;
    // Who leaves logs out is only found out by receipts, so the nodes of a liar's world have them.
    const omissions = { sample: "unfinalised blocks", headers: "whole blocks", receipts: "any log" } as const;
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
      // Whoever refuses nothing may try for too long: without a draw, which would make other worlds of all seeds.
      const isSlow = temper.maxRange === undefined && temper.maxLogs === undefined && temper.stateDepth === 4;
      if (isSlow) Object.assign(temper, { maxTimely: 30 });
      if (TRACE) console.log(`eth#${index + 1} ${JSON.stringify(temper)}, VERIFY=${this.verify}`);
      return new SimNode(`eth#${index + 1}`, temper, this);
    });
  }

  /** Keeps the first thing that must not be, wherever in the code under test it came up. */
  #guard<T>(work: () => T): T | undefined {
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

  /** A dead process is started again after a while. */
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

  /** Calls `act` every `ms`, give or take half, so many times. */
  #schedule(ms: number, act: () => void, times: number): void {
    if (times < 1) return;
    this.scheduler.after(ms / 2 + this.scheduler.random.below(ms), () => {
      this.#guard(act);
      this.#schedule(ms, act, times - 1);
    });
  }

  async #step(): Promise<void> {
    if (!(await this.scheduler.step())) throw new Violation("nothing is left to happen");
    if (this.#violation !== undefined) throw this.#violation;
  }

  #nextBlock(): void {
    if (this.#isOver) return;
    const { chain, scheduler, faults } = this;
    const { random } = scheduler;
    for (let count = random.pick([1, 1, 1, 1, 1, 2, 0, 3]); count > 0; count--) chain.mine();
    this.#floor = Math.max(this.#floor, chain.head.number - FINALITY);
    if (scheduler.time < this.#stalledUntil) return;
    if (scheduler.chance(0.02)) {
      faults.hit("finality stalls");
      this.#stalledUntil = scheduler.time + random.below(40_000);
      return;
    }
    chain.finalizedNumber = Math.max(chain.finalizedNumber, chain.head.number - FINALITY);
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
        // One of several at most, and for good: the others must do.
        if (this.nodes.length < 2 || this.nodes.some((node) => node.isStuck) || random.below(4) > 0) return;
        faults.hit("node stuck for good");
        random.pick(this.nodes).getStuck();
        // Mostly on a branch that loses.
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
      default:
        return;
    }
  }

  #fork(depth: number): void {
    const { chain, scheduler, faults } = this;
    const length = Math.max(1, depth + 1 - scheduler.random.below(3));
    if (length < depth) faults.hit("fork to a shorter chain");
    faults.hit("fork");
    chain.fork(depth, length);
    this.#floor = Math.max(this.#floor, chain.head.number - FINALITY);
  }

  /** What clients do: ask for collections, listen, read pages; whatever they read must be true. */
  #client(): void {
    const { random } = this.scheduler;
    if (this.#processes.length === 0) return;
    const process = random.pick(this.#processes);
    if (!process.started) return;
    const { address } = random.pick(this.chain.contracts);
    const fine = (work: Promise<unknown>) => {
      work.catch((error: unknown) => {
        const isExpected = error instanceof AppError && (error.retryable || error instanceof ConcurrencyError);
        if (!isExpected) this.#violation ??= error;
      });
    };
    switch (random.below(8)) {
      case 0:
        this.#requested.add(address);
        fine(process.request(address));
        return;
      case 1:
        this.#requested.add(address);
        fine(process.subscribe(address));
        return;
      default:
        fine(this.#readPage(process, address));
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
      // Not read as far yet, or the head fell back behind it meanwhile.
      if (error instanceof ApiError && (error.status === 409 || asOfBlock !== undefined)) return;
      throw error;
    }
    let walk = this.#checkPage(page, address, holders, []);
    // A walk goes on while the world turns: all of it is true at its first page's block, or it ends with 410.
    for (let { cursor } = walk; cursor !== null; { cursor } = walk) {
      await process.clock.sleep(random.below(400));
      const able = this.#processes.filter((one) => one.started);
      if (able.length === 0) return;
      try {
        page = await random.pick(able).page(address, { cursor });
      } catch (error) {
        if (error instanceof ApiError && (error.status === 410 || error.status === 409)) return;
        throw error;
      }
      walk = this.#checkPage(page, address, holders, walk.records);
    }
  }

  /** Holds a page, and the walk before it, against the truth; returns the walk so far. */
  #checkPage(page: Page, address: Address, holders: boolean, before: readonly Row[]): Walk {
    const { result, cursor } = JSON.parse(new TextDecoder().decode(page.body)) as {
      result: Record<string, string>[];
      cursor: string | null;
    };
    const records = [...before, ...result.map(rowOf)];
    if (page.block === undefined) {
      check(records.length === 0, "a page of no block has records");
      return { records, cursor };
    }
    const block = page.hash === "" ? this.chain.canonical[page.block] : this.chain.blocks.get(page.hash as never);
    check(block?.number === page.block, `a page is true at block ${page.block} ${page.hash}, which never was`);
    const truth = this.#truth(address, block, holders);
    const isWhole = cursor !== null || records.length === truth.length;
    check(
      isWhole && records.every((row, index) => row === truth[index]),
      `the listing of ${address} at block ${block.number} ${block.hash} is\n${records.join("\n")}\nnot\n${truth.join("\n")}`,
    );
    return { records, cursor };
  }

  /** The listing as it is on the branch of a block. */
  #truth(address: Address, { hash, number }: SimBlock, holders: boolean): readonly Row[] {
    const key = `${address}${hash}${holders}`;
    let rows = this.#truths.get(key);
    if (rows === undefined) {
      rows = modelListing(this.chain.transfersOf(address, hash), number, holders).map(rowOfModel);
      this.#truths.set(key, rows);
    }
    return rows;
  }

  /** No more misfortunes; all that is to be indexed is asked for, and time goes on until it is. */
  async calmDown(): Promise<void> {
    this.isHostile = false;
    this.#stalledUntil = 0;
    if (this.#restartsAtLast) this.#restartAll();
    for (const { address } of this.chain.contracts) this.#requested.add(address);
    this.#schedule(BLOCK_MS, () => this.#nextBlock(), LAST_BLOCKS);
    const last = this.scheduler.time + LAST_BLOCKS * 2 * BLOCK_MS;
    const isBehind = () => this.nodes.some((node) => node.isBehind && !node.isStuck);
    while (this.#processes.length === 0 || this.scheduler.time < last || isBehind()) await this.#step();
    // Level with a branch that lost, a chain that ends tells nobody which of the two it is.
    const stuckAt = Math.max(...this.nodes.map(({ isStuck, blocks }) => (isStuck ? blocks.length - 1 : 0)));
    while (this.chain.head.number <= stuckAt) this.chain.mine();
    this.#isOver = true;
    for (const address of this.#requested) this.#processes[0]!.request(address).catch(() => undefined);
    const patience = this.scheduler.time + PATIENCE_MS;
    for (let left = await this.#unfinished(); left !== undefined; left = await this.#unfinished()) {
      check(this.scheduler.time < patience, `after ${PATIENCE_MS} ms of calm: ${left}`);
      for (let i = 0; i < 200; i++) await this.#step();
    }
  }

  /**
   * Everybody is started anew, hours later by its clock: who was benched is asked again, and what was put off is due. Most
   * worlds end so, for it saves waiting; the others show that nobody has to be restarted.
   */
  #restartAll(): void {
    for (const process of this.#processes.splice(0)) {
      process.kill();
      this.#spawn(LATER_MS);
    }
  }

  /** What a process still does not know; undefined when all do. */
  async #unfinished(): Promise<string | undefined> {
    const { chain } = this;
    for (const process of this.#processes) {
      const head = process.indexing.view.head();
      if (head?.hash !== chain.head.hash) return `${process.name} is at ${head?.number} of ${chain.head.number}`;
      for (const { address, kind } of chain.contracts) {
        const { status, failure, version } = await this.#awaited(process.collection(address));
        const wanted = kind === "erc20" ? "not_nft" : kind === "none" ? "not_a_contract" : "synced";
        // Its node lagged behind the contract's creation when it was asked.
        const isMistaken = status !== wanted && status.startsWith("not_");
        if (isMistaken) process.requestAgain(address, version).catch(() => undefined);
        if (status !== wanted) return `${kind} ${address} is ${status} (${failure?.reason}) at ${process.name}`;
      }
    }
    return this.#processes.length === 0 ? "no process is left" : undefined;
  }

  /** Lets the world turn until a promise settles. */
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

  /** Everybody, and somebody who has only the log, knows the truth. */
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
            check(isNewest, `the newest page of ${address} is of block ${page.block}, not of the head`);
          }
        }
      }
      this.#checkTold(process);
    }
  }

  /** `indexed` came at most once a collection, and its total is true. */
  #checkTold({ told, name }: SimProcess): void {
    const seen = new Set<string>();
    for (const message of told) {
      if (message.type !== "indexed") continue;
      check(!seen.has(message.address), `${name}'s subscriber was told twice that ${message.address} is indexed`);
      seen.add(message.address);
      const block = this.chain.blocks.get(message.hash as never);
      check(block?.number === message.block, "a collection was indexed at a block that never was");
      const truth = modelListing(this.chain.transfersOf(message.address as Address, block.hash), block.number, false);
      check(truth.length === message.total, `${message.address} has ${truth.length} records, not ${message.total}`);
    }
  }
}

type Row = string;
/** What was read of a listing so far, and where it goes on. */
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
