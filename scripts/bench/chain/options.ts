/** What a synthetic chain is made of, and what can be asked of it beside JSON-RPC. */

/** One collection and its history; the same options give the same history on every machine. */
export interface CollectionOptions {
  readonly address: string;
  readonly standard: "erc721" | "erc1155";
  readonly transfers: number;
  /** `dense`: so many to each block, one block after the other. `sparse`: over so many blocks, as real ones lie. */
  readonly layout: { readonly perBlock: number } | { readonly overBlocks: number };
  /** Transfers to a token, its mint among them; 3 unless told otherwise. */
  readonly perToken?: number;
  /** Tokens answer `tokenURI` with their metadata as a data: URI; otherwise they revert. */
  readonly tokenUris?: boolean;
}

export interface ChainOptions {
  readonly collections: readonly CollectionOptions[];
  /** Every answer is so late. */
  readonly latencyMs?: number;
  /** Blocks in one `eth_getLogs`; more are refused in the words of a provider. */
  readonly maxBlocks?: number;
  /** Whether the refusal of too many blocks says how many would do; it does unless told otherwise. */
  readonly saysLimit?: boolean;
  /** Logs in one answer; the 10,000 of most providers unless told otherwise. */
  readonly maxLogs?: number;
}

/** What the node was asked since the last reset. */
export interface ChainStats {
  readonly requests: Readonly<Record<string, number>>;
  /** The ranges of `eth_getLogs` that were answered with logs, or with none, in full: pairs of first and last block. */
  readonly ranges: readonly (readonly [number, number])[];
  readonly logs: number;
  readonly faults: number;
  /** Requests of HTTP; a batch is one. */
  readonly http: number;
}

/** Where each collection begins: high enough that all block numbers have as many digits, as on a chain of years. */
export const FIRST_BLOCK = 0x1100000;
/** Blocks above the final one. */
export const UNFINALISED = 64;
/** Empty blocks between the last transfer and the final block. */
export const QUIET_END = 16;
export const DEFAULT_MAX_LOGS = 10_000;
export const MULTICALL3 = "0xca11bde05977b3631167028862be2a173976ca11";
