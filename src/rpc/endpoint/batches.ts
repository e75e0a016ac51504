/**
 * Collects the requests of one event-loop turn into JSON-RPC batches and gives each request its own answer. Ethers
 * collects for a millisecond, which is longer than a node on the same machine takes to answer. After an endpoint
 * refuses or truncates a batch, sends smaller batches or single requests for a while.
 */
import type { JsonRpcError, JsonRpcPayload, JsonRpcResult } from "ethers/providers";
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { mustShare, yieldToEventLoop } from "../../core/turns.ts";
import { Lane, NO_KEY, type Requester } from "../../core/work.ts";
import { RpcError } from "../rpc-errors.ts";

export type JsonRpcAnswer = JsonRpcResult | JsonRpcError;

interface BatchesOptions {
  readonly label: string;
  /** Sends one payload, or several of one key as a batch. @throws RpcError */
  readonly send: (payload: JsonRpcPayload | JsonRpcPayload[], owner: Requester) => Promise<JsonRpcAnswer[]>;
  /** Makes the error of one request from its JSON-RPC error. */
  readonly errorOf: (payload: JsonRpcPayload, answer: JsonRpcError) => Error;
}

/** Most calls, and most characters of their parameters, in one batch. Providers refuse longer batches. */
const BATCH_MAX = 100;
const BATCH_MAX_LENGTH = 1024 * 1024;
/** Characters of parameters that are written in one turn of the event loop, unless one batch has more. */
const WRITTEN_AT_ONCE = 128 * 1024;
/**
 * While several keys ask, each of them sends an endpoint two requests at once if these have many calls or a costly one, and
 * sixteen cheap ones. A node that works on dozens of one key's requests lets the other keys wait.
 */
const [SHARE, COSTLY_PLACES] = [16, 8] as const;
/**
 * Calls of several turns that go in one batch, once it is the turn of their key, and the characters of their parameters. The
 * answer is parsed at once, and its length is not known before.
 */
const [JOINED_CALLS, JOINED_LENGTH] = [8, 128 * 1024] as const;
/** Logs of a range of at least this many blocks are requested alone, so that no other answer waits for them. */
const SLOW_BLOCKS = 1_000;
/**
 * Event-loop turns without batches after a refusal. The refusal of an endpoint that doesn't support batches reads like
 * the one of an endpoint that is down for a moment, so batches are tried again after this.
 */
const TURNS_WITHOUT_BATCHES = 100;
/** The batch size doubles after this many full batches in a row that were not truncated. */
const UNCUT_BATCHES = 50;
/**
 * Characters of answers that are given to their callers between two turns of the event loop, and what a header counts as: its
 * caller checks and hashes it at once, in a tenth of a millisecond.
 */
const [SLICE_CHARACTERS, OBJECT_CHARACTERS] = [64 * 1024, 4 * 1024];
/** HTTP statuses of an endpoint that cannot read batches and sends no JSON-RPC error. */
const UNREAD_STATUS = new Set<unknown>([400, 405, 415, 422, 501]);
/** HTTP statuses about the client, not the request. Single calls would be refused in the same way. */
const CLIENT_STATUS = new Set<unknown>([401, 402, 403, 407, 429]);
/** After this many failed batches in a row with any other status, the endpoint counts as not supporting batches. */
const FAILED_BATCHES = 2;

/** A request that waits for the end of the turn, and then for its answer. */
interface QueuedCall {
  readonly payload: JsonRpcPayload;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** The key that the call is made for. */
  readonly owner: Requester;
  /** Aborts when no client wants the answer any more. */
  readonly signal: AbortSignal | undefined;
}

const isUnwanted = ({ signal }: QueuedCall): boolean => signal?.aborted === true;

interface Refused {
  readonly waiting: QueuedCall;
  readonly error: Error;
}

