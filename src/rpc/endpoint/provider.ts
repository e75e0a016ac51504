/**
 * One endpoint as an ethers provider with its slow path replaced: own transport, one parse per answer, classified
 * errors. Requests of one event-loop turn form one JSON-RPC batch. Bulk `eth_getLogs` answers are decoded on another
 * thread, which also fetches them where possible.
 */
import { JsonRpcApiProvider, type JsonRpcError, type JsonRpcPayload, Network } from "ethers/providers";
import { Budget, OverBudget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { isAbort, messageOf } from "../../core/errors.ts";
import { quantity } from "../../core/hex.ts";
import { jsonIn } from "../../core/json-bytes.ts";
import { Secrets, secretsOfLogin, secretsOfUrl } from "../../core/secrets.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { NO_KEY, type Requester, singleFlight } from "../../core/work.ts";
import type { BlockRange, CallCounts } from "../../events/types.ts";
import type { Decoded, Decoder } from "../decode/decode-pool.ts";
import { parseHeader } from "../decode/header.ts";
import { transferParams } from "../decode/log-request.ts";
import type { DecodedRange, DecodeJob, Endpoint, EndpointUsage, PartsAnswer, TransferFilter } from "../port.ts";
import { asRangeRefusal, classifyRpcError, RpcError } from "../rpc-errors.ts";
import { areSmall, Batches, type JsonRpcAnswer, Patience } from "./batches.ts";
import { PrunedStateDetector } from "./pruned-state.ts";
import { createTransport, type SendOptions, type Transport } from "./transport.ts";

export interface RequestOutcome {
  readonly endpoint: string;
  /** The methods of all calls, as the provider bills them. */
  readonly calls: readonly string[];
  readonly method: string;
  /** `ok`, or the kind of the error. */
  readonly outcome: string;
  readonly seconds: number;
  readonly bytes: number;
}

interface EndpointOptions {
  readonly url: string;
  readonly label: string;
  readonly chainId: number;
  /** True for a development chain, which may have any id. */
  readonly isAnyChain?: boolean;
  /** Called with the id that the node says. */
  readonly onChainId?: (chainId: number) => void;
  readonly timeoutMs: number;
  /** Timeout of small requests, which are then repeated. Default: `timeoutMs`, without a repetition. */
  readonly smallTimeoutMs?: number;
  readonly maxBytes: number;
  /** The operator's proxy for the URL. */
  readonly proxy?: string | undefined;
  readonly clock: Clock;
  readonly decoder: Decoder;
  readonly onRequest: (outcome: RequestOutcome) => void;
  /** Called when the node announces a new block. Only nodes behind a socket do. */
  readonly onHead?: () => void;
}

/** Most characters of an error, and of one with an HTTP body: an HTML page says little after its title. */
const [MAX_ERROR_LENGTH, MAX_BODY_LENGTH] = [1_000, 340];
/** Bytes of an answer that is parsed in the turn of the event loop in which it came. */
const PARSED_AT_ONCE = 64 * 1024;
/** Ids of bulk requests start here, so that they never meet the ids of other requests, which count up from 1. */
const FIRST_RAW_ID = 1_000_000_000;

export class EndpointProvider extends JsonRpcApiProvider implements Endpoint {
  readonly label: string;
  readonly #options: EndpointOptions;
  readonly #transport: Transport;
  readonly #secrets: Secrets;
  readonly usage: Usage;
  /** The node's chain id, if it is not the expected one. */
  otherChainId: number | undefined;
  #nextRawId = FIRST_RAW_ID;
  readonly #batches: Batches;
  readonly #prunedState: PrunedStateDetector;
  readonly #patience: Patience;
  /** True once the node has confirmed its chain id. */
  #isConfirmed = false;
  readonly #confirm = singleFlight(() => this.#assertChainId());

  constructor(options: EndpointOptions) {
    const network = Network.from(options.chainId);
    super(network, { staticNetwork: network, cacheTimeout: -1 });
    this.label = options.label;
    this.#options = options;
    this.#transport = createTransport(options);
    const { label, clock, url, proxy } = options;
    this.#secrets = new Secrets([...secretsOfUrl(url), ...(proxy === undefined ? [] : secretsOfLogin(proxy))]);
    this.#patience = new Patience(clock, options.smallTimeoutMs);
    this.usage = new Usage();
    this.#batches = new Batches({
      label,
      send: (payload, owner) => this._send(payload, owner),
      errorOf: (payload, answer) => this.getRpcError(payload, answer),
    });
    this.#prunedState = new PrunedStateDetector({ label, clock, ask: (method, params) => this.#ask(method, params) });
  }

  override send(method: string, params: unknown[]): Promise<unknown> {
    if (this.destroyed) return Promise.reject(this.#closed());
    const budget = Budget.current;
    try {
      budget?.spend([method]);
    } catch (error) {
      return Promise.reject(error);
    }
    const answer = this.#afterChainIdCheck(this.#batches.request(method, params));
    return budget === undefined ? answer : answer.then((result) => counted(budget, result));
  }

  /**
   * Returns an answer only after the node has confirmed its chain id. Facts of another chain would stay in the
   * append-only log for ever, unnoticed. The first request starts the check.
   */
  async #afterChainIdCheck<T>(answer: Promise<T>): Promise<T> {
    if (this.#isConfirmed) return answer;
    const [answered, confirmed] = await Promise.allSettled([answer, this.#confirm()]);
    const isOfOtherChain = confirmed.status === "rejected" && (confirmed.reason as RpcError).kind === "lie";
    if (answered.status === "rejected" && !isOfOtherChain) throw answered.reason;
    if (confirmed.status === "rejected") throw confirmed.reason;
    return (answered as PromiseFulfilledResult<T>).value;
  }

  /** Checks the node's chain id. @throws RpcError `lie` if the node is of another chain */
  async #assertChainId(): Promise<void> {
    try {
      const claimed = Number(await this.#batches.request("eth_chainId", []));
      const { chainId, isAnyChain = false, onChainId } = this.#options;
      const meta = { endpoint: this.label };
      // `Number` turns null and an empty string into 0.
      const isValid = Number.isSafeInteger(claimed) && claimed > 0;
      if (!isValid) throw new RpcError("transient", "the endpoint gave no valid chain id", { meta });
      onChainId?.(claimed);
      const isRight = isAnyChain || claimed === chainId;
      this.otherChainId = isRight ? undefined : claimed;
      if (!isRight) throw new RpcError("lie", `the endpoint is of chain ${claimed}, not of chain ${chainId}`, { meta });
    } catch (error) {
      // The node does not know `eth_chainId`: trust the operator's configuration.
      if (!(error instanceof RpcError && error.kind === "unsupported")) throw error;
    }
    this.#isConfirmed = true;
  }

  /** @param owner the key that the calls are made for */
  override async _send(
    payload: JsonRpcPayload | JsonRpcPayload[],
    owner: Requester = NO_KEY,
  ): Promise<JsonRpcAnswer[]> {
    const list = Array.isArray(payload) ? payload : [payload];
    const text = JSON.stringify(payload);
    const send = (options: SendOptions) => this.#transport.send(text, idsOf(list), options);
    return this.#withPatience(list, (options) => this.#exchange(payload, owner, () => send(options)));
  }

  /** Repeats a small request without an answer on a new connection. Each of the two counts as a request. */
  async #withPatience<T>(list: readonly JsonRpcPayload[], send: (options: SendOptions) => Promise<T>): Promise<T> {
    const { isFresh, smallMs } = this.#patience;
    if (smallMs === undefined || !areSmall(list)) return send({ isFresh });
    try {
      return await send({ isFresh, smallMs });
    } catch (error) {
      // A gateway that says that it waited too long for its node did answer.
      if (!(error instanceof RpcError && error.kind === "late") || "status" in error.meta || this.destroyed)
        throw error;
    }
    const { clock } = this.#options;
    const started = clock.monotonic();
    const answer = await send({ isFresh: true });
    this.#patience.repeated(clock.monotonic() - started);
    return answer;
  }

  #exchange(
    payload: JsonRpcPayload | JsonRpcPayload[],
    owner: Requester,
    send: () => Promise<Uint8Array>,
  ): Promise<JsonRpcAnswer[]> {
    const list = [payload].flat();
    const method = methodOf(list);
    return this.#observe(list, async () => {
      const bytes = await send();
      // The time that the answer then waits here is none of the endpoint's.
      const cameAt = this.#options.clock.monotonic();
      // Several answers may come in one turn of the event loop.
      if (bytes.length > PARSED_AT_ONCE) await yieldToEventLoop(owner);
      const parsed = this.#parse(bytes, method);
      const refusal = Array.isArray(payload) ? refusalOfBatch(parsed, list.length) : undefined;
      if (refusal !== undefined) {
        // One error for the whole batch: unless it is a rate limit, the endpoint refuses batches, or ones of this size.
        const error = classifyRpcError(refusal.error, "batch", { endpoint: this.label });
        if (error.kind !== "rate" && list.length > 1) this.#batches.pauseBatching();
        throw error;
      }
      return { value: (Array.isArray(parsed) ? parsed : [parsed]) as JsonRpcAnswer[], bytes: bytes.length, cameAt };
    });
  }

  override getRpcError(payload: JsonRpcPayload, answer: JsonRpcError): Error {
    return this.#cleaned(classifyRpcError(answer.error, payload.method, { endpoint: this.label }));
  }

  /** Removes the endpoint's secrets from the error's message and shortens it. Returns the same error. */
  #cleaned<T>(error: T): T {
    if (!(error instanceof RpcError)) return error;
    const most = "status" in error.meta ? MAX_BODY_LENGTH : MAX_ERROR_LENGTH;
    error.message = this.#secrets.redact(error.message, most);
    return error;
  }

  request(method: string, params: unknown[]): Promise<unknown> {
    return this.#prunedState.request(method, params);
  }

  async #ask(method: string, params: unknown[]): Promise<unknown> {
    try {
      return await this.send(method, params);
    } catch (thrown) {
      // The question that asks may ask no more. That is no fault of the endpoint.
      if (thrown instanceof OverBudget || isAbort(thrown)) throw thrown;
      const error = method === "eth_getLogs" ? asRangeRefusal(thrown) : thrown;
      // Only a request for logs can be made smaller. For any other method, a too large answer is the endpoint's fault.
      const isTooLarge = error instanceof RpcError && error.kind === "range" && method !== "eth_getLogs";
      if (error instanceof RpcError && !isTooLarge) throw error;
      // Any unexpected error on the way is a fault of the endpoint as well.
      throw new RpcError("transient", `${method} failed: ${messageOf(error, this.#secrets)}`, {
        meta: { endpoint: this.label },
      });
    }
  }

  async transfers(filter: TransferFilter, signal: AbortSignal): Promise<DecodedRange> {
    return (await this.#decoded(this.#payload("eth_getLogs", [transferParams(filter)]), filter, signal)).range;
  }

  get transfersInParts(): Endpoint["transfersInParts"] {
    return this.#batches.isEnabled ? this.#transfersInParts : undefined;
  }

  async #transfersInParts(
    filter: TransferFilter,
    parts: readonly BlockRange[],
    numbers: readonly number[],
    signal: AbortSignal,
  ): Promise<PartsAnswer> {
    const logs = parts.map((part) => this.#payload("eth_getLogs", [transferParams({ ...filter, ...part })]));
    const blocks = numbers.map((number) => this.#payload("eth_getBlockByNumber", [quantity(number), false]));
    const payloads = [...blocks.slice(0, 1), ...logs, ...blocks.slice(1)];
    const batch = {
      logs: parts.map(({ fromBlock, toBlock }, i) => ({ id: logs[i]!.id, fromBlock, toBlock })),
      headers: blocks.map(({ id }) => id),
    };
    const { range, headers } = await this.#decoded(payloads, { ...filter, batch }, signal);
    return { decoded: range, headers: headers.map((one, i) => parseHeader(one, numbers[i] as number, this.label)) };
  }

  #payload(method: string, params: unknown[]): JsonRpcPayload & { readonly id: number } {
    return { jsonrpc: "2.0", id: this.#nextRawId++, method, params };
  }

  /** Decodes the answer to a payload on another thread, which also fetches it over http. @throws RpcError */
  async #decoded(
    payload: JsonRpcPayload | readonly JsonRpcPayload[],
    job: DecodeJob,
    signal: AbortSignal,
  ): Promise<Decoded> {
    const { fromBlock, toBlock } = job;
    const meta = { endpoint: this.label, fromBlock, toBlock };
    const { decoder } = this.#options;
    const { http } = this.#transport;
    const [text, list] = [JSON.stringify(payload), [payload].flat()];
    Budget.spend(list.map(({ method }) => method));
    const answer = this.#observe(list, async () => {
      const value =
        http === undefined
          ? await decoder.decode(await this.#transport.send(text, idsOf(list), { signal }), job, meta)
          : await decoder.fetch({ ...http, isFresh: this.#patience.isFresh }, text, job, meta, signal);
      return { value, bytes: value.bytes };
    });
    return this.#afterChainIdCheck(answer).catch((error: unknown) => {
      throw asRangeRefusal(error);
    });
  }

  #parse(bytes: Uint8Array, method: string): unknown {
    const parsed = jsonIn(bytes);
    if (typeof parsed === "object" && parsed !== null) return parsed;
    // Truncated JSON, or an HTML page.
    throw new RpcError("transient", "the answer is not JSON", {
      meta: { endpoint: this.label, method, bytes: bytes.length },
    });
  }

  /** @param work returns the time at which the answer came, if it was not just now */
  async #observe<T>(
    payloads: readonly JsonRpcPayload[],
    work: () => Promise<{ value: T; bytes: number; cameAt?: number }>,
  ): Promise<T> {
    const { clock, onRequest, label } = this.#options;
    const started = clock.monotonic();
    const [method, calls] = [methodOf(payloads), payloads.map((payload) => payload.method)];
    this.usage.sent(calls);
    const report = (outcome: string, bytes: number, cameAt = clock.monotonic()) => {
      const ms = cameAt - started;
      if (outcome === "ok") this.usage.received(bytes, ms);
      onRequest({ endpoint: label, method, calls, outcome, seconds: ms / 1_000, bytes });
    };
    try {
      const { value, bytes, cameAt } = await work();
      report("ok", bytes, cameAt);
      return value;
    } catch (error) {
      report(error instanceof RpcError ? error.kind : "aborted", 0);
      throw this.#cleaned(error);
    }
  }

  #closed(): RpcError {
    return new RpcError("transient", "the endpoint is closed", { meta: { endpoint: this.label } });
  }

  override destroy(): void {
    this.#batches.close(this.#closed());
    this.#prunedState.close();
    this.#transport.close();
    super.destroy();
  }
}

