/**
 * Measures the time from a node's announcement of a block to a subscriber's message. A client of both sockets, in a
 * process of its own. In: the node's WebSocket URL, the service's port, the key, the collection, the number of blocks.
 * Out: the ms of each block as JSON. Waits for the message between two blocks.
 */
import { setTimeout as sleep } from "node:timers/promises";

const [nodeUrl, port, key, address, blocks, sender, pauseMs] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
  string,
  string,
];

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
const subscribed = Promise.withResolvers<void>();
const node = await open(nodeUrl);
node.onmessage = ({ data }) => {
  if (String(data).includes("eth_subscription")) announced.resolve(performance.now());
  else if (String(data).includes("error")) throw new Error(String(data));
};
const ours = await open(`ws://127.0.0.1:${port}/api/v2/ws`, { headers: { "x-api-key": key } });
ours.onmessage = ({ data }) => {
  const text = String(data);
  if (text.includes('"type":"indexed"')) subscribed.resolve();
  if (text.includes('"type":"transfers"')) told.resolve(performance.now());
};
const send = (method: string, params: unknown[]) =>
  node.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
send("eth_subscribe", ["newHeads"]);
ours.send(JSON.stringify({ action: "subscribe", address }));
await subscribed.promise;
await sleep(1_000);

/** Blocks before the measured ones, so that the code is compiled. */
const WARM_UP = 5;
const ms: number[] = [];
for (let i = 0; i < Number(blocks) + WARM_UP; i++) {
  [announced, told] = [Promise.withResolvers(), Promise.withResolvers()];
  // mint(address,uint256): the node mines it at once.
  const id = (1_000_000 + i).toString(16).padStart(64, "0");
  send("eth_sendTransaction", [
    {
      from: sender,
      to: address,
      data: `0x40c10f19${sender.slice(2).padStart(64, "0")}${id}`,
      gas: "0x7a120",
      gasPrice: "0x0",
    },
  ]);
  const [at, heard] = await Promise.all([announced.promise, told.promise]);
  if (i >= WARM_UP) ms.push(heard - at);
  await sleep(Number(pauseMs));
}
process.stdout.write(`${JSON.stringify(ms)}\n`);
process.exit(0);
