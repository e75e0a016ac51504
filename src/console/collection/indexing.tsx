/** A collection that is not complete: its progress where there is some, its failure, its removal, its doubts. */
import { Action } from "../parts/action.tsx";
import { clock, counted, plain, short, whole } from "../parts/format.ts";
import { Bar, StatusLine } from "../parts/parts.tsx";
import type { Where } from "../state/place.ts";
import { useSession } from "../state/session.ts";
import type { CollectionState } from "./collection-state.ts";
import { isBeingRead, type ShownProgress } from "./progress.ts";

type UnreadyOptions = Where & Pick<CollectionState, "progress" | "found">;

export function Unready({ chain, address, progress, found }: UnreadyOptions) {
  if (found.kind === "ready" && found.value.isRemoved) return <Removed {...{ chain, address }} />;
  const { failure } = progress;
  // The page tells the error already.
  if (found.kind === "failed" || found.kind === "absent") return null;
  if (failure === undefined) {
    if (isBeingRead(progress)) return <ProgressPanel progress={progress} />;
    return <StatusLine>Asking the chain what is at this address…</StatusLine>;
  }
  const reason = plain(failure.reason, 300);
  if (failure.nextTry === null) {
    const isTold = found.kind === "ready" && found.error !== undefined;
    return isTold ? null : <p class="failure">There is nothing to show: {reason}.</p>;
  }
  return (
    <p class="failure">
      The indexing failed: {reason}. The next attempt is at {clock(failure.nextTry)}.
    </p>
  );
}

/** What can't be known of the collection, and from which block on. */
export function InDoubt({ block, reason }: NonNullable<ShownProgress["inDoubt"]>) {
  return (
    <p class="failure" role="status">
      In doubt from block {whole(block)} on: {plain(reason, 300)}. The service reads these blocks again until it knows.
    </p>
  );
}

function Removed({ chain, address }: Where) {
  const { client } = useSession();
  const again = async () => {
    await client.nftPage(address, { chain, limit: 1 });
    return "Requested.";
  };
  return (
    <article>
      <p role="status">An operator removed this collection. The service no longer updates it.</p>
      <Action name="Index it again" work={again} />
    </article>
  );
}

function ProgressPanel({ progress }: { readonly progress: ShownProgress }) {
  const { percent, blocksLeft, transfers, reason, isReset } = progress;
  return (
    <article aria-live="polite">
      <h2>
        {isReset
          ? "An operator has this collection indexed again"
          : "Indexing: the service reads this contract's history"}
      </h2>
      <Bar percent={percent} label="Progress of the indexing" />
      <p>
        {transfers === null ? "Waiting for the first blocks." : `${short(transfers)} transfers so far.`}{" "}
        {blocksLeft === null || blocksLeft === 0 ? "" : `${counted(blocksLeft, "block")} left.`}
      </p>
      {reason === undefined ? null : <p class="failure">{plain(reason, 300)}</p>}
    </article>
  );
}
