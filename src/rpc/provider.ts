/**
 * One endpoint as an ethers provider with its slow path replaced: payloads go out through our transport, answers are
 * parsed once, errors come back classified. What is sent in one turn of the event loop is one JSON-RPC batch: ethers
 * collects for a millisecond, which is longer than a node on this machine takes to answer. Bulk
 * `eth_getLogs` answers are decoded on another thread, which fetches them itself where that is possible.
 */
import { JsonRpcApiProvider, type JsonRpcError, type JsonRpcPayload, type JsonRpcResult, Network } from "ethers";
import type { Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import type { DecodedRange, DecodeJob } from "./decode-answer.ts";
import type { Decoder } from "./decode-pool.ts";
import type { Endpoint } from "./endpoint.ts";
import { classifyRpcError, RpcError } from "./errors.ts";
import { withoutSecrets } from "./secrets.ts";
import { createTransport, type Transport } from "./transport.ts";

export interface RequestOutcome {
  readonly endpoint: string;
  readonly method: string;
  /** `ok`, or the kind of the error. */
  readonly outcome: string;
  readonly seconds: number;
  readonly bytes: number;
}

export interface EndpointOptions {
  readonly url: string;
  /** Stands for the URL in logs, metrics and errors: `eth#1`. */
  readonly label: string;
  readonly chainId: number;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly decoder: Decoder;
  readonly onRequest: (outcome: RequestOutcome) => void;
  /** Called when the node announces a new block: over a socket only. */
  readonly onHead?: () => void;
}

/** Calls, and characters of them, in one JSON-RPC batch; providers refuse long ones. */
const BATCH_MAX = 100;
const BATCH_MAX_LENGTH = 1024 * 1024;
/** Logs of so many blocks are asked for alone. */
const SLOW_BLOCKS = 1_000;
/** An endpoint that takes no batches says so in the words of one that answers nothing for a moment. */
const TURNS_WITHOUT_BATCHES = 100;
/** What a request that was not taken as it is may be answered with, without a word of JSON-RPC. */
const UNREAD_STATUS = new Set<unknown>([400, 405, 415, 422, 501]);
/** Characters of an error's message. */
const MAX_TOLD = 1_000;
/** Ids of bulk requests live apart from those that are counted up from 1. */
const FIRST_RAW_ID = 1_000_000_000;

type Answer = JsonRpcResult | JsonRpcError;

/** A request that waits for the end of the turn, then for its answer. */
interface Waiting {
  readonly payload: JsonRpcPayload;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const decoder = new TextDecoder();

export class EndpointProvider extends JsonRpcApiProvider implements Endpoint {
  readonly label: string;
  readonly #options: EndpointOptions;
  readonly #transport: Transport;
  readonly #clean: (text: string) => string;
  #nextRawId = FIRST_RAW_ID;
  #nextId = 1;
  readonly #queue: Waiting[] = [];
  /** What is asked in this many turns from now on goes one by one. */
  #turnsWithoutBatches = 0;
  /** Whether the node has said which chain it is of, and the question under way. */
  #isConfirmed = false;
  #confirming: Promise<void> | undefined;

  constructor(options: EndpointOptions) {
    const network = Network.from(options.chainId);
    super(network, { staticNetwork: network, cacheTimeout: -1 });
    this.label = options.label;
    this.#options = options;
    this.#transport = createTransport(options);
    this.#clean = withoutSecrets(options.url);
  }

  override send(method: string, params: unknown[]): Promise<unknown> {
    if (this.destroyed) return Promise.reject(this.#closed());
    return this.#ofThisChain(this.#enqueue(method, params));
  }

  /**
   * What a node says, once it is known to be of this chain: facts of another one, in a log that forgets nothing, would
   * never be noticed. The first request brings the question along.
   */
  async #ofThisChain<T>(saying: Promise<T>): Promise<T> {
    if (this.#isConfirmed) return saying;
    this.#confirming ??= this.#confirm().finally(() => {
      this.#confirming = undefined;
    });
    const [said, confirmed] = await Promise.allSettled([saying, this.#confirming]);
    const isOfAnother = confirmed.status === "rejected" && (confirmed.reason as RpcError).kind === "lie";
    if (said.status === "rejected" && !isOfAnother) throw said.reason;
    if (confirmed.status === "rejected") throw confirmed.reason;
    return (said as PromiseFulfilledResult<T>).value;
  }

  /** @throws RpcError `lie` when the node is of another chain */
  async #confirm(): Promise<void> {
    try {
      const said = Number(await this.#enqueue("eth_chainId", []));
      const { chainId } = this.#options;
      // Null, or nothing, is 0 here.
      if (!Number.isSafeInteger(said) || said <= 0) throw this.#unanswered("eth_chainId");
      if (said !== chainId) {
        throw new RpcError("lie", `the endpoint is of chain ${said}, not of chain ${chainId}`, {
          meta: { endpoint: this.label },
        });
      }
    } catch (error) {
      // Who does not know the question is taken at the operator's word.
      if (!(error instanceof RpcError && error.kind === "unsupported")) throw error;
    }
    this.#isConfirmed = true;
  }

  #enqueue(method: string, params: unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const payload: JsonRpcPayload = { jsonrpc: "2.0", id: this.#nextId++, method, params };
      this.#queue.push({ payload, resolve, reject });
      if (this.#queue.length === 1) setImmediate(() => this.#drain());
    });
  }

  #drain(): void {
    const queue = this.#queue.splice(0);
    if (queue.length === 0) return;
    if (queue.length === 1 || this.#turnsWithoutBatches-- > 0) {
      this.#sendEach(queue);
      return;
    }
    let batch: Waiting[] = [];
    let length = 0;
    for (const waiting of queue) {
      if (isSlow(waiting.payload)) {
        this.#sendBatch([waiting]);
        continue;
      }
      const own = JSON.stringify(waiting.payload.params).length;
      if (batch.length === BATCH_MAX || (batch.length > 0 && length + own > BATCH_MAX_LENGTH)) {
        this.#sendBatch(batch);
        batch = [];
        length = 0;
      }
      batch.push(waiting);
      length += own;
    }
    if (batch.length > 0) this.#sendBatch(batch);
  }

  /** One by one: a slow answer holds none of the others up. */
  #sendEach(queue: readonly Waiting[]): void {
    for (const waiting of queue) this.#sendBatch([waiting]);
  }

  /** Sends them and settles each; never rejects. */
  async #sendBatch(batch: readonly Waiting[]): Promise<void> {
    try {
      const payloads = batch.map(({ payload }) => payload);
      const answers = await this._send(payloads.length === 1 ? (payloads[0] as JsonRpcPayload) : payloads);
      const byId = new Map(answers.map((answer) => [answer.id, answer]));
      for (const { payload, resolve, reject } of batch) {
        // Who refuses a request unread may not know its id.
        const answer = byId.get(payload.id) ?? (batch.length === 1 ? refusalOf(answers) : undefined);
        if (answer === undefined) reject(this.#unanswered(payload.method));
        else if ("error" in answer && answer.error !== null) reject(this.getRpcError(payload, answer));
        else resolve((answer as JsonRpcResult).result);
      }
    } catch (error) {
      const { kind, meta } = error instanceof RpcError ? error : {};
      if (batch.length > 1 && UNREAD_STATUS.has(meta?.["status"])) this.#turnsWithoutBatches = TURNS_WITHOUT_BATCHES;
      // Whatever was said to others meanwhile: who is asked for less must not be asked for a hundred times as much.
      const isBusy = kind === "rate" || kind === "late";
      const mayTakeEach = kind === "range" || (this.#turnsWithoutBatches > 0 && !isBusy);
      if (batch.length > 1 && mayTakeEach) this.#sendEach(batch);
      else for (const { reject } of batch) reject(error);
    }
  }

  #unanswered(method: string): RpcError {
    return new RpcError("transient", `the answer has nothing for ${method}`, {
      meta: { endpoint: this.label, method },
    });
  }

  override async _send(payload: JsonRpcPayload | JsonRpcPayload[]): Promise<Answer[]> {
    const list = Array.isArray(payload) ? payload : [payload];
    const method = list.length === 1 ? (list[0]?.method ?? "") : "batch";
    const ids = list.map((one) => Number(one.id));
    return this.#observe(method, async () => {
      const bytes = await this.#transport.send(JSON.stringify(payload), ids);
      const parsed = this.#parse(bytes, method);
      const refusal = Array.isArray(payload) ? refusalOfBatch(parsed, list.length) : undefined;
      if (refusal !== undefined) {
        // A single error for a whole batch: rate limits aside, the endpoint does not take batches, or none as long.
        const error = classifyRpcError(refusal.error, "batch", { endpoint: this.label });
        if (error.kind !== "rate" && list.length > 1) this.#turnsWithoutBatches = TURNS_WITHOUT_BATCHES;
        throw error;
      }
      return { value: (Array.isArray(parsed) ? parsed : [parsed]) as Answer[], bytes: bytes.length };
    });
  }

  override getRpcError(payload: JsonRpcPayload, answer: JsonRpcError): Error {
    return this.#cleaned(classifyRpcError(answer.error, payload.method, { endpoint: this.label }));
  }

  /** The same error, which does not tell where the endpoint is, and nothing at length. */
  #cleaned<T>(error: T): T {
    if (error instanceof RpcError) error.message = this.#clean(error.message).slice(0, MAX_TOLD);
    return error;
  }

  async request(method: string, params: unknown[]): Promise<unknown> {
    try {
      return await this.send(method, params);
    } catch (error) {
      // Only of logs can less be asked for: whoever says too much, or hears too much, of anything else is not to be used for it.
      const isTooLarge = error instanceof RpcError && error.kind === "range" && method !== "eth_getLogs";
      if (error instanceof RpcError && !isTooLarge) throw error;
      // What else goes wrong on the way is a fault of the endpoint's.
      throw new RpcError("transient", `${method} failed: ${this.#clean(messageOf(error))}`, {
        meta: { endpoint: this.label },
      });
    }
  }

  async transfers(filter: object, job: DecodeJob, signal: AbortSignal): Promise<DecodedRange> {
    const id = this.#nextRawId++;
    const payload = JSON.stringify({ jsonrpc: "2.0", id, method: "eth_getLogs", params: [filter] });
    const { fromBlock, toBlock } = job;
    const meta = { endpoint: this.label, fromBlock, toBlock };
    const { decoder } = this.#options;
    const { http } = this.#transport;
    const answer = this.#observe("eth_getLogs", async () => {
      const { range, bytes } =
        http === undefined
          ? await decoder.decode(await this.#transport.send(payload, [id], signal), job, meta)
          : await decoder.fetch(http, payload, job, meta, signal);
      return { value: range, bytes };
    });
    return this.#ofThisChain(answer);
  }

  #parse(bytes: Uint8Array, method: string): unknown {
    try {
      const parsed: unknown = JSON.parse(decoder.decode(bytes));
      if (typeof parsed === "object" && parsed !== null) return parsed;
    } catch {
      // Falls through: cut off in mid-JSON, or an HTML page.
    }
    throw new RpcError("transient", "the answer is not JSON", {
      meta: { endpoint: this.label, method, bytes: bytes.length },
    });
  }

  async #observe<T>(method: string, work: () => Promise<{ value: T; bytes: number }>): Promise<T> {
    const { clock, onRequest, label } = this.#options;
    const started = clock.monotonic();
    const report = (outcome: string, bytes: number) =>
      onRequest({ endpoint: label, method, outcome, seconds: (clock.monotonic() - started) / 1_000, bytes });
    try {
      const { value, bytes } = await work();
      report("ok", bytes);
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
    for (const { reject } of this.#queue.splice(0)) reject(this.#closed());
    this.#transport.close();
    super.destroy();
  }
}

/** Whether it may take seconds, for which nobody else's answer should have to wait: logs of many blocks. */
function isSlow({ method, params }: JsonRpcPayload): boolean {
  if (method !== "eth_getLogs") return false;
  const [{ fromBlock, toBlock }] = params as [{ fromBlock?: string; toBlock?: string }];
  return Number(toBlock) - Number(fromBlock) >= SLOW_BLOCKS;
}

const refusalOf = ([answer]: readonly Answer[]): Answer | undefined =>
  answer !== undefined && "error" in answer ? answer : undefined;

/** What is said to a batch as a whole. Some say it in a list, where the first of the calls stands for all of them. */
function refusalOfBatch(said: unknown, calls: number): { readonly error?: unknown } | undefined {
  if (!Array.isArray(said)) return said as { error?: unknown };
  const [only] = said as readonly ({ error?: unknown } | null)[];
  return calls > 1 && said.length === 1 && only?.error ? only : undefined;
}
