/**
 * Spam and verification flags of one chain's collections, as facts of their streams. In: the rules and the operator's
 * lists. Out: `FlagsChanged` events for the stream's current writer (the indexing job, later the follower), so that no
 * two processes write them. The rules themselves are in `nfts/flags`.
 */
import { isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Lifecycle } from "../core/lifecycle.ts";
import type { Logger } from "../core/logger.ts";
import { type ContractIdentified, type FlagsChanged, type NftEvent, nftStream } from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import { AIRDROP_SHAPE } from "../nfts/airdrop.ts";
import { type FlagLists, judge, RULES_VERSION, ruleOfWords } from "../nfts/flags.ts";
import type { IndexState } from "./headline.ts";

/** The history's shape is judged again after this many transfers, and after a tenth of the previous count. */
const RESHAPE_AFTER = 100;

export interface FlagsOptions {
  readonly chainId: number;
  readonly log: EventLog;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
  readonly lists: () => FlagLists;
  /** Judges a collection's history. Undefined: no flag depends on history. */
  readonly shapeOf: ShapeOf | undefined;
  /** Called after a finding that the follower should write soon. */
  readonly onFound: () => void;
}

/** Returns the number of a collection's transfers, and true for `airdrop` if they have an airdrop's shape. */
export type ShapeOf = (address: Address) => Promise<{ readonly airdrop: boolean; readonly transfers: number }>;

/** The part of the headline that is about flags. */
type FlagState = Pick<IndexState, "rulesVersion" | "wordRule" | "shapeRule" | "spam" | "verified" | "flagRule">;

export interface FlagChange {
  readonly events: readonly FlagsChanged[];
  readonly state: Partial<FlagState>;
}

const NOTHING: FlagChange = { events: [], state: {} };

export class CollectionFlags {
  readonly #options: FlagsOptions;
  /** Shapes found since the start, by collection. */
  readonly #shapes = new Map<Address, string>();
  /** Transfers left until the shape is judged again. */
  readonly #untilShape = new Map<Address, number>();

  constructor(options: FlagsOptions) {
    this.#options = options;
  }

  /** Returns the change to write together with the contract's identification. */
  identified(address: Address, state: IndexState, { kind, name, symbol }: ContractIdentified): FlagChange {
    // A contract without holdings has nothing to flag.
    if (kind !== "nft") return NOTHING;
    return this.#changeOf(address, { ...state, rulesVersion: RULES_VERSION, wordRule: ruleOfWords({ name, symbol }) });
  }

  /** Returns the change that is due for a collection at `state`, mostly none. */
  due(address: Address, state: IndexState): FlagChange {
    const shape = this.#shapes.get(address);
    return this.#changeOf(address, shape === undefined ? state : { ...state, shapeRule: shape });
  }

  #changeOf(address: Address, state: IndexState): FlagChange {
    const { chainId, lists } = this.#options;
    const { rulesVersion, wordRule, shapeRule } = state;
    const { possibleSpam, verifiedCollection, rule } = judge({ chainId, address, wordRule, shapeRule }, lists());
    const after = {
      rulesVersion,
      wordRule,
      shapeRule,
      spam: possibleSpam,
      verified: verifiedCollection,
      flagRule: rule,
    };
    const isNew = rule !== state.flagRule || possibleSpam !== state.spam || verifiedCollection !== state.verified;
    return {
      events: isNew ? [{ type: "FlagsChanged", possibleSpam, verifiedCollection, rule }] : [],
      state: after,
    };
  }

  /** Like `due`, for a collection whose name was judged by other rules than today's. Reads the name from the log. */
  async rejudged(address: Address, state: IndexState): Promise<FlagChange> {
    const identified = await this.#identification(address);
    if (identified === undefined) return { events: [], state: { rulesVersion: RULES_VERSION } };
    const shape = this.#shapes.get(address);
    return this.identified(address, shape === undefined ? state : { ...state, shapeRule: shape }, identified);
  }

  /** Finds the stream's identification as an NFT, among the first events. Reads one by one: later events are large. */
  async #identification(address: Address): Promise<ContractIdentified | undefined> {
    const stream = nftStream(this.#options.chainId, address);
    for (let from = 1; ; from++) {
      const [recorded] = await this.#options.log.read(stream, { from, limit: 1 });
      const event = recorded?.event as NftEvent | undefined;
      if (event === undefined || event.type === "TransfersCommitted") return undefined;
      if (event.type === "ContractIdentified" && event.kind === "nft") return event;
    }
  }

  /** Judges the shape of a completed collection, in the background. */
  joined(address: Address): void {
    this.#look(address);
  }

  /** Counts new transfers, and judges the shape again after enough of them. */
  moved(address: Address, count: number): void {
    const left = (this.#untilShape.get(address) ?? RESHAPE_AFTER) - count;
    this.#untilShape.set(address, left);
    if (left <= 0) this.#look(address);
  }

  #look(address: Address): void {
    const { lifecycle, shapeOf, logger, chainId, onFound } = this.#options;
    if (shapeOf === undefined) return;
    this.#untilShape.set(address, Number.POSITIVE_INFINITY);
    lifecycle.run(`shape of ${chainId}/${address}`, async (signal) => {
      try {
        const { airdrop, transfers } = await shapeOf(address);
        this.#untilShape.set(address, Math.max(RESHAPE_AFTER, transfers / 10));
        const shape = airdrop ? AIRDROP_SHAPE : "";
        const before = this.#shapes.get(address) ?? "";
        this.#shapes.set(address, shape);
        if (shape !== before && !signal.aborted) onFound();
      } catch (error) {
        this.#untilShape.set(address, RESHAPE_AFTER);
        if (!isAbort(error))
          logger.warn({ err: error, chainId, address }, "the shape of a collection's history could not be judged");
      }
    });
  }
}
