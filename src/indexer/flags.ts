/**
 * Spam and verification flags of one chain's collections, as facts of their streams. In: what the rules and the
 * operator's lists say. Out: `FlagsChanged` events for whoever writes the stream at the time (the job that identifies
 * and backfills it, then the follower), so that no two processes write them; the rules themselves are in `nfts/flags`.
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

/** The shape is looked at again after so many transfers, and after a tenth of what there was. */
const RESHAPE_AFTER = 100;

export interface FlagsOptions {
  readonly chainId: number;
  readonly log: EventLog;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
  readonly lists: () => FlagLists;
  /** Undefined: nothing is judged by history. */
  readonly shapeOf: ShapeOf | undefined;
  /** Called when something was found that the follower should write soon. */
  readonly onFound: () => void;
}

/** Whether a collection's history has an airdrop's shape, and how many transfers it has. */
export type ShapeOf = (address: Address) => Promise<{ readonly airdrop: boolean; readonly transfers: number }>;

/** What the headline keeps of a collection's flags. */
type FlagState = Pick<IndexState, "rulesVersion" | "wordRule" | "shapeRule" | "spam" | "verified" | "flagRule">;

export interface FlagChange {
  readonly events: readonly FlagsChanged[];
  readonly state: Partial<FlagState>;
}

const NOTHING: FlagChange = { events: [], state: {} };

export class CollectionFlags {
  readonly #options: FlagsOptions;
  /** Shapes found since, by collection. */
  readonly #shapes = new Map<Address, string>();
  /** Transfers until the shape is looked at again. */
  readonly #untilShape = new Map<Address, number>();

  constructor(options: FlagsOptions) {
    this.#options = options;
  }

  /** What must be written with the contract's identification. */
  identified(address: Address, state: IndexState, { kind, name, symbol }: ContractIdentified): FlagChange {
    // A contract without rows has nothing to flag.
    if (kind !== "nft") return NOTHING;
    return this.#changeOf(address, { ...state, rulesVersion: RULES_VERSION, wordRule: ruleOfWords({ name, symbol }) });
  }

  /** What must be written now to a collection whose stream stands at `state`; mostly nothing. */
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

  /** As `due`, for a collection whose words were judged by other rules than today's: they are read from the log. */
  async rejudged(address: Address, state: IndexState): Promise<FlagChange> {
    const identified = await this.#identification(address);
    if (identified === undefined) return { events: [], state: { rulesVersion: RULES_VERSION } };
    const shape = this.#shapes.get(address);
    return this.identified(address, shape === undefined ? state : { ...state, shapeRule: shape }, identified);
  }

  /** The stream's identification as an NFT: among its first events, and read one by one since what follows is large. */
  async #identification(address: Address): Promise<ContractIdentified | undefined> {
    const stream = nftStream(this.#options.chainId, address);
    for (let from = 1; ; from++) {
      const [recorded] = await this.#options.log.read(stream, { from, limit: 1 });
      const event = recorded?.event as NftEvent | undefined;
      if (event === undefined || event.type === "TransfersCommitted") return undefined;
      if (event.type === "ContractIdentified" && event.kind === "nft") return event;
    }
  }

  /** A collection is complete: its shape is looked at, beside everything else. */
  joined(address: Address): void {
    this.#look(address);
  }

  /** So many transfers came in. */
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
          logger.warn({ err: error, chainId, address }, "a collection's shape could not be looked at");
      }
    });
  }
}
