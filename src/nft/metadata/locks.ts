/**
 * Whether a token is locked, as its contract tells at a block (ERC-5192). The node is asked when a client reads the token:
 * the state of that very block is exact, which events are not, and few tokens are read. Answers are kept by block.
 */

import { Budget } from "../../core/budget.ts";
import { type Clock, withTimeout } from "../../core/clock.ts";
import type { Address } from "../../core/hex.ts";
import { OwnedCache } from "../../core/owned-cache.ts";
import { FairSlots, NO_KEY, SingleFlight } from "../../core/work.ts";
import type { BlockRef } from "../../events/types.ts";
import { booleanIn, selectorOf } from "../../rpc/calls.ts";
import type { CallResult, ChainReader } from "../../rpc/port.ts";

const SUPPORTS = selectorOf("supportsInterface(bytes4)");
/** ERC-165's own id, the id that no contract may support, and ERC-5192's. */
const CLAIMS = ["01ffc9a7", "ffffffff", "b45a3c0e"].map((id) => `${SUPPORTS}${id.padEnd(64, "0")}`);
const LOCKED = selectorOf("locked(uint256)");
/** Answers kept, a few hundred bytes each. */
const MAX_KEPT = 10_000;
/** Requests to the node at once. */
const SHARES = { places: 8, perKey: 4, forOperators: 1 };
/** Most waiting requests of a key: more wouldn't begin before the longest wait is over. */
const MAX_WAITING = 64;
/** Longest wait of a client. */
const WAIT_MS = 2_000;

export class Locks {
  readonly #reader: Pick<ChainReader, "callsAtBlock">;
  readonly #clock: Clock;
  readonly #slots = new FairSlots({ ...SHARES, maxWaiting: MAX_WAITING, retryAfter: 2, work: "questions about locks" });
  readonly #asking = new SingleFlight<string, boolean | null>();
  readonly #answers = new OwnedCache<string, { readonly isLocked: boolean | null }>(MAX_KEPT);

  constructor(reader: Pick<ChainReader, "callsAtBlock">, clock: Clock) {
    this.#reader = reader;
    this.#clock = clock;
  }

  /** Null if the contract doesn't claim ERC-5192 at the block, or if no endpoint tells soon enough. */
  async lockedAt(to: Address, id: bigint, block: BlockRef): Promise<boolean | null> {
    const read = async (): Promise<boolean | null> => {
      const isClaimed = await this.#once(`${to} ${block.hash}`, async () => {
        const [erc165, invalid, claimed] = (await this.#calls(to, CLAIMS, block)).map(booleanIn);
        // A contract that says yes to every id proves nothing.
        return erc165 === true && invalid !== true && claimed === true;
      });
      if (isClaimed !== true) return null;
      const data = `${LOCKED}${id.toString(16).padStart(64, "0")}`;
      return this.#once(
        `${to} ${id} ${block.hash}`,
        async () => booleanIn((await this.#calls(to, [data], block))[0]) ?? null,
      );
    };
    const answered = await withTimeout(
      this.#clock,
      WAIT_MS,
      read().catch(() => null),
    );
    return answered?.value ?? null;
  }

  async #calls(to: Address, data: readonly string[], block: BlockRef): Promise<readonly CallResult[]> {
    const calls = data.map((each) => ({ to, data: each, isGetter: true }));
    return this.#slots.run(
      Budget.current?.owner ?? NO_KEY,
      async () => (await this.#reader.callsAtBlock(calls, block)).results,
    );
  }

  /** Shares one answer between requests, and forgets failures. */
  async #once(key: string, ask: () => Promise<boolean | null>): Promise<boolean | null> {
    const known = this.#answers.get(key);
    if (known !== undefined) return known.isLocked;
    const isLocked = await this.#asking.run(key, ask);
    this.#answers.set(key, { isLocked }, Budget.payerName);
    return isLocked;
  }
}
