/**
 * Spam and verification flags: the rules (pure, each with an id that the event log stores), the shape of an airdrop,
 * and the `FlagsChanged` events for the stream's current writer, so that no two processes write them.
 */
import type { ChainWork } from "../../chain/consumer.ts";
import { isAbort } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Lifecycle } from "../../core/lifecycle.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { type ContractIdentified, type FlagsChanged, type NftEvent, nftStream } from "../../events/types.ts";
import type { IndexState } from "../collections/headline.ts";
import type { FlagLists } from "../collections/operator-lists.ts";
import { judge, RULES_VERSION, ruleOfWords } from "./word-rules.ts";

/** Id of the rule in the event log. */
const AIRDROP_SHAPE = "airdrop-shape";

/** The history's shape is judged again after this many transfers, and after a tenth of the previous count. */
const RESHAPE_AFTER = 100;

/** Wait before each collection of an older release is measured: 10,000 of them take an hour. */
const PACE_MS = 300;

export interface FlagsOptions extends Pick<ChainWork, "clock" | "log" | "logger"> {
  readonly chainId: number;
  readonly lifecycle: Lifecycle;
  /** The operator's current lists of spam and of verified collections. */
  readonly lists: () => FlagLists;
  /** Judges the shape of a collection's history. Without it no flag depends on history. */
  readonly shapeOf?: ShapeOf | undefined;
  /** Called after a finding that the follower should write soon. */
  readonly onFound: () => void;
}

/** What the whole history of a collection tells. The rest comes from its events, for headlines that lack it. */
export interface Measured {
  /** Version of the stream that was measured. */
  readonly version: number;
  readonly transfers: number;
  readonly nfts: number;
  readonly name: string | null;
  readonly symbol: string | null;
  readonly standard: string | null;
  /** Head at the identification. */
  readonly target: number | null;
}

/**
 * Measures a collection. `airdrop` is true if its transfers have an airdrop's shape.
 * @param isApart true to leave a collection that is not in memory out of it
 */
export type ShapeOf = (
  address: Address,
  isApart: boolean,
) => Promise<{ readonly airdrop: boolean; readonly measured: Measured }>;

/** What is known of the judgement of a collection, beside its flags. */
type FlagState = Pick<IndexState, "rulesVersion" | "wordRule" | "shapeRule">;

interface FlagChange {
  readonly events: readonly FlagsChanged[];
  readonly state: Partial<FlagState>;
}

const NOTHING: FlagChange = { events: [], state: {} };

export class FlagRules {
  readonly #options: FlagsOptions;
  /** Shapes found since the start, by collection. */
  readonly #shapes = new Map<Address, string>();
  /** Transfers left until the shape is judged again. */
  readonly #untilShape = new Map<Address, number>();
  /** Results of measuring that the follower has not written yet. */
  #measured = new Map<Address, Measured>();
  /** Measures collections of older releases one after the other. */
  readonly #catchingUp = new Semaphore(1);

  constructor(options: FlagsOptions) {
    this.#options = options;
  }

  /** Returns the change to write together with the contract's identification. */
  identified(
    address: Address,
    state: IndexState,
    { kind, name, symbol }: Pick<ContractIdentified, "kind" | "name" | "symbol">,
  ): FlagChange {
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
    const isNew = rule !== state.flagRule || possibleSpam !== state.spam || verifiedCollection !== state.verified;
    return {
      events: isNew ? [{ type: "FlagsChanged", possibleSpam, verifiedCollection, rule }] : [],
      state: { rulesVersion, wordRule, shapeRule },
    };
  }

  /** Like `due`, for a collection whose name is new, or was judged by other rules than today's. */
  async rejudged(address: Address, state: IndexState): Promise<FlagChange> {
    const { name, symbol } = state;
    // Headlines of older releases lack the name, which then never changed.
    const identified =
      name === null
        ? await this.#identification(address, state.base)
        : ({ kind: "nft", name, symbol: symbol ?? "" } as const);
    if (identified === undefined) return { events: [], state: { rulesVersion: RULES_VERSION } };
    const shape = this.#shapes.get(address);
    return this.identified(address, shape === undefined ? state : { ...state, shapeRule: shape }, identified);
  }

  /** Finds the stream's identification as an NFT, among the first events. Reads one by one: later events are large. */
  async #identification(address: Address, base: number): Promise<ContractIdentified | undefined> {
    const stream = nftStream(this.#options.chainId, address);
    for (let from = Math.max(1, base); ; from++) {
      const [recorded] = await this.#options.log.read(stream, { from, limit: 1 });
      const event = recorded?.event as NftEvent | undefined;
      if (event === undefined || event.type === "TransfersCommitted") return undefined;
      if (event.type === "ContractIdentified" && event.kind === "nft") return event;
    }
  }

  /** Counts new transfers, and judges the shape again after enough of them. */
  countTransfers(address: Address, count: number): void {
    const left = (this.#untilShape.get(address) ?? RESHAPE_AFTER) - count;
    this.#untilShape.set(address, left);
    if (left <= 0) this.judgeShape(address);
  }

  /** Does work in the background, at a pace that no client feels. */
  #paced<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#catchingUp.run(async () => {
      await this.#options.clock.sleep(PACE_MS, signal);
      return work();
    }, signal);
  }

  /** Returns the collections that were measured since the last call. */
  takeMeasured(): ReadonlyMap<Address, Measured> {
    const measured = this.#measured;
    this.#measured = new Map();
    return measured;
  }

  /** Measures a followed collection whose headline lacks counts, in the background, unless that is under way. */
  catchUp(address: Address): void {
    if (!this.#untilShape.has(address)) this.judgeShape(address, true);
  }

  /** Judges the shape of a completed collection's history and counts it, in the background. */
  judgeShape(address: Address, isApart = false): void {
    const { lifecycle, shapeOf, logger, chainId, onFound } = this.#options;
    if (shapeOf === undefined) return;
    this.#untilShape.set(address, Number.POSITIVE_INFINITY);
    lifecycle.run(`shape of ${chainId}/${address}`, async (signal) => {
      try {
        const judge = () => shapeOf(address, isApart);
        const { airdrop, measured } = await (isApart ? this.#paced(judge, signal) : judge());
        this.#untilShape.set(address, Math.max(RESHAPE_AFTER, measured.transfers / 10));
        this.#measured.set(address, measured);
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
