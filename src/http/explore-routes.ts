/**
 * The routes that explore a collection: its holders, tokens by owner and trait, one token with its history, its traits.
 * Parameters in, a response out. Their cursors are walks, signed with a secret of the route and its filter.
 */
import type { Chain } from "../chains/chains.ts";
import type { Collection } from "../collections/collection.ts";
import { currentCollection } from "../collections/hot-collections.ts";
import type { Clock } from "../core/clock.ts";
import { ApiError, invalidParameter } from "../core/errors.ts";
import type { Requester } from "../core/fair-slots.ts";
import { type Address, parseAddress } from "../core/hex.ts";
import { Rankings } from "../explore/rankings.ts";
import { memoryReadings, nodeReadings } from "../explore/readings.ts";
import { TraitIndexes } from "../explore/traits.ts";
import { beginWalk, entryOfToken, findEntries, historyPage, tokenOfId } from "../explore/walks.ts";
import type { ExportSource, ExportStart } from "../exports/walk.ts";
import type { Entry } from "../ledger/entries.ts";
import type { TokenName } from "../ledger/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { countEntries } from "../ledger/listing.ts";
import { type Position, START } from "../ledger/rows.ts";
import { recordsOf } from "../listings/pages.ts";
import type { RecordFacts } from "../listings/record.ts";
import { openCursor, signCursor, type Walk } from "../listings/walk.ts";
import type { Prices } from "../prices/price-service.ts";
import type { Moment } from "../prices/series.ts";
import { asOfBlock, inTime, type NftChain, type NftRouteDeps, responseHeaders } from "./operations.ts";
import { flag, integer, invalidCursor, notEnabled, parseQueryString, single, time } from "./requests.ts";

export interface ExploreDeps
  extends Pick<
    NftRouteDeps,
    "projections" | "clock" | "isStale" | "cursorSecret" | "namesOf" | "wireTypes" | "nftChain"
  > {
  pricesOf(chain: Chain): Prices | undefined;
}

/** What the requests of a process share. */
export class Explorer {
  readonly memory = memoryReadings();
  readonly node = nodeReadings();
  readonly rankings = new Rankings();
  readonly traits: TraitIndexes;

  /** @param traitBytes memory for indexes of traits */
  constructor(clock: Clock, traitBytes: number) {
    this.traits = new TraitIndexes(clock, traitBytes);
  }
}

type Query = ReturnType<typeof parseQueryString>;

/** A request for one collection. */
interface Explored {
  readonly chain: Chain;
  readonly address: Address;
  readonly search: string;
  readonly params: Readonly<Record<string, string>>;
  readonly requester: Requester;
}

const PAGED = ["as_of_block", "limit", "cursor"];
export const HOLDER_PARAMETERS: ReadonlySet<string> = new Set(PAGED);
export const TOKEN_LIST_PARAMETERS: ReadonlySet<string> = new Set([...PAGED, "owner", "trait"]);
export const TOKEN_PARAMETERS: ReadonlySet<string> = new Set([...PAGED, "metadata_as_of"]);
export const SERIES_PARAMETERS: ReadonlySet<string> = new Set(["from", "to", "points", "stored"]);
const DEFAULT_POINTS = 50;
const MAX_POINTS = 200;
const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 500;
const MAX_TRAITS = 20;
const MAX_TRAIT_LENGTH = 401;
const MAX_ID = (1n << 256n) - 1n;
/** Most attempts to fetch a token's metadata that are told. */
const MAX_OUTCOMES = 100;

/** A request that is being answered: where it reads, and how its cursors are signed. */
interface Reading {
  readonly source: ExportSource;
  readonly runtime: NftChain;
  readonly limit: number;
  readonly cursor: (Walk & { readonly block: number }) | undefined;
  readonly asOf: number | undefined;
  /** The cursor of the page after `start` that begins at this place; null without a place. */
  readonly cursorAt: (start: ExportStart, place: Position | undefined) => string | null;
}

