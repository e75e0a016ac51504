/**
 * The operations that explore a collection: its holders, tokens by owner and trait, one token with its history,
 * transfers, traits. Their cursors are walks, signed with a secret of the route and its filter.
 */
import { type Static, Type } from "@sinclair/typebox";
import { isoTime } from "../../core/block-time.ts";
import { invalidParameter, Refusal } from "../../core/errors.ts";
import { parseAddress } from "../../core/hex.ts";
import {
  address,
  blockHash,
  digits,
  int64,
  named,
  nullable,
  nullableText,
  oneOf,
  text,
  time,
  type WireTypes,
} from "../../core/schema-parts.ts";
import { runInSlices } from "../../core/turns.ts";
import type { Requester } from "../../core/work.ts";
import { type TokenRef, TransferKind } from "../../events/columns.ts";
import { type Collection, collectionAt } from "../../nft/collections/collection.ts";
import type { Explorer } from "../../nft/explore/readings.ts";
import type { TraitIndexes } from "../../nft/explore/traits.ts";
import {
  findEntries,
  historyPage,
  ownedEntries,
  type TransferQuery,
  type TransfersPage,
  tokenOfId,
  transfersPage,
} from "../../nft/explore/walks.ts";
import type { Entry } from "../../nft/ledger/entries.ts";
import { entryOfToken } from "../../nft/ledger/history.ts";
import { countEntries } from "../../nft/ledger/listing.ts";
import { type Position, START } from "../../nft/ledger/rows.ts";
import { recordsOf } from "../../nft/listings/pages.ts";
import type { RecordFacts } from "../../nft/listings/record.ts";
import { signCursor, type Walk } from "../../nft/walks/cursor.ts";
import { currentCollection, ledgerOf, type WalkSource } from "../../nft/walks/snapshot.ts";
import {
  assertKept,
  listingName,
  numberOfPlace,
  placeOfNumber,
  type StartedWalk,
  startWalk,
} from "../../nft/walks/walk.ts";
import { glossaryOf, OUTCOME_WORDS, wireValues } from "../../status-words.ts";
import { asOfBlock, type LogFacts, type NftChain, responseHeaders } from "../wire/answered-block.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import {
  anyText,
  flag,
  metadataTime,
  type Parameter,
  type ParsedValues,
  pageLimit,
  parsedText,
  tokenIdParameter,
  tokenIdPart,
  wholeNumber,
} from "../wire/parameters.ts";
import { COLLECTION_PARTS, type CollectionDeps, ONE_COLLECTION, requestedCollection } from "./collection-path.ts";
import { type ListingDeps, NftRecord, namesFor, recordExample, walkOf } from "./listing.ts";

// ── Schemas ──

const Holder = Type.Object({
  rank: int64("1 plus the number of owners that hold more units; owners with equal units share a rank"),
  owner: address("The owner"),
  tokens: int64("Number of token ids"),
  units: digits("Sum of the amounts; for ERC-721 the number of tokens"),
  share: Type.Number({ format: "double", description: "Part of all units, from 0 to 1" }),
});

const SAME_BLOCK = "Cursor of the next page, at the same block; null on the last page";
const HolderList = named(
  "HolderList",
  Type.Object({
    total: int64("Number of owners"),
    result: Type.Array(named("Holder", Holder)),
    cursor: nullableText(SAME_BLOCK),
  }),
);

const TokenList = named("TokenList", Type.Object({ result: Type.Array(NftRecord), cursor: nullableText(SAME_BLOCK) }));

const TokenTransfer = Type.Object({
  block: int64("Block of the transfer"),
  from: address("The sender; the zero address for a mint"),
  to: address("The receiver; the zero address for a burn"),
  amount: digits("1, or an amount of an ERC-1155 or ERC-6909 token"),
});

const CollectionTransfer = Type.Object({
  block: int64("Block of the transfer"),
  time: nullable(time("Time of the block; null if it is not known here. `times=true` asks the node for it")),
  from: address("The sender, as the log names it; the zero address for a mint"),
  to: address("The receiver; the zero address for a burn"),
  tokenId: digits("Decimal token id; the first one of an ERC-2309 range"),
  amount: digits(
    "1, or an amount of an ERC-1155 or ERC-6909 token. For an ERC-2309 range the number of its consecutive ids; with a token id as the filter 1",
  ),
  logIndex: int64("Index of the log in the block; the transfers of a batch share it"),
  transaction: Type.Optional(
    nullable(blockHash("Hash of the transaction, with `transactions=true`; null if no endpoint tells it")),
  ),
});

