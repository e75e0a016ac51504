/**
 * A JSON-RPC proxy over HTTP between a client and a node. On demand it misbehaves: errors, other statuses, dropped
 * connections, truncated answers, delays, lies. It also records the calls. In: the node's URL and the hooks.
 * Out: a URL on a free port. It doesn't proxy WebSockets.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface RpcCall {
  method: string;
  params: readonly unknown[];
  id: unknown;
  /** The methods of all calls in its request. */
  batch: readonly string[];
}

/**
 * The treatment of a call that is not simply passed on. Within a batch, `error`, `result` and `delayUntil` apply to one
 * entry. `status`, `drop` and `truncate` apply to the whole answer, and the first entry that has one of them decides.
 */
export type Intervention =
  | { error: { code: number; message: string; data?: unknown } }
  | { result: unknown }
  /** Answer with this status, these headers and this body. */
  | { status: number; headers?: Record<string, string>; body?: string }
  /** Close the connection without an answer. */
  | { drop: true }
  /** Pass on, then send only this many bytes of the answer with a content length for all of it, and close. */
  | { truncate: number }
  /** Pass on when this promise has resolved. */
  | { delayUntil: Promise<void> };

// biome-ignore lint/suspicious/noConfusingVoidType: a hook that returns nothing passes the call on
type Decision = Intervention | void | undefined;

export interface RpcProxyOptions {
  /** Called once per call, in order of arrival, with the number of earlier calls. */
  onRequest?(call: RpcCall, index: number): Decision | Promise<Decision>;
  /** Answers this many calls of a batch and refuses the rest, as go-ethereum does when answers grow too large. */
  readonly maxBatch?: { readonly calls: number; readonly refusal: Intervention };
  /** Replaces the result of a call that the node answered; a promise is awaited. */
  onResult?(call: RpcCall, result: unknown): unknown;
}

export interface RpcProxy {
  readonly url: string;
  readonly port: number;
  /** Every call so far in order of arrival, including held calls. */
  readonly calls: readonly RpcCall[];
  /** HTTP requests so far. A batch is one request. */
  readonly requests: number;
  /** Number of calls of a method, or of all methods. */
  count(method?: string): number;
  /** Forgets the calls recorded so far. */
  reset(): void;
  /** Holds every request that arrives from this moment, before `onRequest`. */
  pause(): void;
  /** Releases the held requests. */
  resume(): void;
  /** Resolves when `count` calls (of a method) were recorded. */
  called(count: number, method?: string): Promise<void>;
  /** Closes the port and every connection. Held requests get no answer. */
  stop(): Promise<void>;
}

type WireRequest = { jsonrpc: string; id?: unknown; method: string; params?: readonly unknown[] };
type WireAnswer = { jsonrpc: string; id: unknown; result?: unknown; error?: unknown };
type Decided = { request: WireRequest; call: RpcCall; decision: Intervention | undefined };

/** The HTTP answer: a dropped connection, or a body of which only the first `bytes` are sent if that is set. */
type Reply = "drop" | { status: number; headers?: Record<string, string>; body: string; bytes?: number };

