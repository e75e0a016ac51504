/** Transfers of a collection or of one token, newest first. New ones appear as their blocks come in. */
import type { CollectionTransfer } from "../../client/index.ts";
import { clock, NO_OWNER, plain, whole } from "../parts/format.ts";
import { Owner, Transaction } from "../parts/identifier.tsx";
import { More } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { type CollectionAt, keyAt, linkTo } from "../state/place.ts";
import { usePages } from "../state/query.ts";
import { useSession } from "../state/session.ts";

const PAGE = 50;

interface TransfersOptions extends CollectionAt {
  /** Of this token only, with their transactions. */
  readonly id?: string;
}

export function Transfers(options: TransfersOptions) {
  const { client } = useSession();
  const { id, block } = options;
  const only = id === undefined ? {} : { tokenId: id, transactions: true };
  const transfers = usePages([...keyAt(options), "transfers", id], (cursor, signal) =>
    client.transferPage(options, { limit: PAGE, times: true, ...only, as_of_block: block, cursor, signal }),
  );
  return (
    <QueryView of={transfers} loading="Asking for the transfers…">
      {({ rows, isBusy, more }) => (
        <>
          <Table
            label="Transfers"
            columns={columnsFor(options)}
            rows={rows}
            keyOf={(row) => `${row.block}/${row.logIndex}/${row.tokenId}`}
            none="No transfers up to this block. Choose a newer one to see more."
          />
          <More name="Older" {...{ isBusy, more }} />
        </>
      )}
    </QueryView>
  );
}

function columnsFor({ chain, address, block, id }: TransfersOptions): readonly TableColumn<CollectionTransfer>[] {
  const ownerOr = (owner: string, word: string) =>
    owner === NO_OWNER ? word : <Owner value={owner} collection={address} {...{ chain, block }} />;
  const token: TableColumn<CollectionTransfer> = {
    title: "Token",
    cell: ({ tokenId }) => <a href={linkTo.token(chain, address, tokenId, block)}>#{plain(tokenId, 12)}</a>,
  };
  const transaction: TableColumn<CollectionTransfer> = {
    title: "Transaction",
    cell: ({ transaction: hash }) => (hash == null ? "not known" : <Transaction value={hash} chain={chain} />),
  };
  return [
    {
      title: "Time",
      cell: ({ time }) => (time === null ? "not known" : <time dateTime={time}>{clock(time)}</time>),
    },
    { title: "Block", isNumber: true, cell: (row) => whole(row.block) },
    ...(id === undefined ? [token] : []),
    { title: "From", cell: ({ from }) => ownerOr(from, "minted") },
    { title: "To", cell: ({ to }) => ownerOr(to, "burned") },
    { title: "Amount", isNumber: true, cell: ({ amount }) => plain(amount, 30) },
    ...(id === undefined ? [] : [transaction]),
  ];
}
