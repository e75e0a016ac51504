/**
 * Errors of an endpoint, classified by what the caller should do. Providers word the same refusal differently, so
 * the message is matched before the code. A refusal of a range may carry a hint: a size or a range that would do.
 */
import { AppError, type ErrorMeta } from "../core/errors.ts";

export type RpcErrorKind =
  /** The range or the result is too large: ask for less. */
  | "range"
  /** Too many requests: the same again, later. */
  | "rate"
  /** No answer in time, or one that its connection cannot take: the same again, or less where that is too much. */
  | "late"
  /** Lost socket, 5xx, cut-off or nonsensical answer, lagging backend: the same again, maybe elsewhere. */
  | "transient"
  /** The node does not hold the state or the block asked for. */
  | "state_unavailable"
  /** The call itself reverted. */
  | "revert"
  /** The answer contradicts itself or what is known: elsewhere, and this endpoint is to be doubted. */
  | "lie"
  /** The node does not know the method or the parameter (the `finalized` tag, say). */
  | "unsupported";

export interface RangeHint {
  /** Number of blocks that would do. */
  readonly size?: number;
  /** Inclusive range that would do. */
  readonly range?: readonly [number, number];
  /** The words speak of too many results, not of too many blocks. */
  readonly ofResults?: boolean;
}

export class RpcError extends AppError {
  readonly kind: RpcErrorKind;
  readonly hint: RangeHint | undefined;
  readonly retryAfterMs: number | undefined;
  /** Revert data where there is some, hex with 0x. */
  readonly data: string | undefined;

  constructor(
    kind: RpcErrorKind,
    message: string,
    options: { meta?: ErrorMeta; cause?: unknown; hint?: RangeHint; retryAfterMs?: number; data?: string } = {},
  ) {
    super(message, {
      code: kind === "state_unavailable" ? "state_unavailable" : `rpc_${kind}`,
      retryable: kind === "rate" || kind === "late" || kind === "transient" || kind === "lie",
      ...(options.meta === undefined ? {} : { meta: options.meta }),
      ...(options.cause === undefined ? {} : { cause: options.cause }),
    });
    this.kind = kind;
    this.hint = options.hint;
    this.retryAfterMs = options.retryAfterMs;
    this.data = options.data;
  }
}

/**
 * Whether a request that failed on all endpoints, however often it was tried, may have failed for its size: no answer came
 * in time, or a refusal whose reason the words do not tell.
 */
export function mayBeOfSize(error: unknown): boolean {
  if (!(error instanceof AppError && error.cause instanceof RpcError)) return false;
  return error.cause.kind === "late" || isUnknownRefusal(error.cause);
}

/** Whether an endpoint answered with a refusal whose reason its words do not tell. */
export function isUnknownRefusal(error: unknown): error is RpcError {
  if (!(error instanceof RpcError)) return false;
  const { kind, meta } = error;
  const isUnknown = kind === "transient" || kind === "unsupported" || kind === "range";
  return isUnknown && ("rpcCode" in meta || "status" in meta);
}

/** System errors of a connection, in words. */
const CONNECTION_FAULTS: ReadonlyMap<unknown, string> = new Map([
  ["ECONNREFUSED", "connection refused"],
  ["ECONNRESET", "connection lost"],
  ["ConnectionClosed", "connection lost"],
  ["ENOTFOUND", "its name is not known"],
  ["EAI_AGAIN", "its name could not be looked up"],
  ["ETIMEDOUT", "no connection in time"],
  ["UnexpectedRedirect", "it leads elsewhere"],
]);

/** What went wrong with a connection. Never the error's own text: that names the host, which may be the operator's secret. */
export function connectionFault(error: unknown): string {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  const known = CONNECTION_FAULTS.get(code);
  if (known !== undefined) return known;
  return typeof code === "string" && /^\w{1,60}$/.test(code) ? code : "the connection failed";
}

const number = (text: string): number => Number(text.replaceAll(",", ""));

/** Sentences with a range that would do; two captures: first and last block, hex or decimal. */
const RANGE_HINTS: readonly RegExp[] = [/\[(0x[0-9a-f]+),\s*(0x[0-9a-f]+)\]/i, /retry with the range (\d+)-(\d+)/i];

