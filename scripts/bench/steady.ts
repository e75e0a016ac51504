/**
 * Load at a fixed rate, for benches of latency: a request is due every so many ms whether or not the ones before it are
 * answered, and its time counts from when it was due. Kept-alive connections, each with one GET under way.
 */
import type { Socket } from "bun";
import { AnswerReader } from "./load.ts";

export interface SteadyOptions {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly perSecond: number;
  readonly ms: number;
}

/** Enough for answers that take a second. */
const CONNECTIONS = 64;

/** The latencies of all requests that were due, in ms. @throws Error on any answer that is not 200 */
export async function steadyLoad({ port, path, headers, perSecond, ms }: SteadyOptions): Promise<number[]> {
  const lines = Object.entries({ host: "127.0.0.1", ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  const latencies: number[] = [];
  const idle: Connection[] = [];
  const overdue: number[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const total = Math.floor((ms * perSecond) / 1_000);
  const answered = (connection: Connection) => {
    latencies.push(performance.now() - connection.due);
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
      const at = started + (sent * 1_000) / perSecond;
      const free = idle.pop();
      if (free === undefined) overdue.push(at);
      else free.ask(at);
    }
    if (sent < total) setTimeout(send, 1);
  };
  send();
  await promise;
  for (const connection of all) connection.close();
  return latencies;
}

class Connection {
  due = 0;
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
    const connection = new Connection(socket, request);
    return connection;
  }

  ask(due: number): void {
    this.due = due;
    this.#socket.write(this.#request);
  }

  close(): void {
    this.#socket.end();
  }
}
