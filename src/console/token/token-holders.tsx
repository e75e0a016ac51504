/** The owners of one token that has amounts: by amount if all are read, else those that came last first. */
import type { TokenHolder } from "../../client/index.ts";
import { type HolderRow, HolderTable } from "../collection/holder-table.tsx";
import { counted } from "../parts/format.ts";
import { More, Panel, StatusLine } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { keyAt, type TokenAt } from "../state/place.ts";
import { usePages } from "../state/query.ts";
import { useSession } from "../state/session.ts";

const PAGE = 200;

const rowOf = ({ owner, amount }: TokenHolder, supply: string): HolderRow => ({
  ...{ owner, amounts: [amount], share: Number(amount) / Number(supply) },
});

/** Equal amounts share a rank. */
function ranked(holders: readonly TokenHolder[], supply: string): readonly HolderRow[] {
  const sorted = [...holders].sort((one, other) => (BigInt(one.amount) < BigInt(other.amount) ? 1 : -1));
  return sorted.map((holder) => ({
    ...rowOf(holder, supply),
    rank: 1 + sorted.findIndex(({ amount }) => amount === holder.amount),
  }));
}

/** @param supply what is in circulation of the token */
export function TokenHolders({ supply, ...token }: TokenAt & { readonly supply: string }) {
  const { client } = useSession();
  const holders = usePages([...keyAt(token), "token holders", token.id], (cursor, signal) =>
    client.tokenHolderPage(token, token.id, { limit: PAGE, as_of_block: token.block, cursor, signal }),
  );
  return (
    <Panel title="Holders">
      <QueryView of={holders} loading="Asking for its holders…">
        {({ rows, page: _, ...reading }) => (
          <>
            <StatusLine>
              {counted(rows.length, "holder")}
              {reading.more === undefined ? "" : " so far"}
            </StatusLine>
            <HolderTable
              amounts={["Amount"]}
              rows={reading.more === undefined ? ranked(rows, supply) : rows.map((row) => rowOf(row, supply))}
              {...token}
            />
            <More {...reading} />
          </>
        )}
      </QueryView>
    </Panel>
  );
}