/** Starts a proxy in front of `target`. Without hooks it only records. */
export async function startRpcProxy(target: string, options: RpcProxyOptions = {}): Promise<RpcProxy> {
  const calls: RpcCall[] = [];
  let requests = 0;
  let seen = 0;
  let gate: PromiseWithResolvers<void> | undefined;
  const waiters: (() => void)[] = [];
  const count = (method?: string) =>
    method === undefined ? calls.length : calls.filter((call) => call.method === method).length;

  const record = (request: WireRequest, batch: readonly string[]) => {
    const call = { method: request.method, params: request.params ?? [], id: request.id, batch };
    calls.push(call);
    for (const wake of waiters.splice(0)) wake();
    return { request, call, index: seen++ };
  };

  const server = createServer((request, response) => {
    requests += 1;
    const respond = async () => {
      const parsed = JSON.parse(await bodyOf(request)) as WireRequest | WireRequest[];
      const requested = [parsed].flat();
      const methods = requested.map(({ method }) => method);
      const recorded = requested.map((one) => record(one, methods));
      await gate?.promise;
      const decided = await Promise.all(
        recorded.map(async ({ request: entry, call, index }, at): Promise<Decided> => {
          const { maxBatch } = options;
          if (maxBatch !== undefined && at >= maxBatch.calls) {
            return { request: entry, call, decision: maxBatch.refusal };
          }
          return { request: entry, call, decision: (await options.onRequest?.(call, index)) ?? undefined };
        }),
      );
      send(response, await replyTo(target, decided, { isBatch: Array.isArray(parsed), onResult: options.onResult }));
    };
    respond().catch((error: unknown) => send(response, { status: 502, body: String(error) }));
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    calls,
    get requests() {
      return requests;
    },
    count,
    reset: () => {
      calls.length = 0;
      requests = 0;
    },
    pause: () => {
      gate ??= Promise.withResolvers<void>();
    },
    resume: () => {
      gate?.resolve();
      gate = undefined;
    },
    called: async (wanted, method) => {
      while (count(method) < wanted) await new Promise<void>((resolve) => waiters.push(resolve));
    },
    stop: async () => {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
    },
  };
}

/** Carries out the decisions. Passes on the remaining entries of a batch as one batch. */
async function replyTo(
  target: string,
  decided: readonly Decided[],
  { isBatch, onResult }: { isBatch: boolean; onResult: RpcProxyOptions["onResult"] },
): Promise<Reply> {
  let bytes: number | undefined;
  const delays: Promise<void>[] = [];
  for (const { decision } of decided) {
    if (decision === undefined) continue;
    if ("drop" in decision) return "drop";
    if ("status" in decision) return { ...decision, body: decision.body ?? "" };
    if ("truncate" in decision) bytes ??= decision.truncate;
    if ("delayUntil" in decision) delays.push(decision.delayUntil);
  }
  await Promise.all(delays);

  const passed = decided.filter(({ decision }) => ownAnswer(decision) === undefined).map(({ request }) => request);
  const nodeAnswers = passed.length === 0 ? [] : await forward(target, isBatch ? passed : passed[0]!);
  const answer = async ({ request, call, decision }: Decided): Promise<WireAnswer> => {
    const own = ownAnswer(decision);
    if (own !== undefined) return { jsonrpc: "2.0", id: request.id ?? null, ...own };
    const found = nodeAnswers.find(({ id }) => id === request.id);
    if (found === undefined) throw new Error(`the node did not answer ${request.method}`);
    if (found.error !== undefined || onResult === undefined) return found;
    return { ...found, result: await onResult(call, found.result) };
  };
  const answers = await Promise.all(decided.map(answer));
  const body = JSON.stringify(isBatch ? answers : answers[0]);
  return { status: 200, body, ...(bytes === undefined ? {} : { bytes }) };
}

/** Returns the answer that a decision gives instead of the node's. */
function ownAnswer(decision: Intervention | undefined): { result: unknown } | { error: unknown } | undefined {
  if (decision === undefined) return undefined;
  if ("error" in decision) return { error: decision.error };
  if ("result" in decision) return { result: decision.result };
  return undefined;
}

async function forward(target: string, request: WireRequest | WireRequest[]): Promise<WireAnswer[]> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(target, { method: "POST", headers, body: JSON.stringify(request) });
  const answer = (await response.json()) as WireAnswer | WireAnswer[];
  return [answer].flat();
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function send(response: ServerResponse, reply: Reply): void {
  if (reply === "drop") {
    response.socket?.destroy();
    return;
  }
  const body = Buffer.from(reply.body);
  response.writeHead(reply.status, {
    "content-type": "application/json",
    "content-length": String(body.length),
    ...reply.headers,
  });
  if (reply.bytes === undefined) response.end(body);
  else response.write(body.subarray(0, reply.bytes), () => response.socket?.destroy());
}

/** Refuses requests for the logs of more than `cap` blocks, as providers do, and leaves the others to `within`. */
export const cappedLogs =
  (cap: number, within: () => Intervention | undefined) =>
  ({ method, params }: RpcCall): Intervention | undefined => {
    if (method !== "eth_getLogs") return undefined;
    const [{ fromBlock, toBlock }] = params as [{ fromBlock: string; toBlock: string }];
    const isWide = Number(toBlock) - Number(fromBlock) >= cap;
    return isWide ? { error: { code: -32_005, message: `query exceeds max block range ${cap}` } } : within();
  };