export class Batches {
  readonly #options: BatchesOptions;
  #nextId = 1;
  readonly #queue: QueuedCall[] = [];
  /** Remaining event-loop turns in which each request is sent alone. */
  #turnsWithoutBatches = 0;
  /** Calls per batch, and the number of full batches since the last change that were not truncated. */
  #size = BATCH_MAX;
  #uncut = 0;
  /** Batches in a row that failed with an HTTP status. */
  #failed = 0;
  /** The batches that were made while several keys asked: they wait for the turn of their key, or for the node. */
  readonly #shared = new Lane<readonly QueuedCall[]>({
    shares: { places: Number.POSITIVE_INFINITY, perKey: SHARE, forOperators: 0 },
    placesOf: (batch) => (batch.length > 1 || isCostly(batch[0]!.payload) ? COSTLY_PLACES : 1),
    start: (batch, { key }) => {
      if (this.#growing.get(key)?.batch === batch) this.#growing.delete(key);
      return this.#exchange(batch);
    },
  });
  /** The newest batch of a key that waits for its turn, with the characters of its calls. */
  readonly #growing = new Map<string, { readonly batch: QueuedCall[]; length: number }>();

  constructor(options: BatchesOptions) {
    this.#options = options;
  }

  /** Sends one request in the next batch and returns its `result`. @throws RpcError */
  request(method: string, params: unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const payload: JsonRpcPayload = { jsonrpc: "2.0", id: this.#nextId++, method, params };
      const { owner = NO_KEY, signal } = Budget.current ?? {};
      this.#queue.push({ payload, resolve, reject, owner, signal });
      if (this.#queue.length === 1) setImmediate(() => this.#drain());
    });
  }

  get isEnabled(): boolean {
    return this.#turnsWithoutBatches <= 0;
  }

  /** Stops batching for a while, after the endpoint refused a batch. */
  pauseBatching(): void {
    this.#turnsWithoutBatches = TURNS_WITHOUT_BATCHES;
  }

  close(error: Error): void {
    for (const { reject } of this.#queue.splice(0)) reject(error);
  }

  #drain(): void {
    const queue = this.#queue.splice(0);
    if (this.isEnabled) {
      this.#sendAll(queue);
    } else {
      if (queue.length > 1) this.#turnsWithoutBatches--;
      this.#sendEach(queue);
    }
  }

  #sendAll(queue: readonly QueuedCall[]): void {
    const quick: QueuedCall[] = [];
    for (const call of queue) {
      if (isSlow(call.payload)) this.#sendEach([call]);
      else quick.push(call);
    }
    const byKey = Map.groupBy(quick, ({ owner }) => owner.key);
    void this.#sendInTurns([...byKey.values()].flatMap((calls) => this.#batchesOf(calls)));
  }

  /** Splits the calls of one key into batches. No key's answers wait for another key's slow call. */
  #batchesOf(calls: readonly QueuedCall[]): QueuedCall[][] {
    const batches: QueuedCall[][] = [];
    let length = 0;
    for (const waiting of calls) {
      const own = lengthOf(waiting.payload);
      const isFull = (batches.at(-1)?.length ?? 0) === this.#size || length + own > BATCH_MAX_LENGTH;
      if (batches.length === 0 || isFull) {
        batches.push([]);
        length = 0;
      }
      batches.at(-1)!.push(waiting);
      length += own;
    }
    return batches;
  }

  /** Sends the batches, with pauses for the event loop: writing a large one takes some milliseconds. */
  async #sendInTurns(batches: readonly QueuedCall[][]): Promise<void> {
    let written = 0;
    for (const batch of batches) {
      const length = batch.reduce((sum, { payload }) => sum + lengthOf(payload), 0);
      if (written > 0 && written + length > WRITTEN_AT_ONCE) {
        await yieldToEventLoop(batch[0]!.owner);
        written = 0;
      }
      written += length;
      this.#send(batch);
    }
  }

  /** Sends each request alone, so that no answer waits for a slow one. */
  #sendEach(queue: readonly QueuedCall[]): void {
    for (const waiting of queue) this.#sendAlone([waiting]);
  }

  /** Sends the calls of one key, at once or in its turn. Calls that come until then go with them: the key has few turns. */
  #send(batch: readonly QueuedCall[]): void {
    const [{ owner }] = batch as [QueuedCall, ...QueuedCall[]];
    if (!mustShare(owner) || !this.isEnabled) {
      this.#sendAlone(batch);
      return;
    }
    const length = batch.reduce((sum, { payload }) => sum + lengthOf(payload), 0);
    const waiting = this.#growing.get(owner.key);
    const most = Math.min(JOINED_CALLS, this.#size);
    const hasRoom = waiting !== undefined && waiting.batch.length + batch.length <= most;
    if (hasRoom && waiting.length + length <= JOINED_LENGTH) {
      waiting.batch.push(...batch);
      waiting.length += length;
      return;
    }
    const growing = [...batch];
    this.#growing.set(owner.key, { batch: growing, length });
    this.#shared.add(growing, owner);
  }

  #sendAlone(batch: readonly QueuedCall[]): void {
    const [{ owner }] = batch as [QueuedCall, ...QueuedCall[]];
    if (mustShare(owner)) this.#shared.add(batch, owner);
    else void this.#exchange(batch);
  }

  /** Sends those of a batch's calls that are still wanted, and settles each. Never rejects. */
  async #exchange(queued: readonly QueuedCall[]): Promise<void> {
    const batch = queued.filter((call) => !isUnwanted(call));
    for (const call of queued) if (isUnwanted(call)) call.reject(call.signal?.reason);
    if (batch.length === 0) return;
    try {
      const [{ payload, owner }] = batch as [QueuedCall, ...QueuedCall[]];
      const sent = batch.length === 1 ? payload : batch.map((one) => one.payload);
      const answers = await this.#options.send(sent, owner);
      this.#failed = 0;
      await this.#settle(batch, answers);
    } catch (error) {
      if (this.#shouldSendSingly(batch, error)) this.#sendEach(batch);
      else for (const { reject } of batch) reject(error);
    }
  }

  /** Gives each call its answer, in slices that take turns by key: what a caller does with an answer may take a millisecond. */
  async #settle(batch: readonly QueuedCall[], answers: readonly JsonRpcAnswer[]): Promise<void> {
    const byId = new Map(answers.map((answer) => [answer.id, answer]));
    const refused: Refused[] = [];
    let weight = SLICE_CHARACTERS;
    for (const waiting of batch) {
      const { payload, resolve, reject, owner } = waiting;
      if (weight >= SLICE_CHARACTERS) {
        weight = 0;
        await yieldToEventLoop(owner);
      }
      // An endpoint that refuses a request before it parses it may not know the request's id.
      const answer = byId.get(payload.id) ?? (batch.length === 1 ? refusalOf(answers) : undefined);
      if (answer === undefined) {
        const meta = { endpoint: this.#options.label, method: payload.method };
        reject(new RpcError("transient", `the batch's answer lacks the result of ${payload.method}`, { meta }));
      } else if ("error" in answer && answer.error !== null) {
        refused.push({ waiting, error: this.#options.errorOf(payload, answer) });
      } else {
        const { result } = answer as JsonRpcResult;
        weight += typeof result === "string" ? result.length : OBJECT_CHARACTERS;
        resolve(result);
      }
    }
    const cut = this.#truncatedCalls(batch, refused);
    for (const one of refused) if (!cut.includes(one)) one.waiting.reject(one.error);
    // The batch has its answer: its place on the way is free for these.
    if (cut.length > 0) void this.#retryTruncated(cut, batch.length - cut.length);
    else if (batch.length === this.#size && ++this.#uncut === UNCUT_BATCHES) {
      this.#uncut = 0;
      this.#size = Math.min(BATCH_MAX, this.#size * 2);
    }
  }

  /**
   * Returns the refused calls at the end of a batch if the batch's size may be the reason and an earlier call was
   * answered. Geth truncates so when the answers grow too large together (`--rpc.batch-response-max-size`).
   */
  #truncatedCalls(batch: readonly QueuedCall[], refused: readonly Refused[]): readonly Refused[] {
    const mayBeOfSize = ({ error }: Refused) =>
      error instanceof RpcError && (error.kind === "range" || error.kind === "transient");
    const byWaiting = new Map(refused.filter(mayBeOfSize).map((one) => [one.waiting, one]));
    const lastKept = batch.findLastIndex((waiting) => !byWaiting.has(waiting));
    if (lastKept < 0) return [];
    return batch.slice(lastKept + 1).map((waiting) => byWaiting.get(waiting) as Refused);
  }

  /** Retries the first truncated call alone. If it succeeds, resends the rest in smaller batches. Never rejects. */
  async #retryTruncated(cut: readonly Refused[], answered: number): Promise<void> {
    const [{ waiting }, ...rest] = cut as [Refused, ...Refused[]];
    const { promise: retried, resolve, reject } = Promise.withResolvers<unknown>();
    this.#sendAlone([{ ...waiting, resolve, reject }]);
    try {
      waiting.resolve(await retried);
    } catch (error) {
      waiting.reject(error);
      // This call was not sent, so its failure does not tell whether the size was the reason.
      if (isUnwanted(waiting) && rest.length > 0) return this.#retryTruncated(rest, answered);
      for (const one of rest) one.waiting.reject(one.error);
      return;
    }
    this.#size = Math.min(this.#size, Math.max(1, answered));
    this.#uncut = 0;
    if (rest.length > 0) this.#sendAll(rest.map((one) => one.waiting));
  }

  /** Returns true if the calls of a batch that failed as a whole should be retried one by one. */
  #shouldSendSingly(batch: readonly QueuedCall[], error: unknown): boolean {
    if (batch.length === 1) return false;
    const { kind, meta } = error instanceof RpcError ? error : {};
    const status = meta?.["status"];
    if (status !== undefined && !CLIENT_STATUS.has(status)) {
      this.#failed++;
      if (UNREAD_STATUS.has(status) || this.#failed >= FAILED_BATCHES) this.pauseBatching();
    }
    // Don't send a hundred single requests to an endpoint that is busy, even if it refused batches meanwhile.
    const isBusy = kind === "rate" || kind === "late";
    return kind === "range" || (this.#turnsWithoutBatches > 0 && !isBusy);
  }
}

