/** A collection: its progress while it is read, then its tokens at any block, holders, activity and exports. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { AsOf, FeedMessage, NftPage, NftRecord } from "../client/index.ts";
import { ActivityPanel, type Happening } from "./activity.tsx";
import { ExportPanel } from "./export.tsx";
import { type FilterState, Filters } from "./filters.tsx";
import { clock, counted, isAddress, plain, short, whole } from "./format.ts";
import { Gallery } from "./gallery.tsx";
import { HoldersPanel } from "./holders.tsx";
import { blockIn, useAnswer, useMessages, useQuery, useSession } from "./hooks.ts";
import { Address, Bar, Curl, Failure, linkTo, type Request } from "./parts.tsx";
import { BlockSlider } from "./slider.tsx";
import { FilteredTokens, RangedTokens, type TokenSource } from "./tokens.ts";

interface Where {
  readonly chain: string;
  readonly address: string;
}

/** How far the indexing is, as the socket tells. */
interface Progress {
  readonly isDone: boolean;
  readonly percent: number | null;
  readonly blocksLeft: number | null;
  readonly transfers: number | null;
  readonly reason: string | undefined;
}

const UNKNOWN: Progress = { isDone: false, percent: null, blocksLeft: null, transfers: null, reason: undefined };
/** Happenings kept on the page. */
const MOST_HAPPENINGS = 200;
/** Pause between two looks at the newest block, however many messages come. */
const REFRESH_MS = 1_500;
/** Metadata comes in for minutes. */
const PICTURES_MS = 5_000;

export function CollectionScreen({ chain, address }: Where) {
  const { client } = useSession();
  const [progress, setProgress] = useState(UNKNOWN);
  const [happenings, setHappenings] = useState<readonly Happening[]>([]);
  const [metadata, setMetadata] = useState<Extract<FeedMessage, { type: "metadata" }>>();
  /** Counts what makes the newest page out of date. */
  const [moves, refresh] = useThrottled(REFRESH_MS);
  const [pictures, refreshPictures] = useThrottled(PICTURES_MS);
  const turn = moves + pictures;
  const first = useAnswer<NftPage & { readonly asOf: AsOf | null }>(
    (signal) => client.nftPage(address, { chain, limit: 1, disable_total: false, normalizeMetadata: true, signal }),
    [chain, address, turn],
  );
  useMessages(chain, address, (message) => {
    setProgress((before) => progressAfter(before, message));
    if (message.type === "metadata") setMetadata(message);
    const happening = happeningOf(message);
    if (happening !== undefined) setHappenings((before) => [happening, ...before].slice(0, MOST_HAPPENINGS));
    if (["indexed", "transfers", "reorged"].includes(message.type)) refresh();
    if (message.type === "metadata") refreshPictures();
  });
  const page = first.value;
  const isReady = progress.isDone || page?.status === "SYNCED";
  const record = page?.result[0];
  return (
    <>
      <Heading chain={chain} address={address} record={record} total={Number(page?.total ?? 0)} isReady={isReady} />
      <Failure error={first.error} />
      {isReady ? null : <ProgressPanel progress={progress} />}
      {isReady && page?.asOf != null && record !== undefined ? (
        <Ready
          {...{ chain, address, happenings, metadata, turn }}
          newest={page.asOf}
          firstBlock={Number(record.block_number_minted)}
          total={Number(page.total ?? 0)}
        />
      ) : null}
      {isReady && page?.result.length === 0 ? (
        <p>This contract has no NFTs{page.asOf === null ? "" : ` at block ${whole(page.asOf.block)}`}.</p>
      ) : null}
    </>
  );
}

interface HeadingOptions extends Where {
  readonly record: NftRecord | undefined;
  readonly total: number;
  readonly isReady: boolean;
}

function Heading({ chain, address, record, total, isReady }: HeadingOptions) {
  const isTrue = (flag: unknown) => flag === true || flag === "true";
  return (
    <div class="heading">
      <h1>
        {plain(record?.name ?? "", 60) || "Collection"} <small>{plain(record?.symbol ?? "", 20)}</small>
      </h1>
      <p>
        {chain} · <Address value={address} />
        {record === undefined ? "" : ` · ${record.contract_type}`}
        {isReady ? ` · ${counted(total, "NFT")}` : ""}
        {isTrue(record?.verified_collection) ? <span class="flag good"> verified by the operator</span> : null}
        {isTrue(record?.possible_spam) ? (
          <span class="flag bad" title={`bun run cli inspect ${address} --chain ${chain} names the rule`}>
            {" "}
            possible spam
          </span>
        ) : null}{" "}
        · <a href={linkTo.price(chain, address)}>as an ERC-20 token</a>
      </p>
    </div>
  );
}

