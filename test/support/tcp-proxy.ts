/**
 * The network path between a client and a TCP server, which a test can disturb and route to another server. In: the
 * server's port. Out: a port of its own. `silent-relay.ts` is the smaller tool for a path that only goes silent.
 */
import net from "node:net";

/**
 * - `cut`: connections break, and new ones are refused.
 * - `silent`: no data passes in either direction, and neither side gets an error. New connections are never answered.
 * - `deaf`: requests reach the server, answers don't reach the client.
 * - `half-closed`: the client's connections end for reading. What the client still sends reaches the server.
 * - `delayed`: data arrives late in both directions.
 */
export const DISTURBANCES = ["cut", "silent", "deaf", "half-closed", "delayed"] as const;
export type Disturbance = (typeof DISTURBANCES)[number];

export interface TcpProxy {
  readonly port: number;
  /** Disturbs present and later connections, until `heal`. `delayMs` is the delay of `delayed`, in each direction. */
  disturb(kind: Disturbance, delayMs?: number): void;
  /** Makes later connections work. Connections that lost data or an end stay broken. */
  heal(): void;
  /** Breaks the present connections, and sends later ones to this port. Undefined refuses them. */
  route(upstream: number | undefined): void;
  stop(): Promise<void>;
}

/** A client's connection and the connection to the server. */
interface Pair {
  readonly client: net.Socket;
  readonly server: net.Socket | undefined;
  /** Data in this direction is discarded for good. */
  isClientMuted: boolean;
  isServerMuted: boolean;
}

const DELAY_MS = 300;

export async function startTcpProxy(upstream: number | undefined): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  let target = upstream;
  let disturbance: Disturbance | undefined;
  let delay = 0;

  const apply = (pair: Pair): void => {
    if (disturbance === "cut") destroy(pair);
    if (disturbance === "silent") pair.isClientMuted = true;
    if (disturbance === "silent" || disturbance === "deaf") pair.isServerMuted = true;
    if (disturbance === "half-closed") {
      pair.isServerMuted = true;
      pair.client.end();
    }
  };
  const destroy = (pair: Pair): void => {
    pairs.delete(pair);
    pair.client.destroy();
    pair.server?.destroy();
  };
  /** Passes data and the end on, in order, also when the delay shrinks. */
  const pass = (from: net.Socket, to: net.Socket, isMuted: () => boolean): void => {
    let lastDue = 0;
    const later = (work: () => void): void => {
      const now = performance.now();
      lastDue = Math.max(lastDue, now + delay);
      if (lastDue <= now) work();
      else setTimeout(work, lastDue - now);
    };
    from.on("data", (data) => later(() => !isMuted() && !to.destroyed && to.write(data)));
    from.on("end", () => later(() => !isMuted() && to.end()));
  };
  const accept = (client: net.Socket): void => {
    if (disturbance === "cut" || target === undefined) {
      client.destroy();
      return;
    }
    const isSilent = disturbance === "silent";
    const server = isSilent ? undefined : net.connect({ port: target, host: "127.0.0.1", allowHalfOpen: true });
    const pair: Pair = { client, server, isClientMuted: isSilent, isServerMuted: isSilent };
    pairs.add(pair);
    client.on("error", () => undefined);
    // A client that gives up ends the pair, except for a path on which the server would not hear of it.
    client.on("close", () => (pair.isClientMuted && server !== undefined ? undefined : destroy(pair)));
    if (server === undefined) {
      client.resume();
      return;
    }
    server.on("error", () => undefined);
    server.on("close", () => (pair.isServerMuted ? undefined : destroy(pair)));
    pass(client, server, () => pair.isClientMuted);
    pass(server, client, () => pair.isServerMuted);
    apply(pair);
  };

  const listener = net.createServer({ allowHalfOpen: true }, accept);
  const { promise: listening, resolve, reject } = Promise.withResolvers<void>();
  listener.once("error", reject);
  listener.listen(0, "127.0.0.1", resolve);
  await listening;
  const breakAll = (): void => {
    for (const pair of [...pairs]) destroy(pair);
  };
  return {
    port: (listener.address() as net.AddressInfo).port,
    disturb: (kind, delayMs = DELAY_MS) => {
      disturbance = kind;
      delay = kind === "delayed" ? delayMs : 0;
      for (const pair of [...pairs]) apply(pair);
    },
    heal: () => {
      disturbance = undefined;
      delay = 0;
    },
    route: (port) => {
      target = port;
      breakAll();
    },
    stop: async () => {
      const { promise: closed, resolve: done } = Promise.withResolvers<void>();
      listener.close(() => done());
      breakAll();
      await closed;
    },
  };
}
