/**
 * The columns of both tables of an export, and the rows of tokens and of holders. In: a batch of a walk, or ranked
 * holders. Out: rows of cells.
 */
import { CONTRACT_TYPES } from "../../events/columns.ts";
import type { Entry } from "../ledger/entries.ts";
import type { RecordFacts } from "../listings/record.ts";
import type { WalkBatch } from "../walks/walk.ts";
import type { RankedHolder } from "./holders.ts";
import type { Column, ExportRow } from "./parquet-worker.ts";

const column = (type: Column["type"]) => (name: string) => ({ name, type });
const text = column("text");
const count = column("count");
const time = column("time");

/** Ids and amounts are decimal text: they have up to 256 bits. */
export const TOKEN_COLUMNS: readonly Column[] = [
  ...["token_id", "contract_type", "owner_of", "amount"].map(text),
  ...["block_number", "block_number_minted"].map(count),
  ...["minter_address", "token_uri", "metadata"].map(text),
  ...["last_token_uri_sync", "last_metadata_sync"].map(time),
];

export const HOLDER_COLUMNS: readonly Column[] = [
  count("rank"),
  text("owner"),
  count("tokens"),
  text("units"),
  { name: "share", type: "share" },
];

/** The rows of a batch of tokens. Several holders, and the minter of such a token, are null. */
export function tokenRows({ collection, entries, facts }: WalkBatch<RecordFacts>): ExportRow[] {
  const { ledger } = collection;
  const hex = (owner: number) => (owner < 0 ? null : ledger.addresses.hex(owner));
  return entries.map(({ id, kind, owner, amount, block, blockMinted, minter }: Entry, at) => {
    const { tokenUri = "null", metadata = "null", uriSync = "null", metadataSync = "null" } = facts[at] ?? {};
    const known = [tokenUri, metadata, uriSync, metadataSync].map((json) => JSON.parse(json) as string | null);
    return [
      String(id),
      CONTRACT_TYPES[kind] ?? null,
      hex(owner),
      String(amount),
      block,
      blockMinted,
      hex(minter),
      ...known,
    ];
  });
}

export const holderRow = ({ rank, owner, tokens, units, share }: RankedHolder): ExportRow => [
  rank,
  owner,
  tokens,
  String(units),
  share,
];
