/** The tokens of a collection at a block, all of them or those that match the filters. */

import { useState } from "preact/hooks";
import { counted, isAddress, whole } from "../parts/format.ts";
import { StatusLine } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { type CollectionAt, useParameters } from "../state/place.ts";
import type { QueryState } from "../state/query.ts";
import type { CollectionHead } from "./collection-state.ts";
import { Filters } from "./filters.tsx";
import { Gallery } from "./gallery.tsx";
import {
  type PlacesInView,
  type ShownTokens,
  type TokenFilter,
  useAllTokens,
  useFilteredTokens,
} from "./shown-tokens.ts";

interface TokensOptions {
  readonly at: CollectionAt;
  /** The head of the listing at the block. */
  readonly head: QueryState<CollectionHead>;
}

export function GalleryPanel({ at, head }: TokensOptions) {
  const [parameters, change] = useParameters();
  const [owner, traits] = [parameters.get("owner") ?? "", parameters.getAll("trait")];
  const filter = { owner: isAddress(owner) ? owner.toLowerCase() : undefined, traits };
  const isFiltered = filter.owner !== undefined || traits.length > 0;
  const setFilter = (next: TokenFilter) => change({ owner: next.owner, trait: next.traits });
  return (
    <>
      <Filters {...{ at, filter }} onFilter={setFilter} />
      {isFiltered ? <FilteredTokens {...{ at, filter }} /> : <AllTokens {...{ at, head }} />}
    </>
  );
}

const NO_VIEW: PlacesInView = { from: 0, to: 0 };

function AllTokens({ at, head }: TokensOptions) {
  const [view, onView] = useState(NO_VIEW);
  const tokens = useAllTokens(at, head, view);
  return <TokensOfState {...{ tokens, at, onView }} none="No token exists at this block. Choose a newer one." />;
}

function FilteredTokens({ at, filter }: Pick<TokensOptions, "at"> & { readonly filter: TokenFilter }) {
  const [view, onView] = useState(NO_VIEW);
  const tokens = useFilteredTokens(at, filter, view);
  const none = "No token matches the filters at this block. Remove a filter, or choose another block.";
  return <TokensOfState {...{ tokens, at, onView, none }} />;
}

interface StateOptions {
  readonly tokens: QueryState<ShownTokens>;
  readonly at: CollectionAt;
  /** What to do where no token is shown. */
  readonly none: string;
  readonly onView: (view: PlacesInView) => void;
}

const TokensOfState = ({ tokens, at, none, onView }: StateOptions) => (
  <QueryView of={tokens} loading="Loading the tokens…">
    {(shown) => (
      <>
        <StatusLine>
          {counted(shown.count, "token")}
          {shown.isAll ? "" : " so far"}
          {shown.asOf === null ? "" : ` at block ${whole(shown.asOf.block)}`}
        </StatusLine>
        {shown.isAll && shown.count === 0 ? <p>{none}</p> : null}
        <Gallery tokens={shown} {...{ at, onView }} />
      </>
    )}
  </QueryView>
);
