/** The owners of a collection by what they hold, with their shares, at one block. */
import { counted, whole } from "../parts/format.ts";
import { More, StatusLine } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { type CollectionAt, keyAt } from "../state/place.ts";
import { usePages } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { HolderTable } from "./holder-table.tsx";

const PAGE = 50;

interface HoldersOptions {
  readonly at: CollectionAt;
  /** True if a token has an amount: then the units decide the rank. */
  readonly isMulti: boolean;
}

export function HoldersPanel({ at, isMulti }: HoldersOptions) {
  const { client } = useSession();
  const holders = usePages([...keyAt(at), "holders"], (cursor, signal) =>
    client.holderPage(at, { limit: PAGE, as_of_block: at.block, cursor, signal }),
  );
  return (
    <QueryView of={holders} loading="Counting the owners…">
      {({ rows, page: { total, asOf }, isBusy, more }) => (
        <>
          <StatusLine>
            {counted(total, "owner")}
            {asOf === null ? "" : ` at block ${whole(asOf.block)}`}
            {isMulti ? ", by amount" : ""}
          </StatusLine>
          <HolderTable
            amounts={isMulti ? ["Token ids", "Amount"] : ["Tokens"]}
            rows={rows.map(({ tokens, units, ...row }) => ({
              ...row,
              amounts: isMulti ? [String(tokens), units] : [String(tokens)],
            }))}
            {...at}
          />
          <More {...{ isBusy, more }} />
        </>
      )}
    </QueryView>
  );
}
