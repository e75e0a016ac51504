/** The price of a token, its series, and the search for tokens. */

import { Type } from "@sinclair/typebox";
import { type Chain, pricedToken } from "../../chains/chains.ts";
import type { ChainTrouble } from "../../chains/trouble.ts";
import type { Clock } from "../../core/clock.ts";
import { Refusal } from "../../core/errors.ts";
import { TOKEN_ADDRESS } from "../../core/examples.ts";
import type { Address } from "../../core/hex.ts";
import { named } from "../../core/schema-parts.ts";
import { runInSlices } from "../../core/turns.ts";
import type { Requester } from "../../core/work.ts";
import type { Explorer } from "../../nft/explore/readings.ts";
import { KnownToken } from "../../prices/models.ts";
import type { PriceAnswer } from "../../prices/price-computer.ts";
import type { Prices } from "../../prices/price-service.ts";
import type { TokenIndex } from "../../prices/token-index.ts";
import { type ChainDeps, enabledChain, inTime, responseHeaders } from "../wire/answered-block.ts";
import { jsonHeaders } from "../wire/answers.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import {
  addressPart,
  anyText,
  chainOrDefault,
  chainPart,
  flag,
  notEnabled,
  pageLimit,
  wholeNumber,
} from "../wire/parameters.ts";
import { API_PREFIX } from "../wire/paths.ts";
import { cachedResponse } from "../wire/response-cache.ts";
import { NO_PRICE, PriceAnswerModel, PriceSeriesModel, TokenPriceList } from "./price-models.ts";
import {
  includeParameter,
  inTokens,
  momentParameter,
  PRICE_QUERY,
  priceParameters,
  priceParametersAt,
  TokensToPrice,
  tokensOfBody,
} from "./price-parameters.ts";
import { proofOfPrice } from "./price-proof.ts";

export interface PriceDeps extends ChainDeps {
  readonly clock: Clock;
  readonly explorer: Pick<Explorer, "memory" | "node">;
  pricesOf(chain: Chain): Prices | undefined;
  troubleOf(chain: Chain): ChainTrouble | undefined;
  isStale(): boolean;
  /** What the operator's lists, this program's data and the token's own words say of it. */
  tokenFlags(
    chain: Chain,
    address: Address,
    words: { readonly name: string; readonly symbol: string },
  ): { readonly possibleSpam: boolean; readonly verifiedContract: boolean };
  /** The index of the known ERC-20 tokens of enabled chains. */
  tokenIndex(): Promise<TokenIndex>;
  /** Tokens of enabled chains that were priced here. @param text in lower case */
  pricedTokens(text: string, limit: number): Promise<readonly KnownToken[]>;
}

/** The block of a price, for its headers. */
const blockFacts = ({ asOf, finality }: PriceAnswer) => ({
  ...{ block: asOf.number, hash: asOf.hash, time: asOf.timestamp },
  finalized: finality === "finalized",
});

/** The number of the last block at or before a time. @throws Refusal `no_price_at_block` before the chain began */
async function blockAt(prices: Prices, time: number, requester: Requester): Promise<number> {
  const block = await prices.blockAt(time, requester);
  if (block !== undefined) return block.number;
  throw new Refusal("no_price_at_block", `to_time: the chain ${prices.chain.name} began later`, {
    details: { parameter: "to_time", pools: [] },
  });
}

/** The token of a request, as the client named it. */
interface AskedToken {
  readonly chain: Chain;
  readonly address: Address;
  readonly include?: readonly string[] | undefined;
}

/** The record of a token as the client named it, with what `include=info` adds. */
function recordFor({ record, asOf }: PriceAnswer, { chain, address, include = [] }: AskedToken, deps: PriceDeps) {
  const { provenance, depth, why, ...price } = record;
  const words = { name: record.tokenName, symbol: record.tokenSymbol };
  const info = include.includes("info")
    ? {
        ...deps.tokenFlags(chain, pricedToken(chain, address), words),
        blockTimestamp: `${asOf.timestamp * 1_000}`,
      }
    : {};
  const isOther = record.tokenAddress !== address;
  const isToldWhence = provenance !== undefined && include.includes("provenance");
  return {
    ...{ ...price, tokenAddress: address, ...info },
    ...(isToldWhence ? { provenance: isOther ? { pricedAs: record.tokenAddress, ...provenance } : provenance } : {}),
    ...(depth === undefined ? {} : { depth }),
    ...(why === undefined ? {} : { why }),
  };
}

