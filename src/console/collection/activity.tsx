/** What happens in a collection: its metadata, reorganisations and failures while the page is open, and its transfers. */
import { Action } from "../parts/action.tsx";
import { clock, counted, plain, whole } from "../parts/format.ts";
import { Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import type { CollectionAt, Where } from "../state/place.ts";
import { readyValue } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import type { CollectionState } from "./collection-state.ts";
import type { Happening } from "./progress.ts";
import { Transfers } from "./transfers.tsx";

export function ActivityPanel({
  at,
  happenings,
  metadata,
  details,
}: Pick<CollectionState, "happenings" | "metadata" | "details"> & { readonly at: CollectionAt }) {
  return (
    <>
      <MetadataHealth {...{ ...at, metadata, details }} />
      <ol class="happenings" aria-live="polite">
        {happenings.map((one, index) => (
          <li key={happenings.length - index} class={one.is}>
            <time dateTime={one.time}>{clock(one.time).slice(11, 19)}</time> <Words one={one} />
          </li>
        ))}
      </ol>
      <h2>Transfers, newest first</h2>
      <Transfers {...at} />
    </>
  );
}

function Words({ one }: { readonly one: Happening }) {
  if (one.is === "failed") return <>The indexing failed: {plain(one.reason, 200)}</>;
  return <strong>The chain was reorganised: everything after block {whole(one.block)} was replaced.</strong>;
}

type HealthOptions = Where & Pick<CollectionState, "metadata" | "details">;

/** How far the metadata of the whole collection is, and why it is missing. */
function MetadataHealth({ chain, address, metadata, details }: HealthOptions) {
  const { client, scope, reload } = useSession();
  const health = readyValue(details)?.metadata;
  const failed = health?.failedTokens ?? [];
  const again = async () => {
    await client.refresh({ chain, address }, failed);
    reload("details", chain, address);
    return `The metadata of ${counted(failed.length, "token")} is fetched again.`;
  };
  // The messages are newer than the answer.
  const shown = metadata ?? health;
  if (shown === undefined) {
    return (
      <QueryView of={details} loading="Asking how far the metadata is…">
        {() => null}
      </QueryView>
    );
  }
  return (
    <Panel title="Metadata">
      <p>
        With metadata: {counted(shown.resolved, "token")}. Failed: {counted(shown.failed, "token")}.
        {shown.left === null ? "" : ` Not tried yet: ${counted(shown.left, "token")}.`}
      </p>
      {health === undefined ? null : <Reasons reasons={health.reasons} />}
      {scope === "operate" && failed.length > 0 ? <Action name="Try the failed ones again" work={again} /> : null}
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
