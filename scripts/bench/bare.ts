/**
 * The least that could answer in the service's place: a bare `Bun.serve` that checks the key as the service does (its
 * SHA-256 in constant time) and sends ready bytes. In: the path of a file with `BareAnswer` as JSON, and the
 * environment's KEY. Out: its port on standard output.
 */
import { timingSafeEqual } from "node:crypto";

export interface BareAnswer {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

const digest = (text: string): Buffer => new Bun.CryptoHasher("sha256").update(text).digest();
const known = digest(process.env["KEY"] ?? "");
const { body, headers } = (await Bun.file(process.argv[2] ?? "").json()) as BareAnswer;
// Bytes and one object of headers: of the ways to answer, the quickest.
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
