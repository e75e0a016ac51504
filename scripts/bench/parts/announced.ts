/**
 * Measures the time from a node's announcement of a block to the message of the last of some subscribers. A client of
 * both sockets, in a process of its own. In: `AnnouncedInput` as JSON. Out: the ms of each block as JSON. Waits for the
 * messages between two blocks.
 */
import { setTimeout as sleep } from "node:timers/promises";

export interface AnnouncedInput {
  /** The node's WebSocket URL. */
  readonly nodeUrl: string;
  /** The service's port, and a key. */
  readonly port: number;
  readonly key: string;
  /** Sockets that subscribe, and what each sends. */
  readonly sockets: number;
  readonly subscribe: Readonly<Record<string, string>>;
  /** The message that tells a socket that it is subscribed, and the one that tells of a block. */
  readonly ready: string;
  readonly told: string;
  /** Calls of the node that make a block. `{id}` is replaced by a number of 32 bytes, `{short}` by one of four. */
  readonly calls: readonly (readonly [method: string, params: unknown[]])[];
  readonly blocks: number;
  readonly pauseMs: number;
}

const input = JSON.parse(process.argv[2] as string) as AnnouncedInput;

async function open(url: string, options?: object): Promise<WebSocket> {
  const socket = new WebSocket(url, options as unknown as string[]);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  return socket;
}

let announced = Promise.withResolvers<number>();
let told = Promise.withResolvers<number>();
let missing = 0;
const node = await open(input.nodeUrl);
node.onmessage = ({ data }) => {
  if (String(data).includes("eth_subscription")) announced.resolve(performance.now());
  else if (String(data).includes("error")) throw new Error(String(data));
};

async function subscriber(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const ours = await open(`ws://127.0.0.1:${input.port}/api/v2/ws`, { headers: { "x-api-key": input.key } });
  ours.onmessage = ({ data }) => {
    const text = String(data);
    if (text.includes(`"type":"${input.ready}"`)) resolve();
    if (text.includes(`"type":"${input.told}"`) && --missing === 0) told.resolve(performance.now());
  };
  ours.send(JSON.stringify(input.subscribe));
  await promise;
}

const send = (method: string, params: unknown[]) =>
  node.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
send("eth_subscribe", ["newHeads"]);
await Promise.all(Array.from({ length: input.sockets }, subscriber));
await sleep(1_000);

/** Blocks before the measured ones, so that the code is compiled. */
const WARM_UP = 5;
const ms: number[] = [];
for (let i = 0; i < input.blocks + WARM_UP; i++) {
  [announced, told, missing] = [Promise.withResolvers(), Promise.withResolvers(), input.sockets];
  const number = (1_000_000 + i).toString(16);
  for (const [method, params] of input.calls) {
    const text = JSON.stringify(params).replaceAll("{id}", number.padStart(64, "0"));
    send(method, JSON.parse(text.replaceAll("{short}", number.padStart(8, "0"))));
  }
  const [at, heard] = await Promise.all([announced.promise, told.promise]);
  if (i >= WARM_UP) ms.push(heard - at);
  await sleep(input.pauseMs);
}
process.stdout.write(`${JSON.stringify(ms)}\n`);
process.exit(0);
