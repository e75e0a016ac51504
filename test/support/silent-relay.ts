/**
 * A TCP relay with connections that can die silently, as behind a NAT that dropped the flow or with a primary that lost
 * its power: no data passes and neither side gets an error. Later connections work or, if the whole path is gone, are
 * accepted and never answered.
 */
import net from "node:net";

export interface SilentRelay {
  readonly port: number;
  /** Connections accepted so far. */
  readonly accepted: number;
  /** Bytes that clients sent after the path was silenced. They were discarded. */
  readonly swallowed: number;
  /** Silences the current connections. With `path`, silences all later ones as well. */
  silence(options?: { path?: boolean }): void;
  /** Makes later connections work again. */
  restore(): void;
  stop(): Promise<void>;
}

/** @param upstream its port on this machine. Undefined: no connection is ever answered. */
export async function startSilentRelay(upstream?: number): Promise<SilentRelay> {
  const sockets = new Set<net.Socket>();
  const silenced = new Set<net.Socket>();
  let isPathGone = upstream === undefined;
  let accepted = 0;
  let swallowed = 0;
  const tie = (from: net.Socket, to: net.Socket | undefined, isClient: boolean) => {
    sockets.add(from);
    if (to === undefined) silenced.add(from);
    from.on("data", (data) => {
      if (!silenced.has(from)) to?.write(data);
      else if (isClient) swallowed += data.length;
    });
    from.on("close", () => {
      sockets.delete(from);
      if (!silenced.has(from)) to?.destroy();
    });
    from.on("error", () => undefined);
  };
  const server = net.createServer((client) => {
    accepted++;
    const up = isPathGone || upstream === undefined ? undefined : net.connect(upstream, "127.0.0.1");
    tie(client, up, true);
    if (up !== undefined) tie(up, client, false);
  });
  const { promise: listening, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await listening;
  return {
    port: (server.address() as net.AddressInfo).port,
    get accepted() {
      return accepted;
    },
    get swallowed() {
      return swallowed;
    },
    silence: ({ path = false } = {}) => {
      for (const socket of sockets) silenced.add(socket);
      isPathGone ||= path;
    },
    restore: () => {
      isPathGone = false;
    },
    stop: async () => {
      const { promise: closed, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** A port on which nothing listens. */
export async function unusedPort(): Promise<number> {
  const relay = await startSilentRelay();
  await relay.stop();
  return relay.port;
}
