/** Views of a collection beside the gallery: what happens while the page is open, its owners, and files of it. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { AsOf, CollectionDetails, FeedMessage, Holder } from "../client/index.ts";
import { BASE, type Loaded, useAction, useSession } from "./hooks.ts";
import {
  Curl,
  clock,
  commandLine,
  counted,
  Failure,
  LongAddress,
  linkTo,
  percent,
  plain,
  quoted,
  Table,
  whole,
} from "./parts.tsx";

export type Happening =
  | { readonly is: "transfers"; readonly time: string; readonly block: number; readonly ids: readonly string[] }
  | { readonly is: "reorged"; readonly time: string; readonly block: number }
  | { readonly is: "failed"; readonly time: string; readonly reason: string };

/** Ids named in a line. */
const MOST_IDS = 12;

interface ActivityOptions {
  readonly chain: string;
  readonly address: string;
  readonly happenings: readonly Happening[];
  readonly metadata: Extract<FeedMessage, { type: "metadata" }> | undefined;
  readonly details: Loaded<CollectionDetails | undefined>;
}

export function ActivityPanel({ chain, address, happenings, metadata, details }: ActivityOptions) {
  return (
    <>
      <MetadataHealth {...{ chain, address, metadata, details }} />
      <h2>Since this page was opened</h2>
      {happenings.length === 0 ? (
        <p class="quiet">Nothing yet. Transfers appear here as their blocks come in.</p>
      ) : null}
      <ol class="happenings" aria-live="polite">
        {happenings.map((one, at) => (
          <li key={happenings.length - at} class={one.is}>
            <time dateTime={one.time}>{clock(one.time).slice(11, 19)}</time> <Words {...{ chain, address, one }} />
          </li>
        ))}
      </ol>
      <details class="curl">
        <summary>The same on a socket</summary>
        <pre>
          {`wscat --header "X-API-Key: $KEY" --connect ${quoted(`${location.origin.replace(/^http/, "ws")}/api/v2/ws`)}\n> ${JSON.stringify({ action: "subscribe", chain, address })}`}
        </pre>
      </details>
    </>
  );
}

function Words({ chain, address, one }: { readonly chain: string; readonly address: string; readonly one: Happening }) {
  if (one.is === "reorged") {
    return <strong>The chain was reorganised: everything after block {whole(one.block)} was replaced.</strong>;
  }
  if (one.is === "failed") return <>The indexing failed: {plain(one.reason, 200)}</>;
  const { block, ids } = one;
  return (
    <>
      {`block ${whole(block)}: ${ids.length === 1 ? "a transfer" : `transfers of ${whole(ids.length)} tokens`}`}{" "}
      {ids.slice(0, MOST_IDS).map((id) => (
        <a key={id} href={linkTo.token(chain, address, id)}>
          #{plain(id, 12)}{" "}
        </a>
      ))}
      {ids.length > MOST_IDS ? "…" : ""}
    </>
  );
}

interface HealthOptions {
  readonly chain: string;
  readonly address: string;
  readonly metadata: ActivityOptions["metadata"];
  readonly details: ActivityOptions["details"];
}

/** How far the metadata of the whole collection is, and why it is missing. */
function MetadataHealth({ chain, address, metadata, details }: HealthOptions) {
  const { client, scope } = useSession();
  const [state, run, isBusy] = useAction();
  const health = details.value?.metadata;
  const again = (tokenIds?: readonly string[]) =>
    run(async () => {
      await client.refresh({ chain, address }, tokenIds);
      details.reload();
      return `The metadata of ${tokenIds === undefined ? "all tokens" : counted(tokenIds.length, "token")} is fetched again.`;
    });
  // The messages are newer than the answer.
  const shown = metadata ?? health;
  if (shown === undefined) return <Failure error={details.error} />;
  return (
    <section class="panel">
      <h2>Metadata</h2>
      <p>
        With metadata: {counted(shown.resolved, "token")}. Failed: {counted(shown.failed, "token")}.
        {shown.left === null ? "" : ` Not tried yet: ${counted(shown.left, "token")}.`}
      </p>
      <Failure error={details.error} />
      {health === undefined ? null : <Reasons reasons={health.reasons} />}
      {scope === "operate" ? (
        <p class="row">
          {health === undefined || health.failedTokens.length === 0 ? null : (
            <button type="button" disabled={isBusy} onClick={() => again(health.failedTokens)}>
              Try the failed ones again
            </button>
          )}
          <button type="button" disabled={isBusy} onClick={() => again()}>
            Fetch all again
          </button>
          <span role="status">{state}</span>
        </p>
      ) : null}
    </section>
  );
}

function Reasons({ reasons }: { readonly reasons: Readonly<Record<string, number>> }) {
  const sorted = Object.entries(reasons).sort(([, one], [, other]) => other - one);
  return (
    <ul aria-label="Reasons of the failures">
      {sorted.map(([reason, count]) => (
        <li key={reason}>
          {plain(reason.replaceAll("_", " "), 200)} <small>{counted(count, "token")}</small>
        </li>
      ))}
    </ul>
  );
}

// The owners of a collection by what they hold, with their shares, at one block.

const PAGE = 50;

interface HoldersOptions {
  readonly chain: string;
  readonly address: string;
  readonly block: number | undefined;
  /** Counts the changes at the newest block. */
  readonly turn: number;
}

interface Listed {
  readonly rows: readonly Holder[];
  readonly total: number;
  readonly cursor: string | null;
  readonly asOf: AsOf | null;
}

