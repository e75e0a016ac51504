/**
 * The fees and tick spacings for which factories are asked. A factory's own are read once, by state, in the round trip that
 * asks for its pools at those of the data, and that read finds the pools at the others. A log with which it adds one, or a
 * gap in its logs, has them read anew.
 */
import type { Address } from "../../core/hex.ts";
import type { BlockRef } from "../../events/types.ts";
import type { Pool } from "../market/pools.ts";
import { type CallPlan, together } from "../styles/abi.ts";
import { inAddressOrder, poolOf, type Venue } from "../styles/style.ts";
import { STYLES } from "../styles/styles.ts";
import type { TierQuestion, TiersRead } from "../styles/tiers.ts";

/** What factories told. */
export type Tiers = ReadonlyMap<Address, TiersRead>;

const tiersIn = (venue: Venue): readonly number[] => {
  const by = STYLES[venue.style].tiers?.by;
  return by === undefined ? [] : venue[by];
};

/** The venue with a tier that its factory has announced: state reads try the likely ones only. */
export const withTier = (venue: Venue, tier: number): Venue =>
  tiersIn(venue).includes(tier) ? venue : withTiers(venue, [...tiersIn(venue), tier]);

/** The venue with these tiers, where its pools differ by them. */
function withTiers(venue: Venue, tiers: readonly number[]): Venue {
  const by = STYLES[venue.style].tiers?.by;
  return by === undefined ? venue : { ...venue, [by]: tiers };
}

/** The venue with the tiers that its factory was read to have; if it was not, with those of the data, else the usual ones. */
export function askedVenue(venue: Venue, read: readonly number[] | undefined): Venue {
  const own = tiersIn(venue);
  const { usual = [] } = STYLES[venue.style].tiers ?? {};
  return withTiers(venue, read === undefined ? (own.length > 0 ? own : usual) : [...new Set([...read, ...own])]);
}

/** Reads the tiers of venues, and their pools of these pairs at the tiers that a venue isn't asked for. */
export function planTiers(venues: readonly Venue[], pairs: TierQuestion["pairs"]): CallPlan<Tiers> {
  const able = venues.flatMap((venue) => {
    const { tiers } = STYLES[venue.style];
    const { factory } = venue;
    return tiers === undefined ? [] : [{ factory, plan: tiers.read({ factory, known: tiersIn(venue), pairs }) }];
  });
  const { calls, read } = together(able.map(({ plan }) => plan));
  return {
    calls,
    read(results) {
      const said = read(results);
      return new Map(able.flatMap(({ factory }, at) => (said[at] === undefined ? [] : [[factory, said[at]]])));
    },
  };
}

/** The pools that the read of tiers found. */
export const otherPools = (venues: readonly Venue[], read: Tiers): readonly Pool[] =>
  venues.flatMap((venue) => {
    const isByFee = STYLES[venue.style].tiers?.by === "fees";
    return (read.get(venue.factory)?.others ?? []).map(({ pair, tier, pool }) => {
      const [token0, token1] = inAddressOrder(...pair);
      return poolOf(venue, { id: pool, fee: isByFee ? tier : 0, token0, token1, stableCurve: false });
    });
  });

/** The tiers that a venue has beyond those that it was asked for. */
const beyond = (venue: Venue, read: Tiers): readonly number[] =>
  (read.get(venue.factory)?.tiers ?? []).filter((tier) => !tiersIn(venue).includes(tier));

/** True if a venue has tiers that it was not asked for: lists that were made before may lack pools. */
export const hasOthers = (asked: readonly Venue[], read: Tiers): boolean =>
  asked.some((venue) => beyond(venue, read).length > 0);

/** Those of venues with tiers at which no pools were looked for, with these alone. */
export const unaskedVenues = (asked: readonly Venue[], read: Tiers): readonly Venue[] =>
  asked.flatMap((venue) => {
    const missed = read.get(venue.factory)?.others === undefined ? beyond(venue, read) : [];
    return missed.length === 0 ? [] : [withTiers(venue, missed)];
  });

/** What factories told of their tiers, and at which block. */
export class KnownTiers {
  readonly #known = new Map<Address, { readonly tiers: readonly number[]; readonly at: BlockRef }>();
  readonly #isCurrent: (factory: Address, at: BlockRef) => boolean;

  /** @param isCurrent false if the factory may have added tiers since the block */
  constructor(isCurrent: (factory: Address, at: BlockRef) => boolean) {
    this.#isCurrent = isCurrent;
  }

  /** A factory's tiers; undefined if they must be read. */
  of(factory: Address): readonly number[] | undefined {
    const known = this.#known.get(factory);
    return known !== undefined && this.#isCurrent(factory, known.at) ? known.tiers : undefined;
  }

  note(read: Tiers, { number, hash }: BlockRef): void {
    for (const [factory, { tiers }] of read) this.#known.set(factory, { tiers, at: { number, hash } });
  }
}
