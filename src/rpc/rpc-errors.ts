/**
 * Errors of an endpoint, classified by what the caller should do. Providers word the same refusal differently, so the
 * message is matched before the code. A refused range may carry a hint: a size or a range that the endpoint accepts.
 */
import { AppError, type ErrorMeta, isRetryable, messageOf } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { LogsInDoubt } from "./port.ts";

export type RpcErrorKind =
  /** The range or the result is too large: request less. */
  | "range"
  /** Too many requests: retry later. */
  | "rate"
  /** A timeout, or an answer too large for the socket: retry, with less if the size may be the reason. */
  | "late"
  /** Lost socket, 5xx, truncated or malformed answer, lagging backend: retry, maybe on another endpoint. */
  | "transient"
  /** The node does not have the requested state or block. */
  | "state_unavailable"
  /** The call itself reverted. */
  | "revert"
  /** The answer contradicts itself or known facts: ask another endpoint and bench this one. */
  | "lie"
  /** The node does not support the method or the parameter (for example the `finalized` tag). */
  | "unsupported";

export interface RangeHint {
  /** Number of blocks that the endpoint accepts. */
  readonly size?: number;
  /** Inclusive range that the endpoint accepts. */
  readonly range?: readonly [number, number];
  /** True if the message is about too many results, not too many blocks. */
  readonly ofResults?: boolean;
}

export class RpcError extends AppError {
  readonly kind: RpcErrorKind;
  readonly hint: RangeHint | undefined;
  readonly retryAfterMs: number | undefined;
  /** Revert data, if there are any, as hex with 0x. */
  readonly data: string | undefined;

  constructor(
    kind: RpcErrorKind,
    message: string,
    options: { meta?: ErrorMeta; cause?: unknown; hint?: RangeHint; retryAfterMs?: number; data?: string } = {},
  ) {
    super(message, {
      code: kind === "state_unavailable" ? "state_unavailable" : `rpc_${kind}`,
      retryable: kind === "rate" || kind === "late" || kind === "transient" || kind === "lie",
      meta: options.meta ?? {},
      cause: options.cause,
    });
    this.kind = kind;
    this.hint = options.hint;
    this.retryAfterMs = options.retryAfterMs;
    this.data = options.data;
  }
}

/**
 * A contract's logs can't be read: all endpoints, and the block's receipts, contradict themselves about them. Another
 * try at once gives the same. The fault is the contract's own; other contracts can be read.
 */
export class LogsInDoubtError extends AppError {
  readonly doubt: LogsInDoubt;

  constructor(doubt: LogsInDoubt) {
    super(`block ${doubt.block} can't be read: ${doubt.reason}`, { code: "logs_in_doubt", meta: { ...doubt } });
    this.doubt = doubt;
  }
}

/** The endpoint's own error: the one that was thrown, or the cause of the pool's after its last attempt. */
export function rpcErrorOf(error: unknown): RpcError | undefined {
  const cause = error instanceof AppError && !(error instanceof RpcError) ? error.cause : error;
  return cause instanceof RpcError ? cause : undefined;
}

/** The contract and block of an error after which all endpoints have given faulty logs. */
export function doubtIn(error: unknown): LogsInDoubt | undefined {
  const cause = rpcErrorOf(error);
  if (cause?.kind !== "lie") return undefined;
  const { block, contract } = cause.meta;
  const isNamed = typeof block === "number" && typeof contract === "string";
  return isNamed ? { contract: contract as Address, block, reason: cause.message } : undefined;
}

/** True if a request may have been too large: all endpoints timed out, or refused it without a known reason. */
export function mayBeTooLarge(error: unknown): boolean {
  if (!(error instanceof AppError && error.cause instanceof RpcError)) return false;
  return error.cause.kind === "late" || isUnknownRefusal(error.cause);
}

/** True if the node lacks a past state for good, so that the caller must find another way. */
export function isStateUnavailable(error: unknown): boolean {
  return error instanceof AppError && error.code === "state_unavailable" && !isRetryable(error);
}

/** Methods that read what a node may have pruned: blocks, their receipts and logs. */
const HISTORY_METHODS = new Set<unknown>([
  "eth_getLogs",
  "eth_getBlockByNumber",
  "eth_getBlockByHash",
  "eth_getBlockReceipts",
]);

