/**
 * How long one endpoint's small requests wait, and whether kept connections are used. A middlebox may forget a kept
 * connection without a word to either side: a request on it gets no answer and no error. So a small request waits a few
 * seconds, and is then repeated on a new connection with the long timeout. What the repetition shows is remembered.
 */
import type { Clock } from "../../core/clock.ts";

/** The part of a request that tells its size. */
interface SentCall {
  readonly method: string;
  readonly params: unknown;
}

/** Idle connections are kept at most this long. The dead ones are gone by then. Also how long a node counts as slow. */
const KEPT_MS = 300_000;
/** Calls in a small batch: a poll of the follower has at most ten. */
const SMALL_BATCH = 16;
/** Blocks of a small request for logs: more than a chain makes between two polls. */
const SMALL_BLOCKS = 128;
/** Characters of a small call: a getter with some arguments, but not many calls in one. */
const SMALL_CALL = 2_000;
const SMALL_METHODS = new Set([
  ...["eth_blockNumber", "eth_chainId", "eth_getBlockByNumber", "web3_clientVersion"],
  ...["eth_getBalance", "eth_getCode", "eth_getTransactionCount"],
]);

/** True if the answers are small and take a node no time: headers, numbers, one call, the logs of a few blocks. */
export const areSmall = (calls: readonly SentCall[]): boolean => calls.length <= SMALL_BATCH && calls.every(isSmall);

function isSmall({ method, params }: SentCall): boolean {
  if (SMALL_METHODS.has(method)) return true;
  const [first] = params as [Readonly<Record<string, string>> | undefined];
  if (first === undefined) return false;
  if (method === "eth_call") return (first["data"] ?? "").length <= SMALL_CALL;
  if (method !== "eth_getLogs") return false;
  return first["blockHash"] !== undefined || Number(first["toBlock"]) - Number(first["fromBlock"]) < SMALL_BLOCKS;
}

export class Patience {
  readonly #clock: Clock;
  readonly #smallMs: number | undefined;
  #freshUntil = Number.NEGATIVE_INFINITY;
  #slowUntil = Number.NEGATIVE_INFINITY;

  /** @param smallMs timeout of small requests; undefined: that of all requests */
  constructor(clock: Clock, smallMs: number | undefined) {
    this.#clock = clock;
    this.#smallMs = smallMs;
  }

  /** The timeout of small requests. Undefined if they wait like all others, because the node is slow. */
  get smallMs(): number | undefined {
    return this.#clock.monotonic() < this.#slowUntil ? undefined : this.#smallMs;
  }

  /** True while kept connections may be dead: each request opens its own. */
  get isFresh(): boolean {
    return this.#clock.monotonic() < this.#freshUntil;
  }

  /** Records that a small request got its answer only on a new connection, after `ms` there. */
  repeated(ms: number): void {
    const until = this.#clock.monotonic() + KEPT_MS;
    // An answer that takes as long on a new connection is no sign of a dead one.
    if (ms >= (this.#smallMs ?? 0)) this.#slowUntil = until;
    else this.#freshUntil = until;
  }
}