function ProgressPanel({ progress }: { readonly progress: Progress }) {
  const { percent, blocksLeft, transfers, reason } = progress;
  return (
    <section class="panel" aria-live="polite">
      <h2>The service reads this contract's history</h2>
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

interface ReadyOptions extends Where {
  readonly newest: AsOf;
  readonly firstBlock: number;
  readonly total: number;
  readonly happenings: readonly Happening[];
  readonly metadata: Extract<FeedMessage, { type: "metadata" }> | undefined;
  readonly turn: number;
}

function Ready({ chain, address, newest, firstBlock, total, happenings, metadata, turn }: ReadyOptions) {
  const [query, change] = useQuery();
  const view = VIEWS.find((name) => name.toLowerCase() === query.get("view")) ?? "Gallery";
  const asked = blockIn(query);
  const block = asked !== undefined && asked <= newest.block ? asked : undefined;
  const [owner, traits] = [query.get("owner") ?? "", query.getAll("trait")];
  const filter = useMemo(
    (): FilterState => ({ owner: isAddress(owner) ? owner.toLowerCase() : undefined, traits }),
    [owner, ...traits],
  );
  const setView = (next: View) => change({ view: next === "Gallery" ? undefined : next.toLowerCase() });
  const setBlock = (next: number | undefined) => change({ block: next?.toString() });
  const setFilter = (next: FilterState) => change({ owner: next.owner, trait: next.traits });
  const isFiltered = filter.owner !== undefined || filter.traits.length > 0;
  const { source, error } = useTokens({ chain, address }, block, isFiltered ? filter : undefined, turn);
  const shownAt = source.asOf ?? newest;
  return (
    <>
      {asked === block ? null : (
        <p class="failure" role="status">
          The service has not read block {whole(asked as number)} yet. This is the newest block.
        </p>
      )}
      <BlockSlider first={firstBlock} newest={newest} shownAt={shownAt} block={block} onBlock={setBlock} />
      <div class="tabs" role="tablist" aria-label="Views of the collection">
        {VIEWS.map((name) => (
          <button key={name} type="button" role="tab" aria-selected={view === name} onClick={() => setView(name)}>
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" aria-label={view}>
        {view === "Gallery" ? (
          <>
            <Filters {...{ chain, address, filter }} onFilter={setFilter} />
            <Failure error={error} />
            <p role="status" class="quiet">
              {isFiltered ? `${counted(source.total, "token")} so far` : counted(source.total, "token")} after block{" "}
              {whole(shownAt.block)}
              {shownAt.time === null ? "" : `, ${clock(shownAt.time)}`}
            </p>
            <Gallery {...{ source, chain, address, block }} />
            <Curl requests={galleryRequests({ chain, address }, shownAt.block, isFiltered ? filter : undefined)} />
          </>
        ) : null}
        {view === "Holders" ? <HoldersPanel key={`${block}`} {...{ chain, address, block }} /> : null}
        {view === "Activity" ? <ActivityPanel {...{ chain, address, happenings, metadata }} /> : null}
        {view === "Export" ? <ExportPanel {...{ chain, address, block, total }} /> : null}
      </div>
    </>
  );
}

/** The tokens in view. A newer block replaces them once its tokens there are loaded. */
function useTokens(where: Where, block: number | undefined, filter: FilterState | undefined, turn: number) {
  const { client } = useSession();
  const [, redraw] = useState(0);
  const [error, setError] = useState<Error>();
  const shown = useRef<TokenSource>(undefined);
  const shownFilter = useRef<FilterState>(undefined);
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

function galleryRequests({ chain, address }: Where, block: number, filter: FilterState | undefined): Request[] {
  if (filter === undefined) {
    return [
      { path: `/api/v2/nft/${address}?chain=${chain}&as_of_block=${block}&normalizeMetadata=true&media_items=true` },
    ];
  }
  const query = new URLSearchParams({ as_of_block: String(block) });
  if (filter.owner !== undefined) query.set("owner", filter.owner);
  for (const trait of filter.traits) query.append("trait", trait);
  return [{ path: `/api/collections/${chain}/${address}/tokens?${query}` }];
}

function progressAfter(before: Progress, message: FeedMessage): Progress {
  switch (message.type) {
    case "status":
      return { ...before, isDone: message.status === "SYNCED", percent: message.percent };
    case "progress": {
      const { percent, blocksLeft, transfers, reason } = message;
      return { ...before, percent, blocksLeft, transfers, reason };
    }
    case "indexed":
      return { ...before, isDone: true, percent: 100, reason: undefined };
    case "failed":
      return { ...before, reason: message.reason };
    default:
      return before;
  }
}

function happeningOf(message: FeedMessage): Happening | undefined {
  const time = new Date().toISOString();
  if (message.type === "transfers") return { is: "transfers", time, block: message.block, ids: message.tokenIds };
  if (message.type === "reorged") return { is: "reorged", time, block: message.block };
  if (message.type === "failed") return { is: "failed", time, reason: message.reason };
  return undefined;
}

/** A counter that a burst of calls moves once at its start, and once after the pause. */
function useThrottled(ms: number): [turn: number, move: () => void] {
  const [turn, setTurn] = useState(0);
  const waiting = useRef<ReturnType<typeof setTimeout>>(undefined);
  const isDue = useRef(false);
  const move = useCallback(() => {
    if (waiting.current !== undefined) {
      isDue.current = true;
      return;
    }
    setTurn((before) => before + 1);
    waiting.current = setTimeout(() => {
      waiting.current = undefined;
      if (!isDue.current) return;
      isDue.current = false;
      move();
    }, ms);
  }, [ms]);
  useEffect(() => () => clearTimeout(waiting.current), []);
  return [turn, move];
}
