/**
 * The transfers of a contract, or of one of its tokens, in the hosted service's form: each with the time of its block and
 * its transaction, which the node is asked for once.
 */
import type { Static } from "@sinclair/typebox";
import type { Chain } from "../../chains/chains.ts";
import { isoTime } from "../../core/block-time.ts";
import { Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Requester } from "../../core/work.ts";
import { CONTRACT_TYPES } from "../../events/columns.ts";
import { type TransfersPage, transfersPage } from "../../nft/explore/walks.ts";
import { looksLikeSpam } from "../../nft/listings/record.ts";
import { signCursor, type Walk } from "../../nft/walks/cursor.ts";
import { currentBlock, currentCollection } from "../../nft/walks/snapshot.ts";
import type { StartedWalk } from "../../nft/walks/walk.ts";
import { inTime, type LogFacts, type NftChain, responseHeaders } from "../wire/answered-block.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import {
  anyText,
  anyTokenIdPart,
  blockParameter,
  chainOrDefault,
  choice,
  fixedByCursor,
  notEnabled,
  type ParsedValues,
  timeParameter,
  wholeNumber,
} from "../wire/parameters.ts";
import { API_PREFIX } from "../wire/paths.ts";
import { type CollectionReading, factsOfTransfers, respond, roomForBlocks } from "./explore-answers.ts";
import { HostedTransferPage } from "./hosted-models.ts";
import { CONTRACT_PART, type HostedNftDeps, isWalkless, listingStatus } from "./hosted-nfts.ts";
import { namesFor, wantedCollection } from "./listing.ts";
import { walkOf } from "./listing-parameters.ts";
import { CURSOR_EXAMPLE, wireForm } from "./nft-models.ts";
import type { PriceDeps } from "./price.ts";

type HostedTransferDeps = HostedNftDeps & Pick<PriceDeps, "pricesOf" | "troubleOf">;

const { json } = operationsFor<HostedTransferDeps>();

const transferQuery = (maxPageSize: number) => {
  const limit = Math.min(100, maxPageSize);
  const first = fixedByCursor({
    format: choice(
      ["decimal", "hex"],
      { allowed: "must be decimal or hex", default: "decimal" },
      { description: "Format of the token id", example: "decimal" },
    ),
    limit: wholeNumber(
      { min: 1, max: maxPageSize, default: limit },
      { description: "Desired page size", example: limit },
    ),
    from_block: blockParameter("Only transfers from this block on"),
    to_block: blockParameter("Only transfers up to this block, at which the whole walk is true"),
    from_date: timeParameter("Only transfers from this time on, unless from_block is given"),
    to_date: timeParameter("Only transfers up to this time, unless to_block is given"),
    order: choice(
      ["DESC", "ASC", "desc", "asc"],
      { allowed: "must be DESC or ASC", default: "DESC" },
      { description: "DESC: the newest first", example: "DESC" },
    ),
  });
  return {
    ...{ chain: chainOrDefault, ...first },
    cursor: anyText({
      description: "Cursor of the previous page; it fixes the other parameters but the chain",
      example: CURSOR_EXAMPLE,
    }),
  };
};
type TransferParameters = ParsedValues<ReturnType<typeof transferQuery>>;

/** What a page of a walk is asked for. A cursor carries it: the first block stands in place of a total. */
interface WantedTransfers {
  readonly limit: number;
  readonly hex: boolean;
  readonly isRising: boolean;
  readonly fromBlock: number;
  readonly toBlock: number | undefined;
}

const ofCursor = ({ limit, hex, holders: isRising, total: fromBlock = 0 }: Walk): WantedTransfers => ({
  ...{ limit, hex, isRising, fromBlock, toBlock: undefined },
});

