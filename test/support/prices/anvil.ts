/** Real Uniswap bytecode on a local chain with id 1, the real reader, and prices over them. */
import { type Anvil, setNextTimestamp, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { deploy } from "../../../scripts/local-chain/contracts.ts";
import { placeMainnet } from "../../../scripts/local-chain/mainnet.ts";
import type { ChainView } from "../../../src/chain/consumer.ts";
import { type Chain, MULTICALL3 } from "../../../src/chains/chains.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { type Address, toAddress } from "../../../src/core/hex.ts";
import { createPrices, type Prices } from "../../../src/prices/price-service.ts";
import type { FindListedToken } from "../../../src/prices/token-lists.ts";
import { DecodePool } from "../../../src/rpc/decode/decode-pool.ts";
import { EndpointPool, type PoolOptions } from "../../../src/rpc/endpoint/endpoint-pool.ts";
import { EndpointProvider } from "../../../src/rpc/endpoint/provider.ts";
import { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { MemoryLog } from "../memory-log.ts";
import { eth } from "./world.ts";

/** The real reader over one endpoint. */
export function readerOf(
  urls: string | readonly string[],
  chain: Chain = eth,
  more: Pick<PoolOptions, "onState"> = {},
): RpcChainReader {
  const { chainId, finalityDepth } = chain;
  const endpoints = [urls].flat().map(
    (url, at) =>
      new EndpointProvider({
        url,
        label: `${chain.name}#${at + 1}`,
        chainId,
        timeoutMs: 10_000,
        maxBytes: 64 << 20,
        clock: systemClock,
        decoder: new DecodePool(1),
        onRequest: () => undefined,
      }),
  );
  return new RpcChainReader({
    chainId,
    pool: new EndpointPool({ chain: chain.name, endpoints, clock: systemClock, ...more }),
    multicall: MULTICALL3,
    finalityDepth,
    depthIsSet: true,
  });
}

/** The view of a chain that is not followed. */
export const unfollowed: ChainView = {
  version: 0,
  head: () => undefined,
  finalized: () => undefined,
  header: () => undefined,
  isCanonical: () => true,
};

export function pricesOf(
  url: string,
  view: ChainView = unfollowed,
  chain: Chain = eth,
  listed: FindListedToken = () => undefined,
): Prices {
  const reader = readerOf(url, chain);
  return createPrices({ chain, reader, log: new MemoryLog(), view, clock: systemClock, listed });
}

/** Shows the head on demand, as the real follower does by the clock. */
export class HandFollower implements ChainView {
  readonly version = 0;
  #head: Awaited<ReturnType<RpcChainReader["head"]>> | undefined;
  readonly #reader: RpcChainReader;

  constructor(url: string, chain: Chain = eth) {
    this.#reader = readerOf(url, chain);
  }

  /** Shows the node's head, once the prices at it were read ahead. */
  async poll(prices: Prices): Promise<void> {
    const to = await this.#reader.head();
    if (this.#head?.hash === to.hash) return;
    await prices.readAhead(to);
    this.#head = to;
  }

  head = (): ReturnType<ChainView["head"]> => this.#head;
  finalized = (): undefined => undefined;
  header = (): undefined => undefined;
  isCanonical = (): boolean => true;
}

export interface LocalChain {
  readonly anvil: Anvil;
  /** Deploys an ERC-20 with these decimals and returns its address. */
  token(decimals?: number): Promise<Address>;
}

/** Starts a chain with mainnet's tokens and factories. Its blocks are twelve seconds apart and begin two days ago. */
export async function startLocalChain(): Promise<LocalChain> {
  const anvil = await startAnvil({ genesisTimestamp: Math.floor(systemClock.now() / 1_000) - 2 * 86_400 });
  await placeMainnet(anvil);
  return {
    anvil,
    async token(decimals = 18) {
      return toAddress((await deploy(anvil, await contractArtifact("TestToken"), ["Demo", "DEMO", decimals])).address);
    },
  };
}

export { setNextTimestamp };
