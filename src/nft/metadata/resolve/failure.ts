/**
 * Why metadata could not be fetched. A failure is stored as a value with a reason, because hostile content is an everyday
 * case.
 */
import type { MetadataReason } from "../../../events/types.ts";

/** Thrown inside this room only; `visit.ts` and `media.ts` convert it to an outcome. */
export class MetadataFailure extends Error {
  readonly reason: MetadataReason;

  /** @param cause an unexpected exception, which is a defect of this service */
  constructor(reason: MetadataReason, detail = "", cause?: unknown) {
    super(detail === "" ? reason : `${reason}: ${detail}`, cause === undefined ? undefined : { cause });
    this.name = "MetadataFailure";
    this.reason = reason;
  }
}

/** The status that a page shows for a picture, by the reason of the failed fetch. */
export const FAILURE_STATUS = {
  dns_failed: "host_unavailable",
  connection_failed: "host_unavailable",
  timeout: "temporarily_unavailable",
  not_found: "temporarily_unavailable",
  refused: "temporarily_unavailable",
  server_error: "temporarily_unavailable",
  too_large: "unsupported_media",
  bad_encoding: "unsupported_media",
  not_json: "unsupported_media",
  not_an_object: "unsupported_media",
  no_uri: "invalid_url",
  out_of_gas: "invalid_url",
  invalid_uri: "invalid_url",
  unsupported_scheme: "invalid_url",
  credentials_in_url: "invalid_url",
  forbidden_port: "invalid_url",
  forbidden_address: "invalid_url",
  too_many_redirects: "invalid_url",
} as const satisfies Readonly<Record<MetadataReason, string>>;

/** True if a retry of the same URI is unlikely to help. Then the first backoff is an hour instead of seconds. */
export function isPermanent(reason: MetadataReason): boolean {
  const status = FAILURE_STATUS[reason];
  return status === "unsupported_media" || status === "invalid_url";
}