const TransferList = named(
  "TransferList",
  Type.Object({
    result: Type.Array(named("CollectionTransfer", CollectionTransfer), {
      description:
        "Newest first, in the reverse order of the logs. Fewer than the limit if they are far apart, or if the node is asked about many blocks",
    }),
    cursor: nullableText(SAME_BLOCK),
  }),
);

const MetadataOutcome = Type.Object({
  time: time("Time of the attempt"),
  outcome: oneOf(wireValues(OUTCOME_WORDS), glossaryOf(OUTCOME_WORDS)),
  reason: nullableText("Why it failed"),
  hash: nullable(blockHash("Hash of the stored document; equal ones are the same")),
});

const TokenDetails = named(
  "TokenDetails",
  Type.Object({
    record: Type.Optional(NftRecord),
    locked: nullable(
      Type.Boolean({
        description: "Whether the token is locked (ERC-5192); null if its contract doesn't tell, or no endpoint does",
      }),
    ),
    history: Type.Array(named("TokenTransfer", TokenTransfer), { description: "Newest first" }),
    metadata: Type.Array(named("MetadataOutcome", MetadataOutcome), {
      description: "The newest attempts to fetch the metadata, newest first; on the first page only",
    }),
    cursor: nullableText("Cursor of older transfers; null at the end"),
  }),
);

const TraitValue = Type.Object({
  value: text("Value of the trait, as text"),
  count: int64("Tokens with this value"),
});

const Trait = Type.Object({
  type: text("Type of the trait"),
  distinct: int64("Number of different values"),
  values: Type.Array(named("TraitValue", TraitValue), { description: "The most frequent values, at most 500" }),
});

const TraitList = named(
  "TraitList",
  Type.Object({
    of: int64("Tokens in the collection"),
    indexed: int64("Tokens whose metadata is known, as far as it is indexed"),
    truncated: Type.Optional(
      Type.Boolean({ description: "True if there are more traits than are indexed or listed: counts may be too low" }),
    ),
    result: Type.Array(named("Trait", Trait)),
  }),
);

// ── Parameters ──

const PAGED = {
  as_of_block: wholeNumber({ min: 0 }, { description: "Block; the newest one by default", example: 21_000_000 }),
  limit: pageLimit(),
  cursor: anyText({
    description: "Cursor of the previous page",
    example: "bmZ0LzEvMHhiYzRjYTBlZGE3NjQ3YThhYjdjMjA2MWMy",
  }),
};

const OWNER = "0xf4a1f3ba15a8b3a93a9b84e0e2e8a2ab5dc9e8ce";
const ownerParameter = (description: string) =>
  parsedText(
    parseAddress,
    { allowed: "must be an address: 0x and 40 hex digits", schema: { pattern: "^0x[0-9a-fA-F]{40}$" } },
    { description, example: OWNER },
  );

const TRANSFERS = {
  ...PAGED,
  from: ownerParameter("Only transfers from this address"),
  to: ownerParameter("Only transfers to this address"),
  times: flag(false, { description: "Asks the node for the times that are not known here", example: false }),
  transactions: flag(false, {
    description: "Adds the hashes of the transactions, read from the node with one call per block",
    example: false,
  }),
};

const MAX_TRAITS = 20;
const MAX_TRAIT_LENGTH = 401;
const traitParameter: Parameter<readonly string[]> = {
  schema: { type: "array", items: { type: "string" }, maxItems: MAX_TRAITS },
  description: "Only tokens with this trait, as Type:Value; repeatable. For collections of up to 100,000 tokens",
  example: ["Fur:Golden"],
  parse: (traits, name) => {
    const isWrong = traits.some((trait) => !trait.includes(":") || trait.length > MAX_TRAIT_LENGTH);
    if (!isWrong && traits.length <= MAX_TRAITS) return traits;
    throw invalidParameter(name, `must be Type:Value, at most ${MAX_TRAITS} times`);
  },
};

