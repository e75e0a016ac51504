/**
 * The floor of the service's answers: a bare `Bun.serve` that checks the key like the service (its SHA-256 in constant
 * time) and sends prepared bytes. In: the path of a file with `BareAnswer` as JSON, and KEY in the environment. Out:
 * its port on standard output.
 */
import { timingSafeEqual } from "node:crypto";

export interface BareAnswer {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

const digest = (text: string): Buffer => new Bun.CryptoHasher("sha256").update(text).digest();
const known = digest(process.env["KEY"] ?? "");
const { body, headers } = (await Bun.file(process.argv[2] ?? "").json()) as BareAnswer;
// Bytes and one object of headers are the fastest way to answer.
const bytes = Buffer.from(body);
const init = { headers: new Headers(headers) };

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    const key = request.headers.get("x-api-key");
    if (key === null || !timingSafeEqual(digest(key), known)) return new Response(null, { status: 401 });
    return new Response(bytes, init);
  },
});
process.stdout.write(`${server.port}\n`);
