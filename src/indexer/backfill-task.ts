/** What a backfill is given: which blocks of which contract, from whom, and how hard the answers are checked. */
import type { Clock } from "../core/clock.ts";
import type { Address } from "../core/hex.ts";
import type { BlockRef, TransferForm } from "../events/types.ts";
import type { Endpoint } from "../rpc/endpoint.ts";
import type { RpcChainReader } from "../rpc/reader.ts";

/**
 * How hard logs are checked: 1 % of ranges against a second endpoint; every block without a log against its header's
 * bloom; every block the bloom speaks of against its receipts.
 */
export type Verify = "sample" | "headers" | "receipts";

export interface BackfillTask {
  readonly reader: RpcChainReader;
  readonly clock: Clock;
  readonly verify: Verify;
  readonly address: Address;
  readonly forms: readonly TransferForm[];
  readonly fromBlock: number;
  /** The last block to read: final, so that nothing read can be reverted. */
  readonly final: BlockRef;
  /** Who has shown that block already. */
  readonly shownBy?: Endpoint | undefined;
  readonly signal: AbortSignal;
  readonly onMalformed: (count: number) => void;
}