/** @param head the newest block that is shown */
async function ofQuery(
  query: TransferParameters,
  requester: Requester,
  deps: HostedTransferDeps,
  head: number,
): Promise<WantedTransfers> {
  const { chain, limit, format, order, from_block, to_block, from_date, to_date } = query;
  const at = (time: number) => {
    const prices = deps.pricesOf(chain);
    if (prices === undefined) throw notEnabled(chain, deps);
    return inTime(prices.blockAt(time, requester), chain, deps);
  };
  const first = async () => {
    if (from_block !== undefined) return from_block === "latest" ? head : from_block;
    if (from_date === undefined || from_date === 0) return 0;
    return ((await at(from_date - 1))?.number ?? -1) + 1;
  };
  const last = async () => {
    if (to_block !== undefined) return to_block === "latest" ? undefined : to_block;
    return to_date === undefined ? undefined : ((await at(to_date))?.number ?? -1);
  };
  const [fromBlock, toBlock] = [await first(), await last()];
  const isRising = order.toUpperCase() === "ASC";
  // Above the head there is nothing yet, so the newest block is the last one.
  return {
    limit,
    hex: format === "hex",
    isRising,
    fromBlock,
    toBlock: toBlock !== undefined && toBlock > head ? undefined : toBlock,
  };
}

interface AskedTransfers {
  readonly address: Address;
  readonly id: bigint | undefined;
  readonly query: TransferParameters;
  readonly requester: Requester;
}

async function transfersOf({ address, id, query, requester }: AskedTransfers, deps: HostedTransferDeps) {
  const { chain } = query;
  const secret = `${deps.cursorSecret}/hosted transfers of ${id ?? "all"}`;
  const cursor = query.cursor ? walkOf(query.cursor, secret, { chainId: chain.chainId, address }) : undefined;
  const { source, runtime, collection } = await wantedCollection({ chain, address, walk: cursor }, requester, deps);
  const newest = currentBlock(collection, source.chain)?.number ?? -1;
  const wanted = cursor === undefined ? await ofQuery(query, requester, deps, newest) : ofCursor(cursor);
  const { count } = wireForm(deps.wireTypes === "native");
  const envelope = (page: number) => ({ page: count(page), page_size: count(wanted.limit) });
  const ends = {
    block_exists: wanted.fromBlock <= newest,
    index_complete: listingStatus(collection) === "SYNCED",
  };
  if (isWalkless(collection, source) || wanted.fromBlock > newest || wanted.toBlock === -1) {
    const headers = responseHeaders(undefined, { trouble: runtime.trouble(), isStale: deps.isStale() });
    return { body: { ...envelope(0), cursor: null, result: [], ...ends }, headers };
  }
  const reading = { source, runtime, requester, cursor, asOf: cursor === undefined ? wanted.toBlock : undefined };
  const {
    body: page,
    start,
    headers,
  } = await respond(reading, deps, false, (start) => pageOf(reading, start, { id, wanted }));
  const facts = await factsFor(reading, deps, { chain, start, page });
  // A page ends before the first transfer of which the node doesn't tell what the hosted service always tells.
  const known = page.transfers.findIndex((one, i) => !isKnown(facts[i], runtime, one.block));
  const isCut = known > 0;
  if (known === 0) throw noFacts(chain);
  const { next } = isCut
    ? (
        await respond({ ...reading, cursor: start.walk }, deps, false, (again) =>
          pageOf(reading, again, { id, wanted: { ...wanted, limit: known } }),
        )
      ).body
    : page;
  const now = await currentCollection(source, start.walk);
  const shown = page.transfers.slice(0, isCut ? known : undefined);
  const names = await namesFor(deps, runtime, { ...source, name: now.identified?.name ?? null });
  const flags = { isSpam: looksLikeSpam(now, names), isVerified: now.verifiedCollection };
  const records = shown.map((one, i) => recordOf(one, facts[i], { address, flags, runtime, wanted, deps }));
  const { limit, hex, isRising: holders, fromBlock: total } = wanted;
  const walk = { ...start.walk, page: start.walk.page + 1, limit, hex, holders, total };
  const nextCursor = next === undefined ? null : signCursor({ ...walk, position: next }, secret);
  return { body: { ...envelope(start.walk.page), cursor: nextCursor, result: records, ...ends }, headers };
}

const noFacts = (chain: Chain): Refusal =>
  new Refusal(
    "chain_unavailable",
    `no endpoint of ${chain.name} tells the transactions of these transfers; try again`,
    {
      retryAfter: 5,
    },
  );

type PagedTransfer = TransfersPage["transfers"][number];
type HostedReading = Omit<CollectionReading, "cursorAt" | "limit">;