/** Sentences with a size that would do; `slack` is subtracted where a limit counts the distance or excludes an end. */
const SIZE_HINTS: readonly { readonly pattern: RegExp; readonly slack: number; readonly unit?: number }[] = [
  { pattern: /maximum is set to ([\d,]+)/i, slack: 1 },
  { pattern: /max range: ([\d,]+)/i, slack: 1 },
  { pattern: /at most ([\d,]+) blocks/i, slack: 1 },
  { pattern: /requested blocks is ([\d,]+)/i, slack: 0 },
  { pattern: /exceeds limit of ([\d,]+)$/i, slack: 0 },
  { pattern: /limited to an? ([\d,]+) range/i, slack: 0 },
  { pattern: /limited to ([\d,]+) block range/i, slack: 0 },
  { pattern: /\([\d,]+ > ([\d,]+)\)/, slack: 0 },
  { pattern: /exceed maximum block range: ([\d,]+)/i, slack: 0 },
  { pattern: /exceed max block range: ([\d,]+)/i, slack: 0 },
  { pattern: /exceeds max block range ([\d,]+)/i, slack: 0 },
  { pattern: /block range greater than ([\d,]+) max/i, slack: 0 },
  { pattern: /block range exceeds ([\d,]+)/i, slack: 0 },
  { pattern: /max is (\d+)k blocks/i, slack: 0, unit: 1_000 },
  { pattern: /smaller than size ([\d,]+)/i, slack: 0 },
  { pattern: /\(maximum ([\d,]+)\)/i, slack: 0 },
  { pattern: /up to an? ([\d,]+) block range/i, slack: 0 },
  { pattern: /blocks distance: ([\d,]+)/i, slack: 0 },
  { pattern: /range limit ([\d,]+)/i, slack: 0 },
  { pattern: /maximum allowed is ([\d,]+) blocks/i, slack: 0 },
  { pattern: /over ([\d,]+) blocks are not supported/i, slack: 0 },
];

/** Refusals of a range without a number of blocks in them; a limit on results is not a size in blocks. */
const RANGE_WORDS =
  /range|more than [\d,]+ results|too many blocks|too large|too big|too wide|response size|results? limit|logs matched|query (?:returned|exceeds|timeout)|limit the query|blocks distance|requested blocks|smaller than size/i;
const RATE_WORDS = /compute units|credits limited|rate.?limit|too many requests|request limit|capacity|throttl|quota/i;
/** Anvil's words for a block that it has not yet, and for one whose state it has no longer. */
const OUT_OF_RANGE = "block height is \\d+ but requested was \\d+";
const LAG_WORDS = new RegExp(
  `invalid block height|no backend|header not found|unknown block|block not found|future block|${OUT_OF_RANGE}`,
  "i",
);
/**
 * Geth and those made from it: a missing trie node, historical state, state histories; Nethermind: no state available for
 * block; reth: no state found for block; Besu: world state unavailable; Erigon: old data, pruning; Ethermint: failed to
 * load state; CometBFT: a lowest height; Substrate: state already discarded; proxies: recent blocks, an archive node.
 */
const STATE_WORDS = new RegExp(
  "missing trie node|state (?:is )?(?:not available|unavailable|already discarded)|no state (?:available|found)|" +
    "historical state|state histor|failed to load state|prun(?:ed|ing)|archive|old data not available|" +
    `lowest height is|recent blocks|${OUT_OF_RANGE}`,
  "i",
);
/** From 1.16 on, go-ethereum that stores state by hash says only this of a block whose state it dropped. */
const DROPPED_WORDS = /^not supported$/i;
const STATE_METHODS = new Set(["eth_call", "eth_getBalance", "eth_getCode", "eth_getTransactionCount"]);
const UNSUPPORTED_WORDS =
  /method .{0,60}(?:not found|not supported|not available|not exist)|unsupported|not whitelisted|invalid block tag|unknown tag|safe block not found|finalized block not found/i;
const REVERT_WORDS =
  /revert|out ?of ?gas|invalid(?:fe)? ?opcode|opcode ?not ?found|stack ?(?:under|over)flow|invalid ?jump|evm error|execution error/i;

/** Results counted, not blocks: "exceeds limit of 10000" after "logs matched" says nothing of the range. */
const COUNTS_RESULTS = /logs matched|results|response size|response too|bytes/i;

/** "Pruned history unavailable", the code that nodes took from EIP-4444: blocks that old are not kept. */
const PRUNED_HISTORY = 4444;

/**
 * Characters of a refusal that are read: each is gone over some thirty times, on the request thread. Of its message half
 * is told, once it is cleaned of secrets: of one that stood where it is cut the beginning would be left.
 */
const [MAX_MESSAGE, MAX_WORDS] = [2_000, 2_000];

function hintOf(text: string): RangeHint | undefined {
  for (const pattern of RANGE_HINTS) {
    const match = pattern.exec(text);
    if (match !== null) return { range: [Number(match[1]), Number(match[2])] };
  }
  if (COUNTS_RESULTS.test(text)) return undefined;
  for (const { pattern, slack, unit = 1 } of SIZE_HINTS) {
    const match = pattern.exec(text);
    if (match?.[1] !== undefined) return { size: Math.max(1, number(match[1]) * unit - slack) };
  }
  return undefined;
}

