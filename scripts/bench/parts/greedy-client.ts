/**
 * A client that asks as much as it can, in a process of its own: asks the questions in turns over many connections, and goes
 * on whatever the answers are, until it is killed. In: the path of a file with
 * `GreedyOptions` as JSON. Out: a line when it has begun.
 */
import type { Asked } from "../costs/questions.ts";

export interface GreedyOptions {
  readonly base: string;
  readonly key: string;
  readonly questions: readonly Asked[];
  readonly connections: number;
}

const { base, key, questions, connections } = (await Bun.file(process.argv[2] ?? "").json()) as GreedyOptions;
const headers = { "x-api-key": key };
/** A refused client comes back at once, but lets this process breathe. */
const REFUSED_MS = 20;
let next = 0;

async function ask({ path, body }: Asked): Promise<void> {
  const post = { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${base}${path}`, { headers, ...(body === undefined ? {} : post) });
  await response.arrayBuffer();
  if (!response.ok) await Bun.sleep(REFUSED_MS);
}

/** Resolves when the service closes the socket. */
function holdSocket({ path, message }: Asked): Promise<void> {
  const socket = new WebSocket(`${base.replace("http", "ws")}${path}`, { headers } as unknown as string[]);
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.onopen = () => socket.send(JSON.stringify(message));
  socket.onclose = () => resolve();
  return promise.then(() => Bun.sleep(REFUSED_MS));
}

async function askOn(): Promise<never> {
  for (;;) {
    const asked = questions[next++ % questions.length] as Asked;
    await (asked.message === undefined ? ask(asked) : holdSocket(asked)).catch(() => Bun.sleep(REFUSED_MS));
  }
}

const asking = Array.from({ length: connections }, askOn);
process.stdout.write("begun\n");
await Promise.all(asking);
