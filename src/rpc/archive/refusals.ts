/**
 * Understands what an SQD Portal answers in place of blocks. The status decides; the words only tell the refusals of a
 * query apart. They are prose, differ between releases, and may be inside a JSON envelope.
 */
import type { Clock } from "../../core/clock.ts";
import type { Secrets } from "../../core/secrets.ts";
import { ArchiveError } from "./port.ts";

export interface PortalAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

interface RefusalContext {
  readonly label: string;
  readonly secrets: Secrets;
  readonly clock: Pick<Clock, "now">;
}

/** Characters of a refusal that are examined for its reason, and that are shown. */
const [MAX_WORDS, MAX_SHOWN] = [4_000, 300];
/** Longest wait that an archive can ask for. */
const MAX_WAIT_MS = 3_600_000;

/** An answer of fewer blocks would be smaller. */
const TOO_LARGE = /too (?:large|big)|exceed(?:s|ed) the (?:\w+ )?size limit/i;
const FIRST_BLOCK = /starts from block (\d{1,15})/i;
const NAME = "\\\\?['\"`]?([a-z_]\\w{0,39})";
/** Columns are named in snake case, fields in camel case. A parser's error ends with a line and a column of its own. */
const NAMED_FIELDS: readonly RegExp[] = [
  new RegExp(`unknown (?:field|column):? ${NAME}`, "i"),
  /column \\?['"`]([a-z_]\w{0,39})/i,
  /column ([a-z_]\w{0,39}) (?:is |was )?(?:not found|missing)/i,
];

/** Says what a status other than 200 asks for. With `give up`, `meta.column` is the field that the archive lacks. */
export function portalRefusal({ status, headers, bytes }: PortalAnswer, context: RefusalContext): ArchiveError {
  const { label, secrets, clock } = context;
  const words = new TextDecoder()
    .decode(bytes)
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, MAX_WORDS);
  const said = secrets.redact(words, MAX_WORDS / 2);
  const text = secrets.redact(words, MAX_SHOWN);
  const message = `the archive answered ${status}${text === "" ? "" : `: ${text}`}`;
  const meta = { archive: label, status };
  if (status === 409) return new ArchiveError("fork", message, { meta });
  const isOfSize = (status === 400 || status >= 500) && TOO_LARGE.test(said);
  if (status === 413 || isOfSize) return new ArchiveError("split", message, { meta });
  if (status === 400) {
    const first = FIRST_BLOCK.exec(said)?.[1];
    if (first !== undefined) return new ArchiveError("shift", message, { meta, from: Number(first) });
    const column = NAMED_FIELDS.map((form) => form.exec(said)?.[1]).find((name) => name !== undefined);
    const lacking = column === undefined ? {} : { column: column.replaceAll("_", "").toLowerCase() };
    return new ArchiveError("give up", message, { meta: { ...meta, ...lacking } });
  }
  if (status === 429 || status >= 500) {
    return new ArchiveError("retry", message, { meta, retryAfterMs: waitIn(headers.get("retry-after"), clock) });
  }
  return new ArchiveError("give up", message, { meta });
}

/** The wait of a `Retry-After` in ms: seconds or a date. */
function waitIn(text: string | null, clock: Pick<Clock, "now">): number | undefined {
  if (text === null) return undefined;
  const seconds = Number(text);
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(text) - clock.now();
  return Number.isFinite(ms) ? Math.min(MAX_WAIT_MS, Math.max(0, ms)) : undefined;
}
