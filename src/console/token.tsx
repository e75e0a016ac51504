/** A token: its picture, traits, the line of its owners, and its metadata as it was. */
import { useEffect, useState } from "preact/hooks";
import type { NftRecord, TokenTransfer } from "../client/index.ts";
import { plain, whole } from "./format.ts";
import { nameOf, Picture } from "./gallery.tsx";
import { blockIn, useAction, useAnswer, useQuery, useSession } from "./hooks.ts";
import { Attempts, Attributes } from "./metadata.tsx";
import { Address, Curl, Fact, Failure, linkTo, Panel } from "./parts.tsx";

const ZERO = `0x${"0".repeat(40)}`;

interface TokenOptions {
  readonly chain: string;
  readonly address: string;
  readonly id: string;
}

export function TokenScreen({ chain, address, id }: TokenOptions) {
  const { client, scope } = useSession();
  const block = blockIn(useQuery()[0]);
  const at = block === undefined ? {} : { as_of_block: block };
  const { value, error, reload } = useAnswer(
    (signal) => client.token({ chain, address }, id, { ...at, signal }),
    [chain, address, id, block],
  );
  const [older, setOlder] = useState<{ readonly rows: readonly TokenTransfer[]; readonly cursor: string | null }>();
  useEffect(() => setOlder(undefined), [block]);
  const [state, run, isBusy] = useAction();
  const record = value?.record;
  const search = block === undefined ? "" : `?as_of_block=${block}`;
  const cursor = older === undefined ? (value?.cursor ?? null) : older.cursor;
  const more = () =>
    run(async () => {
      const page = await client.token({ chain, address }, id, { cursor: cursor as string });
      setOlder((before) => ({ rows: [...(before?.rows ?? []), ...page.history], cursor: page.cursor }));
      return "";
    });
  const refresh = () =>
    run(async () => {
      await client.refresh({ chain, address }, [id]);
      reload();
      return "Its metadata is fetched again.";
    });
  return (
    <>
      <p>
        <a href={linkTo.collection(chain, address, block)}>{plain(record?.name ?? "", 60) || "The collection"}</a>
      </p>
      <h1>{record === undefined ? `Token ${plain(id, 30)}` : nameOf(record)}</h1>
      {block === undefined ? null : (
        <p>
          After block {whole(block)}. <a href={linkTo.token(chain, address, id)}>Show the newest block</a>
        </p>
      )}
      <Failure error={error} />
      {record === undefined ? null : <Details record={record} />}
      {value === undefined ? null : (
        <>
          <Panel title="Owners, newest first">
            <History rows={[...value.history, ...(older?.rows ?? [])]} />
            {cursor === null ? null : (
              <button type="button" disabled={isBusy} onClick={more}>
                Older
              </button>
            )}
          </Panel>
          <Panel title="Attempts to fetch the metadata">
            <p class="quiet">Choose a time to see the metadata as it was known then.</p>
            <Attempts of={{ chain, address, id, block }} attempts={value.metadata} />
            {scope === "operate" ? (
              <button type="button" disabled={isBusy} onClick={refresh}>
                Fetch it again
              </button>
            ) : null}{" "}
            <span role="status">{state}</span>
          </Panel>
        </>
      )}
      <Curl requests={[{ path: `/api/collections/${chain}/${address}/tokens/${id}${search}` }]} />
    </>
  );
}

function Details({ record }: { readonly record: NftRecord }) {
  const metadata = record.normalized_metadata === "" ? undefined : record.normalized_metadata;
  return (
    <div class="details">
      <Picture record={record} size="high" pixels={280} />
      <div>
        {metadata?.description == null ? null : <p class="description">{plain(metadata.description, 1_000)}</p>}
        <dl class="facts">
          <Fact name="Id">
            <code>{plain(record.token_id)}</code>
          </Fact>
          <Fact name="Owner">
            {record.owner_of === "" ? `${record.amount} in all` : <Address value={record.owner_of} />}
          </Fact>
          <Fact name="Minted">block {whole(Number(record.block_number_minted))}</Fact>
          <Fact name="Last transfer">block {whole(Number(record.block_number))}</Fact>
          <Fact name="Token URI" isWide>
            <code>{plain(record.token_uri ?? "none", 200)}</code>
          </Fact>
        </dl>
        <Attributes record={record} />
      </div>
    </div>
  );
}

/** Each owner with the block from which on it held the token. */
function History({ rows }: { readonly rows: readonly TokenTransfer[] }) {
  return (
    <ol class="line">
      {rows.map(({ block, from, to, amount }, at) => (
        <li key={at}>
          <span>block {whole(block)}</span> {from === ZERO ? "minted to " : to === ZERO ? "burnt by " : ""}
          <code>{to === ZERO ? from : to}</code>
          {amount === "1" ? "" : ` × ${plain(amount, 30)}`}
        </li>
      ))}
    </ol>
  );
}
