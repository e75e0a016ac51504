/** The columns of both tables of an export, and their rows from the columns of a ledger and a ranking. */
import { ADDRESS_BYTES, bytesToHex } from "../../core/hex.ts";
import { CONTRACT_TYPES, type TransferKind } from "../../events/columns.ts";
import type { Column, ExportRow } from "./formats.ts";
import { type HolderColumns, holdersOfColumns } from "./holder-columns.ts";
import { type ExportedFacts, NUMBERS_PER_TOKEN, PARTIES_PER_TOKEN, type TokenColumns } from "./token-columns.ts";

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

export const holderRows = (holders: HolderColumns): ExportRow[] =>
  holdersOfColumns(holders).map(({ rank, owner, tokens, units, share }) => [rank, owner, tokens, String(units), share]);

/** The rows of tokens, as `TOKEN_COLUMNS` names their cells. */
export function tokenRows({ count, kinds, numbers, large, parties, known, facts }: TokenColumns): ExportRow[] {
  let next = 0;
  const amountAt = (at: number): string => {
    const number = numbers[at] as number;
    return String(Number.isNaN(number) ? large[next++] : number);
  };
  const partyAt = (at: number): string | null =>
    known[at] === 1 ? bytesToHex(parties.subarray(at * ADDRESS_BYTES, (at + 1) * ADDRESS_BYTES)) : null;
  const rows: ExportRow[] = [];
  for (let at = 0; at < count; at++) {
    const [number, party] = [at * NUMBERS_PER_TOKEN, at * PARTIES_PER_TOKEN];
    // In this order, in which the large ones stand.
    const [id, amount] = [amountAt(number), amountAt(number + 1)];
    rows.push([
      ...[id, CONTRACT_TYPES[kinds[at] as TransferKind] ?? null, partyAt(party), amount],
      ...[numbers[number + 2] as number, numbers[number + 3] as number, partyAt(party + 1)],
      ...cellsOf(facts[at]),
    ]);
  }
  return rows;
}

const NO_FACTS: ExportRow = [null, null, null, null];

function cellsOf(facts: ExportedFacts | undefined): ExportRow {
  if (facts === undefined) return NO_FACTS;
  const { tokenUri, metadata, uriSync, metadataSync } = facts;
  return [tokenUri, metadata, uriSync, metadataSync].map((json) => JSON.parse(json) as string | null);
}
