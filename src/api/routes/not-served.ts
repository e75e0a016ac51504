/**
 * Paths of the hosted service that this one does not have. They are answered as such, so that a client learns why, and so
 * that no word of them is read as an address or a token id.
 */
import { Refusal } from "../../core/errors.ts";
import { API_PREFIX } from "../wire/paths.ts";

/** By the path below the prefix, in the hosted service's own patterns, what it would be about. */
export const NOT_SERVED: readonly { readonly path: string; readonly what: string }[] = [
  ...of("trades and floor prices of NFTs", ["/nft/:address/trades", "/nft/:address/lowestprice"]),
  ...of("sales and floor prices of NFTs", ["/nft/:address/floor-price", "/nft/:address/price", "/nft/:address/stats"]),
  ...of("transfers of all NFT contracts together", ["/nft/transfers", "/block/:block/nft/transfers"]),
  ...of("a wallet's transfers of NFTs", ["/:address/nft/transfers"]),
  ...of("blocks and transactions", [
    ...["/block/:block", "/transaction/:hash", "/transaction/:hash/verbose"],
    ...["/transaction/:hash/internal-transactions", "/:address", "/:address/verbose"],
  ]),
  ...of("balances and transfers of coins", [
    ...["/:address/balance", "/:address/erc20", "/:address/erc20/transfers", "/wallets/balances"],
    ...["/erc20/:address/transfers", "/erc20/:address/owners", "/erc20/:address/allowance"],
  ]),
  ...of("tokens by their symbol alone, which any contract may have,", ["/erc20/metadata/symbols"]),
  ...of("logs and functions of contracts", ["/:address/logs", "/:address/events", "/:address/function"]),
  ...of("names of ENS and of other registries", [
    ...["/resolve/:domain", "/resolve/ens/:domain", "/resolve/:address/reverse"],
  ]),
  ...of("uploads and account weights", ["/ipfs/uploadFolder", "/info/endpointWeights"]),
];

function of(what: string, paths: readonly string[]) {
  return paths.map((path) => ({ path, what }));
}

/** @param served the operations that this service has, as `GET /api/v2/nft/{address}` */
export const notServed = (what: string, served: readonly string[]): Refusal =>
  new Refusal("not_served", `${what} are not served here; details.served lists what is`, { details: { served } });

/** The operations below the prefix, for the list of what is served. */
export const servedOf = (
  operations: readonly { readonly method: string; readonly path: string; readonly isUpgrade?: boolean }[],
): string[] =>
  operations
    .filter(({ path, isUpgrade }) => path.startsWith(API_PREFIX) && isUpgrade !== true)
    .map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, "{$1}")}`);
