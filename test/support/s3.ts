/**
 * A real S3 server for tests, behind a front that checks each presigned request on its own, as the server does not. A test can
 * take it away, make it hang, or have it answer something else.
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { guardChild } from "../../scripts/local-chain/guard.ts";
import type { S3Place } from "../../src/core/s3-place.ts";

export const S3_KEY = "AKIATESTKEY0123456789";
export const S3_SECRET = "s3cr3t/Key+With/Signs0123456789abcdefgh";
export const S3_BUCKET = "blobs";

export interface S3Server {
  readonly endpoint: string;
  /** The variables of a service that keeps its blobs here, below a prefix. */
  env(prefix: string): Record<string, string>;
  place(prefix: string): S3Place;
  /** Names of the stored objects below a prefix. */
  objects(prefix: string): string[];
  /** Path of an object's file in the server's folder. */
  fileOf(name: string): string;
  /** Requests so far, as `<method> <path>`. */
  readonly requests: string[];
  /** Answers requests in place of the server, until it is called with undefined. */
  answer(with_: ((request: Request) => Response | Promise<Response> | undefined) | undefined): void;
  /** Refuses connections until `up`. */
  down(): Promise<void>;
  up(): void;
  stop(): Promise<void>;
}

export async function startS3(): Promise<S3Server> {
  const folder = mkdtempSync(join(tmpdir(), "s3-"));
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "s3-server.ts"), folder, S3_BUCKET], {
    ...{ stdout: "pipe", stderr: "inherit", env: { PATH: process.env["PATH"] ?? "" } },
  });
  child.unref();
  const guard = guardChild({ pid: child.pid, signal: "KILL", removeAfterwards: folder });
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  const backend = `http://127.0.0.1:${Number(new TextDecoder().decode(value))}`;
  const requests: string[] = [];
  let answer: ((request: Request) => Response | Promise<Response> | undefined) | undefined;
  const listen = (port: number) =>
    Bun.serve({
      ...{ hostname: "127.0.0.1", port, idleTimeout: 60, maxRequestBodySize: 256 * 1024 * 1024 },
      fetch: async (request) => {
        const { pathname, search } = new URL(request.url);
        requests.push(`${request.method} ${pathname}`);
        const other = await answer?.(request);
        if (other !== undefined) return other;
        const refusal = refusalOf(request);
        if (refusal !== undefined) return refusal;
        const headers = new Headers(request.headers);
        // Its keys are its own; the front has checked ours.
        const body = request.method === "PUT" ? await request.arrayBuffer() : null;
        headers.delete("authorization");
        // It would take the name of a host for that of a bucket.
        headers.delete("host");
        const query = new URLSearchParams(search);
        for (const name of [...query.keys()]) if (/^x-amz-/i.test(name)) query.delete(name);
        return fetch(`${backend}${pathname}${query.size === 0 ? "" : `?${query}`}`, {
          ...{ method: request.method, headers, body, decompress: false },
        });
      },
    });
  let server: ReturnType<typeof listen> | undefined = listen(0);
  const port = server.port as number;
  const endpoint = `http://127.0.0.1:${port}`;
  const keys = { accessKeyId: S3_KEY, secretAccessKey: S3_SECRET };
  return {
    endpoint,
    requests,
    env: (prefix) => ({
      ...{ BLOB_URL: `s3://${S3_BUCKET}/${prefix}`, S3_ENDPOINT: endpoint },
      ...{ AWS_ACCESS_KEY_ID: S3_KEY, AWS_SECRET_ACCESS_KEY: S3_SECRET },
    }),
    place: (prefix) => ({
      ...{ bucket: S3_BUCKET, prefix: `${prefix}/`, endpoint, region: "us-east-1", ...keys },
      ...{ sessionToken: undefined, proxy: undefined },
    }),
    objects: (prefix) =>
      readdirSync(join(folder, S3_BUCKET), { recursive: true, encoding: "utf8" })
        .filter((name) => name.startsWith(`${prefix}/`) && name.endsWith("._S3rver_object"))
        .map((name) => name.slice(prefix.length + 1, -"._S3rver_object".length))
        .sort(),
    fileOf: (name) => join(folder, S3_BUCKET, `${name}._S3rver_object`),
    answer: (with_) => {
      answer = with_;
    },
    down: async () => {
      await server?.stop(true);
      server = undefined;
    },
    up: () => {
      server ??= listen(port);
    },
    stop: async () => {
      await server?.stop(true);
      child.kill("SIGKILL");
      await child.exited;
      guard.dismiss();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

let shared: Promise<S3Server> | undefined;

/** The one server for all tests of this process that leave it as it is. It ends with the process. */
export function sharedS3(): Promise<S3Server> {
  shared ??= startS3();
  return shared;
}

const hmac = (key: string | Buffer, text: string): Buffer =>
  new Bun.CryptoHasher("sha256", key).update(text).digest() as Buffer;
const encoded = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);

/** The answer to a request whose signature is wrong, as Amazon's store gives it: it repeats the key and the signed text. */
function refusalOf(request: Request): Response | undefined {
  const url = new URL(request.url);
  const query = url.searchParams;
  const credential = query.get("X-Amz-Credential");
  // A list is signed in a header. Its key is checked, its signature is not.
  const [key = "", ...scope] = (
    credential ??
    /Credential=([^,]+)/.exec(request.headers.get("authorization") ?? "")?.[1] ??
    ""
  ).split("/");
  const refuse = (code: string, text: string) =>
    new Response(
      `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${text}</Message><AWSAccessKeyId>${key}</AWSAccessKeyId></Error>`,
      {
        ...{ status: 403, headers: { "content-type": "application/xml" } },
      },
    );
  if (key !== S3_KEY) return refuse("InvalidAccessKeyId", `no key ${key} with ${S3_SECRET} at ${url.href}`);
  if (credential === null) return undefined;
  const [day = "", region = "", service = ""] = scope;
  const signed = [...query]
    .filter(([name]) => name !== "X-Amz-Signature")
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`);
  const path = url.pathname
    .split("/")
    .map((part) => encoded(decodeURIComponent(part)))
    .join("/");
  const lines = [request.method, path, signed.sort().join("&"), `host:${url.host}`, "", "host", "UNSIGNED-PAYLOAD"];
  const hash = new Bun.CryptoHasher("sha256").update(lines.join("\n")).digest("hex");
  const text = ["AWS4-HMAC-SHA256", query.get("X-Amz-Date"), scope.join("/"), hash].join("\n");
  const signer = [region, service, "aws4_request"].reduce<Buffer>(hmac, hmac(`AWS4${S3_SECRET}`, day));
  if (hmac(signer, text).toString("hex") === query.get("X-Amz-Signature")) return undefined;
  return refuse("SignatureDoesNotMatch", `${text} ${S3_KEY} ${url.href}`);
}
