/**
 * One endpoint as an ethers provider with its slow path replaced: payloads go out through our transport, answers are
 * parsed once, errors come back classified. Requests of one turn of the event loop are one JSON-RPC batch. Bulk
 * `eth_getLogs` answers are decoded on another thread, which fetches them itself where that is possible.
 */
import { JsonRpcApiProvider, type JsonRpcError, type JsonRpcPayload, Network } from "ethers";
import type { Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { quantity } from "../core/hex.ts";
import { type Answer, Batches } from "./batches.ts";
import type { DecodedRange, DecodeJob } from "./decode-answer.ts";
import type { Decoded, Decoder } from "./decode-pool.ts";
import type { Endpoint, PartsAnswer, RangeFilter } from "./endpoint.ts";
import { classifyRpcError, RpcError, refusalOfLogs } from "./errors.ts";
import { parseHeader } from "./header.ts";
import { OldState } from "./old-state.ts";
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

/** Characters of an error's message. */
const MAX_TOLD = 1_000;
/** Ids of bulk requests live apart from those that are counted up from 1. */
const FIRST_RAW_ID = 1_000_000_000;

const decoder = new TextDecoder();

export class EndpointProvider extends JsonRpcApiProvider implements Endpoint {
  readonly label: string;
  readonly #options: EndpointOptions;
  readonly #transport: Transport;
  readonly #clean: (text: string) => string;
  #nextRawId = FIRST_RAW_ID;
  readonly #batches: Batches;
  readonly #oldState: OldState;
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
    const { label, clock } = options;
    this.#batches = new Batches({
      label,
      send: (payload) => this._send(payload),
      errorOf: (payload, answer) => this.getRpcError(payload, answer),
    });
    this.#oldState = new OldState({ label, clock, ask: (method, params) => this.#ask(method, params) });
  }

  override send(method: string, params: unknown[]): Promise<unknown> {
    if (this.destroyed) return Promise.reject(this.#closed());
    return this.#ofThisChain(this.#batches.request(method, params));
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
      const said = Number(await this.#batches.request("eth_chainId", []));
      const { chainId } = this.#options;
      // Null, or nothing, is 0 here.
      if (!Number.isSafeInteger(said) || said <= 0)
        throw new RpcError("transient", "the endpoint does not say its chain", { meta: { endpoint: this.label } });
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
        if (error.kind !== "rate" && list.length > 1) this.#batches.refused();
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

  request(method: string, params: unknown[]): Promise<unknown> {
    return this.#oldState.request(method, params);
  }

  async #ask(method: string, params: unknown[]): Promise<unknown> {
    try {
      return await this.send(method, params);
    } catch (thrown) {
      const error = method === "eth_getLogs" ? refusalOfLogs(thrown) : thrown;
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
    const payload = this.#payload("eth_getLogs", [filter]);
    return (await this.#decoded("eth_getLogs", JSON.stringify(payload), [payload.id], { job, signal })).range;
  }

  get transfersInParts(): Endpoint["transfersInParts"] {
    return this.#batches.areTaken ? this.#transfersInParts : undefined;
  }

  async #transfersInParts(
    parts: readonly RangeFilter[],
    numbers: readonly number[],
    job: DecodeJob,
    signal: AbortSignal,
  ): Promise<PartsAnswer> {
    const logs = parts.map(({ filter }) => this.#payload("eth_getLogs", [filter]));
    const asked = numbers.map((number) => this.#payload("eth_getBlockByNumber", [quantity(number), false]));
    const [first, ...others] = asked;
    const payloads = [...(first === undefined ? [] : [first]), ...logs, ...others];
    const ids = (list: readonly { id: number }[]) => list.map(({ id }) => id);
    const rangeOf = ({ fromBlock, toBlock }: RangeFilter, i: number) => ({
      id: ids(logs)[i] as number,
      fromBlock,
      toBlock,
    });
    const batch = { logs: parts.map(rangeOf), headers: ids(asked) };
    const text = JSON.stringify(payloads);
    const { range, headers } = await this.#decoded("batch", text, ids(payloads), { job: { ...job, batch }, signal });
    return { decoded: range, headers: headers.map((one, i) => parseHeader(one, numbers[i] as number, this.label)) };
  }

  #payload(method: string, params: unknown[]) {
    return { jsonrpc: "2.0", id: this.#nextRawId++, method, params } as const;
  }

  /** The answer to a payload, decoded off this thread, which fetches it where that is possible. @throws RpcError */
  async #decoded(
    method: string,
    payload: string,
    ids: readonly number[],
    { job, signal }: { readonly job: DecodeJob; readonly signal: AbortSignal },
  ): Promise<Decoded> {
    const { fromBlock, toBlock } = job;
    const meta = { endpoint: this.label, fromBlock, toBlock };
    const { decoder } = this.#options;
    const { http } = this.#transport;
    const answer = this.#observe(method, async () => {
      const value =
        http === undefined
          ? await decoder.decode(await this.#transport.send(payload, ids, signal), job, meta)
          : await decoder.fetch(http, payload, job, meta, signal);
      return { value, bytes: value.bytes };
    });
    return this.#ofThisChain(answer).catch((error: unknown) => {
      throw refusalOfLogs(error);
    });
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
    this.#batches.close(this.#closed());
    this.#oldState.close();
    this.#transport.close();
    super.destroy();
  }
}

/** What is said to a batch as a whole. Some say it in a list, where the first of the calls stands for all of them. */
function refusalOfBatch(said: unknown, calls: number): { readonly error?: unknown } | undefined {
  if (!Array.isArray(said)) return said as { error?: unknown };
  const [only] = said as readonly ({ error?: unknown } | null)[];
  return calls > 1 && said.length === 1 && only?.error ? only : undefined;
}
