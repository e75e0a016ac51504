/**
 * Web content for the metadata bench: one port answers every path with a token's JSON, another one accepts and stays
 * silent. Listens on all loopback addresses, so that each address is a host of its own. Out: both ports on standard
 * output.
 */
import net from "node:net";

const attributes = Array.from({ length: 8 }, (_, i) => ({ trait_type: `Trait ${i}`, value: `Value ${i * 7}` }));
const server = Bun.serve({
  hostname: "0.0.0.0",
  port: 0,
  fetch: (request) =>
    Response.json({ name: new URL(request.url).pathname, description: "One of many. ".repeat(20), attributes }),
});
const silent = net.createServer((socket) => socket.on("error", () => undefined));
silent.listen(0, "0.0.0.0", () => {
  process.stdout.write(`${server.port} ${(silent.address() as net.AddressInfo).port}\n`);
});