/** @param filter everything that a cursor depends on, beside the collection */
function readingOf(
  { chain, address }: Explored,
  query: Query,
  deps: ExploreDeps,
  filter: readonly (string | undefined)[],
): Reading {
  const runtime = deps.nftChain(chain);
  if (runtime === undefined) throw notEnabled(chain);
  const { chainId } = chain;
  const secret = `${deps.cursorSecret}/${JSON.stringify(filter)}`;
  const limit = integer(query, "limit", 1, MAX_LIMIT) ?? DEFAULT_LIMIT;
  const text = single(query, "cursor");
  const cursor = text === undefined ? undefined : openCursor(text, secret);
  if (text !== undefined && (cursor?.chainId !== chainId || cursor.address !== address)) throw invalidCursor();
  const asOf = integer(query, "as_of_block", 0, Number.MAX_SAFE_INTEGER);
  if (cursor !== undefined && asOf !== undefined && asOf !== cursor.block) {
    throw invalidParameter("as_of_block", "must be left out, or be the block of the cursor");
  }
  const source = { projections: deps.projections, chain: runtime.view, chainId, address };
  const cursorAt: Reading["cursorAt"] = ({ walk }, position) =>
    position === undefined ? null : signCursor({ ...walk, position, page: walk.page + 1, limit }, secret);
  return { source, runtime, limit, cursor, asOf, cursorAt };
}

/** A body, and the block that it is valid for. */
interface Read {
  readonly body: object;
  readonly start: ExportStart;
}

/** Reads memory in the turn of the key, then makes the response. The header of its block may wait for a node. */
async function respond(
  { requester }: Explored,
  { memory }: Explorer,
  { runtime }: Reading,
  { deps, read }: { readonly deps: ExploreDeps; readonly read: () => Promise<Read> },
): Promise<Response> {
  const { body, start } = await memory.run(requester, read);
  const asOf = await asOfBlock(start, runtime);
  const headers = responseHeaders(asOf, { isHalted: runtime.isHalted(), isStale: deps.isStale() });
  return Response.json(body, { headers: { ...headers, "cache-control": "no-store" } });
}

/** `GET …/holders`: owners by what they hold. */
export async function listedHolders(asked: Explored, deps: ExploreDeps, explorer: Explorer): Promise<Response> {
  const query = parseQueryString(asked.search);
  const reading = readingOf(asked, query, deps, ["holders"]);
  const { source, limit, cursor, asOf, cursorAt } = reading;
  const read = async (): Promise<Read> => {
    const start = await beginWalk(source, { cursor, asOfBlock: asOf, byPair: true });
    // A walk of holders reads all pairs from the start, and its place is the number of the owner.
    const first = cursor === undefined ? 0 : (cursor.position?.[0] ?? 0);
    const ranking = await explorer.rankings.of(source, { ...start, walk: { ...start.walk, position: [0, 0, 0, 0] } });
    const result = ranking.slice(first, limit).map((holder) => ({ ...holder, units: holder.units.toString() }));
    const next = first + result.length < ranking.count ? ([first + result.length, 0, 0, 0] as const) : undefined;
    return { body: { total: ranking.count, result, cursor: cursorAt(start, next) }, start };
  };
  return respond(asked, explorer, reading, { deps, read });
}

/** `GET …/tokens`: the records of the tokens that an owner holds, or that have certain traits. */
export async function foundTokens(asked: Explored, deps: ExploreDeps, explorer: Explorer): Promise<Response> {
  const query = parseQueryString(asked.search);
  const owner = ownerIn(query);
  const traits = traitsIn(query);
  const reading = readingOf(asked, query, deps, ["tokens", owner, ...traits]);
  const { source, runtime, limit, cursor, asOf, cursorAt } = reading;
  const read = async (): Promise<Read> => {
    const start = await beginWalk(source, { cursor, asOfBlock: asOf, byPair: owner !== undefined });
    const index = traits.length === 0 ? undefined : (await traitIndex(reading, start, explorer, deps)).index;
    const having = index?.having(traits);
    const { collection, entries, places } = await findEntries(source, start, limit, (ledger) =>
      matcher(ledger, owner, having),
    );
    const { facts } = await runtime.factsOf(asked.address, entries, pageFacts());
    const result = recordsFor({ collection, entries, facts }, asked, deps);
    return { body: { result, cursor: cursorAt(start, places[result.length]) }, start };
  };
  return respond(asked, explorer, reading, { deps, read });
}

