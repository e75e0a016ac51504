/** The owners of one token that has amounts, added up from its transfers. */
import { useState } from "preact/hooks";
import type { Client, TokenDetails } from "../../client/index.ts";
import { type HolderRow, HolderTable } from "../collection/holder-table.tsx";
import { counted, NO_OWNER, whole } from "../parts/format.ts";
import { More, Panel, StatusLine } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { keyAt, type TokenAt } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";

/** Rows that are shown at first. */
const PAGE = 50;
/** Entries of a token's history in one request, and the most requests for its holders: 10,000 transfers. */
const [HISTORY_PAGE, MOST_REQUESTS] = [500, 20];

/** The holders of a token with amounts. The browser adds up the token's transfers, because no route lists them for one id. */
export function TokenHolders(token: TokenAt) {
  const { client } = useSession();
  const [shown, setShown] = useState(PAGE);
  const holders = useQuery([...keyAt(token), "token holders", token.id], (signal) => holdersOf(client, token, signal));
  return (
    <Panel title="Holders">
      <QueryView of={holders} loading="Counting its holders…">
        {(rows) => (
          <>
            <StatusLine>
              {rows === null
                ? `The token has more than ${whole(HISTORY_PAGE * MOST_REQUESTS)} transfers. The listing of the collection has its holders.`
                : counted(rows.length, "holder")}
            </StatusLine>
            {rows === null ? null : <HolderTable amounts={["Amount"]} rows={rows.slice(0, shown)} {...token} />}
            <More more={rows === null || rows.length <= shown ? undefined : () => setShown(shown + PAGE)} />
          </>
        )}
      </QueryView>
    </Panel>
  );
}

/** The holders at one block, by amount; null if the token has too many transfers to add up. */
async function holdersOf(
  client: Client,
  { chain, address, id, block }: TokenAt,
  signal: AbortSignal,
): Promise<readonly HolderRow[] | null> {
  const transfers = [];
  let cursor: string | null | undefined;
  for (let request = 0; cursor !== null; request++) {
    if (request === MOST_REQUESTS) return null;
    const query = { limit: HISTORY_PAGE, as_of_block: block, cursor, signal };
    const page: TokenDetails = await client.token({ chain, address }, id, query);
    transfers.push(...page.history);
    cursor = page.cursor;
  }
  const amounts = new Map<string, bigint>();
  for (const { from, to, amount } of transfers.reverse()) {
    // A contract may announce that an owner sends more than it has. The service counts no owner below zero, either.
    const left = (amounts.get(from) ?? 0n) - BigInt(amount);
    amounts.set(from, left < 0n ? 0n : left);
    amounts.set(to, (amounts.get(to) ?? 0n) + BigInt(amount));
  }
  amounts.delete(NO_OWNER);
  const held = [...amounts].filter(([, amount]) => amount > 0n).sort(([, one], [, other]) => (one < other ? 1 : -1));
  const total = held.reduce((sum, [, amount]) => sum + amount, 0n);
  let rank = 1;
  return held.map(([owner, amount], place) => {
    if (amount !== held[place - 1]?.[1]) rank = place + 1;
    return { rank, owner, amounts: [String(amount)], share: Number(amount) / Number(total) };
  });
}
