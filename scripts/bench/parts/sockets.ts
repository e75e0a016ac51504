/**
 * Subscribes many sockets to one collection, in a process of its own. In: the service's port, the key, the address,
 * their number. Out: a line once all are subscribed, and `SocketsResult` as JSON once all got `indexed`.
 */

export interface SocketsResult {
  /** Times of the first and of the last message, in ms since the epoch. */
  readonly first: number;
  readonly last: number;
  readonly told: number;
}

/** Handshakes in flight. */
const AT_ONCE = 200;

const [port, key, address, count] = process.argv.slice(2) as [string, string, string, string];
const total = Number(count);
const all = Promise.withResolvers<void>();
let [told, first, last] = [0, 0, 0];

function subscribe(): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const options = { headers: { "x-api-key": key } } as unknown as string[];
  const socket = new WebSocket(`ws://127.0.0.1:${port}/api/v2/ws`, options);
  socket.onopen = () => socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address }));
  socket.onmessage = ({ data }) => {
    const text = String(data);
    if (text.includes('"type":"status"')) resolve();
    if (!text.includes('"type":"indexed"')) return;
    last = Date.now();
    if (told++ === 0) first = last;
    if (told === total) all.resolve();
  };
  socket.onclose = ({ code, reason }) => {
    reject(new Error(`closed with ${code} ${reason}`));
    all.reject(new Error(`closed with ${code} ${reason}`));
  };
  return promise;
}

for (let done = 0; done < total; done += AT_ONCE) {
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, total - done) }, subscribe));
}
process.stdout.write("subscribed\n");
await all.promise;
process.stdout.write(`${JSON.stringify({ first, last, told } satisfies SocketsResult)}\n`);
