/**
 * The columns of both tables of an export, and the rows of holders. `token-lines.ts` writes those of tokens.
 */
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

export const holderRow = ({ rank, owner, tokens, units, share }: RankedHolder): ExportRow => [
  rank,
  owner,
  tokens,
  String(units),
  share,
];
