/** A collection: its progress while it is read, then its views at any block. */

import { AddressOn, FindingText, findingOf } from "../address/address.tsx";
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

export function CollectionScreen({ chain, address }: Where) {
  const state = useCollection({ chain, address });
  const { progress, found, head, isReady } = state;
  const details = readyValue(state.details);
  const error = found.kind === "loading" ? undefined : found.error;
  return (
    <>
      <CollectionHeading
        {...{ chain, address }}
        record={head?.page.result[0]}
        total={isReady ? head?.total : undefined}
        flags={details?.flags}
      />
      {details === undefined ? null : <AboutCollection {...details} />}
      {head === undefined ? null : <CollectionActions {...{ chain, address }} onRemove={state.remove} />}
      <ChainNotice chain={chain} />
      {progress.inDoubt === undefined ? null : <InDoubt {...progress.inDoubt} />}
      {error === undefined ? null : <Refusal {...{ error, chain, address }} />}
      <Content {...{ chain, address, state }} />
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
  if (found.kind === "loading" && (isReady || !progress.isHeard)) {
    return <StatusLine>Asking for the collection…</StatusLine>;
  }
  return isReady ? null : <Unready {...{ chain, address, progress, found }} />;
}

/** Why there is no page, and what an address without code is instead. */
function Refusal({ error, ...where }: Where & { readonly error: Error }) {
  const finding = findingOf(error, where);
  return (
    <>
      <Failure error={error} />
      {finding?.is === "wallet" ? <FindingText finding={finding} {...where} /> : null}
    </>
  );
}

/** Says what a contract without NFTs is instead. @param block the block at which it has none, if that is known */
function NoNfts({ block, ...where }: Where & { readonly block: number | undefined }) {
  return (
    <>
      <p>
        This contract has no NFTs{block === undefined ? "" : ` at block ${whole(block)}`}. They appear here once they
        are minted.
      </p>
      <AddressOn {...where} />
    </>
  );
}
