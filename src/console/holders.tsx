/** The owners of a collection by what they hold, with their shares, at one block. */
import { useEffect, useState } from "preact/hooks";
import type { AsOf, Holder } from "../client/index.ts";
import { counted, percent, whole } from "./format.ts";
import { useSession } from "./hooks.ts";
import { Curl, Failure, Scroll } from "./parts.tsx";

const PAGE = 50;

interface HoldersOptions {
  readonly chain: string;
  readonly address: string;
  readonly block: number | undefined;
}

interface Listed {
  readonly rows: readonly Holder[];
  readonly total: number;
  readonly cursor: string | null;
  readonly asOf: AsOf | null;
}

const NOTHING: Listed = { rows: [], total: 0, cursor: null, asOf: null };

export function HoldersPanel({ chain, address, block }: HoldersOptions) {
  const { client } = useSession();
  const [{ rows, total, cursor, asOf }, setListed] = useState(NOTHING);
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(true);
  const read = async (after: string | undefined, signal?: AbortSignal) => {
    const at = block === undefined ? {} : { as_of_block: block };
    const query = { limit: PAGE, ...at, ...(after === undefined ? {} : { cursor: after }), ...(signal && { signal }) };
    const page = await client.holderPage({ chain, address }, query);
    setListed((before) => ({ ...page, rows: [...(after === undefined ? [] : before.rows), ...page.result] }));
  };
  const run = (after: string | undefined, signal?: AbortSignal) => {
    setBusy(true);
    read(after, signal)
      .catch((failure: Error) => signal?.aborted === true || setError(failure))
      .finally(() => setBusy(false));
  };
  useEffect(() => {
    const controller = new AbortController();
    run(undefined, controller.signal);
    return () => controller.abort();
  }, [chain, address, block]);
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
                  <code>{owner}</code>
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
        <button type="button" disabled={isBusy} onClick={() => run(cursor)}>
          More
        </button>
      )}
      <Curl requests={[{ path: asOf === null ? path : `${path}&as_of_block=${asOf.block}` }]} />
    </>
  );
}