/** The metadata of a page: all of it, as known now. */
const pageFacts = () => ({ normalizeMetadata: true, mediaItems: true, asOf: undefined });

interface Records {
  readonly collection: Collection;
  readonly entries: readonly Entry[];
  readonly facts: readonly RecordFacts[];
}

/** The records of a page, as the listing has them. */
function recordsFor(
  { collection, entries, facts }: Records,
  { chain, address }: Explored,
  deps: ExploreDeps,
): object[] {
  const names = deps.namesOf(chain.chainId, address);
  return recordsOf({ address, collection, names }, entries, facts, deps.wireTypes === "native");
}

function ownerIn(query: Query): Address | undefined {
  const text = single(query, "owner");
  if (text === undefined) return undefined;
  const owner = parseAddress(text);
  if (owner === undefined) throw invalidParameter("owner", "must be an address: 0x and 40 hex digits");
  return owner;
}

function traitsIn(query: Query): string[] {
  const traits = [query["trait"] ?? []].flat();
  const isWrong = traits.some((trait) => !trait.includes(":") || trait.length > MAX_TRAIT_LENGTH);
  if (isWrong || traits.length > MAX_TRAITS) {
    throw invalidParameter("trait", `must be Type:Value, at most ${MAX_TRAITS} times`);
  }
  return traits;
}

function matcher(ledger: Ledger, owner: Address | undefined, having: ((entry: Entry) => boolean) | undefined) {
  return (entry: Entry): boolean => {
    if (owner !== undefined && (entry.owner < 0 || ledger.addresses.hex(entry.owner) !== owner)) return false;
    return having === undefined || having(entry);
  };
}

/** The traits of a collection's listing at the walk's block, by its metadata as it is now. */
async function traitIndex(
  { source, runtime }: Reading,
  start: ExportStart,
  { traits }: Explorer,
  { clock }: ExploreDeps,
): ReturnType<TraitIndexes["of"]> {
  const collection = await currentCollection(source, source, start.walk);
  const tokens = countEntries(collection.ledger, start.walk.block, false);
  const known = { normalizeMetadata: true, mediaItems: false, asOf: clock.now() };
  const factsOf = async (entries: readonly Entry[]) => (await runtime.factsOf(source.address, entries, known)).facts;
  // Has the metadata in memory, so that it has a version.
  await factsOf([]);
  const metadataVersion = `${runtime.metadataVersion(source.address)}`;
  const whole = { ...start, walk: { ...start.walk, position: START, holders: false } };
  return traits.of({ source, start: whole, factsOf, metadataVersion, listing: listingOf(collection, start) }, tokens);
}

/** Names a listing: the same name for the same tokens, whatever was transferred since. */
function listingOf({ version, base, rewrittenAt, end }: Collection, { walk, finalized }: ExportStart): string {
  const { block, hash, above, chainVersion } = walk;
  if (block >= (end?.number ?? 0)) return `version ${version}`;
  return `${base}/${rewrittenAt}/${block}/${hash || above?.hash || (finalized ? "final" : chainVersion)}`;
}

/** `GET …/traits`: how many tokens have which trait. */
export async function countedTraits(asked: Explored, deps: ExploreDeps, explorer: Explorer): Promise<Response> {
  const reading = readingOf(asked, parseQueryString(""), deps, ["traits"]);
  const read = async (): Promise<Read> => {
    const start = await beginWalk(reading.source, { cursor: undefined, asOfBlock: undefined, byPair: false });
    const { tokens, indexed, isTruncated, traits } = (await traitIndex(reading, start, explorer, deps)).counts;
    const truncated = isTruncated ? { truncated: true } : {};
    return { body: { of: tokens, indexed, ...truncated, result: traits }, start };
  };
  return respond(asked, explorer, reading, { deps, read });
}

/**
 * `GET …/tokens/:id`: the record of a token at a block, its history up to it, and the attempts to fetch its metadata.
 */