/** True if a node has pruned the block, receipts or logs that were asked for. */
export function isHistoryPruned(error: unknown): boolean {
  const cause = rpcErrorOf(error);
  return cause?.kind === "state_unavailable" && HISTORY_METHODS.has(cause.meta["method"]);
}

/** True if an endpoint answered with a refusal whose message gives no known reason. */
export function isUnknownRefusal(error: unknown): error is RpcError {
  if (!(error instanceof RpcError)) return false;
  const { kind, meta } = error;
  const isUnknown = kind === "transient" || kind === "unsupported" || kind === "range";
  return isUnknown && ("rpcCode" in meta || "status" in meta);
}

/** True if an endpoint doesn't have the block yet, or says so of one that it lost. */
export const isLag = ({ kind, message }: RpcError): boolean => kind === "transient" && LAG_WORDS.test(message);

/**
 * Marks a refusal, in unknown words, of what only some nodes have. The request is repeated, and the endpoint doesn't rest
 * for it: its other requests show whether it is well.
 */
export function asOptional(error: unknown): unknown {
  if (!isUnknownRefusal(error) || !("rpcCode" in error.meta)) return error;
  return new RpcError(error.kind, error.message, { meta: { ...error.meta, isOptional: true }, cause: error });
}

const CONNECTION_FAULTS: ReadonlyMap<unknown, string> = new Map([
  ["ECONNREFUSED", "connection refused"],
  ["ECONNRESET", "connection lost"],
  ["ConnectionClosed", "connection lost"],
  ["EPROTO", "no TLS handshake with it; is it http or ws, not https or wss?"],
  ["ENOTFOUND", "its host name is unknown"],
  ["EAI_AGAIN", "its host name could not be resolved"],
  ["ETIMEDOUT", "the connection timed out"],
  ["UnexpectedRedirect", "it answered with a redirect"],
]);

/** Describes a connection error. Never uses the error's own text, which names the host: that may be a secret. */
export function connectionFault(error: unknown): string {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  const known = CONNECTION_FAULTS.get(code);
  if (known !== undefined) return known;
  // Of the text only the status is used.
  const status = /\b101 status code: (\d{3})\b|Unexpected server response: (\d{3})/.exec(
    String((error as Error)?.message),
  );
  const number = status?.[1] ?? status?.[2];
  if (number !== undefined) return `it answered a WebSocket with the status ${number}; is it http, not ws?`;
  return typeof code === "string" && /^\w{1,60}$/.test(code) ? code : "the connection failed";
}

const number = (text: string): number => Number(text.replaceAll(",", ""));

/** Messages that name an accepted range. Two captures: first and last block, hex or decimal. */
const RANGE_HINTS: readonly RegExp[] = [/\[(0x[0-9a-f]+),\s*(0x[0-9a-f]+)\]/i, /retry with the range (\d+)-(\d+)/i];

/** Messages that name an accepted size. `slack` is subtracted where a limit counts the distance or excludes an end. */
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

/** Refusals of a range without a number of blocks. A limit on results is not a size in blocks. */
const RANGE_WORDS =
  /range|more than [\d,]+ results|too many blocks|too large|too big|too wide|response size|results? limit|logs matched|query (?:returned|exceeds|timeout)|limit the query|blocks distance|requested blocks|smaller than size/i;
const RATE_WORDS = /compute units|credits limited|rate.?limit|too many requests|request limit|capacity|throttl|quota/i;
/** Anvil's message, both for a block that it does not have yet and for one whose state it dropped. */
const OUT_OF_RANGE = "block height is \\d+ but requested was \\d+";
/**
 * A block above the node's head. Geth and reth: a range beyond the current head block, and invalid block range params if
 * the node takes its head as the end; Hyperliquid: an invalid block range; Avalanche: after the last accepted block;
 * OpenEthereum: a block that cannot be found; Nethermind, Erigon and proxies: greater than the latest block or the head.
 */
const LAG_WORDS = new RegExp(
  "invalid block height|no backend|header not found|unknown block|block not found|future block|" +
    `${OUT_OF_RANGE}|(?:beyond|exceeds|above|ahead of|greater than|higher than|after) (?:the )?` +
    "(?:node's |current |chain |latest |last accepted |best )*(?:head|tip|latest|block number|accepted block|best block)|" +
    "invalid block range(?: params)?$|in the future|cannot query unfinalized data|" +
    "blocks? .{0,60}(?:cannot|can't|could not) be found|unable to find block|not (?:yet )?(?:available|synced) on this node",
  "i",
);
/**
 * Geth and its forks: a missing trie node, historical state, state histories; Nethermind: no state available for block;
 * reth: no state found for block; Besu: world state unavailable; Erigon: old data, pruning; Ethermint: failed to load
 * state; CometBFT: a lowest height; Substrate: state already discarded; proxies: recent blocks, an archive node. Of
 * `eth_getProof`, reth: exceeds the maximum proof window; Erigon: the block is too old.
 */
