/** A token at a block: its picture, facts and traits, its holders, its transfers, and the state of its metadata. */
import type { NftRecord, TokenDetails } from "../../client/index.ts";
import { isMulti, Picture, tokenName } from "../collection/picture.tsx";
import { Transfers } from "../collection/transfers.tsx";
import { Action } from "../parts/action.tsx";
import { NO_OWNER, plain, whole } from "../parts/format.ts";
import { AddressLink, Owner } from "../parts/identifier.tsx";
import { LongHeading } from "../parts/long-heading.tsx";
import { ChainNotice } from "../parts/notice.tsx";
import { Fact, Panel } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { blockIn, linkTo, type TokenAt, useParameters } from "../state/place.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { Attempts } from "./metadata-attempts.tsx";
import { Neighbours } from "./neighbours.tsx";
import { Animation, OutLink } from "./out-link.tsx";
import { TokenHolders } from "./token-holders.tsx";
import { TokenProof } from "./token-proof.tsx";
import { Traits } from "./traits.tsx";

export function TokenScreen({ chain, address, id }: Omit<TokenAt, "block">) {
  const { client } = useSession();
  const block = blockIn(useParameters()[0]);
  const token = useQuery(["token", chain, address, id, block], (signal) =>
    client.token({ chain, address }, id, { limit: 1, as_of_block: block, signal }),
  );
  const record = readyValue(token)?.record;
  const at = { chain, address, id, block };
  return (
    <>
      <ChainNotice chain={chain} />
      <p>
        <a class="above" href={linkTo.collection(chain, address, block)}>
          {plain(record?.name ?? "", 60) || "The collection"}
        </a>
      </p>
      <LongHeading name={record === undefined ? "" : tokenName(record)} none={`Token ${plain(id, 30)}`} />
      {token.kind === "ready" ? <Neighbours {...at} /> : null}
      {block === undefined ? null : (
        <p>
          At block {whole(block)}. <a href={linkTo.token(chain, address, id)}>Show the newest block</a>
        </p>
      )}
      <QueryView of={token} loading="Asking for the token…">
        {(value) => <TokenParts {...value} at={at} />}
      </QueryView>
    </>
  );
}

function TokenParts({ record, locked, history, metadata, at }: TokenDetails & { readonly at: TokenAt }) {
  const { client, scope, reload } = useSession();
  const { chain, address, id } = at;
  const refresh = async () => {
    await client.refresh({ chain, address }, [id]);
    reload("token", chain, address, id);
    return "Its metadata is fetched again.";
  };
  const isOfMany = record !== undefined && isMulti(record);
  return (
    <>
      {record === undefined ? <Absence newest={history[0]} /> : <Details record={record} at={at} locked={locked} />}
      {isOfMany ? <TokenHolders {...at} supply={record.amount} /> : null}
      <Panel title="Transfers, newest first">
        <Transfers {...at} />
      </Panel>
      <Panel title="Attempts to fetch the metadata">
        {metadata.length === 0 ? null : <p class="quiet">Choose a time to see the metadata as it was known then.</p>}
        <Attempts of={at} attempts={metadata} isBurned={record === undefined} />
        {scope === "operate" && record !== undefined ? <Action name="Refresh metadata" work={refresh} /> : null}
      </Panel>
      <TokenProof at={at} hasAmounts={isOfMany} />
    </>
  );
}

/** Why a token has no record at the block. */
const Absence = ({ newest }: { readonly newest: TokenDetails["history"][number] | undefined }) => (
  <p>
    {newest?.to === NO_OWNER ? `Burned in block ${whole(newest.block)}.` : "The token does not exist at this block."}
  </p>
);

interface DetailsOptions {
  readonly record: NftRecord;
  readonly at: TokenAt;
  readonly locked: boolean | null;
}

function Details({ record, at, locked }: DetailsOptions) {
  const { chain, address, block } = at;
  const { owner_of: owner, media } = record;
  const metadata = record.normalized_metadata === "" ? undefined : record.normalized_metadata;
  const original = (media === "" ? null : media.original_media_url) ?? metadata?.image;
  const page = metadata?.external_url ?? metadata?.external_link;
  return (
    <div class="details">
      <Picture record={record} pixels={280} />
      <div>
        {metadata?.description == null ? null : <p>{plain(metadata.description, 1_000)}</p>}
        <dl>
          <Fact name="Token id">
            <code>{plain(record.token_id)}</code>
          </Fact>
          <Fact name="Contract">
            <AddressLink value={address} chain={chain} />
          </Fact>
          <Fact name="Standard">{record.contract_type}</Fact>
          {isMulti(record) ? <Fact name="Supply">{plain(record.amount)}</Fact> : null}
          {owner === "" ? null : (
            <Fact name="Owner">
              <Owner value={owner} collection={address} {...{ chain, block }} />
            </Fact>
          )}
          <Fact name="Minted">block {whole(Number(record.block_number_minted))}</Fact>
          <Fact name="Last transfer">block {whole(Number(record.block_number))}</Fact>
          {locked === null ? null : <Fact name="Locked">{locked ? "yes, it can't be transferred" : "no"}</Fact>}
          {original == null ? null : (
            <Fact name="Original picture">
              <OutLink url={original} />
            </Fact>
          )}
          {metadata?.animation_url == null ? null : (
            <Fact name="Animation">
              <Animation url={metadata.animation_url} />
            </Fact>
          )}
          {page == null ? null : (
            <Fact name="Its own page">
              <OutLink url={page} />
            </Fact>
          )}
          <Fact name="Token URI" isLong>
            <code>{plain(record.token_uri ?? "none", 200)}</code>
          </Fact>
        </dl>
        <Traits {...{ record, at }} />
      </div>
    </div>
  );
}
