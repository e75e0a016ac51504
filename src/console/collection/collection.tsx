/** A collection: its progress while it is read, then its views at any block. An account without code is a wallet. */

import { ServiceError } from "../../client/index.ts";
import { AddressOn } from "../address/address.tsx";
import { Wallet } from "../address/wallet.tsx";
import { whole } from "../parts/format.ts";
import { ChainNotice } from "../parts/notice.tsx";
import { StatusLine } from "../parts/parts.tsx";
import { Failure } from "../parts/query-view.tsx";
import type { Where } from "../state/place.ts";
import { readyValue } from "../state/query.ts";
import { CollectionActions } from "./collection-actions.tsx";
import { AboutCollection, CollectionHeading } from "./collection-heading.tsx";
import { type CollectionState, useCollection } from "./collection-state.ts";
import { CollectionViews } from "./collection-views.tsx";
import { InDoubt, Unready } from "./indexing.tsx";
import { isBeingRead } from "./progress.ts";

export function CollectionScreen({ chain, address }: Where) {
  const state = useCollection({ chain, address });
  const { progress, found, head, isReady } = state;
  const details = readyValue(state.details);
  const error = found.kind === "loading" ? undefined : found.error;
  const code = error instanceof ServiceError ? error.code : progress.failure?.code;
  const isWallet = code === "not_a_contract";
  const isKnown = head !== undefined && (isReady || isBeingRead(progress) || progress.failure !== undefined);
  return (
    <>
      <CollectionHeading
        {...{ chain, address, isWallet }}
        record={head?.page.result[0]}
        name={details?.name}
        total={isReady ? head?.total : undefined}
        flags={details?.flags}
      />
      {details === undefined ? null : <AboutCollection {...details} />}
      {isKnown && !isWallet ? (
        <details class="actions">
          <summary>Actions</summary>
          <CollectionActions {...{ chain, address }} onRemove={state.remove} />
        </details>
      ) : null}
      <ChainNotice chain={chain} />
      {progress.inDoubt === undefined ? null : <InDoubt {...progress.inDoubt} />}
      {error === undefined || isWallet ? null : <Failure error={error} />}
      {isWallet ? <Wallet {...{ chain, address }} /> : <Content {...{ chain, address, state }} />}
    </>
  );
}

/**
 * What is below the heading:
 * 1) nothing during a removal;
 * 2) the views of a complete collection, or that it has no tokens;
 * 3) that nothing is known yet, before the first answer and the first message;
 * 4) progress, failure or removal. A refusal stands above.
 */
function Content({ chain, address, state }: Where & { readonly state: CollectionState }) {
  const { progress, found, head, isReady, isRemoving } = state;
  if (isRemoving) return null;
  const [record] = head?.page.result ?? [];
  if (isReady && head !== undefined) {
    if (record === undefined) return <NoNfts {...{ chain, address }} block={head.asOf?.block} />;
    if (head.asOf !== null)
      return <CollectionViews {...{ chain, address, state, record }} newest={{ ...head, asOf: head.asOf }} />;
  }
  const isAwaited = found.kind === "loading" && !progress.isHeard;
  if (isAwaited || (progress.isDone && (found.kind === "loading" || found.kind === "ready"))) {
    return <StatusLine>Asking for the collection…</StatusLine>;
  }
  return <Unready {...{ chain, address, progress, found }} />;
}

/** Says what a contract without NFTs is instead. @param block the block at which it has none, if that is known */
const NoNfts = ({ block, ...where }: Where & { readonly block: number | undefined }) => (
  <>
    <p>
      This contract has no NFTs{block === undefined ? "" : ` at block ${whole(block)}`}. They appear here once they are
      minted.
    </p>
    <AddressOn {...where} />
  </>
);
