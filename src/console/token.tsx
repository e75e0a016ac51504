/** A token: its picture, traits, transfers, and its metadata as it was. */
import { useState } from "preact/hooks";
import type { MetadataOutcome, NftRecord } from "../client/index.ts";
import { OUTCOME_WORDS } from "../status-words.ts";
import { isMulti, Picture, tokenName } from "./gallery.tsx";
import { TokenHolders } from "./holders.tsx";
import { blockIn, useAnswer, useQuery } from "./hooks.ts";
import { ChainNotice } from "./notice.tsx";
import {
  Action,
  apiPath,
  Curl,
  clock,
  Fact,
  Failure,
  linkTo,
  Owner,
  Panel,
  plain,
  type Where,
  whole,
} from "./parts.tsx";
import { useSession } from "./session.ts";
import { Transfers } from "./views.tsx";

interface TokenOptions extends Where {
  readonly id: string;
}

export function TokenScreen({ chain, address, id }: TokenOptions) {
  const { client, scope } = useSession();
  const block = blockIn(useQuery()[0]);
  const { value, error, reload } = useAnswer(
    (signal) => client.token({ chain, address }, id, { limit: 1, as_of_block: block, signal }),
    [chain, address, id, block],
  );
  const record = value?.record;
  const refresh = async () => {
    await client.refresh({ chain, address }, [id]);
    reload();
    return "Its metadata is fetched again.";
  };
  return (
    <>
      <ChainNotice chain={chain} />
      <p>
        <a href={linkTo.collection(chain, address, block)}>{plain(record?.name ?? "", 60) || "The collection"}</a>
      </p>
      <h1>{record === undefined ? `Token ${plain(id, 30)}` : tokenName(record)}</h1>
      {block === undefined ? null : (
        <p>
          At block {whole(block)}. <a href={linkTo.token(chain, address, id)}>Show the newest block</a>
        </p>
      )}
      <Failure error={error} />
      {record === undefined ? null : <Details {...{ record, chain, address, block }} locked={value?.locked ?? null} />}
      {value === undefined ? null : (
        <>
          {record !== undefined && isMulti(record) ? <TokenHolders {...{ chain, address, id, block }} /> : null}
          <Panel title="Transfers, newest first">
            <Transfers {...{ chain, address, id, block }} turn={0} />
          </Panel>
          <Panel title="Attempts to fetch the metadata">
            <p class="quiet">Choose a time to see the metadata as it was known then.</p>
            <Attempts of={{ chain, address, id, block }} attempts={value.metadata} />
            {scope === "operate" ? <Action name="Refresh metadata" work={refresh} /> : null}
          </Panel>
        </>
      )}
      <Curl requests={[{ path: apiPath(["collections", chain, address, "tokens", id], { as_of_block: block }) }]} />
    </>
  );
}

interface DetailsOptions extends Omit<TokenAt, "id"> {
  readonly record: NftRecord;
  readonly locked: boolean | null;
}

function Details({ record, locked, chain, address, block }: DetailsOptions) {
  const owner = record.owner_of;
  const metadata = record.normalized_metadata === "" ? undefined : record.normalized_metadata;
  return (
    <div class="details">
      <Picture record={record} pixels={280} />
      <div>
        {metadata?.description == null ? null : <p class="description">{plain(metadata.description, 1_000)}</p>}
        <dl class="facts">
          <Fact name="Token id">
            <code>{plain(record.token_id)}</code>
          </Fact>
          {isMulti(record) ? <Fact name="Supply">{plain(record.amount)}</Fact> : null}
          {owner === "" ? null : (
            <Fact name="Owner">
              <Owner value={owner} collection={address} {...{ chain, block }} />
            </Fact>
          )}
          <Fact name="Minted">block {whole(Number(record.block_number_minted))}</Fact>
          <Fact name="Last transfer">block {whole(Number(record.block_number))}</Fact>
          {locked === null ? null : <Fact name="Locked">{locked ? "yes, it can't be transferred" : "no"}</Fact>}
          <Fact name="Token URI" isWide>
            <code>{plain(record.token_uri ?? "none", 200)}</code>
          </Fact>
        </dl>
        <Attributes record={record} />
      </div>
    </div>
  );
}

// A token's metadata: its traits, and each attempt to fetch it with the metadata as it was known then.

/** Lines of a document that the page shows, and characters of a line. A document may have a megabyte. */
const [MOST_LINES, MOST_PER_LINE] = [300, 1_000];

interface TokenAt extends TokenOptions {
  /** The block that the screen shows; undefined for the newest. */
  readonly block: number | undefined;
}

function Attempts({ of, attempts }: { readonly of: TokenAt; readonly attempts: readonly MetadataOutcome[] }) {
  const [chosen, choose] = useState<string>();
  if (attempts.length === 0) return <p class="quiet">None yet. The service fetches the metadata in the background.</p>;
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
  const { value, error } = useAnswer(
    (signal) => client.token({ chain, address }, id, { ...query, signal }),
    [chain, address, id, block, time],
  );
  if (error !== undefined) return <Failure error={error} />;
  if (value === undefined) return <p>Loading…</p>;
  const { record } = value;
  return (
    <section class="known" aria-label={`Metadata as known at ${clock(time)}`}>
      {record === undefined ? <p>The token is burned.</p> : <Document record={record} />}
      <Curl requests={[{ path: apiPath(["collections", chain, address, "tokens", id], query) }]} />
    </section>
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
            <strong>{tokenName(record)}</strong>
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
function Attributes({ record }: { readonly record: NftRecord }) {
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
