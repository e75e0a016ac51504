/**
 * The place of blobs in an S3-compatible store, as the operator configures it: bucket, prefix, endpoint, region and keys.
 * The endpoint and the keys are secrets; the bucket and the prefix are not.
 */
import { keysInUrl, Secrets, secretsOfUrl } from "./secrets.ts";

export interface S3Place {
  readonly bucket: string;
  /** Empty, or with a slash at its end. */
  readonly prefix: string;
  /** Base URL of the store. */
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** The token of temporary keys. */
  readonly sessionToken: string | undefined;
  /** The operator's proxy for the endpoint. */
  readonly proxy: string | undefined;
}

/** Names of buckets by Amazon's rules, without dots, which break certificates. */
const BUCKET = "[a-z0-9][a-z0-9-]{1,61}[a-z0-9]";
const PLACE = new RegExp(`^s3://(${BUCKET})(?:/((?:[\\w.-]+/)*[\\w.-]*))?$`);

/** Reads `s3://<bucket>[/<prefix>]`. Undefined for other text. */
export function parseBlobUrl(text: string): Pick<S3Place, "bucket" | "prefix"> | undefined {
  const [, bucket, path = ""] = PLACE.exec(text) ?? [];
  if (bucket === undefined || path.split("/").some((part) => part === "." || part === "..")) return undefined;
  return { bucket, prefix: path === "" || path.endsWith("/") ? path : `${path}/` };
}

/** The place as the operator wrote it: it holds no secret. */
export const blobUrlOf = ({ bucket, prefix }: Pick<S3Place, "bucket" | "prefix">): string => `s3://${bucket}/${prefix}`;

const keysOfPlace = ({ accessKeyId, secretAccessKey, sessionToken = "" }: S3Place): string[] =>
  [accessKeyId, secretAccessKey, sessionToken].filter((text) => text !== "");

/** The keys alone, for log lines, which name hosts. */
export const keySecretsOf = (place: S3Place): string[] => [...keysOfPlace(place), ...keysInUrl(place.endpoint)];

/** The keys and the endpoint, for messages about the store. */
export const placeSecrets = (place: S3Place): Secrets =>
  new Secrets([...keysOfPlace(place), ...secretsOfUrl(place.endpoint)]);