// ── Reading ──

interface ExploreDeps extends CollectionDeps, Omit<ListingDeps, "preview" | "demand" | "maxPageSize"> {
  readonly explorer: Explorer;
}

/** A request for one collection, and where its page begins. */
interface Asked {
  readonly path: ParsedValues<typeof COLLECTION_PARTS>;
  readonly query: Partial<ParsedValues<typeof PAGED>>;
  readonly requester: Requester;
}

/** A request that is being answered: where it reads, and how its cursors are signed. */
interface Reading {
  readonly source: WalkSource;
  readonly runtime: NftChain;
  readonly requester: Requester;
  readonly limit: number;
  readonly cursor: (Walk & { readonly block: number }) | undefined;
  readonly asOf: number | undefined;
  /** The cursor of the page after `start` that begins at this place; null without a place. */
  readonly cursorAt: (start: StartedWalk, place: Position | undefined) => string | null;
}

/** @param filter everything that a cursor depends on, beside the collection. @throws Refusal 400, 404 */
async function readingOf(
  { path, query, requester }: Asked,
  deps: ExploreDeps,
  filter: readonly (string | undefined)[],
): Promise<Reading> {
  const { chain, address: contract, runtime } = await requestedCollection(path, deps);
  const { chainId } = chain;
  const secret = `${deps.cursorSecret}/${JSON.stringify(filter)}`;
  const { limit = 0, as_of_block: asOf, cursor: given } = query;
  const cursor = given === undefined ? undefined : walkOf(given, secret, { chainId, address: contract });
  if (cursor !== undefined && asOf !== undefined && asOf !== cursor.block) {
    throw invalidParameter("as_of_block", "must be left out, or be the block of the cursor");
  }
  const source = { projections: deps.projections, chain: runtime.view, chainId, address: contract };
  const cursorAt: Reading["cursorAt"] = ({ walk }, position) =>
    position === undefined ? null : signCursor({ ...walk, position, page: walk.page + 1, limit }, secret);
  return { source, runtime, requester, limit, cursor, asOf, cursorAt };
}

/**
 * Reads memory from the start of the walk on, in the turn of the key. Then makes the headers of its block, whose header may
 * wait for a node.
 * @param byPair true for a walk over pairs of token and owner
 */
async function respond<T>(
  { source, cursor, asOf: block, runtime, requester }: Reading,
  deps: ExploreDeps,
  byPair: boolean,
  read: (start: StartedWalk) => Promise<T>,
) {
  const { body, start } = await deps.explorer.memory.run(requester, async () => {
    const start = await startWalk(source, { cursor, asOfBlock: block, byPair });
    return { body: await read(start), start };
  });
  const asOf = await asOfBlock(start, runtime);
  const headers = responseHeaders(asOf, { trouble: runtime.trouble(), isStale: deps.isStale() });
  return { body, start, headers, asOf };
}

type RecordModel = Static<typeof NftRecord>;

interface Records {
  readonly collection: Collection;
  readonly entries: readonly Entry[];
  readonly facts: readonly RecordFacts[];
}

/** The records of a page, as the listing has them. */
async function recordsFor(
  { collection, entries, facts }: Records,
  { source, runtime }: Reading,
  deps: ExploreDeps,
): Promise<RecordModel[]> {
  const { chainId, address: contract } = source;
  const names = await namesFor(deps, runtime, {
    chainId,
    address: contract,
    name: collection.identified?.name ?? null,
  });
  const isNative = deps.wireTypes === "native";
  const records = recordsOf({ address: contract, collection, names }, entries, facts, isNative);
  return (await runInSlices(records)) as RecordModel[];
}

/** The metadata of a page: all of it, as known now. */
const pageFacts = () => ({ normalizeMetadata: true, mediaItems: true, asOf: undefined });

