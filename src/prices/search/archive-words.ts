/**
 * What archives told in one read of past blocks, and how much of it the node or another archive confirms. In: the parts that
 * archives told, and what the read concludes from them for each pool. Out: the blocks of which an archive alone says so.
 */
import { Budget } from "../../core/budget.ts";
import { AppError } from "../../core/errors.ts";
import { ArchiveDisprovedError } from "../../rpc/archive/archives.ts";
import type { ArchivedPart, CheckAllowance, LogClaim } from "../../rpc/port.ts";
import type { ArchiveWord, PoolId } from "../market/pools.ts";

/** Calls that a question must have left for a whole check, and the share that a check may take of fewer. */
const [ENOUGH, CHECK_SHARE] = [48, 0.25] as const;
/** Reads until no archive is found wrong: a chain has two archives at most, and its node. */
const ATTEMPTS = 4;

export class ArchiveWords {
  readonly #parts: ArchivedPart[] = [];
  /** Takes in what an archive told. */
  readonly note = (part: ArchivedPart): void => {
    this.#parts.push(part);
  };

  /** The newest archive that told something that no other archive confirms. */
  get label(): string | undefined {
    return this.#parts.findLast(({ isWitnessed }) => !isWitnessed)?.label;
  }

  /**
   * Has claims confirmed. Returns the word of archives for the pools whose claims rest on one.
   * @param shown pools whose claims the node's state confirms
   * @throws ArchiveDisprovedError if an archive was wrong: read again
   */
  async confirm(
    claims: ReadonlyMap<PoolId, LogClaim>,
    shown: ReadonlySet<PoolId> = new Set(),
  ): Promise<Map<PoolId, ArchiveWord>> {
    const words = new Map<PoolId, ArchiveWord>();
    const open: { readonly id: PoolId; readonly claim: LogClaim; readonly part: ArchivedPart }[] = [];
    for (const [id, claim] of claims) {
      const own = this.#parts.filter(
        ({ fromBlock, toBlock }) => fromBlock <= claim.toBlock && toBlock >= claim.fromBlock,
      );
      const [first] = own;
      if (first === undefined) continue;
      words.set(id, { label: first.label });
      const alone = own.filter(({ isWitnessed }) => !isWitnessed);
      const newest = alone.toSorted((a, b) => b.toBlock - a.toBlock)[0];
      if (newest === undefined || shown.has(id)) continue;
      // What the node told itself needs no confirmation.
      const fromBlock = Math.max(claim.fromBlock, Math.min(...alone.map((part) => part.fromBlock)));
      const toBlock = Math.min(claim.toBlock, newest.toBlock);
      const logs = claim.logs.filter(({ blockNumber }) => blockNumber >= fromBlock && blockNumber <= toBlock);
      open.push({ id, part: newest, claim: { ...claim, fromBlock, toBlock, logs } });
    }
    for (const some of Map.groupBy(open, ({ part }) => part.label).values()) {
      const [{ part }] = some as [(typeof some)[number]];
      const confirmed = await part.check(
        some.map(({ claim }) => claim),
        allowance(),
      );
      for (const [at, { id, claim }] of some.entries()) {
        const { fromBlock } = claim;
        const toBlock = confirmed[at]! - 1;
        if (toBlock >= fromBlock) words.set(id, { label: part.label, alone: { fromBlock, toBlock } });
      }
    }
    return words;
  }
}

/** What a check may spend. A figure beside the price has few calls left, and is worth more unconfirmed than not at all. */
function allowance(): CheckAllowance | undefined {
  const { left = Number.POSITIVE_INFINITY } = Budget.current?.logRequests ?? {};
  return left < ENOUGH ? { left: Math.floor(left * CHECK_SHARE) } : undefined;
}

/** Reads again while an archive is found wrong: it rests from then on, and the node or another archive is asked. */
export async function unlessDisproved<T>(read: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ArchiveDisprovedError)) throw error;
      if (attempt === ATTEMPTS) {
        throw new AppError(error.message, { code: "chain_unavailable", retryable: true, cause: error });
      }
    }
  }
}
