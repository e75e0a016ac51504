/**
 * Examines the picture, audio or video of a token: fetches it, detects its type by the first bytes, and stores previews
 * by content hash. Out: a document with the result. Failures map to the statuses of API.md. `Previews` makes the
 * previews in a process of its own.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Subprocess } from "bun";
import { Semaphore } from "../../core/background.ts";
import type { Clock } from "../../core/clock.ts";
import type { Hash } from "../../core/hex.ts";
import type { EventLog } from "../../log/event-log.ts";
import { FAILURE_STATUS, MetadataFailure } from "../outcome.ts";
import { decodeText, type RawContent } from "../resolve/parse.ts";
import type { Resolver } from "../resolve/resolver.ts";
import type { Preview, PreviewReply, PreviewRequest } from "./preview-process.ts";
import { rasterSize, sniffPicture, sniffRecording } from "./raster.ts";

export type MediaStatus = "success" | "processing" | (typeof FAILURE_STATUS)[keyof typeof FAILURE_STATUS];

interface StoredPreview {
  readonly size: number;
  readonly width: number;
  readonly height: number;
  /** Hash of the preview, by which it is served. */
  readonly hash: Hash;
}

/** The blob that a `MediaExamined` token's hash names. */
export interface MediaDocument {
  /** The examined URI as the metadata has it. If the metadata has another one by now, the document does not apply. */
  readonly uri: string;
  readonly status: Exclude<MediaStatus, "processing">;
  readonly mimetype: string | null;
  readonly category: "image" | "audio" | "video" | null;
  /** SHA-256 of the original. */
  readonly parentHash: Hash | null;
  /** ms since the epoch. */
  readonly updatedAt: number;
  readonly previews: readonly StoredPreview[];
  /** `EXAMINER_VERSION` at the examination; older documents have none, which counts as 0. */
  readonly version?: number;
}

/** Increase it when more formats can be opened: then unsupported pictures of older versions are examined again. */
const EXAMINER_VERSION = 1;

/** Longer URIs are named by their hash: an inline picture makes its URI up to a megabyte long. */
const MAX_NAME = 128;

const HASHED = "sha256-";

/**
 * A short unique name of a URI: the URI itself, or its hash if it is long. A URI with the prefix of a hash is hashed,
 * too.
 */
export function nameOf(uri: string): string {
  const isShort = uri.length <= MAX_NAME && !uri.startsWith(HASHED);
  return isShort ? uri : HASHED + Bun.SHA256.hash(uri, "base64url");
}

/** A document in memory, with a short name instead of the URI. */
export interface KnownMedia extends Omit<MediaDocument, "uri"> {
  /** Name of the examined URI. */
  readonly name: string;
}

export const knownMedia = ({ uri, ...rest }: MediaDocument): KnownMedia => ({ ...rest, name: nameOf(uri) });

/** True if another examination may have a different result. */
export const isRetryablePicture = ({ status, version = 0 }: Pick<MediaDocument, "status" | "version">): boolean =>
  status === "host_unavailable" ||
  status === "temporarily_unavailable" ||
  (status === "unsupported_media" && version < EXAMINER_VERSION);

/** Least time between two examinations of a picture that failed temporarily. */
const RETRY_MS = 600_000;

/** True if the picture should be examined again. @param now ms since the epoch */
export const isExaminationDue = (
  picture: Pick<MediaDocument, "status" | "version" | "updatedAt">,
  now: number,
): boolean => isRetryablePicture(picture) && now - picture.updatedAt >= RETRY_MS;

export interface ExaminerOptions {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly resolver: Resolver;
  readonly previews: Previews;
}

/** Fetches and examines a URI. @throws the signal's reason, AppError if the log fails */
export async function examine(options: ExaminerOptions, uri: string, signal: AbortSignal): Promise<MediaDocument> {
  const { resolver, clock } = options;
  const version = EXAMINER_VERSION;
  const nothing = { uri, mimetype: null, category: null, parentHash: null, previews: [], version } as const;
  try {
    const content = await resolver.media(uri, signal);
    const found = await inspect(options, content, signal);
    return { ...nothing, ...found, updatedAt: clock.now() };
  } catch (error) {
    if (!(error instanceof MetadataFailure)) throw error;
    return { ...nothing, status: FAILURE_STATUS[error.reason], updatedAt: clock.now() };
  }
}

async function inspect(
  { log, previews }: ExaminerOptions,
  { bytes, mimetype, charset }: RawContent,
  signal: AbortSignal,
): Promise<Omit<MediaDocument, "uri" | "updatedAt">> {
  const nothing = { parentHash: null, previews: [] } as const;
  const recording = sniffPicture(bytes) === undefined ? sniffRecording(bytes) : undefined;
  if (recording !== undefined) {
    const category = recording.startsWith("audio/") ? "audio" : "video";
    return { ...nothing, status: "success", mimetype: recording, category };
  }
  const head = decodeText({ bytes: bytes.subarray(0, 4_096), mimetype, charset });
  const isSvg = /<svg[\s>]/i.test(head) && !/<(?:html|body)[\s>]/i.test(head);
  const picture = sniffPicture(bytes) ?? (isSvg ? "image/svg+xml" : undefined);
  const made = picture === undefined ? undefined : await previews.make(bytes, picture, signal);
  if (picture === undefined || made === undefined) {
    return { ...nothing, status: "unsupported_media", mimetype: picture ?? (mimetype || null), category: null };
  }
  const stored: StoredPreview[] = [];
  for (const { size, width, height, bytes: small } of made.previews) {
    stored.push({ size, width, height, hash: await log.putBlob(small) });
  }
  const parentHash = `0x${made.hash}` as Hash;
  return { status: "success", mimetype: picture, category: "image", parentHash, previews: stored };
}