/** The traits of a collection's listing at the walk's block, by its metadata as it is now. */
async function traitIndex(
  { source, runtime }: Reading,
  start: StartedWalk,
  { clock, explorer }: ExploreDeps,
): ReturnType<TraitIndexes["of"]> {
  const collection = await currentCollection(source, start.walk);
  const tokens = countEntries(ledgerOf(collection, start.walk), start.walk.block, false);
  const known = { normalizeMetadata: true, mediaItems: false, asOf: clock.now() };
  const factsOf = async (entries: readonly Entry[]) => (await runtime.factsOf(source.address, entries, known)).facts;
  // Has the metadata in memory, so that it has a version.
  await factsOf([]);
  const metadataVersion = `${runtime.metadataVersion(source.address)}`;
  const whole = { ...start, walk: { ...start.walk, position: START, holders: false } };
  const parts = { source, start: whole, factsOf, metadataVersion, listing: listingName(collection, start) };
  return explorer.traits.of(parts, tokens);
}

interface TokenReading {
  readonly start: StartedWalk;
  readonly token: TokenRef;
  /** Time in ms since the epoch; undefined for the newest metadata. */
  readonly knownAt: number | undefined;
}

/** Most attempts to fetch a token's metadata that are told. */
const MAX_OUTCOMES = 100;

/** The record of a token, if it exists at the block, and the attempts to fetch its metadata. */
async function recordOfToken(reading: Reading, deps: ExploreDeps, { start, token, knownAt }: TokenReading) {
  const { source, runtime } = reading;
  const collection = collectionAt(await currentCollection(source, start.walk), start.walk.block);
  const entry = entryOfToken(collection.ledger, token, start.walk.block);
  const entries = entry === undefined ? [] : [entry];
  const { facts } = await runtime.factsOf(source.address, entries, { ...pageFacts(), asOf: knownAt });
  const [record] = await recordsFor({ collection, entries, facts }, reading, deps);
  const outcomes = await runtime.outcomesOf(source.address, token, MAX_OUTCOMES);
  const metadata = outcomes.map(({ time: ms, reason = null, hash = null }) => {
    const outcome: "resolved" | "failed" = reason === null ? "resolved" : "failed";
    return { time: new Date(ms).toISOString(), outcome, reason, hash };
  });
  return { ...(record === undefined ? {} : { record }), metadata };
}

interface TransfersWanted extends TransferQuery {
  readonly times: boolean;
  readonly transactions: boolean;
}

/**
 * Most calls for the blocks of one page: two for one whose transactions are asked for, its header and its logs, and one for a
 * header alone. With the walk's block before and after each fifty headers, and a call that fails and is repeated for one block
 * in ten, they are less than the 100 calls of a question, and half of them less than its 64 requests for logs.
 */
const MAX_BLOCK_CALLS = 80;

/** Says which blocks a page has room for, in the order in which it is asked: those for which the node answers in bounds. */
function roomForBlocks(
  { blockFacts }: Pick<NftChain, "blockFacts">,
  { times, transactions }: TransfersWanted,
): (block: number) => boolean {
  const taken = new Set<number>();
  let calls = 0;
  return (block) => {
    if (taken.has(block)) return true;
    const own = transactions ? 2 : Number(times && blockFacts.timeOf(block) === undefined);
    if (calls + own > MAX_BLOCK_CALLS) return false;
    taken.add(block);
    calls += own;
    return true;
  };
}

/** A page of transfers, with what the node is asked about it. */
async function transfersAnswer(asked: Asked, deps: ExploreDeps, wanted: TransfersWanted) {
  const { id, from, to } = wanted;
  const reading = await readingOf(asked, deps, ["transfers", id?.toString(), from, to]);
  const { source, runtime, limit, cursor, cursorAt } = reading;
  const {
    body: page,
    start,
    headers,
  } = await respond(reading, deps, false, (start) =>
    transfersPage(source, start, wanted, {
      ...{ isFirst: cursor === undefined, limit },
      takes: roomForBlocks(runtime, wanted),
    }),
  );
  const facts = await factsOfTransfers(reading, deps, { start, page, wanted });
  const result = page.transfers.map(({ id, amount, ...one }, i) => {
    const { time: seconds = runtime.blockFacts.timeOf(one.block), transaction = null } = facts?.[i] ?? {};
    const transfer = {
      ...one,
      time: seconds === undefined ? null : (isoTime(seconds) ?? null),
      tokenId: id.toString(),
      amount: amount.toString(),
    };
    return wanted.transactions ? { ...transfer, transaction } : transfer;
  });
  return { body: { result, cursor: cursorAt(start, page.next) }, headers };
}

