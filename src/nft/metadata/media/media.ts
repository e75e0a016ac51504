/**
 * Examines the picture, audio or video of a token: fetches it, detects its type by the first bytes, and stores previews
 * by content hash. Out: a document with the result. Failures map to the statuses of API.md. `previews.ts` makes the
 * previews.
 */
import type { Clock } from "../../../core/clock.ts";
import type { Hash } from "../../../core/hex.ts";
import type { EventLog } from "../../../log/event-log.ts";
import { FAILURE_STATUS, MetadataFailure } from "../resolve/failure.ts";
import { decodeText, type RawContent, sniffPicture, sniffRecording } from "../resolve/parse.ts";
import type { Resolver } from "../resolve/resolver.ts";
import type { PreviewOutcome, Previews } from "./previews.ts";
import { rasterSize } from "./raster.ts";

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

/**
 * Increase it when a new version may open more pictures: then unsupported pictures of older versions are examined again.
 * Version 1 also recorded pictures as unsupported when the preview process could not start or was killed.
 */
const EXAMINER_VERSION = 2;

/** Longer URIs are named by their hash: an inline picture makes its URI up to a megabyte long. */
const MAX_NAME = 128;

const HASHED = "sha256-";

/**
 * A short unique name of a URI: the URI itself, or its hash if it is long. A URI with the prefix of a hash is hashed,
 * too.
 */
export function uriName(uri: string): string {
  const isShort = uri.length <= MAX_NAME && !uri.startsWith(HASHED);
  return isShort ? uri : HASHED + Bun.SHA256.hash(uri, "base64url");
}

/** A document in memory, with a short name instead of the URI. */
export interface KnownMedia extends Omit<MediaDocument, "uri"> {
  /** Name of the examined URI. */
  readonly name: string;
}

export const knownMedia = ({ uri, ...rest }: MediaDocument): KnownMedia => ({ ...rest, name: uriName(uri) });

/** True if an older examiner recorded the picture as unsupported. */
const isOutdated = ({ status, version = 0 }: Pick<MediaDocument, "status" | "version">): boolean =>
  status === "unsupported_media" && version < EXAMINER_VERSION;

/** Least time between two examinations of a picture that failed temporarily. */
const RETRY_MS = 600_000;

/** True if the picture should be examined again. @param now ms since the epoch */
export const isExaminationDue = (
  picture: Pick<MediaDocument, "status" | "version" | "updatedAt">,
  now: number,
): boolean =>
  isOutdated(picture) ||
  ((picture.status === "host_unavailable" || picture.status === "temporarily_unavailable") &&
    now - picture.updatedAt >= RETRY_MS);

export interface ExaminerOptions {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly resolver: Resolver;
  readonly previews: Previews;
}

/** An examination that says little about the picture: it exceeded a limit, or the preview process ended. */
export type Doubt = Extract<PreviewOutcome["kind"], "overran" | "interrupted">;

/** The result of one examination. With a doubt, the picture should be tried again before the result counts. */
interface Examination {
  readonly document: MediaDocument;
  readonly doubt: Doubt | undefined;
}

type Inspection = Pick<MediaDocument, "status" | "mimetype"> & Partial<MediaDocument> & { readonly doubt?: Doubt };

/**
 * Fetches and examines a URI of a collection's picture.
 * @throws the signal's reason, AppError if the log fails, PreviewsUnavailable if no preview can be made
 */
export async function examine(
  options: ExaminerOptions,
  { uri, collection }: { uri: string; collection: string },
  signal: AbortSignal,
): Promise<Examination> {
  const { resolver, clock } = options;
  const version = EXAMINER_VERSION;
  const nothing = { uri, mimetype: null, category: null, parentHash: null, previews: [], version } as const;
  try {
    const content = await resolver.media(uri, collection, signal);
    const { doubt, ...found } = await inspect(options, content, signal);
    return { document: { ...nothing, ...found, updatedAt: clock.now() }, doubt };
  } catch (error) {
    if (!(error instanceof MetadataFailure)) throw error;
    const document = { ...nothing, status: FAILURE_STATUS[error.reason], updatedAt: clock.now() };
    return { document, doubt: undefined };
  }
}

async function inspect(
  { log, previews }: ExaminerOptions,
  { bytes, mimetype, charset }: RawContent,
  signal: AbortSignal,
): Promise<Inspection> {
  const recording = sniffPicture(bytes) === undefined ? sniffRecording(bytes) : undefined;
  if (recording !== undefined) {
    const category = recording.startsWith("audio/") ? "audio" : "video";
    return { status: "success", mimetype: recording, category };
  }
  const head = decodeText({ bytes: bytes.subarray(0, 4_096), mimetype, charset });
  const isSvg = /<svg[\s>]/i.test(head) && !/<(?:html|body)[\s>]/i.test(head);
  const picture = sniffPicture(bytes) ?? (isSvg ? "image/svg+xml" : undefined);
  if (picture === undefined) return { status: "unsupported_media", mimetype: mimetype || null };
  const outcome = await previews.make(bytes, picture, signal);
  switch (outcome.kind) {
    case "refused":
      return { status: "unsupported_media", mimetype: picture };
    case "overran":
      return { status: "unsupported_media", mimetype: picture, doubt: "overran" };
    case "interrupted":
      return { status: "temporarily_unavailable", mimetype: picture, doubt: "interrupted" };
    case "made":
      return { status: "success", mimetype: picture, category: "image", ...(await store(log, outcome)) };
  }
}

/** Stores the previews as blobs. */
async function store(
  log: EventLog,
  made: Extract<PreviewOutcome, { kind: "made" }>,
): Promise<Pick<MediaDocument, "parentHash" | "previews">> {
  const previews: StoredPreview[] = [];
  for (const { size, width, height, bytes } of made.previews) {
    previews.push({ size, width, height, hash: await log.putBlob(bytes) });
  }
  return { parentHash: `0x${made.hash}` as Hash, previews };
}

/** The longer side of a WebP picture; undefined for other bytes, which must not be served as a preview. */
export function previewSize(bytes: Uint8Array): number | undefined {
  const size = sniffPicture(bytes) === "image/webp" ? rasterSize(bytes) : undefined;
  return size === undefined ? undefined : Math.max(size.width, size.height);
}
