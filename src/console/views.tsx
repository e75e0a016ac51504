/** Views of a collection beside the gallery: its transfers, and files of it. */
import { useState } from "preact/hooks";
import type { Client, CollectionTransfer } from "../client/index.ts";
import type { CollectionState, Happening } from "./collection-state.ts";
import { useAction, usePages } from "./hooks.ts";
import {
  apiPath,
  Curl,
  clock,
  commandLine,
  counted,
  Failure,
  linkTo,
  More,
  NO_OWNER,
  Owner,
  Panel,
  plain,
  quoted,
  Table,
  Transaction,
  urlOf,
  type Where,
  whole,
} from "./parts.tsx";
import { useSession } from "./session.ts";

type ActivityOptions = ListOptions & Pick<CollectionState, "happenings" | "metadata" | "details">;

export function ActivityPanel({ chain, address, block, turn, happenings, metadata, details }: ActivityOptions) {
  return (
    <>
      <MetadataHealth {...{ chain, address, metadata, details }} />
      <ol class="happenings" aria-live="polite">
        {happenings.map((one, at) => (
          <li key={happenings.length - at} class={one.is}>
            <time dateTime={one.time}>{clock(one.time).slice(11, 19)}</time> <Words one={one} />
          </li>
        ))}
      </ol>
      <h2>Transfers, newest first</h2>
      <Transfers {...{ chain, address, block, turn }} />
      <details class="curl">
        <summary>The same over a WebSocket</summary>
        <pre>
          {`wscat --header "X-API-Key: $KEY" --connect ${quoted(`${location.origin.replace(/^http/, "ws")}/api/v2/ws`)}\n> ${JSON.stringify({ action: "subscribe", chain, address })}`}
        </pre>
      </details>
    </>
  );
}

function Words({ one }: { readonly one: Happening }) {
  if (one.is === "failed") return <>The indexing failed: {plain(one.reason, 200)}</>;
  return <strong>The chain was reorganised: everything after block {whole(one.block)} was replaced.</strong>;
}

interface TransfersOptions extends ListOptions {
  /** Of this token only, with their transactions. */
  readonly id?: string | undefined;
}

/** Transfers of a collection or of one token, newest first. New ones appear as their blocks come in. */
export function Transfers({ chain, address, block, turn, id }: TransfersOptions) {
  const { client } = useSession();
  const only = id === undefined ? {} : { tokenId: id, transactions: true };
  const { rows, page, error, isBusy, more } = usePages<CollectionTransfer, TransfersPage>(
    (at, signal) => client.transferPage({ chain, address }, { limit: PAGE, times: true, ...only, ...at, signal }),
    block,
    // At a block of the past nothing changes.
    [chain, address, id, block === undefined ? turn : 0],
  );
  const query = { limit: PAGE, times: true, ...only, as_of_block: page?.asOf?.block };
  const titles = ["Time", "Block", ...(id === undefined ? ["Token"] : []), "From", "To", "Amount"];
  return (
    <>
      <Failure error={error} />
      {page === undefined || rows.length > 0 ? null : (
        <p class="quiet">No transfers up to this block. Choose a newer one to see more.</p>
      )}
      <Table
        label="Transfers"
        titles={id === undefined ? titles : [...titles, "Transaction"]}
        numbers={["Block", "Amount"]}
      >
        {rows.map((row) => (
          <TransferRow key={`${row.block}/${row.logIndex}/${row.tokenId}`} {...{ row, chain, address, block, id }} />
        ))}
      </Table>
      <More name="Older" {...{ isBusy, more }} />
      <Curl requests={[{ path: apiPath(["collections", chain, address, "transfers"], query) }]} />
    </>
  );
}

type TransfersPage = Awaited<ReturnType<Client["transferPage"]>>;

