/**
 * One endpoint as an ethers provider with its slow path replaced: payloads go out through our transport, answers are
 * parsed once, errors come back classified. ethers collects what is sent in one turn into a JSON-RPC batch. Bulk
 * `eth_getLogs` answers are decoded on another thread, which fetches them itself where that is possible.
 */
import { JsonRpcApiProvider, type JsonRpcError, type JsonRpcPayload, type JsonRpcResult, Network } from "ethers";
import type { Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import type { DecodedRange, DecodeJob } from "./decode-answer.ts";
import type { Decoder } from "./decode-pool.ts";
import type { Endpoint } from "./endpoint.ts";
import { classifyRpcError, RpcError } from "./errors.ts";
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

/** Calls in one JSON-RPC batch; providers refuse long ones. */
const BATCH_MAX = 100;
/** Ids of bulk requests live apart from those that ethers counts up from 1. */
const FIRST_RAW_ID = 1_000_000_000;

type Answer = JsonRpcResult | JsonRpcError;
const decoder = new TextDecoder();

export class EndpointProvider extends JsonRpcApiProvider implements Endpoint {
  readonly label: string;
  readonly #options: EndpointOptions;
  readonly #transport: Transport;
  #nextRawId = FIRST_RAW_ID;
  #batches = true;

  constructor(options: EndpointOptions) {
    const network = Network.from(options.chainId);
    super(network, { staticNetwork: network, batchStallTime: 0, batchMaxCount: BATCH_MAX, cacheTimeout: -1 });
    this.label = options.label;
    this.#options = options;
    this.#transport = createTransport(options);
  }

  override async _send(payload: JsonRpcPayload | JsonRpcPayload[]): Promise<Answer[]> {
    if (Array.isArray(payload) && !this.#batches) {
      const answers = await Promise.all(payload.map((one) => this._send(one)));
      return answers.flat();
    }
    const list = Array.isArray(payload) ? payload : [payload];
    const method = list.length === 1 ? (list[0]?.method ?? "") : "batch";
    const ids = list.map((one) => Number(one.id));
    return this.#observe(method, async () => {
      const bytes = await this.#transport.send(JSON.stringify(payload), ids);
      const parsed = this.#parse(bytes, method);
      if (Array.isArray(payload) && !Array.isArray(parsed)) {
        // A single error for a whole batch: rate limits aside, the endpoint does not take batches.
        const error = classifyRpcError((parsed as { error?: unknown }).error, "batch", { endpoint: this.label });
        if (error.kind === "rate" || list.length === 1) throw error;
        this.#batches = false;
        return { value: await this._send(payload), bytes: bytes.length };
      }
      return { value: (Array.isArray(parsed) ? parsed : [parsed]) as Answer[], bytes: bytes.length };
    });
  }

  override getRpcError(payload: JsonRpcPayload, answer: JsonRpcError): Error {
    return classifyRpcError(answer.error, payload.method, { endpoint: this.label });
  }

  async request(method: string, params: unknown[]): Promise<unknown> {
    try {
      return await this.send(method, params);
    } catch (error) {
      if (error instanceof RpcError) throw error;
      // What ethers itself finds wrong (a missing answer in a batch, say) is a fault of the endpoint's.
      throw new RpcError("transient", `${method} failed: ${messageOf(error)}`, { meta: { endpoint: this.label } });
    }
  }

  async transfers(filter: object, job: DecodeJob, signal: AbortSignal): Promise<DecodedRange> {
    const id = this.#nextRawId++;
    const payload = JSON.stringify({ jsonrpc: "2.0", id, method: "eth_getLogs", params: [filter] });
    const { fromBlock, toBlock } = job;
    const meta = { endpoint: this.label, fromBlock, toBlock };
    const { decoder } = this.#options;
    const { http } = this.#transport;
    return this.#observe("eth_getLogs", async () => {
      const { range, bytes } =
        http === undefined
          ? await decoder.decode(await this.#transport.send(payload, [id], signal), job, meta)
          : await decoder.fetch(http, payload, job, meta, signal);
      return { value: range, bytes };
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
      throw error;
    }
  }

  override destroy(): void {
    this.#transport.close();
    super.destroy();
  }
}
