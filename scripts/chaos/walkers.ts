/**
 * Clients over HTTP. A walker reads a listing page by page, each page from the next replica, and compares the whole walk
 * with the contract at the walk's block. It can only compare if that block is in the chain when the comparison ends.
 */
import { createRandom, type Random } from "../local-chain/random.ts";
import { askForPage, askForPrice, type PageFacts } from "./answers.ts";
import type { ChaosCollection } from "./chain.ts";
import type { Cluster } from "./cluster.ts";

interface Page {
  readonly status: string;
  readonly cursor: string | null;
  readonly result: readonly { readonly token_id: string; readonly owner_of: string }[];
}

interface Walk {
  readonly collection: ChaosCollection;
  readonly facts: PageFacts;
  readonly records: readonly (readonly [id: string, owner: string])[];
  /** The replicas that gave the pages, in order. */
  readonly from: readonly string[];
  readonly isSynced: boolean;
}

/** Entry counts per page: a walk takes two to twenty pages. */
const [MIN_LIMIT, MAX_LIMIT] = [7, 40];
const MAX_PAUSE_MS = 150;
const PRICE_PAUSE_MS = 150;
/** Pause before the next replica is asked, after an answer that says to try again. */
const RETRY_MS = 100;
/** Attempts at one page, twenty seconds or more. */
const PAGE_ATTEMPTS = 200;
/** Differences that a violation names. */
const NAMED = 6;

export interface Clients {
  /** Ends the clients after the walks that are under way. */
  stop(): Promise<void>;
}

export function startWalkers(cluster: Cluster, counts: { walkers: number; pricers: number; seed: number }): Clients {
  let isOver = false;
  const random = createRandom(counts.seed ^ 0x51ed);
  const repeat = async (work: () => Promise<void>) => {
    while (!isOver) await work();
  };
  const walking = Array.from({ length: counts.walkers }, () => repeat(() => walkOnce(cluster, random, () => isOver)));
  const pricing = Array.from({ length: counts.pricers }, () =>
    repeat(async () => {
      await askForPrice(cluster, cluster.nextReplica(), random.pick(cluster.chain.tokens));
      await Bun.sleep(PRICE_PAUSE_MS);
    }),
  );
  return {
    stop: async () => {
      isOver = true;
      await Promise.all([...walking, ...pricing]);
    },
  };
}

async function walkOnce(cluster: Cluster, random: Random, isOver: () => boolean): Promise<void> {
  const collection = random.pick(cluster.chain.collections);
  const limit = MIN_LIMIT + random.below(MAX_LIMIT - MIN_LIMIT);
  const walk = await walkPages(cluster, collection, { limit, pause: () => random.below(MAX_PAUSE_MS), isOver });
  if (walk === undefined) return;
  await verifyWalk(cluster, walk);
}

async function walkPages(
  cluster: Cluster,
  collection: ChaosCollection,
  { limit, pause, isOver }: { limit: number; pause: () => number; isOver: () => boolean },
): Promise<Walk | undefined> {
  const { findings } = cluster;
  const start = `/api/v2/nft/${collection.address}?limit=${limit}`;
  let first: PageFacts | undefined;
  let isSynced = true;
  const records: [string, string][] = [];
  const from: string[] = [];
  let path = start;
  for (let attempt = 0; attempt < PAGE_ATTEMPTS && !isOver(); ) {
    const replica = cluster.nextReplica();
    const page = await askForPage(cluster, replica, path);
    if (page === "ended") {
      findings.count("walks ended by 409 or 410");
      return undefined;
    }
    if (page === undefined) {
      attempt++;
      await Bun.sleep(RETRY_MS);
      continue;
    }
    attempt = 0;
    const { facts } = page;
    const { status, cursor, result } = JSON.parse(page.body) as Page;
    first ??= facts;
    from.push(`${replica.name} (${facts.finality})`);
    if (facts.hash !== first.hash || facts.block !== first.block) {
      const blocks = `${first.block} ${first.hash} and ${facts.block} ${facts.hash}`;
      findings.violation(`a walk of ${collection.address} has pages of two blocks: ${blocks}; pages from ${from}`);
      return undefined;
    }
    isSynced &&= status === "SYNCED";
    for (const { token_id, owner_of } of result) records.push([token_id, owner_of]);
    if (cursor === null) return { collection, facts: first, records, from, isSynced };
    path = `/api/v2/nft/${collection.address}?cursor=${encodeURIComponent(cursor)}`;
    await Bun.sleep(pause());
  }
  if (!isOver())
    findings.violation(`no replica gave the next page of ${path.slice(0, 90)} in ${PAGE_ATTEMPTS} attempts`);
  return undefined;
}

async function verifyWalk({ chain, findings }: Cluster, walk: Walk): Promise<void> {
  const { collection, facts, records, from, isSynced } = walk;
  // A backfill shows what it has so far. Truth can only be asked for at a block of the chain.
  if (!isSynced || !chain.isCanonical(facts.hash)) {
    findings.count("walks skipped");
    return;
  }
  const owners = await chain.ownersAt(collection, facts.hash).catch(() => undefined);
  if (owners === undefined || !chain.isCanonical(facts.hash)) {
    findings.count("walks skipped");
    return;
  }
  findings.count("walks verified");
  const wrong = differences(owners, records);
  if (wrong.length === 0) return;
  findings.count("wrong walks");
  const named = `${wrong.slice(0, NAMED).join("; ")}${wrong.length > NAMED ? "; …" : ""}`;
  const what = `${wrong.length} wrong entries in a walk of ${collection.address} at block ${facts.block} ${facts.hash}`;
  findings.violation(`${what}: ${named}. Pages from ${from.join(", ")}`, `walk ${collection.address} ${facts.hash}`);
}

/** Differences between the contract's owners and a listing: ids that are wrong, missing, doubled or burnt. */
export function differences(
  owners: ReadonlyMap<string, string>,
  records: readonly (readonly [id: string, owner: string])[],
): string[] {
  const wrong: string[] = [];
  const listed = new Set<string>();
  for (const [id, owner] of records) {
    const truth = owners.get(id);
    if (listed.has(id)) wrong.push(`${id} is listed twice`);
    else if (truth === undefined) wrong.push(`${id} does not exist`);
    else if (truth !== owner) wrong.push(`${id} belongs to ${truth.slice(0, 8)}, not ${owner.slice(0, 8)}`);
    listed.add(id);
  }
  for (const id of owners.keys()) if (!listed.has(id)) wrong.push(`${id} is missing`);
  return wrong;
}
