/**
 * Several processes over one chain and one log, like replicas. Any of them may follow, and each shows heads on its own.
 */
import { loadChainState, PublishedChain } from "../../../src/chain/view.ts";
import { UNSHARED } from "../../../src/core/budget.ts";
import type { Address } from "../../../src/core/hex.ts";
import {
  type ChainEvent,
  chainStream,
  type HeaderRef,
  type PriceEvent,
  priceStream,
} from "../../../src/events/types.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import type { PriceAnswer } from "../../../src/prices/price-computer.ts";
import { createPrices, type PriceLimits, type Prices } from "../../../src/prices/price-service.ts";
import type { ChainReader } from "../../../src/rpc/port.ts";
import type { FakeChain } from "./fake-chain.ts";
import { parsePriceQuery, type RawPriceQuery } from "./query.ts";
import { eth, ManualClock, untilSearched } from "./world.ts";

const STREAM = chainStream(1);

export class Process {
  readonly prices: Prices;
  readonly view: PublishedChain;
  readonly clock = new ManualClock();
  readonly #chain: FakeChain;
  readonly #log: EventLog;

  /** @param shared charges what is read ahead. `reader`: in place of the chain itself, for a process whose endpoints differ */
  constructor(
    chain: FakeChain,
    log: EventLog,
    limits: Partial<PriceLimits> = {},
    reader: ChainReader = chain,
    shared = UNSHARED,
  ) {
    this.#chain = chain;
    this.#log = log;
    this.view = new PublishedChain(log, 1, async (head) => {
      if (head !== undefined) await this.prices.readAhead(head);
    });
    this.prices = createPrices({ chain: eth, reader, log, view: this.view, clock: this.clock, limits, shared });
  }

  async start(): Promise<this> {
    await this.view.load();
    return this;
  }

  /** Asks again, as clients do, while pools are searched for. */
  ask(address: Address, query: RawPriceQuery = {}): Promise<PriceAnswer> {
    return untilSearched(() => this.prices.answer({ address, ...parsePriceQuery(query) }));
  }

  /** Shows the blocks in the log. */
  async show(): Promise<void> {
    const { version } = await this.#log.head(STREAM);
    await this.view.catchUp(version);
  }

  /** One poll of the chain's follower. */
  async follow(): Promise<void> {
    const state = await loadChainState(this.#log, STREAM);
    const { blocks, tip } = this.#chain;
    const append = (events: ChainEvent[]) =>
      this.#log.append({ stream: STREAM, events, expectedVersion: state.version });
    if (state.head === undefined) {
      const base = blocks[0]!;
      await append([
        { type: "HeadAdvanced", fromBlock: 0, headers: blocks.map(refOf) },
        { type: "ChainFinalized", block: { number: base.number, hash: base.hash } },
      ]);
      return;
    }
    let head: HeaderRef = state.head;
    if (blocks[head.number]?.hash !== head.hash) {
      const orphaned = [];
      while (blocks[head.number]?.hash !== head.hash) {
        orphaned.push({ number: head.number, hash: head.hash });
        head = state.headers.get(head.number - 1)!;
      }
      const ancestor = { number: head.number, hash: head.hash };
      await append([{ type: "ChainReverted", ancestor, orphaned: orphaned.reverse() }]);
      return this.follow();
    }
    if (tip.number <= head.number) return;
    const fromBlock = head.number + 1;
    const headers = blocks.slice(fromBlock);
    await append([{ type: "HeadAdvanced", fromBlock, headers: headers.map(refOf) }]);
  }

  /** The events of the token's price stream. */
  async events(address: Address): Promise<PriceEvent[]> {
    return (await this.#log.read(priceStream(1, address))).map(({ event }) => event as PriceEvent);
  }
}

const refOf = ({ number, hash, parentHash, timestamp }: HeaderRef): HeaderRef => ({
  number,
  hash,
  parentHash,
  timestamp,
});
