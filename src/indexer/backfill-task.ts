/** Input of a backfill: the contract, the range of blocks, the reader, and how strictly answers are checked. */
import type { Clock } from "../core/clock.ts";
import type { Address } from "../core/hex.ts";
import type { BlockRef, TransferForm } from "../events/types.ts";
import type { Endpoint } from "../rpc/endpoint.ts";
import type { RpcChainReader } from "../rpc/reader.ts";

/**
 * How strictly logs are checked. `sample`: 1 % of ranges against a second endpoint. `headers`: every block without a
 * log against its header's bloom. `receipts`: every block that the bloom names against its receipts.
 */
export type Verify = "sample" | "headers" | "receipts";

export interface BackfillTask {
  readonly reader: RpcChainReader;
  readonly clock: Clock;
  readonly verify: Verify;
  readonly address: Address;
  readonly forms: readonly TransferForm[];
  readonly fromBlock: number;
  /** The last block to read. It is final, so that no block of the history can be reverted. */
  readonly final: BlockRef;
  /** The endpoint that has already shown that block. */
  readonly shownBy?: Endpoint | undefined;
  readonly signal: AbortSignal;
  readonly onMalformed: (count: number) => void;
}
