/** The parameters of the listing, and how a client names the page that it wants: by where it begins, or by a cursor. */
import { LIMITS } from "../../config.ts";
import { invalidParameter } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { type FirstPage, openCursor } from "../../nft/walks/cursor.ts";
import {
  anyText,
  chainOrDefault,
  choice,
  fixedByCursor,
  flag,
  metadataTime,
  type ParsedValues,
  wholeNumber,
} from "../wire/parameters.ts";
import { CURSOR_EXAMPLE } from "./nft-models.ts";

const DEFAULT_LIMIT = 100;

export const listingQuery = (maxPageSize: number) => {
  const first = fixedByCursor({
    format: choice(
      ["decimal", "hex"],
      { allowed: "must be decimal or hex", default: "decimal" },
      { description: "Format of the token id", example: "decimal" },
    ),
    limit: wholeNumber(
      { min: 1, max: maxPageSize, default: Math.min(DEFAULT_LIMIT, maxPageSize) },
      { description: "Desired page size", example: Math.min(DEFAULT_LIMIT, maxPageSize) },
    ),
    totalRanges: wholeNumber(
      { min: 1, max: LIMITS.maxTotalRanges },
      { description: "Number of subranges to split into", example: 4 },
    ),
    range: wholeNumber(
      { min: 0, max: LIMITS.maxTotalRanges - 1 },
      { description: "Subrange to query, from 0; needs totalRanges", example: 0 },
    ),
    disable_total: flag(true, {
      ...{ description: "false counts the total", example: false },
      deprecated: {
        since: new Date("2026-11-28"),
        instead:
          "The hosted service announced its end. GET /api/collections/{chain}/{address} has the count of a collection's tokens as nfts.",
      },
    }),
    as_of_block: wholeNumber(
      { min: 0 },
      { description: "The listing as it was at the end of that block", example: 21_000_000 },
    ),
    holders: flag(false, { description: "One record per token id and owner", example: false }),
  });
  const { format, limit, totalRanges, range, disable_total, as_of_block, holders } = first;
  return {
    ...{ chain: chainOrDefault, format, limit, totalRanges, range, disable_total },
    cursor: anyText({
      description: "Cursor of the previous page; empty is the same as absent",
      example: CURSOR_EXAMPLE,
    }),
    normalizeMetadata: flag(false, { description: "Adds normalised metadata", example: true }),
    media_items: flag(false, { description: "Adds preview media", example: true }),
    as_of_block,
    metadata_as_of: metadataTime("2026-01-31T12:00:00Z"),
    holders,
  };
};

export type ListingQuery = ParsedValues<ReturnType<typeof listingQuery>>;

/** The parameters of a first page. @throws Refusal 400 */
export function firstPage(query: ListingQuery): FirstPage {
  const { totalRanges, range } = query;
  if (range !== undefined) {
    if (totalRanges === undefined) throw invalidParameter("range", "needs totalRanges, the number of ranges, as well");
    if (range >= totalRanges) {
      throw invalidParameter("range", `must be below totalRanges, so from 0 to ${totalRanges - 1}`);
    }
  }
  return {
    limit: query.limit,
    hex: query.format === "hex",
    holders: query.holders,
    withTotal: !query.disable_total,
    asOfBlock: query.as_of_block,
    part: totalRanges === undefined ? undefined : { range: range ?? 0, totalRanges },
  };
}

/** Opens a cursor. @throws Refusal 400 unless this server made it for this collection */
export function walkOf(cursor: string, secret: string, of: { readonly chainId: number; readonly address: Address }) {
  const walk = cursor.length > LIMITS.maxCursorLength ? undefined : openCursor(cursor, secret);
  if (walk?.chainId === of.chainId && walk.address === of.address) return walk;
  throw invalidParameter("cursor", "must be a cursor of this server, unchanged, for the same address and chain");
}
