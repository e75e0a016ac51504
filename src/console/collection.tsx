/** A collection: its progress while it is read, then its tokens at any block, holders, activity and exports. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { AsOf, CollectionDetails, NftRecord } from "../client/index.ts";
import { CollectionActions } from "./actions.tsx";
import { AddressOn, FindingText, findingOf } from "./address.tsx";
import { type CollectionState, type Found, type Progress, useCollection } from "./collection-state.ts";
import { BlockSlider, Filters } from "./controls.tsx";
import {
  FilteredTokens,
  Gallery,
  isMulti,
  Picture,
  RangedTokens,
  type TokenFilter,
  type TokenSource,
} from "./gallery.tsx";
import { HoldersPanel } from "./holders.tsx";
import { blockIn, useQuery } from "./hooks.ts";
import { ChainNotice } from "./notice.tsx";
import {
  Action,
  AddressLink,
  apiPath,
  Bar,
  Curl,
  clock,
  counted,
  Failure,
  isAddress,
  linkTo,
  plain,
  short,
  Tabs,
  type Where,
  whole,
} from "./parts.tsx";
import { useSession } from "./session.ts";
import { ActivityPanel, ExportPanel } from "./views.tsx";

export function CollectionScreen({ chain, address }: Where) {
  const state = useCollection({ chain, address });
  const { progress, first, page, isReady, details } = state;
  const record = page?.result[0];
  const total = Number(page?.total ?? 0);
  return (
    <>
      <Heading {...{ chain, address, record, total, isReady }} flags={details.value?.flags} />
      {details.value === undefined ? null : <About {...details.value} />}
      {page === undefined ? null : <CollectionActions {...{ chain, address }} onRemove={state.remove} />}
      <ChainNotice chain={chain} />
      {progress.inDoubt === undefined ? null : <InDoubt {...progress.inDoubt} />}
      <Refusal error={first.error} {...{ chain, address }} />
      {isReady || state.isRemoving ? null : (
        <Unready {...{ chain, address, progress }} found={first.value} error={first.error} />
      )}
      {isReady && page?.asOf != null && record !== undefined ? (
        <Ready
          {...{ chain, address, details, total }}
          {...{ happenings: state.happenings, metadata: state.metadata, turn: state.turn }}
          newest={page.asOf}
          firstBlock={Number(record.block_number_minted)}
          isMulti={isMulti(record)}
        />
      ) : null}
      {isReady && page?.result.length === 0 ? <NoNfts {...{ chain, address }} block={page.asOf?.block} /> : null}
    </>
  );
}

/** Why there is no page, and what an address without code is instead. */
function Refusal({ error, ...where }: Where & { readonly error: Error | undefined }) {
  const found = findingOf(error);
  return (
    <>
      <Failure error={error} />
      {found?.is === "wallet" ? <FindingText finding={found} {...where} /> : null}
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

interface HeadingOptions extends Where {
  readonly record: NftRecord | undefined;
  readonly total: number;
  readonly isReady: boolean;
  readonly flags: CollectionDetails["flags"] | undefined;
}

function Heading({ chain, address, record, total, isReady, flags }: HeadingOptions) {
  const rule = flags?.rule == null ? "" : ` (rule ${plain(flags.rule, 100)})`;
  const isTrue = (flag: unknown) => flag === true || flag === "true";
  return (
    <div class="heading">
      <h1>
        {plain(record?.name ?? "", 60) || "Collection"} <small>{plain(record?.symbol ?? "", 20)}</small>
      </h1>
      <p>
        {chain} · <AddressLink value={address} chain={chain} />
        {record === undefined ? "" : ` · ${record.contract_type}`}
        {isReady ? ` · ${counted(total, "NFT")}` : ""}
        {isTrue(record?.verified_collection) ? <span class="flag good"> verified by the operator</span> : null}
        {isTrue(record?.possible_spam) ? <span class="flag bad"> possible spam{rule}</span> : null}
        {isReady && record === undefined ? (
          <>
            {" "}
            · <a href={linkTo.price(chain, address)}>its price, if it is an ERC-20 token</a>
          </>
        ) : null}
      </p>
    </div>
  );
}

/** Most characters of a description that the page shows. */
const MOST_DESCRIBED = 1_000;

/** What the contract's own document says of the collection. Its link is text: a stranger wrote it. */
function About({
  description,
  media,
  externalLink,
}: Pick<CollectionDetails, "description" | "media" | "externalLink">) {
  const hasPicture = media.media_collection !== null;
  if (!hasPicture && description === null && externalLink === null) return null;
  return (
    <section class="details" aria-label="About the collection">
      {hasPicture ? <Picture record={{ media }} pixels={100} /> : null}
      <div>
        {description === null ? null : <p class="description">{plain(description, MOST_DESCRIBED)}</p>}
        {externalLink === null ? null : <code>{plain(externalLink, 200)}</code>}
      </div>
    </section>
  );
}

interface UnreadyOptions extends Where {
  readonly progress: Progress;
  readonly found: Found | undefined;
  readonly error: Error | undefined;
}

/** What to say of a collection that is not complete: progress only where there is some. */
function Unready({ chain, address, progress, found, error }: UnreadyOptions) {
  if (found?.isRemoved === true) return <Removed {...{ chain, address }} />;
  if (found === undefined && error !== undefined) return null;
  const { failure } = progress;
  if (failure === undefined) return <ProgressPanel progress={progress} />;
  const reason = plain(failure.reason, 300);
  // The error of the page tells it already.
  if (failure.nextTry === null)
    return error === undefined ? <p class="failure">There is nothing to show: {reason}.</p> : null;
  return (
    <p class="failure">
      The indexing failed: {reason}. The next attempt is at {clock(failure.nextTry)}.
    </p>
  );
}

/** What can't be known of the collection, and from which block on. */
function InDoubt({ block, reason }: NonNullable<Progress["inDoubt"]>) {
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
    <section class="panel">
      <p role="status">An operator removed this collection. The service no longer updates it.</p>
      <Action name="Index it again" work={again} />
    </section>
  );
}

function ProgressPanel({ progress }: { readonly progress: Progress }) {
  const { percent, blocksLeft, transfers, reason, isReset } = progress;
  return (
    <section class="panel" aria-live="polite">
      <h2>
        {isReset
          ? "An operator has this collection indexed again"
          : "Indexing: the service reads this contract's history"}
      </h2>
      <Bar percent={percent} label="Progress of the indexing" />
      <p>
        {transfers === null ? "Waiting for the first blocks." : `${short(transfers)} transfers so far.`}{" "}
        {blocksLeft === null ? "" : `${whole(blocksLeft)} blocks are left.`}
      </p>
      {reason === undefined ? null : <p class="failure">{plain(reason, 300)}</p>}
    </section>
  );
}

const VIEWS = ["Gallery", "Holders", "Activity", "Export"] as const;
type View = (typeof VIEWS)[number];

interface ReadyOptions extends Where, Pick<CollectionState, "happenings" | "metadata" | "details" | "turn"> {
  readonly newest: AsOf;
  readonly firstBlock: number;
  /** True if its tokens have amounts. */
  readonly isMulti: boolean;
  readonly total: number;
}

function Ready({ chain, address, newest, firstBlock, total, ...rest }: ReadyOptions) {
  const { happenings, metadata, details, turn, isMulti: hasAmounts } = rest;
  const [query, change] = useQuery();
  const view = VIEWS.find((name) => name.toLowerCase() === query.get("view")) ?? "Gallery";
  const asked = blockIn(query);
  const block = asked !== undefined && asked <= newest.block ? asked : undefined;
  const [owner, traits] = [query.get("owner") ?? "", query.getAll("trait")];
  const filter = useMemo(
    (): TokenFilter => ({ owner: isAddress(owner) ? owner.toLowerCase() : undefined, traits }),
    [owner, ...traits],
  );
  const setView = (next: View) => change({ view: next === "Gallery" ? undefined : next.toLowerCase() });
  const setBlock = (next: number | undefined) => change({ block: next?.toString() });
  const setFilter = (next: TokenFilter) => change({ owner: next.owner, trait: next.traits });
  const isFiltered = filter.owner !== undefined || filter.traits.length > 0;
  const { source, error } = useTokens({ chain, address }, block, isFiltered ? filter : undefined, turn);
  const shownAt = source.asOf ?? newest;
  const { isAll, count } = source.found;
  return (
    <>
      {asked === block ? null : (
        <p class="failure" role="status">
          The service has not read block {whole(asked as number)} yet. This is the newest block.
        </p>
      )}
      <BlockSlider first={firstBlock} newest={newest} shownAt={shownAt} block={block} onBlock={setBlock} />
      <Tabs label="Views of the collection" names={VIEWS} chosen={view} onChoose={setView}>
        {view === "Gallery" ? (
          <>
            <Filters {...{ chain, address, filter }} onFilter={setFilter} />
            <Failure error={error} />
            <p role="status" class="quiet">
              {countText(source)} at block {whole(shownAt.block)}
            </p>
            {isAll && count === 0 ? <Nothing isFiltered={isFiltered} /> : null}
            <Gallery {...{ source, chain, address, block }} />
            <Curl
              requests={[{ path: galleryPath({ chain, address }, shownAt.block, isFiltered ? filter : undefined) }]}
            />
          </>
        ) : null}
        {view === "Holders" ? (
          <HoldersPanel key={`${block}`} {...{ chain, address, block, turn }} isMulti={hasAmounts} />
        ) : null}
        {view === "Activity" ? (
          <ActivityPanel key={`${block}`} {...{ chain, address, block, turn, happenings, metadata, details }} />
        ) : null}
        {view === "Export" ? <ExportPanel {...{ chain, address, total }} block={shownAt.block} /> : null}
      </Tabs>
    </>
  );
}

/** What to do where no token is shown. */
const Nothing = ({ isFiltered }: { readonly isFiltered: boolean }) => (
  <p>
    {isFiltered
      ? "No token matches the filters at this block. Remove a filter, or choose another block."
      : "No token exists at this block. Choose a newer one."}
  </p>
);

const countText = ({ found: { count, isAll } }: TokenSource): string =>
  isAll ? counted(count, "token") : `${counted(count, "token")} so far`;

/** The tokens in view. A newer block replaces them once its tokens there are loaded. */
function useTokens(where: Where, block: number | undefined, filter: TokenFilter | undefined, turn: number) {
  const { client } = useSession();
  const [, redraw] = useState(0);
  const [error, setError] = useState<Error>();
  const shown = useRef<TokenSource>(undefined);
  const shownFilter = useRef<TokenFilter>(undefined);
  const changed = useCallback(() => redraw((before) => before + 1), []);
  // At a block of the past nothing changes, whatever happens at the head.
  const version = block === undefined ? turn : block;
  const wanted = useMemo(() => {
    const events = { onChange: changed, onError: setError };
    setError(undefined);
    if (filter === undefined) return new RangedTokens(client, where, block, events);
    return new FilteredTokens(client, where, { asOfBlock: block, filter }, events);
  }, [client, where.chain, where.address, block, filter, version]);
  useEffect(() => () => wanted.close(), [wanted]);
  if (shown.current !== wanted) {
    // Another filter is read from its beginning on.
    const { from, to } = shownFilter.current === filter ? (shown.current ?? wanted).view : wanted.view;
    wanted.show(from, to);
    const end = wanted.total - 1;
    const isThere = (place: number) => end < 0 || wanted.at(Math.min(place, end)) !== undefined;
    // What is in view is loaded, so that nothing flickers.
    if (shown.current === undefined || (wanted.asOf !== undefined && isThere(from) && isThere(to))) {
      shown.current = wanted;
      shownFilter.current = filter;
    }
  }
  return { source: shown.current, error };
}

function galleryPath({ chain, address }: Where, block: number, filter: TokenFilter | undefined): string {
  const at = { as_of_block: block };
  if (filter === undefined) {
    return apiPath(["v2", "nft", address], { chain, ...at, normalizeMetadata: true, media_items: true });
  }
  const { owner, traits } = filter;
  return apiPath(["collections", chain, address, "tokens"], { ...at, owner, trait: traits });
}