export async function tokenDetails(asked: Explored, deps: ExploreDeps, explorer: Explorer): Promise<Response> {
  const id = idIn(asked.params["id"]);
  const query = parseQueryString(asked.search);
  const reading = readingOf(asked, query, deps, ["token", id.toString()]);
  const { source, limit, cursor, asOf, cursorAt } = reading;
  const knownAt = time(query, "metadata_as_of");
  const read = async (): Promise<Read> => {
    const start = await beginWalk(source, { cursor, asOfBlock: asOf, byPair: false });
    const { ledger } = await currentCollection(source, source, start.walk);
    const token = tokenOfId(ledger, id);
    if (token === undefined) throw new ApiError(404, "not_found", `id: no transfer of token ${id} is known`);
    const { transfers, next } = await historyPage(source, start, token, { isFirst: cursor === undefined, limit });
    const history = transfers.map((one) => ({ ...one, amount: one.amount.toString() }));
    const page = { history, cursor: cursorAt(start, next) };
    if (cursor !== undefined) return { body: { metadata: [], ...page }, start };
    return { body: { ...(await recordOfToken(asked, deps, { reading, start, token, knownAt })), ...page }, start };
  };
  return respond(asked, explorer, reading, { deps, read });
}

interface TokenReading {
  readonly reading: Reading;
  readonly start: ExportStart;
  readonly token: TokenName;
  /** Time in ms since the epoch; undefined for the newest metadata. */
  readonly knownAt: number | undefined;
}

/** The record of a token, if it exists at the block, and the attempts to fetch its metadata. */
async function recordOfToken(
  asked: Explored,
  deps: ExploreDeps,
  { reading, start, token, knownAt }: TokenReading,
): Promise<object> {
  const { source, runtime } = reading;
  const collection = await currentCollection(source, source, start.walk);
  const entry = entryOfToken(collection.ledger, token, start.walk.block);
  const entries = entry === undefined ? [] : [entry];
  const { facts } = await runtime.factsOf(asked.address, entries, { ...pageFacts(), asOf: knownAt });
  const [record] = recordsFor({ collection, entries, facts }, asked, deps);
  const outcomes = await runtime.outcomesOf(asked.address, token, MAX_OUTCOMES);
  const metadata = outcomes.map(({ time, reason = null, hash = null }) => {
    return { time: new Date(time).toISOString(), outcome: reason === null ? "resolved" : "failed", reason, hash };
  });
  return { ...(record === undefined ? {} : { record }), metadata };
}

const MAX_BLOCK = 999_999_999_999_999;

/** `GET /api/prices/…/series`: prices at evenly spaced blocks. */
export async function priceSeries(asked: Explored, deps: ExploreDeps, explorer: Explorer): Promise<Response> {
  const { chain, address } = asked;
  const query = parseQueryString(asked.search);
  const [from, to] = [momentIn(query, "from"), momentIn(query, "to")];
  const points = integer(query, "points", 1, MAX_POINTS) ?? DEFAULT_POINTS;
  const isStoredOnly = flag(query, "stored", false);
  const prices = deps.pricesOf(chain);
  if (prices === undefined) throw notEnabled(chain);
  // A reading of stored prices waits for no node.
  const range = { from, to, points, isStoredOnly };
  const queue = isStoredOnly ? explorer.memory : explorer.node;
  const reading = queue.run(asked.requester, () => prices.series(address, range, asked.requester));
  const result = await inTime(reading, chain, deps.clock);
  return Response.json({ chain: chain.name, address, result }, { headers: { "cache-control": "no-store" } });
}

/** A block or an ISO time. */
function momentIn(query: Query, name: string): Moment | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return { block: Math.min(Number(text), MAX_BLOCK) };
  const ms = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (!Number.isFinite(ms) || ms < 0) {
    throw invalidParameter(name, "must be a block, or an ISO time such as 2026-01-31 or 2026-01-31T12:00:00Z");
  }
  return { time: Math.floor(ms / 1_000) };
}

function idIn(text = ""): bigint {
  const id = /^\d{1,78}$/.test(text) ? BigInt(text) : MAX_ID + 1n;
  if (id <= MAX_ID) return id;
  throw invalidParameter("id", "must be a decimal token id");
}
