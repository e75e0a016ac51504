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
  readonly normalizeMetadata: boolean;
  readonly mediaItems: boolean;
  /** Flags as booleans. */
  readonly native: boolean;
}

const TYPE_NAMES: { readonly [kind: number]: string } = {
  [TransferKind.erc721]: "ERC721",
  [TransferKind.erc1155]: "ERC1155",
  [TransferKind.cryptopunks]: "CRYPTOPUNKS",
};

/** Metadata nobody has resolved: the shape with nothing in it. */
const NO_NORMALIZED =
  '{"name":null,"description":null,"image":null,"external_link":null,"external_url":null,"animation_url":null,"attributes":[]}';
const NO_MEDIA =
  '{"status":"processing","mimetype":null,"category":null,"original_media_url":null,"parent_hash":null,"updatedAt":null,"media_collection":null}';

/** md5 of the lower-case contract address followed by the decimal id. */
export function tokenHash(address: string, id: string): string {
  return new Bun.CryptoHasher("md5").update(address).update(id).digest("hex");
}

/** The records of a page as a JSON list. */
export function encodeRecords(
  address: string,
  collection: Collection,
  entries: readonly Entry[],
  style: RecordStyle,
): string {
  const { ledger, identified } = collection;
  const flag = (value: boolean) => (style.native ? String(value) : `"${value}"`);
  const name = JSON.stringify(identified?.name ?? "");
  const symbol = JSON.stringify(identified?.symbol ?? "");
  const head = `{"token_address":"${address}","token_id":"`;
  const metadata = `"token_uri":null,"metadata":null,"normalized_metadata":${style.normalizeMetadata ? NO_NORMALIZED : '""'},"media":${style.mediaItems ? NO_MEDIA : '""'},"minter_address":"`;
  const tail = `,"name":${name},"symbol":${symbol},"possible_spam":${flag(collection.possibleSpam)},"verified_collection":${flag(collection.verifiedCollection)},"last_token_uri_sync":null,"last_metadata_sync":null}`;
  const parts = entries.map((entry) => {
    const id = style.hex ? `0x${BigInt(entry.id).toString(16)}` : entry.id;
    const owner = entry.owner < 0 ? "" : ledger.addresses.hex(entry.owner);
    const minter = entry.minter < 0 ? "ERC1155 tokens don't have a single minter" : ledger.addresses.hex(entry.minter);
    return `${head}${id}","owner_of":"${owner}","token_hash":"${tokenHash(address, entry.id)}","block_number":"${entry.block}","block_number_minted":"${entry.blockMinted}","contract_type":"${TYPE_NAMES[entry.kind]}",${metadata}${minter}","amount":"${entry.amount}"${tail}`;
  });
  return `[${parts.join(",")}]`;
}
