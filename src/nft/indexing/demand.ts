/**
 * What clients want of a collection, whichever way they ask: a listing, a subscription, an operator's request. Decides
 * if the log must record the request, and if a key's share allows it.
 */
import type { Clock } from "../../core/clock.ts";
import type { Lifecycle } from "../../core/lifecycle.ts";
import type { Requester } from "../../core/work.ts";
import type { EventLog } from "../../log/event-log.ts";
import type { Collection } from "../collections/collection.ts";
import { type ContractRef, requestIdentification, requestIndexing } from "../collections/requests.ts";
import type { Candidates, Verdict } from "./candidates.ts";

interface DemandOptions {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly lifecycle: Lifecycle;
  readonly candidatesOf: (chainId: number) => Pick<Candidates, "request"> | undefined;
  /** Takes one new collection from the key's quota. @throws Refusal `rate_limited` */
  readonly takeNew: (requester: Requester) => void;
  /** Least time in ms between two identifications of a contract that is no NFT. */
  readonly staleMs: number;
}

/** The part of a collection that decides what a request for it does. */
type Demanded = Pick<Collection, "version" | "isRemoved" | "status" | "identifiedAt">;

export class Demand {
  readonly #options: DemandOptions;

  constructor(options: DemandOptions) {
    this.#options = options;
  }

  /**
   * 1. The collection is indexed, or will be: nothing to do.
   * 2. It is unknown or removed, and an operator asks: the log records the request at once.
   * 3. It is removed, and another key asks: the same, within the key's quota.
   * 4. It is unknown, and another key asks: the chain is asked for code first.
   * 5. The contract was no NFT, some time ago: it is identified again.
   * @returns the verdict about an address that the log does not record
   * @throws Refusal `rate_limited` beyond the key's quota; AppError if the log does not answer
   */
  async request(contract: ContractRef, collection: Demanded, requester: Requester): Promise<Verdict | undefined> {
    const { log, clock, lifecycle, candidatesOf, takeNew } = this.#options;
    const candidates = candidatesOf(contract.chainId);
    if (candidates === undefined) return undefined;
    const { version, isRemoved } = collection;
    const { isOperator } = requester;
    const onNew = () => takeNew(requester);
    if (version === 0 && !isOperator) {
      return candidates.request(contract.address, requester, { version, hasCode: false }, onNew);
    }
    if (version === 0 || isRemoved) {
      if (!isOperator) onNew();
      await requestIndexing({ log, clock }, contract, requester);
      return undefined;
    }
    if (!this.#isDue(collection)) return undefined;
    if (isOperator) {
      lifecycle.run("request identification", () =>
        requestIdentification({ log, clock }, contract, version, requester),
      );
    } else {
      const known = { version, hasCode: collection.status === "not_nft" };
      candidates.request(contract.address, requester, known, () => undefined);
    }
    return undefined;
  }

  #isDue({ status, identifiedAt }: Demanded): boolean {
    const isOver = status === "not_nft" || status === "not_a_contract";
    return isOver && this.#options.clock.now() - identifiedAt >= this.#options.staleMs;
  }
}