interface FactsWanted {
  readonly start: StartedWalk;
  readonly page: TransfersPage;
  readonly wanted: TransfersWanted;
}

/**
 * Waits for the node, in the turn of the key; undefined if nothing is asked of it.
 * @throws Refusal `cursor_reorged`
 */
async function factsOfTransfers(
  { source, runtime, requester }: Reading,
  { explorer }: ExploreDeps,
  { start, page: { transfers }, wanted }: FactsWanted,
): Promise<readonly LogFacts[] | undefined> {
  const { blockFacts } = runtime;
  const times = wanted.times && transfers.some(({ block }) => blockFacts.timeOf(block) === undefined);
  const transactions = wanted.transactions && transfers.length > 0;
  if (!times && !transactions) return undefined;
  const { block: number, hash, above } = start.walk;
  const at = hash === "" ? above : { number, hash };
  const facts = await explorer.node.run(requester, () =>
    blockFacts.read(source.address, transfers, { at, times, transactions }),
  );
  await assertKept(source, start);
  return facts;
}

// ── Examples ──

const TIME = "2026-11-23T09:00:00.000Z";
const TRANSFER = { block: 12_346_178, from: `0x${"0".repeat(40)}`, to: OWNER, amount: "1" };
const COLLECTION_TRANSFER = { ...TRANSFER, time: TIME, tokenId: "1", logIndex: 71 };
const FUR = {
  type: "Fur",
  distinct: 2,
  values: [
    { value: "Brown", count: 9_954 },
    { value: "Golden", count: 46 },
  ],
};

// ── Operations ──

const { json } = operationsFor<ExploreDeps>();

/** The fields that all operations of this file share. */
const EXPLORING = {
  method: "GET",
  scope: "read",
  tag: "Operators",
  parts: COLLECTION_PARTS,
  hasBlock: true,
  errors: [400, 404, 409, 410],
} as const;

const listHolders = json({
  ...EXPLORING,
  path: `${ONE_COLLECTION}/holders`,
  id: "listHolders",
  summary: "Owners by what they hold, with share and rank, at one block",
  query: PAGED,
  answer: HolderList,
  example: {
    total: 1,
    result: [{ owner: OWNER, tokens: 112, units: "112", share: 0.0112, rank: 1 }],
    cursor: null,
  },
  handle: async (asked, deps) => {
    const reading = await readingOf(asked, deps, ["holders"]);
    const { source, limit, cursor, cursorAt } = reading;
    return respond(reading, deps, true, async (start) => {
      // A walk of holders reads all pairs from the start, and its place is the number of the owner.
      const first = cursor === undefined ? 0 : (numberOfPlace(cursor.position) ?? 0);
      const whole = { ...start, walk: { ...start.walk, position: START } };
      const ranking = await deps.explorer.rankings.of(source, whole);
      const result = ranking.slice(first, limit).map((holder) => ({ ...holder, units: holder.units.toString() }));
      const end = first + result.length;
      const next = end < ranking.count ? placeOfNumber(end) : undefined;
      return { total: ranking.count, result, cursor: cursorAt(start, next) };
    });
  },
});

const findTokens = json({
  ...EXPLORING,
  path: `${ONE_COLLECTION}/tokens`,
  id: "findTokens",
  summary: "Records of the tokens that an owner holds, or that have certain traits, at one block",
  query: { ...PAGED, owner: ownerParameter("Only tokens of this owner"), trait: traitParameter },
  answer: TokenList,
  example: (wire: WireTypes) => ({ result: [recordExample(wire)], cursor: null }),
  handle: async (asked, deps) => {
    const { owner, trait: traits } = asked.query;
    const reading = await readingOf(asked, deps, ["tokens", owner, ...traits]);
    const { source, runtime, limit, cursorAt } = reading;
    return respond(reading, deps, owner !== undefined, async (start) => {
      const index = traits.length === 0 ? undefined : (await traitIndex(reading, start, deps)).index;
      const matches = index?.having(traits) ?? (() => true);
      const { collection, entries, places } =
        owner === undefined
          ? await findEntries(source, start, limit, matches)
          : await ownedEntries(source, start, limit, { owner, matches });
      const { facts } = await runtime.factsOf(source.address, entries, pageFacts());
      const result = await recordsFor({ collection, entries, facts }, reading, deps);
      return { result, cursor: cursorAt(start, places[result.length]) };
    });
  },
});