const STATE_WORDS = new RegExp(
  "missing trie node|state (?:is )?(?:not available|unavailable|already discarded)|no state (?:available|found)|" +
    "historical state|state histor|failed to load state|prun(?:ed|ing)|archive|old data not available|" +
    "proof window|block is too old|" +
    `lowest height is|recent blocks|${OUT_OF_RANGE}`,
  "i",
);
/** From 1.16 on, go-ethereum with hash-based state gives only this message for a block whose state it dropped. */
const DROPPED_WORDS = /^not supported$/i;
/** Methods that read the state of a block. */
export const STATE_METHODS = new Set(["eth_call", "eth_getBalance", "eth_getCode", "eth_getTransactionCount"]);
const UNSUPPORTED_WORDS =
  /method .{0,60}(?:not found|not supported|not available|not exist)|unsupported|not whitelisted|invalid block tag|unknown tag|safe block not found|finalized block not found/i;
const REVERT_WORDS =
  /revert|out ?of ?gas|invalid(?:fe)? ?opcode|opcode ?not ?found|stack ?(?:under|over)flow|invalid ?jump|evm error|execution error/i;

/** The limit counts results, not blocks: "exceeds limit of 10000" after "logs matched" is no limit on the range. */
const COUNTS_RESULTS = /logs matched|results|response size|response too|bytes/i;

/** "Pruned history unavailable", the code that nodes took from EIP-4444: the node dropped blocks of that age. */
const PRUNED_HISTORY = 4444;
/**
 * The same in words. Geth, reth and Nethermind: pruned history unavailable; Nethermind: receipts that are neither stored nor
 * reproducible; Erigon: old data not available due to pruning; CometBFT: a lowest height.
 */
const PRUNED_WORDS = /prun(?:ed|ing)|neither stored nor reproducible|old data not available|lowest height is/i;

/**
 * Most characters read of a refusal's message and of its data. About thirty patterns scan each, on the thread that
 * serves requests. The provider removes secrets from a message and keeps only the first half: a secret that this cut
 * splits could not be recognised, and its beginning would stay.
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

function fieldText(field: unknown): string {
  if (typeof field === "string") return field;
  try {
    return field === undefined || field === null ? "" : JSON.stringify(field);
  } catch {
    // Too deeply nested for `JSON.stringify`.
    return "";
  }
}

/** Classifies a JSON-RPC error `{code, message, data}` of `method`. Gateways send a plain string instead. */
export function classifyRpcError(error: unknown, method: string, meta: ErrorMeta): RpcError {
  const refusal = typeof error === "string" ? { message: error } : error;
  const fields = (typeof refusal === "object" && refusal !== null ? refusal : {}) as Record<string, unknown>;
  const message = (fieldText(fields["message"]) || "no message").slice(0, MAX_MESSAGE);
  // Revert data of a contract must stay whole. Any other data are matched like the message.
  const data = fieldText(fields["data"]);
  const words = data.slice(0, MAX_WORDS);
  const text = `${message} ${words}`;
  const code = Number(fieldText(fields["code"]));
  const located = { ...meta, method, rpcCode: code };
  // Everything that the node says, but not the data of a contract's revert.
  const more = words === "" || /^0x[0-9a-f]*$/i.test(words) ? "" : `: ${words}`;
  const make = (kind: RpcErrorKind, options: { hint?: RangeHint; data?: string } = {}) =>
    new RpcError(kind, `${method} refused: ${message}${more}`, { meta: located, ...options });
  const reverted = () => make("revert", /^0x(?:[0-9a-f]{2})*$/i.test(data) ? { data } : {});

  // A revert's message continues with text of the contract, which must not be matched.
  if (method === "eth_call" && (code === 3 || /^(?:vm |evm )?execution(?: was)? reverted/i.test(message))) {
    return reverted();
  }
  // "Too many requests in batch" asks for a smaller batch, not for a later retry.
  if (method === "batch" && code !== 429 && /\bbatch/i.test(text)) return make("range");
  if (code === 429 || (RATE_WORDS.test(text) && !/range/i.test(text))) return make("rate");
  const isPruned = HISTORY_METHODS.has(method) && (code === PRUNED_HISTORY || PRUNED_WORDS.test(text));
  if (method === "eth_getLogs") {
    const hint = hintOf(message) ?? hintOf(words);
    if (hint !== undefined) return make("range", { hint });
    if (LAG_WORDS.test(text) || LAG_WORDS.test(message)) return make("transient");
    if (isPruned) return make("state_unavailable");
    // An unknown refusal of logs is most often about size. If it is not, halving the range costs little.
    if (RANGE_WORDS.test(text) || !UNSUPPORTED_WORDS.test(text)) {
      return make("range", COUNTS_RESULTS.test(text) ? { hint: { ofResults: true } } : {});
    }
  }
  if (isPruned || STATE_WORDS.test(text)) return make("state_unavailable");
  if (STATE_METHODS.has(method) && DROPPED_WORDS.test(message)) return make("state_unavailable");
  if (method === "eth_call" && REVERT_WORDS.test(text)) return reverted();
  if (UNSUPPORTED_WORDS.test(text) || code === -32601) return make("unsupported");
  if (LAG_WORDS.test(text)) return make(method === "eth_call" ? "state_unavailable" : "transient");
  if (code === -32602) return make("unsupported");
  return make("transient");
}

