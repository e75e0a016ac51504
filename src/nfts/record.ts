/**
 * Entries of a listing as JSON text, in the field order of the contract. Text is put together from ready parts: nothing
 * is parsed or serialised that is the same on every row.
 */
import { TransferKind } from "../events/columns.ts";
import type { Collection } from "./collection.ts";
import type { Entry } from "./listing.ts";

export interface RecordStyle {
  /** Token ids in hex. */
  readonly hex: boolean;
  /** Flags as booleans. */
  readonly native: boolean;
}

const TYPE_NAMES: { readonly [kind: number]: string } = {
  [TransferKind.erc721]: "ERC721",
  [TransferKind.erc1155]: "ERC1155",
  [TransferKind.cryptopunks]: "CRYPTOPUNKS",
};

/** What is known beside the chain's own facts, each as JSON text; "" where it was not asked for. */
export interface TokenFacts {
  readonly tokenUri: string;
  readonly metadata: string;
  readonly normalized: string;
  readonly media: string;
  readonly uriSync: string;
  readonly metadataSync: string;
}

/** md5 of the lower-case contract address followed by the decimal id. */
export function tokenHash(address: string, id: string): string {
  return new Bun.CryptoHasher("md5").update(address).update(id).digest("hex");
}

/** The records of a page as a JSON list: one for each of `facts`, in the entries' order. */
export function encodeRecords(
  { address, collection }: { address: string; collection: Collection },
  entries: readonly Entry[],
  facts: readonly TokenFacts[],
  style: RecordStyle,
): string {
  const { ledger, identified } = collection;
  const flag = (value: boolean) => (style.native ? String(value) : `"${value}"`);
  const name = JSON.stringify(identified?.name ?? "");
  const symbol = JSON.stringify(identified?.symbol ?? "");
  const head = `{"token_address":"${address}","token_id":"`;
  const tail = `,"name":${name},"symbol":${symbol},"possible_spam":${flag(collection.possibleSpam)},"verified_collection":${flag(collection.verifiedCollection)},"last_token_uri_sync":`;
  const parts = facts.map((known, index) => {
    const entry = entries[index] as Entry;
    const id = style.hex ? `0x${BigInt(entry.id).toString(16)}` : entry.id;
    const owner = entry.owner < 0 ? "" : ledger.addresses.hex(entry.owner);
    const minter = entry.minter < 0 ? "ERC1155 tokens don't have a single minter" : ledger.addresses.hex(entry.minter);
    return `${head}${id}","owner_of":"${owner}","token_hash":"${tokenHash(address, entry.id)}","block_number":"${entry.block}","block_number_minted":"${entry.blockMinted}","contract_type":"${TYPE_NAMES[entry.kind]}","token_uri":${known.tokenUri},"metadata":${known.metadata},"normalized_metadata":${known.normalized || '""'},"media":${known.media || '""'},"minter_address":"${minter}","amount":"${entry.amount}"${tail}${known.uriSync},"last_metadata_sync":${known.metadataSync}}`;
  });
  return `[${parts.join(",")}]`;
}