const NOTHING: Listed = { rows: [], total: 0, cursor: null, asOf: null };

/** The holders that are read so far, and the reading of more. */
function useHolders({ chain, address, block, turn }: HoldersOptions) {
  const { client } = useSession();
  const [listed, setListed] = useState(NOTHING);
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(true);
  const stopping = useRef(new AbortController());
  const { rows } = listed;
  /** Reads on from a page until there are `count` rows, and shows them at once. */
  const read = async (before: Listed, count: number) => {
    stopping.current.abort();
    stopping.current = new AbortController();
    const { signal } = stopping.current;
    setBusy(true);
    try {
      let now = before;
      do {
        const at = block === undefined ? {} : { as_of_block: block };
        const after = now.cursor === null ? at : { cursor: now.cursor };
        const page = await client.holderPage({ chain, address }, { limit: PAGE, ...after, signal });
        now = { ...page, rows: [...now.rows, ...page.result] };
      } while (now.cursor !== null && now.rows.length < count);
      setListed(now);
      setError(undefined);
    } catch (failure) {
      if (!signal.aborted) setError(failure as Error);
    } finally {
      if (!signal.aborted) setBusy(false);
    }
  };
  // At a block of the past nothing changes. A newer block gets as many rows as are shown.
  const version = block === undefined ? turn : 0;
  useEffect(() => void read(NOTHING, rows.length), [chain, address, block, version]);
  useEffect(() => () => stopping.current.abort(), []);
  return { ...listed, error, isBusy, more: () => read(listed, rows.length + PAGE) };
}

export function HoldersPanel(options: HoldersOptions) {
  const { rows, total, cursor, asOf, error, isBusy, more } = useHolders(options);
  const { chain, address } = options;
  const path = `/api/collections/${chain}/${address}/holders?limit=${PAGE}`;
  return (
    <>
      <Failure error={error} />
      <p role="status" class="quiet">
        {asOf === null ? "Counting…" : `${counted(total, "owner")} after block ${whole(asOf.block)}`}
      </p>
      <Table label="Holders" titles={["Rank", "Owner", "Tokens", "Share"]} numbers={["Rank", "Tokens", "Share"]}>
        {rows.map(({ rank, owner, tokens, share }) => (
          <tr key={owner}>
            <td class="number">{whole(rank)}</td>
            <td>
              <LongAddress value={owner} />
            </td>
            <td class="number">{whole(tokens)}</td>
            <td class="number share">
              <div style={{ width: `${share * 100}%` }} />
              <span>{percent(share)}</span>
            </td>
          </tr>
        ))}
      </Table>
      {cursor === null ? null : (
        <button type="button" disabled={isBusy} onClick={more}>
          More
        </button>
      )}
      <Curl requests={[{ path: asOf === null ? path : `${path}&as_of_block=${asOf.block}` }]} />
    </>
  );
}

// Files of a collection at one block. A large one is better fetched by a program than by a browser.

const FORMATS = ["csv", "jsonl", "parquet"] as const;
/** Largest file that the browser keeps in memory. */
const MOST_BYTES = 100_000_000;
/** Some browsers read the file only after the click. */
const SAVING_MS = 60_000;
/** A row of an exported token, by measure of CSV files. */
const ROW_BYTES = 250;

interface ExportOptions {
  readonly chain: string;
  readonly address: string;
  /** The block that the page shows. By default the service exports its newest final block, which may be much older. */
  readonly block: number;
  readonly total: number;
}

export function ExportPanel({ chain, address, block, total }: ExportOptions) {
  const { client } = useSession();
  const [holders, setHolders] = useState(false);
  const [state, run, isBusy] = useAction();
  const query = (format: string) => {
    const parts = new URLSearchParams({ format, holders: String(holders), as_of_block: String(block) });
    return `api/collections/${encodeURIComponent(chain)}/${address}/export?${parts}`;
  };
  const isLarge = total * ROW_BYTES > MOST_BYTES;
  const save = (format: (typeof FORMATS)[number]) =>
    run(async () => {
      const response = await client.exported({ chain, address }, { format, holders, as_of_block: block });
      const name = `${chain}-${address}-${block}.${format}`;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), SAVING_MS);
      return `Saved ${name}.`;
    });
  return (
    <>
      <p>The file has the collection after block {whole(block)}.</p>
      <label>
        <input type="checkbox" checked={holders} onChange={({ currentTarget }) => setHolders(currentTarget.checked)} />{" "}
        A row per owner, with shares, in place of a row per token
      </label>
      {isLarge ? (
        <>
          <p>The file may have more than 100 MB. Fetch it with a program:</p>
          <pre>
            {FORMATS.map((format) => `curl -OJ -H "X-API-Key: $KEY" ${quoted(BASE + query(format))}`).join("\n")}
          </pre>
        </>
      ) : (
        <p class="row">
          {FORMATS.map((format) => (
            <button key={format} type="button" disabled={isBusy} onClick={() => save(format)}>
              {format}
            </button>
          ))}
          <span role="status">{state}</span>
        </p>
      )}
      <details class="curl">
        <summary>The same with curl</summary>
        <pre>
          {`curl -OJ -H "X-API-Key: $KEY" ${quoted(BASE + query("csv"))}\n\n${commandLine(`export ${address} --chain ${quoted(chain)} --format csv --as-of ${block}${holders ? " --holders" : ""}`)}`}
        </pre>
      </details>
    </>
  );
}
