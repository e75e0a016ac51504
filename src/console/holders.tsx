/** The owners of a collection by what they hold, with their shares, at one block. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { AsOf, Holder } from "../client/index.ts";
import { counted, percent, whole } from "./format.ts";
import { useSession } from "./hooks.ts";
import { Curl, Failure, LongAddress, Scroll } from "./parts.tsx";

const PAGE = 50;

interface HoldersOptions {
  readonly chain: string;
  readonly address: string;
  readonly block: number | undefined;
  /** Counts the changes at the newest block. */
  readonly turn: number;
}

interface Listed {
  readonly rows: readonly Holder[];
  readonly total: number;
  readonly cursor: string | null;
  readonly asOf: AsOf | null;
}

const NOTHING: Listed = { rows: [], total: 0, cursor: null, asOf: null };

export function HoldersPanel({ chain, address, block, turn }: HoldersOptions) {
  const { client } = useSession();
  const [listed, setListed] = useState(NOTHING);
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(true);
  const stopping = useRef(new AbortController());
  const { rows, total, cursor, asOf } = listed;
  /** Reads on from a page until there are `count` rows, and shows them at once. */
  const read = async (before: Listed, count: number) => {
    stopping.current.abort();
    stopping.current = new AbortController();
    const { signal } = stopping.current;
    setBusy(true);
    try {
      let now = before;
      do {
        const at = block === undefined ? {} : { as_of_block: block };
        const after = now.cursor === null ? at : { cursor: now.cursor };
        const page = await client.holderPage({ chain, address }, { limit: PAGE, ...after, signal });
        now = { ...page, rows: [...now.rows, ...page.result] };
      } while (now.cursor !== null && now.rows.length < count);
      setListed(now);
      setError(undefined);
    } catch (failure) {
      if (!signal.aborted) setError(failure as Error);
    } finally {
      if (!signal.aborted) setBusy(false);
    }
  };
  // At a block of the past nothing changes. A newer block gets as many rows as are shown.
  const version = block === undefined ? turn : 0;
  useEffect(() => void read(NOTHING, rows.length), [chain, address, block, version]);
  useEffect(() => () => stopping.current.abort(), []);
  const path = `/api/collections/${chain}/${address}/holders?limit=${PAGE}`;
  return (
    <>
      <Failure error={error} />
      <p role="status" class="quiet">
        {asOf === null ? "Counting…" : `${counted(total, "owner")} after block ${whole(asOf.block)}`}
      </p>
      <Scroll label="Holders">
        <table>
          <thead>
            <tr>
              <th scope="col" class="number">
                Rank
              </th>
              <th scope="col">Owner</th>
              <th scope="col" class="number">
                Tokens
              </th>
              <th scope="col" class="number">
                Share
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ rank, owner, tokens, share }) => (
              <tr key={owner}>
                <td class="number">{whole(rank)}</td>
                <td>
                  <LongAddress value={owner} />
                </td>
                <td class="number">{whole(tokens)}</td>
                <td class="number share">
                  <div style={{ width: `${share * 100}%` }} />
                  <span>{percent(share)}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {cursor === null ? null : (
        <button type="button" disabled={isBusy} onClick={() => read(listed, rows.length + PAGE)}>
          More
        </button>
      )}
      <Curl requests={[{ path: asOf === null ? path : `${path}&as_of_block=${asOf.block}` }]} />
    </>
  );
}
