/** Each attempt to fetch a token's metadata, with the metadata as it was known then. */
import { useState } from "preact/hooks";
import type { MetadataOutcome, NftRecord } from "../../client/index.ts";
import { OUTCOME_WORDS } from "../../status-words.ts";
import { Picture, tokenName } from "../collection/picture.tsx";
import { clock, plain } from "../parts/format.ts";
import { QueryView } from "../parts/query-view.tsx";
import type { TokenAt } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { Traits } from "./traits.tsx";

/** Lines of a document that the page shows, and characters of a line. A document may have a megabyte. */
const [MOST_LINES, MOST_PER_LINE] = [300, 1_000];

interface AttemptsOptions {
  readonly of: TokenAt;
  readonly attempts: readonly MetadataOutcome[];
  readonly isBurned: boolean;
}

export function Attempts({ of, attempts, isBurned }: AttemptsOptions) {
  const [chosen, choose] = useState<string>();
  if (attempts.length === 0) {
    return (
      <p class="quiet">
        {isBurned
          ? "There was none before the token was burned, and there will be none."
          : "None yet. The service fetches the metadata in the background."}
      </p>
    );
  }
  return (
    <ol class="happenings">
      {attempts.map(({ time, outcome, reason, hash }) => (
        <li key={time} class={outcome}>
          <button
            type="button"
            aria-expanded={chosen === time}
            onClick={() => choose(chosen === time ? undefined : time)}
          >
            <time dateTime={time}>{clock(time)}</time>
          </button>{" "}
          {OUTCOME_WORDS[outcome].word}
          {reason === null ? "" : `: ${plain(reason.replaceAll("_", " "), 200)}`}
          {hash === null ? "" : ` · hash ${hash.slice(0, 12)}`}
          {chosen === time ? <KnownThen of={of} time={time} /> : null}
        </li>
      ))}
    </ol>
  );
}

/** The metadata that the service knew after an attempt. */
function KnownThen({ of: { chain, address, id, block }, time }: { readonly of: TokenAt; readonly time: string }) {
  const { client } = useSession();
  const query = { limit: 1, metadata_as_of: time, as_of_block: block };
  const then = useQuery(["token", chain, address, id, block, time], (signal) =>
    client.token({ chain, address }, id, { ...query, signal }),
  );
  return (
    <QueryView of={then} loading="Asking for the metadata of that time…">
      {({ record }) => (
        <section class="known" aria-label={`Metadata as known at ${clock(time)}`}>
          {record === undefined ? <p>The token is burned.</p> : <Document record={record} />}
        </section>
      )}
    </QueryView>
  );
}

function Document({ record }: { readonly record: NftRecord }) {
  if (record.metadata === null) return <p>No metadata was known then.</p>;
  return (
    <>
      <div class="details">
        <Picture record={record} pixels={140} />
        <div>
          <p>
            <strong>{plain(tokenName(record), 200)}</strong>
          </p>
          <Traits record={record} />
        </div>
      </div>
      <pre>{linesOf(record.metadata)}</pre>
    </>
  );
}

/** A document on several lines, if it is JSON. What could hide or turn other text is left out. */
function linesOf(text: string): string {
  let lines = [text];
  try {
    lines = JSON.stringify(JSON.parse(text), null, 2).split("\n");
  } catch {
    // It is shown as it is.
  }
  const shown = lines.slice(0, MOST_LINES).map((line) => plain(line, MOST_PER_LINE));
  return [...shown, ...(lines.length > MOST_LINES ? ["…"] : [])].join("\n");
}