/** HTTP statuses about the request itself, not about the client's rights or the server's state. */
const REQUEST_STATUS = new Set<unknown>([400, 406, 409, 412, 414, 416, 422, 431]);

/** Turns a refusal of logs with such a status into kind `range`. It is most often about size. */
export function asRangeRefusal(error: unknown): unknown {
  const isOfRequest =
    error instanceof RpcError && error.kind === "transient" && REQUEST_STATUS.has(error.meta["status"]);
  return isOfRequest ? new RpcError("range", error.message, { meta: error.meta }) : error;
}

/** Words of a refusal of the client's key, with any status. */
const KEY_WORDS =
  /api.?key|unauthori[sz]ed|(?:un|not )authenticated|must be authenticated|invalid (?:access )?token|project id/i;
const KEY_STATUS = new Set<unknown>([401, 403, 407]);

/** Says what an operator can do about an endpoint's refusal; undefined if that depends on the node. */
export function adviceOf(error: unknown): string | undefined {
  const refusal = rpcErrorOf(error);
  if (refusal === undefined) return undefined;
  const { kind, meta, message } = refusal;
  if (kind === "rate") {
    return "it takes fewer requests than are made: use a larger plan or another endpoint, or raise FOLLOW_EVERY of the chain";
  }
  if (meta["status"] === 402) return "its plan is used up or not paid: renew it, or use another endpoint";
  const isOfKey = kind === "transient" || kind === "unsupported" ? KEY_WORDS.test(message) : false;
  if (!KEY_STATUS.has(meta["status"]) && !isOfKey) return undefined;
  return "it does not accept the key: check the key in the endpoint's URL, and what the provider allows it to do";
}

/** The error in words, with what an operator can do about it. */
export function faultText(error: unknown): string {
  const advice = adviceOf(error);
  return advice === undefined ? messageOf(error) : `${messageOf(error)}; ${advice}`;
}

/** Request timeout, gateway timeout, and the timeout status of a large proxy (Cloudflare). */
const LATE_STATUS: readonly number[] = [408, 504, 524];

/** @param body the answer's text. The provider removes secrets from it and shortens it. */
export function classifyHttpStatus(status: number, retryAfter: string | null, meta: ErrorMeta, body = ""): RpcError {
  const text = body
    .slice(0, MAX_MESSAGE)
    .replace(/<[^>]*>/g, " ")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  const words = text === "" ? "" : `: ${text}`;
  const seconds = retryAfter === null ? Number.NaN : Number(retryAfter);
  const wait = Number.isFinite(seconds) && seconds >= 0 ? { retryAfterMs: Math.min(seconds, 600) * 1_000 } : {};
  const located = { ...meta, status };
  if (status === 429) return new RpcError("rate", `the endpoint answered 429${words}`, { meta: located, ...wait });
  if (status === 413) return new RpcError("range", `the endpoint answered 413${words}`, { meta: located });
  const kind = LATE_STATUS.includes(status) ? "late" : "transient";
  return new RpcError(kind, `the endpoint answered HTTP ${status}${words}`, { meta: located, ...wait });
}
