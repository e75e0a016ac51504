/** Who holds what: the owners of a collection, and those of one token that has amounts. */
import { useState } from "preact/hooks";
import type { Client, Holder } from "../client/index.ts";
import { useAnswer, usePages } from "./hooks.ts";
import {
  apiPath,
  Curl,
  counted,
  cutInside,
  Failure,
  More,
  NO_OWNER,
  Owner,
  Panel,
  percent,
  Table,
  whole,
} from "./parts.tsx";
import { useSession } from "./session.ts";
import type { ListOptions } from "./views.tsx";

const PAGE = 50;

interface HoldersOptions extends ListOptions {
  /** True if a token has an amount: then the units decide the rank. */
  readonly isMulti: boolean;
}

/** The owners of a collection by what they hold, with their shares, at one block. */
export function HoldersPanel({ chain, address, block, turn, isMulti }: HoldersOptions) {
  const { client } = useSession();
  const { rows, page, error, isBusy, more } = usePages<Holder, Awaited<ReturnType<Client["holderPage"]>>>(
    (at, signal) => client.holderPage({ chain, address }, { limit: PAGE, ...at, signal }),
    block,
    // At a block of the past nothing changes.
    [chain, address, block === undefined ? turn : 0],
  );
  const asOf = page?.asOf ?? null;
  const path = apiPath(["collections", chain, address, "holders"], { limit: PAGE, as_of_block: asOf?.block });
  return (
    <>
      <Failure error={error} />
      <p role="status" class="quiet">
        {page === undefined || asOf === null
          ? "Counting…"
          : `${counted(page.total, "owner")} at block ${whole(asOf.block)}${isMulti ? ", by amount" : ""}`}
      </p>
      <HolderTable
        amounts={isMulti ? ["Token ids", "Amount"] : ["Tokens"]}
        rows={rows.map(({ tokens, units, ...row }) => ({
          ...row,
          amounts: isMulti ? [String(tokens), units] : [String(tokens)],
        }))}
        {...{ chain, address, block }}
      />
      <More {...{ isBusy, more }} />
      <Curl requests={[{ path }]} />
    </>
  );
}

interface HolderRow {
  readonly rank: number;
  readonly owner: string;
  /** Decimal numbers, the last of which decides the rank. */
  readonly amounts: readonly string[];
  /** From 0 to 1. */
  readonly share: number;
}

interface HolderTableOptions extends Omit<ListOptions, "turn"> {
  /** Titles of the amounts. */
  readonly amounts: readonly string[];
  readonly rows: readonly HolderRow[];
}

function HolderTable({ amounts: titles, rows, chain, address, block }: HolderTableOptions) {
  return (
    <Table label="Holders" titles={["Rank", "Owner", ...titles, "Share"]} numbers={["Rank", ...titles, "Share"]}>
      {rows.map(({ rank, owner, amounts, share }) => (
        <tr key={owner}>
          <td class="number">{whole(rank)}</td>
          <td>
            <Owner value={owner} collection={address} isLong={true} {...{ chain, block }} />
          </td>
          {amounts.map((amount, at) => (
            <td key={titles[at]} class="number" title={amount}>
              {amount.length > MOST_DIGITS ? cutInside(amount, MOST_DIGITS) : whole(BigInt(amount))}
            </td>
          ))}
          <td class="number share">
            <div style={{ width: `${share * 100}%` }} />
            <span>{percent(share)}</span>
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** An amount has up to 78 digits. */
const MOST_DIGITS = 24;
/** Entries of a token's history in one request, and the most requests for its holders: 10,000 transfers. */
const [HISTORY_PAGE, MOST_REQUESTS] = [500, 20];

interface TokenHoldersOptions extends Omit<ListOptions, "turn"> {
  readonly id: string;
}

/** The holders of a token with amounts. The browser adds up the token's transfers, because no route lists them for one id. */
export function TokenHolders({ chain, address, id, block }: TokenHoldersOptions) {
  const { client } = useSession();
  const [shown, setShown] = useState(PAGE);
  const { value, error } = useAnswer(
    (signal) => holdersOf(client, { chain, address, id, block }, signal),
    [chain, address, id, block],
  );
  const listing = { chain, holders: true, limit: HISTORY_PAGE, as_of_block: block };
  return (
    <Panel title="Holders">
      <Failure error={error} />
      <p role="status" class="quiet">
        {value === undefined
          ? "Counting…"
          : value === null
            ? `The token has more than ${whole(HISTORY_PAGE * MOST_REQUESTS)} transfers. The listing of the collection has its holders.`
            : counted(value.length, "holder")}
      </p>
      {value == null ? null : (
        <HolderTable amounts={["Amount"]} rows={value.slice(0, shown)} {...{ chain, address, block }} />
      )}
      <More more={value == null || value.length <= shown ? undefined : () => setShown(shown + PAGE)} />
      <Curl requests={[{ path: apiPath(["v2", "nft", address], listing) }]} />
    </Panel>
  );
}

/** The holders at one block, by amount; null if the token has too many transfers to add up. */
async function holdersOf(
  client: Client,
  { chain, address, id, block }: TokenHoldersOptions,
  signal: AbortSignal,
): Promise<readonly HolderRow[] | null> {
  const transfers = [];
  let cursor: string | null | undefined;
  for (let request = 0; cursor !== null; request++) {
    if (request === MOST_REQUESTS) return null;
    const at = cursor === undefined ? { as_of_block: block } : { cursor };
    const page = await client.token({ chain, address }, id, { limit: HISTORY_PAGE, ...at, signal });
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
