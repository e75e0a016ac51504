/** The hosted service's neighbours of the price: facts of tokens, the pair of two tokens and its reserves, and blocks by time. */

import type { Chain } from "../../chains/chains.ts";
import { parseExchange } from "../../chains/exchanges.ts";
import { isoTime } from "../../core/block-time.ts";
import { invalidParameter, Refusal } from "../../core/errors.ts";
import { PAIR_EXAMPLE, TOKEN_ADDRESS, WETH_ADDRESS } from "../../core/examples.ts";
import type { Address } from "../../core/hex.ts";
import type { Requester } from "../../core/work.ts";
import type { HeaderRef } from "../../events/types.ts";
import type { TokenFacts } from "../../prices/market/market.ts";
import type { Prices } from "../../prices/price-service.ts";
import { exchangesAllowed } from "../../prices/search/pool-lists.ts";
import { inTime } from "../wire/answered-block.ts";
import { errorExample } from "../wire/errors.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import {
  addressList,
  addressPart,
  blockParameter,
  chainOrDefault,
  notEnabled,
  parsedText,
  required,
  timeParameter,
} from "../wire/parameters.ts";
import { API_PREFIX } from "../wire/paths.ts";
import {
  BlockDate,
  PairModel,
  ReservesModel,
  type TokenMetadata,
  TokenMetadataList,
  WebVersion,
} from "./hosted-models.ts";
import type { PriceDeps } from "./price.ts";

interface HostedTokenDeps extends Pick<PriceDeps, "pricesOf" | "troubleOf" | "clock" | "tokenFlags" | "chains"> {
  /** URL of a token's logo by the operator's lists; "" without one. */
  logoOf(chainId: number, address: Address): string;
  /** Version of the program. */
  readonly version: string;
}

const { json } = operationsFor<HostedTokenDeps>();

/** The prices of an enabled chain. @throws Refusal `chain_not_enabled` */
function pricesFor(chain: Chain, deps: Pick<HostedTokenDeps, "pricesOf" | "chains">): Prices {
  const prices = deps.pricesOf(chain);
  if (prices === undefined) throw notEnabled(chain, deps);
  return prices;
}

/** The pair of both at Uniswap v2. */

/** Most addresses of one request. */
const MAX_ADDRESSES = 100;

const orNull = (text: string): string | null => text || null;

function metadataOf(
  chain: Chain,
  address: Address,
  facts: TokenFacts | undefined,
  deps: HostedTokenDeps,
): TokenMetadata {
  const { name = "", symbol = "", decimals, kind } = facts ?? {};
  const { possibleSpam, verifiedContract } = deps.tokenFlags(chain, address, { name, symbol });
  return {
    ...{ address, name: orNull(name), symbol: orNull(symbol) },
    decimals: kind === "erc20" && decimals !== undefined ? String(decimals) : null,
    ...{ logo: orNull(deps.logoOf(chain.chainId, address)), logo_hash: null, thumbnail: null },
    ...{ block_number: null, validated: null, created_at: null },
    ...{ possible_spam: possibleSpam, verified_contract: verifiedContract },
  };
}

const getMetadata = json({
  method: "GET",
  path: `${API_PREFIX}/erc20/metadata`,
  scope: "read",
  id: "getTokenMetadata",
  summary: "Get name, symbol and decimals of up to 100 tokens, as their contracts tell them now",
  tag: "Token",
  query: {
    chain: chainOrDefault,
    addresses: required(
      addressList({ max: MAX_ADDRESSES }, { description: "The tokens. Each counts as a request" }, TOKEN_ADDRESS),
    ),
  },
  answer: TokenMetadataList,
  errors: [400],
  handle: async ({ query: { chain, addresses }, requester, question }, deps) => {
    question.asksFor(addresses.length);
    const facts = await inTime(pricesFor(chain, deps).pairs.facts(addresses, requester), chain, deps);
    return { body: addresses.map((address) => metadataOf(chain, address, facts.get(address), deps)) };
  },
});

const MOMENT = {
  to_block: blockParameter("At the end of that block; the newest one by default"),
  to_date: timeParameter("At the last block at or before that time, unless to_block is given"),
};

interface MomentParameters {
  readonly to_block: number | "latest" | undefined;
  readonly to_date: number | undefined;
}