/** About what a log, a header or a receipt takes on the wire, in bytes. */
const ITEM_BYTES = 800;

/** Counts an answer on a budget. Answers share batches, so that of a list is estimated. */
function counted(budget: Budget, result: unknown): unknown {
  const isText = typeof result === "string";
  budget.add({ bytes: isText ? result.length : Array.isArray(result) ? result.length * ITEM_BYTES : ITEM_BYTES });
  return result;
}

const methodOf = (list: readonly JsonRpcPayload[]): string => (list.length === 1 ? (list[0]?.method ?? "") : "batch");

const idsOf = (list: readonly JsonRpcPayload[]): number[] => list.map(({ id }) => Number(id));

/** Returns the refusal of a whole batch. Some endpoints send it in a list of one, under the id of the first call. */
function refusalOfBatch(answer: unknown, calls: number): { readonly error?: unknown } | undefined {
  if (!Array.isArray(answer)) return answer as { error?: unknown };
  const [only] = answer as readonly ({ error?: unknown } | null)[];
  return calls > 1 && answer.length === 1 && only?.error ? only : undefined;
}

/** Answers whose latency is kept: enough for a p99. */
const LATENCIES = 512;

/**
 * Calls by method, as a provider bills them, and bytes. Each call inside a batch counts. Also the latency of the newest
 * answers.
 */
class Usage implements EndpointUsage {
  readonly #calls = new Map<string, number>();
  #bytes = 0;
  /** The newest latencies in ms, in a ring. */
  readonly #latencies: number[] = [];
  #next = 0;

  /** Counts the calls of one request. */
  sent(methods: readonly string[]): void {
    for (const method of methods) this.#calls.set(method, (this.#calls.get(method) ?? 0) + 1);
  }

  /** Counts an answer. @param ms time until it had arrived */
  received(bytes: number, ms: number): void {
    this.#bytes += bytes;
    this.#latencies[this.#next] = ms;
    this.#next = (this.#next + 1) % LATENCIES;
  }

  counts(): CallCounts {
    return { calls: Object.fromEntries(this.#calls), bytes: this.#bytes };
  }

  latencyMs(): { readonly p50: number; readonly p99: number } | null {
    if (this.#latencies.length === 0) return null;
    const sorted = [...this.#latencies].sort((a, b) => a - b);
    const at = (share: number) => Math.round((sorted[Math.floor(sorted.length * share)] as number) * 10) / 10;
    return { p50: at(0.5), p99: at(0.99) };
  }
}
