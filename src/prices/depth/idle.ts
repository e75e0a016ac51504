/** How long the token's own pool of a route has had no trade, by its logs. */
import { isoTime } from "../../core/block-time.ts";
import type { Hash } from "../../core/hex.ts";
import type { ChainReader } from "../../rpc/port.ts";
import type { Quote } from "../market/quote.ts";
import { MAX_LOG_REQUESTS, MAX_LOGS, undefinedIfUnreadable } from "../search/past-source.ts";
import { logsOf, STYLES } from "../styles/styles.ts";

/** Blocks of the first range, and the factor by which the ranges grow. */
const FIRST_SPAN = 256;
const GROWTH = 4;

/** The last trade in a pool that is too old for a request. */
interface Idle {
  readonly pool: string;
  /** Null if no trade was found. */
  readonly lastTrade: { readonly block: number; readonly time: string } | null;
  /** How far the search went, if it ended before it found a trade. */
  readonly searched?: { readonly fromBlock: number; readonly toBlock: number; readonly why: string };
}

/**
 * Returns the last trade in the first pool of a route if it is older than `seconds` before the priced block; undefined if
 * it is not. Only the token's own pool counts: the others trade for other tokens, too. A trade that can't be found counts
 * as too old, because the request asked for a price that is known to be active.
 * @throws AppError `chain_unavailable` when no endpoint answers
 */
export async function idleRoute(
  reader: Pick<ChainReader, "logs" | "header">,
  { market, route }: Quote,
  seconds: number,
): Promise<Idle | undefined> {
  const [leg] = route?.legs ?? [];
  // A stablecoin that counts as a dollar by itself is priced by no pool.
  if (leg === undefined) return undefined;
  const { block } = market;
  const { pool } = leg;
  const found = await lastTradeBlock(reader, pool, block.number);
  if (found.block === undefined) {
    const why = found.why ?? "the pool has had no trade";
    return { pool: pool.id, lastTrade: null, searched: { fromBlock: found.from, toBlock: block.number, why } };
  }
  const timestamp = found.block === block.number ? block.timestamp : (await reader.header(found.block))?.timestamp;
  if (timestamp === undefined) {
    const why = "no endpoint tells the time of the last trade's block";
    return { pool: pool.id, lastTrade: null, searched: { fromBlock: found.block, toBlock: block.number, why } };
  }
  if (block.timestamp - timestamp <= seconds) return undefined;
  return { pool: pool.id, lastTrade: { block: found.block, time: isoTime(timestamp) ?? "" } };
}

/** Searches back in growing ranges. `from` is the lowest block that was searched. */
async function lastTradeBlock(
  reader: Pick<ChainReader, "logs">,
  pool: Parameters<typeof logsOf>[0] & { readonly style: keyof typeof STYLES },
  toBlock: number,
): Promise<{ readonly block?: number; readonly from: number; readonly why?: string }> {
  // Camelot's pairs, the only ones whose trades are not computed exactly, log a swap as Uniswap v2's do.
  const { swaps } = STYLES[pool.style].exact ?? STYLES.v2.exact!;
  const topics = Object.keys(swaps) as Hash[];
  const requests = { left: MAX_LOG_REQUESTS };
  let to = toBlock;
  for (let span = FIRST_SPAN; to >= 0; span *= GROWTH) {
    const from = Math.max(0, to - span + 1);
    const filter = { ...logsOf(pool, topics), fromBlock: from, toBlock: to, maxLogs: MAX_LOGS, requests };
    const logs = await undefinedIfUnreadable(reader.logs(filter));
    if (logs === undefined) {
      return {
        from: to + 1,
        why: `the endpoints have no older logs, or it takes more than ${MAX_LOG_REQUESTS} requests`,
      };
    }
    const last = logs.at(-1);
    if (last !== undefined) return { block: last.blockNumber, from };
    to = from - 1;
  }
  return { from: 0 };
}
