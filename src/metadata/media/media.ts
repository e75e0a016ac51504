/**
 * Examines the picture, audio or video of a token: fetches it, detects its type by the first bytes, and stores previews
 * by content hash. Out: a document with the result. Failures map to the statuses of API.md.
 */
import type { Clock } from "../../core/clock.ts";
import type { Hash } from "../../core/hex.ts";
import type { MetadataReason } from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import { MetadataFailure } from "../outcome.ts";
import { decodeText, type RawContent } from "../resolve/parse.ts";
import type { Resolver } from "../resolve/resolver.ts";
import type { Previews } from "./previews.ts";
import { rasterSize, sniffPicture, sniffRecording } from "./raster.ts";

export type MediaStatus =
  | "success"
  | "processing"
  | "unsupported_media"
  | "invalid_url"
  | "host_unavailable"
  | "temporarily_unavailable";

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

/** The status of a failed picture, see API.md. */
export function statusOf(reason: MetadataReason): MediaDocument["status"] {
  switch (reason) {
    case "dns_failed":
    case "connection_failed":
      return "host_unavailable";
    case "timeout":
    case "not_found":
    case "refused":
    case "server_error":
      return "temporarily_unavailable";
    case "too_large":
    case "bad_encoding":
    case "not_json":
    case "not_an_object":
      return "unsupported_media";
    case "no_uri":
    case "invalid_uri":
    case "unsupported_scheme":
    case "credentials_in_url":
    case "forbidden_port":
    case "forbidden_address":
    case "too_many_redirects":
      return "invalid_url";
    default:
      return reason satisfies never;
  }
}

/** True if another examination may have a different result. */
export const isRetryable = ({ status, version = 0 }: Pick<MediaDocument, "status" | "version">): boolean =>
  status === "host_unavailable" ||
  status === "temporarily_unavailable" ||
  (status === "unsupported_media" && version < EXAMINER_VERSION);

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
    const found = await look(options, content, signal);
    return { ...nothing, ...found, updatedAt: clock.now() };
  } catch (error) {
    if (!(error instanceof MetadataFailure)) throw error;
    return { ...nothing, status: statusOf(error.reason), updatedAt: clock.now() };
  }
}

async function look(
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
  const head = { bytes: bytes.subarray(0, 4_096), mimetype, charset };
  const isSvg = /<svg[\s>]/i.test(decodeText(head)) && !/<(?:html|body)[\s>]/i.test(decodeText(head));
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
