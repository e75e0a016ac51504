/** A token at a block: its picture, traits, holders, transfers, and the attempts to fetch its metadata. */
import type { NftRecord, TokenDetails } from "../../client/index.ts";
import { Attributes } from "../collection/attributes.tsx";
import { isMulti, Picture, tokenName } from "../collection/picture.tsx";
import { Transfers } from "../collection/transfers.tsx";
import { Action } from "../parts/action.tsx";
import { plain, whole } from "../parts/format.ts";
import { Owner } from "../parts/identifier.tsx";
import { ChainNotice } from "../parts/notice.tsx";
import { Fact, Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { blockIn, linkTo, type TokenAt, useParameters } from "../state/place.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { Attempts } from "./metadata-attempts.tsx";
import { TokenHolders } from "./token-holders.tsx";
import { TokenProof } from "./token-proof.tsx";

export function TokenScreen({ chain, address, id }: Omit<TokenAt, "block">) {
  const { client } = useSession();
  const block = blockIn(useParameters()[0]);
  const token = useQuery(["token", chain, address, id, block], (signal) =>
    client.token({ chain, address }, id, { limit: 1, as_of_block: block, signal }),
  );
  const record = readyValue(token)?.record;
  return (
    <>
      <ChainNotice chain={chain} />
      <p>
        <a href={linkTo.collection(chain, address, block)}>{plain(record?.name ?? "", 60) || "The collection"}</a>
      </p>
      <h1>{record === undefined ? `Token ${plain(id, 30)}` : tokenName(record)}</h1>
      {block === undefined ? null : (
        <p>
          At block {whole(block)}. <a href={linkTo.token(chain, address, id)}>Show the newest block</a>
        </p>
      )}
      <QueryView of={token} loading="Asking for the token…">
        {(value) => <TokenParts {...value} at={{ chain, address, id, block }} />}
      </QueryView>
    </>
  );
}

function TokenParts({ record, locked, metadata, at }: TokenDetails & { readonly at: TokenAt }) {
  const { client, scope, reload } = useSession();
  const { chain, address, id } = at;
  const refresh = async () => {
    await client.refresh({ chain, address }, [id]);
    reload("token", chain, address, id);
    return "Its metadata is fetched again.";
  };
  return (
    <>
      {record === undefined ? null : <Details record={record} {...at} locked={locked ?? null} />}
      {record !== undefined && isMulti(record) ? <TokenHolders {...at} /> : null}
      <TokenProof at={at} hasAmounts={record !== undefined && isMulti(record)} />
      <Panel title="Transfers, newest first">
        <Transfers {...at} />
      </Panel>
      <Panel title="Attempts to fetch the metadata">
        <p class="quiet">Choose a time to see the metadata as it was known then.</p>
        <Attempts of={at} attempts={metadata} />
        {scope === "operate" ? <Action name="Refresh metadata" work={refresh} /> : null}
      </Panel>
    </>
  );
}

interface DetailsOptions extends Omit<TokenAt, "id"> {
  readonly record: NftRecord;
  readonly locked: boolean | null;
}

function Details({ record, locked, chain, address, block }: DetailsOptions) {
  const owner = record.owner_of;
  const metadata = record.normalized_metadata === "" ? undefined : record.normalized_metadata;
  return (
    <div class="details">
      <Picture record={record} pixels={280} />
      <div>
        {metadata?.description == null ? null : <p>{plain(metadata.description, 1_000)}</p>}
        <dl>
          <Fact name="Token id">
            <code>{plain(record.token_id)}</code>
          </Fact>
          {isMulti(record) ? <Fact name="Supply">{plain(record.amount)}</Fact> : null}
          {owner === "" ? null : (
            <Fact name="Owner">
              <Owner value={owner} collection={address} {...{ chain, block }} />
            </Fact>
          )}
          <Fact name="Minted">block {whole(Number(record.block_number_minted))}</Fact>
          <Fact name="Last transfer">block {whole(Number(record.block_number))}</Fact>
          {locked === null ? null : <Fact name="Locked">{locked ? "yes, it can't be transferred" : "no"}</Fact>}
          <Fact name="Token URI" isLong>
            <code>{plain(record.token_uri ?? "none", 200)}</code>
          </Fact>
        </dl>
        <Attributes record={record} />
      </div>
    </div>
  );
}
