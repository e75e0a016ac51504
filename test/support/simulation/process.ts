/** One process of the service in the simulated world: real indexing, projections, pages and channel over fake edges. */

import type { FollowBounds } from "../../../src/chain/consumer.ts";
import { Leases } from "../../../src/chain/lease.ts";
import { PublishedChain } from "../../../src/chain/view.ts";
import { MULTICALL3 } from "../../../src/chains/chains.ts";
import { LIMITS } from "../../../src/config.ts";
import { Budget } from "../../../src/core/budget.ts";
import { AppError } from "../../../src/core/errors.ts";
import type { Address } from "../../../src/core/hex.ts";
import { Lifecycle } from "../../../src/core/lifecycle.ts";
import type { Logger } from "../../../src/core/logger.ts";
import { nftStream } from "../../../src/events/types.ts";
import type { Collection } from "../../../src/nft/collections/collection.ts";
import { HotCollections } from "../../../src/nft/collections/hot-collections.ts";
import { beginAnew, requestIdentification, requestIndexing } from "../../../src/nft/collections/requests.ts";
import { Demand } from "../../../src/nft/indexing/demand.ts";
import { ChainIndexing } from "../../../src/nft/indexing/indexing.ts";
import { finishPage, type Page } from "../../../src/nft/listings/pages.ts";
import { NO_METADATA } from "../../../src/nft/listings/record.ts";
import { type FirstPage, openCursor, type PageFrom } from "../../../src/nft/walks/cursor.ts";
import { planPage } from "../../../src/nft/walks/plan.ts";
import { currentCollection } from "../../../src/nft/walks/snapshot.ts";
import { Channel } from "../../../src/push/channel.ts";
import type { ServerMessage } from "../../../src/push/message-models.ts";
import { Archives } from "../../../src/rpc/archive/archives.ts";
import { EndpointPool } from "../../../src/rpc/endpoint/endpoint-pool.ts";
import type { Verify } from "../../../src/rpc/port.ts";
import { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { NO_LISTS } from "../following.ts";
import { KNOWN } from "../known-chains.ts";
import { OPERATOR } from "../requesters.ts";
import { type ArchiveWorld, SimArchive } from "./archive.ts";
import { SimEndpoint, type SimNode, Uplink } from "./endpoint.ts";
import { Listener } from "./listener.ts";
import { type SimDisk, SimLog, type SimLogWorld } from "./log.ts";
import { ProcessClock } from "./scheduler.ts";

const eth = KNOWN.byId(1)!;
export const CHAIN_ID = 1;
const SECRET = "the simulation's cursor secret";

export interface ProcessWorld extends ArchiveWorld, SimLogWorld {
  /** The seed of the world's archive; undefined without one. */
  readonly archiveSeed: number | undefined;
  readonly nodes: readonly SimNode[];
  readonly disk: SimDisk;
  readonly verify: Verify;
  readonly finalityDepth: number;
  readonly bounds: FollowBounds | undefined;
  readonly sampledBlocks: number | undefined;
  readonly followEveryMs: number;
  readonly logger: Logger;
  /** Runs a check, and keeps its violation. */
  guard(check: () => void): void;
}

export class SimProcess {
  readonly name: string;
  readonly clock: ProcessClock;
  readonly log: SimLog;
  readonly uplink = new Uplink();
  readonly projections: HotCollections;
  readonly indexing: ChainIndexing;
  readonly listener: Listener;
  started = false;
  readonly #channel: Channel;
  readonly #world: Pick<ProcessWorld, "guard">;
  #isKilled = false;
  readonly #peer = {
    key: OPERATOR,
    send: (message: ServerMessage) => this.#tell(message),
    ask: (work: () => Promise<void>) => work(),
    onRead: () => undefined,
  };

  constructor(name: string, world: ProcessWorld, onCrash: (process: SimProcess) => void) {
    this.name = name;
    this.#world = world;
    this.listener = new Listener({
      chainId: CHAIN_ID,
      rowsOf: (stream) => world.disk.streams.get(stream)?.rows ?? [],
    });
    const { scheduler, nodes, disk, verify, finalityDepth, followEveryMs, logger, bounds, sampledBlocks } = world;
    const clock = new ProcessClock(scheduler);
    this.clock = clock;
    const crash = () => {
      this.kill();
      onCrash(this);
    };
    const log = new SimLog(disk, clock, world, { name, crash });
    this.log = log;
    const lifecycle = new Lifecycle(logger);
    const clockOf = () => this.indexing?.view;
    this.projections = new HotCollections({ log, logger, maxBytes: 1 << 24, clockOf });
    const endpoints = nodes.map((node) => new SimEndpoint(node, this.uplink, clock, world));
    const pool = new EndpointPool({ chain: eth.name, endpoints, clock });

    const reader = new RpcChainReader({
      chainId: CHAIN_ID,
      pool,
      multicall: MULTICALL3,
      finalityDepth,
      depthIsSet: false,
    });
    const { archiveSeed } = world;
    const sources = archiveSeed === undefined ? [] : [new SimArchive(world, clock, archiveSeed + name.length)];
    const archives = new Archives({
      ...{ sources, isGiven: true, minBlocks: 5, clock, logger, chain: eth.name },
      maxBlocks: () => null,
      historyStart: () => undefined,
    });
    const view = new PublishedChain(log, CHAIN_ID, (head) => this.projections.bringTo(CHAIN_ID, head), bounds?.headers);
    const quiet = () => undefined;
    const observer = { held: quiet, lost: quiet, handedOver: () => world.faults.hit("lease handed over") };
    this.indexing = new ChainIndexing({
      chain: eth,
      log,
      reader,
      // Endpoints decode on this thread, so there is no worker to start.
      decoder: { prepare: () => undefined },
      clock,
      logger,
      lifecycle,
      observer: {
        malformed: quiet,
        completed: quiet,
        failed: quiet,
        head: quiet,
        omitted: quiet,
        reorg: quiet,
        halted: quiet,
      },
      leases: new Leases({ log, clock, holder: name, observer }),
      ...{ verify, bounds, sampledBlocks },
      archives,
      followEveryMs,
      lists: () => NO_LISTS,
      // No owners are proven: the contracts of a world answer no calls.
      collectionOf: () => Promise.reject(new AppError("no collections here", { code: "unsupported" })),
      accountOf: () => new Budget(),
      ...{ onVerdict: quiet, onDelayed: quiet, staleMs: LIMITS.reidentifyMs },
      view,
    });
    this.#channel = new Channel({
      chains: KNOWN,
      log,
      projections: this.projections,
      clock,
      logger,
      chainOf: () => view,
      demand: new Demand({
        ...{ log, clock, lifecycle, takeNew: () => undefined, staleMs: LIMITS.reidentifyMs },
        candidatesOf: () => this.indexing.candidates,
      }),
      maxSubscriptions: 100,
    });
    view.onMoved((moved) => this.#channel.onMoved(CHAIN_ID, moved));
    log.subscribe((stream, version, appended) => {
      const isOwn = appended !== undefined;
      const fail = (error: unknown) => logger.debug({ err: error }, "a wake-up was not acted on");
      if (/^(nft|chain)\/1(\/|$)/.test(stream)) this.indexing.onWakeUp(stream, version, isOwn).catch(fail);
    });
    this.#channel.open(this.#peer);
  }

  /** Starts the service. Repeats while the log fails, like a supervisor that restarts it. */
  async start(): Promise<void> {
    for (;;) {
      try {
        await this.indexing.start();
        this.started = true;
        return;
      } catch {
        await this.clock.sleep(1_000);
      }
    }
  }

  /** Kills the process as SIGKILL does. */
  kill(): void {
    this.#isKilled = true;
    this.clock.kill();
    void this.log.close();
  }

  /** Nobody hears what a process says after it was killed. */
  #tell(message: ServerMessage): void {
    if (!this.#isKilled) this.#world.guard(() => this.listener.hear(message));
  }

  request(address: Address): Promise<void> {
    return requestIndexing(this, { chainId: CHAIN_ID, address }, OPERATOR);
  }

  /** Has a collection indexed anew, or removed, as an operator does. */
  async beginAnew(address: Address, type: "ReindexRequested" | "CollectionRemoved"): Promise<void> {
    await beginAnew(this, { chainId: CHAIN_ID, address }, type);
    await this.indexing.changed(nftStream(CHAIN_ID, address));
  }

  /** Requests a new identification, as the route does for a later request of a contract that was found to be no NFT. */
  requestAgain(address: Address, version: number): Promise<void> {
    return requestIdentification(this, { chainId: CHAIN_ID, address }, version, OPERATOR);
  }

  subscribe(address: Address): Promise<void> {
    return this.#channel.receive(this.#peer, JSON.stringify({ action: "subscribe", chain: "eth", address }));
  }

  collection(address: Address): Promise<Collection> {
    return this.projections.get(CHAIN_ID, address);
  }

  /**
   * Reads a page as the route does: the first page of a walk, or a page by a cursor that another process may have made.
   */
  async page(address: Address, ask: Partial<FirstPage> | { cursor: string }): Promise<Page> {
    const { view } = this.indexing;
    const cursor = "cursor" in ask ? openCursor(ask.cursor, SECRET)! : undefined;
    const source = { projections: this.projections, chain: view, chainId: CHAIN_ID, address };
    const collection = await currentCollection(source, cursor);
    const read = (from: PageFrom) => {
      const plan = planPage({ chainId: CHAIN_ID, address }, collection, view, from);
      const facts = plan.entries.map(() => NO_METADATA);
      const page = finishPage(plan, facts, { native: false, cursorSecret: SECRET });
      return { ...page, body: page.body.slice() };
    };
    if (cursor !== undefined) return read({ cursor });
    const first = { limit: 500, hex: false, holders: false, withTotal: true, asOfBlock: undefined, part: undefined };
    return read({ first: { ...first, ...ask } });
  }
}
