/** The trades with single pools that `sale-probe.sol` and `swap-quoter.sol` take, in words of the ABI. */
import { type Address, ZERO_ADDRESS } from "../../core/hex.ts";
import { addressWord, wordOf } from "../../rpc/calls.ts";
import type { Pool } from "../market/pools.ts";
import { poolContract, type Style } from "../styles/style.ts";
import { STYLES } from "../styles/styles.ts";

/** A trade with one pool. */
export interface ProbeStep {
  readonly pool: Pool;
  readonly input: Address;
  readonly output: Address;
}

/** The order of the contracts' `Kind`. */
const KINDS: readonly Style["sale"][] = ["reserves", "quoted", "callback", "manager"];

const NO_KEY = { currency0: ZERO_ADDRESS, fee: 0, spacing: 0, hooks: ZERO_ADDRESS };

/** A `Leg`: how to trade, the contract, both tokens, and the pool's key. `more` are words before the key. */
export function legWordsOf({ pool, input, output }: ProbeStep, more: readonly string[] = []): string {
  const { key = NO_KEY } = pool;
  return [
    wordOf(KINDS.indexOf(STYLES[pool.style].sale)),
    ...[pool.key === undefined ? poolContract(pool) : pool.factory, input, output].map(addressWord),
    ...more,
    ...[addressWord(key.currency0), addressWord(pool.token1)],
    ...[wordOf(key.fee), wordOf(key.spacing), addressWord(key.hooks)],
  ].join("");
}