/** The block that a request names; undefined for the newest one. @throws Refusal 400, 404 */
async function blockOf(
  { to_block: number, to_date: time }: MomentParameters,
  prices: Prices,
  requester: Requester,
): Promise<HeaderRef | undefined> {
  if (number === "latest" || (number === undefined && time === undefined)) return undefined;
  const block = number === undefined ? await prices.blockAt(time!, requester) : await prices.header(number);
  if (block !== undefined) return block;
  if (number !== undefined) throw invalidParameter("to_block", `must not be above the head of ${prices.chain.name}`);
  throw new Refusal("not_found", `to_date: the chain ${prices.chain.name} began later`);
}

const getPair = json({
  method: "GET",
  // The router knows one name for the first part of a path.
  path: `${API_PREFIX}/:address/:token1/pairAddress`,
  scope: "read",
  id: "getPairAddress",
  summary: "Get the pool of two tokens at an exchange; of several the one with the most liquidity",
  tag: "Token",
  parts: { address: addressPart(TOKEN_ADDRESS, "One token"), token1: addressPart(WETH_ADDRESS, "The other one") },
  query: {
    ...{ chain: chainOrDefault, ...MOMENT },
    exchange: required(
      parsedText(
        (text, { all }) => parseExchange(text, all),
        { allowed: ({ all }) => exchangesAllowed(all), schema: { minLength: 1 } },
        { description: "Name of an exchange, or a factory's address", example: "uniswapv2" },
      ),
    ),
  },
  answer: PairModel,
  errors: [400, 404],
  errorExamples: { 404: errorExample("not_found", "the exchange has no pool of these two tokens") },
  handle: async ({ path: { address, token1 }, query, requester }, deps) => {
    const { chain, exchange } = query;
    if (address === token1) throw invalidParameter("token1", "must be another token than the first one");
    const prices = pricesFor(chain, deps);
    const reading = async () => {
      const block = await blockOf(query, prices, requester);
      const pool = await prices.pairs.poolOf([address, token1], { exchange, block }, requester);
      if (pool === undefined) throw new Refusal("not_found", "the exchange has no pool of these two tokens");
      return { pool, facts: await prices.pairs.facts([pool.token0, pool.token1], requester) };
    };
    const { pool, facts } = await inTime(reading(), chain, deps);
    const [first, second] = [pool.token0, pool.token1].map((token) => metadataOf(chain, token, facts.get(token), deps));
    return { body: { token0: first!, token1: second!, pairAddress: pool.id } };
  },
});

const getReserves = json({
  method: "GET",
  path: `${API_PREFIX}/:address/reserves`,
  scope: "read",
  id: "getPairReserves",
  summary: "Get the reserves of a pair, now or at a block",
  tag: "Token",
  parts: { address: addressPart(PAIR_EXAMPLE, "The pair") },
  query: { chain: chainOrDefault, ...MOMENT },
  answer: ReservesModel,
  errors: [400, 404],
  handle: async ({ path: { address }, query, requester }, deps) => {
    const { chain } = query;
    const prices = pricesFor(chain, deps);
    const reading = async () => prices.pairs.reservesOf(address, await blockOf(query, prices, requester), requester);
    const { reserve0, reserve1 } = await inTime(reading(), chain, deps);
    return { body: { reserve0: reserve0.toString(), reserve1: reserve1.toString() } };
  },
});

const getDateToBlock = json({
  method: "GET",
  path: `${API_PREFIX}/dateToBlock`,
  scope: "read",
  id: "getDateToBlock",
  summary: "Get the last block at or before a time",
  tag: "Token",
  query: { chain: chainOrDefault, date: required(timeParameter("The time")) },
  answer: BlockDate,
  errors: [400, 404],
  handle: async ({ query: { chain, date }, requester }, deps) => {
    const found = await inTime(pricesFor(chain, deps).blockAt(date, requester), chain, deps);
    if (found === undefined) throw new Refusal("not_found", `date: the chain ${chain.name} began later`);
    const { number: block, hash, parentHash: parent_hash, timestamp } = found;
    const times = { date: isoTime(date) ?? "", block_timestamp: isoTime(timestamp) ?? "", timestamp };
    return { body: { ...times, block, hash, parent_hash } };
  },
});

const getVersion = json({
  method: "GET",
  path: `${API_PREFIX}/web3/version`,
  scope: "read",
  id: "web3ApiVersion",
  summary: "Get the version of this server",
  tag: "Service",
  answer: WebVersion,
  errors: [],
  handle: async (_asked, { version }) => ({ body: { version } }),
});

export const HOSTED_TOKEN_OPERATIONS: readonly Operation<HostedTokenDeps>[] = [
  getMetadata,
  getPair,
  getReserves,
  getDateToBlock,
  getVersion,
];
