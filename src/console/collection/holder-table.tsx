/** The table of owners by what they hold. */
import { cutInside, percent, whole } from "../parts/format.ts";
import { Owner } from "../parts/identifier.tsx";
import { Table } from "../parts/table.tsx";
import type { CollectionAt } from "../state/place.ts";

export interface HolderRow {
  /** Undefined where the rows are in another order. */
  readonly rank?: number;
  readonly owner: string;
  /** Decimal numbers. The last one decides the rank. */
  readonly amounts: readonly string[];
  /** From 0 to 1. */
  readonly share: number;
}

interface HolderTableOptions extends CollectionAt {
  /** Titles of the amounts. */
  readonly amounts: readonly string[];
  readonly rows: readonly HolderRow[];
}

export const HolderTable = ({ amounts: titles, rows, chain, address, block }: HolderTableOptions) => (
  <Table<HolderRow>
    label="Holders"
    columns={[
      ...(rows.some(({ rank }) => rank !== undefined)
        ? [{ title: "Rank", isNumber: true, cell: ({ rank = 0 }: HolderRow) => whole(rank) }]
        : []),
      {
        title: "Owner",
        cell: ({ owner }) => <Owner value={owner} collection={address} isLong={true} {...{ chain, block }} />,
      },
      ...titles.map((title, at) => ({
        ...{ title, isNumber: true },
        cell: ({ amounts }: HolderRow) => <Amount amount={amounts[at] ?? "0"} />,
      })),
      {
        title: "Share",
        isNumber: true,
        cell: ({ share }) => (
          <span class="share" style={{ "--share": `${share * 100}%` }}>
            {percent(share)}
          </span>
        ),
      },
    ]}
    rows={rows}
    keyOf={({ owner }) => owner}
    none="No account holds a token at this block."
  />
);

/** An amount has up to 78 digits. */
const MOST_DIGITS = 24;

const Amount = ({ amount }: { readonly amount: string }) => (
  <span title={amount}>{amount.length > MOST_DIGITS ? cutInside(amount, MOST_DIGITS) : whole(BigInt(amount))}</span>
);