/** Both facts of each log: the hosted service always tells them. */
const FACTS = { times: true, transactions: true } as const;

function pageOf(
  { source, runtime, cursor }: HostedReading,
  start: StartedWalk,
  { id, wanted }: { readonly id: bigint | undefined; readonly wanted: WantedTransfers },
): Promise<TransfersPage> {
  const { limit, isRising, fromBlock } = wanted;
  const takes = roomForBlocks(runtime, source.address, FACTS);
  return transfersPage(source, start, { id }, { isFirst: cursor === undefined, limit, isRising, fromBlock, takes });
}

async function factsFor(
  reading: HostedReading,
  deps: HostedTransferDeps,
  { chain, start, page }: { readonly chain: Chain; readonly start: StartedWalk; readonly page: TransfersPage },
): Promise<readonly LogFacts[]> {
  const asking = factsOfTransfers(reading, deps, { start, page, wanted: FACTS });
  return (await inTime(asking, chain, deps)) ?? [];
}

const timeOf = (facts: LogFacts | undefined, { blockFacts }: NftChain, block: number): number | undefined =>
  facts?.time ?? blockFacts.timeOf(block);

const isKnown = (facts: LogFacts | undefined, runtime: NftChain, block: number): boolean =>
  facts?.isRead === true && timeOf(facts, runtime, block) !== undefined;

interface TransferRecordParts {
  readonly address: Address;
  readonly flags: { readonly isSpam: boolean; readonly isVerified: boolean };
  readonly runtime: NftChain;
  readonly wanted: WantedTransfers;
  readonly deps: Pick<HostedTransferDeps, "wireTypes">;
}

function recordOf(
  { kind, id, from, to, amount, block, logIndex }: PagedTransfer,
  facts: LogFacts | undefined,
  { address, flags, runtime, wanted, deps }: TransferRecordParts,
): Static<typeof HostedTransferPage>["result"][number] {
  const origin = facts?.origin;
  const { flag } = wireForm(deps.wireTypes === "native");
  return {
    token_address: address,
    token_id: wanted.hex ? `0x${BigInt(id).toString(16)}` : id.toString(),
    ...{ from_address: from, to_address: to, value: null, amount: amount.toString() },
    contract_type: CONTRACT_TYPES[kind] ?? null,
    block_number: String(block),
    block_timestamp: isoTime(timeOf(facts, runtime, block) ?? 0) ?? "",
    block_hash: origin?.blockHash ?? null,
    transaction_hash: origin?.transaction ?? null,
    transaction_type: origin === undefined ? null : origin.isBatch ? "Batch" : "Single",
    transaction_index: origin?.transactionIndex ?? null,
    log_index: logIndex,
    operator: origin?.operator ?? null,
    possible_spam: flag(flags.isSpam),
    verified_collection: flag(flags.isVerified),
  };
}

const ANSWER = {
  method: "GET",
  scope: "read",
  tag: "NFT",
  hasBlock: true,
  answer: HostedTransferPage,
  errors: [400, 404, 409, 410, 503],
} as const;

/** @param maxPageSize the operator's bound on a page */
export const hostedTransferOperations = (maxPageSize: number): readonly Operation<HostedTransferDeps>[] => [
  json({
    ...ANSWER,
    path: `${API_PREFIX}/nft/:address/transfers`,
    id: "getNFTContractTransfers",
    summary: "Get the transfers of an NFT contract, with times and transactions",
    parts: CONTRACT_PART,
    query: transferQuery(maxPageSize),
    handle: ({ path: { address }, query, requester }, deps) =>
      transfersOf({ address, id: undefined, query, requester }, deps),
  }),
  json({
    ...ANSWER,
    path: `${API_PREFIX}/nft/:address/:token_id/transfers`,
    id: "getNFTTransfers",
    summary: "Get the transfers of one NFT, with times and transactions",
    parts: { ...CONTRACT_PART, token_id: anyTokenIdPart },
    query: transferQuery(maxPageSize),
    handle: ({ path: { address, token_id: id }, query, requester }, deps) =>
      transfersOf({ address, id, query, requester }, deps),
  }),
];
