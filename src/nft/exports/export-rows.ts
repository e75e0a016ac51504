/** The columns of both tables of an export, and their rows from the columns of a ledger and a ranking. */
import { ADDRESS_BYTES } from "../../core/hex.ts";
import { CONTRACT_TYPES, type TransferKind } from "../../events/columns.ts";
import type { Column, ExportRow } from "./formats.ts";
import { type HolderColumns, holdersOfColumns } from "./holder-columns.ts";
import { type ExportedFacts, type ExportedTokens, NUMBERS_PER_TOKEN, PARTIES_PER_TOKEN } from "./token-columns.ts";

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

/** Hex digits of an address. */
const PARTY_DIGITS = 2 * ADDRESS_BYTES;

/** The rows of tokens, as `TOKEN_COLUMNS` names their cells. */
export function tokenRows({ count, kinds, numbers, large, parties, known, facts }: ExportedTokens): ExportRow[] {
  let next = 0;
  const amountAt = (at: number): string => {
    const number = numbers[at] as number;
    return String(Number.isNaN(number) ? large[next++] : number);
  };
  const digits = new Uint8Array(parties.buffer).toHex();
  const partyAt = (at: number): string | null =>
    known[at] === 1 ? `0x${digits.slice(at * PARTY_DIGITS, (at + 1) * PARTY_DIGITS)}` : null;
  const rows: ExportRow[] = [];
  for (let at = 0; at < count; at++) {
    const [number, party] = [at * NUMBERS_PER_TOKEN, at * PARTIES_PER_TOKEN];
    // `large` has the id before the amount.
    const id = amountAt(number);
    const amount = amountAt(number + 1);
    const type = CONTRACT_TYPES[kinds[at] as TransferKind] ?? null;
    const [block, minted] = [numbers[number + 2] as number, numbers[number + 3] as number];
    const [owner, minter] = [partyAt(party), partyAt(party + 1)];
    const [uri, metadata, uriSync, metadataSync] = cellsOf(facts[at]);
    rows.push([id, type, owner, amount, block, minted, minter, uri, metadata, uriSync, metadataSync]);
  }
  return rows;
}

type Text = string | null;

const NO_FACTS: readonly [Text, Text, Text, Text] = [null, null, null, null];

function cellsOf(facts: ExportedFacts | undefined): readonly [Text, Text, Text, Text] {
  if (facts === undefined) return NO_FACTS;
  const { tokenUri, metadata, uriSync, metadataSync } = facts;
  return [textIn(tokenUri), textIn(metadata), textIn(uriSync), textIn(metadataSync)];
}

const textIn = (json: string): Text => JSON.parse(json) as Text;
