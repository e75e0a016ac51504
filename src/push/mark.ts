/**
 * A mark names the last record that a client has. The service sends it as `resume` with each message, and the client
 * returns it as `since` to go on from there.
 */

/** A record of a stream. The checksum is undefined if the sender or the receiver of a message does not know it. */
export interface Mark {
  readonly version: number;
  readonly checksum: number | undefined;
}

/** Returns the text of `resume`; undefined if the record's checksum is not known. */
export function resumeText({ version, checksum }: Mark): string | undefined {
  return checksum === undefined || version === 0 ? undefined : `${version}.${checksum.toString(36)}`;
}

export function parseSince(since: unknown): Mark | undefined {
  if (typeof since === "number" && Number.isSafeInteger(since) && since >= 0)
    return { version: since, checksum: undefined };
  const [, version, checksum] = (typeof since === "string" && /^(\d{1,10})\.([\da-z]{1,7})$/.exec(since)) || [];
  if (version === undefined || checksum === undefined) return undefined;
  return { version: Number(version), checksum: Number.parseInt(checksum, 36) };
}