const getToken = json({
  ...EXPLORING,
  path: `${ONE_COLLECTION}/tokens/:id`,
  id: "getToken",
  summary:
    "At a block: the record of a token unless it is burned, and its transfers; the attempts to fetch its metadata",
  parts: { ...COLLECTION_PARTS, id: tokenIdPart },
  query: { ...PAGED, metadata_as_of: metadataTime(TIME) },
  answer: TokenDetails,
  example: (wire: WireTypes) => ({
    record: recordExample(wire),
    locked: null,
    history: [TRANSFER],
    metadata: [{ time: TIME, outcome: "resolved" as const, reason: null, hash: `0x${"5e".repeat(32)}` }],
    cursor: null,
  }),
  handle: async (asked, deps) => {
    const { id } = asked.path;
    const reading = await readingOf(asked, deps, ["token", id.toString()]);
    const { source, runtime, limit, cursor, cursorAt } = reading;
    const answer = await respond(reading, deps, false, async (start) => {
      const ledger = ledgerOf(await currentCollection(source, start.walk), start.walk);
      const token = tokenOfId(ledger, id);
      if (token === undefined) throw new Refusal("not_found", `id: no transfer of token ${id} is known`);
      const { transfers, next } = await historyPage(source, start, token, { isFirst: cursor === undefined, limit });
      const history = transfers.map((one) => ({ ...one, amount: one.amount.toString() }));
      const page = { token, history, cursor: cursorAt(start, next) };
      if (cursor !== undefined) return { metadata: [], ...page };
      const record = await recordOfToken(reading, deps, { start, token, knownAt: asked.query.metadata_as_of });
      return { ...record, ...page };
    });
    const { token, ...page } = answer.body;
    const { block = 0, hash = "" } = answer.asOf ?? {};
    const isAsked = token.kind === TransferKind.erc721 && hash !== "";
    const locked = isAsked ? await runtime.lockedAt(source.address, id, { number: block, hash }) : null;
    return { body: { ...page, locked }, headers: answer.headers };
  },
});

/** What the transfers of a collection and those of one token have in common. */
const TRANSFERS_ANSWER = {
  ...EXPLORING,
  answer: TransferList,
  example: { result: [COLLECTION_TRANSFER], cursor: null },
} as const;

const listTransfers = json({
  ...TRANSFERS_ANSWER,
  path: `${ONE_COLLECTION}/transfers`,
  id: "listTransfers",
  summary: "Transfers of a collection up to one block, newest first, as its logs give them",
  query: { ...TRANSFERS, tokenId: tokenIdParameter },
  handle: (asked, deps) => transfersAnswer(asked, deps, { ...asked.query, id: asked.query.tokenId }),
});

const listTokenTransfers = json({
  ...TRANSFERS_ANSWER,
  path: `${ONE_COLLECTION}/tokens/:id/transfers`,
  id: "listTokenTransfers",
  summary: "Transfers of one token up to one block, newest first, as the logs give them",
  parts: { ...COLLECTION_PARTS, id: tokenIdPart },
  query: TRANSFERS,
  handle: (asked, deps) => transfersAnswer(asked, deps, { ...asked.query, id: asked.path.id }),
});

const listTraits = json({
  ...EXPLORING,
  path: `${ONE_COLLECTION}/traits`,
  id: "listTraits",
  summary: "How many tokens have which trait, by the metadata known now. Up to 100,000 tokens",
  answer: TraitList,
  example: { of: 10_000, indexed: 10_000, result: [FUR] },
  errors: [400, 404, 409],
  handle: async (asked, deps) => {
    const reading = await readingOf(asked, deps, ["traits"]);
    return respond(reading, deps, false, async (start) => {
      const { tokens, indexed, isTruncated, traits } = (await traitIndex(reading, start, deps)).counts;
      const truncated = isTruncated ? { truncated: true } : {};
      return { of: tokens, indexed, ...truncated, result: traits };
    });
  },
});

export const EXPLORE_OPERATIONS: readonly Operation<ExploreDeps>[] = [
  listHolders,
  findTokens,
  getToken,
  listTransfers,
  listTokenTransfers,
  listTraits,
];
