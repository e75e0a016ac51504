/** What happens to a collection while the page is open: transfers, reorganisations, failures, and its metadata. */
import type { Client, FeedMessage } from "../client/index.ts";
import { clock, plain, whole } from "./format.ts";
import { useAction, useAnswer, useSession } from "./hooks.ts";
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
}

export function ActivityPanel({ chain, address, happenings, metadata }: ActivityOptions) {
  return (
    <>
      <MetadataHealth {...{ chain, address, metadata }} />
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

/** Tokens looked through for missing metadata, and those of them that are asked for the reason. */
const [LOOKED_AT, ASKED] = [500, 25];

interface Missing {
  readonly missing: number;
  readonly looked: number;
  /** How many of those asked failed for which reason. */
  readonly reasons: ReadonlyMap<string, number>;
}

/** Asks some tokens without metadata why it is missing. */
async function whyMissing(client: Client, chain: string, address: string): Promise<Missing> {
  const { result } = await client.nftPage(address, { chain, limit: LOOKED_AT });
  const without = result.filter(({ metadata }) => metadata === null);
  const tokens = without.slice(0, ASKED).map(({ token_id: id }) => client.token({ chain, address }, id, { limit: 1 }));
  const reasons = new Map<string, number>();
  for (const { metadata } of await Promise.all(tokens)) {
    const [newest] = metadata;
    const reason = newest === undefined ? "not tried yet" : (newest.reason ?? "no metadata in the document");
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  }
  return { missing: without.length, looked: result.length, reasons };
}

function MetadataHealth({ chain, address, metadata }: Omit<ActivityOptions, "happenings">) {
  const { client, scope } = useSession();
  const [state, run, isBusy] = useAction();
  const why = useAnswer(() => whyMissing(client, chain, address), [chain, address, metadata?.left === 0]);
  const again = () =>
    run(async () => {
      await client.refresh({ chain, address });
      return "The metadata of all tokens is fetched again.";
    });
  return (
    <section class="panel">
      <h2>Metadata</h2>
      {metadata === undefined ? null : (
        <p>
          {`${whole(metadata.resolved)} tokens have metadata, ${whole(metadata.failed)} failed, ${whole(metadata.left)} are left.`}
        </p>
      )}
      <Failure error={why.error} />
      {why.value === undefined ? null : <Reasons found={why.value} />}
      {scope === "operate" ? (
        <button type="button" disabled={isBusy} onClick={again}>
          Fetch it again
        </button>
      ) : null}{" "}
      <span role="status">{state}</span>
    </section>
  );
}

function Reasons({ found: { missing, looked, reasons } }: { readonly found: Missing }) {
  if (missing === 0) return <p>All of the first {whole(looked)} tokens have metadata.</p>;
  return (
    <>
      <p>
        {whole(missing)} of the first {whole(looked)} tokens have none:
      </p>
      <ul>
        {[...reasons].map(([reason, count]) => (
          <li key={reason}>
            {plain(reason.replaceAll("_", " "), 200)} <small>{whole(count)}</small>
          </li>
        ))}
      </ul>
      {missing > ASKED ? <p class="quiet">These are the reasons of {ASKED} of them.</p> : null}
    </>
  );
}
