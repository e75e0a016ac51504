/**
 * The operations that explore a collection: its holders, tokens by owner and trait, one token with its history,
 * transfers, traits. Their cursors are walks. The route and its filters are part of the secret that signs a cursor, so no
 * other route takes it.
 */
import { Refusal } from "../../core/errors.ts";
import { TransferKind } from "../../events/columns.ts";
import { findEntries, historyPage, holdersPage, ownedEntries, tokenOfId } from "../../nft/explore/walks.ts";
import { START } from "../../nft/ledger/rows.ts";
import { currentCollection, ledgerOf } from "../../nft/walks/snapshot.ts";
import { numberOfPlace, placeOfNumber } from "../../nft/walks/walk.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import { metadataTime, tokenIdParameter, tokenIdPart } from "../wire/parameters.ts";
import { COLLECTION_PARTS, ONE_COLLECTION } from "./collection-path.ts";
import {
  type ExploreDeps,
  pageFacts,
  readingOf,
  recordOfToken,
  recordsFor,
  respond,
  traitIndex,
  transfersAnswer,
} from "./explore-answers.ts";
import { HolderList, TokenDetails, TokenHolderList, TokenList, TraitList, TransferList } from "./explore-models.ts";
import { ownerParameter, PAGE_PARAMETERS, TRANSFER_PARAMETERS, traitParameter } from "./explore-parameters.ts";

const TIME = "2026-11-23T09:00:00.000Z";

const { json } = operationsFor<ExploreDeps>();

/** The fields that all operations of this file share. */
const EXPLORING = {
  method: "GET",
  scope: "read",
  tag: "NFT",
  parts: COLLECTION_PARTS,
  hasBlock: true,
  errors: [400, 404, 409, 410],
} as const;

const listHolders = json({
  ...EXPLORING,
  path: `${ONE_COLLECTION}/holders`,
  id: "listHolders",
  summary: "Owners by what they hold, with share and rank, at one block",
  query: PAGE_PARAMETERS,
  answer: HolderList,
  handle: async (asked, deps) => {
    const reading = await readingOf(asked, deps, ["holders"]);
    const { source, limit, cursor, cursorAt } = reading;
    return respond(reading, deps, true, async (start) => {
      // The ranking needs all pairs of the collection, whatever the page. The place in the cursor is the index of a holder.
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
  query: { ...PAGE_PARAMETERS, owner: ownerParameter("Only tokens of this owner"), trait: traitParameter },
  answer: TokenList,
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
  query: { ...PAGE_PARAMETERS, metadata_as_of: metadataTime(TIME) },
  answer: TokenDetails,
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
    const mayBeLocked = token.kind === TransferKind.erc721 && hash !== "";
    const locked = mayBeLocked ? await runtime.lockedAt(source.address, id, { number: block, hash }) : null;
    return { body: { ...page, locked }, headers: answer.headers };
  },
});

const listTokenHolders = json({
  ...EXPLORING,
  path: `${ONE_COLLECTION}/tokens/:id/holders`,
  id: "listTokenHolders",
  summary: "Owners of one token with what each holds, at one block",
  parts: { ...COLLECTION_PARTS, id: tokenIdPart },
  query: PAGE_PARAMETERS,
  answer: TokenHolderList,
  handle: async (asked, deps) => {
    const { id } = asked.path;
    const reading = await readingOf(asked, deps, ["holders of", id.toString()]);
    const { source, limit, cursor, cursorAt } = reading;
    return respond(reading, deps, true, async (start) => {
      const isFirst = cursor === undefined;
      const { collection, entries, next } = await holdersPage(source, start, id, { isFirst, limit });
      const { addresses } = collection.ledger;
      const result = entries.map(({ owner, amount, block }) => {
        return { owner: addresses.hex(owner), amount: amount.toString(), block };
      });
      return { result, cursor: cursorAt(start, next) };
    });
  },
});

/** The fields that the two operations on transfers share. */
const TRANSFERS_ANSWER = {
  ...EXPLORING,
  answer: TransferList,
} as const;

const listTransfers = json({
  ...TRANSFERS_ANSWER,
  path: `${ONE_COLLECTION}/transfers`,
  id: "listTransfers",
  summary: "Transfers of a collection up to one block, newest first, as its logs give them",
  query: { ...TRANSFER_PARAMETERS, tokenId: tokenIdParameter },
  handle: (asked, deps) => transfersAnswer(asked, deps, { ...asked.query, id: asked.query.tokenId }),
});

const listTokenTransfers = json({
  ...TRANSFERS_ANSWER,
  path: `${ONE_COLLECTION}/tokens/:id/transfers`,
  id: "listTokenTransfers",
  summary: "Transfers of one token up to one block, newest first, as the logs give them",
  parts: { ...COLLECTION_PARTS, id: tokenIdPart },
  query: TRANSFER_PARAMETERS,
  handle: (asked, deps) => transfersAnswer(asked, deps, { ...asked.query, id: asked.path.id }),
});

const listTraits = json({
  ...EXPLORING,
  path: `${ONE_COLLECTION}/traits`,
  id: "listTraits",
  summary: "How many tokens have which trait, by the metadata known now. Up to 100,000 tokens",
  answer: TraitList,
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
  listTokenHolders,
  listTraits,
];