/** The longer side of a WebP picture; undefined for other bytes, which must not be served as a preview. */
export function previewSize(bytes: Uint8Array): number | undefined {
  const size = sniffPicture(bytes) === "image/webp" ? rasterSize(bytes) : undefined;
  return size === undefined ? undefined : Math.max(size.width, size.height);
}

/** Time per picture: three sizes of the largest picture take under two seconds. */
const TIMEOUT_MS = 15_000;
/** Memory limit of the process: the largest AVIF takes 1.3 GB, pictures of other formats at most half a GB. */
const MAX_RESIDENT_BYTES = 1_536 * 1024 * 1024;
/** Interval of the memory checks. */
const MEMORY_CHECK_MS = 50;
/** The process ends after this time without work: it takes some 60 MB. */
const IDLE_MS = 60_000;

/** Resident memory of a process in bytes, from /proc; undefined on other systems than Linux, or if it has ended. */
function residentBytes(pid: number): number | undefined {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}

/**
 * Makes previews in the preview process, one picture at a time. The process is killed if a picture takes too long or
 * too much memory. A picture that kills it is not retried; the next picture starts a new process.
 */
export class Previews {
  readonly #clock: Clock;
  readonly #turn = new Semaphore(1);
  #child: Subprocess | undefined;
  #waiting: { id: number; done: (reply: PreviewReply | undefined) => void } | undefined;
  #nextId = 1;
  #cancelIdle: () => void = () => undefined;
  #closed = false;
  readonly #maxResidentBytes: number;

  /** @param maxResidentBytes for tests */
  constructor(clock: Clock, maxResidentBytes = MAX_RESIDENT_BYTES) {
    this.#clock = clock;
    this.#maxResidentBytes = maxResidentBytes;
  }

  /**
   * Returns the previews and the original's hash; undefined if the picture can't be opened within its limits.
   * @throws the signal's reason when it is aborted
   */
  make(
    bytes: Uint8Array,
    mimetype: string,
    signal: AbortSignal,
  ): Promise<{ hash: string; previews: readonly Preview[] } | undefined> {
    return this.#turn.run(async () => {
      if (this.#closed) return undefined;
      const stop = () => this.#killAndFail();
      signal.addEventListener("abort", stop, { once: true });
      try {
        const reply = await this.#send(bytes, mimetype);
        signal.throwIfAborted();
        return reply?.previews && { hash: reply.hash, previews: reply.previews };
      } finally {
        signal.removeEventListener("abort", stop);
      }
    }, signal);
  }

  #send(bytes: Uint8Array, mimetype: string): Promise<PreviewReply | undefined> {
    this.#cancelIdle();
    const child = this.#child ?? this.#start();
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const cancel = this.#clock.after(TIMEOUT_MS, () => this.#killAndFail());
      let cancelCheck: () => void = () => undefined;
      const check = () => {
        if ((residentBytes(child.pid) ?? 0) > this.#maxResidentBytes) this.#killAndFail();
        else cancelCheck = this.#clock.after(MEMORY_CHECK_MS, check);
      };
      cancelCheck = this.#clock.after(MEMORY_CHECK_MS, check);
      this.#waiting = {
        id,
        done: (reply) => {
          cancel();
          cancelCheck();
          this.#cancelIdle = this.#clock.after(IDLE_MS, () => this.#kill());
          resolve(reply);
        },
      };
      try {
        child.send({ id, bytes, mimetype } satisfies PreviewRequest);
      } catch {
        // The process has just ended.
        this.#killAndFail();
      }
    });
  }

  /** Kills the process and gives up its picture. */
  #killAndFail(): void {
    this.#kill();
    this.#settle(undefined);
  }

  #settle(reply: PreviewReply | undefined): void {
    const waiting = this.#waiting;
    if (waiting === undefined || (reply !== undefined && reply.id !== waiting.id)) return;
    this.#waiting = undefined;
    waiting.done(reply);
  }

  #start(): Subprocess {
    const child = Bun.spawn([process.execPath, fileURLToPath(new URL("./preview-process.ts", import.meta.url))], {
      // No variables of the service: they may have keys, endpoints and proxies.
      env: {},
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      serialization: "advanced",
      ipc: (message) => this.#settle(message as PreviewReply),
      onExit: (exited) => {
        if (this.#child !== exited) return;
        this.#child = undefined;
        this.#settle(undefined);
      },
    });
    this.#child = child;
    return child;
  }

  #kill(): void {
    const child = this.#child;
    this.#child = undefined;
    child?.kill("SIGKILL");
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelIdle();
    const child = this.#child;
    this.#killAndFail();
    this.#cancelIdle();
    await child?.exited;
  }
}