/** True if the answer may take seconds: logs of many blocks. */
function isSlow({ method, params }: JsonRpcPayload): boolean {
  if (method !== "eth_getLogs") return false;
  const [{ fromBlock, toBlock }] = params as [{ fromBlock?: string; toBlock?: string }];
  return Number(toBlock) - Number(fromBlock) >= SLOW_BLOCKS;
}

/** About the characters of a call's parameters. Those of a call of a contract are nearly all data. */
function lengthOf({ params }: JsonRpcPayload): number {
  const [first] = params as readonly (Readonly<Record<string, unknown>> | undefined)[];
  const data = first?.["data"];
  return typeof data === "string" ? data.length + CALL_LENGTH : JSON.stringify(params).length;
}

/** True for a call of many contracts in one, or of one that a node executes with much data. */
const isCostly = (payload: JsonRpcPayload): boolean => lengthOf(payload) > SMALL_CALL;

/** Characters of a call's parameters beside its data. */
const CALL_LENGTH = 100;

const refusalOf = ([answer]: readonly JsonRpcAnswer[]): JsonRpcAnswer | undefined =>
  answer !== undefined && "error" in answer ? answer : undefined;

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

/**
 * How long one endpoint's small requests wait, and whether kept connections are used. A middlebox may forget a kept
 * connection without a word to either side: a request on it gets no answer and no error. So a small request waits a few
 * seconds, and is then repeated on a new connection with the long timeout. What the repetition shows is remembered.
 */
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
