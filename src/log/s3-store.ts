/**
 * Objects in an S3-compatible store. The runtime's own client signs each request; the request itself is made here, so that it has
 * a timeout, a size limit, the operator's proxy and no redirect. Errors name the variable and what to do, never a URL or a key.
 */
import type { S3Client } from "bun";
import type { Clock } from "../core/clock.ts";
import { retry, withTimeout } from "../core/clock.ts";
import { readBody } from "../core/decompress.ts";
import { AppError, BlobsUnavailable } from "../core/errors.ts";
import { placeSecrets, type S3Place } from "../core/s3-place.ts";
import type { Secrets } from "../core/secrets.ts";

/** A token's document has a megabyte at most, a preview some kilobytes, a kept proof some megabytes. */
const MAX_OBJECT_BYTES = 32 * 1024 * 1024;
/** Bytes of an error's XML. */
const MAX_ERROR_BYTES = 64 * 1024;
/** A page waits for reads, so two attempts must end before its own limit of 25 s. */
const READ_MS = 5_000;
const WRITE_MS = 15_000;
const LIST_MS = 30_000;
/** The objects are named by their content, so a repeated request changes nothing. */
const ATTEMPTS = 2;
const RETRY_BASE_MS = 100;
const RETRY_MAX_MS = 1_000;
/** Longer than the difference of two clocks that S3 accepts. */
const EXPIRES_SECONDS = 900;

type Method = "GET" | "PUT" | "DELETE";

interface S3Answer {
  readonly status: number;
  readonly bytes: Uint8Array;
}

const WAYS = {
  bucket: "there is no such bucket: create it, or correct the name in BLOB_URL",
  keys: "the store refuses the keys: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, this machine's clock, and that the keys may get, put, delete and list objects",
  elsewhere: "the bucket is elsewhere: check S3_ENDPOINT and AWS_REGION",
  endpoint: "the answer is not that of an S3 store: check S3_ENDPOINT",
} as const;

export class S3Store {
  readonly #place: S3Place;
  readonly #clock: Clock;
  readonly #client: S3Client;
  readonly #secrets: Secrets;

