/** The options of a synthetic chain, and its answers besides JSON-RPC. */

/** One collection and its history. The same options give the same history on every machine. */
export interface CollectionOptions {
  readonly address: string;
  readonly standard: "erc721" | "erc1155";
  readonly transfers: number;
  /**
   * `dense`: so many transfers in each consecutive block. `sparse`: over so many blocks, distributed like real ones.
   */
  readonly layout: { readonly perBlock: number } | { readonly overBlocks: number };
  /** Transfers per token, its mint included; 3 by default. */
  readonly perToken?: number;
  /** Tokens answer `tokenURI` with their metadata as a data: URI; otherwise they revert. */
  readonly tokenUris?: boolean;
}

export interface ChainOptions {
  readonly collections: readonly CollectionOptions[];
  /** Delay of every answer in ms. */
  readonly latencyMs?: number;
  /** Most blocks per `eth_getLogs`. Larger ranges are refused in a provider's words. */
  readonly maxBlocks?: number;
  /** True if the refusal names the limit; true by default. */
  readonly saysLimit?: boolean;
  /** Answers of the archive at `/datasets/bench`, after which it is gone. */
  readonly archiveAnswers?: number;
  /** Most logs per answer; 10,000 by default, like most providers. */
  readonly maxLogs?: number;
}

/** The requests that the node got since the last reset. */
export interface ChainStats {
  readonly requests: Readonly<Record<string, number>>;
  /** The ranges of `eth_getLogs` that were answered in full: pairs of first and last block. */
  readonly ranges: readonly (readonly [number, number])[];
  readonly logs: number;
  readonly faults: number;
  /** HTTP requests; a batch is one. */
  readonly http: number;
}

/**
 * First block of a collection: high enough that all block numbers have the same number of digits, as on a real chain.
 */
export const FIRST_BLOCK = 0x1100000;
/** Blocks above the final one. */
export const UNFINALISED = 64;
/** Empty blocks between the last transfer and the final block. */
export const QUIET_END = 16;
export const DEFAULT_MAX_LOGS = 10_000;
export const MULTICALL3 = "0xca11bde05977b3631167028862be2a173976ca11";
