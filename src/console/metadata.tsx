/** A token's metadata: its traits, and each attempt to fetch it with the metadata as it was known then. */
import { useState } from "preact/hooks";
import type { MetadataOutcome, NftRecord } from "../client/index.ts";
import { clock, plain } from "./format.ts";
import { nameOf, Picture } from "./gallery.tsx";
import { useAnswer, useSession } from "./hooks.ts";
import { Curl, Failure } from "./parts.tsx";

/** Lines of a document that the page shows, and characters of a line. A document may have a megabyte. */
const [MOST_LINES, MOST_PER_LINE] = [300, 1_000];

interface TokenAt {
  readonly chain: string;
  readonly address: string;
  readonly id: string;
  /** The block that the screen shows; undefined for the newest. */
  readonly block: number | undefined;
}

export function Attempts({ of, attempts }: { readonly of: TokenAt; readonly attempts: readonly MetadataOutcome[] }) {
  const [chosen, choose] = useState<string>();
  if (attempts.length === 0) return <p class="quiet">None yet.</p>;
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
          {outcome}
          {reason === null ? "" : `: ${plain(reason.replaceAll("_", " "), 200)}`}
          {hash === null ? "" : ` · document ${hash.slice(0, 12)}`}
          {chosen === time ? <KnownThen of={of} time={time} /> : null}
        </li>
      ))}
    </ol>
  );
}

/** The metadata that the service knew after an attempt. */
function KnownThen({ of: { chain, address, id, block }, time }: { readonly of: TokenAt; readonly time: string }) {
  const { client } = useSession();
  const at = block === undefined ? {} : { as_of_block: block };
  const { value, error } = useAnswer(
    (signal) => client.token({ chain, address }, id, { limit: 1, metadata_as_of: time, ...at, signal }),
    [chain, address, id, block, time],
  );
  if (error !== undefined) return <Failure error={error} />;
  if (value === undefined) return <p>Loading…</p>;
  const { record } = value;
  const query = new URLSearchParams({ limit: "1", metadata_as_of: time });
  if (block !== undefined) query.set("as_of_block", String(block));
  return (
    <section class="known" aria-label={`Metadata as known at ${clock(time)}`}>
      {record === undefined ? <p>The token is burned.</p> : <Document record={record} />}
      <Curl requests={[{ path: `/api/collections/${chain}/${address}/tokens/${id}?${query}` }]} />
    </section>
  );
}

function Document({ record }: { readonly record: NftRecord }) {
  if (record.metadata === null) return <p>No metadata was known then.</p>;
  return (
    <>
      <div class="details">
        <Picture record={record} size="medium" pixels={140} />
        <div>
          <p>
            <strong>{nameOf(record)}</strong>
          </p>
          <Attributes record={record} />
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

/** The traits of a token. */
export function Attributes({ record }: { readonly record: NftRecord }) {
  const attributes = record.normalized_metadata === "" ? [] : record.normalized_metadata.attributes;
  if (attributes.length === 0) return null;
  return (
    <ul class="attributes" aria-label="Traits">
      {attributes.map(({ trait_type, value }, at) => (
        <li key={at}>
          <small>{plain(trait_type ?? "", 40)}</small>
          <strong>{plain(typeof value === "string" ? value : JSON.stringify(value), 80)}</strong>
        </li>
      ))}
    </ul>
  );
}
