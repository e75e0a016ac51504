/** The table of collections, and the list of those that the service knows, on each screen that has one. */
import type { ListedCollection, NamedCollection } from "../../client/index.ts";
import { COLLECTION_WORDS } from "../../status-words.ts";
import { linkTo } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { duration, plain, short } from "./format.ts";
import { AddressLink } from "./identifier.tsx";
import { Bar } from "./parts.tsx";
import { QueryView } from "./query-view.tsx";
import { Table, type TableColumn } from "./table.tsx";

/** Letters of a name that its title has. */
const MOST_OF_NAME = 200;

/** A key of scope read gets the names only. */
type CollectionRow = NamedCollection & Partial<ListedCollection>;

const titleOf = ({ name }: Pick<ListedCollection, "name">): string => plain(name ?? "", 40) || "unnamed";
const countText = (count: number | null | undefined): string => (count == null ? "–" : short(count));

const NAMES: readonly TableColumn<CollectionRow>[] = [
  {
    title: "Collection",
    isName: true,
    cell: (row) => (
      <>
        <a href={linkTo.collection(row.chain, row.address)} title={plain(row.name ?? "", MOST_OF_NAME)}>
          {titleOf(row)}
        </a>{" "}
        <small>{plain(row.symbol ?? "", 12)}</small>
      </>
    ),
  },
  { title: "Chain", cell: ({ chain }) => chain },
  { title: "Address", cell: ({ address, chain }) => <AddressLink value={address} chain={chain} /> },
  {
    title: "Status",
    cell: ({ status, percent = null, secondsLeft = null, ...row }) => (
      <>
        {percent !== null && (status === "indexing" || status === "joining") ? (
          <Bar percent={percent} label={`Progress of ${titleOf(row)}`} />
        ) : null}
        {COLLECTION_WORDS[status].word}
        {secondsLeft === null ? "" : `, ${duration(secondsLeft)} left`}
      </>
    ),
  },
];
const ALL: readonly TableColumn<CollectionRow>[] = [
  ...NAMES,
  { title: "NFTs", isNumber: true, cell: ({ nfts }) => countText(nfts) },
  { title: "Transfers", isNumber: true, cell: ({ transfers }) => countText(transfers) },
];

interface CollectionTableOptions {
  readonly rows: readonly CollectionRow[];
  /** What to say if there is none. */
  readonly none: string | null;
}

/** A look at an address without code leaves a row in the log, which is no collection. */
export const CollectionTable = ({ rows, none }: CollectionTableOptions) => (
  <Table
    label="Collections"
    columns={rows.some(({ nfts }) => nfts !== undefined) ? ALL : NAMES}
    rows={rows.filter(({ status }) => status !== "not_a_contract")}
    keyOf={({ chain, address }) => `${chain}/${address}`}
    none={none}
  />
);

/** Rows of a list. The filter finds the rest. */
const MOST = 200;

interface KnownOptions {
  /** Part of the address, the name or the symbol. */
  readonly text: string;
  /** What to say if none has the text. */
  readonly none: string;
  /** Asks again after this pause. */
  readonly everyMs?: number;
}

/** The known collections that have a text. */
export function KnownCollections({ text, none, ...polling }: KnownOptions) {
  const { client, scope } = useSession();
  const known = useQuery<{ readonly result: readonly CollectionRow[]; readonly cursor: string | null }>(
    ["collections", text],
    (signal) => client[scope === "operate" ? "collectionPage" : "collectionNames"]({ text, limit: MOST, signal }),
    polling,
  );
  return (
    <QueryView of={known} loading="Looking among the known collections…">
      {({ result, cursor }) => (
        <>
          <CollectionTable rows={result} none={text === "" ? "The service knows no collection yet." : none} />
          {cursor === null ? null : <p class="quiet">These are the first {MOST}. A longer text finds the others.</p>}
        </>
      )}
    </QueryView>
  );
}
