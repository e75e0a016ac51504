/**
 * The bodies of answers that clients have not read yet. A body stays in memory until its client has taken it, and a client may
 * take it slowly or never, so the bytes that wait for the clients of one key are bounded. In: a finished body. Out: the body
 * to send.
 */
import { Refusal } from "../../core/errors.ts";
import type { ApiKey } from "../../operators/keys.ts";

/**
 * Smaller bodies are not counted: the system's own buffers take most of them, and to send a body in parts takes a tenth of a
 * millisecond more, twice as long as to send it at once. A page of 500 records without metadata has 330 KB.
 */
const COUNTED_BYTES = 384 * 1024;
/**
 * Bytes that the clients of one key of scope `read` may leave unread: a hundred pages of 500 tokens with 2.5 KB each. The metadata of
 * a token may have megabytes, so a page may be larger than this. It is sent if it is the only one.
 */
const MAX_BYTES = 128 * 1024 * 1024;
/** Bytes that are read from a body once the client has taken those before. */
const PART_BYTES = 256 * 1024;
const RETRY_SECONDS = 1;

/** The unread bodies of a key. Several clients may read one, which is in memory once. */
interface KeyBodies {
  readonly readers: Map<Blob, number>;
  bytes: number;
}

export class UnreadAnswers {
  readonly #byKey = new Map<string, KeyBodies>();

  /**
   * Returns the body to send, which counts as unread until the client has taken it or is gone.
   * @param key undefined on paths without a key: all clients share their bodies, so they are not counted
   * @throws Refusal `rate_limited` if the key's clients have left too much unread
   */
  send(body: Blob, key: ApiKey | undefined, client: AbortSignal): Blob | ReadableStream<Uint8Array> {
    if (key === undefined || body.size < COUNTED_BYTES || client.aborted) return body;
    this.#assertRoom(key, body);
    this.#add(key.key, body);
    let isOpen = true;
    const end = () => {
      client.removeEventListener("abort", end);
      if (isOpen) this.#remove(key.key, body);
      isOpen = false;
    };
    // The runtime may drop the answer of a client that has left without a word to its stream.
    client.addEventListener("abort", end);
    return partsOf(body, end);
  }

  #assertRoom({ key, isOperator }: ApiKey, body: Blob): void {
    const of = this.#byKey.get(key);
    if (isOperator || of === undefined || of.readers.has(body) || of.bytes + body.size <= MAX_BYTES) return;
    const most = `${MAX_BYTES / 1024 / 1024} MB of answers`;
    const text = `${most} to the key ${key} are unread on this server: read each to its end, or close its connection`;
    throw new Refusal("rate_limited", text, { retryAfter: RETRY_SECONDS });
  }

  #add(key: string, body: Blob): void {
    const of = this.#byKey.getOrInsertComputed(key, () => ({ readers: new Map(), bytes: 0 }));
    const readers = of.readers.get(body) ?? 0;
    if (readers === 0) of.bytes += body.size;
    of.readers.set(body, readers + 1);
  }

  #remove(key: string, body: Blob): void {
    const of = this.#byKey.get(key) as KeyBodies;
    const readers = (of.readers.get(body) as number) - 1;
    if (readers > 0) {
      of.readers.set(body, readers);
      return;
    }
    of.readers.delete(body);
    of.bytes -= body.size;
    if (of.readers.size === 0) this.#byKey.delete(key);
  }
}

/** The body in parts, each read when the client has taken the one before. */
function partsOf(body: Blob, end: () => void): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream(
    {
      pull: async (controller) => {
        if (at >= body.size) {
          end();
          controller.close();
          return;
        }
        const part = body.slice(at, at + PART_BYTES);
        at += part.size;
        controller.enqueue(new Uint8Array(await part.arrayBuffer()));
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}
