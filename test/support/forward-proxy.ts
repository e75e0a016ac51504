/**
 * A forward proxy in a process of its own, as networks run them: CONNECT, and http requests with a whole URL. Its names and
 * addresses lead to local ports that the test gives. It tells each request on its standard output.
 * Run: bun test/support/forward-proxy.ts '{"host:port": 1234}'
 */
import net from "node:net";
import { join } from "node:path";

interface ForwardProxy {
  readonly url: string;
  /** `METHOD host:port` of each request. */
  readonly requests: readonly string[];
  stop(): Promise<void>;
}

/** Starts the process. @param ports local ports by `host:port`; other requests are refused with 502 */
export async function startForwardProxy(ports: Readonly<Record<string, number>>): Promise<ForwardProxy> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "forward-proxy.ts"), JSON.stringify(ports)], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const requests: string[] = [];
  const { promise: listening, resolve } = Promise.withResolvers<number>();
  void (async () => {
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of child.stdout) {
      text += decoder.decode(bytes, { stream: true });
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith("listening ")) resolve(Number(line.split(" ")[1]));
        else requests.push(line);
      }
    }
  })();
  const port = await listening;
  return {
    url: `http://user:s%40cret@127.0.0.1:${port}`,
    requests,
    stop: async () => {
      child.kill();
      await child.exited;
    },
  };
}

const LOGIN = `Basic ${Buffer.from("user:s@cret").toString("base64")}`;

/** Serves one connection: the first request decides where it goes. */
function serve(client: net.Socket, ports: Readonly<Record<string, number>>): void {
  client.on("error", () => client.destroy());
  let head = Buffer.alloc(0);
  const onData = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return;
    client.removeListener("data", onData);
    client.pause();
    const [line = "", ...fields] = head.subarray(0, end).toString("latin1").split("\r\n");
    const [method = "", target = ""] = line.split(" ");
    const isLoggedIn = fields.some((field) => field.toLowerCase() === `proxy-authorization: ${LOGIN}`.toLowerCase());
    const url = method === "CONNECT" ? undefined : new URL(target);
    const authority = url === undefined ? target : `${url.hostname}:${url.port === "" ? 80 : url.port}`;
    process.stdout.write(`${method} ${authority}${isLoggedIn ? "" : " without login"}\n`);
    const port = ports[authority];
    if (port === undefined || !isLoggedIn) {
      client.end(`HTTP/1.1 ${isLoggedIn ? 502 : 407} refused\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
      return;
    }
    const upstream = net.connect(port, "127.0.0.1", () => {
      if (url === undefined) client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      else {
        const kept = fields.filter((field) => !/^(?:proxy-|connection:)/i.test(field));
        upstream.write(
          `${method} ${url.pathname}${url.search} HTTP/1.1\r\n${[...kept, "connection: close"].join("\r\n")}\r\n\r\n`,
        );
      }
      upstream.write(head.subarray(end + 4));
      client.pipe(upstream);
      // The client must not keep a connection that carries one request.
      if (url !== undefined) {
        upstream.once("data", (first: Buffer) => {
          client.write(first.toString("latin1").replace("\r\n", "\r\nConnection: close\r\n"), "latin1");
          upstream.pipe(client);
        });
      } else upstream.pipe(client);
      client.resume();
    });
    upstream.on("error", () => client.destroy());
    client.on("close", () => upstream.destroy());
  };
  client.on("data", onData);
}

if (import.meta.main) {
  const ports = JSON.parse(process.argv[2] ?? "{}") as Record<string, number>;
  const server = net.createServer((client) => serve(client, ports));
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`listening ${(server.address() as net.AddressInfo).port}\n`);
  });
}
