/** The parameters of `eth_getLogs`: of any filter, and of a contract's NFT transfers. */
import { quantity } from "../../core/hex.ts";
import type { LogFilter, TransferFilter } from "../port.ts";
import { NFT_TOPICS } from "./transfers.ts";

/** The parameter object of `eth_getLogs` for a contract's NFT transfers. */
export const transferParams = ({ address, fromBlock, toBlock }: TransferFilter): Record<string, unknown> =>
  logFilterParams({ addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock });

/** The parameter object of `eth_getLogs`. */
export function logFilterParams(filter: LogFilter): Record<string, unknown> {
  const { addresses, topics, moreTopics = [] } = filter;
  const first = topics.length === 0 ? null : topics;
  return {
    fromBlock: quantity(filter.fromBlock),
    toBlock: quantity(filter.toBlock),
    ...(addresses.length === 0 ? {} : { address: addresses.length === 1 ? addresses[0] : addresses }),
    ...(first === null && moreTopics.length === 0
      ? {}
      : { topics: [first, ...moreTopics.map((some) => some ?? null)] }),
  };
}