function textOf(said: unknown): string {
  if (typeof said === "string") return said;
  try {
    return said === undefined || said === null ? "" : JSON.stringify(said);
  } catch {
    // Nested deeper than can be followed.
    return "";
  }
}

/** The error of a JSON-RPC answer `{code, message, data}` to `method`. Gateways say a text in its place. */
export function classifyRpcError(error: unknown, method: string, meta: ErrorMeta): RpcError {
  const said = typeof error === "string" ? { message: error } : error;
  const fields = (typeof said === "object" && said !== null ? said : {}) as Record<string, unknown>;
  const message = (textOf(fields["message"]) || "no message").slice(0, MAX_MESSAGE);
  // What a contract reverted with, and kept whole then; else words as the message is, of any length.
  const data = textOf(fields["data"]);
  const words = data.slice(0, MAX_WORDS);
  const text = `${message} ${words}`;
  const code = Number(textOf(fields["code"]));
  const located = { ...meta, method, rpcCode: code };
  const make = (kind: RpcErrorKind, options: { hint?: RangeHint; data?: string } = {}) =>
    new RpcError(kind, `${method} refused: ${message}`, { meta: located, ...options });

  // The contract's own words come behind this, and may be any.
  if (method === "eth_call" && (code === 3 || /^(?:vm |evm )?execution(?: was)? reverted/i.test(message))) {
    return make("revert", /^0x[0-9a-f]*$/i.test(data) ? { data } : {});
  }
  // "Too many requests in batch": fewer at once, not later.
  if (method === "batch" && code !== 429 && /\bbatch/i.test(text)) return make("range");
  if (code === 429 || (RATE_WORDS.test(text) && !/range/i.test(text))) return make("rate");
  if (method === "eth_getLogs") {
    const hint = hintOf(message) ?? hintOf(words);
    if (hint !== undefined) return make("range", { hint });
    if (LAG_WORDS.test(text)) return make("transient");
    if (code === PRUNED_HISTORY || /pruned/i.test(text)) return make("state_unavailable");
    // A refusal nobody has seen before is most often one of size; halving costs little when it is not.
    if (RANGE_WORDS.test(text) || !UNSUPPORTED_WORDS.test(text)) {
      return make("range", COUNTS_RESULTS.test(text) ? { hint: { ofResults: true } } : {});
    }
  }
  if (STATE_WORDS.test(text)) return make("state_unavailable");
  if (STATE_METHODS.has(method) && DROPPED_WORDS.test(message)) return make("state_unavailable");
  if (method === "eth_call" && (REVERT_WORDS.test(text) || code === 3)) {
    return make("revert", /^0x[0-9a-f]*$/i.test(data) ? { data } : {});
  }
  if (UNSUPPORTED_WORDS.test(text) || code === -32601) return make("unsupported");
  if (LAG_WORDS.test(text)) return make(method === "eth_call" ? "state_unavailable" : "transient");
  if (code === -32602) return make("unsupported");
  return make("transient");
}

/** Statuses that speak of the request itself, and not of the client's rights or the server's state. */
const REQUEST_STATUS = new Set<unknown>([400, 406, 409, 412, 414, 416, 422, 431]);

/** A refusal of logs by such a status is most often one of size, like a refusal in unknown words. */
export function refusalOfLogs(error: unknown): unknown {
  const isOfRequest =
    error instanceof RpcError && error.kind === "transient" && REQUEST_STATUS.has(error.meta["status"]);
  return isOfRequest ? new RpcError("range", error.message, { meta: error.meta }) : error;
}

/** Request and gateway time-outs, and the one of a large proxy. */
const LATE_STATUS: readonly number[] = [408, 504, 524];

/** The error of an HTTP answer other than 200. */
export function classifyHttpStatus(status: number, retryAfter: string | null, meta: ErrorMeta): RpcError {
  const seconds = retryAfter === null ? Number.NaN : Number(retryAfter);
  const wait = Number.isFinite(seconds) && seconds >= 0 ? { retryAfterMs: Math.min(seconds, 600) * 1_000 } : {};
  const located = { ...meta, status };
  if (status === 429) return new RpcError("rate", "the endpoint answered 429", { meta: located, ...wait });
  if (status === 413) return new RpcError("range", "the endpoint answered 413", { meta: located });
  const kind = LATE_STATUS.includes(status) ? "late" : "transient";
  return new RpcError(kind, `the endpoint answered HTTP ${status}`, { meta: located, ...wait });
}