/** The JSON of a record: the kept text, unless the request has the record in another form. */
function bodyOf(answer: PriceAnswer, asked: AskedToken, deps: PriceDeps): string {
  const isKept = asked.include?.some((one) => one === "info" || one === "proof") !== true;
  return answer.record.tokenAddress === asked.address && isKept
    ? answer.body
    : JSON.stringify(recordFor(answer, asked, deps));
}

const { cached, json } = operationsFor<PriceDeps>();

export const PRICE_OPERATIONS: readonly Operation<PriceDeps>[] = [
  cached({
    method: "GET",
    path: `${API_PREFIX}/erc20/:address/price`,
    scope: "read",
    id: "getTokenPrice",
    summary: "Get ERC20 token price",
    description: "The price of one token, in the native coin and in US dollars, now or at the end of a block.",
    tag: "Token",
    parts: {
      address: addressPart(TOKEN_ADDRESS, "20-byte hex; a mixed-case address must have a valid EIP-55 checksum"),
    },
    query: PRICE_QUERY,
    answer: PriceAnswerModel,
    hasBlock: true,
    errors: [400, 404, 409],
    errorExamples: { 404: NO_PRICE },
    handle: async ({ path, query, requester }, deps) => {
      const { chain } = query;
      const prices = deps.pricesOf(chain);
      if (prices === undefined) throw notEnabled(chain, deps);
      const reading = async () => {
        const parameters = await priceParametersAt(query, (time) => blockAt(prices, time, requester));
        const request = { ...parameters, address: pricedToken(chain, path.address) };
        return [request, await prices.answer(request, requester)] as const;
      };
      const [request, priced] = await inTime(reading(), chain, deps);
      const [trouble, isStale] = [deps.troubleOf(chain), deps.isStale()];
      const shown = { trouble, isStale: isStale || priced.finality === "stale" };
      const headers = jsonHeaders(responseHeaders(blockFacts(priced), shown));
      const asked = { chain, address: path.address, include: query.include };
      if (query.include?.includes("proof") === true) {
        const { proofs } = enabledChain(chain, deps);
        const proving = deps.explorer.node.run(requester, () => proofOfPrice(priced, chain, proofs));
        const proof = await inTime(proving, chain, deps);
        const body = JSON.stringify({ ...recordFor(priced, asked, deps), proof });
        return { answer: cachedResponse(body, 200, headers), isCurrent: undefined };
      }
      const answer = cachedResponse(bodyOf(priced, asked, deps), 200, headers);
      const still = prices.stillCurrent(request, priced.asOf);
      const isCurrent =
        still && ((key: string) => deps.troubleOf(chain) === trouble && deps.isStale() === isStale && still(key));
      return { answer, isCurrent };
    },
  }),
  json({
    method: "POST",
    path: `${API_PREFIX}/erc20/prices`,
    scope: "read",
    id: "getMultipleTokenPrices",
    summary: "Get the prices of up to 100 ERC20 tokens",
    description:
      "Records in the order of the tokens. Tokens without a price are left out; with include=errors an error stands in their place. All tokens without to_block are priced at one block.",
    tag: "Token",
    query: {
      chain: chainOrDefault,
      include: includeParameter(["percent_change", "provenance", "pair", "depth", "info", "errors"]),
      size_usd: PRICE_QUERY.size_usd,
      min_liquidity_usd: PRICE_QUERY.min_liquidity_usd,
      min_pair_side_liquidity_usd: PRICE_QUERY.min_pair_side_liquidity_usd,
      max_token_inactivity: PRICE_QUERY.max_token_inactivity,
    },
    body: TokensToPrice,
    answer: TokenPriceList,
    hasBlock: true,
    errors: [400],
    handle: async ({ query, body, requester, question }, deps) => {
      const { chain, include = [] } = query;
      const prices = deps.pricesOf(chain);
      if (prices === undefined) throw notEnabled(chain, deps);
      const asked = tokensOfBody(body, priceParameters(query), deps);
      const requests = asked.map((one) => ({ ...one, address: pricedToken(chain, one.address) }));
      question.asksFor(requests.length);
      const answers = await inTime(prices.answers(requests, requester), chain, deps);
      answers.forEach((answer, at) => {
        if (answer instanceof Refusal && answer.code === "invalid_parameter") throw inTokens(answer, at);
      });
      const records = answers.flatMap((answer, at) => {
        const { address } = asked[at]!;
        if (!(answer instanceof Refusal)) return recordFor(answer, { chain, address, include }, deps);
        const { code, message, details } = answer;
        const refused = { tokenAddress: address, code, message, ...(details && { details }) };
        return include.includes("errors") ? refused : [];
      });
      const priced = answers.flatMap((answer) => (answer instanceof Refusal ? [] : answer));
      const [first] = priced;
      const isOneBlock = priced.every(({ asOf }) => asOf.hash === first?.asOf.hash);
      const facts = first !== undefined && isOneBlock ? blockFacts(first) : undefined;
      const isStale = deps.isStale() || priced.some(({ finality }) => finality === "stale");
      const state = { trouble: deps.troubleOf(chain), isStale };
      return { body: records, headers: responseHeaders(facts, state) };
    },
  }),
  json({
    method: "GET",
    path: "/api/prices/:chain/:address/series",
    scope: "read",
    id: "listPrices",
    summary: "Prices at evenly spaced blocks, each equal to the price at that block. At most 64 requests for logs",
    tag: "Token",
    parts: { chain: chainPart, address: addressPart(TOKEN_ADDRESS, "Token address") },
    query: {
      from: momentParameter("First block, or an ISO time; 24 hours before the end by default", "2026-11-22T00:00:00Z"),
      to: momentParameter("Last block, or an ISO time; the newest block by default", "21000000"),
      points: wholeNumber({ min: 1, max: 200, default: 50 }, { description: "Number of blocks", example: 50 }),
      stored: flag(false, {
        description:
          "true: prices that the log has, at once and without a node: the last one of each part of the range, and where there are gaps",
        example: false,
      }),
    },
    answer: PriceSeriesModel,
    errors: [400, 404, 409],
    handle: async ({ path, query, requester, question }, deps) => {
      const { from, to, points, stored } = query;
      // Each point has a block of its own, with a header and perhaps a state. It pays by these calls.
      question.budget.grow(points);
      const prices = deps.pricesOf(path.chain);
      if (prices === undefined) throw notEnabled(path.chain, deps);
      const wanted = { from, to, points };
      const of = { chain: path.chain.name, address: path.address };
      // A reading of stored prices waits for no node.
      const token = pricedToken(path.chain, path.address);
      if (stored) {
        const reading = deps.explorer.memory.run(requester, () => prices.storedSeries(token, wanted));
        const { points: result, ...range } = await inTime(reading, path.chain, deps);
        return { body: { ...of, result, ...range } };
      }
      const reading = deps.explorer.node.run(requester, () => prices.series(token, wanted, requester));
      return { body: { ...of, result: await inTime(reading, path.chain, deps) } };
    },
  }),
  json({
    method: "GET",
    path: "/api/tokens",
    scope: "read",
    id: "findErc20Tokens",
    summary:
      "ERC-20 tokens whose address, symbol or name has a text: well-known ones, those of the operator's lists, and those priced here",
    tag: "Token",
    query: {
      text: anyText({
        description: "Part of the address, the symbol or the name, any case; all tokens by default",
        example: "uni",
      }),
      limit: pageLimit("Most tokens"),
    },
    answer: named("KnownTokenList", Type.Object({ result: Type.Array(named("KnownToken", KnownToken)) })),
    errors: [400],
    handle: async ({ query: { text, limit }, requester }, { tokenIndex, pricedTokens, explorer }) => {
      const wanted = text?.trim().toLowerCase().slice(0, 100) ?? "";
      const search = (await tokenIndex()).search(wanted, limit);
      // Nearly every search ends in its first slice, and then waits for no other reading.
      const { done, value } = search.next();
      const listed = done === true ? value : await explorer.memory.run(requester, () => runInSlices(search));
      if (listed.length === limit) return { body: { result: listed } };
      const isListed = ({ chain, address }: KnownToken) =>
        listed.some((one) => one.chain === chain && one.address === address);
      const priced = await pricedTokens(wanted, limit);
      return { body: { result: [...listed, ...priced.filter((one) => !isListed(one))].slice(0, limit) } };
    },
  }),
];
