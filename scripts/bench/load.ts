/**
 * Load on an HTTP server, for benches: a fixed number of kept-alive connections, each with one GET under way, over bare
 * sockets so that the client costs little beside the server. Out: requests per second and the latencies' percentiles.
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

/** Loads the server for a while. @throws Error on any answer that is not 200 */
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

/** One connection: asks, awaits the whole answer, asks again until `end`. */
async function converse(port: number, request: Buffer, end: number, latencies: number[]): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let head = "";
  let missing = 0;
  let sent = performance.now();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data(_socket, data) {
        if (missing === 0) {
          head += data.toString("latin1");
          const at = head.indexOf("\r\n\r\n");
          if (at === -1) return;
          const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
          if (!head.startsWith("HTTP/1.1 200") || length === undefined) return reject(new Error(head));
          missing = Number(length) - (head.length - at - 4);
          head = "";
        } else missing -= data.length;
        if (missing > 0) return;
        const now = performance.now();
        latencies.push(now - sent);
        if (now >= end) return resolve();
        sent = now;
        _socket.write(request);
      },
      close: () => reject(new Error("the server closed the connection")),
      error: (_socket, error) => reject(error),
    },
  });
  socket.write(request);
  await promise;
  socket.end();
}

/** The value below which `share` per cent of the values lie. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * share) / 100))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => percentile(values, 50);