  constructor(place: S3Place, clock: Clock) {
    const { bucket, endpoint, region, accessKeyId, secretAccessKey, sessionToken } = place;
    this.#place = place;
    this.#clock = clock;
    const keys = { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) };
    this.#client = new Bun.S3Client({ bucket, endpoint, region, ...keys });
    this.#secrets = placeSecrets(place);
  }

  /** The bytes of an object; undefined if the store says that there is none. @throws BlobsUnavailable */
  async get(name: string): Promise<Uint8Array | undefined> {
    const { status, bytes } = await this.#ask("GET", name);
    return status === 404 ? undefined : bytes;
  }

  /** True if there is such an object. @throws BlobsUnavailable */
  async has(name: string): Promise<boolean> {
    return (await this.get(name)) !== undefined;
  }

  /** Stores an object, in place of one of the same name. @throws BlobsUnavailable */
  async put(name: string, bytes: Uint8Array): Promise<void> {
    if (bytes.length > MAX_OBJECT_BYTES) {
      throw new AppError(`a blob has more than ${MAX_OBJECT_BYTES} bytes`, { code: "too_large" });
    }
    await this.#ask("PUT", name, bytes);
  }

  /** Deletes an object, if there is one. @throws BlobsUnavailable */
  async delete(name: string): Promise<void> {
    await this.#ask("DELETE", name);
  }

  /** Names of objects below `folder`, in their order, after `after`. @throws BlobsUnavailable */
  async list(folder: string, { after, limit }: { after: string; limit: number }): Promise<string[]> {
    const { prefix } = this.#place;
    const startAfter = after === "" ? {} : { startAfter: `${prefix}${after}` };
    const listing = this.#client.list({ prefix: `${prefix}${folder}`, maxKeys: limit, ...startAfter });
    try {
      const listed = await withTimeout(this.#clock, LIST_MS, listing);
      if (listed === undefined) throw this.#fault(`no list within ${LIST_MS} ms`);
      return (listed.value.contents ?? []).map(({ key }) => key.slice(prefix.length));
    } catch (error) {
      if (error instanceof BlobsUnavailable) throw error;
      throw this.#refusal(0, codeOf(error));
    }
  }

  #ask(method: Method, name: string, body?: Uint8Array): Promise<S3Answer> {
    const bounds = { attempts: ATTEMPTS, baseMs: RETRY_BASE_MS, maxMs: RETRY_MAX_MS };
    return retry(() => this.#askOnce(method, name, body), { clock: this.#clock, ...bounds });
  }

  async #askOnce(method: Method, name: string, body: Uint8Array | undefined): Promise<S3Answer> {
    const ms = method === "PUT" ? WRITE_MS : READ_MS;
    const late = new AbortController();
    const cancel = this.#clock.after(ms, () => late.abort());
    try {
      const { status, bytes } = await this.#send(method, name, { body, signal: late.signal });
      if (status >= 200 && status < 300) return { status, bytes };
      const [, code = ""] = /<Code>([A-Za-z]{1,60})<\/Code>/.exec(new TextDecoder().decode(bytes)) ?? [];
      // Any web server answers 404. Only this code says that the object is not there.
      if (status === 404 && (code === "NoSuchKey" || method === "DELETE")) return { status, bytes };
      throw this.#refusal(status, code);
    } catch (error) {
      if (error instanceof AppError) throw error;
      // The runtime's text may contain the URL, so only its code is used.
      throw this.#fault(late.signal.aborted ? `no answer within ${ms} ms` : codeOf(error) || "the connection failed");
    } finally {
      cancel();
    }
  }

  async #send(
    method: Method,
    name: string,
    { body, signal }: { readonly body: Uint8Array | undefined; readonly signal: AbortSignal },
  ): Promise<S3Answer> {
    const { prefix, proxy } = this.#place;
    const url = this.#client.presign(`${prefix}${name}`, { method, expiresIn: EXPIRES_SECONDS });
    const response = await fetch(url, {
      method,
      ...(body === undefined ? {} : { body: body as Uint8Array<ArrayBuffer> }),
      ...(proxy === undefined ? {} : { proxy }),
      // The runtime would decompress without a limit, and carry the signature to another host.
      headers: { "accept-encoding": "identity" },
      decompress: false,
      redirect: "manual",
      signal,
    });
    const maxBytes = response.ok ? MAX_OBJECT_BYTES : MAX_ERROR_BYTES;
    const announced = Number(response.headers.get("content-length") ?? 0);
    const { body: stream, status } = response;
    try {
      if (announced > maxBytes) throw this.#tooLarge();
      const { bytes, isTooLarge, error } = await readBody(stream, {
        encoding: response.headers.get("content-encoding"),
        maxBytes,
      });
      if (isTooLarge) throw this.#tooLarge();
      if (error !== undefined) throw error;
      return { status, bytes };
    } finally {
      // Not awaited: a store that keeps sending may never confirm the cancel.
      stream?.cancel().catch(() => undefined);
    }
  }

  #tooLarge = (): BlobsUnavailable =>
    new BlobsUnavailable("BLOB_URL: the store sent an object that is too large to be a blob", false);

  #fault(reason: string): BlobsUnavailable {
    const text = `BLOB_URL: the store can't be reached: ${reason}; check S3_ENDPOINT, and that the store runs`;
    return new BlobsUnavailable(this.#secrets.redact(text));
  }

  /** The store's refusal in words. @param code the code of its XML, or of the runtime; empty if there is none */
  #refusal(status: number, code: string): BlobsUnavailable {
    const of = (way: string, retryable = false) =>
      new BlobsUnavailable(this.#secrets.redact(`BLOB_URL: ${way}${code === "" ? "" : ` (${code})`}`), retryable);
    if (code === "NoSuchBucket") return of(WAYS.bucket);
    if (status === 401 || status === 403 || KEY_CODES.test(code)) return of(WAYS.keys);
    if (status >= 300 && status < 400) return of(WAYS.elsewhere);
    if (status === 429 || status >= 500) return of(`the store answered ${status}: it is busy or at fault`, true);
    if (status === 0) return this.#fault(code || "the connection failed");
    return code === "" ? of(`${WAYS.endpoint}; its status is ${status}`) : of(`the store answered ${status}`);
  }
}

const KEY_CODES = /^(?:AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|RequestTimeTooSkewed|ExpiredToken)$/;

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^\w{1,60}$/.test(code) ? code : "";
}
