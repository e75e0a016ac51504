/**
 * A way through the operator's proxy to one address (CONNECT, RFC 9110 section 9.3.6). The proxy is told the address that was
 * checked, not the name, so it resolves nothing, and the guard of `fetcher.ts` holds behind a proxy, too. In: the proxy
 * and the address. Out: the path of a socket for one connection, since the runtime's http client takes no open one.
 */
import { mkdtemp, rm } from "node:fs/promises";
import net, { isIPv6, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import { decodedUrlPart } from "../../../core/secrets.ts";
import { MetadataFailure } from "./failure.ts";

export interface Tunnel {
  /** Path of a Unix socket that only this user may open. It takes one connection. */
  readonly path: string;
  close(): Promise<void>;
}

/** Most bytes of a proxy's answer before the connection is through. */
const MAX_ANSWER = 16 * 1024;

interface TunnelTarget {
  /** An address, or a name if the operator's own configuration has it. */
  readonly host: string;
  readonly port: number;
}

/** @throws MetadataFailure `connection_failed`, and the signal's reason when it is aborted */
export async function openTunnel(proxy: string, target: TunnelTarget, signal: AbortSignal): Promise<Tunnel> {
  const { socket, rest } = await connectThrough(new URL(proxy), target, signal);
  const folder = await mkdtemp(join(tmpdir(), "tunnel-"));
  const path = join(folder, "s");
  const server = net.createServer((client) => {
    server.close();
    client.on("error", () => socket.destroy());
    client.on("close", () => socket.destroy());
    socket.on("close", () => client.end());
    if (rest.length > 0) client.write(rest);
    client.pipe(socket);
    socket.pipe(client);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  return {
    path,
    close: async () => {
      server.close();
      socket.destroy();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface Connected {
  readonly socket: Socket;
  /** What came behind the proxy's answer. */
  readonly rest: Buffer;
}

/** Connects to the proxy, and has it connect to the target. */
function connectThrough(proxy: URL, { host, port }: TunnelTarget, signal: AbortSignal): Promise<Connected> {
  return new Promise((resolve, reject) => {
    const isSecure = proxy.protocol === "https:";
    const at = { host: proxy.hostname.replace(/^\[|\]$/g, ""), port: Number(proxy.port) || (isSecure ? 443 : 80) };
    const socket: Socket = isSecure ? tls.connect({ ...at, servername: at.host }) : net.connect(at);
    let answer = Buffer.alloc(0);
    const settle = () => {
      signal.removeEventListener("abort", onAbort);
      socket.removeListener("data", onData);
    };
    const fail = (error: unknown) => {
      settle();
      socket.destroy();
      reject(error);
    };
    const onAbort = () => fail(signal.reason);
    const onData = (chunk: Buffer) => {
      answer = Buffer.concat([answer, chunk]);
      const end = answer.indexOf("\r\n\r\n");
      if (end < 0 && answer.length <= MAX_ANSWER) return;
      const status = /^HTTP\/1\.[01] (\d{3})/.exec(answer.subarray(0, 16).toString("latin1"))?.[1];
      if (end < 0 || status?.startsWith("2") !== true) {
        fail(new MetadataFailure("connection_failed", `the proxy answers with status ${status ?? "none"}`));
        return;
      }
      settle();
      socket.pause();
      resolve({ socket, rest: answer.subarray(end + 4) });
    };
    // The listener stays: an error event without one would end the process.
    socket.on("error", (error) => fail(new MetadataFailure("connection_failed", `the proxy: ${error.message}`)));
    socket.on("close", () => fail(new MetadataFailure("connection_failed", "the proxy closed the connection")));
    socket.on("data", onData);
    signal.addEventListener("abort", onAbort, { once: true });
    socket.on(isSecure ? "secureConnect" : "connect", () => socket.write(requestOf(proxy, { host, port })));
    if (signal.aborted) onAbort();
  });
}

function requestOf({ username, password }: URL, { host, port }: TunnelTarget): string {
  const authority = `${isIPv6(host) ? `[${host}]` : host}:${port}`;
  const login = Buffer.from(`${decodedUrlPart(username)}:${decodedUrlPart(password)}`).toString("base64");
  const lines = [`CONNECT ${authority} HTTP/1.1`, `Host: ${authority}`];
  if (username !== "" || password !== "") lines.push(`Proxy-Authorization: Basic ${login}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}
