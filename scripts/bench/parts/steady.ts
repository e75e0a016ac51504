/**
 * Loads a server at a fixed rate, in a process of its own: sends a request every so many ms, whether or not earlier
 * ones were answered. Keep-alive connections have one GET in flight each; without a free one, the latency counts from
 * when the request was due. Runs with higher priority if it may, so that it measures the server's waits and not its own
 * for a core. In: `SteadyOptions` as JSON. Out: the percentiles as JSON.
 */
import { setPriority } from "node:os";
import type { Socket } from "bun";
import { AnswerReader, percentile } from "../load.ts";

export interface SteadyResult {
  readonly p50: number;
  readonly p99: number;
}

export interface SteadyOptions {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly perSecond: number;
  readonly ms: number;
}

/** Enough connections for answers that take a second. */
const CONNECTIONS = 64;

/** The latencies of all requests, in ms. @throws Error for any answer that is not 200 */
async function steadyLoad({ port, path, headers, perSecond, ms }: SteadyOptions): Promise<number[]> {
  const lines = Object.entries({ host: "127.0.0.1", ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  const latencies: number[] = [];
  const idle: Connection[] = [];
  const overdue: number[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const total = Math.floor((ms * perSecond) / 1_000);
  const answered = (connection: Connection) => {
    latencies.push(performance.now() - connection.askedAt);
    const next = overdue.shift();
    if (next === undefined) idle.push(connection);
    else connection.ask(next);
    if (latencies.length === total) resolve();
  };
  const all = await Promise.all(
    Array.from({ length: CONNECTIONS }, () => Connection.open(port, request, answered, reject)),
  );
  idle.push(...all);
  const started = performance.now();
  let sent = 0;
  const send = () => {
    const due = Math.min(total, Math.floor(((performance.now() - started) * perSecond) / 1_000) + 1);
    for (; sent < due; sent++) {
      const free = idle.pop();
      if (free === undefined) overdue.push(performance.now());
      else free.ask(performance.now());
    }
    if (sent < total) setTimeout(send, 1);
  };
  send();
  await promise;
  for (const connection of all) connection.close();
  return latencies;
}

class Connection {
  /** When its request was sent or due. */
  askedAt = 0;
  readonly #socket: Socket;
  readonly #request: Buffer;

  private constructor(socket: Socket, request: Buffer) {
    this.#socket = socket;
    this.#request = request;
  }

  static async open(
    port: number,
    request: Buffer,
    answered: (connection: Connection) => void,
    failed: (error: Error) => void,
  ): Promise<Connection> {
    const reader = new AnswerReader(() => answered(connection), failed);
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        data: (_socket, data) => reader.read(data),
        error: (_socket, error) => failed(error),
      },
    });
    const connection: Connection = new Connection(socket, request);
    return connection;
  }

  ask(at: number): void {
    this.askedAt = at;
    this.#socket.write(this.#request);
  }

  close(): void {
    this.#socket.end();
  }
}

/** Raises this process above bulk work, if the user may. */
const PRIORITY = -10;
try {
  setPriority(PRIORITY);
} catch {
  // Without the permission it competes like any other process.
}
const latencies = await steadyLoad(JSON.parse(process.argv[2] ?? "") as SteadyOptions);
const result: SteadyResult = { p50: percentile(latencies, 50), p99: percentile(latencies, 99) };
process.stdout.write(JSON.stringify(result));
process.exit(0);
