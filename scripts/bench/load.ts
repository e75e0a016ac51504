/**
 * Loads an HTTP server: a fixed number of keep-alive connections, each with one GET in flight, over bare sockets so
 * that the client costs little compared with the server. Out: requests per second and percentiles of the latencies.
 */

export interface LoadOptions {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly ms: number;
}

export interface LoadResult {
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

/** Loads the server for a while. @throws Error for any answer that is not 200 */
export async function load({ port, path, headers, connections, ms }: LoadOptions): Promise<LoadResult> {
  const lines = Object.entries({ host: "127.0.0.1", ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  const latencies: number[] = [];
  const started = performance.now();
  const end = started + ms;
  await Promise.all(Array.from({ length: connections }, () => converse(port, request, end, latencies)));
  const seconds = (performance.now() - started) / 1_000;
  return { perSecond: latencies.length / seconds, p50: percentile(latencies, 50), p99: percentile(latencies, 99) };
}

/** One connection: sends a request, awaits the whole answer, and repeats until `end`. */
async function converse(port: number, request: Buffer, end: number, latencies: number[]): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let sent = performance.now();
  const reader = new AnswerReader(() => {
    const now = performance.now();
    latencies.push(now - sent);
    if (now >= end) return resolve();
    sent = now;
    socket.write(request);
  }, reject);
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data: (_socket, data) => reader.read(data),
      close: () => reject(new Error("the server closed the connection")),
      error: (_socket, error) => reject(error),
    },
  });
  socket.write(request);
  await promise;
  socket.end();
}

/** Longer than the head of any answer. */
const MAX_HEAD = 4_096;

/** Counts the bytes of consecutive answers on a connection. Parses the heads only. */
export class AnswerReader {
  readonly #whole: () => void;
  readonly #failed: (error: Error) => void;
  #head = "";
  #missing = 0;

  /** @param failed called for any answer that is not 200 */
  constructor(whole: () => void, failed: (error: Error) => void) {
    this.#whole = whole;
    this.#failed = failed;
  }

  read(data: Buffer): void {
    if (this.#missing > 0) this.#missing -= data.length;
    else if (!this.#begin(data)) return;
    if (this.#missing <= 0) this.#whole();
  }

  /** False while the head is incomplete, and after a failure. */
  #begin(data: Buffer): boolean {
    const known = this.#head.length;
    this.#head += data.toString("latin1", 0, Math.min(data.length, MAX_HEAD));
    const at = this.#head.indexOf("\r\n\r\n");
    if (at === -1) return false;
    const length = /\r\ncontent-length: (\d+)/i.exec(this.#head)?.[1];
    if (!this.#head.startsWith("HTTP/1.1 200") || length === undefined) {
      this.#failed(new Error(this.#head));
      return false;
    }
    this.#missing = Number(length) - (known + data.length - at - 4);
    this.#head = "";
    return true;
  }
}

/** The value below which `share` per cent of the values lie. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * share) / 100))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => percentile(values, 50);
