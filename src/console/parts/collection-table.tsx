/** The table of collections, on each screen that lists some. */
import type { ListedCollection } from "../../client/index.ts";
import { COLLECTION_WORDS } from "../../status-words.ts";
import { linkTo } from "../state/place.ts";
import { duration, plain, short } from "./format.ts";
import { AddressLink } from "./identifier.tsx";
import { Bar } from "./parts.tsx";
import { Table, type TableColumn, type TableOptions } from "./table.tsx";

const titleOf = ({ name }: Pick<ListedCollection, "name">): string => plain(name ?? "", 40) || "unnamed";
const countText = (count: number | null): string => (count === null ? "–" : short(count));

const COLUMNS: readonly TableColumn<ListedCollection>[] = [
  {
    title: "Collection",
    isName: true,
    cell: (row) => (
      <>
        <a href={linkTo.collection(row.chain, row.address)}>{titleOf(row)}</a>{" "}
        <small>{plain(row.symbol ?? "", 12)}</small>
      </>
    ),
  },
  { title: "Chain", cell: ({ chain }) => chain },
  { title: "Address", cell: ({ address, chain }) => <AddressLink value={address} chain={chain} /> },
  {
    title: "Status",
    cell: ({ status, percent, secondsLeft, ...row }) => (
      <>
        {status === "indexing" || status === "joining" ? (
          <Bar percent={percent} label={`Progress of ${titleOf(row)}`} />
        ) : null}
        {COLLECTION_WORDS[status].word}
        {secondsLeft === null ? "" : `, ${duration(secondsLeft)} left`}
      </>
    ),
  },
  { title: "NFTs", isNumber: true, cell: ({ nfts }) => countText(nfts) },
  { title: "Transfers", isNumber: true, cell: ({ transfers }) => countText(transfers) },
];

/** @param none what to say if there is none */
export const CollectionTable = (options: Pick<TableOptions<ListedCollection>, "rows" | "none">) => (
  <Table {...options} label="Collections" columns={COLUMNS} keyOf={({ chain, address }) => `${chain}/${address}`} />
);
