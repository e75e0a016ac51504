/** What happens to a collection while the page is open: transfers, reorganisations, failures, and its metadata. */
import type { CollectionDetails, FeedMessage } from "../client/index.ts";
import { clock, counted, plain, whole } from "./format.ts";
import { type Loaded, useAction, useSession } from "./hooks.ts";
import { Failure, linkTo, quoted } from "./parts.tsx";

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