function TransferRow({ row, chain, address, block, id }: Omit<TransfersOptions, "turn"> & { row: CollectionTransfer }) {
  const { time, tokenId, from, to, amount, transaction } = row;
  const owner = { chain, collection: address, block };
  return (
    <tr>
      <td>{time === null ? "not known" : <time dateTime={time}>{clock(time)}</time>}</td>
      <td class="number">{whole(row.block)}</td>
      {id === undefined ? (
        <td>
          <a href={linkTo.token(chain, address, tokenId, block)}>#{plain(tokenId, 12)}</a>
        </td>
      ) : null}
      <td>{from === NO_OWNER ? "minted" : <Owner value={from} {...owner} />}</td>
      <td>{to === NO_OWNER ? "burned" : <Owner value={to} {...owner} />}</td>
      <td class="number">{plain(amount, 30)}</td>
      {id === undefined ? null : (
        <td>{transaction == null ? "not known" : <Transaction value={transaction} chain={chain} />}</td>
      )}
    </tr>
  );
}

type HealthOptions = Where & Pick<CollectionState, "metadata" | "details">;

/** How far the metadata of the whole collection is, and why it is missing. */
function MetadataHealth({ chain, address, metadata, details }: HealthOptions) {
  const { client, scope } = useSession();
  const [state, run, isBusy] = useAction();
  const health = details.value?.metadata;
  const failed = health?.failedTokens ?? [];
  const again = () =>
    run(async () => {
      await client.refresh({ chain, address }, failed);
      details.reload();
      return `The metadata of ${counted(failed.length, "token")} is fetched again.`;
    });
  // The messages are newer than the answer.
  const shown = metadata ?? health;
  if (shown === undefined) return <Failure error={details.error} />;
  return (
    <Panel title="Metadata">
      <p>
        With metadata: {counted(shown.resolved, "token")}. Failed: {counted(shown.failed, "token")}.
        {shown.left === null ? "" : ` Not tried yet: ${counted(shown.left, "token")}.`}
      </p>
      <Failure error={details.error} />
      {health === undefined ? null : <Reasons reasons={health.reasons} />}
      {scope === "operate" ? (
        <p class="row">
          {failed.length === 0 ? null : (
            <button type="button" disabled={isBusy} onClick={again}>
              Try the failed ones again
            </button>
          )}
          <span role="status">{state}</span>
        </p>
      ) : null}
    </Panel>
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

const PAGE = 50;

export interface ListOptions extends Where {
  readonly block: number | undefined;
  /** Counts the changes at the newest block. */
  readonly turn: number;
}

// Files of a collection at one block. A large one is better fetched by a program than by a browser.

const FORMATS = ["csv", "jsonl", "parquet"] as const;
/** Largest file that the browser keeps in memory. */
const MOST_BYTES = 100_000_000;
/** Some browsers read the file only after the click. */
const SAVING_MS = 60_000;
/** A row of an exported token, by measure of CSV files. */
const ROW_BYTES = 250;

interface ExportOptions extends Where {
  /** The block that the page shows. By default the service exports its newest final block, which may be much older. */
  readonly block: number;
  readonly total: number;
}

export function ExportPanel({ chain, address, block, total }: ExportOptions) {
  const { client } = useSession();
  const [holders, setHolders] = useState(false);
  const [state, run, isBusy] = useAction();
  const curlLine = (format: string) => {
    const path = apiPath(["collections", chain, address, "export"], { format, holders, as_of_block: block });
    return `curl -OJ -H "X-API-Key: $KEY" ${quoted(urlOf(path))}`;
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
      <p>The file has the collection at block {whole(block)}.</p>
      <label>
        <input type="checkbox" checked={holders} onChange={({ currentTarget }) => setHolders(currentTarget.checked)} />{" "}
        A row per owner, with shares, in place of a row per token
      </label>
      {isLarge ? (
        <>
          <p>The file may have more than 100 MB. Fetch it with a program:</p>
          <pre>{FORMATS.map(curlLine).join("\n")}</pre>
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
          {`${curlLine("csv")}\n\n${commandLine(`export ${address} --chain ${quoted(chain)} --format csv --as-of ${block}${holders ? " --holders" : ""}`)}`}
        </pre>
      </details>
    </>
  );
}
